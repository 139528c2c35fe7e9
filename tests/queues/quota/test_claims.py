"""Nobody starves; what is set aside for one is bounded in time and amount."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from queues.apimachinery.pod_requests import CLAIMS
from queues.queue import Queue
from queues.quota.claims import CLAIM_AFTER_OTHERS, CLAIM_SECONDS, CLAIM_SECONDS_AFTER, Claims
from queues.quota.devices import COUNTED, ClaimCount, ClaimFault
from queues.quota.lack import Lack, LackKind
from tests.support.quota.kept_index import Kept, a_pod, a_queue

#: How long a pod of a stream runs, at most.
LONGEST = 20
STREAMS = ({"cpu": 1}, {"gpu": 1}, {"disk": 1})


class NobodyClaims(Claims):
    def lack(self, *_: Any, **__: Any) -> Lack | None:
        return None


class LeavesWhatIsLacking(Claims):
    """Sets aside only the resource that the claimant lacks at that moment."""

    def _amounts(self, pods: Any, usage: Any) -> Any:
        return [each for each in super()._amounts(pods, usage) if each[0] == self._waits[pods].resource]

    def blocked(self, pods: Any, lack: Lack, *, now: float) -> None:
        super().blocked(pods, lack, now=now)
        claim = self._by_class.get(pods)
        if claim is not None:
            claim.amounts = tuple(each for each in pods.requests if each[0] == lack.resource)


class Streams:
    """Queues in which there are always pods that wait, and run for a random time each. A step is a second."""

    def __init__(self, *queues: Queue, into: Iterable[str], seed: int = 0) -> None:
        self.kept = Kept(*queues)
        self.now = 1000.0
        self._chance = random.Random(seed)
        self._into = list(into)
        self._ends: dict[str, float] = {}
        self._made = 0
        self.released = 0

    def step(self) -> list[str]:
        self.now += 1.0
        for uid in [uid for uid, at in self._ends.items() if at <= self.now]:
            del self._ends[uid]
            self.kept.end(uid)
        for queue in self._into:
            for requests in STREAMS:
                while not self._waits(queue, requests):
                    self._made += 1
                    self.kept.index.put(a_pod(f"s{self._made:05}", queue, age=-self._made, **requests))
        names: list[str] = []
        while self.kept.index.is_due or not names:
            names += (found := self.kept.released(now=self.now))
            self._ends |= {uid: self.now + self._chance.randint(5, LONGEST) for uid in found if uid[0] == "s"}
            self.released += sum(uid[0] == "s" for uid in found)
            if not found:
                break
        return names

    def _waits(self, queue: str, requests: dict[str, int]) -> bool:
        wanted = a_pod("", queue, **requests).requests
        line = self.kept.index._lines.get(queue)
        return line is not None and wanted in line.classes

    def until(self, uid: str, *, most: int) -> float | None:
        """After how many seconds it is released; None if it is not in `most`."""
        began = self.now
        for _ in range(most):
            if uid in self.step():
                return self.now - began
        return None


def one_queue() -> tuple[list[Queue], str]:
    return [a_queue("team", cpu=4, gpu=4, disk=4)], "team"


def beside_it() -> tuple[list[Queue], str]:
    lab = a_queue("lab", cpu=4, gpu=4, disk=4)
    return [lab, Queue(name="team", parent="lab"), Queue(name="large", parent="lab")], "large"


def below_both() -> tuple[list[Queue], str]:
    """It lacks room in its own queue, and in the one above."""
    large = a_queue("large", "lab", cpu=4, gpu=4, disk=4)
    return [a_queue("lab", cpu=6, gpu=6, disk=6), Queue(name="team", parent="lab"), large], "large"


TREES = {"in one queue": one_queue, "in a queue beside": beside_it, "below two limits": below_both}


@pytest.mark.parametrize("make", TREES.values(), ids=TREES)
@pytest.mark.parametrize("size", [2, 4])
def test_who_needs_all_of_three_resources_runs_beside_three_streams_of_one_each(
    make: Callable[[], tuple[list[Queue], str]], size: int
) -> None:
    """Also one that is as large as its parent's capability."""
    queues, queue = make()
    into = ["team", *(["large"] if queue == "large" and len(queues[-1].capability or ()) else [])]
    streams = Streams(*queues, into=into)
    streams.until("", most=30)
    streams.kept.index.put(a_pod("large", queue, cpu=size, gpu=size, disk=size))
    took = streams.until("large", most=1000)
    assert took is not None
    limits = sum(each.capability is not None for each in queues)
    assert took <= CLAIM_SECONDS_AFTER + limits * (LONGEST + 1), "each limit is free once all have ended"
    streams.kept.end("large")
    before = streams.released
    streams.until("", most=60)
    assert streams.released > before + 30, "the streams go on"


