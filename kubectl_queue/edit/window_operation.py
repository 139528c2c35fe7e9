"""windows start, skip and extend: one occurrence of a window begins now, is left out, or lasts longer.

Promises
- The patch holds `spec.windowOverrides` alone (`queues.windows.overriding`), on condition of the version that
  was read.
- A dry run by the client shows `spec.inWindow` as the server would write it with this edit
  (`queues.windows.in_window`), so that what it stops or lets go is said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kubectl_queue.edit.operation import Decision
from kubectl_queue.errors import QueueError
from kubectl_queue.objects.fields import Object, name_of, spec_of
from kubectl_queue.objects.queues import QueueObjects
from kubectl_queue.views.acknowledgement import AcknowledgementWait, WaitCondition, acknowledgement_wait
from queues.states import Action
from queues.status.conditions import ACTIVE
from queues.text import quoted
from queues.verdict import Verdict
from queues.windows.entries import read_entries, to_wire
from queues.windows.in_window import in_window
from queues.windows.overriding import ChosenOccurrence, Overridden, choose
from queues.windows.reader import read_windows
from queues.windows.refusals import WindowError

#: What is done to `spec.windowOverrides`, for the occurrence that was chosen.
OccurrenceEdit = Callable[[Sequence[Any], ChosenOccurrence], Overridden]


@dataclass(frozen=True, kw_only=True)
class WindowOperation:
    """`at`: when the occurrence begins by its schedule; None: the one that is on, else the next one. `now`:
    for all attempts. `begins`: the occurrence is on from now. `simulates`: the patch is not sent, so what the
    server adds is added here.
    """

    window: str
    change: OccurrenceEdit
    now: datetime
    at: datetime | None = None
    begins: bool = False
    simulates: bool = False

    def refusal(self, name: str) -> str | None:
        return None

    def decide(self, *, item: Object, queues: QueueObjects) -> Decision:
        spec = spec_of(item)
        raw = spec.get("windowOverrides")
        try:
            chosen = choose(read_windows(spec), self.window, now=self.now, at=self.at)
            done = self.change(raw if isinstance(raw, list) else [], chosen)
        except WindowError as exc:
            raise QueueError(f"queue {quoted(name_of(item))}: {exc}") from exc
        if done.overrides is None:
            return Decision(outcome=done.outcome)
        patch: dict[str, Any] = {"windowOverrides": done.overrides or None}
        if self.simulates:
            patch["inWindow"] = self._in_window({**spec, **patch}) or None
        return Decision(outcome=done.outcome, patch=patch)

    def _in_window(self, spec: Mapping[str, Any]) -> list[dict[str, str]]:
        written = read_entries(spec.get("inWindow"))
        return to_wire(in_window(read_windows(spec), written, self.now).entries)

    def warnings(self, name: str, *, before: QueueObjects, after: QueueObjects) -> list[str]:
        """What the edit does to pods the server says."""
        return []

    def wait_condition(self, verdict: Verdict) -> WaitCondition:
        """The beginning is the server's to write: by its clock it may be some milliseconds away."""
        return AcknowledgementWait(condition=ACTIVE, wanted=False) if self.begins else window_wait(verdict)


def window_wait(verdict: Verdict) -> WaitCondition:
    """The acknowledgement of what the windows leave of the queue, be it stopped or not."""
    return acknowledgement_wait(Action.OPEN if verdict.schedules else Action.SUSPEND, verdict)
