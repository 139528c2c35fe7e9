"""Which files are run on every Kubernetes version: `make test-core` on one, `make versions` on all.

They are the end-to-end tests in which a version could differ: what the API server makes of our manifests,
and what kube-scheduler, kube-apiserver and kube-controller-manager do with stops, drains, admission and
policies. The tour of the README is not among them: what kubectl prints differs between versions.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

HERE = Path(__file__).parent

#: Files, and folders of files, by what they show.
CORE = (
    # Installation: fields of definitions, CEL of policies and webhooks, rights.
    "e2e/manifests",
    "e2e/localcluster/test_with_the_server.py",
    "e2e/queues/test_queue_fields.py",
    "e2e/queues/test_uninstalling.py",
    # Admission.
    "e2e/membership/test_belonging_to_a_queue.py",
    "e2e/membership/test_work_of_every_kind.py",
    # Stops.
    "e2e/acknowledgement/test_stop_in_mid_flow.py",
    "e2e/acknowledgement/test_ways_around_a_stop.py",
    "e2e/closing/test_closing_a_queue.py",
    "e2e/commands/test_commanding_queues.py",
    "e2e/stops/test_parked_pods.py",
    "e2e/stops/test_recreating_parked_pods.py",
    "e2e/stops/test_reservations.py",
    "e2e/stops/test_resuming_lets_all_go.py",
    "e2e/stops/test_stopped_pods_evict_nobody.py",
    "e2e/stops/test_stopping_a_tree.py",
    # kube-scheduler and kube-apiserver as callers: their certificates, and a scheduler of our own.
    "e2e/server/test_callers.py",
    "e2e/modes/test_scheduler_mode.py",
    # Drains.
    "e2e/drain/test_draining.py",
    "e2e/drain/test_draining_gangs_and_budgets.py",
    # Scheduling policies.
    "e2e/policies/test_actions_of_policies.py",
    "e2e/policies/test_scores.py",
    "e2e/policies/test_victims_by_policy.py",
    # The plugin.
    "e2e/plugin/test_acknowledgement_on_a_cluster.py",
)


@cache
def is_core(path: Path) -> bool:
    """Whether the file at `path` is run on every version, or the folder holds one that is."""
    if not path.is_relative_to(HERE):
        return path in HERE.parents
    name = path.relative_to(HERE).as_posix()
    return any(
        name == each or name.startswith(f"{each}/") or each.startswith(f"{name}/") or name == "."
        for each in CORE
    )


def missing() -> list[str]:
    """Those that are in the table and not on the disk."""
    return [name for name in CORE if not (HERE / name).exists()]
