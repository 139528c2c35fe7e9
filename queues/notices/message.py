"""One message: JSON with Slack's `text`, and the same in fields for programs.

    {"text": "queue \\"research\\": ...", "notices": [{"id": "5f...", "queue": "research", ...}], "more": 0}

Promises
- A message has at most `MOST` notices, and each queue gets a share of them: many notices of one queue cannot
  delay the notice of another. Queues come in the order of their first notice. Of each queue the message has
  its states and its latest moments; the rest counts as sent ("and 6 more of queue ..."). Queues beyond `MOST`
  wait for the next message.
- States (blocked drains) come first, then moments in the order of time.
- `text` has no mention and no link, for any text of users (`plain_text`). `notices` has the text unchanged.
- The size of a message is bounded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from queues.apimachinery.timestamps import rfc3339
from queues.notices.news import NAME_LIMIT, Notice
from queues.notices.plain_text import plain
from queues.text import quoted

#: Notices of a message.
MOST = 20
#: What turns formatting and previews of links off, in the receivers that know it: Slack, Slack, Slack,
#: Rocket.Chat, Discord. The text does not depend on it.
_UNFORMATTED: Mapping[str, object] = {
    "mrkdwn": False,
    "unfurl_links": False,
    "unfurl_media": False,
    "parseUrls": False,
    "allowed_mentions": {"parse": []},
}


def in_order(notices: Iterable[Notice]) -> list[Notice]:
    return sorted(notices, key=lambda each: (not each.stands, each.at, each.queue, each.id))


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """The notices of one message. `folded`: those that count as sent by their number alone."""

    shown: tuple[Notice, ...]
    folded: tuple[Notice, ...] = ()

    @property
    def told(self) -> tuple[Notice, ...]:
        return (*self.shown, *self.folded)


def share(notices: Sequence[Notice]) -> Share:
    """`notices`: in their order (`in_order`); one at least."""
    by_queue: dict[str, list[Notice]] = {}
    for each in notices:
        by_queue.setdefault(each.queue, []).append(each)
    queues = list(by_queue.values())[:MOST]
    places = _places([len(each) for each in queues])
    ranked = [sorted(each, key=_rank) for each in queues]
    return Share(
        shown=tuple(in_order(each for of, place in zip(ranked, places, strict=True) for each in of[:place])),
        folded=tuple(each for of, place in zip(ranked, places, strict=True) for each in of[place:]),
    )


def _places(numbers: Sequence[int]) -> list[int]:
    """Share `MOST` among queues with these numbers of notices: equally, up to the number of each."""
    places, left = [0] * len(numbers), MOST
    while left and any(place < number for place, number in zip(places, numbers, strict=True)):
        for at, number in enumerate(numbers):
            if places[at] < number and left:
                places[at] += 1
                left -= 1
    return places


def _rank(notice: Notice) -> tuple[bool, float, str]:
    """States first, then the latest."""
    return not notice.stands, -notice.at.timestamp(), notice.id


def message(shared: Share) -> bytes:
    lines = [plain(each.text) for each in shared.shown]
    folded = Counter(each.queue for each in shared.folded)
    for queue, number in folded.items():
        name = plain(quoted(queue, limit=NAME_LIMIT))
        lines.append(f"and {number} more of queue {name}: kubectl queue history NAME")
    return msgspec.json.encode(
        {
            "text": "\n".join(lines),
            **_UNFORMATTED,
            "notices": [
                {"id": each.id, "queue": each.queue, "at": rfc3339(each.at), "text": each.text}
                for each in shared.shown
            ],
            "more": len(shared.folded),
        }
    )
