"""What a queue with a quota says of it: counted with all below it, seldom, and not at all without a quota."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from controller.status.count_slots import COUNT_SECONDS
from controller.status.queue_reconciler import QueueReconciler
from controller.status.quota_status import QuotaUseByQueue
from queues.quota.claims import CLAIM_SECONDS_AFTER
from queues.well_known import GATE, QUOTA_GATE
from tests.support.controller.controller_harness import VERSION, Boundary, ControllerHarness, Sent
from tests.support.http.wire_objects import CREATED, Wire, member, queue


class StatusBoundary(Boundary):
    """Stores the statuses of queues, and the book; the test hands the stored objects to the watch."""

    def __init__(self, *queues: Wire) -> None:
        super().__init__()
        self.queues = {each["metadata"]["name"]: each for each in queues}
        self.written: list[str] = []

    def _write(self, method: str, path: str, body: Any) -> bytes:
        if "/configmaps" in path:
            metadata = {**body["metadata"], "uid": "book", "resourceVersion": str(VERSION)}
            return json.dumps({**body, "metadata": metadata}).encode()
        name = path.removesuffix("/status").rpartition("/")[2]
        if not path.endswith("/status") or name not in self.queues:
            return super()._write(method, path, body)
        self.sent.append(Sent(method, path, body))
        self.written.append(name)
        before = self.queues[name]
        version = str(int(before["metadata"]["resourceVersion"]) + 100)
        status = _merged(before["status"], body["status"])
        after = {**before, "metadata": {**before["metadata"], "resourceVersion": version}, "status": status}
        self.queues[name] = after
        return json.dumps(after).encode()


def _merged(stored: Any, patch: Any) -> Any:
    """As a merge patch (RFC 7396) leaves it."""
    if not isinstance(patch, dict):
        return patch
    kept = stored if isinstance(stored, dict) else {}
    after = {**kept, **{key: _merged(kept.get(key), value) for key, value in patch.items()}}
    return {key: value for key, value in after.items() if value is not None}


class Server:
    def __init__(self, *queues: Wire) -> None:
        self.boundary = StatusBoundary(queue("root", parent=""), *queues)
        self.harness = ControllerHarness(self.boundary)
        self.harness.receive_events(*self.boundary.queues.values())
        self.settle()

    def has(self, *pods: Wire, event: str = "ADDED") -> None:
        self.harness.receive_events(*pods, event=event)

    def step(self, *, seconds: float) -> list[str]:
        """One sync; returns the queues of which a status was written."""
        self.boundary.written.clear()
        self.harness.sync(rounds=1, seconds=seconds)
        written = list(self.boundary.written)
        if written:
            self.has(*(self.boundary.queues[name] for name in set(written)), event="MODIFIED")
        return written

    def settle(self) -> None:
        for _ in range(8):
            self.step(seconds=COUNT_SECONDS)

    def quota(self, name: str) -> Any:
        return self.boundary.queues[name]["status"].get("quota")


def waiting(name: str, of: str, *gates: str, cpu: str = "", **more: Any) -> Wire:
    container = {"name": "work", "resources": {"requests": {"cpu": cpu} if cpu else {}}}
    return member(name, of, gates=list(gates or [QUOTA_GATE]), containers=[container], **more)


def running(name: str, of: str, **more: Any) -> Wire:
    container = {"name": "work", "resources": {"requests": {"cpu": "1"}}}
    return member(name, of, nodeName="node-1", containers=[container], **more)


def lab(**vision: Any) -> Server:
    return Server(
        queue("lab", capability={"cpu": "4"}),
        queue("vision", parent="lab", **vision),
        queue("free"),
    )


def test_a_queue_says_what_it_and_all_below_it_use_and_who_waits() -> None:
    server = lab()
    server.has(running("a", "vision"), running("b", "vision"), waiting("c", "vision"), waiting("d", "lab"))
    server.settle()
    assert server.quota("lab") == {
        "used": {"cpu": "2", "pods": "2"},
        "waiting": 2,
        "usedText": "cpu 2",
        "limitText": "cpu 4",
        "releasing": {"pods": "2"},
    }
    assert (server.quota("vision")["waiting"], server.quota("vision")["limitText"]) == (1, "")


def test_members_that_change_have_the_queues_above_looked_at_once_in_the_time_of_a_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To derive a status takes as long as there are queues below."""
    server, looked_at = lab(), list[str]()
    reconcile = QueueReconciler.reconcile

    def note(self: QueueReconciler, queue: str, *, spec_changed: bool = False) -> float | None:
        looked_at.append(queue)
        return reconcile(self, queue, spec_changed=spec_changed)

    monkeypatch.setattr(QueueReconciler, "reconcile", note)
    for number in range(20):
        server.has(running(f"p{number}", "vision"))
        server.step(seconds=COUNT_SECONDS / 20)
    assert looked_at.count("vision") >= 20
    assert looked_at.count("lab") <= 4
    server.settle()
    assert server.quota("lab")["used"] == {"cpu": "20", "pods": "20"}


def test_a_queue_without_a_quota_on_its_chain_says_nothing_and_is_not_written_for_others() -> None:
    server = lab()
    server.has(running("a", "vision"), running("b", "free"))
    server.settle()
    for name in ("root", "free"):
        assert "quota" not in server.boundary.queues[name]["status"]
    server.has(waiting("c", "vision"))
    assert set(server.step(seconds=COUNT_SECONDS)) <= {"lab", "vision"}


def test_pods_of_a_stopped_queue_wait_for_the_stop() -> None:
    """Those that have the gate of stops alone wait for room once the queue is resumed."""
    for state, expected in (("Suspended", 0), ("Open", 2)):
        server = lab(state=state)
        server.has(waiting("c", "vision", GATE), waiting("d", "vision", GATE, QUOTA_GATE))
        server.settle()
        assert server.quota("lab")["waiting"] == expected, state


