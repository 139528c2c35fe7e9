"""Condition GuaranteesMet: on the queue whose capability is exceeded, and on no other."""

from __future__ import annotations

from queues.queue import Amounts, Queue
from queues.quota.exceeded_guarantees import exceeded_capabilities, guarantees_condition
from queues.tree import Tree
from tests.support.cases import each_case

CPU = "cpu"


def queue(
    name: str, parent: str = "root", *, cap: Amounts | None = None, guarantee: Amounts | None = None
) -> Queue:
    return Queue(name=name, parent=parent, capability=cap, guarantee=guarantee)


def cpu(amount: int) -> Amounts:
    return ((CPU, amount),)


TEN = queue("lab", cap=(("cpu", 10), ("memory", 100)))
SIX_AND_SIX = [queue("a", "lab", guarantee=cpu(6)), queue("b", "lab", guarantee=cpu(6))]


@each_case(
    ("queues", "expected"),
    [
        ([TEN], {}),
        ([TEN, SIX_AND_SIX[0]], {}),
        ([TEN, *SIX_AND_SIX], {"lab": (CPU,)}),
        ([queue("lab"), *SIX_AND_SIX], {}),
        ([queue("root", "", cap=cpu(11)), queue("lab"), *SIX_AND_SIX], {"root": (CPU,)}),
        ([queue("root", "", cap=cpu(11)), TEN, *SIX_AND_SIX], {"lab": (CPU,)}),
        ([TEN, queue("mid", "lab"), queue("a", "mid", guarantee=cpu(11))], {"lab": (CPU,)}),
        ([TEN, queue("a", "gone", guarantee=cpu(11))], {}),
    ],
    ids=[
        *("no guarantee", "one that fits", "two of six below ten", "no capability", "two levels up"),
        *("the lowest alone", "one that is too large", "a broken chain"),
    ],
)
def test_the_queue_whose_capability_is_exceeded_is_named(
    queues: list[Queue], expected: dict[str, tuple[str, ...]]
) -> None:
    assert exceeded_capabilities(Tree({each.name: each for each in queues})) == expected


def test_who_lends_is_guaranteed_nothing() -> None:
    tree = Tree({each.name: each for each in [TEN, *SIX_AND_SIX]})
    assert exceeded_capabilities(tree, lending={"a"}) == {}


def test_the_condition_has_a_constant_text_and_is_absent_where_nothing_is_exceeded() -> None:
    assert guarantees_condition("lab", ()) is None
    found = guarantees_condition("lab", ("memory", "a.b/d", "a.b/c", "cpu"))
    assert found is not None
    assert (found.type, found.status, found.reason) == ("GuaranteesMet", False, "CapabilityExceeded")
    assert found.message == (
        'the queues below queue "lab" are guaranteed more in all than its capability, '
        "of cpu, memory, a.b/c and 1 more: each gets its part"
    )
