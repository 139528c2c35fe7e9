"""What is kept between passes decides the same as a pass over all; an event costs what it concerns."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from queues.apimachinery.pod_requests import CLAIMS
from queues.queue import Amounts, DequeueStrategy, Queue
from queues.quota.devices import COUNTED, ClaimCount, ClaimFault
from queues.quota.lack import Lack, LackKind
from queues.quota.ledger import AmountReason, Ledger
from queues.quota.pod_classes import WaitingPod
from queues.quota.set_aside import SetAside
from queues.quota.subscriptions import Subscriptions
from queues.quota.usage import Usage
from queues.quota.waiting_index import CLASSES_PER_PASS, WaitingIndex
from queues.tree import Tree
from tests.support.examples import scaled
from tests.support.quota.kept_index import Kept, a_pod, a_queue

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = [f"q{number}" for number in range(6)]
STEPS = 60


class History:
    """Random submissions, withdrawals, ends and edits; each pass is compared with one over all that wait."""

    def __init__(self, seed: int, *, make: Callable[[Tree], WaitingIndex] = WaitingIndex) -> None:
        self._chance = random.Random(seed)
        self.kept = Kept(*self._queues(), make=make)
        self.waiting: dict[str, WaitingPod] = {}
        self._made = 0

    def run(self) -> list[str]:
        acts = [self._submit, self._submit, self._withdraw, self._end, self._end, self._edit]
        for _ in range(STEPS):
            for _ in range(self._chance.randint(0, 4)):
                self._chance.choices(acts, [8, 8, 3, 6, 6, 1])[0]()
            if faults := self._compare():
                return faults
        return []

    def _queues(self) -> list[Queue]:
        chance = self._chance
        return [
            Queue(
                name=name,
                parent=chance.choice(["root", *NAMES[:number]]) if chance.random() < 0.97 else "gone",
                capability=self._amounts(8) if chance.random() < 0.7 else None,
                guarantee=self._amounts(3) if chance.random() < 0.3 else None,
                deserved=self._amounts(5) if chance.random() < 0.3 else None,
                priority=chance.randint(0, 1),
                weight=chance.randint(1, 3),
                dequeue=chance.choice([DequeueStrategy.TRAVERSE, DequeueStrategy.FIFO]),
            )
            for number, name in enumerate(NAMES)
        ]

    def _amounts(self, most: int) -> Amounts:
        names = self._chance.sample(["cpu", "gpu", "pods"], self._chance.randint(1, 3))
        return tuple(sorted((name, self._chance.randint(0, most)) for name in names))

    def _submit(self) -> None:
        self._made += 1
        chance = self._chance
        pod = a_pod(
            f"p{self._made}",
            chance.choice([*NAMES, "missing"]),
            priority=chance.randint(0, 2),
            age=chance.randint(0, 9),
            cpu=chance.randint(0, 4),
            gpu=chance.randint(0, 2),
        )
        self.waiting[pod.uid] = pod
        self.kept.index.put(pod)

    def _withdraw(self) -> None:
        if self.waiting:
            uid = self._chance.choice(list(self.waiting))
            del self.waiting[uid]
            self.kept.index.remove(uid)

    def _end(self) -> None:
        if self.kept.running:
            self.kept.end(self._chance.choice(list(self.kept.running)))

    def _edit(self) -> None:
        self.kept.change(*self._queues())

    def _compare(self) -> list[str]:
        kept = self.kept
        whole = Kept()
        whole.tree, whole.ledger = kept.tree, Ledger(kept.tree)
        for pod in kept.running.values():
            whole.ledger.begin(pod)
        pods: dict[str, list[WaitingPod]] = {}
        for pod in self.waiting.values():
            pods.setdefault(pod.queue, []).append(pod)
        whole.index = WaitingIndex.of(kept.tree, pods)
        expected, released = whole.released(), kept.released()
        for uid in released:
            self.waiting.pop(uid)
        if released != expected:
            return [f"{released} are released, and {expected} by a pass over all"]
        return [fault for uid in self.waiting if (fault := self._wrong_reason(uid, whole))]

    def _wrong_reason(self, uid: str, whole: Kept) -> str:
        lack, other = self.kept.index.lack_of(uid), whole.index.lack_of(uid)
        pod = self.waiting[uid]
        if lack is None or other is None:
            return f"{uid} waits for {lack}, and for {other} by a pass over all"
        own = self.kept.tree.get(pod.queue)
        is_fifo = own is not None and own.dequeue is DequeueStrategy.FIFO
        if is_fifo and lack.never and not other.never:  # it was looked at before its queue was closed
            return "" if self.kept.usage.never_lack(pod.queue, pod.requests) else f"{uid} might go"
        # Of several that lack room it may have another one.
        kinds = [
            LackKind.CAPABILITY if each is LackKind.GUARANTEES else each for each in (lack.kind, other.kind)
        ]
        if lack.never is not other.never or kinds[0] is not kinds[1]:
            return f"{uid} waits for {lack}, and for {other} by a pass over all"
        if lack.kind is LackKind.NO_QUEUE or is_fifo:
            return ""
        return "" if lack.never or self._lacks(pod, lack) else f"{uid} waits for {lack}, and that has room"

    def _lacks(self, pod: WaitingPod, lack: Lack) -> bool:
        most = dict(self.kept.tree.queues[lack.queue].capability or ())[lack.resource]
        amount, usage = dict(pod.requests)[lack.resource], self.kept.usage
        if lack.kind is LackKind.CAPABILITY:
            return usage.used(lack.queue).get(lack.resource, 0) + amount > most
        chain = [each.name for each in self.kept.tree.chain(pod.queue).queues]
        missing = usage._set_aside.missing(chain, lack.queue, lack.resource, amount=amount, most=most)
        return missing > 0


@pytest.mark.parametrize("part", range(4))
def test_passes_over_what_has_changed_decide_the_same_as_passes_over_all(part: int) -> None:
    seeds = range(part, scaled(160), 4)
    assert {seed: faults for seed in seeds if (faults := History(seed).run())} == {}


class NotAbove(Subscriptions):
    """Does not hear of room in a queue that others are below of."""

    def fell(self, queue: str, resource: str) -> None:
        if queue != "q0":
            super().fell(queue, resource)


class WithoutPods(Subscriptions):
    def fell(self, queue: str, resource: str) -> None:
        if resource != "pods":
            super().fell(queue, resource)


class OnlyTheFirst(Subscriptions):
    """Wakes one class where several have room."""

    def take(self, usage: Usage, *, most: int, **_: object) -> list[object]:  # type: ignore[override]
        taken = super().take(usage, most=most)
        for pods in taken[1:]:
            self._key_of.pop(pods, None)
        return list(taken[:1])


def test_the_comparison_finds_a_queue_whose_own_guarantee_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There a pod adds less to what is set aside than it requests."""
    monkeypatch.setattr(SetAside, "adds_all", lambda *_: True)
    assert any(History(seed).run() for seed in range(400))


