"""What counts in quotas: each amount once, with its reason, whatever is changed, left out or assumed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.apimachinery.pod_requests import Requests
from queues.apimachinery.quantities import Amount
from queues.queue import Queue
from queues.quota.devices import ClaimCount
from queues.quota.ledger import ALL_PODS, AmountReason, Ledger
from queues.quota.pod_classes import WaitingPod
from queues.quota.usage import TURN
from queues.tree import Tree
from tests.support.quota.kept_index import NOW, a_pod, a_queue

LAB = a_queue("lab", cpu=9), a_queue("team", "lab"), a_queue("other", "lab")
MOVED = a_queue("lab", cpu=9), a_queue("team", "root"), a_queue("other", "lab")
ONE: Requests = (("cpu", 1),)


def tree(*queues: Any) -> Tree:
    return Tree({each.name: each for each in queues})


def ledger() -> Ledger:
    return Ledger(tree(*LAB))


def cpu(of: Ledger, queue: str = "lab") -> Amount:
    return of.usage.used(queue).get("cpu", 0)


def test_amounts_count_in_their_queue_and_in_those_above_by_reason() -> None:
    found = ledger()
    found.set_all("team", AmountReason.USED, {ALL_PODS: [("cpu", 2), ("pods", 0)]})
    found.set_one("other", AmountReason.KEPT, "gang", ONE)
    assert (cpu(found, "team"), cpu(found), cpu(found, "root")) == (2, 3, 3)
    assert found.amounts("team") == {AmountReason.USED: {"cpu": 2}}
    below = {reason: found.amounts_below("lab", reason, tree=tree(*LAB)) for reason in AmountReason}
    assert {reason: amounts for reason, amounts in below.items() if amounts} == {
        AmountReason.USED: {"cpu": 2},
        AmountReason.KEPT: {"cpu": 1},
    }
    assert found.amounts_below("lab", AmountReason.USED, tree=tree(*MOVED)) == {}


def test_a_release_that_does_not_begin_after_all_leaves_room_for_those_that_were_blocked_by_it() -> None:
    found, pod = ledger(), a_pod("p", "team", cpu=1)
    found.begin(pod)
    assert (cpu(found), found.usage.unplaced) == (1, 1)
    found.take_back(pod)
    assert (cpu(found), found.usage.unplaced, found.amounts("team")) == (0, 0, {})
    assert set(found.take_falls()) == {
        (queue, name) for queue in ("team", "lab", "root") for name in ("cpu", "pods")
    }


def test_what_begins_twice_counts_twice_and_is_taken_back_once() -> None:
    """The minimum of a gang, and later more of it that its PodGroup asks for."""
    found, pod = ledger(), a_pod("gang", "team", cpu=1)
    found.begin(pod)
    found.begin(pod)
    assert cpu(found) == 2
    found.take_back(pod)
    assert cpu(found) == 1


def test_a_turn_is_no_amount() -> None:
    found = ledger()
    found.set_one("team", AmountReason.SET_ASIDE, "class", (*ONE, (TURN, 1)))
    with found.assume() as assumed:
        assumed.add("team", ((TURN, 1),))
        assert TURN not in found.usage.used("team")
    assert found.amounts("team") == {AmountReason.SET_ASIDE: {"cpu": 1}}


def test_what_one_reason_has_more_and_another_less_has_not_fallen() -> None:
    found = ledger()
    found.set_one("team", AmountReason.KEPT, "gang", [("cpu", 3)])
    with found.together():
        found.set_one("team", AmountReason.KEPT, "gang", ONE)
        found.set_all("team", AmountReason.USED, {ALL_PODS: [("cpu", 2)]})
    assert found.take_falls() == []
    found.set_one("team", AmountReason.KEPT, "gang", ())
    assert [each for each in found.take_falls() if each[0] == "lab"] == [("lab", "cpu")]
    assert found.take_falls() == []


def test_one_more_may_go_once_no_pod_is_without_a_node() -> None:
    found = ledger()
    found.set_unplaced(2, resources=["cpu"])
    assert found.take_falls() == []
    found.set_unplaced(0, resources=["cpu"])
    assert found.take_falls() == [("root", "cpu")]


def test_of_claims_that_pods_share_what_they_count_falls_too() -> None:
    gpu, claim = "deviceclass/gpu", "resourceclaim/ns/a"
    counts = {claim: ClaimCount(((gpu, 2),))}
    found = Ledger(
        tree(Queue(name="lab", parent="root", capability=((gpu, 4),))), claims=lambda name: counts[name]
    )
    found.set_one("lab", AmountReason.USED, ALL_PODS, [(claim, 1)])
    assert found.usage.used("lab") == {gpu: 2}
    counts[claim] = ClaimCount(((gpu, 1),))
    found.recount([claim])
    assert found.usage.used("lab") == {gpu: 1}
    assert set(found.take_falls()) == {("lab", gpu), ("root", gpu)}
    found.set_one("lab", AmountReason.USED, ALL_PODS, ())
    assert ("lab", gpu) in set(found.take_falls())


def test_what_is_left_out_counts_again_as_it_is_then() -> None:
    found = ledger()
    found.set_one("team", AmountReason.SET_ASIDE, "a", [("cpu", 3)])
    found.set_one("team", AmountReason.USED, ALL_PODS, ONE)
    with found.without(AmountReason.SET_ASIDE):
        assert cpu(found) == 1
        found.set_one("team", AmountReason.SET_ASIDE, "a", [("cpu", 2)])
        found.begin(a_pod("p", "team", cpu=1))
        assert cpu(found) == 2
    assert cpu(found) == 4


@pytest.mark.parametrize("change", ["entries", "tree", "reason", "unplaced"])
def test_what_is_assumed_ends_with_a_change_of_what_counts(change: str) -> None:
    found = ledger()
    outer, inner = found.assume(), found.assume()
    outer.add("team", [("cpu", 3)])
    inner.add("team", [("cpu", -1)])
    assert cpu(found) == 2
    changes = {
        "entries": lambda: found.set_one("other", AmountReason.USED, ALL_PODS, ONE),
        "tree": lambda: found.begin_anew(tree(*MOVED)),
        "reason": lambda: found.without(AmountReason.KEPT).__enter__(),
        "unplaced": lambda: found.set_unplaced(1, resources=()),
    }
    changes[change]()
    assert cpu(found) == (1 if change == "entries" else 0)
    assert not (outer.is_current or inner.is_current)
    with pytest.raises(RuntimeError, match="has changed"):
        outer.add("team", ONE)
    outer.undo()
    assert cpu(found) == (1 if change == "entries" else 0)


class Model:
    """The same entries, counted from nothing each time."""

    def __init__(self) -> None:
        self.ledger, self.queues = ledger(), LAB
        self.tree = tree(*LAB)
        self.entries: dict[tuple[str, AmountReason, str], Requests] = {}
        self.assumed: list[tuple[str, Requests]] = []
        self.without: set[AmountReason] = set()
        self._before: Mapping[tuple[str, str], Amount] = {}

    def used(self) -> dict[str, dict[str, Amount]]:
        found: dict[str, dict[str, Amount]] = {}
        counted = ((queue, each) for (queue, reason, _), each in self.entries.items() if self._is_in(reason))
        for queue, requests in (*counted, *self.assumed):
            for above in tree(*self.queues).counting_chain(queue):
                of_queue = found.setdefault(above, {})
                for name, amount in requests:
                    of_queue[name] = of_queue.get(name, 0) + amount
        return {queue: without_zeros(amounts) for queue, amounts in found.items() if without_zeros(amounts)}

    def _is_in(self, reason: AmountReason) -> bool:
        return reason not in self.without

    def below(self) -> dict[tuple[str, AmountReason], dict[str, Amount]]:
        """By each queue and reason: what counts in it and below."""
        found: dict[tuple[str, AmountReason], dict[str, Amount]] = {}
        for (queue, reason, _), requests in self.entries.items():
            for above in self.tree.counting_chain(queue):
                of_queue = found.setdefault((above, reason), {})
                for name, amount in requests:
                    of_queue[name] = of_queue.get(name, 0) + amount
        return {key: without_zeros(amounts) for key, amounts in found.items() if without_zeros(amounts)}

    def apply(self, what: str, queue: str, reason: AmountReason, owner: str, amounts: Requests) -> None:
        key, version = (queue, reason, owner), self.ledger.version
        if what == "set":
            self.ledger.set_one(queue, reason, owner, amounts)
            self.entries[key] = amounts
        elif what == "set all":
            self.ledger.set_all(queue, reason, {owner: amounts})
            self.entries = {each: kept for each, kept in self.entries.items() if each[:2] != (queue, reason)}
            self.entries[key] = amounts
        elif what == "begin":
            requests = tuple(sorted((*amounts, ("pods", 1))))
            self.ledger.begin(WaitingPod(owner, queue, requests, 0, NOW))
            known = self.entries.get((queue, AmountReason.RELEASING, owner), ())
            self.entries[queue, AmountReason.RELEASING, owner] = (*known, *amounts, ("pods", 1))
        elif what == "move":
            self.queues = MOVED if self.queues is LAB else LAB
            self.tree = tree(*self.queues)
            self.ledger.begin_anew(self.tree)
        else:
            assumed = self.ledger.assume()
            assumed.add(queue, amounts)
            self.assumed.append((queue, amounts))
        if self.ledger.version != version:
            self.assumed.clear()


def without_zeros(amounts: Mapping[str, Amount]) -> dict[str, Amount]:
    return {name: amount for name, amount in amounts.items() if amount}


def used_of(found: Ledger) -> dict[str, dict[str, Amount]]:
    names: Iterable[str] = ("root", "lab", "team", "other")
    amounts = {name: without_zeros(found.usage.used(name)) for name in names}
    return {name: each for name, each in amounts.items() if each}


QUANTITIES = st.lists(
    st.tuples(st.sampled_from(("cpu", "gpu")), st.integers(0, 3)),
    max_size=2,
    unique_by=(lambda each: each[0]),
).map(tuple)
STEPS = st.tuples(
    st.sampled_from(("set", "set", "set all", "begin", "assume", "move")),
    st.sampled_from(("lab", "team", "other")),
    st.sampled_from(tuple(AmountReason)),
    st.sampled_from(("a", "b")),
    QUANTITIES,
)


@given(st.lists(st.lists(STEPS, max_size=4), max_size=6), st.sampled_from(tuple(AmountReason)))
def test_what_queues_use_is_the_sum_of_all_entries_whatever_happened(
    blocks: list[list[tuple[str, str, AmountReason, str, Requests]]], left_out: AmountReason
) -> None:
    """Each second block leaves a reason out; each third one is one change."""
    model = Model()
    for number, block in enumerate(blocks):
        model.ledger.take_falls()
        before = own(model)
        if number % 2:
            model.assumed.clear()
            with model.ledger.without(left_out):
                model.without = {left_out}
                for step in block:
                    model.apply(*step)
                    assert used_of(model.ledger) == model.used()
                    assert below_of(model) == model.below()
                model.assumed.clear()
            model.without = set()
        elif number % 3:
            with model.ledger.together():
                for step in block:
                    model.apply(*step)
            fallen = {key for key, amount in before.items() if own(model).get(key, 0) < amount}
            chain = tree(*model.queues).counting_chain
            assert set(model.ledger.take_falls()) == {
                (above, name) for queue, name in fallen for above in chain(queue)
            }
        else:
            for step in block:
                model.apply(*step)
        assert used_of(model.ledger) == model.used()
        assert below_of(model) == model.below()


def below_of(model: Model) -> dict[tuple[str, AmountReason], dict[str, Amount]]:
    found = {
        (queue, reason): without_zeros(model.ledger.amounts_below(queue, reason, tree=model.tree))
        for queue in ("root", "lab", "team", "other")
        for reason in AmountReason
    }
    return {key: amounts for key, amounts in found.items() if amounts}


def own(model: Model) -> dict[tuple[str, str], Amount]:
    """By queue and resource, without what is below."""
    found: dict[tuple[str, str], Amount] = {}
    for (queue, _, _), requests in model.entries.items():
        for name, amount in requests:
            found[queue, name] = found.get((queue, name), 0) + amount
    return found
