"""Random clusters in which much goes wrong: owners of other queues and namespaces, finished, gone or forged.

Queue `research` drains, with `below` below it, which may have a policy of its own; `other` does not drain,
`elsewhere` may. Names are few, so that the same name is often another object's.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from queues.workload_kinds import KINDS
from tests.support.http.wire_objects import (
    GROUP,
    NAMED,
    Wire,
    namespace,
    owner,
    pod,
    podgroup,
    queue,
    template,
    workload,
)

Draw = Any
NAMESPACES = ("team", "lab", "kube-system")
QUEUES = ("research", "below", "other", "elsewhere", "missing")
#: How a queue is written on an object; `forged`: where a user alone would write it.
_WRITTEN = ("recorded", "recorded", "recorded", "named", "named", "forged", "nothing")
_OF_ALL_KINDS = tuple(f"{row.resource}.{row.group}" for row in KINDS.values())
_RESOURCES = ("jobs.batch", "jobs.batch", "jobsets.jobset.x-k8s.io", "jobs.batch.volcano.sh", *_OF_ALL_KINDS)
_LEAVING = {"deletionTimestamp": "2030-01-01T12:00:10Z", "deletionGracePeriodSeconds": 30}
_SELDOM = st.integers(0, 11).map(lambda number: number == 11)
#: Mostly the same, so that objects often belong together.
_SOME_NAMESPACE = st.sampled_from(("team", "team", "team", "team", "lab", "kube-system"))
_SOME_QUEUE = st.sampled_from(("research", "research", "research", "below", "other", "elsewhere", "missing"))
_QUEUE = "sluice.dev/queue"


@st.composite
def clusters(draw: Draw) -> list[Wire]:
    """All objects of one cluster."""
    workloads: list[Wire] = []
    for number in range(draw(st.integers(1, 5))):
        workloads.append(draw(_workload(number, workloads)))
    if len(workloads) > 1 and draw(_SELDOM):  # a cycle of owners
        workloads[0]["metadata"]["ownerReferences"] = [owner(workloads[-1])]
    groups = {(each["metadata"]["namespace"], each["metadata"]["name"]): each for each in draw(_GROUPS)}
    pods = [draw(_pod(number, workloads)) for number in range(draw(st.integers(2, 9)))]
    budgets = [draw(_budget(number)) for number in range(draw(st.integers(0, 4)))]
    places = [namespace(each, queue=draw(st.sampled_from(("", "", "research")))) for each in NAMESPACES]
    return [*places, *draw(_queues()), *workloads, *groups.values(), *pods, *budgets]


@st.composite
def _queues(draw: Draw) -> list[Wire]:
    policy = st.sampled_from(("None", "HoldAndDrain"))
    return [
        queue("root", parent=None),
        queue("research", stopPolicy="HoldAndDrain", drain=draw(_DRAIN)),
        queue("below", parent="research", stopPolicy=draw(policy), drain=draw(_DRAIN)),
        queue("other"),
        queue("elsewhere", stopPolicy=draw(policy), drain=draw(_DRAIN)),
    ]


_DRAIN = st.fixed_dictionaries(
    {},
    optional={
        "barePods": st.sampled_from(("Evict", "Keep")),
        "keep": st.just({"matchLabels": {"app": "a"}}),
        "brokenGangs": st.sampled_from(("Evict", "Evict", "Keep")),
        "deadline": st.sampled_from(("2030-01-01T14:00:00Z", "2030-01-01T14:00:00Z", "2030-01-01T11:00:00Z")),
        "afterDeadline": st.sampled_from(("Keep", "Scale", "Delete")),
    },
)


@st.composite
def _workload(draw: Draw, number: int, before: list[Wire]) -> Wire:
    resource = draw(st.sampled_from(_RESOURCES))
    named = draw(_SOME_QUEUE)
    written = draw(st.sampled_from(_WRITTEN))
    own: dict[str, str] = {}
    of_template: dict[str, str] = {}
    if written == "recorded":
        of_template[_QUEUE] = named
    elif written == "named":
        (own if draw(st.booleans()) else of_template)[NAMED] = named
    elif written == "forged":
        own[_QUEUE] = named
    if draw(_SELDOM):
        own["sluice.dev/suspended"] = draw(st.sampled_from(("research/3", "research/3", "research", "x/x")))
    spec: dict[str, Any] = {}
    if draw(_SELDOM):
        spec["suspend"] = True
    if draw(_SELDOM):
        spec["managedBy"] = draw(st.sampled_from(("example.com/x", "kubernetes.io/job-controller")))
    if draw(st.booleans()):
        spec["replicas"] = draw(st.integers(0, 2))
    made = workload(
        resource,
        f"w{draw(st.integers(0, 2))}",
        template(annotations=of_template),
        namespace=draw(_SOME_NAMESPACE),
        annotations=own,
        status=draw(_STATUS),
        owner=draw(_reference(before)),
        **spec,
    )
    made["metadata"]["uid"] = f"uid-work-{number}"
    if draw(_SELDOM):
        made["metadata"].update(_LEAVING)
    return made


_STATUS = st.fixed_dictionaries(
    {
        "state": st.fixed_dictionaries(
            {"phase": st.sampled_from(("Running", "Running", "Pending", "Aborted", "Completed"))}
        )
    },
    optional={
        "terminalState": st.sampled_from(("", "", "Completed")),
        "conditions": st.lists(
            st.fixed_dictionaries(
                {
                    "type": st.sampled_from(("Complete", "Failed", "Completed", "Suspended")),
                    "status": st.sampled_from(("False", "False", "True")),
                }
            ),
            max_size=2,
        ),
    },
)


@st.composite
def _reference(draw: Draw, workloads: list[Wire]) -> Wire | None:
    """To one of them, to one that was deleted and made anew by the same name, or to none."""
    if not workloads or draw(_SELDOM):
        return None
    found = owner(
        draw(st.sampled_from(workloads)),
        controller=draw(st.sampled_from((True, True, True, True, True, True, False, None))),
    )
    if draw(_SELDOM):
        found["uid"] = "uid-of-one-that-is-gone"
    return found


@st.composite
def _pod(draw: Draw, number: int, workloads: list[Wire]) -> Wire:
    named = draw(_SOME_QUEUE)
    labels = {"app": draw(st.sampled_from(("a", "b", "c")))}
    annotations: dict[str, str] = {}
    match draw(st.sampled_from((*["written"] * 6, "unlabelled", "named", "other", "nothing"))):
        case "written":
            labels[_QUEUE] = annotations[_QUEUE] = named
        case "unlabelled":
            annotations[_QUEUE] = named
        case "named":
            annotations[NAMED] = named
        case "other":
            labels[_QUEUE], annotations[_QUEUE] = named, draw(st.sampled_from(QUEUES))
    if draw(st.integers(0, 2)) == 0:
        annotations[GROUP] = draw(st.sampled_from(("g0", "g1", "missing")))
    if draw(_SELDOM):
        annotations["kubernetes.io/config.mirror"] = "x"
    if draw(_SELDOM):
        annotations["volcano.sh/task-spec"] = draw(st.sampled_from(("driver", "rank")))
    is_ready = draw(st.booleans())
    made = pod(
        f"p{number}",
        namespace=draw(_SOME_NAMESPACE),
        annotations=annotations,
        labels=labels,
        owner=draw(_reference(workloads)),
        status={
            "phase": draw(st.sampled_from((*["Running"] * 6, "Pending", "Succeeded", "Failed"))),
            "conditions": [{"type": "Ready", "status": "True" if is_ready else "False"}],
        },
        nodeName=draw(st.sampled_from(("one", "one", "one", "two", "two", ""))),
        priority=draw(st.sampled_from((0, 0, 0, 5, 5, 2_000_000_000))),
        terminationGracePeriodSeconds=draw(st.sampled_from((30, 1_000_000_000))),
        schedulerName=draw(st.sampled_from(("default-scheduler", "default-scheduler", "volcano"))),
    )
    if draw(_SELDOM):
        made["metadata"].update(_LEAVING)
    return made


_GROUPS = st.lists(
    st.builds(
        lambda name, where, of, least, tasks: podgroup(
            name, namespace=where, queue=of, minMember=least, **({"minTaskMember": tasks} if tasks else {})
        ),
        st.sampled_from(("g0", "g1")),
        _SOME_NAMESPACE,
        _SOME_QUEUE,
        st.integers(1, 4),
        st.sampled_from(({}, {}, {"driver": 1, "rank": 1})),
    ),
    max_size=3,
)


@st.composite
def _budget(draw: Draw, number: int) -> Wire:
    status = {
        "disruptionsAllowed": draw(st.integers(0, 3)),
        "desiredHealthy": draw(st.integers(0, 3)),
        "currentHealthy": draw(st.integers(0, 3)),
        "observedGeneration": draw(st.sampled_from((1, 1, 0))),
    }
    app = draw(st.sampled_from(("abc"[number % 3], "a", "b", "c")))  # two over one pod block it anyway
    spec: Wire = {"selector": {"matchLabels": {"app": app}}}
    if draw(_SELDOM):
        spec["unhealthyPodEvictionPolicy"] = "AlwaysAllow"
    if draw(_SELDOM):
        spec["selector"] = draw(st.sampled_from(({}, None, {"matchExpressions": [{"key": "-"}]})))
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": f"b{number}", "namespace": draw(_SOME_NAMESPACE), "generation": 1},
        "spec": spec,
        "status": status,
    }
