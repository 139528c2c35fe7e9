"""Commands: each acts once, in order, whatever crashes.

Invariants
- The one write that edits `spec.state` also records the Command's UID on the Queue, in the
  annotation `sluice.dev/commands`, under the resource version that the decision was made from.
  A Command that is recorded is only deleted. So a crash before that write leaves nothing done,
  and a crash after it leaves nothing to be done but the deletion.
- A Command that comes to "nothing" is recorded too: were it decided again after a crash, an edit
  in between would give it an effect that its author never saw.
- The list holds the last `RECORDED`, and whoever of the former is still known to be there. Before a Command
  is acted on it is read anew, after the queue: one that was carried out long ago and fell off the list is
  gone, however late the watch tells. Between these two reads and the write nobody else can have acted: that
  would have changed the queue's resource version.
- Per queue, in the order of creation (the resource version each had then); those that are recorded first, so
  that none falls off the list before it is deleted.
- What a Command raises concerns it alone; what the API server does not answer, all of its queue.
- Requests are sent by other threads, for one queue by one thread at a time, and only while we lead in the
  term in which they were asked for. `CommandExecutor` sends them; `CommandHandler` receives what came of
  them on the controller's thread, records the events and counts.

| the Command                                   | what happens                    |
|-----------------------------------------------|---------------------------------|
| names no queue that can be acted on           | dropped with a warning          |
| is recorded                                   | said if we have not, deleted    |
| is gone, or is being deleted                  | nothing                         |
| bears no author                               | dropped with a warning          |
| its queue is not there, or was made again     | dropped with a warning          |
| the table of actions says nothing             | recorded, said, deleted         |
| otherwise                                     | recorded with the edit, said, deleted |
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from cluster.api.client import decode_response
from cluster.cache.changes import QueueChange
from cluster.cache.commands import target_fault
from cluster.cache.queues import queue_from_object
from cluster.exceptions import Conflict, NotFound, Overloaded, Refused, Unreachable
from cluster.object_reference import ObjectReference
from cluster.objects import Command, Metadata, QueueObject
from controller.context import (
    QUEUES,
    RETRY_SECONDS,
    ControllerContext,
    queue_subject,
)
from queues import labels as names
from queues.snapshot import QueueDecision
from queues.states import ACTIONS, Action, Desired, State, own_state
from queues.text import printable

BUS_VERSION = "bus.volcano.sh/v1alpha1"
TRIES = 10
#: Commands of one queue that are carried out before the others have their turn.
AT_ONCE = 10
#: Characters, as the definition of `spec.reason` has it.
REASON_LIMIT = 1024
RECORDED = 30

log = logging.getLogger(__name__)

_queue = msgspec.json.Decoder(QueueObject)
_command = msgspec.json.Decoder(Command)


class Acted(msgspec.Struct, frozen=True):
    """It was carried out: in which own state of the queue, and what it asked for."""

    command: Command
    queue: QueueObject
    state: State
    desired: Desired | None


class ActedBefore(msgspec.Struct, frozen=True):
    """It was recorded on the queue already."""

    command: Command
    queue: QueueObject


class Dropped(msgspec.Struct, frozen=True):
    """It was not carried out, and why."""

    command: Command
    reason: str


Outcome = Acted | ActedBefore | Dropped


class CommandHandler:
    """Owner: the controller's thread."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._executor = CommandExecutor(context)
        #: Queues with Commands under way.
        self._under_way: set[str] = set()
        #: UIDs of the Commands that an event was recorded for and that are not deleted yet.
        self._recorded: set[str] = set()

    def execute(self, queue: str) -> None:
        """Have the Commands for one queue carried out, `AT_ONCE` at most; the others have their turn then."""
        commands = [] if queue in self._under_way else self._waiting(queue)[:AT_ONCE]
        if not commands:
            return
        term, done = self._context.term(), set[str]()

        def send() -> bool:
            """What was carried out before the API server failed is not tried again with the rest."""
            for command in commands:
                if not self._context.leading() or self._context.term() != term:
                    return False
                if command.metadata.uid not in done:
                    self._executor.execute(queue, command, receive=self._deliver)
                    done.add(command.metadata.uid)
            return True

        writers, key = self._context.writers, ("command", queue)
        ended = partial(self._ended, queue, commands)
        if self._context.submit(writers, key, send, ended, rank=(0,), queue=queue):
            self._under_way.add(queue)

    def _waiting(self, queue: str) -> list[Command]:
        commands = [
            command
            for command in self._context.store.commands.for_queue(queue)
            if command.metadata.deletion_timestamp is None  # done with, though a finalizer keeps it
        ]
        wait = self._context.store.backoff.seconds_left
        commands = [
            one for one in commands if not wait("command", one.metadata.uid, version=one.metadata.version)
        ]
        obj = self._context.store.queues.get(queue)
        done = frozenset(recorded(obj)) if obj is not None else frozenset()
        return sorted(commands, key=lambda one: (one.metadata.uid not in done, one.metadata.version))

    def _deliver(self, outcome: Outcome) -> None:
        """From another thread."""
        self._context.work_queue.deliver(partial(self._receive, outcome))

    def _ended(self, queue: str, commands: list[Command], _: bool | None) -> None:
        """These were tried, or given up."""
        self._under_way.discard(queue)
        tried = {command.metadata.uid for command in commands}
        waiting = {command.metadata.uid for command in self._waiting(queue)}
        present = {each.metadata.uid for each in self._context.store.commands.for_queue(queue)}
        self._recorded -= tried - present
        if waiting - tried:
            self._context.work_queue.add(queue, QueueChange.COMMANDS)
        elif waiting:
            self._context.work_queue.add_after(queue, RETRY_SECONDS, members=False)

    def _receive(self, outcome: Outcome) -> None:
        """Record what came of a Command."""
        match outcome:
            case Acted():
                self._record_act(outcome)
            case ActedBefore():
                self._record_again(outcome)
            case Dropped():
                self._record_drop(outcome)

    def _record_act(self, act: Acted) -> None:
        done = (
            f"spec.state is {act.desired} now" if act.desired else f"nothing to do, the queue is {act.state}"
        )
        still = _still_stopped(self._context.store.snapshot.decision(act.queue.metadata.name))
        self._record(act.command, act.queue, f"{done}{still}")
        self._count(act.command, "acted" if act.desired else "nothing")

    def _record_again(self, act: ActedBefore) -> None:
        """Whoever recorded it on the queue may have ended before the event; rather two events than none."""
        if act.command.metadata.uid not in self._recorded:
            self._record(act.command, act.queue, "carried out, though interrupted; see status.changes")

    def _record(self, command: Command, obj: QueueObject, what: str) -> None:
        author = command.metadata.annotation(names.AUTHOR)
        why = f" ({reason})" if (reason := _reason(command)) else ""
        message = f"{command.action} by {author}{why}: {what}"
        self._recorded.add(command.metadata.uid)
        self._context.recorder.record(queue_subject(obj), reason=command.action, message=message)

    def _record_drop(self, drop: Dropped) -> None:
        command, meta = drop.command, drop.command.metadata
        self._context.recorder.record(
            _subject(command), reason="CommandDropped", message=drop.reason, warning=True
        )
        self._count(command, "dropped")
        log.warning("command %s/%s dropped: %s", meta.namespace, meta.name, drop.reason)

    def _count(self, command: Command, outcome: str) -> None:
        action = command.action if command.action in set(Action) else "other"
        self._context.metrics.commands.labels(action, outcome).inc()


