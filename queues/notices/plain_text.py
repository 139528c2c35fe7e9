"""A text that is nothing but text wherever it is read: in Slack, Mattermost, Rocket.Chat and Discord.

These read one form, `{"text": ...}`, and four languages. Only Slack's has escapes for all of its own, only
Mattermost's and Discord's have a backslash, and which of them reads is not known. So what begins a construct
in one of them is replaced by a character that looks alike and begins none, or, where the character has to
stay readable, is cut off from what follows by a word joiner, which has no width:

| written                                  | is                                         | becomes         |
|------------------------------------------|--------------------------------------------|-----------------|
| `<https://x|y>`, `<!channel>`, `<@U1>`   | links and mentions: Slack, Mattermost,     | `‹`, `›`        |
|                                          | Discord                                    |                 |
| `&lt;`                                   | `<`, where entities are read               | `＆`             |
| `[x](https://y)`, `![x](y)`, `[x]: y`    | links and pictures: all but Slack          | `［`, `］`        |
| `*x*`, `` `x` ``, `~x~`, `||x||`, `$x$`  | emphasis, code, spoilers, tables, formulas | `∗ ˋ ∼ ∣ ＄`     |
| a backslash                              | an escape                                  | `∖`             |
| an underscore beside a space             | emphasis                                   | `ˍ`             |
| `@alice`, `#general`, `a@example.com`    | mentions, channels, addresses              | a joiner behind |
| `:smile:`, `https://x`, `javascript:x`,  | emoji, links                               | a joiner behind |
| not `14:00:00`                           |                                            |                 |
| a name with a dot, as of a host          | links: Slack, Rocket.Chat, Mattermost      | a joiner behind |
| `+491701234567`                          | telephone numbers: Rocket.Chat             | a joiner behind |
| a line break, and what separates lines   | headings, lists, quotes at its beginning   | a space         |
| controls, characters without a width,    | hidden text, text that reads as another    | nothing         |
| what turns the direction of a text       |                                            |                 |

Sources: docs.slack.dev/messaging/formatting-message-text; developers.mattermost.com (Slack compatibility: no
formatting to turn off, "always converts markdown"); the README of Rocket.Chat's `message-parser`;
support.discord.com (Markdown Text 101) and Discord's reference of message formatting.

Invariants
- No character of `INERT`'s keys is left, no line break, and no character of the categories Cc, Cf, Co and Cs
  but our own joiners.
- A text that was made plain stays as it is if it is made plain again.
- What is a program's to read is not made plain (`queues.notices.message`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from types import MappingProxyType

JOINER = "\N{WORD JOINER}"
#: Characters that begin or end a construct, and what is shown for each.
INERT: Mapping[str, str] = MappingProxyType(
    {
        "<": "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}",
        ">": "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}",
        "&": "\N{FULLWIDTH AMPERSAND}",
        "[": "\N{FULLWIDTH LEFT SQUARE BRACKET}",
        "]": "\N{FULLWIDTH RIGHT SQUARE BRACKET}",
        "*": "\N{ASTERISK OPERATOR}",
        "`": "\N{MODIFIER LETTER GRAVE ACCENT}",
        "~": "\N{TILDE OPERATOR}",
        "|": "\N{DIVIDES}",
        "$": "\N{FULLWIDTH DOLLAR SIGN}",
        "\\": "\N{SET MINUS}",
    }
)
_TABLE = str.maketrans(dict(INERT))
_UNDERLINE = "\N{MODIFIER LETTER LOW MACRON}"
_SPACES = re.compile(" +")
#: Controls, characters without a width, private ones, and halves of pairs.
_UNSEEN = frozenset({"Cc", "Cf", "Co", "Cs"})
_EDGE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
#: One between two labels of a name; not that of 1.5, nor that of a field that we name.
_DOT = r"(?<=\w)(?:(?<!\d)\.(?=\w)|\.(?=[^\W\d]))"
_OWN = r"(?<=\bspec)\.(?:state|stopPolicy|resumeAt|inWindow|windowOverrides|drain)\b"
#: A joiner goes behind each of these.
_CUTS = re.compile(
    r"[@#]"
    r"|:(?=[^\s\d])|(?<!\d):(?=\S)"  # not in 14:00:00
    rf"|(?!{_OWN}){_DOT}"
    r"|\+(?=[\d(])"
)


def plain(text: str) -> str:
    """The text with nothing in it that a chat takes for more than text."""
    one_line = (" " if each.isspace() else each for each in text)
    seen = "".join(each for each in one_line if unicodedata.category(each) not in _UNSEEN)
    inert = _EDGE.sub(_UNDERLINE, _SPACES.sub(" ", seen).translate(_TABLE))
    return _CUTS.sub(lambda match: match[0] + JOINER, inert)
