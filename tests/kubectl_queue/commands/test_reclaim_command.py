"""`kubectl queue reclaim --dry-run`: who would go now, by the rule of the leader."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubectl_queue.errors import QueueError
from kubectl_queue.objects.fields import Object
from tests.support.plugin.harness import CommandResult, StoredObjects, StoredQueues, item, run_command

PODS, BUDGETS = "/api/v1/pods", "/apis/policy/v1/poddisruptionbudgets"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/podgroups"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
POLICIES = "/api/v1/namespaces/volcano-system/configmaps/volcano-scheduler-configmap"
QUEUES = (
    item("root"),
    item("lab", capability={"cpu": "4"}, schedulerPolicy="takes"),
    item("vision", parent="lab", deserved={"cpu": "2"}),
    item("speech", parent="lab", deserved={"cpu": "2"}),
)


def pod(name: str, queue: str, *, runs: bool = True, created: int = 0, **more: Any) -> Object:
    spec: Object = {"containers": [{"name": "work", "resources": {"requests": {"cpu": "1"}}}]}
    spec |= {"nodeName": "n"} if runs else {"schedulingGates": [{"name": "sluice.dev/quota"}]}
    return {
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": name,
            "creationTimestamp": f"2030-01-01T11:00:{created:02}Z",
            "labels": {"sluice.dev/queue": queue, **more.pop("labels", {})},
            **more,
        },
        "spec": spec,
        "status": {"phase": "Running" if runs else "Pending"},
    }


RUN = [pod(f"s{number}", "speech", created=number) for number in range(4)]
WAIT = [pod(f"v{number}", "vision", runs=False, created=number) for number in range(3)]


def reclaim(
    pods: list[Object],
    *words: str,
    queue: str = "vision",
    actions: str = "allocate, reclaim",
    queues: tuple[Object, ...] = QUEUES,
    budgets: tuple[Object, ...] = (),
    forbidden: tuple[str, ...] = (),
    groups: tuple[Object, ...] = (),
) -> CommandResult:
    stored: dict[str, Object] = {
        PODS: {"items": pods},
        GROUPS: {"items": list(groups)},
        CLASSES: {"items": [{"metadata": {"name": "high"}, "value": 9}]},
        BUDGETS: {"items": list(budgets)},
        POLICIES: {"data": {"takes": f"actions: {actions}\ntiers: [{{plugins: []}}]"}},
    }
    client = StoredObjects(stored, forbidden=forbidden)
    return run_command(StoredQueues(*queues), "reclaim", queue, *words, client=client)


def evicted(*args: Any, **more: Any) -> list[str]:
    done = reclaim(*args, "--dry-run", "-ojson", **more)
    assert done.code == 0, done.err
    return [each["pod"] for each in json.loads(done.out)["evicted"]]


def test_it_says_who_would_go_for_whom() -> None:
    done = reclaim([*RUN, *WAIT], "--dry-run")
    assert [line.split() for line in done.out.splitlines()] == [
        ["NAMESPACE", "POD", "QUEUE", "GIVES", "FOR", "ACTION"],
        ["team", "s3", "speech", "cpu", "1", "team/v0", "reclaim"],
        ["team", "s2", "speech", "cpu", "1", "team/v1", "reclaim"],
    ]
    assert '2 pods would go for pods of queue "vision"; 1 wait on: nobody may go for them' in done.err


def test_without_dry_run_it_is_an_error_that_says_who_does_it() -> None:
    with pytest.raises(QueueError, match=r"reclaiming is done by Sluice's controller.* use --dry-run"):
        reclaim([*RUN, *WAIT])


def test_nobody_goes_where_the_policy_has_no_such_action() -> None:
    done = reclaim([*RUN, *WAIT], "--dry-run", actions="allocate")
    assert done.out == ""
    assert "has neither action reclaim nor preempt" in done.err
    idle = reclaim(RUN, "--dry-run")
    assert 'no pod of queue "vision" waits for room' in idle.err


def test_what_is_protected_stays() -> None:
    daemon: Object = {"ownerReferences": [{"kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}]}
    of_nodes = [pod(f"s{number}", "speech", created=number, **daemon) for number in range(4)]
    assert evicted([*of_nodes, *WAIT]) == []
    kept = {
        "metadata": {"name": "kept", "namespace": "team"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": 0},
    }
    web = [*RUN[:3], pod("s3", "speech", created=3, labels={"app": "web"}), *WAIT]
    assert evicted(web, budgets=(kept,)) == ["s2", "s1"]
    assert evicted(web, budgets=(kept,), forbidden=(BUDGETS,)) == ["s3", "s2"]
    own = (*QUEUES[:3], item("speech", parent="lab", deserved={"cpu": "2"}, reclaimable=False))
    assert evicted([*RUN, *WAIT], queues=own) == []


def test_what_is_being_deleted_is_waited_for() -> None:
    leaving = pod("s0", "speech", deletionTimestamp="2030-01-01T11:00:00Z")
    assert evicted([leaving, *RUN[1:], *WAIT]) == ["s3"]


def gang(name: str, queue: str, least: int) -> Object:
    """A PodGroup of a PriorityClass. Those of its pods that exist are `in_gang`."""
    meta = {
        "name": name,
        "namespace": "team",
        "uid": f"uid-{name}",
        "creationTimestamp": "2030-01-01T11:00:59Z",
    }
    return {"metadata": meta, "spec": {"queue": queue, "minMember": least, "priorityClassName": "high"}}


def in_gang(name: str, queue: str, **more: Any) -> Object:
    return pod(name, queue, annotations={"scheduling.k8s.io/group-name": "gang"}, **more)


def test_a_gang_asks_as_one_with_the_value_of_its_class() -> None:
    """Before pods that have waited longer; and those beyond what its queue deserves go for none."""
    waits = [
        *WAIT,
        *(in_gang(f"g{number}", "vision", runs=False, created=50 + number) for number in range(2)),
    ]
    done = reclaim([*RUN, *waits], "--dry-run", groups=(gang("gang", "vision", 2),))
    rows = [line.split() for line in done.out.splitlines()[1:]]
    assert [(row[1], row[5:7]) for row in rows] == [
        ("s3", ["PodGroup", "team/gang"]),
        ("s2", ["PodGroup", "team/gang"]),
    ]
    alone = reclaim([*RUN, *waits], "--dry-run", groups=(gang("gang", "vision", 3),))
    assert "PodGroup" not in alone.out
    assert "team/v0" in alone.out


def test_who_runs_in_a_gang_has_the_value_of_its_class_and_goes_last() -> None:
    runs = [*RUN[:3], in_gang("s3", "speech", created=3)]
    groups = (gang("gang", "speech", 2),)
    assert evicted([*runs, *WAIT], groups=groups) == ["s2", "s1"]
    for forbidden, kind in ((GROUPS, "PodGroups"), (CLASSES, "PriorityClasses")):
        done = reclaim([*runs, *WAIT], "--dry-run", groups=groups, forbidden=(forbidden,))
        assert [line.split()[1] for line in done.out.splitlines()[1:]] == ["s3", "s2"]
        assert (
            f"you may not list {kind} in all namespaces: pods of gangs go by their own priorities" in done.err
        )
