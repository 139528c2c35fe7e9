"""What lacks of a quota, in sentences: for a pod that waits for room, and for a queue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from kubectl_queue.views.text import age, plural
from queues.membership import valid_name
from queues.quota.lack import LackKind
from queues.text import printable, quoted
from queues.why.explanation import Claimant, Explanation, QueueQuota, Room

#: Characters of a condition's message.
_MESSAGE_LIMIT = 1000
#: What holds the pod back, where it is not the capability.
_KINDS = {
    LackKind.GUARANTEES.value: "what is left is set aside for what other queues are guaranteed",
    LackKind.OVERCOMMIT.value: "as much as the scheduling policy lets wait on the nodes is let go",
    LackKind.CLAIM.value: "a pod that has waited longest has a claim on what is left",
    LackKind.TURN.value: "gangs that were let go in vain go one at a time, and another one is on its way",
    LackKind.GIVEN_BACK.value: "pods are being evicted to give it what its queue deserves",
    LackKind.DEVICES.value: "its capability names devices, and what the pod claims cannot be counted",
    LackKind.CLAIM_ABSENT.value: "its capability names devices, and a claim of the pod is not there",
    LackKind.CLAIMS_UNREAD.value: "its capability names devices, and no claims could be read",
    LackKind.NO_QUEUE.value: "it does not exist, or its chain is broken",
}
#: Pods that are gone, and count for the grace period of their spec.
FORCE_DELETED = "pods that were deleted by force and may still run"
#: What the leader waits for, where nothing else lacks.
_LEADER_LETS_GO = {
    LackKind.CLAIM.value: (
        "the leader, once the pod that has waited longer has what it requests, or its claim has ended, "
        "after 5 minutes at most"
    ),
    LackKind.TURN.value: "the leader, once the other gang has nodes, or has given up",
    LackKind.GIVEN_BACK.value: "the leader, once the pods that are being evicted for it have ended",
    LackKind.OVERCOMMIT.value: (
        "the leader, once the pods that were let go have nodes, others end, or nodes are added"
    ),
}


def room_texts(explanation: Explanation, *, now: datetime) -> Iterator[tuple[str, Sequence[str]]]:
    """Sections of a pod that waits for room: what has none, who holds it, who has a claim on it, its place,
    and what lets it go.
    """
    room, membership = explanation.room, explanation.membership
    if room is None or membership is None:
        return
    if room.gang:
        yield "Gang", [printable(room.gang)]
        yield "Let go by", ["the leader, once all pods with which its PodGroup starts may go together"]
        return
    own = membership.queue or ""
    yield "No room in", [_lack(room), *_force_deleted(room)] if room.queue else []
    yield "Held by", [_holders(room, own)] if room.holders else []
    yield "Claimed by", [*(_claimant(each, now=now) for each in room.claimants), *_own_claims(room)]
    yield "In line", [_place(room, own)]
    yield "Since", [f"{printable(room.since)} ({age(room.since, now=now)} ago)"] if room.since else []
    yield "Let go by", [_way_out(room)]


def _lack(room: Room) -> str:
    queue = f"queue {quoted(room.queue)}"
    resource = printable(room.resource)
    if room.kind in _KINDS:
        names = [quoted(name) if name else "one of a template, not made yet" for name in room.claims]
        return f"{queue}: {_KINDS[room.kind]}" + (f": {', '.join(names)}" if names else "")
    if room.never:
        return (
            f"{queue}: it requests {resource} {room.requested} of a capability of {room.limit}: it never fits"
        )
    used = f"{resource} {room.used} of {room.limit} is used"
    requests = f"the {room.together} pods that start together request" if room.together else "it requests"
    return f"{queue}: {used}, {requests} {room.requested}, and {room.missing} of that is missing"


def _force_deleted(room: Room) -> list[str]:
    what = f"{room.force_deleted} of the {printable(room.resource)} that is used is of {FORCE_DELETED}"
    return [what] if room.force_deleted else []


def _holders(room: Room, own: str) -> str:
    resource = printable(room.resource)
    return ", ".join(
        f"queue {quoted(each.queue)}{' (its own)' if each.queue == own else ''} {resource} {each.amount}"
        for each in room.holders
    )


def _claimant(claimant: Claimant, *, now: datetime) -> str:
    created = f", created {printable(claimant.since)} ({age(claimant.since, now=now)} ago)"
    return (
        f"pod {printable(claimant.pod)} of queue {quoted(claimant.pod_queue)}{created}: "
        f"those behind it leave it room in queue {quoted(claimant.queue)}"
    )


def _own_claims(room: Room) -> list[str]:
    whose = f"pod {printable(room.pod)}" if room.pod else "it"
    return [f"{whose}: those behind it leave it room in queue {quoted(queue)}" for queue in room.claims_in]


def _place(room: Room, own: str) -> str:
    whose = f"pod {printable(room.pod)}" if room.pod else "it"
    if room.place is None:
        return f"not known: you may not list the pods of queue {quoted(own)} in all namespaces"
    if room.place == 1:
        others = f", {(room.waiting or 1) - 1} behind it" if room.waiting != 1 else ""
        return f"{whose} is the first of queue {quoted(own)}{others}{_by_pods(room)}"
    more = room.place - 1 - len(room.before)
    names = ", ".join(printable(name) for name in room.before) + (f" and {more} more" if more else "")
    place = f"{whose} is {room.place}" if room.pod else f"{room.place}"
    return f"{place} of {room.waiting} in queue {quoted(own)}; before it: {names}{_by_pods(room)}"


def _by_pods(room: Room) -> str:
    return f"; by the priorities of pods: you may not list {room.unread}" if room.unread else ""


def _way_out(room: Room) -> str:
    if room.has_room and room.kind in _LEADER_LETS_GO:
        return _LEADER_LETS_GO[room.kind]
    if room.has_room:
        return (
            "the leader: nothing of its chain lacks room for it now; pods of other queues may go first, "
            "and one that has waited longer may have a claim on it"
        )
    command = f": kubectl edit queue {room.queue}" if valid_name(room.queue) else ""
    if room.kind != LackKind.CAPABILITY.value:
        return "itself, once that changes"
    if room.never:
        return f"an admin of queues, who raises the capability{command}; or request less"
    return f"itself, once others end; an admin of queues may raise the capability{command}"


def quota_lines(quota: QueueQuota) -> list[str]:
    """A line for each resource, and how many wait."""
    lines = [_standing(printable(name), amounts) for name, amounts in quota.resources.items()]
    lines.append(f"{plural(quota.waiting, 'pod')} {'waits' if quota.waiting == 1 else 'wait'} for room")
    return [*lines, *([printable(quota.not_enforced, limit=_MESSAGE_LIMIT)] if quota.not_enforced else [])]


def _standing(resource: str, amounts: Mapping[str, str]) -> str:
    limit = f" of {amounts['limit']}" if "limit" in amounts else ""
    parts = [f"{resource} {amounts.get('used', 'not known')}{limit} used"]
    for key, words in (("deserved", "deserves"), ("guarantee", "is guaranteed")):
        if key in amounts:
            parts.append(f"{words} {amounts[key]}")
    if "forceDeleted" in amounts:
        parts.append(f"{amounts['forceDeleted']} of that by {FORCE_DELETED}")
    parts += [f"{key} {amounts[key]}" for key in ("lent", "borrowed") if amounts.get(key, "0") != "0"]
    return ", ".join(parts)
