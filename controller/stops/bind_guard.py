"""The bind guard: on in each namespace that holds bindable members of a queue that does not schedule, or that
does not select the namespace.

The guard is a webhook that selects namespaces by the label `sluice.dev/guard`. That the label is
written does not say that every request meets the webhook, so it is asked: a dry-run bind of a pod
that does not exist is refused by the guard (`PROBE_SEEN`), and answered 404 where it is not on. In a
namespace that is being deleted the API server itself refuses every bind (`TERMINATING`), and asks nobody; one
that has not heard of the deletion does not.

Invariants
- `on` has a namespace only while its label is set and each API server refused a probe after that: each has a
  cache of its own, and asks nobody about a bind while the label has not reached it.
- The label's value is a token of whoever wrote it, new for each time that the guard goes on. So a removal
  that was decided before, by us or by somebody who leads no more, does not land: it is for the state of the
  namespace that had the former token.
- A namespace is taken out of `on` before its label is removed. Of what was on before somebody else led, who
  may have removed any, nothing is believed (`forget`).
- Writes and probes run in threads of their own, since a probe may take long. What came of them is received,
  and `on` changed, on the controller's thread, one write or probe a namespace at a time.
- A namespace whose probe is not refused is tried again after a back-off (`RETRY`), after those that were not
  tried yet.
"""

from __future__ import annotations

import logging
import math
import secrets
from collections.abc import Callable

import msgspec

from cluster.api.client import Client
from cluster.backoff import Backoff
from cluster.exceptions import ClusterError, NotFound, Refused
from cluster.objects import Metadata
from controller.context import ControllerContext
from queues import labels as names
from queues.snapshot import QueueSnapshot

#: A label takes 11 to 46 ms to take effect; a probe that is not refused is repeated this often.
PROBE_SECONDS = 0.01
PROBES = 10
RETRY = Backoff(0.1, 5.0)
#: What an API server says of whatever is to be made in a namespace that it knows is being deleted.
TERMINATING = "because it is being terminated"
#: By then the label that was written has come back by the watch.
SEEN_SECONDS = 5.0
#: Of the tries of one namespace.
SAID_AFTER = 4

log = logging.getLogger(__name__)


class Switched(msgspec.Struct, frozen=True):
    """What came of a write: the label's token, "" if it was removed or nothing was done; and since when, in
    monotonic seconds, the guard is known to be on, if it is."""

    token: str = ""
    on_since: float | None = None


