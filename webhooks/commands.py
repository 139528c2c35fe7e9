"""Commands (`bus.volcano.sh`): known actions only, and the author stamped over what was written.

Commands for other kinds are left alone, and those that mean a queue and cannot be acted on are refused
(`queues.admission.command_targets`). That the author may update the queue, and that a
Command stays as it was said, is held by the API server itself (manifests/policies), so that it holds
while we are down.
"""

from __future__ import annotations

import msgspec

from cluster.cache.store import Store
from cluster.objects import Command, OwnerReference
from queues import labels as names
from queues.admission.command_targets import is_ours, target_refusal
from queues.admission.queue_edits import action_refusal
from queues.states import Action
from queues.text import printable
from webhooks.json_patch import patch_map
from webhooks.review import ALLOWED, Answer, Request, decode_object, deny

_commands = msgspec.json.Decoder(Command)


def mutate(request: Request, *, store: Store) -> Answer:
    """The answer to the mutating webhook on CREATE."""
    command = decode_object(request.object, _commands)
    target = command.target or OwnerReference()
    if not is_ours(target.kind):
        return ALLOWED
    refusal = _refusal(command, target)
    if refusal:
        return deny(refusal, code=422)
    stamp: dict[str, str | None] = {names.AUTHOR: request.user_info.username}
    return Answer(
        patch=tuple(patch_map("/metadata/annotations", command.metadata.annotations, stamp)),
        warnings=_warnings(target.name, store=store),
    )


def _warnings(queue: str, *, store: Store) -> tuple[str, ...]:
    if queue in store.snapshot.tree:
        return ()
    return (f'queue "{printable(queue, limit=60)}" does not exist; the Command will be dropped',)


def _refusal(command: Command, target: OwnerReference) -> str | None:
    refusal = target_refusal(api_version=target.api_version, kind=target.kind, name=target.name)
    if refusal:
        return refusal
    if command.action not in set(Action):
        return (
            f'action: "{printable(command.action, limit=80)}" is not known for queues; '
            f"use one of {', '.join(Action)}"
        )
    return action_refusal(target.name, Action(command.action))
