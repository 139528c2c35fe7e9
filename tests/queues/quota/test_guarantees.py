"""What is set aside for queues, and what others may use beside it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from queues.apimachinery.pod_requests import Requests
from queues.apimachinery.quantities import Amount
from queues.queue import Queue, StoppedGuarantee
from queues.quota.guarantees import effective_guarantees
from queues.quota.lack import Lack, LackKind
from queues.quota.rules import Rules
from queues.quota.usage import Usage
from queues.snapshot import QueueSnapshot
from queues.tree import Tree
from tests.support.cases import each_case

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def queue(name: str, parent: str = "root", *, cap: int | None = None, guarantee: int | None = None) -> Queue:
    return Queue(
        name=name,
        parent=parent,
        capability=None if cap is None else (("cpu", cap),),
        guarantee=None if guarantee is None else (("cpu", guarantee),),
    )


def tree(*queues: Queue) -> Tree:
    return Tree({each.name: each for each in queues})


def cpu(amount: Amount) -> Requests:
    return (("cpu", amount),)


def granted(*queues: Queue, lending: tuple[str, ...] = ()) -> dict[str, Amount]:
    guarantees = effective_guarantees(tree(*queues), lending=lending)
    return {name: amounts["cpu"] for name, amounts in guarantees.items()}


@each_case(
    ("queues", "expected"),
    [
        ([queue("a"), queue("b", cap=4)], {}),
        ([queue("a", guarantee=3)], {"a": 3, "root": 3}),
        ([queue("a", cap=2, guarantee=3)], {"a": 2, "root": 2}),
        ([queue("lab"), queue("a", "lab", guarantee=3)], {"a": 3, "lab": 3, "root": 3}),
        ([queue("lab", guarantee=5), queue("a", "lab", guarantee=3)], {"a": 3, "lab": 5, "root": 5}),
        ([queue("lab", guarantee=1), queue("a", "lab", guarantee=3)], {"a": 3, "lab": 3, "root": 3}),
        (
            [queue("lab", cap=10), queue("a", "lab", guarantee=6), queue("b", "lab", guarantee=6)],
            {"a": 5, "b": 5, "lab": 10, "root": 10},
        ),
        (
            [queue("lab", cap=1), queue("a", "lab", guarantee=1), queue("b", "lab", guarantee=2)],
            {"a": Fraction(1, 3), "b": Fraction(2, 3), "lab": 1, "root": 1},
        ),
        ([queue("lab", cap=0), queue("a", "lab", guarantee=1)], {}),
        ([queue("a", "gone", guarantee=1)], {}),
    ],
)
def test_what_each_queue_is_guaranteed(queues: list[Queue], expected: dict[str, Amount]) -> None:
    assert granted(*queues) == expected


def test_who_lends_is_guaranteed_nothing_with_all_below_it() -> None:
    queues = [queue("lab", guarantee=4), queue("a", "lab", guarantee=3), queue("b", guarantee=2)]
    assert granted(*queues, lending=("lab",)) == {"b": 2, "root": 2}
    assert granted(*queues, lending=("a",)) == {"lab": 4, "b": 2, "root": 6}


def test_others_leave_what_is_guaranteed_and_its_owner_takes_it() -> None:
    usage = Usage(tree(queue("lab", cap=10), queue("a", "lab", guarantee=4), queue("b", "lab")))
    usage.add("b", cpu(6))
    assert usage.lack("b", cpu(1)) == Lack("lab", "cpu", 1, kind=LackKind.GUARANTEES)
    assert usage.lack("a", cpu(4)) is None
    assert usage.lack("a", cpu(5)) == Lack("lab", "cpu", 1)
    assert usage.guaranteed_below("lab") == usage.guaranteed_below("root") == {"cpu": 4}
    usage.add("a", cpu(4))
    assert usage.guaranteed_below("lab") == usage.guaranteed_below("a") == {}
    assert usage.lack("b", cpu(1)) == Lack("lab", "cpu", 1)
    usage.add("b", cpu(-1))
    assert usage.lack("b", cpu(1)) is None


def test_two_guarantees_of_six_below_a_capability_of_ten_freeze_nobody() -> None:
    """Volcano's scheduler ends here."""
    usage = Usage(
        tree(
            queue("lab", cap=10),
            queue("a", "lab", guarantee=6),
            queue("b", "lab", guarantee=6),
            queue("c", "lab"),
        )
    )
    assert usage.lack("c", cpu(1)) == Lack("lab", "cpu", 1, kind=LackKind.GUARANTEES)
    for name in ("a", "b"):
        assert usage.lack(name, cpu(5)) is None
        usage.add(name, cpu(5))
    assert usage.lack("a", cpu(1)) == Lack("lab", "cpu", 1)


