"""When a pod counts as taken by no scheduler, and what is said of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from queues.messages import WARNING_LIMIT
from queues.untaken import (
    MAX_PAUSE_SECONDS,
    PAUSE_SECONDS,
    TAKE_SECONDS,
    is_seen,
    is_untaken,
    pause_seconds,
    unseen_warning,
    untaken_text,
)
from tests.support.cases import each_case

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


@each_case(
    ("waits", "sign", "untaken"),
    [
        (299, None, False),
        (300, None, True),
        (300, ago(400), True),
        (300, ago(300), True),
        (300, ago(200), False),
        (9999, ago(1), False),
    ],
)
def test_a_pod_is_untaken_once_its_time_is_over_and_its_scheduler_gave_no_sign_since(
    waits: float, sign: datetime | None, untaken: bool
) -> None:
    assert is_untaken(since=ago(waits), seconds=TAKE_SECONDS, sign=sign, now=NOW) is untaken


@each_case(("sign", "seen"), [(None, False), (ago(0), True), (ago(86_399), True), (ago(86_400), False)])
def test_a_sign_holds_for_a_day(sign: datetime | None, seen: bool) -> None:
    assert is_seen(sign, now=NOW) is seen


def test_the_pauses_grow_up_to_an_hour() -> None:
    assert [pause_seconds(times) for times in (1, 2, 3, 4, 99)] == [
        PAUSE_SECONDS,
        2 * PAUSE_SECONDS,
        4 * PAUSE_SECONDS,
        MAX_PAUSE_SECONDS,
        MAX_PAUSE_SECONDS,
    ]


@each_case("name", ["volcano", "x" * 253, "a\nb"], ids=lambda name: name[:8])
def test_the_texts_are_short_and_printable(name: str) -> None:
    for text in (unseen_warning(name), untaken_text(name)):
        assert text.isprintable()
        assert len(text) <= WARNING_LIMIT + 30
    assert len(unseen_warning(name)) <= WARNING_LIMIT + 10
