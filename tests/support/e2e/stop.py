"""One stop of a queue: when it was acknowledged, and who was bound after that.

Both orders that the API server keeps are asked: that of its writes (a pod bound by a later resource version
than the acknowledgement), and that of its audit log (a bind answered with 201 behind the mark that is set
there on seeing the acknowledgement). Pods whose names begin with `member` are the queue's.
"""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import UTC, datetime

from localcluster.components import REQUEST_SECONDS
from tests.support.e2e.api_requests import Object, watched
from tests.support.e2e.objects import is_answered, is_stopped, version, waits_for
from tests.support.e2e.sandbox import METADATA, QUEUES, Sandbox
from tests.support.e2e.wait import PATIENCE, until

#: A stop is asked for again after these: a webhook or the API server did not answer.
NOT_ANSWERED = (429, 500, 503, 504)


#: Seconds that are much less than the API server lets a request take, which a stop waits for a bind that may
#: be under way.
SOON = REQUEST_SECONDS * 0.6
#: What a stop waits for longer where the machine is busy, whatever becomes of its pods.
BUSY = ("ReplicasUnknown", "ReplicaBehind", "PodsBehind", "Unguarded", "GuardTooNew")


def stop_undelayed(sandbox: Sandbox, queue: str, **spec: object) -> Object:
    """Stop the queue by this edit; returns it once that is acknowledged. That is soon, or what took longer is
    not that some pod may still be bound.
    """
    asked, began = sandbox.patch_queue(queue, **spec).must().body, time.monotonic()
    since, selector = asked["metadata"]["resourceVersion"], f"metadata.name={queue}"
    waited_for = set[str]()
    with closing(watched(sandbox.cluster, QUEUES, since=since, selector=selector)) as states:
        for state in states:
            if is_stopped(state):
                late = [text for text in waited_for if not text.startswith(BUSY)]
                assert time.monotonic() < began + SOON or not late, late
                return state
            waited_for |= {waits_for(state)} - {""}
    raise AssertionError(f"the stop of {queue} is not acknowledged: {waited_for}")


class Stop:
    """One stop of a queue, from its acknowledgement to its resume. Returns once it is acknowledged.

    It goes on where the API server or our webhooks do not answer for a while. `amid` is called once the stop
    was asked for.
    """

    def __init__(self, sandbox: Sandbox, queue: str, *, amid: Callable[[], object] = lambda: None) -> None:
        self._sandbox, self._queue = sandbox, queue
        self.mark = f"acknowledged-{datetime.now(UTC):%H%M%S%f}"
        asked = until(self._ask, f"queue {queue} to be asked to stop", share=0)
        began = time.monotonic()
        amid()
        self.acknowledged = version(self._acknowledged(asked))
        #: From the answer to the request until the acknowledgement.
        self.seconds = time.monotonic() - began
        until(self._mark, "the mark in the audit log")

    def _ask(self) -> Object | None:
        self.asked_at = datetime.now(UTC)
        answer = self._sandbox.patch_queue(self._queue, state="Suspended").must(200, *NOT_ANSWERED)
        return answer.body if answer.status == 200 else None

    def _acknowledged(self, queue: Object) -> Object:
        """The queue as the write of the acknowledgement left it."""
        end = time.monotonic() + PATIENCE
        while not is_answered(queue):
            assert time.monotonic() < end, f"the stop is not acknowledged: {queue.get('status')}"
            since, selector = queue["metadata"]["resourceVersion"], f"metadata.name={self._queue}"
            with (
                # The API server ended, or is starting and refuses the watch.
                suppress(OSError, http.client.HTTPException, AssertionError),
                closing(watched(self._sandbox.cluster, QUEUES, since=since, selector=selector)) as changes,
            ):
                queue = next(filter(is_answered, changes), queue)
            if not is_answered(queue):
                queue = until(self._read, f"queue {self._queue} to be read")
        return queue

    def _read(self) -> Object | None:
        answer = self._sandbox.api.get(f"{QUEUES}/{self._queue}")
        return answer.body if answer.status == 200 else None

    def _mark(self) -> bool:
        """A line in the audit log: a dry run that the guard refuses."""
        return self._sandbox.bind(self.mark, dry=True).status in (403, 404)

    def bound_since(self) -> set[str]:
        """The queue's pods that were not bound at the very write of the acknowledgement, and are now."""
        return self._bound() - self._bound(at=self.acknowledged)

    def _bound(self, *, at: int = 0) -> set[str]:
        exactly = f"&resourceVersion={at}&resourceVersionMatch=Exact" if at else ""
        path = f"{self._sandbox.pods_path}?fieldSelector=spec.nodeName!={exactly}"
        items = self._sandbox.api.get(path, accept=METADATA).must().body["items"] or ()
        return {pod["metadata"]["name"] for pod in items if is_member(pod)}

    def binds_behind_the_mark(self) -> list[str]:
        """The same by the audit log, up to now."""
        lines = self._sandbox.binds()
        mark = next(number for number, bind in enumerate(lines) if bind.pod == self.mark)
        return [bind.pod for bind in lines[mark:] if bind.bound and bind.pod.startswith("member")]

    def was_in_mid_flow(self) -> bool:
        """Whether a bind of the queue was under way when the stop was asked for."""
        return any(
            bind.received < self.asked_at < bind.answered
            for bind in self._sandbox.binds()
            if bind.pod.startswith("member")
        )

    def lets_no_pod_through(self) -> None:
        assert self.bound_since() == set()
        assert self.binds_behind_the_mark() == []


def is_member(pod: Object) -> bool:
    return bool(pod["metadata"]["name"].startswith("member"))