class BindGuards:
    """Which namespaces are guarded. Owner: the controller's thread."""

    def __init__(self, context: ControllerContext, *, changed: Callable[[], object]) -> None:
        """`changed`: called, on the controller's thread, when a guard may be on."""
        self._context = context
        self._changed = changed
        #: Since when, in monotonic seconds, a namespace is known to be guarded.
        self.on: dict[str, float] = {}
        #: What we wrote as a namespace's label.
        self._tokens: dict[str, str] = {}
        #: How often a namespace was probed in vain, and when it is to be tried again.
        self._failed: dict[str, tuple[int, float]] = {}
        #: Namespaces with a write or a probe under way.
        self._under_way: set[str] = set()

    @property
    def next_retry_at(self) -> float:
        """When a namespace is to be tried again, in monotonic seconds."""
        now = self._context.store.clock.monotonic()
        return min((at for _, at in self._failed.values() if at > now), default=math.inf)

    def forget(self) -> None:
        """Somebody else leads, or has led meanwhile."""
        self.on.clear()
        self._tokens.clear()
        self._failed.clear()

    def reconcile(self, snapshot: QueueSnapshot) -> None:
        """Have the guard on just where it is wanted."""
        wanted = self.wanted(snapshot)
        labelled = self._labelled()
        now = self._context.store.clock.monotonic()
        for name, since in list(self.on.items()):
            if name not in labelled and since < now - SEEN_SECONDS:
                self.on.pop(name, None)
                self._tokens.pop(name, None)
        for name in [name for name in list(self._failed) if name not in wanted]:
            self._failed.pop(name, None)
        for name in ((wanted - self.on.keys()) | (labelled - wanted)) - self._under_way:
            times, at = self._failed.get(name, (0, 0.0))
            if at <= now:
                self._switch(name, rank=(times,) if name in wanted else (8,), wanted=name in wanted)

    def wanted(self, snapshot: QueueSnapshot) -> set[str]:
        """Where a member of a queue that does not schedule could be bound, or may be on its way to be."""
        store = self._context.store
        stopped = {*snapshot.stopped_queues(), *self._absent(snapshot), ""}
        bindable = {name for queue in stopped for name in store.members.bindable_namespaces(queue)}
        under_way = {one.namespace for one in store.bind_passes.open_passes_of(stopped)}
        return (bindable | under_way | self._not_selected(snapshot)) & store.namespaces.keys()

    def _not_selected(self, snapshot: QueueSnapshot) -> set[str]:
        """The same for members of namespaces that their queue does not select."""
        if not snapshot.restricted_queues:
            return set()
        store = self._context.store
        members = [
            (queue, name)
            for queue in snapshot.restricted_queues
            for name in store.members.bindable_namespaces(queue)
        ]
        passes = [
            (one.queue, one.namespace)
            for one in store.bind_passes.open_passes_of(frozenset(snapshot.restricted_queues))
        ]
        return {name for queue, name in (*members, *passes) if not store.selects(queue, name)}

    def _absent(self, snapshot: QueueSnapshot) -> set[str]:
        return {queue for queue in self._context.store.members.queues() if queue not in snapshot.tree}

    def _labelled(self) -> set[str]:
        namespaces = list(self._context.store.namespaces.values())
        return {one.metadata.name for one in namespaces if _guarded(one.metadata)}

    def _switch(self, name: str, *, rank: tuple[int, ...], wanted: bool) -> None:
        """Have the guard switched; the direction is decided again when that is sent."""
        term, token = self._context.term(), self._tokens.get(name, "")
        if not wanted:  # before the label may be removed
            self.on.pop(name, None)
            self._tokens.pop(name, None)

        def leads() -> bool:
            return self._context.leading() and self._context.term() == term

        def send() -> Switched:
            if not leads():
                return Switched()
            if name not in self.wanted(self._context.store.snapshot):
                if not wanted:
                    self._switch_off(name)
                return Switched()
            sent = self._switch_on(name, token)
            return Switched(sent, self._context.store.clock.monotonic() if self._probed(name) else None)

        def receive(switched: Switched | None) -> None:
            self._under_way.discard(name)
            if leads():
                self._receive(name, switched or Switched())
            self._changed()

        if self._context.submit(self._context.guard_writers, ("guard", name), send, receive, rank=rank):
            self._under_way.add(name)

    def _receive(self, name: str, switched: Switched) -> None:
        if switched.token:
            self._tokens[name] = switched.token
        if switched.on_since is not None:
            self._failed.pop(name, None)
            self.on[name] = switched.on_since
        elif switched.token:
            self._try_later(name)

    def _switch_on(self, name: str, token: str) -> str:
        """The token that the label has by then."""
        if not token or name not in self._labelled():
            token = token or secrets.token_hex(4)
            self._context.client.patch(_path(name), {"metadata": {"labels": {names.GUARD: token}}})
        return token

    def _switch_off(self, name: str) -> None:
        """Only the label that is known here is removed, and no later one."""
        namespace = self._context.store.namespaces.get(name)
        if namespace is not None and _guarded(namespace.metadata):
            meta = {"resourceVersion": namespace.metadata.resource_version, "labels": {names.GUARD: None}}
            self._context.client.patch(_path(name), {"metadata": meta})

    def _try_later(self, name: str) -> None:
        times = self._failed.get(name, (0, 0.0))[0] + 1
        self._failed[name] = (times, self._context.store.clock.monotonic() + RETRY.seconds(times))
        if times == SAID_AFTER:
            log.warning(
                "the bind guard is not on in namespace %s, so stops there are not acknowledged; "
                "is the ValidatingWebhookConfiguration there? is this server reachable from each API server?",
                name,
            )

    def _probed(self, name: str) -> bool:
        """Whether nothing can be bound there unseen, through any API server; to be asked anew if not."""
        for _ in range(PROBES):
            if name not in self._context.store.namespaces:
                return False
            try:
                if all(self._refused(name, client) for client in self._context.api_servers.all()):
                    return True
            except ClusterError as exc:  # one that does not answer keeps other namespaces waiting
                log.warning("an API server cannot be asked whether the bind guard is on in %s: %s", name, exc)
                return False
            if self._context.guard_writers.pause(PROBE_SECONDS):
                return False
        return False

    def _refused(self, namespace: str, client: Client) -> bool:
        name = f"{names.PROBE_PREFIX}{secrets.token_hex(4)}"
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "none"},
        }
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/binding"
        try:
            client.create(path, body, dryRun="All")
        except NotFound:
            return False
        except Refused as exc:
            return names.PROBE_SEEN in exc.message or TERMINATING in exc.message
        return False


def _path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}"


def _guarded(meta: Metadata) -> bool:
    return bool(meta.label(names.GUARD))
