"""Windows and their overrides beside each other: which edits are refused, and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from queues.admission.window_edits import settle_edit, window_refusal
from tests.queues.windows.cases import utc
from tests.support.cases import each_case
from tests.support.rules.cases import plain

NOW = utc(2026, 9, 1)
NIGHTLY = {
    "name": "nightly",
    "schedule": "0 2 * * SUN",
    "duration": "2h",
    "timeZone": "Europe/Berlin",
    "stopPolicy": "Hold",
}
ALWAYS = {**NIGHTLY, "name": "always", "schedule": "0 * * * *"}
SKIP = {"window": "nightly", "start": "2026-10-04T02:00", "skip": True}
LOST = {**SKIP, "window": "other"}
UNCLEAR = {**SKIP, "until": "2026-10-04T09:00"}


def spec(*windows: Any, overrides: Any = ()) -> dict[str, Any]:
    return {"windows": list(windows), "windowOverrides": list(overrides)}


def refusal(after: dict[str, Any], before: dict[str, Any] | None = None) -> str:
    return window_refusal(before or {}, after, now=NOW) or ""


@each_case(
    ("after", "says"),
    [
        (spec(NIGHTLY), ""),
        (spec(NIGHTLY, overrides=[SKIP]), ""),
        ({"windows": None}, ""),
        (
            spec(NIGHTLY, overrides=[LOST]),
            'windowOverrides[0].window of window "other": there is no',
        ),
        (spec(overrides=[SKIP]), "there is no window"),
        (spec(NIGHTLY, overrides=[UNCLEAR]), "it needs skip: true, or from or until, and not both"),
        (
            spec(NIGHTLY, overrides=[{**SKIP, "start": "soon"}]),
            'windowOverrides[0].start of window "nightly"',
        ),
        (spec(NIGHTLY, overrides=[LOST, UNCLEAR]), "; wrong too: spec.windowOverrides[1]"),
        (spec(ALWAYS), 'spec.windows[0].schedule of window "always": it is never off within a year'),
        (spec({**NIGHTLY, "until": "2026-08-01T00:00"}), "it never begins"),
    ],
)
def test_what_is_refused(after: dict[str, Any], says: str) -> None:
    """On one short line, with the field and the window."""
    found = refusal(after)
    assert says in found
    assert bool(found) is bool(says)
    assert len(found) < 400
    assert not found or plain(found)


@pytest.mark.parametrize(
    "stored", [spec(NIGHTLY, overrides=[LOST]), spec(ALWAYS), spec(NIGHTLY, overrides=[UNCLEAR])]
)
def test_what_is_stored_already_stands_in_no_edits_way(stored: dict[str, Any]) -> None:
    other = {**NIGHTLY, "name": "second"}
    assert refusal({**stored, "windows": [*stored["windows"], other]}, stored) == ""
    assert refusal({**stored, "reason": "disks"}, stored) == ""


def test_a_window_that_is_refused_is_not_said_to_be_on() -> None:
    daily = {"name": "long", "schedule": "0 0 * * *", "duration": "30h", "stopPolicy": "Hold"}
    after = spec({**daily, "timeZone": "Europe/Berlin"})
    assert refusal(after)
    assert settle_edit({}, after, queue="q", now=NOW).warnings == ()


def test_a_stored_window_that_changes_is_looked_at_anew() -> None:
    changed = spec({**ALWAYS, "reason": "disks"})
    assert "it is never off" in refusal(changed, spec(ALWAYS))
