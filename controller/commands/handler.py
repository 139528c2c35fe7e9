"""Gives each queue's Commands to the executor, and records their outcomes as events and counts."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import partial

from cluster.cache.changes import NO_QUEUE, QueueChange, StoreChange
from cluster.objects import Command, QueueObject
from cluster.write_ranks import WriteRank
from controller.commands.executor import (
    Acted,
    ActedBefore,
    CommandExecutor,
    CommandOutcome,
    Dropped,
    command_reason,
    command_subject,
    recorded_commands,
)
from controller.context import RETRY_SECONDS, ControllerContext, queue_subject
from controller.parts import Part, attempt
from queues import well_known
from queues.messages import stop_text
from queues.snapshot import QueueDecision
from queues.states import Action

#: Commands of one queue that are carried out before other writes have their turn.
AT_ONCE = 10

log = logging.getLogger(__name__)


class CommandHandler(Part):
    """Owner: the controller's thread."""

    name = "commands"

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._executor = CommandExecutor(context)
        #: Queues with Commands under way.
        self._under_way: set[str] = set()
        #: UIDs of the Commands that an event was recorded for and that are not deleted yet.
        self._recorded: set[str] = set()
        #: Those whose Commands are looked at with the next step.
        self._changed: dict[str, None] = {}

    def record(self, changes: Mapping[str, Iterable[StoreChange]]) -> None:
        self._changed.update(dict.fromkeys(queue for queue in changes if queue != NO_QUEUE))

    def step(self) -> None:
        while self._changed:
            queue = next(iter(self._changed))
            del self._changed[queue]
            attempt(self._context.store, self.name, partial(self.execute, queue), queue=queue)

    def execute(self, queue: str) -> None:
        """Submit the Commands for one queue, `AT_ONCE` at most; the others follow when these have ended."""
        commands = [] if queue in self._under_way else self._waiting(queue)[:AT_ONCE]
        if not commands:
            return
        term, done = self._context.term(), set[str]()

        def send() -> bool:
            """A retry, after the API server did not answer, leaves out the Commands that were carried out."""
            for command in commands:
                if not self._context.leading() or self._context.term() != term:
                    return False
                if command.metadata.uid not in done:
                    self._executor.execute(queue, command, deliver=self._deliver)
                    done.add(command.metadata.uid)
            return True

        writers, key = self._context.writers, ("command", queue)
        receive = partial(self._end_batch, queue, commands)
        if self._context.submit(writers, key, send, receive, rank=WriteRank.STOP, queue=queue):
            self._under_way.add(queue)

    def _waiting(self, queue: str) -> list[Command]:
        commands = [
            command
            for command in self._context.store.commands.for_queue(queue)
            if command.metadata.deletion_timestamp is None  # else it was carried out; a finalizer keeps it
        ]
        wait = self._context.store.backoff.seconds_left
        commands = [
            command
            for command in commands
            if not wait("command", command.metadata.uid, version=command.metadata.version)
        ]
        obj = self._context.store.queues.get(queue)
        done = frozenset(recorded_commands(obj)) if obj is not None else frozenset()
        return sorted(
            commands, key=lambda command: (command.metadata.uid not in done, command.metadata.version)
        )

    def _deliver(self, outcome: CommandOutcome) -> None:
        """From another thread."""
        self._context.work_queue.deliver(partial(self._receive, outcome))

    def _end_batch(self, queue: str, commands: list[Command], _: bool | None) -> None:
        """These were tried, or given up: submit the next ones, or come back later."""
        self._under_way.discard(queue)
        tried = {command.metadata.uid for command in commands}
        waiting = {command.metadata.uid for command in self._waiting(queue)}
        present = {command.metadata.uid for command in self._context.store.commands.for_queue(queue)}
        self._recorded -= tried - present
        if waiting - tried:
            self._context.work_queue.add(queue, QueueChange.COMMANDS)
        elif waiting:
            self._context.work_queue.add_after(queue, QueueChange.COMMANDS, seconds=RETRY_SECONDS)

    def _receive(self, outcome: CommandOutcome) -> None:
        """Record the outcome of a Command."""
        match outcome:
            case Acted():
                self._record_act(outcome)
            case ActedBefore():
                self._record_again(outcome)
            case Dropped():
                self._record_drop(outcome)

    def _record_act(self, act: Acted) -> None:
        effect = (
            f"spec.state is {act.desired} now" if act.desired else f"nothing to do, the queue is {act.state}"
        )
        if act.windows:
            effect += f", and left out until they begin again: window {', '.join(act.windows)}"
        still = _still_stopped(self._context.store.snapshot.decision(act.queue.metadata.name))
        self._record(act.command, act.queue, f"{effect}{still}")
        self._count(act.command, "acted" if act.desired else "nothing")

    def _record_again(self, act: ActedBefore) -> None:
        """The replica that carried it out may have crashed before its event: record one, since two are better
        than none."""
        if act.command.metadata.uid not in self._recorded:
            self._record(act.command, act.queue, "carried out, though interrupted; see status.changes")

    def _record(self, command: Command, obj: QueueObject, effect: str) -> None:
        author = command.metadata.annotation(well_known.AUTHOR)
        why = f" ({reason})" if (reason := command_reason(command)) else ""
        message = f"{command.action} by {author}{why}: {effect}"
        self._recorded.add(command.metadata.uid)
        self._context.recorder.record(queue_subject(obj), reason=command.action, message=message)

    def _record_drop(self, drop: Dropped) -> None:
        command, meta = drop.command, drop.command.metadata
        self._context.recorder.record(
            command_subject(command), reason="CommandDropped", message=drop.reason, warning=True
        )
        self._count(command, "dropped")
        log.warning("command %s/%s dropped: %s", meta.namespace, meta.name, drop.reason)

    def _count(self, command: Command, outcome: str) -> None:
        action = command.action if command.action in set(Action) else "other"
        self._context.metrics.commands.labels(action, outcome).inc()


def _still_stopped(decision: QueueDecision) -> str:
    """That a queue above stops it, although its own state does not."""
    stop = decision.stop
    return f"; {stop_text(stop)}" if stop and stop.by != stop.queue else ""