def test_it_says_for_which_pod_others_leave_room_and_no_more_once_that_is_gone() -> None:
    """Where room lacks: above the queue of the pod, too. The condition of who waits for it names nobody."""
    server = lab()
    large, small = waiting("large", "vision", cpu="4"), waiting("small", "lab", cpu="1")
    large["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    server.has(running("a", "vision"), large)
    server.settle()
    assert "claim" not in server.quota("lab")
    server.harness.sync(rounds=1, seconds=CLAIM_SECONDS_AFTER)
    server.has(small)
    server.settle()
    claim = {"namespace": "team", "pod": "large", "queue": "vision", "since": "2026-01-01T00:00:00Z"}
    assert (server.quota("lab")["claim"], server.quota("vision").get("claim")) == (claim, None)
    assert server.quota("lab")["claimed"] == {"cpu": "4", "pods": "1"}
    assert server.step(seconds=COUNT_SECONDS) == []
    server.has(large, event="DELETED")
    server.settle()
    assert not {"claim", "claimed"} & server.quota("lab").keys()


def test_what_was_deleted_by_force_is_said_above_it_too_until_it_counts_no_longer() -> None:
    server = lab()
    gone = running("a", "vision", terminationGracePeriodSeconds=30)
    server.has(gone, running("b", "lab"))
    server.settle()
    gone["metadata"]["deletionTimestamp"] = CREATED
    server.has(gone, event="DELETED")
    server.settle()
    for name, used in (("lab", "2"), ("vision", "1")):
        found = server.quota(name)
        assert (found["used"]["cpu"], found["forceDeleted"]) == (used, {"cpu": "1", "pods": "1"})
    server.harness.sync(rounds=1, seconds=30)
    server.settle()
    for name, used in (("lab", "1"), ("vision", "0")):
        assert (server.quota(name)["used"]["cpu"], server.quota(name).get("forceDeleted")) == (used, None)
    assert server.step(seconds=COUNT_SECONDS) == []


def test_however_many_pods_come_it_is_written_once_a_second_and_in_the_end_is_right() -> None:
    server = lab()
    server.settle()
    written: list[str] = []
    for number in range(40):
        server.has(waiting(f"p{number}", "vision", version=number + 2))
        written += server.step(seconds=COUNT_SECONDS / 10)
    assert 3 <= written.count("lab") <= 5
    server.settle()
    assert server.quota("lab")["waiting"] == 40
    server.settle()
    assert server.step(seconds=COUNT_SECONDS) == []


def test_a_quota_that_is_gone_is_said_no_more() -> None:
    server = lab()
    assert server.quota("vision") is not None
    lab_now = server.boundary.queues["lab"]
    without = {**lab_now, "spec": {"parent": "root"}}
    without["metadata"] = {**lab_now["metadata"], "resourceVersion": "999", "generation": 2}
    server.boundary.queues["lab"] = without
    server.has(without, event="MODIFIED")
    server.settle()
    assert (server.quota("vision"), server.quota("lab")) == (None, None)


def test_sums_that_are_kept_are_those_that_are_counted_anew() -> None:
    """Pods come, run, and go; queues are moved, stopped and deleted."""
    chance = random.Random(7)
    server = lab()
    store, kept = server.harness.store, QuotaUseByQueue(server.harness.store)
    store.add_listener(lambda name, _change: kept.record([name]))
    names, pods = ["lab", "vision", "free"], dict[str, Wire]()
    for step in range(150):
        version, name = step + 10, f"p{chance.randrange(12)}"
        if name in pods:
            server.has({**pods.pop(name)}, event="DELETED")
        else:
            make = running if chance.random() < 0.6 else waiting
            pods[name] = make(name, chance.choice(names), version=version)
            server.has(pods[name])
        if step % 10 == 9:
            parent, state = chance.choice(["root", "free"]), chance.choice(["Open", "Suspended"])
            spec: Wire = {"capability": {"cpu": "4"}, "parent": parent, "state": state}
            server.has(queue("lab", version=version, generation=version, **spec), event="MODIFIED")
        anew = QuotaUseByQueue(store)
        for each in ("root", *names):
            found, expected = kept.below(each), anew.below(each)
            for amounts, counted in (
                (found.used, expected.used),
                (found.force_deleted, expected.force_deleted),
            ):
                assert _without_zeros(amounts) == _without_zeros(counted), (step, each)
            assert found.waiting == expected.waiting, (step, each)


def _without_zeros(amounts: dict[str, Any]) -> dict[str, Any]:
    return {name: amount for name, amount in amounts.items() if amount}


def test_that_guarantees_are_scaled_is_written_once_and_goes_with_it() -> None:
    promised = {"resource": {"cpu": "3"}}
    server = Server(
        queue("lab", capability={"cpu": "4"}),
        queue("a", parent="lab", guarantee=promised),
        queue("b", parent="lab", guarantee=promised),
    )

    def conditions() -> list[Any]:
        found = server.boundary.queues["lab"]["status"]["conditions"]
        return [(each["status"], each["reason"]) for each in found if each["type"] == "GuaranteesMet"]

    assert conditions() == [("False", "CapabilityExceeded")]
    server.has(running("pod", "a"))
    server.step(seconds=COUNT_SECONDS)
    server.settle()
    assert server.step(seconds=COUNT_SECONDS) == []
    stored = server.boundary.queues["b"]
    metadata = {**stored["metadata"], "resourceVersion": "900", "generation": 2}
    server.boundary.queues["b"] = {**stored, "metadata": metadata, "spec": {"parent": "lab"}}
    server.has(server.boundary.queues["b"], event="MODIFIED")
    server.settle()
    assert conditions() == []
