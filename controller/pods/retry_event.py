"""Makes kube-scheduler retry many pods by one event.

kube-scheduler retries a pod that an extender refused at any event in the cluster, since it cannot know what
the extender waits for ("ExtenderName" in its schedule_one.go). It retries a pod that lacks room when a pod
that was assigned to a node is deleted. So the controller creates such a pod, on a node that does not exist,
and deletes it at once (`RetryEvents`).

Invariants
- An event serves all who asked for it before it began.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import partial

from cluster.cache.marker_pods import idle_pod
from cluster.write_ranks import WriteRank
from controller.context import ControllerContext

PREFIX = "sluice-retry-"
NO_NODE = "sluice-no-such-node"

_KEY = ("retry_all", "")

#: Is given whether the event was made; on the controller's thread.
Done = Callable[[bool], object]


class RetryEvents:
    """Owner: the controller's thread."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._path = f"/api/v1/namespaces/{context.namespace}/pods"
        self._is_under_way = False
        #: Those whom the next event serves.
        self._waiting: list[Done] = []

    def trigger(self, done: Done = lambda _ok: None) -> None:
        """Make kube-scheduler retry all pods that lack room or that an extender refused until now."""
        self._waiting.append(done)
        self._begin()

    def _begin(self) -> None:
        if self._is_under_way or not self._waiting:
            return
        served, self._waiting = self._waiting, []
        receive = partial(self._receive, served)
        self._is_under_way = self._context.submit(
            self._context.writers, _KEY, self._create_and_delete_pod, receive, rank=WriteRank.STOP
        )
        if not self._is_under_way:  # it backs off
            self._context.work_queue.deliver(partial(receive, None))

    def _receive(self, served: list[Done], made: bool | None) -> None:
        self._is_under_way = False
        for done in served:
            done(made is not None)
        self._begin()

    def _create_and_delete_pod(self) -> bool:
        name = f"{PREFIX}{secrets.token_hex(4)}"
        self._context.client.create(self._path, idle_pod(name, nodeName=NO_NODE))
        self._context.client.delete(f"{self._path}/{name}", {"gracePeriodSeconds": 0})
        return True
