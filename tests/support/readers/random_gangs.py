"""Random pods that wait for room, alone and in gangs.

Queue `team` has a quota, and `below` below it; `held` has one and schedules nothing; `picky` has one and
takes namespace `lab` alone; `free` has none; `missing` does not exist.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.support.http.wire_objects import (
    GROUP,
    Wire,
    meta,
    namespace,
    owner,
    pod,
    podgroup,
    queue,
    template,
    workload,
)

Draw = Any
QUEUE, RELEASED, UNTAKEN = "sluice.dev/queue", "sluice.dev/released", "sluice.dev/untaken"
STOP_GATE, QUOTA_GATE, OTHER_GATE = "sluice.dev/queue", "sluice.dev/quota", "example.com/wait"
CLASSES = {"low": -5, "high": 5}
LEAVING = {"deletionTimestamp": "2030-01-01T12:00:10Z", "deletionGracePeriodSeconds": 30}
PLACES = (namespace("team"), namespace("lab", labels={"picky": "yes"}), namespace("kube-system"))
LIMIT = {"cpu": "2"}
SELECTOR = {"matchLabels": {"picky": "yes"}}
QUEUES = (
    queue("root", parent=None),
    queue("team", capability=LIMIT),
    queue("below", parent="team"),
    queue("held", capability=LIMIT, stopPolicy="Hold"),
    queue("picky", capability=LIMIT, namespaceSelector=SELECTOR),
    queue("free"),
)
QUOTA_QUEUES = ("team", "below", "held", "picky")
PRIORITY_CLASSES: tuple[Wire, ...] = tuple(
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta(name), "value": value}
    for name, value in CLASSES.items()
)
_SOME_QUEUE = st.sampled_from(("team", "team", "team", "team", "below", "held", "picky", "free", "missing"))
_SOME_NAMESPACE = st.sampled_from(("team", "team", "team", "team", "lab"))
_SELDOM = st.integers(0, 7).map(lambda number: number == 7)
_TIMES = st.sampled_from(("2029-12-31T12:00:00Z", "2029-12-31T12:00:01Z", "2029-12-31T11:59:59Z"))


@st.composite
def clusters(draw: Draw) -> list[Wire]:
    """All objects of one cluster. All pods have our label, which may be empty: the leader writes it soon."""
    groups: dict[tuple[str, str], Wire] = {}
    for number in range(draw(st.integers(0, 3))):
        made = draw(_group(number))
        groups[made["metadata"]["namespace"], made["metadata"]["name"]] = made
    jobs = [draw(_job(number)) for number in range(draw(st.integers(0, 1)))]
    pods = [draw(_pod(number, jobs)) for number in range(draw(st.integers(1, 8)))]
    return [*PLACES, *QUEUES, *PRIORITY_CLASSES, *jobs, *groups.values(), *pods]


@st.composite
def _group(draw: Draw, number: int) -> Wire:
    spec: dict[str, Any] = {"minMember": draw(st.sampled_from((0, 1, 2, 2, 2, 3, 4)))}
    if draw(_SELDOM):
        spec["minTaskMember"] = draw(st.sampled_from(({"driver": 1, "rank": 1}, {"driver": 1})))
    phases: tuple[str, ...] = ("", "Pending", "Inqueue", "Running", "Completed")
    if draw(_SELDOM):
        spec["minResources"] = {"cpu": draw(st.sampled_from(("1", "2", "3", "x")))}
        phases = ("", "Pending")  # by these the plugin knows that no room is kept for it; a leader remembers
    if draw(_SELDOM):
        spec["priorityClassName"] = draw(st.sampled_from(("low", "high", "lost")))
    made = podgroup(
        draw(st.sampled_from(("g0", "g1"))),
        namespace=draw(_SOME_NAMESPACE),
        queue=draw(_SOME_QUEUE),
        created=draw(_TIMES),
        status={"phase": draw(st.sampled_from(phases))},
        **spec,
    )
    made["metadata"]["uid"] = f"uid-group-{number}"
    return made


@st.composite
def _job(draw: Draw, number: int) -> Wire:
    return workload(
        "jobs.batch",
        f"job-{number}",
        template(annotations={QUEUE: "team"}),
        namespace="team",
        completions=draw(st.sampled_from((1, 2, 3))),
        status={"succeeded": draw(st.integers(0, 2))},
    )


@st.composite
def _written(draw: Draw, of: str) -> tuple[dict[str, str], dict[str, str]]:
    """Labels and annotations that name the queue, as admission writes them, or not."""
    match draw(st.sampled_from((*["written"] * 7, "empty", "other"))):
        case "empty":
            return {QUEUE: ""}, {}
        case "other":
            return {QUEUE: of}, {QUEUE: draw(_SOME_QUEUE)}
    return {QUEUE: of}, {QUEUE: of}


_GATES = st.sampled_from(
    (
        *[[QUOTA_GATE]] * 6,
        [STOP_GATE, QUOTA_GATE],
        [STOP_GATE],
        [QUOTA_GATE, OTHER_GATE],
        [OTHER_GATE],
        [],
        [],
    )
)


def _phases(node: str) -> list[str]:
    return ["Running" if node else "Pending"] * 7


@st.composite
def _pod(draw: Draw, number: int, jobs: list[Wire]) -> Wire:
    of = draw(_SOME_QUEUE)
    name, uid = f"p{number}", f"uid-p{number}"
    labels, annotations = draw(_written(of))
    if draw(st.integers(0, 3)):
        annotations[GROUP] = draw(st.sampled_from(("g0", "g0", "g0", "g1", "g1", "missing")))
    if draw(_SELDOM):
        annotations["kubernetes.io/config.mirror"] = "x"
    if draw(_SELDOM):
        annotations["volcano.sh/task-spec"] = draw(st.sampled_from(("driver", "rank")))
    if draw(_SELDOM):
        labels["volcano.sh/task-spec"] = draw(st.sampled_from(("driver", "rank")))
    node = draw(st.sampled_from(("", "", "", "", "one")))
    if node and not labels[QUEUE]:  # written by the leader before it is bound
        labels[QUEUE] = annotations[QUEUE] = of
    labels |= draw(st.sampled_from(({}, {}, {}, {RELEASED: uid}, {RELEASED: "uid-of-another"})))
    if draw(_SELDOM):
        annotations[UNTAKEN] = "volcano"
    made = pod(
        name,
        namespace=draw(_SOME_NAMESPACE),
        annotations=annotations,
        labels=labels,
        gates=None if node else draw(_GATES),
        # What made a pod whose queue is yet to be written on it, the plugin does not look up.
        owner=owner(draw(st.sampled_from(jobs))) if jobs and labels[QUEUE] and draw(st.booleans()) else None,
        status={
            "phase": draw(st.sampled_from((*["Running" if node else "Pending"] * 7, "Succeeded", "Failed")))
        },
        resources={"requests": {"cpu": draw(st.sampled_from(("1", "500m", "3")))}},
        nodeName=node,
        priority=draw(st.sampled_from((0, 0, 5, -5))),
    )
    made["metadata"]["creationTimestamp"] = draw(_TIMES)
    if draw(_SELDOM):
        made["metadata"].update(LEAVING)
    return made
