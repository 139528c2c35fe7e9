"""One message of many notices."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from queues.notices.message import MOST, in_order, message, share
from queues.notices.news import Notice
from tests.queues.notices.values import notice


def test_what_stands_comes_first_and_then_what_happened_in_its_order() -> None:
    late, early = notice("late", seconds=9), notice("early", seconds=-9)
    blocked = notice("blocked", stands=True, seconds=99)
    assert in_order([late, blocked, early]) == [blocked, early, late]


def sent(notices: list[Notice]) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(message(share(in_order(notices))))
    return body


def test_a_message_has_the_ids_and_the_text_of_slack() -> None:
    body = sent([notice("1f", text="stopped"), notice("2f", text="[resumed](x) by @alice")])
    assert body["text"] == "stopped\n［resumed］(x) by @\u2060alice"
    assert body["notices"] == [
        {"id": "1f", "queue": "q", "at": "2026-11-28T14:00:00Z", "text": "stopped"},
        {"id": "2f", "queue": "q", "at": "2026-11-28T14:00:00Z", "text": "[resumed](x) by @alice"},
    ]
    assert body["more"] == 0
    assert body["mrkdwn"] is body["unfurl_links"] is body["parseUrls"] is False
    assert body["allowed_mentions"] == {"parse": []}


def test_too_much_says_how_many_more_there_are() -> None:
    body = sent([notice(f"{number:02}", seconds=number) for number in range(MOST + 7)])
    assert body["text"].splitlines()[-1] == 'and 7 more of queue "q": kubectl queue history NAME'
    assert (len(body["text"].splitlines()), len(body["notices"]), body["more"]) == (MOST + 1, MOST, 7)
    assert body["notices"][-1]["id"] == f"{MOST + 6}", "the latest is told"


def test_the_many_notices_of_one_queue_leave_others_their_share() -> None:
    """Before and after it; what stands of the many is told too."""
    many = [notice(f"{number:02}", queue="busy", seconds=number) for number in range(26)]
    stands = notice("blocked", queue="busy", seconds=-9, stands=True)
    others = [notice("first", queue="a", seconds=-1), notice("last", queue="b", seconds=99)]
    shared = share(in_order([*many, stands, *others]))
    assert {"first", "last", "blocked", "25"} <= {each.id for each in shared.shown}
    assert Counter(each.queue for each in shared.folded) == {"busy": 27 - (MOST - 2)}
    assert len(shared.shown) == MOST


def test_of_more_queues_than_a_message_has_notices_the_others_wait() -> None:
    """None is told by its number alone."""
    notices = in_order([notice(f"{number:02}", queue=f"q{number:02}") for number in range(MOST + 3)])
    shared = share(notices)
    assert (shared.told, shared.folded) == (tuple(notices[:MOST]), ())
    assert share(notices[MOST:]).told == tuple(notices[MOST:])
