"""Whatever one object contains, the work for all others is done, and the sync raises nothing.

What hypothesis makes of each kind goes in through the reflectors, among honest objects.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.server.test_bad_input import places, replaced
from tests.support.controller.controller_harness import ControllerHarness
from tests.support.examples import examples
from tests.support.http.wire_objects import (
    GROUP,
    NAMED,
    WORKLOADS,
    Wire,
    command,
    member,
    namespace,
    owner,
    pod,
    podgroup,
    queue,
    template,
    workload,
)

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
PODS = "/api/v1/namespaces/team/pods"
GATE = "sluice.dev/queue"
STAMP: dict[str, Any] = {"annotations": {"sluice.dev/author": "alice"}}
LONG = "a" * 300
#: What a user can write where a text is read, and what no user should.
TEXTS = [
    *("", "a/b", "a/b/c", "/", "..", "a b", "ü", "\u0000", "\u202e", LONG, "x" * 5000),
    *("{}", '"', "=,()!", "%s"),
    *("0000-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"),
    *("2030-13-01T00:00:00Z", "-1", "1e400", "9" * 30, "NaN", "Infinity", "research", "root", "default"),
    *("victim", "kube-system", "Open", "Suspended", "Closed", "HoldAndDrain", "Running", "Completed"),
]
NUMBERS = [0, -1, 2**31 - 1, -(2**31), 2**63 - 1, 2**64, 10**30, 0.5, 1e300]
OTHERS: list[Any] = [None, True, [], {}, [None], {"a": {}}, [{}], {"": ""}]
VALUES = st.sampled_from([*TEXTS, *NUMBERS, *OTHERS]) | st.text(max_size=20)


def condition(kind: str, **more: str) -> Wire:
    time = {"lastTransitionTime": "2029-12-31T12:00:00Z"}
    return {"type": kind, "status": "False", "reason": "R", "message": "m", **time, **more}


def evil(made: Wire) -> Wire:
    """With metadata of its own, and much that is optional."""
    meta = made["metadata"]
    extra = {
        "deletionTimestamp": "2029-12-31T12:00:00Z",
        "finalizers": ["a/b"],
        "ownerReferences": [owner(workload("jobs.batch", "evil"))],
        "generateName": "evil-",
    }
    marks = {
        "sluice.dev/admission": "x",
        "sluice.dev/suspended": "evil",
        "sluice.dev/woken": "w",
        NAMED: "evil",
    }
    annotations = {**marks, GROUP: "a/b", **meta.get("annotations", {})}
    return {**made, "metadata": {**meta, **extra, "annotations": annotations, "labels": {GATE: "evil"}}}


HOSTILE: dict[str, Wire] = {
    "pod": evil(
        pod(
            "evil",
            gates=[GATE],
            priority=5,
            nodeName="n",
            resources={"requests": {"cpu": "1", "a/b": "2"}, "limits": {"cpu": "1"}},
            overhead={"cpu": "1m"},
            initContainers=[{"name": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": 1}}}],
            status={
                "conditions": [condition("PodScheduled"), condition("Ready")],
                "nominatedNodeName": "n",
                "phase": "Running",
            },
        )
    ),
    "waiting pod": pod("evil", gates=[GATE], annotations={GROUP: "a/b"}),
    "podgroup": evil(
        podgroup(
            "evil",
            queue="evil",
            status={"phase": "Running", "running": 1, "conditions": [condition("Populated"), condition("x")]},
        )
    ),
    "queue": queue(
        "evil",
        generation=2,
        annotations={"sluice.dev/changes": '[{"by":"a","field":"state"}]', "sluice.dev/commands": "a,b"},
        state="Suspended",
        stopPolicy="HoldAndDrain",
        resumeAt="2029-12-31T12:00:00Z",
        reason="r",
        drain={
            "rate": 1,
            "inFlight": 1,
            "keep": {"matchLabels": {"a": "b"}},
            "deadline": "2030-01-01T00:00:00Z",
        },
        capability={"cpu": "1"},
        deserved={"cpu": "1"},
        guarantee={"resource": {"cpu": "1"}},
        status={
            "state": "Closed",
            "conditions": [condition("Active"), condition("Drained")],
            "pods": {"running": 1},
            "allocated": {"cpu": "1"},
            "changes": [{"by": "a", "field": "state"}],
            "drain": {"since": "2029-12-31T12:00:00Z"},
        },
    ),
    "closed queue": queue("evil", generation=2, state="Closed"),
    "namespace": evil(namespace("evil", queue="evil")),
    "command": {**command("evil", target="evil"), "message": "m", "reason": "r"},
    **{
        kind: evil(
            workload(
                kind,
                "evil",
                template({NAMED: "evil"}, {"a": "b"}, schedulerName="volcano"),
                replicas=1,
                suspend=True,
                queue="evil",
                schedulerName="volcano",
                status={"conditions": [condition("Failed")], "state": {"phase": "x"}, "terminalState": "x"},
            )
        )
        for kind in WORKLOADS
    },
}
#: The API server's own word, in the shape that it always has.
ITS_OWN = frozenset({"name", "uid", "namespace", "resourceVersion", "generation", "creationTimestamp"})


def ways(made: Wire) -> list[tuple[Any, ...]]:
    """The places that users write."""
    return [
        way
        for way in places(made)
        if way not in ((), ("metadata",), ("apiVersion",), ("kind",), ("metadata", "deletionTimestamp"))
        and not (way[0] == "metadata" and way[1] in ITS_OWN)
    ]


WAYS = {kind: ways(made) for kind, made in HOSTILE.items()}


def add_honest_objects(harness: ControllerHarness) -> None:
    """A queue that was resumed and has a gated pod, one that is stopped, one that is closed, a Command."""
    harness.receive_events(
        queue("research", generation=2),
        queue("victim", generation=2, state="Suspended"),
        queue("closing", generation=2, state="Closed"),
        queue("commanded"),
        queue("evil"),
    )
    harness.receive_events(
        podgroup("gang", queue="research"), podgroup("done", queue="closing", status={"phase": "Completed"})
    )
    harness.receive_events(member("parked", "research", gates=[GATE]), member("held", "victim", gates=[GATE]))
    harness.receive_events(
        member("gang-0", "research", annotations={GROUP: "gang"}, nodeName="n", status={"phase": "Running"})
    )
    made = command("stop-it", target="commanded", **STAMP)
    harness.receive_events(made)
    harness.client.readable[f"{QUEUES}/commanded"] = queue("commanded")
    harness.client.readable["/apis/bus.volcano.sh/v1alpha1/namespaces/default/commands/stop-it"] = made


def assert_honest_work_is_done(harness: ControllerHarness) -> None:
    """The requests for the honest objects were sent."""
    assert harness.bodies(f"{PODS}/parked"), "the gate of a pod whose queue schedules goes"
    assert harness.bodies(f"{PODS}/held/status"), "a gated pod says why"
    assert not harness.bodies(f"{PODS}/held"), "the gate of a pod whose queue is stopped stays"
    written = {name: harness.bodies(f"{QUEUES}/{name}/status") for name in ("research", "victim", "closing")}
    assert all(written.values()), written
    active = {one["type"]: one["status"] for one in written["victim"][-1]["status"]["conditions"]}
    assert active["Active"] == "False", "the stop is acknowledged"
    assert written["closing"][-1]["status"]["state"] in {"Closing", "Closed"}
    [*_, group] = harness.bodies("/apis/scheduling.volcano.sh/v1beta1/namespaces/team/podgroups/gang")
    assert group["status"]["phase"] == "Running"
    acted = [body.get("spec", {}) for body in harness.bodies(f"{QUEUES}/commanded")]
    assert any(spec.get("state") == "Suspended" for spec in acted), "the Command acts"


def started_harness() -> ControllerHarness:
    """A harness after its first sync of all objects; later objects are synced as changes."""
    harness = ControllerHarness()
    harness.receive_events(namespace("team"), namespace("evil"))
    harness.receive_events(queue("root"), queue("default"))
    harness.receive_events(podgroup("gang", queue="research"))
    harness.receive_events(podgroup("done", queue="closing", status={"phase": "Completed"}))
    harness.sync(rounds=1)
    return harness


@pytest.fixture
def harness() -> ControllerHarness:
    return started_harness()


def test_without_hostile_objects_all_is_done_and_nothing_fails(harness: ControllerHarness) -> None:
    add_honest_objects(harness)
    harness.sync()
    assert_honest_work_is_done(harness)
    assert harness.failed() == {}


@pytest.mark.parametrize("kind", HOSTILE)
def test_an_object_full_of_odd_things_blocks_no_other(harness: ControllerHarness, kind: str) -> None:
    add_honest_objects(harness)
    harness.receive_events(HOSTILE[kind])
    harness.sync()
    assert_honest_work_is_done(harness)
    assert harness.failed() == {}


def test_a_pod_that_names_a_podgroup_no_podgroup_can_have_blocks_no_other(
    harness: ControllerHarness,
) -> None:
    """Its key was once cut at the wrong slash, so that every sync raised."""
    add_honest_objects(harness)
    harness.receive_events(
        *(pod(f"evil-{number}", annotations={GROUP: name}) for number, name in enumerate(TEXTS))
    )
    harness.sync()
    assert_honest_work_is_done(harness)
    assert harness.failed() == {}


@examples(150)
@given(data=st.data(), kind=st.sampled_from(sorted(HOSTILE)), first=st.booleans())
def test_any_value_at_any_place_of_an_object_blocks_no_other(
    data: st.DataObject, kind: str, first: bool
) -> None:
    """Whether the object was first or not, through later changes of it, and through its deletion."""
    states = [HOSTILE[kind]]
    for _ in range(data.draw(st.integers(1, 3))):
        way = data.draw(st.sampled_from(WAYS[kind]))
        try:
            states.append(replaced(states[-1], way, data.draw(VALUES | st.just(...))))
        except (KeyError, IndexError, TypeError):
            continue
    harness = started_harness()
    if not first:
        add_honest_objects(harness)
    for version, state in enumerate(states):
        receive_hostile(harness, state, version=version + 2)
    if first:
        add_honest_objects(harness)
    harness.sync()
    assert_honest_work_is_done(harness)
    assert harness.failed() == {}, "nothing has to be isolated: it is answered as what it is"


def receive_hostile(harness: ControllerHarness, obj: Any, *, version: int) -> None:
    """Receive the object as the API server would store it: with metadata of the API server's own."""
    if not isinstance(obj, dict) or not isinstance(obj.get("metadata"), dict):
        return
    own = {"name": "evil", "uid": "uid-evil", "resourceVersion": str(version)}
    if obj.get("kind") == "Namespace":
        own["namespace"] = ""
    harness.receive_events(
        {**obj, "metadata": {**obj["metadata"], **own}}, event="ADDED" if version == 2 else "MODIFIED"
    )
