"""What an edit of a queue loses of a stop, ends or lets run, beyond what its author asks for by name.

Webhooks warn whoever makes the edit, whatever their client; the plugin asks before (`asks`). The rules go by
what the stop is now: one whose `resumeAt` has passed is over, and ending it ends nothing.

An edit goes from one stop to another: `state`, `stopPolicy`, its end (`resumeAt`) and its reason. Each row
that holds says its sentence, in this order:

| effect         | the edit                                   | says                            | asks |
|----------------|--------------------------------------------|---------------------------------|------|
| `REOPENS`      | ends a close, another's or by another stop | who closed it, and why; that it | [1]  |
|                |                                            | takes work, and when it is Open |      |
| `ENDS`         | ends another's drain, or all that stops it | who made it, when, why, until   | no   |
| `KEEPS_OPEN`   | makes a queue both Closed and held         | that it is not Closed before    | [3]  |
| `RELEASES`     | makes a suspended, unheld queue Closed     | that what waits in it will run, | no   |
|                |                                            | at once or after another stop   |      |
| `LOSES_END`    | leaves a stop without its end              | the end that it had             | [2]  |
| `LOSES_REASON` | leaves a stop without its reason           | the reason that it had          | no   |
| `SOONER`       | ends another's stop sooner                 | both times, and who made it     | no   |

[1] where a suspension takes the place of the close: whoever opens a queue means it.
[2] where it is made Closed; else the plugin's own flags say what becomes of the end.
[3] where it is made Closed: whoever holds a Closing queue means it.

Invariants
- A function of values; the same edit twice says nothing the second time.
- An edit that leaves the stop as it is, or makes it stricter and keeps its end and its reason, says nothing.
- Each text is one line of at most `LENGTH` characters: the API server cuts warnings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from enum import StrEnum

import msgspec

from queues.apimachinery.timestamps import rfc3339
from queues.queue import Queue
from queues.states import Desired, StopPolicy
from queues.status.changes import HistoryLine
from queues.text import printable, quoted, truncated

#: Characters of a text; the API server cuts a warning after 256.
LENGTH = 250
#: Characters of a name and of a reason in a text.
_NAME, _REASON = 63, 60


class StopEditEffect(StrEnum):
    """The rows of the table above."""

    REOPENS = "Reopens"
    ENDS = "Ends"
    KEEPS_OPEN = "KeepsOpen"
    RELEASES = "Releases"
    LOSES_END = "LosesEnd"
    LOSES_REASON = "LosesReason"
    SOONER = "Sooner"


class Consequence(msgspec.Struct, frozen=True, kw_only=True):
    """`asks`: whether a client should ask its user before."""

    effect: StopEditEffect
    text: str
    asks: bool = False


class _Stop(msgspec.Struct, frozen=True, kw_only=True):
    """What stops a queue at a time. `end`: None where nothing ends it."""

    desired: Desired
    policy: StopPolicy
    end: datetime | None
    reason: str

    @property
    def schedules(self) -> bool:
        return self.desired is not Desired.SUSPENDED and self.policy is StopPolicy.NONE

    @property
    def any(self) -> bool:
        return self.desired is not Desired.OPEN or self.policy is not StopPolicy.NONE


def consequences(
    before: Queue,
    after: Queue,
    *,
    now: datetime,
    by: str = "",
    history: Sequence[HistoryLine] = (),
    waiting: int = 0,
    other_stop: str = "",
) -> tuple[Consequence, ...]:
    """What follows from an edit of a queue's own spec.

    `after`: the queue as it will be stored. `by`: who makes the edit. `history`: the changes before it.
    `waiting`: the pods that the queue's own stop alone keeps waiting; 0 also where that is not known.
    `other_stop`: the end of what else stops the queue then (`tree_edits.end_of_other_stop`); "" if nothing.
    """
    was, will = _stop_at(before, now), _stop_at(after, now)
    if was == will:
        return ()
    name = quoted(after.name, limit=_NAME)
    edit = _Edit(was, will, name=name, by=by, history=history, waiting=waiting, other_stop=other_stop)
    return tuple(edit.consequences())


def _stop_at(queue: Queue, now: datetime) -> _Stop:
    desired, policy = queue.own_desired_at(now), queue.own_stop_policy_at(now)
    stopped = desired is Desired.SUSPENDED or policy is not StopPolicy.NONE
    over = queue.is_suspended_or_held and not stopped
    return _Stop(
        desired=desired,
        policy=policy,
        end=queue.resume_time if stopped and not queue.is_resumed(now) else None,
        reason="" if over else queue.reason,
    )


class _Edit:
    def __init__(
        self,
        was: _Stop,
        will: _Stop,
        *,
        name: str,
        by: str,
        history: Sequence[HistoryLine],
        waiting: int,
        other_stop: str,
    ) -> None:
        self._was, self._will, self._name = was, will, name
        self._by, self._history, self._waiting = by, history, waiting
        self._other_stop = other_stop

    def consequences(self) -> Iterator[Consequence]:
        was, will = self._was, self._will
        if was.desired is Desired.CLOSED and will.desired is not Desired.CLOSED:
            yield from self._reopens()
        yield from self._ends()
        if self._releases or (_is_closed_and_held(will) and not _is_closed_and_held(was)):
            yield from self._closes()
        if was.any and will.any:
            yield from self._lost()

    def _reopens(self) -> Iterator[Consequence]:
        made, stops = self._made("state", Desired.CLOSED), self._will.desired is Desired.SUSPENDED
        if not stops and not self._of_another(made):
            return
        closed = _who(made, what="closed", reason=self._was.reason)
        then = "it takes new work again"
        if stops and self._will.end is not None:
            then += f", and is Open at {rfc3339(self._will.end)}"
        yield _said(
            StopEditEffect.REOPENS, f"this undoes the close of queue {self._name}{closed}: {then}", asks=stops
        )

    def _ends(self) -> Iterator[Consequence]:
        """A suspension that a hold takes the place of keeps nothing from waiting, and ends nothing."""
        was, will = self._was, self._will
        drained = was.policy is StopPolicy.HOLD_AND_DRAIN and will.policy is not StopPolicy.HOLD_AND_DRAIN
        resumed = not was.schedules and will.schedules and not self._releases
        if not drained and not resumed:
            return
        what, made = self._made_stop()
        if not self._of_another(made):
            return
        until = f"; it was until {rfc3339(was.end)}" if was.end is not None else ""
        done = _who(made, what="made", reason=was.reason)
        yield _said(StopEditEffect.ENDS, f"this ends the {what} of queue {self._name}{done}{until}")

    @property
    def _releases(self) -> bool:
        was, will = self._was, self._will
        closes = was.desired is Desired.SUSPENDED and will.desired is Desired.CLOSED
        return closes and was.policy is StopPolicy.NONE and will.policy is StopPolicy.NONE

    def _closes(self) -> Iterator[Consequence]:
        if self._will.policy is not StopPolicy.NONE:
            yield _said(
                StopEditEffect.KEEPS_OPEN,
                f"queue {self._name} stays held (stopPolicy {self._will.policy}): what waits in it waits "
                "until it is resumed, and it is not Closed before; stopPolicy None lets it run out",
                asks=self._was.desired is not Desired.CLOSED,
            )
        else:
            then = f" once {self._other_stop}" if self._other_stop else ""
            pods = f"the {self._waiting} pods that wait" if self._waiting > 1 else "what waits"
            yield _said(
                StopEditEffect.RELEASES,
                f"queue {self._name} was Suspended, and Closed schedules: {pods} in it will run{then}; "
                "spec.stopPolicy Hold keeps that waiting",
            )

    def _lost(self) -> Iterator[Consequence]:
        """What of the stop's end and reason is not there any more, while something stops the queue."""
        was, will = self._was, self._will
        if was.end is not None and will.end is None and not will.schedules:
            yield _said(
                StopEditEffect.LOSES_END,
                f"queue {self._name} is stopped without an end now, it was until {rfc3339(was.end)}; "
                "to keep that, set spec.resumeAt again",
                asks=will.desired is Desired.CLOSED,
            )
        if was.reason and not will.reason:
            yield _said(
                StopEditEffect.LOSES_REASON,
                f'the reason "{printable(was.reason, limit=_REASON)}" of queue {self._name} went with the '
                "stop before; to keep it, set spec.reason again",
            )
        sooner = was.end is not None and will.end is not None and will.end < was.end
        _, made = self._made_stop()
        if sooner and will.end is not None and was.end is not None and self._of_another(made):
            done = _who(made, what="made", reason="")
            yield _said(
                StopEditEffect.SOONER,
                f"the stop of queue {self._name}{done} ends at {rfc3339(will.end)}, it was until "
                f"{rfc3339(was.end)}",
            )

    def _made_stop(self) -> tuple[str, HistoryLine | None]:
        """The strictest part of the stop by its name, and the change that made it."""
        policy = self._was.policy
        if policy is StopPolicy.NONE:
            return "suspension", self._made("state", Desired.SUSPENDED)
        what = "drain" if policy is StopPolicy.HOLD_AND_DRAIN else "hold"
        return what, self._made("stopPolicy", policy)

    def _made(self, field: str, value: str) -> HistoryLine | None:
        """The change that made this part of the stop; None where the history does not have it."""
        lines = (line for line in reversed(self._history) if line.field == field)
        latest = next(lines, None)
        return latest if latest is not None and latest.to == value else None

    def _of_another(self, made: HistoryLine | None) -> bool:
        return made is None or made.by != self._by


def _is_closed_and_held(stop: _Stop) -> bool:
    return stop.desired is Desired.CLOSED and stop.policy is not StopPolicy.NONE


def _who(made: HistoryLine | None, *, what: str, reason: str) -> str:
    """Who did it and why, as it follows a name; empty where neither is known."""
    who = f", {what} by {printable(made.by, limit=_NAME)} at {made.at}" if made is not None else ""
    return who + (f' ("{printable(reason, limit=_REASON)}")' if reason else "")


def _said(effect: StopEditEffect, text: str, *, asks: bool = False) -> Consequence:
    return Consequence(effect=effect, text=truncated(text, limit=LENGTH), asks=asks)
