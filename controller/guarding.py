"""The bind guard: on in each namespace that holds bindable members of a queue that does not schedule, or that
does not select the namespace.

The guard is a webhook that selects namespaces by the label `sluice.dev/guard`. That the label is
written does not say that every request meets the webhook, so it is asked: a dry-run bind of a pod
that does not exist is refused by the guard (`PROBE_SEEN`), and answered 404 where it is not on. In a
namespace that is being deleted the API server itself refuses every bind, and asks nobody.

Invariants
- `on` has a namespace only while its label is set and a probe after that was refused.
- A namespace is taken out of `on` before its label is removed. Of what was on before somebody else led, who
  may have removed any, nothing is believed (`forget`).
- Writes and probes run in threads of their own, since a probe may take long; `on` is
  changed there and read by the controller.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable

from cluster.exceptions import NotFound, Refused, Unreachable
from cluster.objects import Metadata
from controller.parts import Parts
from queues import names
from queues.board import Board

#: A label takes 11 to 46 ms to take effect; a probe that is not refused is repeated this often.
PROBE_SECONDS = 0.01
PROBES = 1000
#: By then the label that was written has come back by the watch.
SEEN_SECONDS = 5.0
SAID_AFTER = 100

log = logging.getLogger(__name__)


class Guards:
    """Which namespaces are guarded. Owner: the controller."""

    def __init__(self, parts: Parts, *, changed: Callable[[], None]) -> None:
        self._parts = parts
        self._changed = changed
        #: Since when, in monotonic seconds, a namespace is known to be guarded.
        self.on: dict[str, float] = {}

    def forget(self) -> None:
        """Somebody else leads, or has led meanwhile."""
        self.on.clear()

    def follow(self, board: Board) -> None:
        """Have the guard on just where it is wanted."""
        wanted = self.wanted(board)
        labelled = self._labelled()
        lately = self._parts.store.clock.monotonic() - SEEN_SECONDS
        for name, since in list(self.on.items()):
            if name not in labelled and since < lately:
                self.on.pop(name, None)
        for name in (wanted - self.on.keys()) | (labelled - wanted):
            rank = (0,) if name in wanted else (8,)
            self._parts.guard_writers.submit(("guard", name), self._switching(name), rank=rank)

    def wanted(self, board: Board) -> set[str]:
        """Where a member of a queue that does not schedule could be bound, or may be on its way to be."""
        store = self._parts.store
        stopped = {*board.stopped(), *self._absent(board), ""}
        bindable = {name for queue in stopped for name in store.members.bindable_namespaces(queue)}
        under_way = {one.namespace for one in store.passes.open_in(stopped)}
        return (bindable | under_way | self._not_selected(board)) & store.namespaces.keys()

    def _not_selected(self, board: Board) -> set[str]:
        """The same for members of namespaces that their queue does not select."""
        if not board.restricted:
            return set()
        store = self._parts.store
        members = [
            (queue, name) for queue in board.restricted for name in store.members.bindable_namespaces(queue)
        ]
        passes = [(one.queue, one.namespace) for one in store.passes.open_in(frozenset(board.restricted))]
        return {name for queue, name in (*members, *passes) if not store.selects(queue, name)}

    def _absent(self, board: Board) -> set[str]:
        return {queue for queue in self._parts.store.members.queues() if queue not in board.tree}

    def _labelled(self) -> set[str]:
        namespaces = list(self._parts.store.namespaces.values())
        return {one.metadata.name for one in namespaces if _guarded(one.metadata)}

    def _switching(self, name: str) -> Callable[[], None]:
        """One write a namespace at a time, whose direction is decided when it is sent."""

        term = self._parts.term()

        def switch() -> None:
            wanted = name in self.wanted(self._parts.store.board)
            if not wanted:
                self.on.pop(name, None)
            body = {"metadata": {"labels": {names.GUARD: "on" if wanted else None}}}
            self._parts.client.patch(f"/api/v1/namespaces/{name}", body)
            if wanted and self._probed(name) and self._parts.leading() and self._parts.term() == term:
                self.on[name] = self._parts.store.clock.monotonic()
            self._changed()

        return switch

    def _probed(self, name: str) -> bool:
        """Whether nothing can be bound there unseen; gives up after `PROBES`, to be asked anew."""
        for number in range(PROBES):
            namespace = self._parts.store.namespaces.get(name)
            if namespace is None:
                return False
            if namespace.metadata.deletion_timestamp is not None or self._refused(name):
                return True
            if number == SAID_AFTER:
                log.warning(
                    "the bind guard is not on in namespace %s, so stops there are not acknowledged; "
                    "is the ValidatingWebhookConfiguration there and this server reachable?",
                    name,
                )
            if self._parts.guard_writers.pause(PROBE_SECONDS):
                return False
        return False

    def _refused(self, namespace: str) -> bool:
        name = f"{names.PROBE_PREFIX}{secrets.token_hex(4)}"
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "none"},
        }
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/binding"
        try:
            self._parts.client.create(path, body, dryRun="All")
        except NotFound:
            return False
        except Unreachable:
            return False
        except Refused as exc:
            return names.PROBE_SEEN in exc.message
        return False


def _guarded(meta: Metadata) -> bool:
    return bool(meta.label(names.GUARD))
