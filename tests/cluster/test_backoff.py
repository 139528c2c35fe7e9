"""The one exponential back-off, and the figures of each place that uses it."""

from __future__ import annotations

import math

import pytest

from certs import renewal
from cluster import write_queue
from cluster.backoff import MAX_DOUBLINGS, Backoff
from cluster.cache import watch_progress
from cluster.exceptions import NotReady, Overloaded, Unreachable
from cluster.informers import reflector
from cluster.key_backoff import _seconds_after
from controller.drain import limits, request_states
from controller.notices import sender
from controller.pods import label_backoff, ungating, unlabelled_lists
from controller.quota import voided
from controller.status import closing, status_conflicts
from controller.stops import bind_guard
from tests.support.cases import each_case


@each_case(
    ("backoff", "expected"),
    [
        (Backoff(1.0, 5.0), [0.0, 1.0, 2.0, 4.0, 5.0, 5.0]),
        (Backoff(0.2, 0.2), [0.0, 0.2, 0.2, 0.2, 0.2, 0.2]),
        (Backoff(3.0, 2.0), [0.0, 2.0, 2.0, 2.0, 2.0, 2.0]),
        (Backoff(1.0), [0.0, 1.0, 2.0, 4.0, 8.0, 16.0]),
        (Backoff(0.0, 5.0), [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
    ],
)
def test_the_wait_doubles_with_each_failure_up_to_the_longest(
    backoff: Backoff, expected: list[float]
) -> None:
    """After none, one, two, ... failures in a row."""
    assert [backoff.seconds(failures) for failures in range(6)] == expected
    assert backoff.seconds(-1) == 0.0


def test_any_number_of_failures_has_a_finite_wait() -> None:
    """A key may fail for years."""
    assert Backoff(1.0, 60.0).seconds(10**9) == 60.0
    assert Backoff(1.0).seconds(10**9) == 2.0**MAX_DOUBLINGS < math.inf


@each_case(
    ("backoff", "first", "longest"),
    [
        (watch_progress.MARKER_BACKOFF, 1.0, 30.0),
        (write_queue.UNREACHABLE_BACKOFF, 0.2, 5.0),
        (limits.PAUSE, 1.0, 30.0),
        (request_states.RETRY, 1.0, 60.0),
        (request_states.BUDGET_RETRY, 1.0, 4.0),
        (closing.REPEAT, 0.5, 30.0),
        (status_conflicts.REWRITE, 0.5, 30.0),
        (ungating.RETRY, 1.0, math.inf),
        (bind_guard.RETRY, 0.1, 5.0),
        (reflector.BACKOFF, 0.4, 10.0),
        (reflector.UNANSWERED_BACKOFF, 0.4, 2.0),
        (reflector.WAKE_BACKOFF, 0.4, 10.0),
        (renewal.BACKOFF, 1.0, 30.0),
        (sender.BACKOFF, 2.0, 300.0),
        (voided.BACKOFF, 0.5, 30.0),
        (label_backoff.RESTORE, 0.5, 30.0),
        (unlabelled_lists.RETRY, 0.1, 5.0),
    ],
)
def test_each_place_waits_as_long_as_it_says(backoff: Backoff, first: float, longest: float) -> None:
    assert (backoff.seconds(1), backoff.seconds(1_000)) == (first, min(longest, first * 2.0**MAX_DOUBLINGS))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("ours"), [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0]),
        (Unreachable("no answer"), [1.0, 2.0, 4.0, 4.0, 4.0, 4.0, 4.0]),
        (NotReady("no list yet"), [1.0, 2.0, 4.0, 4.0, 4.0, 4.0, 4.0]),
        (Overloaded(429, "", "busy", retry_after=1.0), [1.0, 2.0, 4.0, 4.0, 4.0, 4.0, 4.0]),
    ],
)
def test_a_key_waits_less_long_where_the_api_server_did_not_answer(
    error: Exception, expected: list[float]
) -> None:
    assert [_seconds_after(times, error) for times in range(1, 8)] == expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Unreachable("no answer"), [0.2, 0.4, 0.8, 1.6, 3.2, 5.0]),
        (Overloaded(503, "", "busy", retry_after=0.5), [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]),
        (Overloaded(429, "", "busy", retry_after=0.5), [0.5] * 6),
        (Overloaded(429, "", "busy", retry_after=30.0), [5.0] * 6),
    ],
)
def test_a_write_is_tried_again_after_what_the_server_asks_for(
    error: Overloaded | Unreachable, expected: list[float]
) -> None:
    """With 429 it says itself how long; with other answers the wait grows."""
    assert [write_queue._pause(error, tries=tries) for tries in range(6)] == expected
