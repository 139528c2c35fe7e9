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
from functools import partial
from typing import Any

import msgspec

from cluster.api.client import decode_response
from cluster.cache.commands import target_fault
from cluster.cache.queues import queue_from_object
from cluster.exceptions import Conflict, NotFound, Overloaded, Refused, Unreachable
from cluster.object_reference import ObjectReference
from cluster.objects import Command, Metadata, QueueObject
from controller.context import (
    QUEUES,
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


class CommandHandler:
    """Owner: the controller's thread."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        #: UIDs of the Commands that were said and are not deleted yet.
        self._told: set[str] = set()

    def execute(self, queue: str) -> bool:
        """What is commanded of one queue, `AT_ONCE` at most; whether there is more."""
        waiting = self._waiting(queue)
        for command in waiting[:AT_ONCE]:
            meta = command.metadata
            self._context.store.backoff.attempt(
                "command",
                meta.uid,
                partial(self._handle, queue, command),
                version=meta.version,
                queue=queue,
                subject=_subject(command),
                through=(Overloaded, Unreachable),
            )
        return len(waiting) > AT_ONCE

    def _waiting(self, queue: str) -> list[Command]:
        found = [
            command
            for command in self._context.store.commands.for_queue(queue)
            if command.metadata.deletion_timestamp is None  # done with, though a finalizer keeps it
        ]
        wait = self._context.store.backoff.seconds_left
        found = [one for one in found if not wait("command", one.metadata.uid, version=one.metadata.version)]
        held = self._context.store.queues.get(queue)
        done = frozenset(recorded(held)) if held is not None else frozenset()
        return sorted(found, key=lambda one: (one.metadata.uid not in done, one.metadata.version))

    def _handle(self, queue: str, command: Command) -> None:
        wrong = target_fault(command)
        if wrong:
            self._dropped(command, wrong)
            return
        for _ in range(TRIES):
            obj = self._fetch(queue)
            if obj is not None and command.metadata.uid in recorded(obj):
                self._said_anew(command, obj)
                self._delete(command)
                return
            if not self._is_there(command):
                self._forget(command)
                return
            drop = _why_dropped(command, obj)
            if drop or obj is None:
                self._dropped(command, drop)
                return
            try:
                outcome = self._act(command, obj)
            except Conflict:
                continue
            except Overloaded:
                raise
            except Refused as exc:
                self._dropped(command, f"the API server refused the edit: {exc.message}")
                return
            self._said(command, obj, outcome)
            self._delete(command)
            return
        log.warning("command %s: queue %s changed at every try", command.metadata.name, queue)

    def _fetch(self, queue: str) -> QueueObject | None:
        try:
            found = decode_response(self._context.client.get(f"{QUEUES}/{queue}"), _queue)
        except NotFound:
            return None
        return found

    def _is_there(self, command: Command) -> bool:
        """Whether the API server has it now, still to be carried out."""
        meta = command.metadata
        try:
            found = decode_response(self._context.client.get(_path(meta)), _command)
        except NotFound:
            return False
        return found.metadata.uid == meta.uid and found.metadata.deletion_timestamp is None

    def _act(self, command: Command, obj: QueueObject) -> tuple[State, Desired | None]:
        """The one write. Returns the state it was decided in and what it asked for."""
        own = self._own_state(obj)
        asked = ACTIONS[Action(command.action)][own]
        kept = self._to_record(obj, command)
        body: dict[str, Any] = {
            "metadata": {
                "resourceVersion": obj.metadata.resource_version,
                "annotations": {
                    names.COMMANDS: ",".join(kept),
                    names.ON_BEHALF_OF: command.metadata.annotation(names.AUTHOR),
                },
            }
        }
        if asked is not None:
            body["spec"] = {"state": asked.value, "reason": _reason(command) or None, "resumeAt": None}
        self._context.client.patch(f"{QUEUES}/{obj.metadata.name}", body)
        return own, asked

    def _to_record(self, obj: QueueObject, command: Command) -> list[str]:
        """The last ones with this one, and those before whose Commands are there."""
        before = recorded(obj)
        there = {one.metadata.uid for one in self._context.store.commands.for_queue(obj.metadata.name)}
        last = before[-(RECORDED - 1) :]
        older = [uid for uid in before[: -(RECORDED - 1)] if uid in there][-RECORDED:]
        return [*older, *last, command.metadata.uid]

    def _own_state(self, obj: QueueObject) -> State:
        store = self._context.store
        queue = queue_from_object(obj)
        tree = store.snapshot.tree.with_queue(queue)
        return own_state(
            queue.desired_at(store.clock.now()),
            broken=tree.chain(queue.name).broken is not None,
            live=store.live_members_below(queue.name, tree=tree) > 0,
        )

    def _said(self, command: Command, obj: QueueObject, outcome: tuple[State, Desired | None]) -> None:
        own, asked = outcome
        done = f"spec.state is {asked} now" if asked else f"nothing to do, the queue is {own}"
        still = _still_stopped(self._context.store.snapshot.decision(obj.metadata.name))
        self._say(command, obj, f"{done}{still}")
        self._context.counting.commands.labels(command.action, "acted" if asked else "nothing").inc()

    def _said_anew(self, command: Command, obj: QueueObject) -> None:
        """Whoever recorded it may have ended before anybody heard of it; rather twice than never."""
        if command.metadata.uid not in self._told:
            self._say(command, obj, "carried out, though interrupted; see status.changes")

    def _say(self, command: Command, obj: QueueObject, what: str) -> None:
        author = command.metadata.annotation(names.AUTHOR)
        why = f" ({reason})" if (reason := _reason(command)) else ""
        message = f"{command.action} by {author}{why}: {what}"
        self._told.add(command.metadata.uid)
        self._context.recorder.record(queue_subject(obj), reason=command.action, message=message)

    def _dropped(self, command: Command, why: str) -> None:
        meta = command.metadata
        self._context.recorder.record(_subject(command), reason="CommandDropped", message=why, warning=True)
        action = command.action if command.action in set(Action) else "other"
        self._context.counting.commands.labels(action, "dropped").inc()
        log.warning("command %s/%s dropped: %s", meta.namespace, meta.name, why)
        self._delete(command)

    def _delete(self, command: Command) -> None:
        meta = command.metadata
        with contextlib.suppress(NotFound, Conflict):
            self._context.client.delete(_path(meta), {"preconditions": {"uid": meta.uid}})
        self._forget(command)

    def _forget(self, command: Command) -> None:
        self._context.store.commands.drop(command.metadata.uid)
        self._told.discard(command.metadata.uid)


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


def _still_stopped(ruling: QueueDecision) -> str:
    stop = ruling.stop
    return f"; {ruling.text}" if stop and stop.by != stop.queue else ""
