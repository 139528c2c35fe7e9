"""The bind guard: turned on in each namespace with members that could be bound although their queue does not
schedule, or does not select the namespace, or has a quota that was not asked whether it has room for them.

It stays on in a namespace where it is on and a pass is assumed whose retry was requested
(`BindPasses.namespaces_awaiting_retry`). Each bind of that pod that a former replica let through has met the
guard once that has been on for the time of a request, and a stop waits for that long. As long as it stays on,
no later stop waits again.

The guard is a webhook that selects namespaces by the label `sluice.dev/guard`. A label that is stored is not
yet known to every API server. So each of them is probed: with a dry-run bind of a pod that does not exist.
The guard refuses it (`PROBE_SEEN`); without the guard the answer is 404. An API server that knows that the
namespace is being deleted refuses every bind itself (`TERMINATING`), without the webhook.

Invariants
- `on` has a namespace only while its label is set and each API server refused a probe after that: each has a
  cache of its own, and calls no webhook for a bind until the label has reached it.
- The label's value is a random token, new for each time that the guard goes on. So a removal that was decided
  earlier, by us or by a former leader, fails: its resourceVersion is of the former token.
- A namespace is taken out of `on` before its label is removed. A new leader forgets what it knew (`forget`):
  another leader may have removed the label meanwhile.
- Tokens and probes are in no table of requests (`controller.requests`): they prove that the guard is on, and
  are forgotten within a term, too.
- Writes and probes run on the threads of the guard writers, since a probe may take long. Their results are
  received, and `on` is changed, on the controller's thread; one write or probe a namespace at a time.
- A probe that is not answered soon is ended by the API server itself, and the next one has twice as long, up
  to `LONGEST_PROBE_SECONDS`. What a namespace came to in one round of probes is where the next round begins.
- A namespace whose probe is not refused is probed again after a back-off (`RETRY`), and after the namespaces
  that were not probed yet.
"""

from __future__ import annotations

import logging
import math
import secrets
from collections.abc import Callable, Collection, Mapping
from functools import partial

import msgspec

from cluster.api.client import Client
from cluster.backoff import Backoff
from cluster.cache.store import Store
from cluster.exceptions import ClusterError, NotFound, Refused
from cluster.objects import Metadata
from cluster.waiting_writes import WriteKey
from cluster.write_ranks import WriteRank
from controller.context import ControllerContext
from controller.parts import Part
from queues import well_known
from queues.snapshot import QueueSnapshot

#: A label takes effect after 11 to 46 ms; a probe that is not refused is repeated after this time.
PROBE_SECONDS = 0.01
#: At most so many probes are sent before other namespaces have their turn, and none later than this.
PROBES, PROBES_SECONDS = 10, 15.0
#: How long the API server may take for a probe: so long for the first one, twice as long after each that it
#: ended for that reason. It may call the guard over a connection to a replica that is gone; it closes that
#: then, and the next probe takes another. Or it is slow, or another webhook on binds is.
FIRST_PROBE_SECONDS, LONGEST_PROBE_SECONDS = 0.3, 9.6
#: An API server without any answer is waited for so long, or for this time more than it may take.
LEAST_READ_SECONDS, READ_MARGIN_SECONDS = 3.0, 1.0
#: Of an API server that ended a request since its time was over.
TIMED_OUT = 504
RETRY = Backoff(0.1, 5.0)
#: Part of the message with which an API server refuses to create anything in a namespace that it deletes.
TERMINATING = "because it is being terminated"
#: The time after which a label that was written is in the cache of namespaces.
SEEN_SECONDS = 5.0
#: The number of failures in one namespace after which the log has a warning.
WARN_AFTER = 4

log = logging.getLogger(__name__)


class GuardWrite(msgspec.Struct, frozen=True):
    """The result of one write and its probes.

    `token`: of the label that is set; empty after a removal, or if nothing was written.
    `on_since`: monotonic seconds since when the guard is known to be on; None if it is not.
    `seconds`: how long the API server may take for the next probe.
    """

    token: str = ""
    on_since: float | None = None
    seconds: float = FIRST_PROBE_SECONDS