def test_what_a_queue_above_is_guaranteed_is_for_all_below_it() -> None:
    usage = Usage(
        tree(
            queue("root", "", cap=10),
            queue("lab", guarantee=6),
            queue("a", "lab", guarantee=2),
            queue("b", "lab"),
        )
    )
    usage.add("root", cpu(4))
    assert usage.lack("b", cpu(4)) is None, "of the six of lab, two are set aside for a"
    usage.add("b", cpu(4))
    assert usage.lack("b", cpu(1)) == Lack("root", "cpu", 1, kind=LackKind.GUARANTEES)
    assert usage.lack("a", cpu(2)) is None


def test_without_a_capability_above_nothing_is_set_aside() -> None:
    usage = Usage(tree(queue("a", guarantee=4), queue("b", cap=8)))
    assert usage.lack("b", cpu(8)) is None


def test_a_stopped_queue_keeps_its_guarantee_unless_it_lends() -> None:
    queues = tree(queue("lab", cap=4), queue("a", "lab", guarantee=4), queue("b", "lab"))
    assert Usage(queues).lack("b", cpu(1)) is not None
    assert Usage(queues, rules=Rules(lending=frozenset({"a"}))).lack("b", cpu(4)) is None
    assert Queue(name="a").stopped_guarantee is StoppedGuarantee.KEEP
    assert QueueSnapshot(queues, now=NOW).decision("a").has_quota


NAMES = ("a", "b", "c", "d", "e")
AMOUNTS = st.none() | st.integers(0, 6)


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    queues = []
    for number, name in enumerate(NAMES):
        parent = draw(st.sampled_from(("root", *NAMES[:number])))
        queues.append(queue(name, parent, cap=draw(AMOUNTS), guarantee=draw(AMOUNTS)))
    return tree(*queues, queue("root", "", cap=draw(AMOUNTS)))


@given(trees(), st.lists(st.tuples(st.sampled_from(NAMES), st.integers(-3, 4)), max_size=20))
def test_no_release_takes_what_others_are_guaranteed_and_each_is_given_its_own(
    queues: Tree, steps: list[tuple[str, int]]
) -> None:
    usage = Usage(queues)
    own = dict.fromkeys(queues, 0)
    for name, drawn in steps:
        amount = max(-own[name], drawn)
        if amount > 0 and usage.lack(name, cpu(amount)) is not None:
            continue
        usage.add(name, cpu(amount))
        own[name] += amount
        taken = {each: _taken(queues, each, usage.guarantees, own) for each in queues}
        for each, spec in queues.queues.items():
            assert taken[each] <= dict(spec.capability or ()).get("cpu", taken[each])
    for name in NAMES:  # alone, or with its siblings: what is guaranteed is there
        guaranteed = usage.guarantees.get(name, {}).get("cpu", 0)
        left = guaranteed - usage.used(name).get("cpu", 0)
        if left > 0 and not any(usage.guarantees.get(child) for child in queues.children(name)):
            lack = usage.lack(name, cpu(left))
            assert lack is None, (lack, usage.guarantees)


def _taken(
    queues: Tree, name: str, guarantees: Mapping[str, Mapping[str, Amount]], own: dict[str, int]
) -> Amount:
    """By the definition of R."""
    below = sum(_taken(queues, child, guarantees, own) for child in queues.children(name))
    return max(guarantees.get(name, {}).get("cpu", 0), own[name] + below)
