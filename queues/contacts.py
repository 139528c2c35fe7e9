"""Whom to ask about a queue: annotation `sluice.dev/contact` of a Queue, which its admins write.

Texts for users whose pods wait name it; without a contact they say `an admin of queues`.

| the queue that has to be changed        | the contact in its texts                               |
|-----------------------------------------|--------------------------------------------------------|
| has the annotation                      | its value                                              |
| has none                                | that of the nearest ancestor with one                  |
| does not exist, or its chain is broken  | the same as far as the chain goes, else that of root   |
| no queue of these has one               | `an admin of queues`                                   |

Invariants
- Texts show one printable line of at most `CONTACT_LIMIT` characters, for any stored value: admission refuses
  other values (`contact_fault`), but may have been away.
- It has no semicolon, which separates the parts of our texts (`queues.messages`).
"""

from __future__ import annotations

from queues import well_known
from queues.text import printable, show_character

#: Characters; a warning has room for 119.
CONTACT_LIMIT = 80
#: The text without a contact.
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
