"""What the sender does with messages that the receiver refuses.

| the receiver                                     | what follows                                           |
|--------------------------------------------------|--------------------------------------------------------|
| answers 2xx                                      | the notices count as sent                              |
| does not answer, or answers 408, 425, 429 or 5xx | this may pass: the same message again, without a limit |
| gives any other answer, to several notices       | one of them may be the cause: they are sent one by     |
|                                                  | one, until one is accepted                             |
| gives any other answer, to one notice            | it is sent again after all that were refused less      |
|                                                  | often; the `MOST_REFUSALS`-th refusal gives it up      |

Promises
- A notice that is refused for its content delays others by one try: they do not wait until it is given up.
- A notice is given up only after `MOST_REFUSALS` refusals of it alone, and never while the receiver is away.
  At a wrong URL each notice takes that many tries.
- Each notice that is given up is returned once, so that the sender reports it.
"""

from __future__ import annotations

from collections.abc import Sequence

from queues.notices.news import Notice

#: A quarter of an hour at least, with pauses of 2 s, twice as long each time and 5 minutes at most.
MOST_REFUSALS = 10
#: It took too long, is too early, was too much; and each fault of the receiver's own, from 500 on.
_MAY_PASS = frozenset({408, 425, 429})
_FAULTS = 500


def may_pass(status: int) -> bool:
    """Whether the same message may be taken later; `status`: of an answer that is no 2xx."""
    return status in _MAY_PASS or status >= _FAULTS


class NoticeRefusals:
    """Which notices were refused, and how often. A new leader counts anew. For one thread."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._one_by_one = False

    def next_message(self, notices: Sequence[Notice]) -> Sequence[Notice]:
        """Those of them that go in the next message. `notices`: all that are new, in order; one at least."""
        self._counts = {each.id: self._counts[each.id] for each in notices if each.id in self._counts}
        untried = [each for each in notices if each.id not in self._counts]
        if untried:
            return untried[:1] if self._one_by_one else untried
        return [min(notices, key=lambda each: self._counts[each.id])]

    def record_taken(self) -> None:
        self._one_by_one = False

    def record_refused(self, sent: Sequence[Notice]) -> bool:
        """Returns whether the notice, if it was sent alone, is given up."""
        if len(sent) > 1:
            self._one_by_one = True
            return False
        id_ = sent[0].id
        self._counts[id_] = self._counts.get(id_, 0) + 1
        return self._counts[id_] >= MOST_REFUSALS
