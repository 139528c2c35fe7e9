"""What becomes of messages that are not taken."""

from __future__ import annotations

from queues.notices.refusals import MOST_REFUSALS, NoticeRefusals, may_pass
from tests.queues.notices.values import notice
from tests.support.cases import each_case

ONE, TWO, THREE, FOUR = (notice(f"{number}") for number in range(1, 5))


@each_case(
    ("status", "wanted"),
    [(status, True) for status in (408, 425, 429, 500, 502, 503, 504, 599)]
    + [(status, False) for status in (100, 301, 307, 400, 401, 403, 404, 405, 409, 410, 413, 422, 499)],
)
def test_which_answers_may_pass(status: int, wanted: bool) -> None:
    assert may_pass(status) is wanted


def test_several_that_are_refused_go_one_by_one_until_one_is_taken() -> None:
    refusals = NoticeRefusals()
    assert refusals.next_message([ONE, TWO, THREE]) == [ONE, TWO, THREE]
    assert not refusals.record_refused([ONE, TWO, THREE])
    assert refusals.next_message([ONE, TWO, THREE]) == [ONE]
    assert not refusals.record_refused([ONE])
    assert refusals.next_message([ONE, TWO, THREE]) == [TWO]
    refusals.record_taken()
    assert refusals.next_message([ONE, THREE, FOUR]) == [THREE, FOUR]


def test_what_was_refused_goes_after_all_that_was_refused_less_often() -> None:
    refusals = NoticeRefusals()
    sent = []
    for _ in range(4):
        [alone] = refusals.next_message([ONE, TWO])[:1]
        sent.append(alone)
        refusals.record_refused([alone])
    assert sent == [ONE, TWO, ONE, TWO]
    assert refusals.next_message([ONE, TWO, THREE]) == [THREE]


def test_one_that_is_refused_alone_is_given_up_at_last() -> None:
    refusals = NoticeRefusals()
    given_up = [refusals.record_refused(refusals.next_message([ONE])) for _ in range(MOST_REFUSALS)]
    assert given_up == [*[False] * (MOST_REFUSALS - 1), True]


def test_what_is_new_no_more_is_forgotten() -> None:
    refusals = NoticeRefusals()
    for _ in range(MOST_REFUSALS - 1):
        refusals.record_refused(refusals.next_message([ONE]))
    refusals.next_message([TWO])
    assert not refusals.record_refused(refusals.next_message([ONE]))