class ProbeFailures(msgspec.Struct, frozen=True):
    """How often a namespace was probed in vain, and when it is probed again, in monotonic seconds.

    `seconds`: how long the API server may take for the next probe.
    """

    times: int = 0
    retry_at: float = 0.0
    seconds: float = FIRST_PROBE_SECONDS


def _key(namespace: str) -> WriteKey:
    return "guard", namespace


class GuardChange(msgspec.Struct, frozen=True):
    """One namespace in which the guard is to be turned on or off. `failed`: so often probes were in vain."""

    namespace: str
    turn_on: bool
    failed: int = 0

    @property
    def rank(self) -> WriteRank:
        return WriteRank.STOP if self.turn_on else WriteRank.GUARD_OFF


def namespaces_to_guard(store: Store, snapshot: QueueSnapshot) -> set[str]:
    """The namespaces with a bindable member, or an open pass, of a queue that

    - does not schedule, or does not exist, or is not known yet (`""`), or
    - does not select the namespace, or
    - has a quota, where the member was not released (`Member.unreleased`),

    and those with a guard and an assumed pass whose retry was requested.
    """
    of_stopped = {
        namespace for _, namespace in _bindable_namespaces(store, partial(_is_stopped, snapshot=snapshot))
    }
    restricted = frozenset(snapshot.restricted_queues)
    not_selected = {
        namespace
        for queue, namespace in (_bindable_namespaces(store, restricted.__contains__) if restricted else ())
        if not store.decisions.selects(queue, namespace)
    }
    with_quota = [
        queue
        for queue in (store.members.queues() if snapshot.has_quotas else ())
        if snapshot.decision(queue).has_quota
    ]
    not_released = {name for queue in with_quota for name in store.members.unreleased_namespaces(queue)}
    kept = {name for name in store.bind_passes.namespaces_awaiting_retry() if is_labelled(store, name)}
    return (of_stopped | not_selected | not_released | kept) & store.namespaces.objects.keys()


def is_labelled(store: Store, name: str) -> bool:
    """Whether the namespace has the guard's label, as far as is known."""
    namespace = store.namespaces.objects.get(name)
    return namespace is not None and _has_label(namespace.metadata)


def _is_stopped(queue: str, *, snapshot: QueueSnapshot) -> bool:
    return queue not in snapshot.tree or not snapshot.decision(queue).schedules


def _bindable_namespaces(store: Store, is_meant: Callable[[str], bool]) -> list[tuple[str, str]]:
    """Queue and namespace of the bindable members and of the open passes of the queues that are meant. Only
    those that have any are looked at: a thousand queues without pods cost nothing.
    """
    members = [
        (queue, name)
        for queue in store.members.bindable_queues()
        if is_meant(queue)
        for name in store.members.bindable_namespaces(queue)
    ]
    passes = store.bind_passes.open_passes()
    return [*members, *((each.queue, each.namespace) for each in passes if is_meant(each.queue))]


def outdated_guards(on: Mapping[str, float], *, labelled: Collection[str], now: float) -> list[str]:
    """The namespaces of `on` without the label; one that was just written is not in the cache yet."""
    return [name for name, since in on.items() if name not in labelled and since < now - SEEN_SECONDS]


def guard_changes(
    wanted: set[str],
    *,
    on: Collection[str],
    labelled: set[str],
    under_way: set[str],
    failures: Mapping[str, ProbeFailures],
    now: float,
) -> list[GuardChange]:
    """Turn the guard on where it is wanted and not on, and off where it is labelled and not wanted.

    A namespace with a write or probe under way is left alone, as is one whose pause has not ended. The more
    often a namespace was probed in vain, the later its turn.
    """
    changes = []
    for name in ((wanted - set(on)) | (labelled - wanted)) - under_way:
        failed = failures.get(name, ProbeFailures())
        if failed.retry_at <= now:
            turn_on = name in wanted
            changes.append(GuardChange(name, turn_on, failed.times if turn_on else 0))
    return changes


def after_failure(
    before: ProbeFailures, *, now: float, seconds: float = FIRST_PROBE_SECONDS
) -> ProbeFailures:
    """One more round of probes was in vain. `seconds`: the API server may take so long for the next probe."""
    times = before.times + 1
    return ProbeFailures(times, retry_at=now + RETRY.seconds(times), seconds=seconds)


