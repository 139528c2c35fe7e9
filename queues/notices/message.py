"""One message: JSON with Slack's `text`, and the same in fields for programs.

    {"text": "queue \\"research\\": ...", "notices": [{"id": "5f...", "queue": "research", ...}], "more": 0}

Promises
- First what stands (blocked drains), then in the order in which it happened; `MOST` of them, and "3 more" for
  the rest, which count as told.
- `text` pings nobody and hides no link, whatever users wrote: Slack's `&`, `<` and `>` are escaped, and
  `@here` and its like are broken up for programs that read Slack's form and mention by a plain `@`.
- A message has a bounded size, whatever there is to tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from queues.apimachinery.timestamps import rfc3339
from queues.notices.news import Notice

#: Notices of a message.
MOST = 20
_MENTION = re.compile(r"@(?=(channel|everyone|here|all|group|team)\b)", re.IGNORECASE)
#: A character without a width, at which no mention goes on.
_BROKEN = "@\N{WORD JOINER}"


def in_order(notices: Iterable[Notice]) -> list[Notice]:
    return sorted(notices, key=lambda each: (not each.stands, each.at, each.queue, each.id))


def message(notices: Sequence[Notice]) -> bytes:
    """`notices`: in their order (`in_order`); one at least."""
    shown, more = notices[:MOST], len(notices[MOST:])
    lines = [safe(each.text) for each in shown]
    if more:
        lines.append(f"and {more} more: kubectl queue history NAME")
    return msgspec.json.encode(
        {
            "text": "\n".join(lines),
            "notices": [
                {"id": each.id, "queue": each.queue, "at": rfc3339(each.at), "text": each.text}
                for each in shown
            ],
            "more": more,
        }
    )


def safe(text: str) -> str:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MENTION.sub(_BROKEN, escaped)
