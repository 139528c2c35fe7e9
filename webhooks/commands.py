"""Commands (`bus.volcano.sh`): known actions only, and the author stamped over what was written.

Commands for anything but a Queue are left alone. That the author may update the queue, and that a
Command stays as it was said, is held by the API server itself (manifests/policies), so that it holds
while we are down.
"""

from __future__ import annotations

import msgspec

from cluster.objects import Command
from cluster.store import Store
from queues import names
from queues.editing import action_refusal
from queues.membership import valid_name
from queues.showing import shown
from queues.states import Action
from webhooks.patching import entries
from webhooks.review import ALLOWED, Answer, Request, refused, subject

_commands = msgspec.json.Decoder(Command)


def stamped(request: Request, *, store: Store) -> Answer:
    """The answer to the mutating webhook on CREATE."""
    command = subject(request.object, _commands)
    if command.target is None or command.target.kind != "Queue":
        return ALLOWED
    refusal = _refusal(command)
    if refusal:
        return refused(refusal, code=422)
    stamp: dict[str, str | None] = {names.AUTHOR: request.user_info.username}
    return Answer(
        patch=tuple(entries("/metadata/annotations", command.metadata.annotations, stamp)),
        warnings=_warnings(command.target.name, store=store),
    )


def _warnings(queue: str, *, store: Store) -> tuple[str, ...]:
    if queue in store.board.tree:
        return ()
    return (f'queue "{shown(queue, limit=60)}" does not exist; the Command will be dropped',)


def _refusal(command: Command) -> str | None:
    target = command.target
    assert target is not None  # noqa: S101 - the caller has seen to it
    if command.action not in set(Action):
        return (
            f'action: "{shown(command.action, limit=80)}" is not known for queues; '
            f"use one of {', '.join(Action)}"
        )
    if not valid_name(target.name):
        return f'target.name: "{shown(target.name, limit=80)}" is not the name of a queue'
    return action_refusal(target.name, Action(command.action))
