"""Carries out one Command. Each Command acts once, even if the server crashes in between.

| the Command                                   | what happens                                          |
|-----------------------------------------------|-------------------------------------------------------|
| names no queue that can be acted on           | it is dropped with a warning                          |
| is recorded on the queue                      | an event, unless we recorded one; it is deleted       |
| is gone, or is being deleted                  | nothing                                               |
| has no author                                 | it is dropped with a warning                          |
| names a queue that is gone, or was recreated  | it is dropped with a warning                          |
| opens a queue that is being deleted           | it is dropped with a warning                          |
| changes nothing (`queues.states.ACTIONS`)     | it is recorded; an event; it is deleted               |
| otherwise                                     | it is recorded with the edit; an event; it is deleted |

Invariants
- One write edits `spec.state` and records the Command's UID on the Queue, in the annotation
  `sluice.dev/commands`, for the resource version that the decision was made from. A recorded Command is only
  deleted. So a crash before that write leaves nothing done, and after it only the deletion is left.
- A Command that changes nothing is recorded too. Otherwise an edit between a crash and the next attempt could
  give it an effect that its author did not intend.
- The annotation holds the last `MAX_RECORDED` UIDs and, besides, older ones whose Command still exists.
  Before a Command is acted on it is read again, after the queue. A Command that was carried out long ago and
  has left the annotation is gone by then, however late the watch is. No other replica can have acted between
  these two reads and the write: that would have changed the queue's resource version.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Container
from functools import partial
from typing import Any

import msgspec

from cluster.api.client import decode_response
from cluster.cache.commands import target_fault
from cluster.cache.queues import queue_from_object
from cluster.exceptions import Conflict, NotFound, Overloaded, Refused, Unreachable
from cluster.object_reference import ObjectReference
from cluster.objects import Command, Metadata, QueueObject
from controller.context import QUEUES, ControllerContext
from queues import well_known
from queues.admission.queue_edits import opening_text
from queues.states import ACTIONS, Action, Desired, State, own_state
from queues.text import printable
from queues.windows.refusals import WindowError
from queues.windows.resuming import Resumed, resume_windows

BUS_VERSION = "bus.volcano.sh/v1alpha1"
#: The number of attempts while the queue changes in between.
TRIES = 10
#: Characters, as the definition of `spec.reason` has it.
REASON_LIMIT = 1024
MAX_RECORDED = 30

log = logging.getLogger(__name__)

_queue = msgspec.json.Decoder(QueueObject)
_command = msgspec.json.Decoder(Command)


class Acted(msgspec.Struct, frozen=True):
    """It was carried out. `state`: the queue's own state then; `desired`: what was written, if anything.
    `windows`: those that were ended."""

    command: Command
    queue: QueueObject
    state: State
    desired: Desired | None
    windows: tuple[str, ...] = ()


class ActedBefore(msgspec.Struct, frozen=True):
    """It was already recorded on the queue."""

    command: Command
    queue: QueueObject


class Dropped(msgspec.Struct, frozen=True):
    """It was not carried out, for this reason."""

    command: Command
    reason: str


CommandOutcome = Acted | ActedBefore | Dropped


class CommandExecutor:
    """Sends the requests of a Command and waits for the answers. For any thread but the controller's."""

    def __init__(self, context: ControllerContext) -> None:
        self._store = context.store
        self._client = context.client

    def execute(self, queue: str, command: Command, *, deliver: Callable[[CommandOutcome], object]) -> None:
        """Carry one Command out and delete it. `deliver` is given the outcome before the deletion.

        Raises `Overloaded` and `Unreachable`. After any other failure this Command backs off.
        """
        meta = command.metadata
        self._store.backoff.attempt(
            "command",
            meta.uid,
            partial(self._execute, queue, command, deliver),
            version=meta.version,
            queue=queue,
            subject=command_subject(command),
            through=(Overloaded, Unreachable),
        )

    def _execute(self, queue: str, command: Command, deliver: Callable[[CommandOutcome], object]) -> None:
        outcome = self._carry_out(queue, command)
        if outcome is not None:
            deliver(outcome)
            self._delete(command)

    def _carry_out(self, queue: str, command: Command) -> CommandOutcome | None:
        """None if it is gone, or if the queue changed at every try."""
        fault = target_fault(command)
        if fault:
            return Dropped(command, fault)
        for _ in range(TRIES):
            try:
                return self._try(queue, command)
            except Conflict:
                continue
        log.warning("command %s: queue %s changed at every try", command.metadata.name, queue)
        return None

    def _try(self, queue: str, command: Command) -> CommandOutcome | None:
        """One attempt. Raises `Conflict` if the queue has changed since it was read."""
        obj = self._fetch(queue)
        if obj is not None and command.metadata.uid in recorded_commands(obj):
            return ActedBefore(command, obj)
        if not self._exists(command):
            self._store.commands.drop(command.metadata.uid)
            return None
        reason = drop_reason(command, obj)
        if reason or obj is None:
            return Dropped(command, reason)
        try:
            return self._act(command, obj)
        except WindowError as exc:
            return Dropped(command, str(exc))
        except (Conflict, Overloaded):
            raise
        except Refused as exc:
            return Dropped(command, f"the API server refused the edit: {exc.message}")

    def _fetch(self, queue: str) -> QueueObject | None:
        try:
            return decode_response(self._client.get(f"{QUEUES}/{queue}"), _queue)
        except NotFound:
            return None

    def _exists(self, command: Command) -> bool:
        """Whether the API server has it now, and it is not being deleted."""
        meta = command.metadata
        try:
            stored = decode_response(self._client.get(_path(meta)), _command)
        except NotFound:
            return False
        return stored.metadata.uid == meta.uid and stored.metadata.deletion_timestamp is None

    def _act(self, command: Command, obj: QueueObject) -> Acted | Dropped:
        """The one write: the edit, if any, and the record."""
        own = self._own_state(obj)
        desired = ACTIONS[Action(command.action)][own]
        if desired is Desired.OPEN and obj.metadata.deletion_timestamp is not None:
            return Dropped(command, opening_text(obj.metadata.name))
        body: dict[str, Any] = {
            "metadata": {
                "resourceVersion": obj.metadata.resource_version,
                "annotations": {
                    well_known.COMMANDS: ",".join(self._commands_to_record(obj, command)),
                    well_known.ON_BEHALF_OF: command.metadata.annotation(well_known.AUTHOR),
                },
            }
        }
        if desired is not None:
            body["spec"] = {
                "state": desired.value,
                "reason": command_reason(command) or None,
                "resumeAt": None,
            }
        windows = self._resumed_windows(command, obj)
        if windows.overrides is not None:
            body.setdefault("spec", {})["windowOverrides"] = windows.overrides
        self._client.patch(f"{QUEUES}/{obj.metadata.name}", body)
        return Acted(command, obj, own, desired, windows.ended)

    def _resumed_windows(self, command: Command, obj: QueueObject) -> Resumed:
        """What suspends the queue by the calendar, a resume leaves out until it begins again."""
        if command.action != Action.RESUME:
            return Resumed()
        spec = {
            "windows": obj.spec.windows,
            "windowOverrides": obj.spec.window_overrides,
            "inWindow": obj.spec.in_window,
        }
        now, reason = self._store.clock.now(), command_reason(command)
        return resume_windows(spec, now=now, reason=reason, suspended_only=True)

    def _commands_to_record(self, obj: QueueObject, command: Command) -> list[str]:
        commands = self._store.commands.for_queue(obj.metadata.name)
        return with_command(
            recorded_commands(obj),
            command.metadata.uid,
            existing={existing.metadata.uid for existing in commands},
        )

    def _own_state(self, obj: QueueObject) -> State:
        store = self._store
        queue = queue_from_object(obj)
        tree = store.snapshot.tree.with_queue(queue)
        return own_state(
            queue.own_desired_at(store.clock.now()),
            broken=tree.chain(queue.name).broken is not None,
            live=store.live_members.below(queue.name, tree=tree) > 0,
            terminating=queue.terminating,
        )

    def _delete(self, command: Command) -> None:
        meta = command.metadata
        with contextlib.suppress(NotFound, Conflict):
            self._client.delete(_path(meta), {"preconditions": {"uid": meta.uid}})
        self._store.commands.drop(meta.uid)


