"""Whom to ask about a queue: annotation `sluice.dev/contact` of a Queue, which its admins write.

It stands in texts for those whose pods wait, where nothing is set as `an admin of queues`.

| the queue that has to be changed        | whom its texts name                                    |
|-----------------------------------------|--------------------------------------------------------|
| has the annotation                      | what it says                                           |
| has none                                | what the nearest ancestor says that has one            |
| its chain is broken, or it is not there | the same as far as the chain goes, else what root says |
| nobody has one                          | `an admin of queues`                                   |

Invariants
- What is shown is one printable line of `CONTACT_LIMIT` characters at most, whatever is stored: admission
  refuses anything else (`contact_fault`), and may have been away.
- It has no semicolon, which separates the parts of our texts (`queues.messages`).
"""

from __future__ import annotations

from queues import well_known
from queues.text import printable, show_character

#: Characters; a warning has room for 119.
CONTACT_LIMIT = 80
#: What stands in a text where nobody is named.
ADMIN = "an admin of queues"
_SEPARATOR = ";"


def contact_text(stored: object) -> str:
    """The contact as it is shown; "" for none. `stored`: the value of the annotation."""
    if not isinstance(stored, str) or not stored:
        return ""
    return printable(stored, limit=CONTACT_LIMIT).replace(_SEPARATOR, ",")


def contact_fault(stored: str) -> str:
    """Why the value of the annotation is refused; "" where it is not."""
    field = f"metadata.annotations[{well_known.CONTACT}]"
    if len(stored) > CONTACT_LIMIT:
        return f"{field}: it has {len(stored)} characters, and may have {CONTACT_LIMIT}; name whom to ask"
    bad = next((each for each in stored if each == _SEPARATOR or not each.isprintable()), "")
    if bad:
        return f"{field}: it contains {show_character(bad)}; write one line of plain text, without semicolons"
    if stored and not stored.strip():
        return f"{field}: it is blank; name whom to ask, or remove it"
    return ""
