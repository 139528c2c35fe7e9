"""When the condition of a gated pod is written, and when no longer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from cluster.api.client import Client
from cluster.cache.changes import NO_QUEUE
from cluster.metrics import Metrics
from cluster.recorder import EventRecorder
from cluster.waiting_writes import WriteKey
from cluster.write_queue import WriteQueue
from controller.pods.pod_conditions import LATER, PodConditions
from queues.quota.lack import Lack, LackKind
from tests.support.controller.contexts import context_with
from tests.support.http.asking import Server
from tests.support.http.wire_objects import (
    Wire,
    job,
    member,
    owner,
    pod,
    queue,
)
from tests.support.rules.cases import NOW

QUEUE = "research"
TRAIN = job("train", queue=QUEUE)


class PendingWrites:
    """A write queue of which no write has been sent yet."""

    def __init__(self) -> None:
        self.writes: dict[WriteKey, Callable[[], object]] = {}

    def submit(self, key: WriteKey, write: Callable[[], object], **_: Any) -> bool:
        return key not in self.writes and self.writes.setdefault(key, write) is write

    def __len__(self) -> int:
        return len(self.writes)


class Conditions:
    """The conditions of the members of a queue that drains."""

    def __init__(self) -> None:
        self.server = Server().has(queue("root"), queue(QUEUE, stopPolicy="HoldAndDrain"))
        self.writers, self.evictions = PendingWrites(), PendingWrites()
        self.patched: list[str] = []
        self.bodies: list[Wire] = []
        client = cast(Client, SimpleNamespace(patch=self._patch))
        writers = cast(WriteQueue, self.writers)
        parts = context_with(
            store=self.server.store,
            client=client,
            writers=writers,
            status_writers=writers,
            drain_writers=self.evictions,
            recorder=EventRecorder(client=client, writers=writers, metrics=Metrics()),
        )
        self._pod_conditions = PodConditions(parts)

    def _patch(self, path: str, body: Wire, **_: Any) -> None:
        self.patched.append(path)
        self.bodies.append(body)

    def gated(self, name: str, *, age: timedelta, **more: Any) -> Wire:
        made = member(name, queue=QUEUE, gates=["sluice.dev/queue"], **more)
        made["metadata"]["creationTimestamp"] = f"{NOW - age:%Y-%m-%dT%H:%M:%SZ}"
        self.server.has(made)
        return made

    def write(self, *names: str) -> tuple[bool, set[object]]:
        """After a change of these: whether some are deferred, and whose condition is to be written."""
        stored = (self.server.store.members.get("team", name) for name in names)
        deferred = self._pod_conditions.write_conditions(QUEUE, [pod for pod in stored if pod is not None])
        return deferred, {uid for what, uid in self.writers.writes if what == "pod_condition"}

    def write_without_queue(self, *names: str) -> None:
        """Of pods that wait for their PodGroups."""
        stored = (self.server.store.members.get("team", name) for name in names)
        self._pod_conditions.write_conditions(NO_QUEUE, [pod for pod in stored if pod is not None])

    def lacks_room(self, name: str, lack: Lack) -> None:
        """The pod has no room."""
        pod = self.server.store.members.get("team", name)
        assert pod is not None
        self._pod_conditions.write_lack(pod, lack)

    def send(self) -> int:
        """Send the conditions that wait; returns how many."""
        waiting = [key for key in self.writers.writes if key[0] == "pod_condition"]
        for key in waiting:
            self.writers.writes.pop(key)()
        return len(waiting)

    def events(self) -> list[str]:
        """The names of the objects that got one."""
        named = (str(name) for what, name in self.writers.writes if what == "event")
        return sorted(name.rpartition(".")[0] for name in named)


@pytest.fixture
def conditions() -> Conditions:
    return Conditions()


@pytest.fixture
def _evictions_wait(conditions: Conditions) -> None:
    conditions.evictions.submit(("drain", "uid-old"), lambda: None)


def test_the_condition_of_a_gated_pod_is_written_at_once(conditions: Conditions) -> None:
    conditions.gated("new", age=timedelta())
    assert conditions.write("new") == (False, {"uid-new"})


def test_of_replacements_in_a_drain_their_workload_alone_gets_an_event(conditions: Conditions) -> None:
    """Of a bare pod, or while the queue is only held, the pod gets one too."""
    conditions.server.has(TRAIN)
    for name in ("train-1", "train-2"):
        conditions.gated(name, age=timedelta(), owner=owner(TRAIN))
    conditions.gated("bare", age=timedelta())
    names = "train-1", "train-2", "bare"
    assert conditions.write(*names) == (False, {"uid-train-1", "uid-train-2", "uid-bare"})
    assert conditions.events() == ["bare", "train"]
    conditions.server.has(queue(QUEUE, stopPolicy="Hold", version=2, generation=2))
    conditions.gated("train-3", age=timedelta(), owner=owner(TRAIN))
    conditions.write("train-3")
    assert conditions.events() == ["bare", "train", "train", "train-3"]


def test_a_pod_whose_podgroup_the_leader_creates_says_so_without_an_event(conditions: Conditions) -> None:
    """Its user has nothing to create, and the PodGroup comes at once."""
    gated: dict[str, Any] = {"gates": ["sluice.dev/queue"], "labels": {"sluice.dev/queue": ""}}
    group, gang = "scheduling.k8s.io/group-name", {"sluice.dev/gang": "research/2"}
    conditions.server.has(
        pod("mine", annotations={group: "pair"}, **gated),
        pod("made", annotations={group: "podgroup-uid-train", **gang}, owner=owner(TRAIN), **gated),
    )
    conditions.write_without_queue("mine", "made")
    conditions.send()
    assert {body["status"]["conditions"][0]["message"] for body in conditions.bodies} == {
        'PodGroup "pair" does not exist; create it with: kubectl create -f PODGROUP',
        'PodGroup "podgroup-uid-train" does not exist; Sluice creates it for the owner of this pod',
    }
    assert conditions.events() == ["mine"]


@pytest.mark.usefixtures("_evictions_wait")
def test_while_evictions_wait_it_is_written_once_the_pod_is_old_enough(conditions: Conditions) -> None:
    conditions.gated("older", age=LATER)
    conditions.gated("new", age=LATER - timedelta(seconds=1))
    assert conditions.write("older", "new") == (True, {"uid-older"})
    conditions.server.clock.at += timedelta(seconds=1)
    assert conditions.write() == (False, {"uid-older", "uid-new"})


@pytest.mark.usefixtures("_evictions_wait")
def test_once_the_evictions_are_sent_deferred_conditions_are_written(conditions: Conditions) -> None:
    conditions.gated("new", age=timedelta())
    assert conditions.write("new") == (True, set())
    conditions.evictions.writes.clear()
    assert conditions.write() == (False, {"uid-new"})


@pytest.mark.usefixtures("_evictions_wait")
def test_of_a_deferred_pod_that_is_gone_nothing_is_written(conditions: Conditions) -> None:
    made = conditions.gated("new", age=timedelta())
    assert conditions.write("new") == (True, set())
    conditions.server.lacks(made).clock.at += LATER
    assert conditions.write() == (False, set())


@pytest.mark.usefixtures("_evictions_wait")
def test_evictions_of_a_drain_that_has_ended_defer_nothing(conditions: Conditions) -> None:
    conditions.server.has(queue(QUEUE, version=2, generation=2, stopPolicy="Hold"))
    conditions.gated("new", age=timedelta())
    assert conditions.write("new") == (False, {"uid-new"})


@pytest.mark.parametrize("gone", ["nothing", "the gate", "the stop", "the pod"])
def test_a_condition_that_is_no_longer_true_is_not_written(conditions: Conditions, gone: str) -> None:
    """After a resume it would replace the condition that kube-scheduler has written."""
    made = conditions.gated("new", age=timedelta())
    conditions.write("new")
    match gone:
        case "the gate":
            conditions.server.has({**made, "spec": {**made["spec"], "schedulingGates": []}})
        case "the stop":
            conditions.server.has(queue(QUEUE, version=2, generation=2))
        case "the pod":
            conditions.server.lacks(made)
    conditions.writers.writes["pod_condition", "uid-new"]()
    assert conditions.patched == (["/api/v1/namespaces/team/pods/new/status"] if gone == "nothing" else [])


def test_what_a_gate_said_is_taken_back_once_for_a_scheduler_that_may_never_write(
    conditions: Conditions,
) -> None:
    """At the version without the gate, so that the condition of a scheduler that does run stays."""
    said = [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": "why"}]
    made = member("foreign", queue=QUEUE, version=7, status={"conditions": said})
    made["spec"]["schedulerName"] = "others"
    conditions.server.has(queue(QUEUE, version=2, generation=2), made)
    for _ in range(2):
        conditions.write("foreign")
    assert list(conditions.writers.writes) == [("pod_condition_removal", "uid-foreign")]
    conditions.writers.writes["pod_condition_removal", "uid-foreign"]()
    assert conditions.patched == ["/api/v1/namespaces/team/pods/foreign/status"]
    assert conditions.bodies == [
        {
            "metadata": {"uid": "uid-foreign", "resourceVersion": "7"},
            "status": {"conditions": [{"type": "PodScheduled", "$patch": "delete"}]},
        }
    ]


def test_a_pod_without_room_says_so_once_for_each_reason_however_much_lacks(conditions: Conditions) -> None:
    """And whatever else of the pod changes before the watch shows its condition."""
    lab, research = queue("lab", capability={"cpu": "8"}), queue(QUEUE, parent="lab", version=2, generation=2)
    conditions.server.has(lab, research)
    for version in (1, 2):
        conditions.server.has(member("work", queue=QUEUE, gates=["sluice.dev/quota"], version=version))
        for missing in (1, 2, 3):
            conditions.lacks_room("work", Lack("lab", "cpu", missing))
        assert conditions.send() == 1
    assert conditions.events() == ["work"]
    said = conditions.bodies[-1]["status"]["conditions"][0]["message"]
    assert said.startswith(
        f'queue "{QUEUE}" has no room for this pod now: the capability of its ancestor "lab"'
    )
    assert not any(letter.isdigit() for letter in said)
    conditions.lacks_room("work", Lack(QUEUE, "cpu", 1))
    assert (conditions.send(), conditions.events()) == (1, ["work", "work"])
    conditions.lacks_room("work", Lack(QUEUE, "cpu", 1, kind=LackKind.CLAIM))
    assert (conditions.send(), len(conditions.events())) == (1, 3)
    assert "claimed by a pod that has waited longer" in str(conditions.bodies[-1])


def test_a_pod_whose_condition_says_so_already_is_not_written(conditions: Conditions) -> None:
    """A new leader begins without knowing what was said."""
    conditions.server.has(queue(QUEUE, capability={"cpu": "8"}, version=2, generation=2))
    text = (
        f'queue "{QUEUE}" has no room for this pod now: its capability is used; '
        "it goes when others end, or an admin of queues raises it"
    )
    said = [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": text}]
    waits = member("work", queue=QUEUE, gates=["sluice.dev/quota"], status={"conditions": said})
    conditions.server.has(waits)
    conditions.lacks_room("work", Lack(QUEUE, "cpu", 5))
    assert (conditions.send(), conditions.events()) == (0, [])


def test_a_workload_is_told_once_for_each_reason_that_pods_of_it_have_no_room(conditions: Conditions) -> None:
    conditions.server.has(queue(QUEUE, capability={"cpu": "8"}, version=2, generation=2), TRAIN)
    for name in ("train-1", "train-2"):
        conditions.server.has(member(name, queue=QUEUE, gates=["sluice.dev/quota"], owner=owner(TRAIN)))
        conditions.lacks_room(name, Lack(QUEUE, "cpu", 1))
    assert conditions.events() == ["train", "train-1", "train-2"]
    conditions.send()
    conditions.lacks_room("train-1", Lack(QUEUE, "cpu", 1, never=True))
    assert conditions.events() == ["train", "train", "train-1", "train-1", "train-2"]


class OneWriter:
    """A write queue with one write under way for a key, and no other for that key meanwhile."""

    def __init__(self) -> None:
        self.under_way: dict[WriteKey, tuple[Callable[[], object], Callable[[bool], object]]] = {}

    def submit(
        self,
        key: WriteKey,
        write: Callable[[], object],
        *,
        done: Callable[[bool], object] = lambda _ok: None,
        **_: Any,
    ) -> bool:
        return key not in self.under_way and self.under_way.setdefault(key, (write, done)) == (write, done)

    def end(self, key: WriteKey) -> None:
        """The API server has stored it, and its answer has come."""
        write, done = self.under_way.pop(key)
        write()
        done(True)

    def __len__(self) -> int:
        return len(self.under_way)


@pytest.mark.parametrize("still_leads", [True, False])
def test_a_text_that_comes_while_another_is_written_is_written_after_it(still_leads: bool) -> None:
    """The watch may show the first one before its answer has come: nothing on the pod changes any more.

    Once another replica leads, that one writes it.
    """
    writers, told, delivered = OneWriter(), list[str](), list[Callable[[], object]]()
    server = Server().has(queue("root"), queue(QUEUE, capability={"cpu": "1"}))
    client = cast(
        Client,
        SimpleNamespace(
            patch=lambda _path, body, **_: told.append(body["status"]["conditions"][0]["message"])
        ),
    )
    parts = context_with(
        store=server.store,
        client=client,
        writers=cast(WriteQueue, writers),
        work_queue=SimpleNamespace(deliver=delivered.append),
        recorder=EventRecorder(client=client, writers=cast(WriteQueue, writers), metrics=Metrics()),
    )
    conditions, waits = PodConditions(parts), member("work", QUEUE, gates=["sluice.dev/quota"])
    server.has(waits)
    found = server.store.members.get("team", "work")
    assert found is not None
    key = "pod_condition", found.uid
    lack = Lack(QUEUE, resource="cpu", kind=LackKind.CAPABILITY)
    for kept in ("", "1 pod could go", "2 pods could go"):
        conditions.write_lack(found, msgspec.structs.replace(lack, kept=kept))
    writers.end(key)
    assert len(told) == 1
    assert "could go" not in told[0]
    if not still_leads:
        parts.requests.begin_term()
    while delivered:
        delivered.pop()()
    if not still_leads:
        assert key not in writers.under_way
        return
    writers.end(key)
    assert len(told) == 2
    assert "2 pods could go" in told[1], "the latest"
    assert not delivered
    assert key not in writers.under_way


def test_a_text_of_a_new_term_that_waits_for_a_write_of_the_former_one_is_written_after_it() -> None:
    """Also where that was given up: its own answer counts no more, its end does."""
    writers, told, delivered = OneWriter(), list[str](), list[Callable[[], object]]()
    server = Server().has(queue("root"), queue(QUEUE, capability={"cpu": "1"}))
    client = SimpleNamespace(
        patch=lambda _path, body, **_: told.append(body["status"]["conditions"][0]["message"])
    )
    parts = context_with(
        store=server.store,
        client=client,
        writers=cast(WriteQueue, writers),
        work_queue=SimpleNamespace(deliver=delivered.append),
        recorder=EventRecorder(
            client=cast(Client, client), writers=cast(WriteQueue, writers), metrics=Metrics()
        ),
    )
    conditions = PodConditions(parts)
    server.has(member("work", QUEUE, gates=["sluice.dev/quota"]))
    found = server.store.members.get("team", "work")
    assert found is not None
    key = "pod_condition", found.uid
    lack = Lack(QUEUE, resource="cpu", kind=LackKind.CAPABILITY)
    conditions.write_lack(found, lack)
    parts.requests.begin_term()
    conditions.write_lack(found, msgspec.structs.replace(lack, never=True))
    _, ended = writers.under_way.pop(key)
    ended(False)
    while delivered:
        delivered.pop()()
    writers.end(key)
    [text] = told
    assert "never" in text
