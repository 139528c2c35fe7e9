"""Members of namespaces that their queue does not select: they wait, and are ungated or retried later."""

from __future__ import annotations

import time
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cluster.api.client import Client
from cluster.metrics import Metrics
from cluster.recorder import EventRecorder
from cluster.write_queue import WriteQueue
from controller.pods.nominations import Nominations
from controller.pods.pod_conditions import PodConditions
from controller.pods.retry import PreemptionRetry
from controller.pods.retry_event import RetryEvents
from controller.pods.ungating import (
    RETRY,
    TIMES,
    Ungating,
)
from controller.status.closing import closing_status
from controller.stops.bind_guard import namespaces_to_guard
from queues.status.closing import ClosingStatus
from tests.support.controller.contexts import ImmediateWrites, context_with
from tests.support.http.asking import Server
from tests.support.http.wire_objects import (
    Wire,
    job,
    member,
    namespace,
    podgroup,
    queue,
)

GATE = "sluice.dev/queue"
TEAM = {"matchLabels": {"team": "a"}}
DENIAL = (
    'queue "vision" is not for namespace "team": the namespaceSelector of the queue asks for team=a; '
    "use another queue, or have an admin of queues change that"
)


#: No retry is due so late.
LATER = 60.0


class Setup:
    """A queue for namespaces with a label. Namespace `ours` has the label; `team` does not."""

    def __init__(self) -> None:
        self.server = Server().has(
            queue("root", parent=None),
            queue("vision", namespaceSelector=TEAM),
            namespace("ours", labels={"team": "a"}),
        )
        self.writers = ImmediateWrites()
        self.patches: list[tuple[str, Any]] = []

        def patch(path: str, body: Any, **_: Any) -> None:
            self.patches.append((path, body))

        client = cast(
            Client, SimpleNamespace(patch=patch, create=lambda *_, **__: None, delete=lambda *_, **__: None)
        )
        writers = cast(WriteQueue, self.writers)
        self.parts = context_with(
            store=self.server.store,
            client=client,
            writers=writers,
            status_writers=writers,
            guard_writers=writers,
            drain_writers=ImmediateWrites(),
            recorder=EventRecorder(client=client, writers=writers, metrics=Metrics()),
            namespace="sluice-system",
        )
        self.events = RetryEvents(self.parts)
        self.ungating = Ungating(self.parts, events=self.events)

    def has(self, name: str, where: str = "team", **more: Any) -> Wire:
        made = member(name, queue="vision", namespace=where, **more)
        self.server.has(made)
        return made

    def label(self, version: int, **labels: str) -> None:
        self.server.has(namespace("team", labels=labels, version=version))

    def ungate(self, *, may_retry: bool = True) -> int:
        """Handle all waiting members, as after a change of the queue."""
        waiting = self.server.store.members.waiting_in("vision")
        return self.ungating.ungate("vision", waiting, may_retry=lambda: may_retry)

    def is_requeued(self) -> bool:
        """Whether the queue was requeued since the last call."""
        return bool(self.parts.work_queue._due.take(time.monotonic() + LATER))

    def written(self, what: str) -> list[object]:
        return [uid for kind, uid in self.writers.keys if kind == what]


@pytest.fixture
def setup() -> Setup:
    return Setup()


def refused(text: str = DENIAL) -> dict[str, Any]:
    said = f"0/3 nodes are available: 3 {text}. preemption: 0/3 nodes are available."
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}
    return {"status": {"phase": "Pending", "conditions": [condition]}}


def test_a_pod_is_ungated_once_its_namespace_is_selected(setup: Setup) -> None:
    setup.has("not-selected", gates=[GATE])
    setup.has("own", "ours", gates=[GATE])
    setup.ungate()
    assert setup.written("ungate") == ["uid-own"]
    setup.label(2, team="a")
    setup.ungate()
    assert setup.written("ungate") == ["uid-own", "uid-not-selected"]


def test_a_pod_is_not_ungated_if_the_label_goes_before_the_write_is_sent(setup: Setup) -> None:
    """Each write reads the decision again just before it is sent."""
    setup.label(2, team="a")
    setup.has("not-selected", gates=[GATE])
    found = setup.server.store.members.get("team", "not-selected")
    assert found is not None
    write = partial(setup.ungating._remove_gate, found)
    setup.label(3)
    write()
    assert setup.patches == []


def test_a_pod_that_filter_refused_is_retried_until_its_condition_changes(setup: Setup) -> None:
    """Another replica may see the label later, and refuse the pod once more."""
    setup.has("not-selected", **refused())
    setup.ungate()
    assert setup.written("retry") == []
    setup.label(2, team="a")
    assert setup.ungate(may_retry=False) == 1
    seen = []
    for number in range(2 * TIMES):
        setup.has("not-selected", version=number + 2, **refused())
        setup.ungate()
        seen.append(len(setup.written("retry")))
        assert number >= TIMES or setup.is_requeued()
        setup.server.clock.seconds += RETRY.seconds(number + 1)
    assert seen[:TIMES] == list(range(1, TIMES + 1))
    assert seen[-1] == TIMES, "for ever"
    tokens = [body["metadata"]["annotations"]["sluice.dev/woken"] for _, body in setup.patches]
    assert len(set(tokens)) == TIMES, "an annotation that does not change causes no retry"


