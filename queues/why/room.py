"""Why a pod has no room in a quota, by the rules with which the leader releases pods (`queues.quota`).

Promises
- Who is next, what has room and what lacks is asked of one `ReleasePass` over the pods that were read, and
  over what the statuses of the queues say is used. So it may be a second old.
- Pods of other queues, which may go first, are not among them: where there is room, others may take it.
- What the leader alone knows is not among it: claims, and what nodes have. Where nothing else lacks, that is
  taken from what the leader has written on the pod.
- Who has a claim is what the statuses of the queues of its chain say, and not reckoned here: since when a pod
  lacks room, and which claims of it have ended, is known to the leader alone.
- What was not read is not guessed: a queue above that says nothing of its use uses what those below it say.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile

import msgspec

from queues.apimachinery.quantities import Amount, format_quantity
from queues.apimachinery.timestamps import rfc3339
from queues.messages import is_other_gate_text, quoted_no_room
from queues.quota.devices import (
    ClaimRef,
    Devices,
    device_class_in,
    no_claims,
    shared_claim,
    shared_counts,
)
from queues.quota.guarantees import lending_queues
from queues.quota.lack import Lack, LackKind
from queues.quota.ledger import ALL_PODS, AmountReason, Ledger
from queues.quota.pod_classes import Rank, WaitingPod
from queues.quota.release_order import ReleasePass
from queues.quota.report import amounts_text
from queues.quota.rules import Rules
from queues.quota.usage import PODS
from queues.quota.waiting_index import WaitingIndex
from queues.tree import Tree
from queues.why.explanation import Claimant, Holder, ObservedQueues, Room

#: Pods that are named as going before.
NAMED_BEFORE = 3
#: Rules whose facts are not read here.
KNOWN_BY_THE_LEADER = frozenset(
    {LackKind.CLAIM, LackKind.GIVEN_BACK, LackKind.OVERCOMMIT, LackKind.TURN, LackKind.BOOK}
)
#: What counts beside what is used, by its name in the status. Of pods that are being released, and of those
#: without a gate, it is not known here whether they are among those that stand in line.
_COUNTED = {"setAside": AmountReason.SET_ASIDE}
#: Queues that are named as holding what lacks.
HOLDERS = 3


class ObservedLine(msgspec.Struct, frozen=True, kw_only=True):
    """Who waits for room in one queue: pods, and minimums of gangs. `names`: of pods and PodGroups, by UID.
    `whole`: all of the queue, not only those of one namespace. `taken`: claims of devices that pods were
    released with: they count already. `groups`: the PodGroups that pods name, NAMESPACE/NAME, by UID.
    `first`: the UIDs of those before all others, whatever their rank. `reasons`: why pods are not in line, in
    words, by UID. `unread`: the
    kinds that may not be read, so that they do not stand in line as the leader has them; "" for none.
    """

    pods: Sequence[WaitingPod]
    names: Mapping[str, str]
    whole: bool = True
    taken: Collection[ClaimRef] = ()
    groups: Mapping[str, str] = {}
    first: Collection[str] = ()
    reasons: Mapping[str, str] = {}
    unread: str = ""

    def place_of(self, pod: WaitingPod) -> tuple[bool, Rank]:
        """By which it is before others, or behind them."""
        return pod.uid not in self.first, pod.rank

    def entry_of(self, uid: str) -> WaitingPod | None:
        """What the pod, or the minimum of a PodGroup, stands in line as; None where it stands in none."""
        return next((each for each in self.pods if uid in {each.uid, *each.uids}), None)


def with_gang(pod: WaitingPod, line: ObservedLine | None, *, together: int) -> WaitingPod:
    """The pod with the others of its PodGroup that go with it, so many in all, as one entry; where PodGroups
    may not be read. Which of them go is the leader's to say: as far as known here, the first ones.
    """
    group = line.groups.get(pod.uid) if line is not None else None
    if line is None or not group or together <= 1:
        return pod
    others = [each for each in line.pods if each.uid != pod.uid and line.groups.get(each.uid) == group]
    chosen = [pod, *sorted(others, key=lambda each: each.rank)[: together - 1]]
    amounts: dict[str, Amount] = {}
    for each in chosen:
        for resource, amount in each.requests:
            amounts[resource] = amounts.get(resource, 0) + amount
    return WaitingPod(
        uid=pod.uid,
        queue=pod.queue,
        requests=tuple(sorted(amounts.items())),
        priority=max(each.priority for each in chosen),
        since=min(each.since for each in chosen),
        pods=tuple(each.uid for each in chosen),
    )


def room_of(
    pod: WaitingPod,
    *,
    line: ObservedLine | None,
    queues: ObservedQueues,
    devices: Devices | None = None,
    said: LackKind | None = None,
) -> Room:
    """`line`: None where pods may not be listed; then the place of the pod in it is not known. `devices`:
    where a capability of its chain names a class of devices. `said`: by which rule it has no room, as it says
    itself.
    """
    others, before = _others(pod, line)
    taken = line.taken if line is not None else ()
    ledger = _ledger(pod.queue, queues, devices, taken=taken, said=said)
    lack = _lack(pod, others, queues=queues, ledger=ledger) if said is not LackKind.BOOK else None
    room = msgspec.structs.replace(
        _in_line(pod, line, others=others, before=before),
        has_room=lack is None,
        kind=said.value if lack is None and said in KNOWN_BY_THE_LEADER else "",
        contact=queues.tree.contact_of(pod.queue),
        in_queue=queues.record(pod.queue).waiting if line is None or not line.whole else None,
    )
    return room if lack is None else _with_lack(room, lack, pod, queues=queues, said=said)


def unread_room(
    pod: WaitingPod, *, line: ObservedLine | None, message: str, said: LackKind | None = None
) -> Room:
    """Why it has no room where its queue may not be read. `message`: of its condition; `said`: by which rule,
    as that says.
    """
    others, before = _others(pod, line)
    quoted = quoted_no_room(message, queue=pod.queue)
    requested = {name: amount for name, amount in pod.requests if amount and name != PODS}
    return msgspec.structs.replace(
        _in_line(pod, line, others=others, before=before),
        kind=said.value if said is not None else "",
        never=quoted.never,
        said=quoted.why,
        lets_go=quoted.way_out,
        requests=amounts_text(requested),
    )


def _others(pod: WaitingPod, line: ObservedLine | None) -> tuple[list[WaitingPod], list[WaitingPod]]:
    """Those in line beside it, and those of them that go before it, in their order."""
    own = {pod.uid, *pod.uids}
    others = [] if line is None else [each for each in line.pods if own.isdisjoint((each.uid, *each.uids))]
    if line is None:
        return others, []
    place = line.place_of(pod)
    before = sorted((each for each in others if line.place_of(each) < place), key=line.place_of)
    return others, before


def _in_line(
    pod: WaitingPod,
    line: ObservedLine | None,
    *,
    others: Sequence[WaitingPod],
    before: Sequence[WaitingPod],
) -> Room:
    """Its place, in its queue or among those of its namespace."""
    room = Room(together=len(pod.uids) if len(pod.uids) > 1 else 0, since=rfc3339(pod.since))
    if line is None:
        return room
    place, waiting = len(before) + 1, len(others) + 1
    room = msgspec.structs.replace(
        room,
        before=tuple(line.names.get(each.uid, "") for each in before[:NAMED_BEFORE]),
        unread=line.unread,
    )
    if line.whole:
        return msgspec.structs.replace(room, place=place, waiting=waiting)
    return msgspec.structs.replace(room, place_here=place, waiting_here=waiting)


def of_waiting_gang(why: str) -> Room:
    """Of a pod that is not in line: its gang does not start yet, or the scheduling gate of another controller
    keeps it. `why`: in words, as the pod is told.
    """
    kind = LackKind.GATE if is_other_gate_text(why) else LackKind.GANG
    return Room(kind=kind.value, gang=why)


def with_claimants(room: Room, name: str, queue: str, *, queues: ObservedQueues) -> Room:
    """With those that have a claim in a queue of its chain. `name`: of the pod, NAMESPACE/NAME."""
    if room.never or queue not in queues.tree:
        return room
    named = ((each.name, queues.record(each.name).claim) for each in queues.tree.chain(queue).queues)
    found = [
        Claimant(queue=top, pod=f"{claim.namespace}/{claim.pod}", pod_queue=claim.queue, since=claim.since)
        for top, claim in named
        if claim is not None
    ]
    return msgspec.structs.replace(
        room,
        claimants=tuple(each for each in found if each.pod != name),
        claims_in=tuple(each.queue for each in found if each.pod == name),
    )


def _with_lack(
    room: Room, lack: Lack, pod: WaitingPod, *, queues: ObservedQueues, said: LackKind | None
) -> Room:
    if lack.kind is LackKind.NO_QUEUE:
        return msgspec.structs.replace(room, queue=lack.queue, kind=lack.kind.value)
    tree, resource = queues.tree, lack.resource
    used = _ledger(pod.queue, queues, said=said).usage.used(lack.queue).get(resource, 0)
    record = queues.record(lack.queue)
    forced, kept = record.force_deleted.get(resource, 0), record.kept_for_gangs.get(resource, 0)
    beside = {name: amount for name in _COUNTED if (amount := record.beside.get(name, {}).get(resource, 0))}
    limit = dict((tree.queues[lack.queue].capability if lack.queue in tree else None) or ()).get(resource)

    requested = dict(pod.requests).get(resource, 0)
    if limit is not None and (lack.never or lack.by_claims):  # by claims that others may share, too
        requested = limit + lack.missing - (0 if lack.never else used)

    def text(amount: Amount) -> str:
        return format_quantity(amount, resource)

    return msgspec.structs.replace(
        room,
        queue=lack.queue,
        contact=tree.contact_of(lack.queue),
        kind=lack.kind.value,
        never=lack.never,
        resource=resource,
        requested=text(requested),
        missing=text(lack.missing),
        used=text(used),
        limit=None if limit is None else text(limit),
        force_deleted=text(forced) if forced and not lack.never else "",
        kept_for_gangs=text(kept) if kept and not lack.never else "",
        kept_for=record.kept_for if kept and not lack.never else (),
        beside={} if lack.never else {name: text(amount) for name, amount in beside.items()},
        holders=tuple(_holders(lack.queue, pod.queue, resource, queues=queues)),
    )


def _lack(
    pod: WaitingPod, others: Sequence[WaitingPod], *, queues: ObservedQueues, ledger: Ledger
) -> Lack | None:
    """What the pod lacks once all before it that have room are let go; None if it would be among these."""
    index = WaitingIndex.of(queues.tree, {pod.queue: [pod, *others]})
    while index.is_due:
        for _ in ReleasePass(queues.tree, index, ledger=ledger):
            pass
    return index.lack_of(pod.uid)


def _ledger(
    queue: str,
    queues: ObservedQueues,
    devices: Devices | None = None,
    *,
    taken: Iterable[ClaimRef] = (),
    said: LackKind | None = None,
) -> Ledger:
    """What counts of all below the top of the chain, as their statuses say: each has what is below it, too.

    Above a queue of the chain whose status is not known, nothing is. `taken`: the claims that count already.
    `said`: what the pod says; what is set aside may be for it.
    """
    lending = lending_queues(queues.tree, schedules=lambda name: queues.verdict(name).schedules)
    count = shared_counts(devices) if devices is not None else no_claims
    ledger = Ledger(queues.tree, rules=Rules(lending=lending), claims=count)
    if queue not in queues.tree:
        return ledger
    names = (each.name for each in queues.tree.chain(queue).queues)
    known = list(takewhile(lambda name: queues.record(name).used is not None, names))
    pending = known[-1:]
    while pending:
        name = pending.pop()
        # A child without a status counts, with what is below it, as the queue's own.
        children = [each for each in queues.tree.children(name) if queues.record(each).used is not None]
        pending += children
        records = [queues.record(each) for each in (name, *children)]
        used = [record.used or {} for record in records]
        ledger.set_all(name, AmountReason.USED, {ALL_PODS: _own(used).items()})
        for field, reason in _COUNTED.items() if said is not LackKind.GIVEN_BACK else ():
            amounts = [record.beside.get(field, {}) for record in records]
            ledger.set_all(name, reason, {ALL_PODS: _own(amounts).items()})
    for claim in (shared_claim(each) for each in taken):  # the status counts what these count
        counted = ((resource, -amount) for resource, amount in count(claim).amounts)
        ledger.set_one(queue, AmountReason.USED, claim, ((claim, 1), *counted))
    return ledger


def _own(amounts: Sequence[Mapping[str, Amount]]) -> dict[str, Amount]:
    """What is left of the first without the others."""
    own = dict(amounts[0])
    for below in amounts[1:]:
        for resource, amount in below.items():
            own[resource] = own.get(resource, 0) - amount
    return own


def _holders(blocking: str, own: str, resource: str, *, queues: ObservedQueues) -> Iterator[Holder]:
    """The parts of what the blocking queue uses of the resource that are largest, and the one that has the
    pod's own queue: each queue right below it, and its own pods.
    """

    def used(name: str) -> Amount:
        return (queues.record(name).used or {}).get(resource, 0)

    children = queues.tree.children(blocking)
    amounts = {name: used(name) for name in children if used(name) > 0}
    itself = used(blocking) - sum(used(name) for name in children)
    if queues.all_read and itself > 0:
        amounts[blocking] = itself
    most = sorted(amounts, key=lambda name: (-amounts[name], name))
    above = {each.name for each in queues.tree.chain(own).queues} if own in queues.tree else {own}
    mine = own if own == blocking else next((name for name in children if name in above), own)
    for place, name in enumerate(most):
        if place < HOLDERS or name == mine:
            is_deeper = name == mine and mine != own and used(own) > 0
            yield Holder(
                queue=name,
                amount=format_quantity(amounts[name], resource),
                itself=name == blocking and bool(children),
                own=format_quantity(used(own), resource) if is_deeper else "",
            )


def limits_devices(queue: str, tree: Tree) -> bool:
    """Whether a capability of the chain names a class of devices."""
    return queue in tree and any(device_class_in(each.capability) for each in tree.chain(queue).queues)


def is_bounded(queue: str, tree: Tree) -> bool:
    """Whether a queue of the chain has a capability."""
    return queue in tree and any(each.capability is not None for each in tree.chain(queue).queues)
