"""Gangs are released whole or not at all, in the order of the rules, and never over a capability."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from queues.apimachinery.pod_requests import Requests
from queues.apimachinery.quantities import Amount
from queues.queue import ROOT, Amounts, DequeueStrategy, Queue
from queues.quota.gang_turns import CLUSTER
from queues.quota.gangs import (
    Gang,
    GangPod,
    NotAsked,
    PodState,
    RequestedPods,
    ask,
    gang_of,
    unused_resources,
)
from queues.quota.lack import Lack, LackKind
from queues.quota.ledger import ALL_PODS, AmountReason, Ledger
from queues.quota.pod_classes import WaitingPod
from queues.quota.release_order import ReleasePass
from queues.quota.usage import NODES_TURN, TURN, quota_requests
from queues.quota.waiting_index import WaitingIndex
from queues.tree import Tree
from tests.support.examples import scaled
from tests.support.quota.kept_index import Kept, a_pod, a_queue
from tests.support.quota.plain_releases import plain_releases

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = [f"q{number}" for number in range(5)]
STEPS = 40
RESOURCES = ["cpu", "gpu", "pods"]
USING = {PodState.RELEASED, PodState.PLACED, PodState.LEAVING}

Uses = list[tuple[str, dict[str, Amount]]]


class Made(msgspec.Struct):
    """A gang of the history, and its pods. `keeps`: its minimum was released."""

    gang: Gang
    pods: dict[str, GangPod] = {}
    keeps: bool = False

    def uses(self) -> Uses:
        found = [
            (member.pod.queue, dict(member.pod.requests))
            for member in self.pods.values()
            if member.state in USING
        ]
        if self.keeps:
            found.append((self.gang.queue, dict(unused_resources(self.gang, self.pods.values()))))
        return found


class History:
    """Random gangs and pods that come, change and go; what a pass releases is written in one step.

    What is used and who waits is kept from pass to pass, as the controller keeps it. Each pass is compared
    with one by the rules as they are written.
    """

    def __init__(self, seed: int, *, asks: Callable[..., RequestedPods | NotAsked] = ask) -> None:
        self._chance = random.Random(seed)
        self._asks = asks
        self.tree = Tree({each.name: each for each in self._queues()})
        self.index = WaitingIndex(self.tree)
        self.ledger = Ledger(self.tree)
        self._counted: dict[str, dict[str, Amount]] = {}
        self.made: dict[str, Made] = {}
        self._number = 0
        self.whole = 0

    def run(self) -> list[str]:
        acts = [self._new_gang, self._new_pod, self._change, self._end]
        for _ in range(STEPS):
            for _ in range(self._chance.randint(0, 4)):
                self._chance.choices(acts, [3, 6, 5, 1])[0]()
            if faults := self._pass():
                return faults
        return []

    # What happens

    def _queues(self) -> list[Queue]:
        chance = self._chance
        return [
            Queue(
                name=name,
                parent=chance.choice(["root", *NAMES[:number]]),
                capability=self._amounts(14) if chance.random() < 0.7 else None,
                deserved=self._amounts(8) if chance.random() < 0.4 else None,
                priority=chance.randint(0, 1),
                weight=chance.randint(1, 3),
                dequeue=chance.choice([DequeueStrategy.TRAVERSE] * 2 + [DequeueStrategy.FIFO]),
            )
            for number, name in enumerate(NAMES)
        ]

    def _amounts(self, most: int) -> Amounts:
        names = self._chance.sample(RESOURCES, self._chance.randint(1, 3))
        return tuple(sorted((name, self._chance.randint(1, most)) for name in names))

    def _new_gang(self) -> None:
        self._number += 1
        chance, uid = self._chance, f"g{self._number:03}"
        resources = (
            {name: str(amount) for name, amount in self._amounts(6)} if chance.random() < 0.3 else None
        )
        self.made[uid] = Made(
            gang_of(
                uid,
                chance.choice(NAMES),
                NOW + timedelta(seconds=self._number),
                min_member=chance.randint(0, 5),
                min_task_member={"a": chance.randint(0, 2)} if chance.random() < 0.3 else None,
                min_resources=resources,
                priority=chance.choice([None, None, 1]),
            )
        )
        for _ in range(chance.randint(0, 5)):
            self._add_pod(self.made[uid])

    def _new_pod(self) -> None:
        if self.made:
            self._add_pod(self._chance.choice(list(self.made.values())))

    def _add_pod(self, made: Made) -> None:
        self._number += 1
        chance = self._chance
        size = chance.choice([0, 1, 1, 1, 2])
        uid = f"p{self._number:03}"
        requests = quota_requests((("cpu", size), ("gpu", chance.choice([0, 0, 1]))))
        since = NOW + timedelta(seconds=self._number)
        pod = WaitingPod(uid, made.gang.queue, requests, chance.choice([0, 0, 0, 2]), since)
        state = PodState.HELD if chance.random() < 0.1 else PodState.WAITS
        made.pods[uid] = GangPod(pod, state, chance.choice(["a", "", "b"]))

    def _change(self) -> None:
        """A pod is placed, ends, is deleted, or may be released from now on."""
        pods = [(made, uid) for made in self.made.values() for uid in made.pods]
        if not pods:
            return
        made, uid = self._chance.choice(pods)
        after: dict[PodState, list[PodState | None]] = {
            PodState.WAITS: [None, PodState.HELD],
            PodState.HELD: [None, PodState.WAITS],
            PodState.RELEASED: [None, PodState.PLACED, PodState.PLACED],
            PodState.PLACED: [PodState.LEAVING, PodState.SUCCEEDED, None],
            PodState.LEAVING: [None],
            PodState.SUCCEEDED: [None],
        }
        state = self._chance.choice(after[made.pods[uid].state])
        if state is None:
            del made.pods[uid]
        else:
            made.pods[uid] = msgspec.structs.replace(made.pods[uid], state=state)

    def _end(self) -> None:
        """A PodGroup is deleted with its pods."""
        if self.made:
            del self.made[self._chance.choice(list(self.made))]

    # A pass

    def _pass(self) -> list[str]:
        entries = self._read()
        uses = [use for made in self.made.values() for use in made.uses()]
        before = {made.gang.uid: self._there(made) for made in self.made.values()}
        most = self._chance.choice([3, 8, 10**6])
        expected = plain_releases(self.tree, entries.values(), uses, most=most)
        released = list(ReleasePass(self.tree, self.index, ledger=self.ledger, most=most))
        self._write(released)
        if released != expected:
            names = [[each.uid for each in found] for found in (released, expected)]
            return [f"{names[0]} are released, and {names[1]} by the rules"]
        return [*self._over(), *self._in_parts(before, released)]

    def _read(self) -> dict[str, WaitingPod]:
        """What is asked for now is in the index, and what is used is counted, as far as it has changed."""
        entries: dict[str, WaitingPod] = {}
        for made in self.made.values():
            found = self._asks(made.gang, made.pods.values(), keeps=made.keeps)
            if isinstance(found, RequestedPods):
                asked = [found.minimum] if found.minimum is not None else []
                entries |= {entry.uid: entry for entry in (*asked, *found.others)}
        for queue in NAMES:
            for uid in self.index.in_queue(queue):
                if uid not in entries:
                    self.index.remove(uid)
        for entry in entries.values():
            if self.index.get(entry.uid) != entry:
                self.index.put(entry)
        self._count()
        return entries

    def _count(self) -> None:
        after: dict[str, dict[str, Amount]] = {queue: {} for queue in NAMES}
        for made in self.made.values():
            for queue, amounts in made.uses():
                for resource, amount in amounts.items():
                    after[queue][resource] = after[queue].get(resource, 0) + amount
        with self.ledger.together():
            for queue, amounts in after.items():
                self.ledger.set_all(queue, AmountReason.RELEASING, {})
                self.ledger.set_all(queue, AmountReason.USED, {ALL_PODS: amounts.items()})
        for queue, resource in self.ledger.take_falls():
            self.index.fell(queue, resource)

    def _write(self, released: Iterable[WaitingPod]) -> None:
        """All in one step. What the pass has counted, counts as released."""
        for entry in released:
            made = next(
                made for made in self.made.values() if entry.uid == made.gang.uid or entry.uid in made.pods
            )
            made.keeps = made.keeps or bool(entry.pods)
            self.whole += bool(entry.pods)
            for uid in entry.uids:
                made.pods[uid] = msgspec.structs.replace(made.pods[uid], state=PodState.RELEASED)
            counted = self._counted.setdefault(entry.queue, {})
            for resource, amount in entry.requests:
                counted[resource] = counted.get(resource, 0) + amount

    # What must hold

    def _over(self) -> list[str]:
        used: dict[str, dict[str, Amount]] = {queue: {} for queue in (ROOT, *NAMES)}
        for made in self.made.values():
            for queue, amounts in made.uses():
                for above in self.tree.chain(queue).queues:
                    for resource, amount in amounts.items():
                        used[above.name][resource] = used[above.name].get(resource, 0) + amount
        return [
            f"{queue} uses {used[queue]} of {dict(self.tree.queues[queue].capability or ())}"
            for queue in NAMES
            for resource, most in self.tree.queues[queue].capability or ()
            if used[queue].get(resource, 0) > most
        ]

    def _there(self, made: Made) -> list[GangPod]:
        there = {PodState.RELEASED, PodState.PLACED, PodState.SUCCEEDED}
        return [member for member in made.pods.values() if member.state in there]

    def _in_parts(self, before: dict[str, list[GangPod]], released: Iterable[WaitingPod]) -> list[str]:
        """Gangs of which pods were released, and that have no minimum afterwards."""
        faults = []
        for uid, made in self.made.items():
            there = self._there(made)
            of_task = {task: sum(member.task == task for member in there) for task, _ in made.gang.tasks}
            is_complete = len(there) >= made.gang.least and all(
                of_task[task] >= least for task, least in made.gang.tasks
            )
            if len(there) > len(before[uid]) and not is_complete and not made.gang.is_single:
                faults.append(f"{uid} is released in part")
        return faults


@pytest.mark.parametrize("part", range(4))
def test_passes_release_what_the_rules_say_and_gangs_whole(part: int) -> None:
    seeds = range(part, scaled(24), 4)
    assert {seed: faults for seed in seeds if (faults := History(seed).run())} == {}


def one_by_one(gang: Gang, pods: Iterable[GangPod], *, keeps: bool) -> RequestedPods:
    """Without gangs."""
    waiting = [member.pod for member in pods if member.state is PodState.WAITS]
    return RequestedPods(others=tuple(waiting))


def without_what_is_kept(gang: Gang, pods: Iterable[GangPod], *, keeps: bool) -> RequestedPods | NotAsked:
    """Keeps room for a gang that was not asked for."""
    found = ask(gang, pods, keeps=keeps)
    if isinstance(found, NotAsked) or found.minimum is None:
        return found
    by_uid = {member.pod.uid: member.pod.requests for member in pods}
    total: dict[str, Amount] = {}
    for uid in found.minimum.pods:
        for resource, amount in by_uid[uid]:
            total[resource] = total.get(resource, 0) + amount
    requests = tuple(sorted(total.items()))
    return RequestedPods(minimum=msgspec.structs.replace(found.minimum, requests=requests))


@pytest.mark.parametrize(
    ("faulty", "fault"), [(one_by_one, "released in part"), (without_what_is_kept, " uses ")]
)
def test_the_comparison_finds_a_rule_that_is_left_out(faulty: Any, fault: str) -> None:
    assert any(fault in text for seed in range(60) for text in History(seed, asks=faulty).run())


def test_histories_release_gangs() -> None:
    history = History(1)
    history.run()
    assert history.whole > 5


# Single cases


def a_gang(name: str, of: str, count: int, *, priority: int = 0, age: int = 0, **requests: int) -> WaitingPod:
    """Of so many pods, each with these requests."""
    one = quota_requests(tuple(sorted(requests.items())))
    total: Requests = tuple((resource, count * amount) for resource, amount in one)
    pods = tuple(f"{name}-{number}" for number in range(count))
    return WaitingPod(name, of, total, priority, NOW - timedelta(seconds=age), pods)


def test_a_gang_goes_once_there_is_room_for_all_of_it() -> None:
    kept = Kept(a_queue("team", cpu=4))
    kept.index.put(a_pod("runs", "team", age=9, cpu=1))
    assert kept.released() == ["runs"]
    kept.index.put(a_gang("four", "team", 4, cpu=1))
    assert kept.released() == []
    assert kept.index.lack_of("four") == Lack("team", "cpu", 1)
    kept.end("runs")
    assert kept.released() == ["four"]
    assert kept.usage.used("team") == {"cpu": 4, "pods": 4}


def test_what_volcano_gives_back_of_two_gangs_goes_to_the_other_whole() -> None:
    """Its case GR-1: 4 cpu, both deserve 2. A gang of four of which two may go; one of two waits for them."""
    half: Amounts = (("cpu", 2),)
    root = Queue(name="root", capability=(("cpu", 4),))
    kept = Kept(root, Queue(name="q1", deserved=half), Queue(name="q2", deserved=half))
    large = gang_of("large", "q2", NOW, min_member=2)
    members = {name: GangPod(a_pod(name, "q2", cpu=1)) for name in "abcd"}
    found = ask(large, members.values())
    assert isinstance(found, RequestedPods)
    assert found.minimum is not None
    kept.index.put(found.minimum)
    assert kept.released() == ["large"]
    for name in "ab":
        members[name] = msgspec.structs.replace(members[name], state=PodState.PLACED)
    found = ask(large, members.values())
    assert isinstance(found, RequestedPods)
    for each in found.others:
        kept.index.put(each)
    assert kept.released() == ["c", "d"], "beyond the minimum one by one"
    kept.index.put(a_gang("small", "q1", 2, cpu=1))
    assert kept.released() == []
    kept.end("d")
    assert kept.released() == [], "not in part"
    kept.end("c")
    assert kept.released() == ["small"], "two and two"


def test_gangs_stand_by_their_priority_then_by_who_has_waited_longest() -> None:
    kept = Kept(a_queue("team", cpu=100))
    kept.index.put(a_gang("young", "team", 3, cpu=1))
    kept.index.put(a_gang("old", "team", 2, age=9, cpu=2))
    kept.index.put(a_pod("between", "team", age=5, cpu=1))
    kept.index.put(a_gang("urgent", "team", 2, priority=1, cpu=1))
    assert kept.released() == ["urgent", "old", "between", "young"]


@pytest.mark.parametrize(("most", "expected"), [(1, []), (2, ["two"]), (4, ["two"]), (5, ["two", "three"])])
def test_a_pass_ends_before_a_gang_for_which_the_book_has_no_room(most: int, expected: list[str]) -> None:
    """And nobody behind it passes it: else a stream of pods would fill the book for ever."""
    kept = Kept(a_queue("team", cpu=100))
    kept.index.put(a_gang("two", "team", 2, age=9, cpu=1))
    kept.index.put(a_gang("three", "team", 3, age=5, cpu=1))
    if most < 5:
        kept.index.put(a_pod("single", "team", cpu=1))
    found = [pod.uid for pod in ReleasePass(kept.tree, kept.index, ledger=kept.ledger, most=most)]
    assert found == expected
    assert kept.index.is_due or most == 5, "the next pass goes on"


def test_all_pods_of_a_gang_count_as_without_a_node() -> None:
    kept = Kept(a_queue("team", cpu=100))
    kept.index.put(a_gang("three", "team", 3, cpu=1))
    kept.released()
    assert kept.usage.unplaced == 3


# Turns


def failed(gang: WaitingPod, number: int = 1) -> WaitingPod:
    return msgspec.structs.replace(gang, requests=tuple(sorted((*gang.requests, (TURN, number)))))


def end_turn(kept: Kept, scope: str) -> None:
    kept.usage.turns.taken -= {scope}
    kept.index.fell(scope, TURN)


def test_gangs_that_were_released_in_vain_go_one_at_a_time() -> None:
    kept = Kept(a_queue("team", cpu=100))
    kept.index.put(failed(a_gang("one", "team", 2, age=9, cpu=1)))
    kept.index.put(failed(a_gang("two", "team", 2, age=8, cpu=1), number=2))
    kept.index.put(a_gang("fresh", "team", 2, age=7, cpu=1))
    assert kept.released() == ["fresh", "one"], "those that were not do not wait for them"
    assert kept.index.lack_of("two") == Lack("team", TURN, 1, kind=LackKind.TURN)
    assert kept.usage.turns.taken == {"team"}
    assert TURN not in {**kept.usage.used("team"), **kept.usage.used(ROOT), **kept.index.requested}
    assert kept.released() == []
    end_turn(kept, "team")
    assert kept.released() == ["two"]
    assert not kept.index.is_due


def test_the_turn_goes_to_the_one_with_room_that_has_waited_longest() -> None:
    """Whatever its priority, and whatever its queue uses."""
    high = Queue(name="high", parent="lab", priority=9)
    low, full = (Queue(name=name, parent="lab") for name in ("low", "full"))
    kept = Kept(a_queue("lab", cpu=8), high, low, full)
    kept.index.put(a_pod("runs", "full", age=99, cpu=4))
    kept.index.put(failed(a_gang("large", "full", 6, age=30, cpu=1)))
    kept.index.put(failed(a_gang("urgent", "high", 2, priority=9, age=10, cpu=1)))
    kept.index.put(failed(a_gang("longest", "low", 2, age=20, cpu=1)))
    assert kept.released() == ["runs", "longest"]
    kept.end("runs")
    assert kept.released() == [], "it has room now, and waits for its turn"
    end_turn(kept, "lab")
    assert kept.released() == ["large"]


def test_turns_are_of_the_queue_whose_capability_gangs_share() -> None:
    below = [Queue(name=name, parent="lab") for name in ("a", "b")]
    kept = Kept(a_queue("lab", cpu=100), *below, a_queue("other", cpu=100), Queue(name="free", parent="root"))
    for number, of in enumerate(["a", "b", "other", "free", "free"]):
        kept.index.put(failed(a_gang(f"{number}", of, 2, age=9 - number, cpu=1), number=number))
    assert kept.released() == ["0", "2", "3"]
    assert kept.usage.turns.taken == {"lab", "other", "free"}
    assert [kept.index.lack_of(each) for each in "14"] == [
        Lack("lab", TURN, 1, kind=LackKind.TURN),
        Lack("free", TURN, 1, kind=LackKind.TURN),
    ]
    end_turn(kept, "lab")
    assert kept.released() == ["1"]


def test_gangs_that_had_nodes_are_tried_one_at_a_time_in_the_cluster_too() -> None:
    """Each is looked at again when the turn ends that it waits for. One that no node takes has no part."""
    kept = Kept(*(a_queue(name, cpu=100) for name in "abc"))
    nodes = (NODES_TURN, 1)
    for age, of in ((9, "a"), (8, "b"), (7, "c")):
        gang = failed(a_gang(f"of-{of}", of, 2, age=age, cpu=1), number=age)
        if of != "c":
            gang = msgspec.structs.replace(gang, requests=tuple(sorted((*gang.requests, nodes))))
        kept.index.put(gang)
    assert kept.released() == ["of-a", "of-c"]
    assert kept.index.lack_of("of-b") == Lack(CLUSTER, TURN, 1, kind=LackKind.TURN)
    assert kept.usage.turns.taken == {"a", "c", CLUSTER}
    end_turn(kept, "a")
    assert kept.released() == []
    end_turn(kept, CLUSTER)
    assert kept.released() == ["of-b"]
    assert kept.usage.used("b") == {"cpu": 2, "pods": 2}, "a turn is no amount"


def test_a_queue_with_many_gangs_has_no_more_turns_than_another_one_of_its_scope() -> None:
    kept = Kept(a_queue("lab", cpu=100), *(Queue(name=name, parent="lab") for name in ("many", "one")))
    for number in range(3):
        kept.index.put(failed(a_gang(f"many{number}", "many", 2, age=90 - number, cpu=1), number=number))
    kept.index.put(failed(a_gang("late", "one", 2, cpu=1), number=9))
    found = []
    while released := kept.released():
        found += released
        end_turn(kept, "lab")
    assert found == ["many0", "late", "many1", "many2"]


@pytest.mark.parametrize("ends", ["at most one pod", "no time", "by its reader"])
def test_who_asks_for_the_turn_is_looked_at_again_where_a_pass_ends_before(ends: str) -> None:
    kept = Kept(a_queue("team", cpu=8))
    kept.index.put(failed(a_gang("two", "team", 2, age=9, cpu=1)))
    kept.index.put(a_pod("single", "team", cpu=1))
    looks = iter([True, True, False])
    goes_on = (lambda: next(looks)) if ends == "no time" else (lambda: True)
    most = 2 if ends == "at most one pod" else 9
    released = []
    for pod in ReleasePass(kept.tree, kept.index, ledger=kept.ledger, most=most, goes_on=goes_on):
        released.append(pod.uid)
        if ends == "by its reader":
            break
    assert released == (["single", "two"] if ends == "no time" else ["single"])
    if ends != "no time":
        assert kept.index.is_due
        assert kept.released() == ["two"]


def test_who_waits_for_its_turn_closes_no_queue_and_claims_nothing() -> None:
    kept = Kept(a_queue("line", is_fifo=True, cpu=4))
    kept.usage.turns.take(["line"], "line")
    kept.index.put(failed(a_gang("first", "line", 2, age=9, cpu=1)))
    kept.index.put(a_pod("second", "line", cpu=1))
    assert kept.released() == ["second"]
    kept.index.put(a_pod("third", "line", cpu=3))
    assert kept.released(now=1000.0) == ["third"]


def test_in_a_fifo_queue_a_gang_and_the_pods_behind_it_are_each_told_what_they_wait_for() -> None:
    kept = Kept(a_queue("line", is_fifo=True, cpu=4))
    kept.usage.turns.take(["line"], "line")
    kept.index.put(a_pod("runs", "line", age=99, cpu=1))
    kept.index.put(failed(a_gang("first", "line", 2, age=9, cpu=1)))
    kept.index.put(a_pod("second", "line", age=8, cpu=4))
    kept.index.put(a_pod("third", "line", cpu=1))
    assert kept.released() == ["runs"]
    told = {uid: lack.kind for uid, lack in kept.index.take_untold().items()}
    room = LackKind.CAPABILITY
    assert told == {"first": LackKind.TURN, "second": room, "third": room}
    end_turn(kept, "line")
    assert kept.released() == ["first"]


def test_a_gang_with_room_for_its_turn_only_waits_for_room() -> None:
    kept = Kept(a_queue("team", cpu=1))
    kept.usage.turns.take(["team"], "team")
    kept.index.put(failed(a_gang("large", "team", 2, cpu=1)))
    kept.released()
    assert kept.index.lack_of("large") == Lack("team", "cpu", 1, never=True)