def test_a_pod_is_not_retried_again_before_its_pause_has_ended(setup: Setup) -> None:
    setup.label(2, team="a")
    setup.has("not-selected", **refused())
    setup.ungate()
    setup.has("not-selected", version=2, **refused())
    setup.ungate()
    assert setup.written("retry") == ["uid-not-selected"]


def test_the_count_of_retries_begins_anew_with_each_change_of_the_labels(setup: Setup) -> None:
    """However often it was retried after the first."""
    setup.label(2, team="a")
    for number in range(TIMES + 2):
        setup.has("not-selected", version=number + 1, **refused())
        setup.ungate()
        setup.server.clock.seconds += 1000.0
    setup.label(3)
    setup.label(4, team="a")
    setup.has("not-selected", version=90, **refused())
    setup.ungate()
    assert len(setup.written("retry")) == TIMES + 1


def test_a_pod_that_waits_for_another_cause_is_not_retried(setup: Setup) -> None:
    setup.label(2, team="a")
    setup.has("not-selected", **refused("Insufficient cpu"))
    assert setup.ungate() == 0
    assert setup.written("retry") == []


def test_only_a_gated_pod_that_is_not_selected_gets_the_condition(setup: Setup) -> None:
    """The other one is about to be ungated."""
    setup.has("not-selected", gates=[GATE])
    setup.has("own", "ours", gates=[GATE])
    PodConditions(setup.parts).write_conditions("vision", setup.server.store.members.waiting_in("vision"))
    [(path, body)] = [one for one in setup.patches if "/status" in one[0]]
    assert path.startswith("/api/v1/namespaces/team/pods/not-selected")
    assert body["status"]["conditions"][0]["message"] == DENIAL


def test_only_the_nomination_of_a_pod_that_is_not_selected_is_cleared(setup: Setup) -> None:
    for name, where in (("not-selected", "team"), ("own", "ours")):
        setup.has(name, where, status={"phase": "Pending", "nominatedNodeName": "node-1"})
    Nominations(setup.parts).cancel("vision", setup.server.store.members.waiting_in("vision"))
    assert setup.written("nomination") == ["uid-not-selected"]


def test_the_guard_is_wanted_where_a_pod_that_is_not_selected_could_be_bound(setup: Setup) -> None:
    """Also where a pass is open, and nowhere for pods that are selected."""
    store = setup.server.store
    setup.has("own", "ours", resources={"requests": {"sluice.dev/member": "1"}})
    assert namespaces_to_guard(store, store.snapshot) == set()
    setup.has("not-selected")
    assert namespaces_to_guard(store, store.snapshot) == {"team"}
    setup.label(2, team="a")
    assert namespaces_to_guard(store, store.snapshot) == set()
    setup.server.has(namespace("far"))
    store.bind_passes.record_filter_pass(namespace="far", name="x", queue="vision")
    assert namespaces_to_guard(store, store.snapshot) == {"far"}


def test_a_pod_that_lacks_room_is_retried_once_its_namespace_is_selected(setup: Setup) -> None:
    """Its preemption was denied meanwhile. It is retried again after the labels have changed once more."""
    setup.has("not-selected", **refused("Insufficient cpu"))
    preemption_retry = PreemptionRetry(setup.parts, events=setup.events)

    def retries() -> int:
        preemption_retry.retry_if_refused(
            "vision",
            setup.server.store.members.waiting_in("vision"),
            may_retry=lambda: True,
            demand_alike_answers=lambda **_: True,
        )
        setup.parts.work_queue.get([0.0])  # passes the result on
        return len(setup.written("retry_all"))

    assert retries() == 0
    setup.label(2, team="a")
    assert (retries(), retries()) == (1, 1)
    setup.label(3)
    setup.label(4, team="a")
    assert retries() == 2


@pytest.mark.parametrize(
    "obj",
    [member("x", queue="vision"), job("x", queue="vision"), podgroup("x", queue="vision")],
    ids=["pod", "job", "podgroup"],
)
def test_an_object_that_is_not_selected_does_not_keep_a_queue_from_closed(setup: Setup, obj: Wire) -> None:
    setup.server.has(obj, queue("vision", version=2, state="Closed", namespaceSelector=TEAM))
    store = setup.server.store
    assert closing_status(store, store.snapshot.verdict("vision", live=True)) == ClosingStatus()
    setup.label(2, team="a")
    closing = closing_status(store, store.snapshot.verdict("vision", live=True))
    assert closing is not None and closing.name == "x"
