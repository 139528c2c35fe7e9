"""Room that is set aside: nobody else takes it, and it allows nothing that there is no room for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from queues.queue import Queue
from queues.quota.reservations import Reservations
from queues.quota.usage import quota_requests
from tests.support.quota.kept_index import Kept, a_pod, a_queue

ONE = quota_requests((("cpu", 1),))
TREE = Queue(name="root", parent=None), a_queue("lab", cpu=4), Queue(name="own", parent="lab")
OTHER = Queue(name="other", parent="lab")


def go_on() -> bool:
    return True


class Lab:
    """A queue of four CPUs, with two below it."""

    def __init__(self) -> None:
        self.kept = Kept(*TREE, OTHER)
        self.reservations = Reservations(self.kept.ledger)
        self._made = 0

    def wait(self, of: str, number: int, **fields: int) -> list[str]:
        names = []
        for _ in range(number):
            self._made += 1
            names.append(f"{of}-{self._made}")
            self.kept.index.put(a_pod(names[-1], of, cpu=1, age=-self._made, **fields))
        return names

    def set_aside(self, of: str, number: int) -> None:
        self.reservations.replace({(of, ONE): number})
        self.kept.tell_falls()

    def released(self, *, most: int = 100) -> list[str]:
        """By a pass, after those for which room was set aside."""
        pods = self.reservations.release(self.kept.index, most=most, goes_on=go_on)
        self.kept.running |= {pod.uid: pod for pod in pods}
        return [pod.uid for pod in pods] + self.kept.released()

    def used(self) -> int:
        return int(self.kept.usage.used("lab").get("cpu", 0))


def test_nobody_else_takes_it_while_others_still_end() -> None:
    lab = Lab()
    borrowed = lab.wait("other", 4)
    assert lab.released() == borrowed
    wanted, more = lab.wait("own", 2), lab.wait("other", 2)
    lab.set_aside("own", 2)
    lab.kept.end(borrowed[0])
    assert lab.released() == wanted[:1]
    assert lab.reservations.numbers == {("own", ONE): 1}
    lab.kept.end(borrowed[1])
    assert lab.released() == wanted[1:]
    assert not lab.reservations
    lab.kept.end(borrowed[2])
    assert lab.released() == more[:1]


def test_what_is_given_up_is_for_all() -> None:
    lab = Lab()
    borrowed = lab.wait("other", 4)
    lab.released()
    lab.wait("own", 1)
    more = lab.wait("other", 1)
    lab.set_aside("own", 2)
    lab.set_aside("own", 1)
    assert lab.used() == 5
    lab.set_aside("own", 0)
    lab.kept.index.remove("own-5")
    lab.kept.end(borrowed[0])
    assert lab.released() == more


def test_it_goes_to_the_first_of_a_class() -> None:
    lab = Lab()
    borrowed = lab.wait("other", 4)
    lab.released()
    lab.wait("own", 1)
    lab.set_aside("own", 1)
    urgent = lab.wait("own", 1, priority=9)
    lab.kept.end(borrowed[0])
    assert lab.released() == urgent


def test_no_more_are_released_at_once_than_asked_for() -> None:
    lab = Lab()
    lab.wait("own", 3)
    lab.set_aside("own", 3)
    first = lab.reservations.release(lab.kept.index, most=2, goes_on=go_on)
    assert [pod.uid for pod in first] == ["own-1", "own-2"]
    assert lab.reservations.numbers == {("own", ONE): 1}
    assert lab.used() == 3, "two that were released, and one for which room is set aside"


def test_it_counts_in_a_use_that_is_counted_anew() -> None:
    lab = Lab()
    lab.set_aside("own", 3)
    lab.kept.change(*TREE, OTHER)
    assert lab.used() == 3


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("wait"), st.sampled_from(("own", "other")), st.integers(1, 3)),
            st.tuples(st.just("aside"), st.sampled_from(("own", "other")), st.integers(0, 4)),
            st.tuples(st.just("end"), st.just(""), st.integers(0, 7)),
            st.tuples(st.just("pass"), st.just(""), st.integers(0, 2)),
        ),
        max_size=25,
    )
)
def test_whatever_is_set_aside_the_capability_holds(steps: list[tuple[str, str, int]]) -> None:
    lab = Lab()
    for what, queue, number in steps:
        if what == "wait":
            lab.wait(queue, number)
        elif what == "aside":
            lab.set_aside(queue, number)
        elif what == "end" and lab.kept.running:
            lab.kept.end(sorted(lab.kept.running)[number % len(lab.kept.running)])
        elif what == "pass":
            lab.released(most=number)
        assert len(lab.kept.running) <= 4
        aside = sum(lab.reservations.numbers.values())
        assert lab.used() == len(lab.kept.running) + aside
