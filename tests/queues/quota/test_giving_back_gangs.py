"""Gangs give back whole, or down to their minimum; nothing of a set of victims could be left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.quota import giving_back
from queues.quota.giving_back import AllowedTaking, Borrowed, GivingBack
from queues.quota.kept_victims import kept_victims
from queues.quota.ledger import AmountReason
from queues.quota.started_gangs import StartedGang
from queues.quota.usage import negative
from tests.queues.quota.test_lending import PREEMPT, RECLAIM, Cluster, amounts, asking, queue
from tests.support.cases import each_case
from tests.support.examples import examples
from tests.support.quota.counted_pods import ONCE, CountedPods


class GangCluster(Cluster):
    """Queues, the pods that count, and gangs. `kept`: pods that might not go, of which the look knows only as
    part of their gang.
    """

    def __init__(self, *queues: Any, **more: Any) -> None:
        super().__init__(*queues, **more)
        self.minimums: dict[str, tuple[int, tuple[tuple[str, int], ...]]] = {}
        self.tasks: dict[str, str] = {}
        self.kept: set[str] = set()
        self.order: list[int] | None = None

    def gang(
        self, of: str, name: str, *cpus: int, least: int, tasks: Sequence[str] = (), **fields: Any
    ) -> list[str]:
        """`tasks`: of each pod; each task has a minimum of one."""
        minimum = tuple((task, 1) for task in sorted(set(tasks)))
        self.minimums[name] = least, minimum
        uids = self.runs(of, *cpus, gang=name, **fields)
        self.tasks.update(zip(uids, tasks, strict=False))
        return uids

    def started(self, uid: str) -> StartedGang | None:
        if uid not in self.minimums:
            return None
        least, tasks = self.minimums[uid]
        running = {pod.uid: self.tasks.get(pod.uid, "") for pod in self.pods.values() if pod.gang == uid}
        return StartedGang(uid=uid, least=least, tasks=tasks, running=running)

    def look(self, allowed: Mapping[str, int] | None = None) -> GivingBack:
        def pods(name: str) -> Iterable[Borrowed]:
            found = [pod for pod in self.pods.values() if pod.queue == name and pod.uid not in self.kept]
            return found if self.order is None else [found[at] for at in self.order if at < len(found)]

        return GivingBack(
            self.tree,
            self.ledger,
            pods=pods,
            queues=sorted({pod.queue for pod in self.pods.values()}),
            deserved=self.usage.deserved.of,
            reclaimable=lambda name: name not in self._unreclaimable,
            allowed=allowed,
            gangs=self.started,
        )


def lab(**b: Any) -> GangCluster:
    """`b` deserves 2 of 8 CPUs, `a` the rest."""
    return GangCluster(queue("a", deserved=6), queue("b", **{"deserved": 2, **b}), whole=8)


def test_a_gang_of_eight_that_borrows_six_goes_whole() -> None:
    cluster = lab()
    ring = cluster.gang("b", "ring", *[1] * 8, least=8)
    assert sorted(cluster.ask("a", 1)) == ring


def test_it_stays_where_its_queue_is_guaranteed_a_part_of_it() -> None:
    cluster = lab(guarantee=2)
    cluster.gang("b", "ring", *[1] * 8, least=8)
    assert cluster.ask("a", 6) == []


def test_of_two_gangs_that_would_do_exactly_one_goes() -> None:
    cluster = GangCluster(queue("a", deserved=2), queue("b"), whole=4)
    first = cluster.gang("b", "first", 1, 1, least=2)
    second = cluster.gang("b", "second", 1, 1, least=2)
    assert sorted(cluster.ask("a", 2)) == second, "the newer one"
    assert sorted(cluster.ask("a", 1)) == second
    cluster.kept.add(second[0])
    assert sorted(cluster.ask("a", 2)) == first


def test_pods_beyond_the_minimum_go_one_by_one_and_then_the_gang() -> None:
    cluster = lab()
    ring = cluster.gang("b", "ring", *[1] * 8, least=5)
    assert cluster.ask("a", 2) == ring[:5:-1], "the newest"
    assert sorted(cluster.ask("a", 4)) == ring
    look = cluster.look()
    found = [look.ask(asking("a", amounts(2)), RECLAIM) for _ in range(2)]
    look.close()
    assert [len(each or ()) for each in found] == [2, 6], "the rest of it goes whole with the next"


def test_each_task_keeps_its_minimum() -> None:
    cluster = lab()
    ring = cluster.gang("b", "ring", *[1] * 8, least=2, tasks=["rank"] * 7 + ["driver"])
    assert cluster.ask("a", 1) == [ring[6]], "the driver is the newest"
    assert len(cluster.ask("a", 6)) == 6
    assert ring[7] not in cluster.ask("a", 6)


def test_a_gang_below_its_minimum_goes_whole() -> None:
    cluster = lab()
    ring = cluster.gang("b", "ring", *[1] * 8, least=9)
    assert sorted(cluster.ask("a", 1)) == ring


@each_case(
    "fields",
    [{"is_critical": True}, {"priority": 9}, {"budgets": ("none",)}],
    ids=["critical", "of no lower priority", "kept by its budget"],
)
def test_a_gang_of_which_one_pod_stays_goes_down_to_its_minimum_alone(fields: dict[str, Any]) -> None:
    for least, goes in ((4, 0), (3, 1)):
        cluster = GangCluster(queue("a", deserved=4), queue("b"), whole=4)
        cluster.gang("b", "ring", 1, 1, 1, least=least)
        [odd] = cluster.gang("b", "ring", 1, least=least, **fields)
        spares = AllowedTaking(
            others=giving_back.Taking(is_allowed=True, spares_critical=True, lower_only=True)
        )
        look = cluster.look({"none": 0})
        found = look.ask(asking("a", amounts(1), 5), spares) or ()
        look.close()
        assert len(found) == goes
        assert odd not in {pod.uid for pod in found}


def test_a_gang_in_two_queues_goes_down_to_its_minimum_alone() -> None:
    cluster = GangCluster(queue("a", deserved=6), queue("b"), queue("c"), whole=6)
    cluster.gang("b", "ring", 1, 1, 1, least=5)
    cluster.gang("c", "ring", 1, 1, 1, least=5)
    assert len(cluster.ask("a", 1)) == 1
    assert cluster.ask("a", 2) == []


def test_of_equal_priority_single_pods_go_before_gangs() -> None:
    cluster = lab()
    single = cluster.runs("b", 1, 1)
    ring = cluster.gang("b", "ring", *[1] * 6, least=6)
    assert cluster.ask("a", 1) == single[1:]
    assert sorted(cluster.ask("a", 4)) == ring, "the single ones do not suffice, and are not needed"
    low = lab()
    low.runs("b", 1, 1, priority=1)
    ring = low.gang("b", "ring", *[1] * 6, least=6)
    assert sorted(low.ask("a", 1)) == ring


def test_a_gang_of_the_own_queue_goes_whole_for_a_pod_of_higher_priority() -> None:
    cluster = GangCluster(queue("a"), whole=4)
    ring = cluster.gang("a", "ring", 1, 1, 1, 1, least=4)
    assert sorted(cluster.ask("a", 1, asked=PREEMPT, priority=1)) == ring
    assert cluster.ask("a", 1, asked=PREEMPT, priority=0) == []


def test_pods_and_gangs_are_read_once_in_a_look() -> None:
    """However many ask, and whatever is told of those that stay."""
    cluster = lab()
    cluster.gang("b", "ring", *[1] * 8, least=6)
    read: list[str] = []
    running = CountedPods(dict.fromkeys((uid for uid, pod in cluster.pods.items() if pod.gang), ""))

    def pods(name: str) -> Iterable[Borrowed]:
        read.append(name)
        return [pod for pod in cluster.pods.values() if pod.queue == name]

    def started(uid: str) -> StartedGang:
        read.append(uid)
        return StartedGang(uid=uid, least=6, running=running)

    look = GivingBack(
        cluster.tree,
        cluster.ledger,
        pods=pods,
        queues=["b"],
        deserved=cluster.usage.deserved.of,
        reclaimable=lambda _name: True,
        gangs=started,
    )
    assert [len(look.ask(asking("a", amounts(1)), RECLAIM) or ()) for _ in range(3)] == [1, 1, 6]
    for _ in range(3):
        assert look.ask(asking("a", amounts(9)), RECLAIM) is None
        kept_victims(look, asking("a", amounts(9)), RECLAIM)
    look.close()
    assert (read, running.times) == (["b", "ring"], ONCE)


# Whatever the gangs are


@st.composite
def clusters(draw: Any) -> tuple[GangCluster, list[int], int]:
    """A cluster, the order in which pods are listed, and how much is asked for."""
    spec = {
        "deserved": draw(st.sampled_from((None, 0, 2, 4))),
        "guarantee": draw(st.sampled_from((None, 1, 3))),
    }
    b = {key: value for key, value in spec.items() if value is not None}
    cluster = GangCluster(queue("a", deserved=10), queue("b", **b), queue("c"), whole=16)
    left = 16
    for number in range(draw(st.integers(1, 6))):
        of = draw(st.sampled_from(("b", "b", "c")))
        cpus = draw(st.lists(st.integers(1, 2), min_size=1, max_size=5))
        if sum(cpus) > left:
            continue
        left -= sum(cpus)
        fields: dict[str, Any] = {
            "priority": draw(st.sampled_from((0, 0, 5))),
            "is_placed": draw(st.sampled_from((True, True, False))),
            "budgets": draw(st.sampled_from(((), (), ("two",)))),
        }
        if draw(st.booleans()):
            tasks = [draw(st.sampled_from(("x", "y"))) for _ in cpus] if draw(st.booleans()) else ()
            least = draw(st.integers(1, 6))
            uids = cluster.gang(of, f"g{number}", *cpus, least=least, tasks=tasks, **fields)
            if draw(st.integers(0, 4)) == 0:
                cluster.kept.add(draw(st.sampled_from(uids)))
        else:
            cluster.runs(of, *cpus, **fields)
    cluster.ledger.set_one("c", AmountReason.USED, "left", amounts(left))  # nothing is free
    order = draw(st.permutations(range(30)))
    return cluster, order, draw(st.integers(1, 8))


def victims(cluster: GangCluster, cpu: int, *, times: int = 2) -> list[list[str]]:
    look = cluster.look({"two": 2})
    found = [[pod.uid for pod in look.ask(asking("a", amounts(cpu)), RECLAIM) or ()] for _ in range(times)]
    look.close()
    return found


@examples(300)
@given(clusters())
def test_no_gang_is_left_between_nothing_and_its_minimum(drawn: tuple[GangCluster, list[int], int]) -> None:
    cluster, _, cpu = drawn
    gone: set[str] = set()
    for found in victims(cluster, cpu):
        gone.update(found)
        assert broken(cluster, gone) == []
        assert not gone & cluster.kept


def broken(cluster: GangCluster, gone: set[str]) -> list[str]:
    """The gangs of which something went, and something stays that is less than their minimum."""
    found = []
    for name, (least, tasks) in cluster.minimums.items():
        pods = {uid for uid, pod in cluster.pods.items() if pod.gang == name}
        stays = [cluster.tasks.get(uid, "") for uid in pods - gone]
        is_whole = len(stays) >= least and all(stays.count(task) >= number for task, number in tasks)
        if pods & gone and stays and not is_whole:
            found.append(name)
    return found


def test_the_model_finds_the_rule_that_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = lab()
    ring = cluster.gang("b", "ring", *[1] * 8, least=8)
    assert broken(cluster, set(cluster.ask("a", 1))) == []
    monkeypatch.setattr(GivingBack, "may_lose", lambda *_: True)
    assert cluster.ask("a", 1) == ring[-1:]
    assert broken(cluster, {ring[-1]}) == ["ring"]


@examples(300)
@given(clusters())
def test_nothing_of_a_set_could_be_left_out(drawn: tuple[GangCluster, list[int], int]) -> None:
    """A pod, where its gang keeps its minimum or is not touched; or all that goes of a gang."""
    cluster, _, cpu = drawn
    [found] = victims(cluster, cpu, times=1)
    for uid in found:
        gang = cluster.started(cluster.pods[uid].gang)
        unit = {uid}
        if gang is not None and gang.is_whole(set(found)):
            unit = set(gang.running)
        assert has_room(cluster, cpu, without=found)
        assert not has_room(cluster, cpu, without=[each for each in found if each not in unit])


def has_room(cluster: GangCluster, cpu: int, *, without: Iterable[str]) -> bool:
    gone = [cluster.pods[uid] for uid in without]
    with cluster.ledger.assume() as assumed:
        for pod in gone:
            assumed.add(pod.queue, negative(pod.requests))
        return cluster.usage.lack("a", amounts(cpu)) is None


@examples(200)
@given(clusters())
def test_the_victims_are_the_same_in_whatever_order_pods_are_listed(
    drawn: tuple[GangCluster, list[int], int],
) -> None:
    cluster, order, cpu = drawn
    expected = victims(cluster, cpu)
    cluster.order = order
    assert victims(cluster, cpu) == expected
