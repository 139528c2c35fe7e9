"""`kubectl queue reclaim --dry-run`: who would go now, by the rule of the leader."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubectl_queue.errors import QueueError
from kubectl_queue.objects.fields import Object
from kubectl_queue.why.reclaim import ledger_of
from queues.membership import GROUP_ANNOTATION
from tests.support.cases import each_case
from tests.support.plugin.harness import (
    CommandResult,
    StoredObjects,
    StoredQueues,
    item,
    run_command,
    snapshot,
)

PODS, BUDGETS = "/api/v1/pods", "/apis/policy/v1/poddisruptionbudgets"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/podgroups"
NODES = "/api/v1/nodes"
TEAM, JOB = "/api/v1/namespaces/team", "/apis/batch/v1/namespaces/team/jobs/train"
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
            "annotations": {"sluice.dev/queue": queue, **more.pop("annotations", {})},
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
    plugins: str = "",
    nodes: list[Object] | None = None,
    labels: dict[str, str] | None = None,
    succeeded: int = 0,
) -> CommandResult:
    """`labels`: of the namespace. `succeeded`: of the two pods of the Job."""
    stored: dict[str, Object] = {
        PODS: {"items": pods},
        GROUPS: {"items": list(groups)},
        CLASSES: {"items": [{"metadata": {"name": "high"}, "value": 9}]},
        BUDGETS: {"items": list(budgets)},
        POLICIES: {"data": {"takes": f"actions: {actions}\ntiers: [{{plugins: [{plugins}]}}]"}},
        NODES: {"items": nodes or []},
        TEAM: {"metadata": {"name": "team", "labels": labels or {}}},
        JOB: {
            "metadata": {"name": "train", "namespace": "team", "uid": "train"},
            "spec": {"completions": 2, "template": {}},
            "status": {"succeeded": succeeded},
        },
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
    assert '2 pods would go for pods of queue "vision"; 1 wait on: no pod may go for them' in done.err


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
    two = tuple(
        {**kept, "metadata": {"name": name, "namespace": "team"}, "status": {"disruptionsAllowed": 5}}
        for name in ("one", "other")
    )
    assert evicted(web, budgets=two[:1]) == ["s3", "s2"]
    assert evicted(web, budgets=two) == ["s2", "s1"], "the API server evicts no pod of two budgets"
    own = (*QUEUES[:3], item("speech", parent="lab", deserved={"cpu": "2"}, reclaimable=False))
    assert evicted([*RUN, *WAIT], queues=own) == []


def test_what_is_being_deleted_is_waited_for() -> None:
    leaving = pod("s0", "speech", deletionTimestamp="2030-01-01T12:00:30Z", deletionGracePeriodSeconds=30)
    assert evicted([leaving, *RUN[1:], *WAIT]) == ["s3"]


def test_what_is_being_deleted_for_longer_than_a_drain_waits_counts_as_staying() -> None:
    stays = pod("s0", "speech", deletionTimestamp="2039-01-01T12:00:00Z", deletionGracePeriodSeconds=10**9)
    assert evicted([stays, *RUN[1:], *WAIT]) == ["s3", "s2"]


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
    for forbidden, warning in (
        (GROUPS, "PodGroups in all namespaces: pods of gangs go by themselves here"),
        (CLASSES, "PriorityClasses in all namespaces: pods of gangs go by their own priorities"),
    ):
        done = reclaim([*runs, *WAIT], "--dry-run", groups=groups, forbidden=(forbidden,))
        assert [line.split()[1] for line in done.out.splitlines()[1:]] == ["s3", "s2"]
        assert f"you may not list {warning}" in done.err


# Which rule keeps those who could go

PREEMPTABLE = "volcano.sh/preemptable"


def marked(name: str, **where: Any) -> Object:
    made = pod(name, "speech", created=int(name[1:]), labels=where.get("labels", {}))
    made["metadata"]["annotations"] = where.get("annotations", {})
    return made


def told(done: CommandResult) -> list[str]:
    return [line.strip() for line in done.err.splitlines() if line.startswith("  ")]


def test_it_says_how_many_could_go_and_which_rule_keeps_them() -> None:
    kept = [
        marked("s0", annotations={PREEMPTABLE: "false"}),
        marked("s1", labels={PREEMPTABLE: "no"}),
        pod(
            "s2",
            "speech",
            created=2,
            ownerReferences=[{"kind": "DaemonSet", "name": "d", "controller": True}],
        ),
        marked("s3", annotations={PREEMPTABLE: "false"}),
    ]
    done = reclaim([*kept, *WAIT], "--dry-run")
    assert done.out == ""
    assert told(done) == [
        f'4 pods of queue "speech" could go: 3 say {PREEMPTABLE}: false, 1 is of a DaemonSet'
    ]
    document = json.loads(reclaim([*kept, *WAIT], "--dry-run", "-ojson").out)
    assert document["kept"] == [
        {"queue": "speech", "couldGo": 4, "keptBy": {"not-preemptable": 3, "daemon": 1}, "denial": ""}
    ]


def test_it_says_why_a_queue_asks_and_lends_nothing() -> None:
    done = reclaim([*RUN, *WAIT], "--dry-run")
    assert told(done) == ['queue "vision" would use more cpu than it deserves']
    own = (*QUEUES[:3], item("speech", parent="lab", reclaimable=False))
    assert told(reclaim([*RUN, *WAIT], "--dry-run", queues=own)) == ['queue "speech" is not reclaimable']
    assert told(reclaim([*RUN, *WAIT], "--dry-run", actions="allocate")) == []


def grouped(names: list[str], **spec: Any) -> tuple[list[Object], Object]:
    """These run in `speech`, and are one gang."""
    pods = []
    for name in names:
        made = marked(name, annotations={GROUP_ANNOTATION: "ring"})
        pods.append(made)
    meta = {"name": "ring", "namespace": "team", "uid": "ring", "creationTimestamp": "2030-01-01T11:00:00Z"}
    return pods, {"metadata": meta, "spec": {"queue": "speech", **spec}}


def test_a_gang_goes_whole_or_down_to_its_minimum() -> None:
    names = ["s0", "s1", "s2", "s3"]
    pods, ring = grouped(names, minMember=4)
    one = WAIT[:1]
    assert sorted(evicted([*pods, *one], groups=(ring,))) == names
    pods, ring = grouped(names, minMember=3)
    assert evicted([*pods, *one], groups=(ring,)) == ["s3"]
    pods[0]["metadata"]["annotations"][PREEMPTABLE] = "false"
    ring["spec"]["minMember"] = 4
    done = reclaim([*pods, *one], "--dry-run", groups=(ring,))
    assert told(done) == [
        f'4 pods of queue "speech" could go: 1 says {PREEMPTABLE}: false, '
        "3 are of gangs that go whole or not at all"
    ]
    ring["metadata"]["labels"] = {PREEMPTABLE: "0"}
    assert told(reclaim([*pods, *one], "--dry-run", groups=(ring,))) == [
        f'4 pods of queue "speech" could go: 4 say {PREEMPTABLE}: false'
    ]
    without = reclaim([*pods, *one], "--dry-run", groups=(ring,), forbidden=(GROUPS,))
    assert "you may not list PodGroups in all namespaces: pods of gangs go by themselves here" in without.err


def test_by_weight_it_goes_by_what_queues_deserve_then() -> None:
    weighed = (
        *QUEUES[:2],
        item("vision", parent="lab", weight=3),
        item("speech", parent="lab", weight=1),
    )
    nodes: list[Object] = [{"status": {"allocatable": {"cpu": "4"}}}]
    plugins: dict[str, Any] = {"plugins": "{name: proportion}", "nodes": nodes}
    assert evicted([*RUN, *WAIT], queues=weighed, **plugins) == ["s3", "s2", "s1"]
    assert evicted([*RUN, *WAIT], queues=weighed) == []
    blind = reclaim([*RUN, *WAIT], "--dry-run", queues=weighed, forbidden=(NODES,), **plugins)
    assert "you may not list nodes: queues share by weight what is used and asked for" in blind.err


# What counts, and no pod uses it


def status(**quota: Any) -> Object:
    return {"quota": {"used": {"cpu": "9"}, "waiting": 0, **quota}}


def kept(amount: str) -> Object:
    return status(keptForGangs={"cpu": amount})


@each_case(
    ("lab", "speech", "expected"),
    [
        (kept("2"), {}, {"lab": 2}),
        (kept("2"), kept("2"), {"lab": 2, "speech": 2}),
        (kept("3"), kept("1"), {"lab": 3, "speech": 1}),
        (kept("1"), kept("2"), {"lab": 2, "speech": 2}),
        ({}, kept("2"), {"lab": 2, "speech": 2}),
        (status(ungated={"cpu": "2"}), status(ungated={"cpu": "1"}), {"lab": 2, "speech": 1}),
        (status(forceDeleted={"cpu": "2"}, setAside={"cpu": "1"}, releasing={"cpu": "1"}), {}, {}),
        (status(keptForGangs={"cpu": "1"}, ungated={"cpu": "1"}), {}, {"lab": 2}),
    ],
    ids=[
        *("of the queue itself", "of one below it", "of both", "the status below is newer"),
        *("the queue has no status", "without a gate", "what the leader counts as gone", "of two reasons"),
    ],
)
def test_what_no_list_of_pods_shows_counts_once_beside_what_pods_use(
    lab: Object, speech: Object, expected: dict[str, int]
) -> None:
    items = (item("root"), item("lab", status=lab), item("speech", parent="lab", status=speech))
    queues = snapshot(*items)
    usage = ledger_of({"speech": {"cpu": 3}}, queues.items, tree=queues.tree).usage
    found = {name: usage.used(name).get("cpu", 0) - 3 for name in ("lab", "speech")}
    assert {name: amount for name, amount in found.items() if amount} == expected


def test_what_is_kept_for_gangs_is_no_room_for_those_that_wait() -> None:
    """Of a capability of 4, of which pods use 2."""
    full = item("lab", status=kept("2"), capability={"cpu": "4"}, schedulerPolicy="takes")
    pods = [*RUN[:2], WAIT[0]]
    assert "1 have room without that" in reclaim(pods, "--dry-run").err
    done = reclaim(pods, "--dry-run", queues=(QUEUES[0], full, *QUEUES[2:]))
    assert "have room" not in done.err


def test_a_pod_without_a_gate_asks_for_nobody_and_counts_as_the_status_says() -> None:
    ungated = pod("v0", "vision", runs=False)
    ungated["spec"]["schedulingGates"] = []
    assert evicted([*RUN, ungated]) == []
    assert evicted([*RUN, ungated, WAIT[1]]) == ["s3"]


def test_a_pod_of_a_namespace_that_its_queue_does_not_select_asks_for_nobody() -> None:
    selects = {"matchLabels": {"picky": "yes"}}
    queues = (
        *QUEUES[:2],
        item("vision", parent="lab", deserved={"cpu": "2"}, namespaceSelector=selects),
        QUEUES[3],
    )
    assert evicted([*RUN, *WAIT], queues=queues, labels={"picky": "yes"}) == ["s3", "s2"]
    assert evicted([*RUN, *WAIT], queues=queues, labels={}) == []


def test_a_gang_of_which_pods_have_completed_and_are_gone_asks() -> None:
    owner: Object = {
        "kind": "Job",
        "apiVersion": "batch/v1",
        "name": "train",
        "uid": "train",
        "controller": True,
    }
    waits = in_gang("g0", "vision", runs=False, ownerReferences=[owner])
    groups = (gang("gang", "vision", 2),)
    assert evicted([*RUN, waits], groups=groups, succeeded=1) == ["s3"]
    assert evicted([*RUN, waits], groups=groups, succeeded=0) == []
