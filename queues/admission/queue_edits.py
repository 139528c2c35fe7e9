"""What may be done to a Queue: which edits, which parents, which deletions.

Each function returns the refusal that the user reads, or None.
"""

from __future__ import annotations

from datetime import datetime

from queues import labels as names
from queues.membership import label_value, valid_name
from queues.messages import NAME_RULE
from queues.queue import BUILT_IN, DEFAULT, ROOT, Queue
from queues.states import Desired, State, edit_allowed
from queues.text import quoted
from queues.tree import Tree
from queues.verdict import CauseKind, Verdict

DEPTH_LIMIT = 5


def edit_refusal(before: Queue, after: Queue, *, own: State) -> str | None:
    """Whether the table of actions lets `spec.state` go from one to the other in own state `own`."""
    if edit_allowed(before.desired, after.desired, own=own):
        return None
    return (
        f'spec.state: queue "{after.name}" is {own} and cannot become {after.desired}; '
        f"open it first: kubectl queue open {after.name}"
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
    deepest = after.depth(queue.name) + _height(queue.name, after)
    if deepest > depth_limit:
        return (
            f'spec.parent: under "{parent}" the tree would be {deepest} levels deep, '
            f"and {depth_limit} are allowed; choose a parent nearer to root"
        )
    return None


def parent_pods_refusal(parent: str, *, pods: int) -> str | None:
    """No children under a queue that has pods; `root` is excepted, the parent of queues that name none."""
    if parent == ROOT or pods == 0:
        return None
    return (
        f'spec.parent: queue "{parent}" has {_several(pods, "pod")} of its own, and only a queue without '
        "pods can have queues below it; choose another parent, or move its work first; "
        f"see it with: kubectl get pods -A -l {names.QUEUE}={label_value(parent)}"
    )


ROOT_HAS_NO_PARENT = 'spec.parent: queue "root" is above all others and has no parent; leave the field out'

#: What a user can do in place of deleting a built-in queue.
_INSTEAD = {
    ROOT: "to stop every queue: kubectl queue suspend root",
    DEFAULT: "to have it take nothing: kubectl queue close default",
}


def deletion_refusal(verdict: Verdict, *, children: tuple[str, ...], settled: bool = True) -> str | None:
    """Only a Closed queue without children may be deleted, and `root` and `default` never.

    `settled`: its status shows Closed, so nothing that was admitted before can come any more.
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
    if verdict.state is not State.CLOSED and verdict.refusal and verdict.refusal.kind is CauseKind.CLOSED:
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
    return None


def _several(number: int, what: str) -> str:
    return f"{number} {what}" + ("s" if number > 1 else "")


def _height(name: str, tree: Tree) -> int:
    """Levels below a queue whose chain is whole."""
    height, level = 0, [name]
    while level := [child for parent in level for child in tree.children(parent)]:
        height += 1
    return height