def _path(meta: Metadata) -> str:
    return f"/apis/{BUS_VERSION}/namespaces/{meta.namespace}/commands/{meta.name}"


def command_subject(command: Command) -> ObjectReference:
    meta = command.metadata
    return ObjectReference(
        api_version=BUS_VERSION, kind="Command", name=meta.name, namespace=meta.namespace, uid=meta.uid
    )


def recorded_commands(obj: QueueObject) -> list[str]:
    """The UIDs of the Commands that the queue has recorded as carried out, oldest first."""
    return [uid for uid in obj.metadata.annotation(well_known.COMMANDS).split(",") if uid]


def with_command(recorded: list[str], uid: str, *, existing: Container[str]) -> list[str]:
    """The record with one more UID: the last ones, and before them older ones whose Command still exists."""
    last, before = recorded[-(MAX_RECORDED - 1) :], recorded[: -(MAX_RECORDED - 1)]
    older = [old for old in before if old in existing][-MAX_RECORDED:]
    return [*older, *last, uid]


def drop_reason(command: Command, obj: QueueObject | None) -> str:
    """Why the Command is dropped; "" if it is carried out. `obj`: the queue that it names, if it exists."""
    target = command.target
    if obj is None or target is None:
        return f'queue "{target.name if target else ""}" does not exist'
    if target.uid and target.uid != obj.metadata.uid:
        return f'queue "{target.name}" was deleted and made again since'
    if not command.metadata.annotation(well_known.AUTHOR):
        return "it bears no author, so it was created while the webhook was not asked; create it again"
    if command.action not in set(Action):
        return f'action "{printable(command.action, limit=80)}" is not known; use one of {", ".join(Action)}'
    return ""


def command_reason(command: Command) -> str:
    """Its message or reason on one line, without what admission would refuse in `spec.reason`."""
    return printable(command.message or command.reason, limit=REASON_LIMIT)
