"""The mutating webhook for Commands (`bus.volcano.sh`), on CREATE.

The author is written on each Command, over what its user wrote there. A Command that means a queue and cannot
be carried out is denied (`queues.admission.command_validation`), as is one that opens a queue which is being
deleted. Commands for other kinds are left alone.

Two more rules are policies of the API server (manifests/policies), so that they hold while we are down: the
author must be allowed to update the queue, and a Command cannot be edited.
"""

from __future__ import annotations

import msgspec

from cluster.cache.store import Store
from cluster.objects import Command, OwnerReference
from queues import well_known
from queues.admission.command_validation import command_refusal, is_ours
from queues.admission.queue_edits import opening_text
from queues.states import Action, Desired
from queues.text import quoted
from webhooks.json_patch import patch_map
from webhooks.review import ALLOWED, ReviewAnswer, ReviewRequest, decode_object, deny

_commands = msgspec.json.Decoder(Command)


def mutate(request: ReviewRequest, *, store: Store) -> ReviewAnswer:
    """The answer to the mutating webhook on CREATE."""
    command = decode_object(request.object, _commands)
    target = command.target or OwnerReference()
    if not is_ours(target.kind):
        return ALLOWED
    refusal = command_refusal(
        command.action, api_version=target.api_version, kind=target.kind, name=target.name
    )
    if refusal:
        return deny(refusal, code=422)
    if (text := _opening(command.action, target.name, store=store)) is not None:
        return deny(text, code=422)
    author: dict[str, str | None] = {well_known.AUTHOR: request.user_info.username}
    return ReviewAnswer(
        patch=tuple(patch_map("/metadata/annotations", command.metadata.annotations, author)),
        warnings=_warnings(target.name, store=store),
    )


def _opening(action: str, name: str, *, store: Store) -> str | None:
    """Why a queue that is being deleted is not opened; None for any other queue and action."""
    queue = store.snapshot.tree.get(name)
    if queue is None or not queue.terminating:
        return None
    opens = action == Action.OPEN or (action == Action.RESUME and queue.desired is Desired.SUSPENDED)
    return opening_text(name) if opens else None


def _warnings(queue: str, *, store: Store) -> tuple[str, ...]:
    if queue in store.snapshot.tree:
        return ()
    return (f"queue {quoted(queue, limit=60)} does not exist; the Command will be dropped",)
