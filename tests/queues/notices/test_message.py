"""One message of many notices."""

from __future__ import annotations

import json

import pytest

from queues.notices.message import MOST, in_order, message, safe
from tests.queues.notices.values import notice


def test_what_stands_comes_first_and_then_what_happened_in_its_order() -> None:
    late, early = notice("late", seconds=9), notice("early", seconds=-9)
    blocked = notice("blocked", stands=True, seconds=99)
    assert in_order([late, blocked, early]) == [blocked, early, late]


def test_a_message_has_the_ids_and_the_text_of_slack() -> None:
    assert json.loads(message([notice("1f", text="stopped"), notice("2f", text="resumed")])) == {
        "text": "stopped\nresumed",
        "notices": [
            {"id": "1f", "queue": "q", "at": "2026-11-28T14:00:00Z", "text": "stopped"},
            {"id": "2f", "queue": "q", "at": "2026-11-28T14:00:00Z", "text": "resumed"},
        ],
        "more": 0,
    }


def test_too_much_says_how_many_more_there_are() -> None:
    body = json.loads(message([notice(f"{number}") for number in range(MOST + 7)]))
    assert body["text"].splitlines()[-1] == "and 7 more: kubectl queue history NAME"
    assert (len(body["text"].splitlines()), len(body["notices"]), body["more"]) == (MOST + 1, MOST, 7)


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("<!channel> & <https://evil|here>", "&lt;!channel&gt; &amp; &lt;https://evil|here&gt;"),
        ("@here @Channel @everyone", "@\u2060here @\u2060Channel @\u2060everyone"),
        ("alice@example.com", "alice@example.com"),
    ],
)
def test_no_text_of_a_user_pings_or_links(text: str, sent: str) -> None:
    assert safe(text) == sent