@pytest.mark.parametrize("faulty", [NotAbove, WithoutPods, OnlyTheFirst])
def test_the_comparison_finds_a_subscription_that_is_left_out(
    faulty: type[Subscriptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queues.quota.waiting_index.Subscriptions", faulty)
    assert any(History(seed).run() for seed in range(200))


class NeverReopens(WaitingIndex):
    """Leaves a queue closed though another pod is the first of it."""

    def put(self, pod: WaitingPod) -> None:
        line = self._lines.get(pod.queue)
        before = None if line is None or line.closed_by is None else (line.closed_by, line.closed_by.lack)
        super().put(pod)
        if before is not None and line is not None and line.closed_by is None:
            line.closed_by, before[0].lack = before


def test_the_comparison_finds_a_queue_that_is_left_closed() -> None:
    assert any(History(seed, make=NeverReopens).run() for seed in range(200))


def test_one_end_looks_at_the_classes_that_have_room_now_and_at_no_other() -> None:
    kept = Kept(a_queue("team", cpu=10))
    kept.index.put(a_pod("runs", "team", age=1, cpu=10))
    for size in range(2, 9):
        kept.index.put(a_pod(f"asks-{size}", "team", cpu=size))
    assert kept.released() == ["runs"]
    kept.ledger.set_one("team", AmountReason.RELEASING, "runs", [("cpu", 7)])
    kept.tell_falls()
    lines = kept.index.open_lines(kept.usage, now=0.0)
    opened = [pods.requests for line in lines for pods in line.classes.values() if pods.lack is None]
    assert [dict(requests)["cpu"] for requests in opened] == [2, 3]
    assert kept.released() == ["asks-2"]
    assert not kept.index.is_due


def test_an_end_looks_at_none_that_lacks_more_beside_what_others_are_guaranteed() -> None:
    guaranteed = Queue(name="kept", parent="root", guarantee=(("cpu", 10),))
    kept = Kept(a_queue("root", "", cpu=15), guaranteed, a_queue("lab"), a_queue("team", "lab"))
    kept.index.put(a_pod("runs", "team", age=1, cpu=3))
    kept.index.put(a_pod("small", "team", age=1, cpu=1))
    for size in range(2, 9):
        kept.index.put(a_pod(f"asks-{size}", "team", cpu=size))
    assert kept.released() == ["runs", "small"]
    assert kept.index.lack_of("asks-2") == Lack("root", "cpu", 1, kind=LackKind.GUARANTEES)
    kept.end("small")
    lines = kept.index.open_lines(kept.usage, now=0.0)
    opened = [pods.requests for line in lines for pods in line.classes.values() if pods.lack is None]
    assert [dict(requests)["cpu"] for requests in opened] == [2]
    assert kept.released() == ["asks-2"]


def test_of_one_queue_so_many_classes_are_looked_at_in_vain_and_then_others_have_their_turn() -> None:
    """Nothing that has room is left in the end."""
    many = 3 * CLASSES_PER_PASS
    kept = Kept(a_queue("lab", cpu=1), a_queue("many", "lab"), a_queue("one", "lab", gpu=1))
    for size in range(many):
        kept.index.put(a_pod(f"many-{size}", "many", priority=1, cpu=2 + size))
    kept.index.put(a_pod("small", "many", cpu=1))
    kept.index.put(a_pod("other", "one", gpu=1))
    assert kept.released() == ["other"]
    assert len(kept.index.take_untold()) == CLASSES_PER_PASS
    passes = 0
    while kept.index.is_due:
        kept.released()
        passes += 1
    assert "small" in kept.running
    assert passes <= many / CLASSES_PER_PASS + 1


def test_of_those_that_have_room_the_ones_that_need_least_are_looked_at_first() -> None:
    kept = Kept(a_queue("team", cpu=1000))
    kept.index.put(a_pod("runs", "team", priority=999, cpu=1000))
    for size in range(1, 2 * CLASSES_PER_PASS):
        kept.index.put(a_pod(f"asks-{size}", "team", priority=size, cpu=size))
    assert kept.released() == ["runs"]
    while kept.index.is_due:
        kept.released()
    kept.end("runs")
    sizes = [int(uid.removeprefix("asks-")) for uid in kept.released()]
    assert max(sizes) == CLASSES_PER_PASS
    assert sizes == sorted(sizes, reverse=True), "in the order of their priority"


def test_a_reason_is_told_once_and_again_for_a_pod_that_has_changed() -> None:
    kept = Kept(a_queue("team", cpu=1))
    pods = [a_pod(name, "team", cpu=2) for name in "abc"]
    for pod in pods:
        kept.index.put(pod)
    kept.released()
    assert kept.index.take_untold() == dict.fromkeys("abc", Lack("team", "cpu", 1, never=True))
    kept.index.put(pods[1])
    assert list(kept.index.take_untold()) == ["b"]
    kept.index.put(a_pod("d", "team", cpu=2))
    assert list(kept.index.take_untold()) == ["d"], "it has the reason of its class at once"
    kept.change(a_queue("team", cpu=2, gpu=0))
    assert kept.released() == ["a"]
    assert set(kept.index.take_untold()) == {"b", "c", "d"}, "it would fit into an empty queue now"


# A fifo queue, and what can never go or waits for no room


def test_what_never_fits_closes_no_fifo_queue_and_the_others_say_nothing_of_it() -> None:
    kept = Kept(a_queue("line", is_fifo=True, cpu=4))
    kept.index.put(a_pod("huge", "line", age=9, cpu=5))
    kept.index.put(a_pod("first", "line", age=8, cpu=3))
    kept.index.put(a_pod("second", "line", age=7, cpu=2))
    kept.index.put(a_pod("third", "line", age=6, cpu=1))
    assert kept.released() == ["first"]
    assert kept.index.lack_of("huge") == Lack("line", "cpu", 1, never=True)
    assert {kept.index.lack_of(uid) for uid in ("second", "third")} == {Lack("line", "cpu", 1)}
    told = kept.index.take_untold()
    assert {uid: lack.never for uid, lack in told.items()} == {"huge": True, "second": False, "third": False}
    kept.end("first")
    assert kept.released() == ["second", "third"]
    assert kept.index.take_untold() == {}


def devices_line() -> tuple[Kept, dict[str, ClaimCount]]:
    """A fifo queue of 4 cpu and 4 devices, and what claims count."""
    kept = Kept(
        Queue(name="line", capability=(("cpu", 4), ("deviceclass/gpu", 4)), dequeue=DequeueStrategy.FIFO)
    )
    counts: dict[str, ClaimCount] = {}
    absent = ClaimCount(fault=ClaimFault.ABSENT)
    kept.ledger.begin_anew(kept.tree, claims=lambda claim: counts.get(claim, absent))
    return kept, counts


CLAIMED: dict[str, int] = {CLAIMS: 1, COUNTED: 1, "resourceclaim/ns/a": 1}


@pytest.mark.parametrize("fault", [ClaimFault.ABSENT, ClaimFault.NO_API, ClaimFault.UNCOUNTABLE])
def test_a_claim_of_devices_that_is_not_known_closes_no_fifo_queue(fault: ClaimFault) -> None:
    """Those behind it say what they lack themselves, and nothing of its claim."""
    kept, counts = devices_line()
    counts["resourceclaim/ns/a"] = ClaimCount(fault=fault)
    kept.index.put(a_pod("claims", "line", age=9, **CLAIMED))
    kept.index.put(a_pod("first", "line", age=8, cpu=4))
    kept.index.put(a_pod("second", "line", age=7, cpu=1))
    assert kept.released() == ["first"]
    assert kept.index.lack_of("second") == Lack("line", "cpu", 1)
    assert kept.index.take_untold()["second"].kind is LackKind.CAPABILITY
    assert [pod.uid for pod in kept.index.blocked_in("line", most=9)] == ["second"], "who asks for room"


def test_who_is_first_again_goes_before_the_one_that_closed_the_queue() -> None:
    """Its claim is made while another one behind it lacks room."""
    kept, counts = devices_line()
    kept.index.put(a_pod("claims", "line", age=9, **CLAIMED))
    kept.index.put(a_pod("runs", "line", age=8, cpu=4))
    kept.index.put(a_pod("closes", "line", age=7, cpu=1))
    assert kept.released() == ["runs"]
    kept.index.take_untold()
    counts["resourceclaim/ns/a"] = ClaimCount((("deviceclass/gpu", 1),))
    kept.index.reopen("claims")
    assert kept.released() == ["claims"]
    assert kept.index.lack_of("closes") == Lack("line", "cpu", 1)


def test_no_room_is_set_aside_for_what_can_not_go() -> None:
    """As it was before its claim went, or the capability was lowered."""
    kept, counts = devices_line()
    counts["resourceclaim/ns/a"] = ClaimCount((("deviceclass/gpu", 1),))
    claims, huge = a_pod("claims", "line", **CLAIMED), a_pod("huge", "line", cpu=5)
    for pod in (claims, huge):
        kept.index.put(pod)
    assert [kept.index.number_of("line", pod.requests) for pod in (claims, huge)] == [1, 1]
    counts.clear()
    kept.released()
    assert [kept.index.number_of("line", pod.requests) for pod in (claims, huge)] == [0, 0]


def test_what_never_fits_is_told_once_however_often_its_fifo_queue_is_looked_at() -> None:
    kept = Kept(a_queue("line", is_fifo=True, cpu=2))
    kept.index.put(a_pod("huge", "line", age=9, cpu=5))
    kept.index.put(a_pod("runs", "line", age=8, cpu=2))
    kept.index.put(a_pod("waits", "line", age=7, cpu=2))
    kept.released()
    assert set(kept.index.take_untold()) == {"huge", "waits"}
    kept.change(a_queue("line", is_fifo=True, cpu=2, gpu=1))
    kept.released()
    assert kept.index.take_untold() == {}
    kept.change(a_queue("line", is_fifo=True, cpu=5))
    kept.released()
    assert kept.index.lack_of("huge") == Lack("line", "cpu", 2)
    assert set(kept.index.take_untold()) == {"huge"}, "it has another reason; the one behind it has the same"


def test_what_left_is_forgotten() -> None:
    kept = Kept(a_queue("team", cpu=0), a_queue("line", is_fifo=True, cpu=0))
    for number in range(300):
        for name in ("team", "line"):
            pod = a_pod(f"{name}-{number}", name, cpu=1 + number)
            kept.index.put(pod)
        kept.released()
        kept.index.remove(f"team-{number}")
        kept.index.remove(f"line-{number}")
    assert len(kept.index) == 0
    assert kept.index.requested == {}
    assert not kept.index.is_due
    assert kept.index._lines == {}
    assert kept.index._subscriptions._by_key == {}
    assert kept.index.take_untold() == {}


def test_a_capability_of_root_below_what_a_hundred_thousand_use_frees_nothing_until_enough_has_ended() -> (
    None
):
    """On a control plane it is shown with fewer: `tests/e2e/quota/test_many_pods.py`."""
    queues = [a_queue(f"q{number}") for number in range(100)]
    kept = Kept(*queues)
    kept.running = {
        f"r{number}": a_pod(f"r{number}", queues[number % 100].name, cpu=1) for number in range(100_000)
    }
    for pod in kept.running.values():
        kept.ledger.begin(pod)
    for number in range(100):
        kept.index.put(a_pod(f"w{number}", queues[number].name, cpu=1))
    kept.change(a_queue("root", "", cpu=99_990), *queues)
    assert kept.released() == []
    assert {kept.index.lack_of(f"w{number}") for number in range(100)} == {Lack("root", "cpu", 11)}
    for number in range(10):
        kept.end(f"r{number}")
    assert kept.released() == []
    for number in range(10, 13):
        kept.end(f"r{number}")
    assert len(kept.released()) == 3
