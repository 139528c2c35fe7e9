"""What may be done to a Queue, and what an edit does to the fields of its stop.

Which edits, parents and deletions may be: each function returns the refusal that the user reads, or None.

An edit also removes `spec.reason` and `spec.resumeAt`, which belong to the stop that they were set with
(`fields_to_clear`). A review shows the queue before and after the edit. A value that is the same in both may
have been left as it was, or set once more. So:

| the stop           | a value that changed  | one that is the same                 |
|--------------------|-----------------------|--------------------------------------|
| is what it was     | stays                 | stays                                |
| ends               | `resumeAt` stays [1]  | goes                                 |
| begins             | stays                 | stays, a `resumeAt` in the past goes [2] |
| becomes another    | stays                 | stays if the request sets it, else goes |

[1] `reason` goes: it is in the history, and would become the reason of the next stop.
[2] The end of the stop before removed its own: what is there was written for the stop that begins.

A stop: `state` other than Open, or a `stopPolicy`. Closed has no `resumeAt`: one that is the same goes.
What a request sets, as far as the review shows it: `webhooks.queues.requested_fields`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from queues import well_known
from queues.apimachinery.quantities import format_quantity
from queues.apimachinery.timestamps import rfc3339
from queues.causes import CauseKind
from queues.fields.table import FIELDS
from queues.membership import label_value, valid_name
from queues.messages import NAME_RULE
from queues.queue import BUILT_IN, DEFAULT, ROOT, Amounts, Queue
from queues.states import Desired, State, StopPolicy, edit_allowed
from queues.text import join_limited, printable, quoted
from queues.tree import Tree
from queues.verdict import Verdict

DEPTH_LIMIT = 5
REASON, RESUME_AT = "reason", "resumeAt"
STOP_FIELDS = tuple(row.name for row in FIELDS if row.of_stop)


def edit_refusal(before: Queue, after: Queue, *, own: State) -> str | None:
    """Whether the table of actions lets `spec.state` go from one to the other in own state `own`."""
    if edit_allowed(before.desired, after.desired, own=own):
        return None
    way_out = (
        "it is being deleted, and nothing of it is left to stop"
        if before.terminating
        else f"open it first: kubectl queue open {after.name}"
    )
    return f'spec.state: queue "{after.name}" is {own} and cannot become {after.desired}; {way_out}'


def termination_refusal(before: Queue, after: Queue, *, now: datetime) -> str | None:
    """A queue that is being deleted is not opened: no edit lets it take work again."""
    is_opened = after.desired is Desired.OPEN and before.own_desired_at(now) is not Desired.OPEN
    return f"spec.state: {opening_text(after.name)}" if after.terminating and is_opened else None


def opening_text(name: str) -> str:
    """Why a queue that is being deleted cannot be opened, and the way out."""
    return (
        f'queue "{name}" is being deleted and cannot be opened; '
        f"once it is gone, create it with: kubectl queue create {name}"
    )


def spec_refusal(queue: Queue) -> str | None:
    """What no spec may ask for, whatever was there before."""
    if queue.name == ROOT and queue.desired is Desired.CLOSED:
        return (
            'spec.state: queue "root" cannot be Closed; '
            "to stop every queue suspend it: kubectl queue suspend root"
        )
    if queue.resume_time is not None and queue.desired is Desired.CLOSED:
        return (
            f'spec.resumeAt: "{queue.resume_time.isoformat()}" cannot be set with spec.state Closed, '
            "which no time undoes; remove spec.resumeAt or use spec.state Suspended"
        )
    return None


def deadline_refusal(
    before: datetime | None, after: datetime | None, *, now: datetime, begins: bool = False
) -> str | None:
    """A `spec.drain.deadline` in the past is refused where it is set, and where the drain `begins`.

    One that has passed since may stay. `now` is the API server's time, which drains go by.
    """
    if after is None or after > now or (after == before and not begins):
        return None
    return (
        f'spec.drain.deadline: "{after.isoformat()}" is in the past, it is '
        f"{now.isoformat(timespec='seconds')}; set a time to come, or remove it"
    )


def resume_time_refusal(before: Queue | None, after: Queue, *, now: datetime) -> str | None:
    """A `spec.resumeAt` in the past is refused where it is set, and with a stop that begins.

    Such a stop would be over before it began. One that has passed since may stay.
    """
    at = after.resume_time
    if at is None or at > now:
        return None
    begins = before is not None and is_stop_changed(before, after) and has_stop(after)
    if before is not None and before.resume_time == at and not begins:
        return None
    return (
        f'spec.resumeAt: "{rfc3339(at)}" is in the past, it is {rfc3339(now)}, so nothing would be stopped; '
        "set a time to come, or remove spec.resumeAt"
    )


def parent_refusal(queue: Queue, *, tree: Tree, depth_limit: int = DEPTH_LIMIT) -> str | None:
    """Whether the queue may stand under its parent: one that exists, above it, and not too deep."""
    if queue.name == ROOT:
        return ROOT_HAS_NO_PARENT if queue.parent else None
    parent = queue.parent or ROOT
    if parent == queue.name:
        return f"spec.parent: queue {queue.name} cannot use itself as parent"
    if parent not in tree:
        return f"spec.parent: queue {quoted(parent)} does not exist; " + (
            f"create it first: kubectl queue create {parent}" if valid_name(parent) else NAME_RULE
        )
    after = tree.with_queue(queue)
    broken = after.chain(queue.name).broken
    if broken is not None:
        return f"spec.parent: {broken}; choose a parent whose chain reaches root"
    return _leaving_refusal(queue, after) or _depth_refusal(queue, after, depth_limit=depth_limit)


def _leaving_refusal(queue: Queue, after: Tree) -> str | None:
    leaving = next((each for each in after.chain(queue.name).queues[1:] if each.terminating), None)
    if leaving is None:
        return None
    return f"spec.parent: queue {quoted(leaving.name)} is being deleted; choose another parent"


def _depth_refusal(queue: Queue, after: Tree, *, depth_limit: int) -> str | None:
    deepest = after.depth(queue.name) + _height(queue.name, after)
    if deepest <= depth_limit:
        return None
    return (
        f'spec.parent: under "{queue.parent or ROOT}" the tree would be {deepest} levels deep, '
        f"and {depth_limit} are allowed; choose a parent nearer to root"
    )


def return_refusal(queue: Queue, *, former: str | None) -> str | None:
    """A queue that went while it had work comes back where that counts. Else to delete it and to create it
    anew would move its work. `former`: below which queue it was; None where there is no work of it.
    """
    parent = queue.parent or ROOT
    if former is None or parent == former:
        return None
    return (
        f"spec.parent: a queue {quoted(queue.name)} was deleted while it had work, which counts in queue "
        f"{quoted(former)}; create it there, and move it then: "
        f"kubectl queue create {queue.name} --parent {former}"
    )


def parent_pods_refusal(parent: str, *, pods: int) -> str | None:
    """No children under a queue that has pods; `root` is excepted, the parent of queues that name none."""
    if parent == ROOT or pods == 0:
        return None
    return (
        f'spec.parent: queue "{parent}" has {_several(pods, "pod")} of its own, and only a queue without '
        "pods can have queues below it; choose another parent, or move its work first; "
        f"see it with: kubectl get pods -A -l {well_known.QUEUE}={label_value(parent)}"
    )


ROOT_HAS_NO_PARENT = 'spec.parent: queue "root" is above all others and has no parent; leave the field out'

#: Why a queue without live members is Closed.
_CLOSING = frozenset({CauseKind.CLOSED, CauseKind.TERMINATING})
#: Namespaces that a warning names.
_NAMESPACES = 3

#: What a user can do in place of deleting a built-in queue.
_INSTEAD = {
    ROOT: "to stop every queue: kubectl queue suspend root",
    DEFAULT: "to have it take nothing: kubectl queue close default",
}


def deletion_warning(name: str, *, namespaces: Sequence[str]) -> str:
    """What waits for ever once the queue is gone; "" if no namespace names it."""
    if not namespaces:
        return ""
    named = join_limited([quoted(each) for each in sorted(namespaces)], limit=_NAMESPACES)
    verb, what = ("names", "namespace") if len(namespaces) == 1 else ("name", "namespaces")
    return (
        f"{what} {named} still {verb} queue {quoted(name)}: new work there waits until a queue of this name "
        "is created, or another one is named"
    )


def deletion_refusal(
    verdict: Verdict, *, children: tuple[str, ...], settled: bool = True, counts: Amounts = ()
) -> str | None:
    """Only a Closed queue without children may be deleted, and `root` and `default` never.

    `settled`: its status shows Closed, so nothing that was admitted before can come any more. `counts`: what
    its pods take of a quota above it, though none of them keeps it from Closed.
    """
    name = verdict.queue
    if name in BUILT_IN:
        return f"`{name}` queue can not be deleted; {_INSTEAD[name]}"
    if children:
        return (
            f'queue "{name}" cannot be deleted: it has {_several(len(children), "child queue")} '
            f"({', '.join(children[:3])}{', ...' if len(children) > 3 else ''}); "
            "delete or move them first"
        )
    if verdict.state is not State.CLOSED and verdict.refusal and verdict.refusal.kind in _CLOSING:
        return (
            f'queue "{name}" is {verdict.state} and can be deleted once it is Closed, '
            "when its members have ended; "
            f"see what keeps it with: kubectl queue why {name}"
        )
    if verdict.state is not State.CLOSED:
        return (
            f'queue "{name}" is {verdict.state} and only a Closed queue can be deleted; '
            f"close it first: kubectl queue close {name}"
        )
    if not settled:
        return (
            f'queue "{name}" is being closed: what was admitted to it before may still come; '
            f"delete it once it shows Closed: kubectl get queue {name} -w"
        )
    return _counts_refusal(name, counts) if counts else None


def _counts_refusal(name: str, counts: Amounts) -> str:
    amounts = ", ".join(f"{resource} {format_quantity(amount, resource)}" for resource, amount in counts)
    return (
        f'queue "{name}" cannot be deleted yet: pods of it use {printable(amounts)} of a quota above it, '
        "in namespaces that it does not select, or deleted by force, and would count nowhere; "
        f"evict them with: kubectl queue drain {name}"
    )


def is_stop_changed(before: Queue, after: Queue) -> bool:
    """Whether the stop of `after` is another one than that of `before`."""
    return (before.desired, before.stop_policy) != (after.desired, after.stop_policy)


def has_stop(queue: Queue) -> bool:
    """Whether the queue's own spec stops or closes it."""
    return queue.desired is not Desired.OPEN or queue.stop_policy is not StopPolicy.NONE


def fields_to_clear(
    before: Queue, after: Queue, *, same: Collection[str], set_anew: Collection[str], now: datetime
) -> tuple[str, ...]:
    """The fields that are to be removed.

    `same`: the fields that are there with the same value before and after. `set_anew`: those that the
    request sets, whatever was there before.
    """
    if not is_stop_changed(before, after):
        return ()
    if not has_stop(after):
        return tuple(field for field in STOP_FIELDS if field in same or (field == REASON and after.reason))
    if not has_stop(before):
        return tuple(field for field in STOP_FIELDS if field in same and _is_past(field, after, now=now))
    return tuple(field for field in STOP_FIELDS if field in same and field not in set_anew)


def _several(number: int, what: str) -> str:
    return f"{number} {what}" + ("s" if number > 1 else "")


def _height(name: str, tree: Tree) -> int:
    """Levels below a queue whose chain is whole."""
    height, level = 0, [name]
    while level := [child for parent in level for child in tree.children(parent)]:
        height += 1
    return height


def _is_past(field: str, queue: Queue, *, now: datetime) -> bool:
    return field == RESUME_AT and (queue.desired is Desired.CLOSED or queue.is_resumed(now))
