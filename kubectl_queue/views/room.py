"""What lacks of a quota, in sentences: for a pod that waits for room, and for a queue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from kubectl_queue.views.text import age, plural
from queues.contacts import ADMIN, CONTACT_LIMIT
from queues.membership import valid_name
from queues.quota.lack import LackKind
from queues.text import printable, quoted
from queues.well_known import FORCE_DELETED_ENDED
from queues.why.explanation import Claimant, Explanation, Holder, QueueQuota, Room
from queues.why.gang import JOBS

#: Characters of a condition's message.
_MESSAGE_LIMIT = 1000
#: What counts though no pod uses it, by its name in the status.
BESIDE_TEXTS = {
    "releasing": "of pods that are being released",
    "ungated": "of pods without a gate that may be bound",
    "setAside": "set aside for pods that wait while others are evicted for them",
    "guaranteedBelow": "guaranteed to queues below it",
    "claimed": "claimed by a pod that waits",
}
#: What holds the pod back, where it is not the capability.
_KINDS = {
    LackKind.GUARANTEES.value: "what is left is set aside for what other queues are guaranteed",
    LackKind.OVERCOMMIT.value: "as much as the scheduling policy lets wait on the nodes is let go",
    LackKind.CLAIM.value: "a pod that has waited longest has a claim on what is left",
    LackKind.TURN.value: (
        "its gang got too few nodes before, and of those that share a capability one is tried at a time"
    ),
    LackKind.GIVEN_BACK.value: "pods are being evicted to give it what its queue deserves",
    LackKind.DEVICES.value: "its capability names devices, and what the pod claims cannot be counted",
    LackKind.CLAIM_ABSENT.value: "its capability names devices, and a claim of the pod is not there",
    LackKind.CLAIMS_UNREAD.value: "its capability names devices, and no claims could be read",
    LackKind.NO_QUEUE.value: "it does not exist, or its chain is broken",
}
#: Pods that are gone, and count for the grace period of their spec.
FORCE_DELETED = "pods that were deleted by force and may still run"
#: What an admin writes once they do not run.
_ENDED_NOW = f"{FORCE_DELETED_ENDED}=$(date -u +%FT%TZ)"
#: What the leader waits for, where nothing else lacks.
_LEADER_LETS_GO = {
    LackKind.CLAIM.value: (
        "the leader, once the pod that has waited longer has what it requests, or its claim has ended, "
        "after 5 minutes at most"
    ),
    LackKind.TURN.value: "the leader, in the gang's turn: each lasts 10 minutes at most",
    LackKind.GIVEN_BACK.value: "the leader, once the pods that are being evicted for it have ended",
    LackKind.OVERCOMMIT.value: (
        "the leader, once the pods that were let go have nodes, others end, or nodes are added"
    ),
    LackKind.BOOK.value: (
        "the leader, once it can write its ConfigMap sluice-quota again: kubectl queue status, and condition "
        "QuotaEnforced of the queue, say what refuses that"
    ),
}


def room_texts(explanation: Explanation, *, now: datetime) -> Iterator[tuple[str, Sequence[str]]]:
    """Sections of a pod that waits for room: what has none, who holds it, who has a claim on it, its place,
    and what lets it go.
    """
    room, membership = explanation.room, explanation.membership
    if room is None or membership is None:
        return
    if room.gang and room.kind == LackKind.GATE.value:
        yield "Gate", [printable(room.gang)]
        yield "Let go by", ["who removes that gate; then the leader, as others of its queue"]
        return
    if room.gang:
        yield "Gang", [printable(room.gang)]
        yield "Let go by", ["the leader, once all pods with which its PodGroup starts may go together"]
        return
    own = membership.queue or ""
    yield "No room in", _no_room(room) if room.queue else _quoted_lack(room, own)
    yield "Held by", [_holders(room, own)] if room.holders else []
    yield "Claimed by", [*(_claimant(each, now=now) for each in room.claimants), *_own_claims(room)]
    yield "Not evicted", [printable(room.kept, limit=_MESSAGE_LIMIT)] if room.kept else []
    yield "In line", [_place(room, own, namespace=explanation.object.namespace)]
    yield "Since", [f"{printable(room.since)} ({age(room.since, now=now)} ago)"] if room.since else []
    yield "Let go by", [_way_out(room)]


def _no_room(room: Room) -> list[str]:
    return [_lack(room), *_force_deleted(room), *_kept_for_gangs(room), *_beside(room)]


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


def _quoted_lack(room: Room, own: str) -> list[str]:
    """Of a queue that may not be read, as the pod says it."""
    if not room.said:
        return []
    queue, said = f"queue {quoted(own)}", printable(room.said, limit=_MESSAGE_LIMIT)
    requests = f"; {_whose(room)} requests {printable(room.requests)}" if room.requests else ""
    unread = f"queue {quoted(room.unread_queue or own)}"
    return [f"{queue}: {said}{requests}", f"how much is missing, and who holds it: you may not read {unread}"]


def _whose(room: Room) -> str:
    return f"pod {printable(room.pod)}" if room.pod else "it"


def _force_deleted(room: Room) -> list[str]:
    if not room.force_deleted:
        return []
    what = f"{room.force_deleted} of the {printable(room.resource)} that is used is of {FORCE_DELETED}"
    command = f"kubectl annotate queue {printable(room.queue)} {_ENDED_NOW} --overwrite"
    return [f"{what}; once their nodes have ended them, {_admin(room)} says so: {command}"]


def _admin(room: Room) -> str:
    """Whom to ask about the queue that lacks room."""
    return printable(room.contact, limit=CONTACT_LIMIT) if room.contact else ADMIN


def _kept_for_gangs(room: Room) -> list[str]:
    if not room.kept_for_gangs:
        return []
    groups = ", ".join(printable(name) for name in room.kept_for)
    resource = printable(room.resource)
    return [f"{room.kept_for_gangs} of the {resource} that is used is kept for gangs: podgroup {groups}"]


def _beside(room: Room) -> list[str]:
    of_resource = f"of the {printable(room.resource)} that is used"
    return [f"{amount} {of_resource} is {BESIDE_TEXTS[name]}" for name, amount in room.beside.items()]


def _holders(room: Room, own: str) -> str:
    return ", ".join(_holder(each, room, own) for each in room.holders)


def _holder(holder: Holder, room: Room, own: str) -> str:
    resource = printable(room.resource)
    marks = [*(["itself"] if holder.itself else []), *(["its own"] if holder.queue == own else [])]
    queue = f"queue {quoted(holder.queue)}" + (f" ({', '.join(marks)})" if marks else "")
    deeper = f" ({resource} {holder.own} of that by queue {quoted(own)}, its own)" if holder.own else ""
    return f"{queue} {resource} {holder.amount}{deeper}"


def _claimant(claimant: Claimant, *, now: datetime) -> str:
    created = f", created {printable(claimant.since)} ({age(claimant.since, now=now)} ago)"
    return (
        f"pod {printable(claimant.pod)} of queue {quoted(claimant.pod_queue)}{created}: "
        f"those behind it leave it room in queue {quoted(claimant.queue)}"
    )


def _own_claims(room: Room) -> list[str]:
    whose = _whose(room)
    return [f"{whose}: those behind it leave it room in queue {quoted(queue)}" for queue in room.claims_in]


def _place(room: Room, own: str, *, namespace: str) -> str:
    whose = _whose(room)
    if room.place is None:
        unlisted = f"not known: you may not list the pods of queue {quoted(own)} in all namespaces"
        return f"{unlisted}{_place_here(room, namespace)}{_number(room)}"
    if room.place == 1:
        others = f", {(room.waiting or 1) - 1} behind it" if room.waiting != 1 else ""
        return f"{whose} is the first of queue {quoted(own)}{others}{_by_pods(room)}"
    place = f"{whose} is {room.place}" if room.pod else f"{room.place}"
    return f"{place} of {room.waiting} in queue {quoted(own)}{_before(room, room.place)}{_by_pods(room)}"


def _place_here(room: Room, namespace: str) -> str:
    """Among the pods of its namespace."""
    if room.place_here is None:
        return ""
    place = f"; {_whose(room)} is {room.place_here} of {room.waiting_here} of namespace {quoted(namespace)}"
    return f"{place}{_before(room, room.place_here)}{_by_pods(room)}"


def _number(room: Room) -> str:
    """How many wait in the queue, as that says."""
    if room.in_queue is None:
        return ""
    return f"; {plural(room.in_queue, 'pod')} {'waits' if room.in_queue == 1 else 'wait'} in that queue"


def _before(room: Room, place: int) -> str:
    more = place - 1 - len(room.before)
    names = ", ".join(printable(name) for name in room.before) + (f" and {more} more" if more else "")
    return f"; before it: {names}" if names else ""


def _by_pods(room: Room) -> str:
    kinds = room.unread.split(", ") if room.unread else []
    ranks = "".join(f"; by the priorities of pods: you may not list {each}" for each in kinds if each != JOBS)
    gangs = "; gangs of which pods have completed may be missing: you may not read Jobs"
    return f"{ranks}{gangs if JOBS in kinds else ''}"


def _way_out(room: Room) -> str:
    if room.lets_go:
        return printable(room.lets_go, limit=_MESSAGE_LIMIT)
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
    admin = _admin(room)
    if room.never:
        return f"{admin}, who raises the capability{command}; or request less"
    return f"itself, once others end; {admin} may raise the capability{command}"


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
    if "keptForGangs" in amounts:
        parts.append(f"{amounts['keptForGangs']} of that kept for gangs")
    parts += [f"{amounts[key]} beside that {text}" for key, text in BESIDE_TEXTS.items() if key in amounts]
    parts += [f"{key} {amounts[key]}" for key in ("lent", "borrowed") if amounts.get(key, "0") != "0"]
    return ", ".join(parts)
