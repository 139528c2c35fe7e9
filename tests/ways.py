"""Which end-to-end files `make test` runs: of each capability one way through the real control plane.

A newcomer runs `make test` and waits for it. It has all rules, as functions of values. The others that need
a control plane are for `make test-rest`: faults, races, programs of other projects, and the other ways of a
capability. `make test-all` is both, and all else that `.ci/run` runs.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

HERE = Path(__file__).parent

#: Files, and folders of files, by the capability.
WAYS = (
    # Installation, rights and fields.
    "e2e/manifests",
    "e2e/localcluster/test_with_the_server.py",
    "e2e/server/test_callers.py",
    # Who is a member.
    "e2e/membership/test_belonging_to_a_queue.py",
    # Stops, and what they promise.
    "e2e/acknowledgement/test_stop_in_mid_flow.py",
    "e2e/stops/test_parked_pods.py",
    "e2e/stops/test_resuming_lets_all_go.py",
    "e2e/stops/test_stopping_a_tree.py",
    "e2e/closing/test_closing_a_queue.py",
    "e2e/commands/test_command_order_and_rights.py",
    "e2e/windows/test_both_edges.py",
    # Drains.
    "e2e/drain/test_draining_gangs_and_budgets.py",
    # Scheduling policies.
    "e2e/policies/test_actions_of_policies.py",
    # Quotas, gangs, and giving back.
    "e2e/quota/test_gangs.py",
    "e2e/quota/test_giving_back.py",
    "e2e/quota/test_quota_enforced.py",
    "e2e/quota/test_started_gangs.py",
    # Several replicas, one of them lost.
    "e2e/replicas/test_status_written_by_others.py",
    # The plugin.
    "e2e/plugin/test_acknowledgement_on_a_cluster.py",
    "e2e/plugin/test_server_away.py",
)
#: Files without a control plane that run a program of another project.
OTHER_PROGRAMS = ("server/http/http2/test_h2spec.py",)


@cache
def is_rest(path: Path) -> bool:
    """Whether the file is one of those that `make test` does not run."""
    name = path.relative_to(HERE).as_posix()
    if name in OTHER_PROGRAMS:
        return True
    if not name.startswith("e2e/") or name.startswith("e2e/cluster/"):
        return False
    return not any(name == each or name.startswith(f"{each}/") for each in WAYS)


def missing() -> list[str]:
    """Those that are in the tables and not on the disk."""
    return [name for name in (*WAYS, *OTHER_PROGRAMS) if not (HERE / name).exists()]