def longer(seconds: float) -> float:
    """How long the API server may take for a probe after one for which so long was too short."""
    return min(2 * seconds, LONGEST_PROBE_SECONDS)


def proves_guard(answer: Refused) -> bool:
    """Whether this answer to a probe shows that the API server lets no bind pass without the guard."""
    if isinstance(answer, NotFound):
        return False
    return well_known.PROBE_SEEN in answer.message or TERMINATING in answer.message


class BindGuards(Part):
    """The namespaces that are guarded. Owner: the controller's thread."""

    name = "guard"

    def __init__(self, context: ControllerContext, *, changed: Callable[[], object]) -> None:
        """`changed`: called, on the controller's thread, when a guard may be on."""
        self._context = context
        self._store = context.store
        self._changed = changed
        #: Since when a namespace is known to be guarded, in monotonic seconds.
        self.on: dict[str, float] = {}
        #: The value of the label that we wrote, by namespace.
        self._tokens: dict[str, str] = {}
        self._failures: dict[str, ProbeFailures] = {}
        #: How often everything was forgotten: a probe that was submitted before says nothing any more.
        self._forgotten = 0
        self._counts_from = -math.inf
        #: Namespaces with a write or a probe under way.
        self._under_way: set[str] = set()
        #: Those of them in which it is to be turned off.
        self._removals: set[str] = set()

    @property
    def due(self) -> float:
        """When the next namespace is to be probed again, in monotonic seconds."""
        now = self._store.clock.monotonic()
        times = (failed.retry_at for failed in self._failures.values())
        return min((at for at in times if at > now), default=math.inf)

    def forget(self, *, counts_from: float = -math.inf) -> None:
        """Forget everything: another replica leads, or has led meanwhile, or the guard may be another one.

        `counts_from`: probes count that show the guard to be on at this time or later, in monotonic seconds:
        an API server may still call the former guard.
        """
        self._forgotten += 1
        self._counts_from = counts_from
        self.on.clear()
        self._tokens.clear()
        self._failures.clear()

    def begin_term(self) -> None:
        self.forget()

    def step(self) -> None:
        """Turn the guard on where it is wanted, and off everywhere else."""
        self.reconcile(self._store.snapshot)

    def reconcile(self, snapshot: QueueSnapshot) -> None:
        wanted = namespaces_to_guard(self._store, snapshot)
        labelled = self._labelled_namespaces()
        now = self._store.clock.monotonic()
        for name in outdated_guards(self.on, labelled=labelled, now=now):
            self._drop(name)
        for name in self._failures.keys() - wanted:
            del self._failures[name]
        self._withdraw_removals(wanted)
        for change in guard_changes(
            wanted,
            on=self.on,
            labelled=labelled,
            under_way=self._under_way,
            failures=self._failures,
            now=now,
        ):
            self._submit(change)

    def _withdraw_removals(self, wanted: set[str]) -> None:
        """A guard that is wanted again is not turned on behind all others, as a removal that still waits."""
        for name in wanted & self._removals:
            if self._context.guard_writers.withdraw(_key(name)):
                self._under_way.discard(name)
                self._removals.discard(name)

    def _labelled_namespaces(self) -> set[str]:
        namespaces = list(self._store.namespaces.objects.values())
        return {namespace.metadata.name for namespace in namespaces if _has_label(namespace.metadata)}

    def _drop(self, name: str) -> None:
        self.on.pop(name, None)
        self._tokens.pop(name, None)

    def _submit(self, change: GuardChange) -> None:
        """Have the label written; whether the guard is wanted is decided again just before that."""
        name, term, forgotten = change.namespace, self._context.term(), self._forgotten
        token = self._tokens.get(name, "")
        seconds = self._failures.get(name, ProbeFailures()).seconds
        if not change.turn_on:  # before the label may be removed
            self._drop(name)

        def still_leads() -> bool:
            return self._context.leading() and self._context.term() == term

        def send() -> GuardWrite:
            if not still_leads():
                return GuardWrite()
            if name not in namespaces_to_guard(self._store, self._store.snapshot):
                if not change.turn_on:
                    self._remove_label(name)
                return GuardWrite()
            written = self._set_label(name, token)
            return self._probe_everywhere(name, token=written, seconds=seconds)

        def receive(result: GuardWrite | None) -> None:
            self._under_way.discard(name)
            self._removals.discard(name)
            if still_leads() and forgotten == self._forgotten:
                self._receive(name, result or GuardWrite())
            self._changed()

        if self._context.submit(
            self._context.guard_writers, _key(name), send, receive, rank=change.rank, order=(change.failed,)
        ):
            self._under_way.add(name)
            if not change.turn_on:
                self._removals.add(name)

    def _receive(self, name: str, result: GuardWrite) -> None:
        if result.token:
            self._tokens[name] = result.token
        if result.on_since is not None and result.on_since >= self._counts_from:
            self._failures.pop(name, None)
            self.on[name] = result.on_since
        elif result.token:
            self._record_failure(name, seconds=result.seconds)

    def _record_failure(self, name: str, *, seconds: float) -> None:
        before, now = self._failures.get(name, ProbeFailures()), self._store.clock.monotonic()
        failed = self._failures[name] = after_failure(before, now=now, seconds=seconds)
        if failed.times == WARN_AFTER:
            log.warning(
                "the bind guard is not on in namespace %s, so stops there are not acknowledged; "
                "is the ValidatingWebhookConfiguration there? is this server reachable from each API server?",
                name,
            )

    def _set_label(self, name: str, token: str) -> str:
        """Set the label if it is not set; returns its token."""
        if not token or name not in self._labelled_namespaces():
            token = token or secrets.token_hex(4)
            self._context.client.patch(_path(name), {"metadata": {"labels": {well_known.GUARD: token}}})
        return token

    def _remove_label(self, name: str) -> None:
        """Remove the label that is in the cache, and no later one."""
        namespace = self._store.namespaces.objects.get(name)
        if namespace is not None and _has_label(namespace.metadata):
            meta = {
                "resourceVersion": namespace.metadata.resource_version,
                "labels": {well_known.GUARD: None},
            }
            self._context.client.patch(_path(name), {"metadata": meta})

    def _probe_everywhere(self, name: str, *, token: str, seconds: float) -> GuardWrite:
        """Probe each API server until all of them refuse, or the round is over.

        `seconds`: how long an API server may take for the first probe.
        """
        clock = self._store.clock
        round_ends_at = clock.monotonic() + PROBES_SECONDS
        for _ in range(PROBES):
            if name not in self._store.namespaces.objects:
                break
            try:
                answers = [_probe(name, client, seconds) for client in self._context.api_servers.all()]
            except ClusterError as exc:  # other namespaces do not wait for an API server without an answer
                log.warning("an API server cannot be asked whether the bind guard is on in %s: %s", name, exc)
                return GuardWrite(token, seconds=longer(seconds))
            if all(answer is not None and proves_guard(answer) for answer in answers):
                return GuardWrite(token, on_since=clock.monotonic())
            if any(answer is not None and answer.status == TIMED_OUT for answer in answers):
                seconds = longer(seconds)
            if clock.monotonic() >= round_ends_at or self._context.guard_writers.pause(PROBE_SECONDS):
                break
        return GuardWrite(token, seconds=seconds)


def _probe(namespace: str, client: Client, seconds: float) -> Refused | None:
    """How this API server refuses a bind in the namespace; None if it does not.

    `seconds`: the time that it may take, which it keeps itself.
    """
    name = f"{well_known.PROBE_PREFIX}{secrets.token_hex(4)}"
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": namespace},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "none"},
    }
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/binding"
    timeout = f"{round(seconds * 1000)}ms"  # a duration as Go reads it
    read_seconds = max(LEAST_READ_SECONDS, seconds + READ_MARGIN_SECONDS)
    try:
        client.create(path, body, dryRun="All", timeout=timeout, read_seconds=read_seconds)
    except Refused as exc:
        return exc
    return None


def _path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}"


def _has_label(meta: Metadata) -> bool:
    return bool(meta.label(well_known.GUARD))
