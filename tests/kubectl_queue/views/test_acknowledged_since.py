"""Since when a stop holds, in `why`, `tree` and `get -o wide`; what of a quota does not matter meanwhile."""

from __future__ import annotations

from typing import Any

from kubectl_queue.access.replicas import LEADER
from kubectl_queue.objects.fields import Object
from kubectl_queue.objects.quotas import not_enforced
from tests.support.cases import each_case
from tests.support.plugin.harness import StoredObjects, StoredQueues, item, run_command

SINCE = "2030-01-01T11:00:00Z"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/sluice-system/leases"
ROOT = item("root", status={"state": "Open"})


def stopped(
    *, scope: str = "s", since: str = SINCE, conditions: tuple[Object, ...] = (), **spec: Any
) -> Object:
    """Queue lab, whose stop is acknowledged for the specs that it and root have."""
    active = {"type": "Active", "status": "False", "observedGeneration": 1, "lastTransitionTime": since}
    chain = [{"name": "lab", "generation": 1}, {"name": "root", "generation": 1}]
    status = {
        "state": "Suspended",
        "observedGeneration": 1,
        "conditions": [active, *conditions],
        "stop": {"chain": chain, **({"scope": scope} if scope else {})},
        "quota": {"used": {"cpu": "1"}, "waiting": 0},
    }
    return item("lab", parent="root", state="Suspended", status=status, **spec)


def said(*words: str, queue: Object, client: StoredObjects | None = None) -> str:
    done = run_command(StoredQueues(ROOT, queue), *words, client=client)
    assert done.code == 0, done.err
    return done.out


def test_why_says_since_when_the_stop_is_acknowledged() -> None:
    line = f"Acknowledged: yes, since {SINCE} (60m ago)"
    assert line in said("why", "lab", queue=stopped()).splitlines()
    assert "Acknowledged: no, not yet" in said("why", "lab", queue=stopped(scope=""))
    assert "Acknowledged" not in said("why", "lab", queue=item("lab", parent="root"))


def test_why_says_that_it_was_acknowledged_before_the_server_was_lost() -> None:
    spec = {"holderIdentity": "a", "renewTime": "2030-01-01T11:30:00Z", "leaseDurationSeconds": 6}
    away = StoredObjects({LEASES: {"items": [{"metadata": {"name": LEADER}, "spec": spec}]}})
    assert (
        f"Acknowledged: yes, since {SINCE} (60m ago), before the server was lost: no replica of Sluice "
        "answers since 2030-01-01T11:30:00Z (30m ago)"
    ) in said("why", "lab", queue=stopped(), client=away).splitlines()


def test_the_tree_and_the_wide_table_say_it_too() -> None:
    assert f"acknowledged since {SINCE}" in said("tree", queue=stopped())
    assert "not acknowledged yet" in said("tree", queue=stopped(scope=""))
    heading, *rows = (line.split() for line in said("list", "-owide", queue=stopped()).splitlines())
    shown = {row[0]: row for row in rows}
    assert "ACKNOWLEDGED" in heading
    assert SINCE in shown["lab"]
    assert "no" in next(
        line.split() for line in said("list", "-owide", queue=stopped(scope="")).splitlines() if "lab" in line
    )
    assert "ACKNOWLEDGED" not in said("list", "-owide", queue=item("lab", parent="root"))


def condition(reason: str) -> Object:
    message = "requests that were sent before may still be stored"
    return {"type": "QuotaEnforced", "status": "False", "reason": reason, "message": message}


@each_case(
    ("reason", "matters"),
    [
        ("RequestsUnderWay", False),
        ("ReplicaBehind", False),
        ("ReplicaUnaware", False),
        ("OverCapability", True),
        ("NotAsked", True),
        ("BookNotWritten", True),
    ],
)
def test_what_a_quota_waits_for_is_no_danger_while_a_stop_is_acknowledged(reason: str, matters: bool) -> None:
    later = "nothing starts while it is stopped, so its capability may come later: requests that were sent"
    queue = stopped(conditions=(condition(reason),), capability={"cpu": "4"})
    assert (later in said("why", "lab", queue=queue)) is not matters
    done = run_command(StoredQueues(ROOT, queue), "usage")
    assert (later in done.err) is not matters
    assert later not in not_enforced(queue, is_stopped=False)


def test_a_stop_that_is_not_acknowledged_makes_no_quota_harmless() -> None:
    queue = stopped(scope="", conditions=(condition("ReplicaBehind"),), capability={"cpu": "4"})
    assert "nothing starts" not in run_command(StoredQueues(ROOT, queue), "usage").err
