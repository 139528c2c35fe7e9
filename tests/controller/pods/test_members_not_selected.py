"""The controller and members of namespaces that their queue does not select: who waits, goes, says why."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cluster.api.client import Client
from cluster.metrics import Metrics
from cluster.recorder import EventRecorder
from cluster.write_queue import Key, WriteQueue
from controller.pods.pod_conditions import PodConditions
from controller.pods.reservations import Reservations
from controller.pods.retry import PreemptionRetry
from controller.pods.ungating import (
    RETRY,
    TIMES,
    Ungating,
)
from controller.status.closing import closing_blocker
from controller.stops.bind_guard import namespaces_to_guard
from tests.support.controller.contexts import context_with
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
    "use another queue, or change that with: kubectl label namespace team --overwrite team=a"
)


class Writes:
    """Writers that write at once."""

    def __init__(self) -> None:
        self.keys: list[Key] = []

    def submit(
        self, key: Key, write: Callable[[], object], *, done: Callable[[bool], object] | None = None, **_: Any
    ) -> bool:
        self.keys.append(key)
        write()
        if done is not None:
            done(True)
        return True

    def __len__(self) -> int:
        return 0


class Corner:
    """A queue for namespaces with a label, and `ours`, which has it; `team` has not."""

    def __init__(self) -> None:
        self.server = Server().has(
            queue("root", parent=None),
            queue("vision", namespaceSelector=TEAM),
            namespace("ours", labels={"team": "a"}),
        )
        self.writers = Writes()
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
            drain_writers=Writes(),
            recorder=EventRecorder(client=client, writers=writers, metrics=Metrics()),
        )
        self.ungating = Ungating(self.parts)

    def has(self, name: str, where: str = "team", **more: Any) -> Wire:
        made = member(name, queue="vision", namespace=where, **more)
        self.server.has(made)
        return made

    def label(self, version: int, **labels: str) -> None:
        self.server.has(namespace("team", labels=labels, version=version))

    def ungate(self, *, may_retry: bool = True) -> int:
        """What is done for all that wait, as after any change of the queue."""
        waiting = self.server.store.members.waiting_in("vision")
        return self.ungating.ungate("vision", waiting, may_retry=lambda: may_retry)

    def is_requeued(self) -> bool:
        """Whether the queue is to be looked at again; asking forgets it."""
        return self.parts.work_queue._due.pop("vision", None) is not None

    def written(self, what: str) -> list[object]:
        return [uid for kind, uid in self.writers.keys if kind == what]


@pytest.fixture
def corner() -> Corner:
    return Corner()


def refused(text: str = DENIAL) -> dict[str, Any]:
    said = f"0/3 nodes are available: 3 {text}. preemption: 0/3 nodes are available."
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}
    return {"status": {"phase": "Pending", "conditions": [condition]}}


def test_the_gate_stays_on_who_is_not_selected_and_goes_with_the_label(corner: Corner) -> None:
    corner.has("stranger", gates=[GATE])
    corner.has("own", "ours", gates=[GATE])
    corner.ungate()
    assert corner.written("ungate") == ["uid-own"]
    corner.label(2, team="a")
    corner.ungate()
    assert corner.written("ungate") == ["uid-own", "uid-stranger"]


def test_a_label_that_goes_before_the_write_is_sent_keeps_the_gate(corner: Corner) -> None:
    """Each write asks again at the moment it is sent."""
    corner.label(2, team="a")
    corner.has("stranger", gates=[GATE])
    found = corner.server.store.members.get("team", "stranger")
    assert found is not None
    write = partial(corner.ungating._remove_gate, found)
    corner.label(3)
    write()
    assert corner.patches == []


def test_who_filter_refused_is_retried_again_until_its_condition_says_something_else(corner: Corner) -> None:
    """Another replica may have seen the label later: then the scheduler was refused once more."""
    corner.has("stranger", **refused())
    corner.ungate()
    assert corner.written("retry") == []
    corner.label(2, team="a")
    assert corner.ungate(may_retry=False) == 1
    seen = []
    for number in range(2 * TIMES):
        corner.has("stranger", version=number + 2, **refused())
        corner.ungate()
        seen.append(len(corner.written("retry")))
        assert number >= TIMES or corner.is_requeued()
        corner.server.clock.seconds += RETRY.seconds(number + 1)
    assert seen[:TIMES] == list(range(1, TIMES + 1))
    assert seen[-1] == TIMES, "for ever"
    tokens = [body["metadata"]["annotations"]["sluice.dev/woken"] for _, body in corner.patches]
    assert len(set(tokens)) == TIMES, "an annotation that does not change retries nobody"


def test_it_is_not_retried_sooner_than_it_could_have_been_answered(corner: Corner) -> None:
    corner.label(2, team="a")
    corner.has("stranger", **refused())
    corner.ungate()
    corner.has("stranger", version=2, **refused())
    corner.ungate()
    assert corner.written("retry") == ["uid-stranger"]


def test_a_second_change_of_the_labels_begins_anew(corner: Corner) -> None:
    """However often it was retried after the first."""
    corner.label(2, team="a")
    for number in range(TIMES + 2):
        corner.has("stranger", version=number + 1, **refused())
        corner.ungate()
        corner.server.clock.seconds += 1000.0
    corner.label(3)
    corner.label(4, team="a")
    corner.has("stranger", version=90, **refused())
    corner.ungate()
    assert len(corner.written("retry")) == TIMES + 1


def test_who_waits_for_something_else_is_not_retried(corner: Corner) -> None:
    corner.label(2, team="a")
    corner.has("stranger", **refused("Insufficient cpu"))
    assert corner.ungate() == 0
    assert corner.written("retry") == []


def test_only_who_is_not_selected_says_so(corner: Corner) -> None:
    """On the gated pod; whose namespace is selected is gated for no reason that is told."""
    corner.has("stranger", gates=[GATE])
    corner.has("own", "ours", gates=[GATE])
    telling = PodConditions(corner.parts)
    telling.explain("vision", corner.server.store.members.waiting_in("vision"))
    [(path, body)] = [one for one in corner.patches if "/status" in one[0]]
    assert path.startswith("/api/v1/namespaces/team/pods/stranger")
    assert body["status"]["conditions"][0]["message"] == DENIAL


def test_a_nominated_node_is_given_up_by_strangers_alone(corner: Corner) -> None:
    for name, where in (("stranger", "team"), ("own", "ours")):
        corner.has(name, where, status={"phase": "Pending", "nominatedNodeName": "node-1"})
    Reservations(corner.parts).cancel("vision", corner.server.store.members.waiting_in("vision"))
    assert corner.written("nomination") == ["uid-stranger"]


def test_the_guard_is_wanted_where_a_stranger_could_be_bound(corner: Corner) -> None:
    """Also for a pass that is open; and nowhere for those who are selected."""
    store = corner.server.store
    corner.has("own", "ours", resources={"requests": {"sluice.dev/member": "1"}})
    assert namespaces_to_guard(store, store.snapshot) == set()
    corner.has("stranger")
    assert namespaces_to_guard(store, store.snapshot) == {"team"}
    corner.label(2, team="a")
    assert namespaces_to_guard(store, store.snapshot) == set()
    corner.server.has(namespace("far"))
    store.bind_passes.record_filter_pass(namespace="far", name="x", queue="vision")
    assert namespaces_to_guard(store, store.snapshot) == {"far"}


def test_a_pod_without_room_is_nudged_for_once_its_namespace_is_selected(corner: Corner) -> None:
    """Preempt refused it its victims meanwhile; and again after the labels changed a second time."""
    corner.has("stranger", **refused("Insufficient cpu"))
    nudging = PreemptionRetry(corner.parts, namespace="sluice-system")

    def consider() -> int:
        nudging.retry_if_refused(
            "vision", corner.server.store.members.waiting_in("vision"), may_retry=lambda: True
        )
        return len(corner.written("preemption_retry"))

    assert consider() == 0
    corner.label(2, team="a")
    assert (consider(), consider()) == (1, 1)
    corner.label(3)
    corner.label(4, team="a")
    assert consider() == 2


@pytest.mark.parametrize(
    "stranger",
    [member("x", queue="vision"), job("x", queue="vision"), podgroup("x", queue="vision")],
    ids=["pod", "job", "podgroup"],
)
def test_no_stranger_is_named_as_keeping_a_queue_from_closed(corner: Corner, stranger: Wire) -> None:
    corner.server.has(stranger, queue("vision", version=2, state="Closed", namespaceSelector=TEAM))
    store = corner.server.store
    assert "kept" not in closing_blocker(store, store.snapshot.verdict("vision", live=True))
    corner.label(2, team="a")
    assert "kept from Closed by" in closing_blocker(store, store.snapshot.verdict("vision", live=True))
