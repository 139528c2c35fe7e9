"""Admissions: what we let in and have not seen arrive, and for how long that may still come."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.inflight.admissions import PendingAdmissions
from tests.support.rules.cases import MODEST

#: As long as the API server gives a request.
WHILE = 60.0
REQUESTS, QUEUES = ["r-1", "r-2", "r-3"], ["research", "labs"]


class Timed:
    """Admissions with a clock that a test moves, and all that happened."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.admissions = PendingAdmissions(clock=lambda: self.now)
        self.story: list[tuple[float, str, str, str]] = []

    def tell(self, what: str, request: str, queue: str, seconds: float) -> None:
        self.story.append((self.now, what, request, queue))
        match what:
            case "time":
                self.now += seconds
            case "record":
                self.admissions.record(request, queue)
            case "assume":
                self.admissions.assume_any()
            case _:
                getattr(self.admissions, what)(request)

    def expected(self) -> dict[str, str]:
        """The open ones, by going through the whole story: what was last said of each, and when."""
        last = {request: (at, what, queue) for at, what, request, queue in self.story if what in TOLD}
        return {
            request: queue
            for request, (at, what, queue) in last.items()
            if what == "record" and self.now - at < WHILE
        }

    def assumed(self) -> bool:
        return any(what == "assume" and self.now - at < WHILE for at, what, _, _ in self.story)


TOLD = {"record", "withdraw", "close"}
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["record", "record", "withdraw", "close", "assume", "time", "time"]),
        st.sampled_from(REQUESTS),
        st.sampled_from(QUEUES),
        st.sampled_from([0.0, 0.5, 20.0, 59.5, 60.0, 61.0]),
    ),
    max_size=40,
)


@MODEST
@given(steps=STEPS)
def test_open_is_exactly_what_came_in_time_and_has_neither_arrived_nor_been_refused(
    steps: list[tuple[str, str, str, float]],
) -> None:
    timed = Timed()
    for step in steps:
        timed.tell(*step)
        opened, held = timed.expected(), timed.admissions
        assert held.queues() == frozenset(opened.values())
        assert held.any_assumed is timed.assumed()
        for queues in ([], ["research"], ["labs"], QUEUES, ["absent"]):
            assert held.any_open_in(queues) is (timed.assumed() or any(q in queues for q in opened.values()))
        for request in REQUESTS:
            for queue in QUEUES:
                assert held.is_open(request, queue) is (opened.get(request) == queue)


@pytest.mark.parametrize("what", ["withdraw", "close"])
@pytest.mark.parametrize("request_uid", ["", "never-heard-of"])
def test_what_nobody_admitted_changes_nothing(what: str, request_uid: str) -> None:
    """Most objects come without a name of ours, or with one of another replica."""
    timed = Timed()
    timed.tell("record", "r-1", "research", 0)
    timed.tell(what, request_uid, "", 0)
    assert timed.admissions.any_open_in(["research"])


def test_somebody_who_is_gone_may_have_admitted_to_any_queue_for_a_while() -> None:
    timed = Timed()
    timed.tell("assume", "", "", 0)
    assert timed.admissions.any_open_in(["whatever"])
    assert timed.admissions.queues() == frozenset()
    timed.now += WHILE
    assert not timed.admissions.any_open_in(["whatever"])


def kept(admissions: PendingAdmissions) -> int:
    held: dict[str, Any] = vars(admissions)["_open"]
    return len(held)


def test_what_never_comes_is_forgotten_however_much_it_is() -> None:
    """A webhook behind ours that refuses all, for a day."""
    timed = Timed()
    for number in range(2000):
        timed.tell("record", f"r-{number}", "research", 0)
        timed.now += 1
        assert kept(timed.admissions) <= WHILE + 1


def test_a_burst_that_never_comes_is_forgotten_with_the_calls_after_it() -> None:
    timed = Timed()
    for number in range(1000):
        timed.tell("record", f"r-{number}", "research", 0)
    timed.now += WHILE
    for number in range(400):
        timed.tell("record", f"later-{number}", "labs", 0)
    assert kept(timed.admissions) == 400
