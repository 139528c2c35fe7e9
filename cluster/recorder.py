"""Records events (`v1`) on the objects concerned, as `kubectl describe` shows them.

Invariants
- Recording never waits and never fails: an event is passed to the write queue, which sends it after all
  else, or dropped.
- The same event (object, reason, message) is written once in `REPEAT_SECONDS`. An event that is new each
  time, such as a queue's transition, is not limited.
- The pods of one queue together get at most `BURST` events at once and `PER_SECOND` after that, so that ten
  thousand parked pods make no event storm. Dropped events are counted.
- All limited events together are at most `ALL_BURST` at once and `ALL_PER_SECOND` after that, so that a stop
  of hundreds of queues makes none either. The first events of each limit (`FIRST`) do not count: what others
  cause keeps no queue silent.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from cluster.api.client import Client
from cluster.metrics import Metrics
from cluster.object_reference import ObjectReference
from cluster.token_bucket import TokenBucket
from cluster.write_queue import WriteQueue
from cluster.write_ranks import WriteRank
from queues.apimachinery.timestamps import rfc3339

REPEAT_SECONDS = 300.0
MAX_EVENTS_REMEMBERED = 10_000
BURST = 50.0
PER_SECOND = 5.0
ALL_BURST, ALL_PER_SECOND = 1000.0, 50.0
#: Each limit has so many events that the bound of all does not count; it has them again after `BURST` /
#: `PER_SECOND` seconds.
FIRST = 3.0
#: Bytes; the API server accepts 1,024.
MESSAGE_LIMIT = 1000


class EventRecorder:
    """Records events; for one thread: the controller has one, and the sender of notices."""

    def __init__(
        self,
        *,
        client: Client,
        writers: WriteQueue,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._writers = writers
        self._metrics = metrics
        self._clock = clock
        self._seen: OrderedDict[tuple[str, str, str], float] = OrderedDict()
        self._buckets: dict[str, _Limit] = {}
        self._all = TokenBucket(ALL_PER_SECOND, burst=ALL_BURST, now=clock())

    def record(
        self,
        subject: ObjectReference,
        *,
        reason: str,
        message: str,
        warning: bool = False,
        rate_limit_key: str = "",
        repeat_after: float = REPEAT_SECONDS,
    ) -> None:
        """Record an event. `rate_limit_key`: events of one key share a rate limit; empty: none.

        `repeat_after`: seconds in which the same event is not repeated; 0 for an event that is new each time.
        """
        now = self._clock()
        key = (subject.uid, reason, message)
        if self._is_repeated(key, now, repeat_after) or not self._within_rate_limit(rate_limit_key, now):
            self._metrics.events.labels("dropped").inc()
            return
        self._remember(key, now)
        body = _body(subject, reason=reason, message=message, warning=warning)
        path = f"/api/v1/namespaces/{body['metadata']['namespace']}/events"
        self._writers.submit(
            ("event", body["metadata"]["name"]), lambda: self._client.create(path, body), rank=WriteRank.EVENT
        )
        self._metrics.events.labels("written").inc()

    def _is_repeated(self, key: tuple[str, str, str], now: float, repeat_after: float) -> bool:
        last = self._seen.get(key)
        return last is not None and now - last < repeat_after

    def _remember(self, key: tuple[str, str, str], now: float) -> None:
        self._seen[key] = now
        self._seen.move_to_end(key)
        while len(self._seen) > MAX_EVENTS_REMEMBERED:
            self._seen.popitem(last=False)

    def _within_rate_limit(self, rate_limit_key: str, now: float) -> bool:
        if not rate_limit_key:
            return True
        if len(self._buckets) > MAX_EVENTS_REMEMBERED:
            self._buckets.clear()
        limit = self._buckets.get(rate_limit_key)
        if limit is None:
            limit = self._buckets[rate_limit_key] = _Limit(now)
        if not limit.bucket.ready(now) or not (limit.first.try_take(now) or self._all.try_take(now)):
            return False
        limit.bucket.take(1)
        return True


class _Limit:
    """What events of one key may still be written; `first`: of these, whatever others have taken."""

    def __init__(self, now: float) -> None:
        self.bucket = TokenBucket(PER_SECOND, burst=BURST, now=now)
        self.first = TokenBucket(FIRST * PER_SECOND / BURST, burst=FIRST, now=now)


def _body(subject: ObjectReference, *, reason: str, message: str, warning: bool) -> dict[str, Any]:
    moment = rfc3339(datetime.now(UTC))
    involved = {
        "apiVersion": subject.api_version,
        "kind": subject.kind,
        "name": subject.name,
        "uid": subject.uid,
        "namespace": subject.namespace,
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{subject.name[:200].rstrip('-.')}.{secrets.token_hex(8)}",
            "namespace": subject.namespace or "default",
        },
        "involvedObject": {key: value for key, value in involved.items() if value},
        "reason": reason,
        "message": message.encode()[:MESSAGE_LIMIT].decode(errors="ignore"),
        "type": "Warning" if warning else "Normal",
        "source": {"component": "sluice"},
        "reportingComponent": "sluice",
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
    }
