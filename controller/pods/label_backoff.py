"""When a label that was changed again may be written again: a war over labels does not run hot.

Invariants
- At most `MAX_RESTORED` pods are remembered. Where more are at war, those that take turns do not push each
  other out.
- Nothing is forgotten when a term of leadership ends: it counts what others do, so it is no table of requests
  (`controller.requests`).
- Owner: the controller's thread.
"""

from __future__ import annotations

from cluster.backoff import Backoff

#: After a label that was changed again soon.
RESTORE = Backoff(0.5, 30.0)
MAX_RESTORED = 1000


class LabelBackoff:
    """Owner: `UnlabelledMembers`."""

    def __init__(self) -> None:
        #: UIDs restored lately: how often, and until when they are left alone.
        self._restored: dict[str, tuple[int, float]] = {}

    def next_at(self, uid: str, now: float) -> float:
        """When the label of the pod may be written: at once, but later and later if it is changed each time.

        Each call counts as a write. Times are monotonic seconds.
        """
        times, until = self._restored.get(uid, (0, 0.0))
        times = times + 1 if now < until + RESTORE.seconds(times + 1) else 1
        if uid not in self._restored and len(self._restored) >= MAX_RESTORED:
            self._restored = {
                each: (count, at)
                for each, (count, at) in self._restored.items()
                if now < at + RESTORE.seconds(count + 1)
            }
            if len(self._restored) >= MAX_RESTORED:
                self._restored.popitem()
        retry_at = now if times == 1 else now + RESTORE.seconds(times - 1)
        self._restored[uid] = (times, retry_at)
        return retry_at
