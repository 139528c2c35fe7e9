"""What the statuses of queues say was given back (`queues.quota.given_back`), as this leader adds to it.

A new leader goes on with what the statuses say. What the former one had not written yet, a second at most, is
lost: metric `sluice_evictions` counts it.

Owner: the controller's thread.
"""

from __future__ import annotations

from cluster.cache.changes import QueueChange
from cluster.cache.store import Store
from queues.quota.given_back import GivenBack, with_one_more


class GivenBackLines:
    def __init__(self, store: Store) -> None:
        self._store = store
        self.forget()

    def forget(self) -> None:
        """A term begins or ends."""
        #: By the UID of each queue of which something was given back, or to which.
        self._lines: dict[str, tuple[GivenBack, ...]] = {}

    def record(self, *, from_: str, to: str, action: str) -> None:
        """One pod was evicted; both queues say so."""
        for queue in {from_, to}:
            obj = self._store.queues.get(queue)
            if obj is None:
                continue
            before, now = self.of(queue), self._store.clock.now()
            self._lines[obj.metadata.uid] = with_one_more(before, from_=from_, to=to, action=action, at=now)
            self._store.notify(queue, QueueChange.STATUS)

    def of(self, queue: str) -> tuple[GivenBack, ...]:
        """The newest line last."""
        obj = self._store.queues.get(queue)
        if obj is None:
            return ()
        known = self._lines.get(obj.metadata.uid)
        if known is not None:
            return known
        quota = obj.status.quota
        return tuple(quota.given_back or ()) if quota is not None else ()
