"""`kubectl queue why` of a pod that waits for room, and of a queue with a quota: what is read and shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubectl_queue.access.client import ObjectList
from kubectl_queue.errors import ForbiddenError
from kubectl_queue.objects.fields import Object
from tests.support.cases import each_case
from tests.support.plugin.harness import StoredObjects, StoredQueues, item, run_command

PODS, OURS = "/api/v1/pods", "/api/v1/namespaces/team/pods"


def pod(name: str, *, namespace: str = "team", cpu: str = "1", created: int = 0, **more: Any) -> Object:
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": name,
            "creationTimestamp": f"2030-01-01T11:00:{created:02}Z",
            "labels": {"sluice.dev/queue": "vision", **more.pop("labels", {})},
            "annotations": {"sluice.dev/queue": "vision"},
        },
        "spec": {
            "schedulingGates": [{"name": "sluice.dev/quota"}],
            "containers": [{"name": "work", "resources": {"requests": {"cpu": cpu}}}],
            **more,
        },
        "status": {"phase": "Pending"},
    }


def quota(waiting: int, **used: str) -> Object:
    return {"quota": {"used": used, "waiting": waiting}, "observedGeneration": 1}


QUEUES = (
    item("root", status={"observedGeneration": 1}),
    item("lab", status=quota(3, cpu="8"), capability={"cpu": "8"}),
    item("vision", parent="lab", status=quota(3, cpu="2"), deserved={"cpu": "4"}),
    item("speech", parent="lab", status=quota(0, cpu="6")),
)
WAITS = pod("work-3", created=3)
LISTED = (
    WAITS,
    pod("work-1", namespace="other", created=1),
    pod("work-2", created=2),
    pod("work-4", created=4),
    pod("released", labels={"sluice.dev/released": "released"}, schedulingGates=[]),
)

#: Its pods are those of the namespace.
DEPLOYMENT: Object = {
    "metadata": {"name": "web", "namespace": "team"},
    "spec": {
        "replicas": 4,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"annotations": {"sluice.dev/queue": "vision"}}},
    },
}


def objects(*forbidden: str) -> StoredObjects:
    listed = {"items": LISTED}
    ours = {"items": [each for each in LISTED if each["metadata"]["namespace"] == "team"]}
    web = "/apis/apps/v1/namespaces/team/deployments/web"
    events = "/api/v1/namespaces/team/events"
    stored = {f"{OURS}/work-3": WAITS, PODS: listed, OURS: ours, web: DEPLOYMENT, events: {}}
    return StoredObjects(stored, forbidden=forbidden)


class UnlistedQueues(StoredQueues):
    """Queues that may be got, and not listed."""

    def list(self, *, selector: str = "", name: str = "") -> Any:
        raise ForbiddenError("queues is forbidden", code=403)


def why(*words: str, client: StoredObjects | None = None, queues: type[StoredQueues] = StoredQueues) -> str:
    done = run_command(queues(*QUEUES), "why", *words, "--namespace=team", client=client or objects())
    assert done.code == 0, done.err
    return done.out


def test_a_pod_is_told_its_place_what_lacks_who_holds_it_and_who_can_change_it() -> None:
    assert why("pod/work-3").splitlines()[:7] == [
        'Pod team/work-3 waits for room: queue "lab" uses cpu 8 of 8',
        "Queue:       vision, by annotation sluice.dev/queue",
        "Chain:       vision   Open",
        "             lab      Open",
        "             root     Open",
        'No room in:  queue "lab": cpu 8 of 8 is used, it requests 1, and 1 of that is missing',
        'Held by:     queue "speech" cpu 6, queue "vision" (its own) cpu 2',
    ]
    assert why("pod/work-3").splitlines()[7:10] == [
        'In line:     3 of 4 in queue "vision"; before it: other/work-1, team/work-2',
        "Since:       2030-01-01T11:00:03Z (59m ago)",
        "Let go by:   itself, once others end; an admin of queues may raise the capability: "
        "kubectl edit queue lab",
    ]


def test_the_structure_has_the_same() -> None:
    told = json.loads(why("pod/work-3", "-ojson"))
    assert told["room"] == {
        "place": 3,
        "waiting": 4,
        "before": ["other/work-1", "team/work-2"],
        "queue": "lab",
        "kind": "capability",
        "resource": "cpu",
        "requested": "1",
        "missing": "1",
        "used": "8",
        "limit": "8",
        "holders": [{"queue": "speech", "amount": "6"}, {"queue": "vision", "amount": "2"}],
        "since": "2030-01-01T11:00:03Z",
    }


@pytest.mark.parametrize("forbidden", [(PODS,), (PODS, OURS)], ids=["all namespaces", "any namespace"])
def test_who_may_list_fewer_pods_is_told_what_the_statuses_say(forbidden: tuple[str, ...]) -> None:
    text = why("pod/work-3", client=objects(*forbidden))
    assert 'No room in:  queue "lab": cpu 8 of 8 is used' in text
    assert 'In line:     not known: you may not list the pods of queue "vision" in all namespaces' in text
    assert "other/" not in text


def test_who_may_not_list_queues_is_not_told_of_those_beside_its_own() -> None:
    text = why("pod/work-3", queues=UnlistedQueues)
    assert 'Held by:     queue "vision" (its own) cpu 2' in text
    assert "speech" not in text


def test_a_queue_is_told_what_is_used_lent_and_borrowed_and_how_many_wait() -> None:
    assert why("vision").splitlines()[4:6] == [
        "Quota:       cpu 2 used, deserves 4, lent 2",
        "             3 pods wait for room",
    ]
    assert "Quota:       cpu 8 of 8 used\n" in why("lab")


SAYS = {
    "claim": "what is left of its capability is claimed by a pod that has waited longer; it goes",
    "overcommit": "as much waits for nodes already as plugin overcommit of its policy allows; it goes",
}


@pytest.mark.parametrize("kind", SAYS)
def test_a_pod_that_waits_for_what_the_leader_alone_knows_is_told_what_lets_it_go(kind: str) -> None:
    """Also one of a queue without a capability."""
    message = f'queue "vision" has no room for this pod now: {SAYS[kind]}'
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    held = {**WAITS, "status": {"phase": "Pending", "conditions": [condition]}}
    stored = {f"{OURS}/work-3": held, PODS: {"items": [held]}, "/api/v1/namespaces/team/events": {}}
    free = item("vision", status={"observedGeneration": 1})
    done = run_command(
        StoredQueues(QUEUES[0], free), "why", "pod/work-3", "--namespace=team", client=StoredObjects(stored)
    )
    assert done.code == 0, done.err
    first, *rest = done.out.splitlines()
    told = {"claim": "a claim on what is left", "overcommit": "as much waits for nodes already"}
    assert told[kind] in first
    [way_out] = [line for line in rest if line.startswith("Let go by:")]
    assert {"claim": "its claim has ended", "overcommit": "have nodes"}[kind] in way_out


def test_who_has_a_claim_is_named_as_far_as_queues_may_be_read() -> None:
    """The pod itself says only that somebody has one."""
    claim = {"namespace": "other", "pod": "large", "queue": "speech", "since": "2030-01-01T11:00:00Z"}
    status: Object = {"quota": {"used": {"cpu": "4"}, "waiting": 3, "claim": claim}, "observedGeneration": 1}
    claimed = item("lab", status=status, capability={"cpu": "8"})
    queues = (QUEUES[0], claimed, *QUEUES[2:])
    for kind in (StoredQueues, UnlistedQueues):
        done = run_command(kind(*queues), "why", "pod/work-3", "--namespace=team", client=objects())
        assert (
            'Claimed by:  pod other/large of queue "speech", created 2030-01-01T11:00:00Z (60m ago): '
            'those behind it leave it room in queue "lab"\n'
        ) in done.out
    status["quota"]["claim"] = {**claim, "namespace": "team", "pod": "work-3"}
    done = run_command(StoredQueues(*queues), "why", "pod/work-3", "--namespace=team", client=objects())
    assert 'Claimed by:  it: those behind it leave it room in queue "lab"\n' in done.out


@each_case(
    ("fields", "of_pod", "of_queue"),
    [
        (
            {"forceDeleted": {"cpu": "3"}},
            "3 of the cpu that is used is of pods that were deleted by force and may still run; once their "
            "nodes have ended them, an admin of queues says so: kubectl annotate queue lab "
            "sluice.dev/force-deleted-ended=$(date -u +%FT%TZ) --overwrite",
            "3 of that by pods that were deleted by force and may still run",
        ),
        (
            {"keptForGangs": {"cpu": "3"}, "keptFor": ["team/a", "team/b"]},
            "3 of the cpu that is used is kept for gangs: podgroup team/a, team/b",
            "3 of that kept for gangs",
        ),
        (
            {"used": {"cpu": "6"}, "setAside": {"cpu": "2"}},
            "2 of the cpu that is used is set aside for pods that wait while others are evicted for them",
            "2 beside that set aside for pods that wait while others are evicted for them",
        ),
    ],
)
def test_what_no_list_of_pods_shows_is_told_of_the_queue_and_of_a_pod_that_waits_for_it(
    fields: Object, of_pod: str, of_queue: str
) -> None:
    status: Object = {"quota": {"used": {"cpu": "8"}, "waiting": 3, **fields}, "observedGeneration": 1}
    queues = (QUEUES[0], item("lab", status=status, capability={"cpu": "8"}), *QUEUES[2:])
    done = run_command(StoredQueues(*queues), "why", "pod/work-3", "--namespace=team", client=objects())
    assert (f"and 1 of that is missing\n             {of_pod}\n") in done.out
    done = run_command(StoredQueues(*queues), "why", "lab", client=objects())
    assert f"cpu {status['quota']['used']['cpu']} of 8 used, {of_queue}\n" in done.out


def test_pods_are_listed_only_for_one_that_waits_for_room() -> None:
    free = (item("root"), item("vision", status={"observedGeneration": 1}))
    client = objects(PODS, OURS)
    done = run_command(StoredQueues(*free), "why", "pod/work-3", "--namespace=team", client=client)
    assert "In line" not in done.out


def test_a_workload_is_told_of_its_pod_that_goes_next() -> None:
    text = why("deployment/web")
    assert text.startswith(
        'Deployment team/web is not stopped, and 3 pods of it wait for room: queue "lab" uses cpu 8 of 8\n'
    )
    assert 'In line:     pod work-2 is 2 of 4 in queue "vision"; before it: other/work-1\n' in text
    assert "if a pod of it waits" not in text
    blind = why("deployment/web", client=objects(PODS, OURS))
    assert blind.startswith("Deployment team/web is held back by no queue")


DEVICES = "/apis/resource.k8s.io/v1"
CLAIMS, CLASSES = f"{DEVICES}/namespaces/team/resourceclaims", f"{DEVICES}/deviceclasses"


def claim(name: str, count: int, *, owner: str = "", reserved: bool = False, **more: Any) -> Object:
    references = [{"kind": "Pod", "uid": owner, "controller": True}] if owner else []
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": count, **more}}]
    return {
        "metadata": {"name": name, "namespace": "team", "ownerReferences": references},
        "spec": {"devices": {"requests": requests}},
        "status": {"reservedFor": [{"name": "other", "uid": "other"}] if reserved else None},
    }


def why_devices(claims: list[Object], *named: str, made: str = "", forbidden: tuple[str, ...] = ()) -> str:
    """Of a pod with these claims, where queue lab has 4 GPUs."""
    entries = [{"name": name, "resourceClaimName": name} for name in named]
    entries += [{"name": "own", "resourceClaimTemplateName": "some"}]
    waits = pod("work-3", created=3, resourceClaims=entries)
    if made:
        waits["status"]["resourceClaimStatuses"] = [{"name": "own", "resourceClaimName": made}]
    queues = (
        item("root", status={"observedGeneration": 1}),
        item("lab", status=quota(1, **{"deviceclass/gpu": "2"}), capability={"deviceclass/gpu": "4"}),
        item("vision", parent="lab", status=quota(1, **{"deviceclass/gpu": "2"})),
    )
    objects: dict[str, Object] = {
        **{f"{OURS}/work-3": waits, PODS: {"items": [waits]}, "/api/v1/namespaces/team/events": {}},
        **{CLAIMS: {"items": claims}, CLASSES: {"items": []}},
    }
    client = StoredObjects(objects, forbidden=forbidden)
    done = run_command(StoredQueues(*queues), "why", "pod/work-3", "--namespace=team", client=client)
    assert done.code == 0, done.err
    return next(text for text in done.out.splitlines() if text.startswith(("No room in", "Let go by")))


def no_room(text: str) -> str:
    return f'No room in:  queue "lab": {text}'


def test_a_pod_with_claims_is_told_which_class_lacks_how_much_or_which_claim_hinders() -> None:
    full = no_room("deviceclass/gpu 2 of 4 is used, it requests 3, and 1 of that is missing")
    absent = "its capability names devices, and a claim of the pod is not there"
    uncounted = "its capability names devices, and what the pod claims cannot be counted"
    own = claim("own-x7", 3, owner="work-3")
    assert why_devices([own], made="own-x7") == full
    assert why_devices([own]) == no_room(f"{absent}: one of a template, not made yet")
    shared = claim("a", 2)
    assert why_devices([own, shared], "a", made="own-x7") == no_room(
        "it requests deviceclass/gpu 5 of a capability of 4: it never fits"
    )
    small = claim("own-x7", 1, owner="work-3")
    assert why_devices([small, shared], "a", made="own-x7") == full
    assert why_devices([small, claim("a", 2, reserved=True)], "a", made="own-x7").startswith("Let go by:")
    assert why_devices([small], "b", "a", made="own-x7") == no_room(f'{absent}: "b", "a"')
    whole = claim("whole", 0, allocationMode="All")
    assert why_devices([small, whole], "whole", made="own-x7") == no_room(f'{uncounted}: "whole"')
    assert why_devices([own], made="own-x7", forbidden=(CLAIMS,)) == no_room(
        "its capability names devices, and no claims could be read"
    )


GANG = {"scheduling.k8s.io/group-name": "gang"}


ALL_GROUPS = "/apis/scheduling.volcano.sh/v1beta1/podgroups"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def podgroup(name: str, least: int, *, created: int = 0, **spec: Any) -> Object:
    return {
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-{name}",
            "creationTimestamp": f"2030-01-01T11:00:{created:02}Z",
        },
        "spec": {"queue": "vision", "minMember": least, **spec},
        "status": {"phase": "Inqueue"},
    }


def why_gang(text: str, *forbidden: str) -> list[str]:
    """What a pod of a PodGroup of four is told, whose condition says this."""
    message = f'queue "vision" {text}'
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    pods = [pod(f"work-{at}", cpu="2", created=at) for at in range(1, 6)]
    for each in pods:
        each["metadata"]["annotations"].update(GANG)
        each["status"]["conditions"] = [condition]
    stored = {f"{OURS}/work-3": pods[2], PODS: {"items": pods}, "/api/v1/namespaces/team/events": {}}
    stored[ALL_GROUPS] = {"items": [podgroup("gang", 4)]}
    client = StoredObjects(stored, forbidden=forbidden)
    done = run_command(StoredQueues(*QUEUES), "why", "pod/work-3", "--namespace=team", client=client)
    assert done.code == 0, done.err
    return done.out.splitlines()


@pytest.mark.parametrize("forbidden", [(), (ALL_GROUPS,)], ids=["read", "unread"])
def test_a_pod_of_a_gang_without_room_is_told_what_all_of_it_needs(forbidden: tuple[str, ...]) -> None:
    lines = why_gang(
        "has no room for this pod now: 4 pods of its PodGroup start together, and its capability has no room "
        "for all of them; it goes when others end, or an admin of queues raises it",
        *forbidden,
    )
    [place] = [line for line in lines if line.startswith("In line:")]
    by_pods = "; by the priorities of pods: you may not list PodGroups"
    assert place == (
        f'In line:     it is the first of queue "vision"{", 1 behind it" + by_pods if forbidden else ""}'
    )
    assert lines[0] == (
        'Pod team/work-3 waits for room: queue "lab" uses cpu 8 of 8, and 4 pods start together'
    )
    assert (
        'No room in:  queue "lab": cpu 8 of 8 is used, the 4 pods that start together request 8, '
        "and 8 of that is missing"
    ) in lines


@pytest.mark.parametrize(
    "text",
    [
        "does not release this pod yet: fewer than 4 pods of its PodGroup exist; its pods start together",
        "never has room for this pod: with its PodGroup 600 pods are to start together, and 512 can at most; "
        "lower minMember",
    ],
)
def test_a_pod_whose_gang_does_not_start_is_told_why(text: str) -> None:
    first, *lines = why_gang(text)
    why_not = text.partition(": ")[2].partition(";")[0]
    assert first == f"Pod team/work-3 waits for room: its PodGroup starts as a whole; {why_not}"
    assert f"Gang:        {why_not}" in lines
    assert not [line for line in lines if line.startswith(("No room in", "In line"))]


def line_of(*groups: Object, classes: int | None = 10, forbidden: tuple[str, ...] = ()) -> list[str]:
    """What is told of the place of pod work-3, where two pods of priority 1 name PodGroup gang."""
    members = [of_gang(f"gang-{at}", released=False, created=at, priority=1) for at in range(5, 7)]
    high = {"metadata": {"name": "high"}, "value": classes} if classes is not None else None
    listed = {"items": [*LISTED, *members]}
    stored = {f"{OURS}/work-3": WAITS, PODS: listed, "/api/v1/namespaces/team/events": {}}
    stored |= {ALL_GROUPS: {"items": list(groups)}, CLASSES: {"items": [high] if high else []}}
    client = StoredObjects(stored, forbidden=forbidden)
    text = why("pod/work-3", client=client)
    return [line.partition('vision"')[2] for line in text.splitlines() if line.startswith("In line:")]


GANG_OF_A_CLASS = podgroup("gang", 2, created=9, priorityClassName="high")
BEFORE = "; before it: other/work-1, team/work-2"


@pytest.mark.parametrize(
    ("groups", "classes", "told"),
    [
        ([GANG_OF_A_CLASS], 10, "; before it: PodGroup team/gang, other/work-1, team/work-2"),
        ([GANG_OF_A_CLASS], -1, BEFORE),
        ([GANG_OF_A_CLASS], None, "; before it: PodGroup team/gang, other/work-1, team/work-2"),
        ([podgroup("gang", 3)], 10, BEFORE),
        (
            [podgroup("gang", 1, priorityClassName="high")],
            -1,
            "; before it: team/gang-5, team/gang-6, other/work-1 and 1 more",
        ),
        ([], 10, BEFORE),
        (
            [podgroup("other", 2, minResources={"cpu": "1"}) | {"status": {"phase": "Pending"}}],
            10,
            "; before it: PodGroup team/other, other/work-1, team/work-2",
        ),
    ],
    ids=[
        "by its class",
        "of a low class",
        "of its pods",
        "incomplete",
        "no gang",
        "no PodGroup",
        "before its pods",
    ],
)
def test_the_place_is_that_of_the_leader_who_has_gangs_as_one(
    groups: list[Object], classes: int | None, told: str
) -> None:
    assert line_of(*groups, classes=classes) == [told]


def test_who_may_not_list_classes_or_podgroups_is_told_that_the_place_goes_by_pods() -> None:
    low = podgroup("gang", 2, priorityClassName="high")
    by_pods = "; by the priorities of pods: you may not list"
    assert line_of(low, classes=-1, forbidden=(CLASSES,)) == [
        f"; before it: PodGroup team/gang, other/work-1, team/work-2{by_pods} PriorityClasses"
    ]
    assert line_of(low, classes=-1, forbidden=(ALL_GROUPS,)) == [
        f"; before it: team/gang-5, team/gang-6, other/work-1 and 1 more{by_pods} PodGroups"
    ]
    assert line_of(podgroup("gang", 2), forbidden=(CLASSES,)) == line_of(podgroup("gang", 2))


GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/team/podgroups/gang"
SCHEDULED = (
    "released; what it has is given back unless enough of its pods are on nodes by 2030-01-01T12:03:00Z"
)


GROUP: Object = {
    "metadata": {"name": "gang", "namespace": "team", "uid": "gang"},
    "spec": {"queue": "vision", "minMember": 3},
}


def of_gang(name: str, *, released: bool, **more: Any) -> Object:
    made = pod(name, labels={"sluice.dev/released": name} if released else {}, **more)
    made["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = "gang"
    if released:
        made["spec"]["schedulingGates"] = []
        condition = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}
        made["status"]["conditions"] = [condition]
    return made


def gang(*pods: Object, least: int = 3, **status: object) -> StoredObjects:
    group = {
        **GROUP,
        "spec": {"queue": "vision", "minMember": least},
        "status": {"phase": "Inqueue", **status},
    }
    listed = {"items": [*LISTED, *pods]}
    return StoredObjects({GROUPS: group, PODS: listed, OURS: listed})


def test_a_podgroup_is_told_how_its_pods_stand_and_what_its_minimum_lacks() -> None:
    pods = [of_gang(f"gang-{number}", released=False) for number in range(3)]
    shown = why("podgroup/gang", client=gang(*pods)).splitlines()
    assert shown[0] == (
        "PodGroup team/gang is not stopped, and waits for room for its minimum: "
        'queue "lab" uses cpu 8 of 8, and 3 pods start together'
    )
    assert "Phase:       Inqueue" in shown
    assert (
        "Pods:        at least 3 pods start together: 3 exist, 0 of these are released, 0 are on nodes"
        in shown
    )
    assert (
        'No room in:  queue "lab": cpu 8 of 8 is used, the 3 pods that start together request 3, '
        "and 3 of that is missing"
    ) in shown


def test_a_podgroup_whose_pods_find_no_nodes_is_told_what_kube_scheduler_says_and_for_how_long() -> None:
    pods = [of_gang("gang-0", released=True, nodeName="node-0"), of_gang("gang-1", released=True)]
    pods.append(of_gang("gang-2", released=True))
    conditions = [{"type": "Scheduled", "status": "False", "reason": "Released", "message": SCHEDULED}]
    shown = why("podgroup/gang", client=gang(*pods, conditions=conditions)).splitlines()
    assert shown[0].endswith("waits for nodes: 1 of at least 3 pods are on nodes")
    assert "Scheduler:   of 2 pods: 0/3 nodes are available" in shown
    assert (
        "Gives back:  2030-01-01T12:03:00Z (in 3m), unless enough of its pods are on nodes by then" in shown
    )


def test_a_podgroup_that_can_never_start_says_so_at_once() -> None:
    text = why("podgroup/gang", client=gang(of_gang("gang-0", released=False), least=9))
    assert "can never start: 9" not in text
    assert "waits: 1 of 9 pods exist" in text
    text = why("podgroup/gang", client=gang(least=10**9))
    assert "can never start: 1000000000 pods are to start together" in text
    assert json.loads(why("podgroup/gang", "-ojson", client=gang()))["gang"]["least"] == 3


def test_who_may_not_list_pods_is_told_of_the_podgroup_what_the_queues_say() -> None:
    assert "is held back by no queue" in why(
        "podgroup/gang", client=StoredObjects({GROUPS: GROUP}, forbidden=(OURS,))
    )


def test_holders_are_named_once_each() -> None:
    queues = (
        item("root", status={"observedGeneration": 1}),
        item("vision", status=quota(1, cpu="4"), capability={"cpu": "4"}),
        item("child", parent="vision", status=quota(0, cpu="3")),
    )
    done = run_command(StoredQueues(*queues), "why", "pod/work-3", "--namespace=team", client=objects())
    assert 'Held by:     queue "child" cpu 3, queue "vision" (itself, its own) cpu 1\n' in done.out


class PodsOfOneQueue(StoredObjects):
    """No pod has the label of another queue."""

    def list(self, path: str, *, query: Any, kind: str = "") -> ObjectList:
        is_of_others = "!=" in query.get("labelSelector", "")
        return ObjectList([], "7") if is_of_others else super().list(path, query=query, kind=kind)


def test_who_may_not_read_jobs_is_told_that_a_gang_may_have_completed_pods() -> None:
    owner = {"kind": "Job", "apiVersion": "batch/v1", "name": "train", "uid": "train", "controller": True}
    waits = of_gang("gang-0", released=False, created=9)
    waits["metadata"]["ownerReferences"] = [owner]
    listed = {"items": [WAITS, waits]}
    stored = {PODS: listed, OURS: listed, ALL_GROUPS: {"items": [podgroup("gang", 2)]}}
    stored |= {f"{OURS}/{each['metadata']['name']}": each for each in listed["items"]}
    stored |= {GROUPS: podgroup("gang", 2), "/api/v1/namespaces/team/events": {}}
    client = PodsOfOneQueue(stored, forbidden=("/apis/batch/v1/namespaces/team/jobs/train",))
    unread = "as far as known: you may not read Jobs, which say how many pods have completed"
    told = why("pod/gang-0", client=client)
    assert f"fewer than 2 pods of its PodGroup exist; its pods start together, {unread}" in told
    assert f"waits: 1 of 2 pods exist, {unread}" in why("podgroup/gang", client=client)
    assert (
        'In line:     it is the first of queue "vision"; gangs of which pods have completed may '
        "be missing: you may not read Jobs"
    ) in why("pod/work-3", client=client)