class CommandExecutor:
    """Sends what a Command takes, and waits for the answers. For any thread but the controller's."""

    def __init__(self, context: ControllerContext) -> None:
        self._store = context.store
        self._client = context.client

    def execute(self, queue: str, command: Command, *, receive: Callable[[Outcome], object]) -> None:
        """Carry one Command out and delete it. `receive` is given what came of it before it is deleted.

        Raises `Overloaded` and `Unreachable`; whatever else fails has this Command back off.
        """
        meta = command.metadata
        self._store.backoff.attempt(
            "command",
            meta.uid,
            partial(self._execute, queue, command, receive),
            version=meta.version,
            queue=queue,
            subject=_subject(command),
            through=(Overloaded, Unreachable),
        )

    def _execute(self, queue: str, command: Command, receive: Callable[[Outcome], object]) -> None:
        outcome = self._outcome(queue, command)
        if outcome is not None:
            receive(outcome)
            self._delete(command)

    def _outcome(self, queue: str, command: Command) -> Outcome | None:
        """None if nothing is to be done: it is gone, or the queue changed at every try."""
        wrong = target_fault(command)
        if wrong:
            return Dropped(command, wrong)
        for _ in range(TRIES):
            try:
                return self._try(queue, command)
            except Conflict:
                continue
        log.warning("command %s: queue %s changed at every try", command.metadata.name, queue)
        return None

    def _try(self, queue: str, command: Command) -> Outcome | None:
        """The same, once. Raises `Conflict` if the queue has changed since it was read."""
        obj = self._fetch(queue)
        if obj is not None and command.metadata.uid in recorded(obj):
            return ActedBefore(command, obj)
        if not self._is_there(command):
            self._store.commands.drop(command.metadata.uid)
            return None
        drop = _why_dropped(command, obj)
        if drop or obj is None:
            return Dropped(command, drop)
        try:
            return self._act(command, obj)
        except (Conflict, Overloaded):
            raise
        except Refused as exc:
            return Dropped(command, f"the API server refused the edit: {exc.message}")

    def _fetch(self, queue: str) -> QueueObject | None:
        try:
            return decode_response(self._client.get(f"{QUEUES}/{queue}"), _queue)
        except NotFound:
            return None

    def _is_there(self, command: Command) -> bool:
        """Whether the API server has it now, still to be carried out."""
        meta = command.metadata
        try:
            stored = decode_response(self._client.get(_path(meta)), _command)
        except NotFound:
            return False
        return stored.metadata.uid == meta.uid and stored.metadata.deletion_timestamp is None

    def _act(self, command: Command, obj: QueueObject) -> Acted:
        """The one write."""
        own = self._own_state(obj)
        desired = ACTIONS[Action(command.action)][own]
        body: dict[str, Any] = {
            "metadata": {
                "resourceVersion": obj.metadata.resource_version,
                "annotations": {
                    names.COMMANDS: ",".join(self._to_record(obj, command)),
                    names.ON_BEHALF_OF: command.metadata.annotation(names.AUTHOR),
                },
            }
        }
        if desired is not None:
            body["spec"] = {"state": desired.value, "reason": _reason(command) or None, "resumeAt": None}
        self._client.patch(f"{QUEUES}/{obj.metadata.name}", body)
        return Acted(command, obj, own, desired)

    def _to_record(self, obj: QueueObject, command: Command) -> list[str]:
        """The last ones with this one, and those before whose Commands are there."""
        before = recorded(obj)
        there = {one.metadata.uid for one in self._store.commands.for_queue(obj.metadata.name)}
        last = before[-(RECORDED - 1) :]
        older = [uid for uid in before[: -(RECORDED - 1)] if uid in there][-RECORDED:]
        return [*older, *last, command.metadata.uid]

    def _own_state(self, obj: QueueObject) -> State:
        store = self._store
        queue = queue_from_object(obj)
        tree = store.snapshot.tree.with_queue(queue)
        return own_state(
            queue.desired_at(store.clock.now()),
            broken=tree.chain(queue.name).broken is not None,
            live=store.live_members_below(queue.name, tree=tree) > 0,
        )

    def _delete(self, command: Command) -> None:
        meta = command.metadata
        with contextlib.suppress(NotFound, Conflict):
            self._client.delete(_path(meta), {"preconditions": {"uid": meta.uid}})
        self._store.commands.drop(meta.uid)


