"""Withdraws what was promised while the API server does not ask us, and promises it again once all pods that
were made meanwhile are known.

| `Registrations` says                      | stops and quotas             | releases          |
|-------------------------------------------|------------------------------|-------------------|
| nothing is lacking                        | as ever                      | as ever           |
| something is lacking                      | acknowledgements and         | none              |
|                                           | `QuotaEnforced` are          |                   |
|                                           | withdrawn, none is given     |                   |
| nothing any more: each API server knows   | the same                     | none              |
| that after `SETTLE_SECONDS`, then all     |                              |                   |
| pods without the label are listed         |                              |                   |
| they are listed, and have the label       | by evidence from then on;    | by what is used   |
|                                           | guards are probed anew       | then              |
| a kind has not been read yet (`unread`)   | none is given                | none              |
| it was read, and cannot be read any more  | as if something were lacking | none              |
| it may not be read (`unchecked`)          | as ever: roles may be        | as ever           |
|                                           | upgraded after the image     |                   |

Invariants
- `count` grows with each lapse, and `version` with each change of the bind guard's entry too: a stop that was
  acknowledged at another version, and a quota at another count, is withdrawn. After a change of the guard's
  entry alone a stop is acknowledged again as soon as probes show that binds meet it.
- A replica that does not lead follows the lapses too. If it takes the lead within `HANDED_ON_SECONDS` after
  the end of one, it goes through the list above: the former leader may not have come to its end. Later it
  does not: that leader has.
- A label that cannot be written holds up no other queue: its own queue waits for it by its evidence.

Owner: the controller's thread.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping

from cluster.cache.changes import StoreChange
from controller.context import ControllerContext, queue_subject
from controller.parts import Part
from controller.pods.member_labels import MemberLabels
from controller.stops.bind_guard import BindGuards
from queues.queue import ROOT
from queues.text import join_limited, truncated

#: An API server learns of a webhook that is back within this time.
SETTLE_SECONDS = 2.0
#: How often it is looked at whether the pods are listed.
LIST_SECONDS = 0.1
HANDED_ON_SECONDS = 120.0
#: How many faults a text names, and its characters.
SHOWN, TEXT_LIMIT = 3, 400
REMEDY = "apply manifests/webhooks and manifests/policies again"

log = logging.getLogger(__name__)


class RegistrationLapses(Part):
    """Owner: the controller's thread."""

    name = "registrations"

    def __init__(
        self,
        context: ControllerContext,
        *,
        member_labels: MemberLabels,
        guards: BindGuards,
        changed: Callable[[], object],
    ) -> None:
        """`changed`: called when promises end, or may be made again."""
        self._context = context
        self._registrations = context.store.registrations
        self._clock = context.store.clock
        self._member_labels = member_labels
        self._guards = guards
        self._changed = changed
        #: Lapses that were noticed.
        self.count = 0
        #: Why nothing may be promised; "" if it may.
        self.obstacle = ""
        #: The lapses of the state that was seen last; whether all kinds were known then, and since when.
        self._seen = 0
        #: Changes of the guard's entry that were noticed.
        self._guard_changes = 0
        self._was_read = False
        self._read_since = -math.inf
        #: Whether what was made in a lapse may be unknown.
        self._is_outstanding = False
        self._logged = ""

    @property
    def due(self) -> float:
        """When the next step is to be taken though nothing changes, in monotonic seconds."""
        if not self._is_outstanding or self._registrations.state.gaps:
            return math.inf
        at = self._settled_at
        return at if self._clock.monotonic() < at else self._clock.monotonic() + LIST_SECONDS

    @property
    def version(self) -> tuple[int, int]:
        """What a stop is acknowledged at."""
        return self.count, self._guard_changes

    @property
    def is_lapsed(self) -> bool:
        """Whether what was promised before is withdrawn. It is not while the kinds are read for the first
        time.
        """
        return self._is_outstanding and bool(self.obstacle)

    @property
    def _settled_at(self) -> float:
        return max(self._registrations.state.whole_since, self._read_since) + SETTLE_SECONDS

    def step(self) -> None:
        """Follow what the watches have shown."""
        self._follow(leads=True)

    def stand_by(self, changes: Mapping[str, Iterable[StoreChange]]) -> None:
        self._follow(leads=False)

    def _follow(self, *, leads: bool) -> None:
        state, before = self._registrations.state, self.obstacle
        is_lost = self._was_read and bool(state.unread)
        if not state.unread and not self._was_read:
            self._read_since = self._clock.monotonic()
        self._was_read = not state.unread
        if state.lapses != self._seen or is_lost:
            self._seen = state.lapses
            self.count += 1
            self._is_outstanding = True
            self._guards.forget()
        if state.guard_changes != self._guard_changes:
            self._guard_changes = state.guard_changes
            self._guards.forget(counts_from=self._clock.monotonic() + SETTLE_SECONDS)
            self._changed()
        if not leads and self._is_outstanding and not (state.gaps or state.unread):
            since = max(state.whole_since, self._read_since)
            self._is_outstanding = self._clock.monotonic() < since + HANDED_ON_SECONDS
        self._log(state.lines)
        self._context.metrics.registration_faults.set(len(state.faults) + len(state.unread))
        self.obstacle = self._obstacle(leads=leads)
        if self.obstacle != before:
            if leads:
                self._report(state.gaps, is_over=not self.obstacle)
            self._changed()

    def _obstacle(self, *, leads: bool) -> str:
        state = self._registrations.state
        if state.gaps:
            names = join_limited(state.gaps, limit=SHOWN, joined="; ")
            return truncated(f"the API server does not ask about all pods: {names}", limit=TEXT_LIMIT)
        if state.unread:
            return f"{', '.join(state.unread)} are not known"
        if not self._is_outstanding:
            return ""
        if leads and self._are_all_listed():
            self._is_outstanding = False
            self._guards.forget()  # a guard that was on before may not have been called meanwhile
            return ""
        return "pods that were made while the API server did not ask about them are looked for"

    def _are_all_listed(self) -> bool:
        at = self._settled_at
        return self._clock.monotonic() >= at and self._member_labels.are_all_known(since=at)

    def _log(self, lines: list[str]) -> None:
        text = "; ".join(lines)
        if text == self._logged:
            return
        self._logged = text
        if text:
            log.error("the API server does not ask about all that it should: %s; %s", text, REMEDY)
        else:
            log.warning("the API server asks about all that it should")

    def _report(self, gaps: tuple[str, ...], *, is_over: bool) -> None:
        """An event on root, of a lapse and of its end."""
        root = self._context.store.queues.get(ROOT)
        if root is None or not (gaps or is_over):
            return
        message = (
            "stops and quotas are promised again: all pods that the API server did not ask about are known"
            if is_over
            else f"no stop and no quota is promised: {self.obstacle}; {REMEDY}"
        )
        self._context.recorder.record(
            queue_subject(root),
            reason="AskedAgain" if is_over else "NotAsked",
            message=message,
            warning=not is_over,
            repeat_after=0.0,
        )
