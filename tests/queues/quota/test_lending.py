"""Which pods give back what was lent; and that nobody takes back what was given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from queues.apimachinery.pod_requests import Requests
from queues.apimachinery.quantities import Amount
from queues.queue import Queue
from queues.quota.giving_back import AllowedTaking, Borrowed, GivingBack, Taking, shortages
from queues.quota.ledger import AmountReason, Ledger
from queues.quota.pod_classes import WaitingPod
from queues.tree import Tree
from tests.support.cases import each_case

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RECLAIM = AllowedTaking(others=Taking(is_allowed=True))
PREEMPT = AllowedTaking(own=Taking(is_allowed=True))


def amounts(cpu: int | None = None, memory: int | None = None) -> Requests:
    return tuple((name, value) for name, value in (("cpu", cpu), ("memory", memory)) if value is not None)


def asking(of: str, requests: Requests, priority: int = 0) -> WaitingPod:
    return WaitingPod(uid="asks", queue=of, requests=requests, priority=priority, since=NOW)


def queue(name: str, parent: str | None = "root", **spec: Any) -> Queue:
    """`cap`, `deserved`, `guarantee`: CPUs, or CPUs and memory."""
    quotas: dict[str, Any] = {}
    for key, field in (("cap", "capability"), ("deserved", "deserved"), ("guarantee", "guarantee")):
        value = spec.pop(key, None)
        if value is not None:
            quotas[field] = amounts(*(value if isinstance(value, tuple) else (value,)))
    return Queue(name=name, parent=parent or None, **quotas, **spec)


class Cluster:
    """Queues, and the pods that count."""

    def __init__(self, *queues: Queue, whole: Any = 10, unreclaimable: Iterable[str] = ("root",)) -> None:
        self.tree = Tree({each.name: each for each in (queue("root", None, cap=whole), *queues)})
        self.ledger = Ledger(self.tree)
        self.usage = self.ledger.usage
        self.pods: dict[str, Borrowed] = {}
        self._unreclaimable = set(unreclaimable)

    def runs(self, of: str, *cpus: int, memory: int | None = None, **fields: Any) -> list[str]:
        uids = []
        for cpu in cpus:
            uid = f"{of}-{len(self.pods)}"
            since = NOW + timedelta(seconds=len(self.pods))
            pod = Borrowed(uid=uid, queue=of, requests=amounts(cpu, memory), since=since, **fields)
            self.pods[uid] = pod
            self.ledger.set_one(of, AmountReason.USED, uid, pod.requests)
            uids.append(uid)
        return uids

    def ask(
        self,
        of: str,
        cpu: int,
        *,
        memory: int | None = None,
        asked: AllowedTaking = RECLAIM,
        priority: int = 0,
    ) -> list[str]:
        return self.ask_for(asking(of, amounts(cpu, memory), priority), asked)

    def ask_for(self, claimant: WaitingPod, asked: AllowedTaking = RECLAIM) -> list[str]:
        before = self.used()
        look = self.look()
        found = look.ask(claimant, asked) or ()
        look.close()
        assert self.used() == before
        return [each.uid for each in found]

    def used(self) -> dict[str, dict[str, Amount]]:
        return {
            name: {each: amount for each, amount in self.usage.used(name).items() if amount}
            for name in self.tree
        }

    def look(self, allowed: Mapping[str, int] | None = None) -> GivingBack:
        return GivingBack(
            self.tree,
            self.ledger,
            pods=lambda name: [pod for pod in self.pods.values() if pod.queue == name],
            queues=sorted({pod.queue for pod in self.pods.values()}),
            deserved=self.usage.deserved.of,
            reclaimable=lambda name: name not in self._unreclaimable,
            allowed=allowed,
        )

    def end(self, uid: str) -> Borrowed:
        pod = self.pods.pop(uid)
        self.ledger.set_one(pod.queue, AmountReason.USED, uid, ())
        return pod


def two(**b: Any) -> Cluster:
    """`a` and `b` deserve half each; `b` uses it all."""
    return Cluster(queue("a", deserved=5), queue("b", **{"deserved": 5, **b}))


def test_a_queue_gets_what_it_deserves_from_who_uses_more() -> None:
    cluster = two()
    borrowed = cluster.runs("b", *[1] * 10)
    assert cluster.ask("a", 2) == borrowed[:-3:-1], "the newest first"
    assert cluster.ask("a", 5) == borrowed[:-6:-1]
    assert cluster.ask("a", 6) == [], "that is more than it deserves"


def test_nobody_goes_where_there_is_room_or_where_it_would_not_suffice() -> None:
    cluster = two()
    cluster.runs("b", *[1] * 5)
    assert cluster.ask("a", 5) == []
    cluster.runs("a", 1, 1)
    cluster.runs("b", 3)
    assert cluster.ask("a", 11) == [], "it never fits"
    full = Cluster(queue("a", deserved=5, cap=1), queue("b", deserved=5))
    full.runs("a", 1)
    full.runs("b", *[1] * 9)
    assert full.ask("a", 1) == [], "its own capability has no room"


@each_case(
    ("b", "goes"),
    [
        ({}, True),
        ({"priority": 1}, False),
        ({"priority": -1}, True),
        ({"deserved": 10}, False),
        ({"deserved": 9}, True),
        ({"deserved": None}, True),  # it borrows all of it
        ({"guarantee": 9}, True),
        ({"guarantee": 10}, False),
    ],
)
def test_what_a_queue_lends(b: Mapping[str, Any], goes: bool) -> None:
    spec = {key: value for key, value in {"deserved": 5, **b}.items() if value is not None}
    cluster = Cluster(queue("a", deserved=1 if "guarantee" in b else 5), queue("b", **spec))
    cluster.runs("b", *[1] * 10)
    assert bool(cluster.ask("a", 1)) is goes


def test_a_queue_that_is_not_reclaimable_lends_nothing_and_one_above_it_neither() -> None:
    for protected in ("leaf", "team"):
        cluster = Cluster(
            queue("a", deserved=5), queue("team"), queue("leaf", "team"), unreclaimable=[protected]
        )
        cluster.runs("leaf", *[1] * 10)
        assert cluster.ask("a", 1) == [], protected


def test_without_deserved_nothing_is_asked_back_and_a_queue_above_may_have_it() -> None:
    cluster = Cluster(queue("a"), queue("b"), queue("team", deserved=5), queue("leaf", "team"))
    cluster.runs("b", *[1] * 10)
    assert cluster.ask("a", 1) == []
    assert len(cluster.ask("leaf", 2)) == 2


@each_case(
    ("team", "asks", "lends"),
    [({}, False, True), ({"deserved": 5}, True, False), ({"deserved": (None, 5)}, False, True)],
)
def test_what_a_queue_below_deserves_counts_as_far_as_those_above_list_it(
    team: Mapping[str, Any], asks: bool, lends: bool
) -> None:
    """Else who may update `team` alone would have its share by a child of it."""
    for child in (queue("leaf", "team", deserved=10), queue("leaf", "team", deserved=5)):
        cluster = Cluster(queue("prod", deserved=5), queue("team", **team), child)
        cluster.runs("prod", *[1] * 10)
        assert bool(cluster.ask("leaf", 1)) is asks
        cluster = Cluster(queue("prod", deserved=5), queue("team", **team), child, whole=(6, 6))
        cluster.runs("leaf", *[1] * 5, memory=0)
        cluster.runs("prod", 1, memory=0)
        assert bool(cluster.ask("prod", 1)) is lends


def test_actions_say_whose_pods_may_go() -> None:
    cluster = two()
    cluster.runs("b", *[1] * 9)
    own = cluster.runs("a", 1, priority=1)
    assert cluster.ask("a", 1, asked=AllowedTaking(), priority=5) == []
    assert cluster.ask("a", 1, asked=PREEMPT, priority=5) == own
    assert cluster.ask("a", 1, asked=PREEMPT, priority=1) == []
    both = AllowedTaking(own=Taking(is_allowed=True), others=Taking(is_allowed=True))
    assert cluster.ask("a", 1, asked=both, priority=5) == own, "the nearest first"
    assert cluster.ask("a", 1, asked=both, priority=1) != own


def test_the_order_of_victims() -> None:
    cluster = two()
    cluster.runs("b", *[1] * 6)
    low = cluster.runs("b", 1, priority=-1)
    waits = cluster.runs("b", 1, is_placed=False)
    newest = cluster.runs("b", 1, 1)
    assert cluster.ask("a", 4) == [*waits, *low, newest[1], newest[0]]


def test_who_uses_most_of_what_it_deserves_gives_first() -> None:
    cluster = Cluster(queue("a", deserved=4), queue("b", deserved=2), queue("c", deserved=4))
    b, c = cluster.runs("b", *[1] * 4), cluster.runs("c", *[1] * 6)
    assert cluster.ask("a", 3) == [b[3], c[5], b[2]]


def test_nearest_relatives_give_first() -> None:
    cluster = Cluster(
        queue("team", deserved=8),
        queue("a", "team", deserved=4),
        queue("b", "team", deserved=2),
        queue("c"),
        whole=12,
    )
    near, far = cluster.runs("b", *[1] * 6), cluster.runs("c", *[1] * 6)
    assert cluster.ask("a", 4) == near[:1:-1]
    assert cluster.ask("a", 1) == near[-1:]
    team = Cluster(queue("team", deserved=8), queue("a", "team", deserved=4), queue("c"))
    far = team.runs("c", *[1] * 10)
    assert team.ask("a", 1) == far[-1:]


def test_a_set_has_nobody_who_could_be_left_out() -> None:
    cluster = Cluster(queue("a", deserved=5), queue("b"))
    cluster.runs("b", 4, 4, is_placed=True)
    cluster.runs("b", 1, 1, priority=-1)
    found = cluster.ask("a", 4)
    assert [cluster.pods[uid].requests for uid in found] == [amounts(4)], "the small ones would not suffice"


def test_a_victim_has_what_lacks() -> None:
    cluster = Cluster(queue("a", deserved=(5, 5)), queue("b"), whole=(10, 10))
    cluster.runs("b", *[1] * 5, memory=0)
    takes = cluster.runs("b", *[0] * 2, memory=5)
    assert cluster.ask("a", 1, memory=1) == takes[-1:]


def test_resources_that_a_queue_does_not_list() -> None:
    """They protect nobody; and who lists what the victim requests is judged by that."""
    none = Cluster(queue("a", deserved=(5, 5)), queue("b"), whole=(10, 10))
    gone = none.runs("b", 10, memory=1)
    assert none.ask("a", 1, memory=1) == gone
    other = Cluster(queue("a", deserved=(5, 5)), queue("b", deserved=(None, 9)), whole=(10, 10))
    other.runs("b", 10, memory=1)
    assert other.ask("a", 1, memory=1) == [], "of cpu it lists nothing, of memory it uses less"
    asks = Cluster(queue("a", deserved=(None, 5)), queue("b"), whole=(10, 10))
    asks.runs("b", 10, memory=1)
    assert asks.ask("a", 1, memory=1) == [], "only cpu lacks, of which it lists nothing"


def test_volcano_capacity_6() -> None:
    """`pkg/scheduler/plugins/capacity`: q10 deserves 2 cpu 2 Gi, runs 1 cpu 3 Gi, asks 1 cpu 1 Gi."""
    cluster = Cluster(queue("q10", deserved=(2, 2)), queue("q11"), whole=(2, 4))
    cluster.runs("q10", 1, memory=3)
    borrowed = cluster.runs("q11", 1, memory=1)
    assert cluster.ask("q10", 1, memory=1) == borrowed
    cluster = Cluster(queue("q10", deserved=(2, 2)), queue("q11", deserved=(0, 2)), whole=(2, 4))
    cluster.runs("q10", 1, memory=3)
    cluster.runs("q11", 1, memory=1)
    assert cluster.ask("q10", 1, memory=1) == [], "it would take memory that q11 deserves"


def test_one_look_asks_for_many_and_takes_nobody_twice() -> None:
    cluster = two()
    borrowed = cluster.runs("b", *[1] * 10)
    look, claimant = cluster.look(), asking("a", amounts(2))
    found = [look.ask(claimant, RECLAIM) for _ in range(3)]
    look.close()
    assert [[pod.uid for pod in pods or ()] for pods in found] == [borrowed[:-3:-1], borrowed[-3:-5:-1], []]
    assert found[2] is None, "that would be more than it deserves"


def test_who_has_room_by_now_takes_nobody_and_counts() -> None:
    cluster = two()
    cluster.runs("b", *[1] * 8)
    look, claimant = cluster.look(), asking("a", amounts(2))
    assert look.ask(claimant, RECLAIM) == ()
    assert len(look.ask(claimant, RECLAIM) or ()) == 2
    look.close()


def test_no_more_pods_of_a_budget_than_it_allows() -> None:
    cluster = two()
    held, free = cluster.runs("b", *[1] * 5, budgets=("web",), priority=-1), cluster.runs("b", *[1] * 5)
    look = cluster.look({"web": 1})
    found = [look.ask(asking("a", amounts(1)), RECLAIM) or () for _ in range(3)]
    look.close()
    assert [pod.uid for pods in found for pod in pods] == [held[-1], free[-1], free[-2]]
    look = cluster.look({"web": 0})
    assert look.ask(asking("a", amounts(5)), RECLAIM) is not None
    assert look.left == {"web": 0}
    look.close()


def test_policies_spare_critical_pods_and_those_of_no_lower_priority() -> None:
    cluster = two()
    cluster.runs("b", *[1] * 8, is_critical=True)
    cluster.runs("b", 1, 1, priority=7)
    spares = AllowedTaking(others=Taking(is_allowed=True, spares_critical=True, lower_only=True))
    assert cluster.ask("a", 1, asked=spares, priority=7) == []
    assert len(cluster.ask("a", 1, asked=spares, priority=8)) == 1
    assert cluster.ask("a", 3, asked=spares, priority=8) == []
    assert len(cluster.ask("a", 3, priority=0)) == 3


def test_two_policies_let_take_what_both_do() -> None:
    both = AllowedTaking(own=Taking(is_allowed=True), others=Taking(is_allowed=True, lower_only=True))
    found = both.within(AllowedTaking(others=Taking(is_allowed=True, spares_critical=True)))
    assert found == AllowedTaking(others=Taking(is_allowed=True, spares_critical=True, lower_only=True))
    assert both.is_any
    assert not both.within(AllowedTaking()).is_any


def test_what_a_search_in_vain_took_may_be_taken_by_the_next() -> None:
    cluster = Cluster(queue("a", deserved=5), queue("b", deserved=7), whole=10)
    cluster.runs("b", *[1] * 10)
    look = cluster.look()
    assert look.ask(asking("a", amounts(4)), RECLAIM) is None, "b deserves most of it"
    assert len(look.ask(asking("a", amounts(1)), RECLAIM) or ()) == 1
    look.close()


NAMES = ("a", "b", "c", "d", "e")
AMOUNTS = st.none() | st.tuples(st.none() | st.integers(0, 6), st.none() | st.integers(0, 6))


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    queues = []
    for number, name in enumerate(NAMES):
        parent = draw(st.sampled_from(("root", *NAMES[:number])))
        spec = {key: draw(AMOUNTS) for key in ("deserved", "guarantee")}
        queues.append(queue(name, parent, priority=draw(st.integers(0, 1)), **spec))
    cluster = Cluster(*queues, whole=(draw(st.integers(4, 10)), draw(st.integers(4, 10))))
    for _ in range(draw(st.integers(0, 14))):
        of, cpu, memory = draw(st.sampled_from(NAMES)), draw(st.integers(0, 3)), draw(st.integers(0, 3))
        if cluster.usage.lack(of, amounts(cpu, memory)) is None:
            cluster.runs(of, cpu, memory=memory, priority=draw(st.integers(0, 2)))
    return cluster


@given(
    clusters(),
    st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 3), st.integers(0, 3)), max_size=8),
)
def test_whatever_is_asked_there_is_no_see_saw(cluster: Cluster, asked: list[tuple[str, int, int]]) -> None:
    for of, cpu, memory in asked:
        claimant = asking(of, amounts(cpu, memory), 1)
        short = {name for _, name in shortages(claimant, tree=cluster.tree, usage=cluster.usage)}
        before = {name: _shares(cluster, name) for name in cluster.tree}
        gone = [cluster.end(uid) for uid in cluster.ask_for(claimant)]
        if not gone:
            continue
        assert cluster.usage.lack(of, claimant.requests) is None
        _check_each_is_needed(cluster, claimant, gone)
        (taken,) = cluster.runs(of, cpu, memory=memory, priority=1)
        for victim in gone:
            own, other = branches(cluster, of, victim.queue)
            if other in (each.name for each in cluster.tree.chain(of).queues):
                continue  # pods beside the queues below theirs deserve nothing by themselves
            for resource in short & dict(victim.requests).keys() & before[other].keys() & before[own].keys():
                if dict(victim.requests)[resource]:
                    assert _shares(cluster, own)[resource] <= max(before[other][resource], 1)
            again = asking(victim.queue, victim.requests, victim.priority)
            assert taken not in cluster.ask_for(again)
        _check_guarantees(cluster, of, gone)


def _check_each_is_needed(cluster: Cluster, claimant: WaitingPod, gone: Iterable[Borrowed]) -> None:
    for left_out in gone:
        with cluster.ledger.assume() as assumed:
            assumed.add(left_out.queue, left_out.requests)
            assert cluster.usage.lack(claimant.queue, claimant.requests) is not None


def _check_guarantees(cluster: Cluster, of: str, gone: Iterable[Borrowed]) -> None:
    """Of the queues that lost something, and did not get it."""
    for name, guaranteed in cluster.usage.guarantees.items():
        below = cluster.tree.subtree(name)
        lost = {
            resource for each in gone if each.queue in below for resource, amount in each.requests if amount
        }
        if of not in below:
            for resource in lost & guaranteed.keys():
                assert cluster.usage.used(name).get(resource, 0) >= guaranteed[resource]


def _shares(cluster: Cluster, name: str) -> dict[str, Amount]:
    """The part of what it deserves that the queue uses, of what it lists."""
    used = cluster.usage.used(name)
    return {
        resource: Fraction(used.get(resource, 0)) / (amount or Fraction(1, 10**6))
        for resource, amount in cluster.usage.deserved.of(name).items()
    }


def branches(cluster: Cluster, of: str, other: str) -> tuple[str, str]:
    """The queues right below the nearest one that is above both."""
    one, two = ([each.name for each in cluster.tree.chain(name).queues] for name in (of, other))
    common = next(name for name in one if name in two)
    return one[max(0, one.index(common) - 1)], two[max(0, two.index(common) - 1)]
