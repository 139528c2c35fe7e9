"""What one key fails at concerns that key alone, is named, counted, and tried again later and later."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from cluster.exceptions import Refused, Unreachable
from cluster.key_backoff import (
    FORGET,
    LEAST,
    LOG_BURST,
    MAX_KEYS,
    MOST,
    SHORT,
    FailureKind,
    KeyBackoff,
)
from cluster.object_reference import ObjectReference


class Hands:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def counted() -> list[str]:
    return []


@pytest.fixture
def backoff(hands: Hands, counted: list[str]) -> KeyBackoff:
    return KeyBackoff(clock=hands, counted=counted.append)


def fails(exc: Exception | None = None) -> Any:
    def work() -> None:
        raise exc or ValueError("odd")

    return work


def pod(name: str) -> ObjectReference:
    return ObjectReference(api_version="v1", kind="Pod", name=name, uid=name, namespace="team")


def test_what_one_raises_concerns_no_other(backoff: KeyBackoff, counted: list[str]) -> None:
    done: list[str] = []
    assert not backoff.attempt("status", "a", fails())
    assert backoff.attempt("status", "b", lambda: done.append("b"))
    assert backoff.attempt("members", "a", lambda: done.append("a"))
    assert (done, counted) == (["b", "a"], ["status"])


def test_of_several_the_others_are_done(backoff: KeyBackoff) -> None:
    done: list[int] = []

    def work(number: int) -> None:
        if number == 2:
            raise ValueError("odd")
        done.append(number)

    backoff.attempt_each("pods", [1, 2, 3], work, key=str)
    backoff.attempt_each("pods", [1, 2, 3], work, key=str)
    assert done == [1, 3, 1, 3]


def test_the_back_off_grows_and_ends_with_the_first_success(backoff: KeyBackoff, hands: Hands) -> None:
    waits = []
    for _ in range(9):
        assert not backoff.attempt("status", "a", fails())
        waits.append(backoff.seconds_left("status", "a"))
        hands.now += waits[-1]
    assert waits == [LEAST * 2**number for number in range(6)] + [MOST] * 3
    assert backoff.attempt("status", "a", lambda: None)
    backoff.attempt("status", "a", fails())
    assert backoff.seconds_left("status", "a") == LEAST


def test_nothing_is_attempted_while_it_backs_off(backoff: KeyBackoff, hands: Hands) -> None:
    backoff.attempt("status", "a", fails())
    tries: list[int] = []
    assert not backoff.attempt("status", "a", lambda: tries.append(1))
    hands.now += LEAST
    assert backoff.attempt("status", "a", lambda: tries.append(1))
    assert tries == [1]


def test_an_object_that_has_changed_is_attempted_at_once_and_the_back_off_grows_on(
    backoff: KeyBackoff,
) -> None:
    for version in (1, 2, 3):
        assert backoff.seconds_left("pod", "a", version=version) == 0
        backoff.attempt("pod", "a", fails(), version=version)
        assert backoff.seconds_left("pod", "a", version=version) == LEAST * 2 ** (version - 1)


def test_an_api_server_that_does_not_answer_is_asked_again_soon(backoff: KeyBackoff, hands: Hands) -> None:
    """However long it was gone: nobody waits for a minute once it is back."""
    for _ in range(8):
        backoff.attempt("commands", "a", fails(Unreachable("cut")))
        hands.now += backoff.seconds_left("commands", "a")
    backoff.attempt("commands", "a", fails(Unreachable("cut")))
    assert backoff.seconds_left("commands", "a") == SHORT


def test_a_queue_is_looked_at_again_once_its_back_off_is_over(backoff: KeyBackoff, hands: Hands) -> None:
    backoff.attempt("status", "a", fails(), queue="a")
    backoff.attempt("handle pods", "x", fails())
    assert (backoff.next_requeue, backoff.take_due_queues()) == (hands.now + LEAST, set())
    hands.now += LEAST
    assert (backoff.take_due_queues(), backoff.take_due_queues()) == ({"a"}, set())
    assert backoff.next_requeue == float("inf")


def test_what_nobody_attempts_any_more_is_forgotten(backoff: KeyBackoff, hands: Hands) -> None:
    """Its object is gone, perhaps."""
    backoff.attempt("status", "a", fails())
    hands.now += LEAST + FORGET + 1
    backoff.take_due_queues()
    backoff.attempt("status", "a", fails())
    assert backoff.seconds_left("status", "a") == LEAST


def test_no_more_is_remembered_than_so_many_keys(backoff: KeyBackoff) -> None:
    logging.getLogger("cluster.key_backoff").disabled = True
    try:
        for number in range(MAX_KEYS + 5):
            backoff.attempt("pod", number, fails(), queue="a")
    finally:
        logging.getLogger("cluster.key_backoff").disabled = False
    waiting = [number for number in range(MAX_KEYS + 5) if backoff.seconds_left("pod", number)]
    assert waiting == list(range(5, MAX_KEYS + 5))


def test_a_failure_is_logged_with_its_step_and_key(
    backoff: KeyBackoff, caplog: pytest.LogCaptureFixture
) -> None:
    refused = Refused(422, "Invalid", "no")
    backoff.record_failure("status", ("team", "a\nb"), refused, kind=FailureKind.WRITE)
    assert "write status of team/a b failed (1 in a row), again in 1 s: 422 Invalid: no" in caplog.text


def test_a_step_and_a_write_of_the_same_name_fail_each_for_itself(
    backoff: KeyBackoff, counted: list[str]
) -> None:
    """The metric tells them apart."""
    backoff.record_failure("guard", "a", ValueError("odd"), kind=FailureKind.WRITE)
    assert (backoff.seconds_left("guard", "a"), counted) == (0.0, ["write guard"])
    assert backoff.seconds_left("guard", "a", kind=FailureKind.WRITE) == LEAST
    backoff.attempt("guard", "a", fails())
    backoff.forget("guard", "a", kind=FailureKind.WRITE)
    assert (backoff.seconds_left("guard", "a"), counted) == (LEAST, ["write guard", "guard"])


def test_a_thousand_failures_are_fifty_lines(backoff: KeyBackoff, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(1000):
        backoff.attempt("pod", number, fails())
    assert len(caplog.records) == LOG_BURST


def test_where_there_is_an_object_the_failure_is_kept_for_an_event(backoff: KeyBackoff) -> None:
    backoff.attempt("ungate", "a", fails(), subject=pod("a"))
    backoff.attempt("ungate", "b", fails())
    backoff.record_failure("ungate", "c", ValueError("odd"), kind=FailureKind.WRITE, subject=pod("c"))
    assert [(one.kind, one.step, one.subject, one.message) for one in backoff.take_failures()] == [
        (FailureKind.STEP, "ungate", pod("a"), "odd"),
        (FailureKind.WRITE, "ungate", pod("c"), "odd"),
    ]
    assert backoff.take_failures() == []


def test_what_concerns_more_than_the_key_is_raised(backoff: KeyBackoff) -> None:
    with pytest.raises(Unreachable):
        backoff.attempt("command", "a", fails(Unreachable("cut")), through=(Unreachable,))
    assert backoff.seconds_left("command", "a") == 0