@pytest.mark.parametrize("faulty", [NobodyClaims, LeavesWhatIsLacking])
def test_without_the_rule_it_never_runs(faulty: type[Claims], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queues.quota.waiting_index.Claims", faulty)
    queues, queue = one_queue()
    streams = Streams(*queues, into=["team"])
    streams.until("", most=30)
    streams.kept.index.put(a_pod("large", queue, cpu=3, gpu=3, disk=3))
    assert streams.until("large", most=600) is None


def test_a_claim_ends_in_vain_after_its_time_and_others_go_on() -> None:
    """A pod runs for hours, and the claimant needs what it has."""
    streams = Streams(a_queue("team", cpu=8, gpu=4, disk=4), into=["team"])
    streams.kept.index.put(a_pod("for-hours", "team", cpu=4, age=9))
    streams.until("", most=30)
    streams.kept.index.put(a_pod("large", "team", cpu=8))
    quiet = longest = 0
    for _ in range(3000):
        names = streams.step()
        quiet = 0 if any(dict(streams.kept.running[uid].requests).get("cpu") for uid in names) else quiet + 1
        longest = max(longest, quiet)
    assert "large" not in streams.kept.running
    assert CLAIM_SECONDS - LONGEST <= longest <= CLAIM_SECONDS + LONGEST
    streams.kept.end("for-hours")
    assert streams.until("large", most=5000) is not None, "it has another claim"


def test_others_may_use_what_is_not_claimed() -> None:
    kept = Kept(a_queue("team", cpu=4, gpu=4))
    kept.index.put(a_pod("runs", "team", age=9, cpu=1))
    kept.released()
    kept.index.put(a_pod("large", "team", cpu=4))
    kept.released()
    kept.index.put(a_pod("cpu", "team", age=-1, cpu=1))
    kept.index.put(a_pod("gpu", "team", age=-1, gpu=1))
    assert kept.released(now=CLAIM_SECONDS_AFTER) == ["gpu"]
    assert kept.index.lack_of("cpu") == Lack("team", "cpu", 2, kind=LackKind.CLAIM)
    kept.end("runs")
    assert kept.released(now=CLAIM_SECONDS_AFTER) == ["large"]


def test_what_is_asked_for_by_claims_of_devices_that_pods_may_share_is_claimed_too() -> None:
    kept = Kept(Queue(name="team", capability=(("deviceclass/gpu", 4),)))
    count = ClaimCount((("deviceclass/gpu", 4),))
    kept.ledger.begin_anew(kept.tree, claims=lambda _: count)
    one: dict[str, int] = {"deviceclass/gpu": 1}
    shared: dict[str, int] = {CLAIMS: 1, COUNTED: 1, "resourceclaim/ns/a": 1}
    kept.index.put(a_pod("runs", "team", age=9, **one))
    kept.released()
    kept.index.put(a_pod("large", "team", **shared))
    kept.released()
    kept.index.put(a_pod("small", "team", age=-1, **one))
    assert kept.released(now=CLAIM_SECONDS_AFTER) == []
    assert kept.index.lack_of("small") == Lack("team", "deviceclass/gpu", 2, kind=LackKind.CLAIM)
    kept.end("runs")
    assert kept.released(now=CLAIM_SECONDS_AFTER) == ["large"]


def test_it_begins_after_so_many_others_too() -> None:
    kept = Kept(a_queue("team", cpu=200))
    kept.index.put(a_pod("runs", "team", age=9, cpu=1))
    kept.released()
    kept.index.put(a_pod("large", "team", age=8, cpu=200))
    for number in range(2 * CLAIM_AFTER_OTHERS):
        kept.index.put(a_pod(f"p{number:03}", "team", cpu=1))
    assert len(kept.released()) == CLAIM_AFTER_OTHERS


@pytest.mark.parametrize(
    ("name", "other", "goes"),
    [
        ("one that stands before it in its queue", a_pod("o", "team", priority=1, cpu=1), True),
        ("one that has waited longer", a_pod("o", "team", age=9, cpu=1), True),
        ("a later one", a_pod("o", "team", age=-9, cpu=1), False),
        ("one of a queue beside it", a_pod("o", "beside", age=9, priority=9, cpu=1), False),
        ("one of a queue of higher priority", a_pod("o", "above", cpu=1), True),
        ("one of a queue that uses less than it deserves", a_pod("o", "poor", cpu=1), True),
        ("one of a queue elsewhere", a_pod("o", "elsewhere", cpu=1), True),
    ],
)
def test_who_heeds_a_claim(name: str, other: Any, goes: bool) -> None:
    kept = Kept(
        a_queue("lab", cpu=10),
        Queue(name="team", parent="lab"),
        Queue(name="beside", parent="lab"),
        Queue(name="above", parent="lab", priority=1),
        Queue(name="poor", parent="lab", deserved=(("cpu", 5),)),
        Queue(name="elsewhere"),
    )
    kept.index.put(a_pod("runs", "team", age=20, cpu=1))
    kept.index.put(a_pod("large", "team", age=1, cpu=10))
    assert kept.released() == ["runs"]
    kept.index.put(other)
    assert (kept.released(now=CLAIM_SECONDS_AFTER) == ["o"]) == goes, name


def test_a_queue_claims_no_more_than_it_deserves() -> None:
    kept = Kept(
        a_queue("lab", cpu=10),
        Queue(name="team", parent="lab", deserved=(("cpu", 2),)),
        Queue(name="o", parent="lab"),
    )
    kept.index.put(a_pod("runs", "team", age=20, cpu=2))
    kept.index.put(a_pod("large", "team", age=1, cpu=9))
    kept.released()
    kept.index.put(a_pod("other", "o", cpu=1))
    assert kept.released(now=CLAIM_SECONDS_AFTER) == ["other"], "it borrows already"


def test_what_never_fits_claims_nothing() -> None:
    kept = Kept(a_queue("team", cpu=4))
    kept.index.put(a_pod("large", "team", age=1, cpu=5))
    kept.released()
    kept.index.put(a_pod("other", "team", cpu=4))
    assert kept.released(now=10 * CLAIM_SECONDS_AFTER) == ["other"]


def test_claims_of_two_queues_do_not_wait_for_each_other() -> None:
    """Each lacks what the other has set aside; the older one goes first."""
    kept = Kept(a_queue("lab", cpu=8), a_queue("one", "lab", cpu=6), a_queue("two", "lab", cpu=6))
    for name in ("one", "two"):
        kept.index.put(a_pod(f"{name}-runs", name, age=9, cpu=4))
    assert len(kept.released()) == 2
    for name in ("one", "two"):
        kept.index.put(a_pod(f"{name}-large", name, cpu=6))
    kept.released()
    for name in ("one", "two"):
        kept.index.put(a_pod(f"{name}-late", name, age=-9, cpu=1))
        kept.index.put(a_pod(f"{name}-later", name, age=-9, cpu=2))
    now = CLAIM_SECONDS_AFTER
    assert kept.released(now=now) == []
    kept.end("one-runs")
    kept.end("two-runs")
    released = kept.released(now=now)
    assert len([uid for uid in released if uid.endswith("large")]) == 1
    kept.end(next(uid for uid in released if uid.endswith("large")))
    while kept.index.is_due:
        released += kept.released(now=now)
    assert {"one-large", "two-large"} <= {*released}


def test_what_waits_for_a_claim_is_looked_at_once_that_is_gone() -> None:
    kept = Kept(a_queue("team", cpu=4))
    kept.index.put(a_pod("runs", "team", age=9, cpu=1))
    kept.index.put(a_pod("large", "team", age=8, cpu=4))
    kept.released()
    kept.index.put(a_pod("small", "team", cpu=1))
    assert kept.released(now=CLAIM_SECONDS_AFTER) == []
    assert not kept.index.is_due
    kept.index.remove("large")
    assert kept.index.is_due
    assert kept.released(now=CLAIM_SECONDS_AFTER) == ["small"]


def test_a_claim_that_comes_and_goes_changes_no_reason_that_was_told() -> None:
    """Each would be a write for each pod of the class."""
    kept = Kept(a_queue("team", cpu=4))
    for name in ("one", "two"):
        kept.index.put(a_pod(name, "team", age=9, cpu=2))
    kept.index.put(a_pod("large", "team", age=8, cpu=4))
    for number in range(3):
        kept.index.put(a_pod(f"small-{number}", "team", cpu=1))
    kept.released()
    told = {uid: lack.kind for uid, lack in kept.index.take_untold().items()}
    assert set(told) == {"large", "small-0", "small-1", "small-2"}
    assert set(told.values()) == {LackKind.CAPABILITY}
    now = CLAIM_SECONDS_AFTER
    kept.end("one")
    assert kept.released(now=now) == []
    assert kept.index.lack_of("small-0") == Lack("team", "cpu", 3, kind=LackKind.CLAIM)
    assert kept.index.take_untold() == {}
    kept.index.put(a_pod("later", "team", age=-1, cpu=1))
    kept.released(now=now)
    assert kept.index.take_untold() == {"later": Lack("team")}
    kept.index.put(a_pod("other", "team", age=-1, cpu=1, gpu=1))
    kept.released(now=now)
    assert {uid: lack.kind for uid, lack in kept.index.take_untold().items()} == {"other": LackKind.CLAIM}
    now += CLAIM_SECONDS
    assert kept.released(now=now) == ["small-0", "small-1"], "the claim has ended"
    assert {uid: lack.kind for uid, lack in kept.index.take_untold().items()} == {
        "other": LackKind.CAPABILITY
    }


def test_an_edit_of_a_queue_does_not_prolong_a_claim() -> None:
    queues = [a_queue("team", cpu=4)]
    kept = Kept(*queues)
    kept.index.put(a_pod("runs", "team", age=9, cpu=1))
    kept.index.put(a_pod("large", "team", age=8, cpu=4))
    kept.released()
    kept.index.put(a_pod("small", "team", cpu=1))
    now = CLAIM_SECONDS_AFTER
    while now < CLAIM_SECONDS_AFTER + CLAIM_SECONDS:
        assert kept.released(now=now) == []
        kept.change(*queues)
        now += 50.0
    assert kept.released(now=now) == ["small"]


# Claims in vain take a bounded part of the time, whatever a tenant asks for


class InVain:
    """A queue with 10 of its 4000 used for ever, and small pods that come all the time. A step is a second.

    Pods that are larger than what is left come as `sizes` says, by the time.
    """

    def __init__(self, *queues: Queue, queue: str = "team") -> None:
        self.kept = Kept(*queues)
        self._queue = queue
        self.now = 0.0
        self.kept.index.put(a_pod("for-hours", queue, age=99, cpu=10))
        self.kept.released()
        self._ends: dict[str, float] = {}
        self._chance = random.Random(0)
        self.released: set[str] = set()
        #: In how many seconds no small pod was released though one waited; and who had the claims.
        self.without = 0
        self.claims: list[str] = []

    def ask(self, size: int, *, queue: str = "") -> str:
        uid = f"{queue or self._queue}-{size}"
        self.kept.index.put(a_pod(uid, queue or self._queue, cpu=size))
        return uid

    def step(self) -> None:
        self.now += 1.0
        for uid in [uid for uid, at in self._ends.items() if at <= self.now]:
            del self._ends[uid]
            self.kept.end(uid)
        self.kept.index.put(a_pod(f"s{self.now:06.0f}", self._queue, age=int(-self.now) - 1, cpu=500))
        found = self.kept.released(now=self.now)
        self._ends |= {uid: self.now + self._chance.randint(3, 9) for uid in found}
        self.released.update(found)
        has_claim = self.kept.index.claims.claimants
        self.without += bool(has_claim) and not found
        self.claims += [pod.uid for pod in has_claim.values()]

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.step()


TEAM_OF_4000 = a_queue("team", cpu=4000)


@pytest.mark.parametrize("sizes", [1, 3, 40])
def test_claims_in_vain_take_the_same_part_of_the_time_however_many_sizes_wait(sizes: int) -> None:
    stream = InVain(TEAM_OF_4000)
    for less in range(sizes):
        stream.ask(4000 - less)
    stream.run(3 * 3600)
    assert CLAIM_SECONDS < stream.without < 3 * 3600 / 4
    before = stream.without
    stream.run(3 * 3600)
    assert stream.without - before <= 3 * 3600 / 6, "the waits grow"


def test_a_claimant_that_is_deleted_before_its_claim_ends_is_in_vain_too() -> None:
    stream = InVain(TEAM_OF_4000)
    for turn in range(4 * 60):
        stream.ask(4000 - turn % 2)
        stream.ask(3998 - turn % 2)
        stream.run(45)
        for uid in {*stream.claims[-1:]} & {f"team-{4000 - less}" for less in range(4)}:
            stream.kept.index.remove(uid)
    assert 0 < stream.without < 4 * 60 * 45 / 4


def test_of_many_queues_with_claims_in_vain_others_have_half_of_the_time() -> None:
    others = [Queue(name=f"q{number:02}", parent="lab") for number in range(20)]
    stream = InVain(a_queue("lab", cpu=4000), Queue(name="team", parent="lab"), *others)
    for each in others:
        stream.ask(4000, queue=each.name)
    stream.run(4 * 3600)
    assert stream.without <= 4 * 3600 / 2 + CLAIM_SECONDS
    assert len({*stream.claims}) == len(others), "each had its turn"


def test_who_claims_in_vain_keeps_no_other_queue_from_its_claim() -> None:
    lab = a_queue("lab", cpu=4000)
    stream = InVain(lab, Queue(name="team", parent="lab"), Queue(name="large", parent="lab"))
    for less in range(10):
        stream.ask(4000 - less)
    stream.run(3600)
    wanted = stream.ask(3900, queue="large")
    stream.run(int(2 * CLAIM_SECONDS + 2 * CLAIM_SECONDS_AFTER))
    assert wanted in stream.released


def test_a_claim_ends_as_soon_as_its_pod_waits_for_something_else_than_room() -> None:
    kept = Kept(Queue(name="team", capability=(("cpu", 4), ("deviceclass/gpu", 4))))
    counts = {"resourceclaim/ns/a": ClaimCount((("deviceclass/gpu", 4),))}
    absent = ClaimCount(fault=ClaimFault.ABSENT)
    kept.ledger.begin_anew(kept.tree, claims=lambda claim: counts.get(claim, absent))
    device: dict[str, int] = {"deviceclass/gpu": 1}
    shared: dict[str, int] = {CLAIMS: 1, COUNTED: 1, "resourceclaim/ns/a": 1}
    kept.index.put(a_pod("runs", "team", age=9, **device))
    kept.index.put(a_pod("large", "team", age=8, **shared))
    assert kept.released() == ["runs"]
    kept.index.put(a_pod("small", "team", **device))
    assert kept.released(now=CLAIM_SECONDS_AFTER) == []
    counts.clear()
    kept.index.reopen("large")
    kept.released(now=CLAIM_SECONDS_AFTER)
    assert kept.index.claims.claimants == {}
    assert kept.released(now=CLAIM_SECONDS_AFTER) == ["small"]
