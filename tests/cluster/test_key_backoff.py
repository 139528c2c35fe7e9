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
def isolation(hands: Hands, counted: list[str]) -> KeyBackoff:
    return KeyBackoff(clock=hands, counted=counted.append)


def fails(exc: Exception | None = None) -> Any:
    def work() -> None:
        raise exc or ValueError("odd")

    return work


def pod(name: str) -> ObjectReference:
    return ObjectReference(api_version="v1", kind="Pod", name=name, uid=name, namespace="team")


def test_what_one_raises_concerns_no_other(isolation: KeyBackoff, counted: list[str]) -> None:
    done: list[str] = []
    assert not isolation.attempt("status", "a", fails())
    assert isolation.attempt("status", "b", lambda: done.append("b"))
    assert isolation.attempt("members", "a", lambda: done.append("a"))
    assert (done, counted) == (["b", "a"], ["status"])


def test_of_several_the_others_are_done(isolation: KeyBackoff) -> None:
    done: list[int] = []

    def work(number: int) -> None:
        if number == 2:
            raise ValueError("odd")
        done.append(number)

    isolation.each("pods", [1, 2, 3], work, key=str)
    isolation.each("pods", [1, 2, 3], work, key=str)
    assert done == [1, 3, 1, 3]


def test_the_back_off_grows_and_ends_with_the_first_success(isolation: KeyBackoff, hands: Hands) -> None:
    waits = []
    for _ in range(9):
        assert not isolation.attempt("status", "a", fails())
        waits.append(isolation.wait("status", "a"))
        hands.now += waits[-1]
    assert waits == [LEAST * 2**number for number in range(6)] + [MOST] * 3
    assert isolation.attempt("status", "a", lambda: None)
    isolation.attempt("status", "a", fails())
    assert isolation.wait("status", "a") == LEAST


def test_nothing_is_attempted_while_it_backs_off(isolation: KeyBackoff, hands: Hands) -> None:
    isolation.attempt("status", "a", fails())
    tries: list[int] = []
    assert not isolation.attempt("status", "a", lambda: tries.append(1))
    hands.now += LEAST
    assert isolation.attempt("status", "a", lambda: tries.append(1))
    assert tries == [1]


def test_an_object_that_has_changed_is_attempted_at_once_and_the_back_off_grows_on(
    isolation: KeyBackoff,
) -> None:
    for version in (1, 2, 3):
        assert isolation.wait("pod", "a", version=version) == 0
        isolation.attempt("pod", "a", fails(), version=version)
        assert isolation.wait("pod", "a", version=version) == LEAST * 2 ** (version - 1)


def test_an_api_server_that_does_not_answer_is_asked_again_soon(isolation: KeyBackoff, hands: Hands) -> None:
    """However long it was gone: nobody waits for a minute once it is back."""
    for _ in range(8):
        isolation.attempt("commands", "a", fails(Unreachable("cut")))
        hands.now += isolation.wait("commands", "a")
    isolation.attempt("commands", "a", fails(Unreachable("cut")))
    assert isolation.wait("commands", "a") == SHORT


def test_a_queue_is_looked_at_again_once_its_back_off_is_over(isolation: KeyBackoff, hands: Hands) -> None:
    isolation.attempt("status", "a", fails(), queue="a")
    isolation.attempt("handle pods", "x", fails())
    assert (isolation.due, isolation.take_due()) == (hands.now + LEAST, set())
    hands.now += LEAST
    assert (isolation.take_due(), isolation.take_due()) == ({"a"}, set())
    assert isolation.due == float("inf")


def test_what_nobody_attempts_any_more_is_forgotten(isolation: KeyBackoff, hands: Hands) -> None:
    """Its object is gone, perhaps."""
    isolation.attempt("status", "a", fails())
    hands.now += LEAST + FORGET + 1
    isolation.take_due()
    isolation.attempt("status", "a", fails())
    assert isolation.wait("status", "a") == LEAST


def test_no_more_is_remembered_than_so_many_keys(isolation: KeyBackoff) -> None:
    logging.getLogger("cluster.key_backoff").disabled = True
    try:
        for number in range(MAX_KEYS + 5):
            isolation.attempt("pod", number, fails(), queue="a")
    finally:
        logging.getLogger("cluster.key_backoff").disabled = False
    waiting = [number for number in range(MAX_KEYS + 5) if isolation.wait("pod", number)]
    assert waiting == list(range(5, MAX_KEYS + 5))


def test_a_failure_is_logged_with_its_step_and_key(
    isolation: KeyBackoff, caplog: pytest.LogCaptureFixture
) -> None:
    isolation.attempt("write status", ("team", "a\nb"), fails(Refused(422, "Invalid", "no")))
    assert "write status of team/a b failed (1 in a row), again in 1 s: 422 Invalid: no" in caplog.text


def test_a_thousand_failures_are_fifty_lines(isolation: KeyBackoff, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(1000):
        isolation.attempt("pod", number, fails())
    assert len(caplog.records) == LOG_BURST


def test_where_there_is_an_object_the_failure_is_kept_for_an_event(isolation: KeyBackoff) -> None:
    isolation.attempt("ungate", "a", fails(), subject=pod("a"))
    isolation.attempt("ungate", "b", fails())
    assert [(one.step, one.subject, one.message) for one in isolation.take_failures()] == [
        ("ungate", pod("a"), "odd")
    ]
    assert isolation.take_failures() == []


def test_what_concerns_more_than_the_key_is_raised(isolation: KeyBackoff) -> None:
    with pytest.raises(Unreachable):
        isolation.attempt("command", "a", fails(Unreachable("cut")), through=(Unreachable,))
    assert isolation.wait("command", "a") == 0