def _path(meta: Metadata) -> str:
    return f"/apis/{BUS_VERSION}/namespaces/{meta.namespace}/commands/{meta.name}"


def _subject(command: Command) -> ObjectReference:
    meta = command.metadata
    return ObjectReference(
        api_version=BUS_VERSION, kind="Command", name=meta.name, namespace=meta.namespace, uid=meta.uid
    )


def recorded(obj: QueueObject) -> list[str]:
    """The UIDs of the Commands that were carried out on this queue, oldest first."""
    return [uid for uid in obj.metadata.annotation(names.COMMANDS).split(",") if uid]


def _why_dropped(command: Command, obj: QueueObject | None) -> str:
    target = command.target
    if obj is None or target is None:
        return f'queue "{target.name if target else ""}" does not exist'
    if target.uid and target.uid != obj.metadata.uid:
        return f'queue "{target.name}" was deleted and made again since'
    if not command.metadata.annotation(names.AUTHOR):
        return "it bears no author, so it was created while the webhook was not asked; create it again"
    if command.action not in set(Action):
        return f'action "{printable(command.action, limit=80)}" is not known; use one of {", ".join(Action)}'
    return ""


def _reason(command: Command) -> str:
    """In one line: what admission would refuse of it is left out."""
    return printable(command.message or command.reason, limit=REASON_LIMIT)


def _still_stopped(decision: QueueDecision) -> str:
    stop = decision.stop
    return f"; {decision.text}" if stop and stop.by != stop.queue else ""
