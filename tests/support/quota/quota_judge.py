"""What quotas promise, judged by every state of the pods and of the book that was stored, in its order.

Nothing of the product counts here: what a pod takes and what a queue has room for is computed anew. The text
of the book alone is read with the product's own function.

Invariants
- `faults` has each state in which pods that may be bound, with those whose release is in the book, take a
  queue of the tree over its capability in any resource; each release that was not in the book, at the very
  version that the pod had, unless the book was lost; and each book that cannot be read, is too large, or has
  a lower term than before. Also each pod that was let in again after its workload gave back, and had to go
  before `SAFE` seconds.
- A state that lowers what is used is no fault, whatever is used after it.
- Of a gang that has lost no pod, `faults` also has each write of the book that begins less than its minimum,
  and each time beyond `IN_TIME` in which some of it was released and its minimum was not on nodes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

import msgspec

from queues.quota.book import MAX_INTENTS, BadBook, Book, parse
from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import GROUPED_BY, NAMED_BY, condition, gates, on_a_node, why
from tests.support.quota.fault_tree import TREE, Amounts, amounts, chain, children

QUEUE, RELEASED, QUOTA_GATE = "sluice.dev/queue", "sluice.dev/released", "sluice.dev/quota"
NO_CLAIMS: Mapping[str, str] = {}
#: Seconds for which a pod that was let in again is left alone: a few less than the product says, which counts
#: from when it was chosen.
SAFE = 55.0
TAKEN_BACK = frozenset({"Reclaimed", "Preempted"})
#: Seconds between two looks at which pods have room.
LOOK = 0.5
#: The resources of which some queue is guaranteed some.
GUARANTEED = frozenset(name for limits in TREE.values() for name in limits.guarantee)
#: The seconds that a gang is given from its first release until its minimum is on nodes.
IN_TIME = 60.0


class SeenPod(msgspec.Struct, frozen=True):
    """A pod as it was stored. `takes`: what it uses, once it is released."""

    uid: str
    name: str
    queue: str
    version: int
    takes: Amounts
    #: Its place within its queue: those with the lesser one go before.
    place: tuple[int, str, str] = (0, "", "")
    is_released: bool = False
    is_over: bool = False
    waits: bool = False
    says_claim: bool = False
    #: Why it waits, by its condition.
    says: str = ""
    ran: bool = False
    #: By which rule it was evicted for another pod; "" where it was not.
    evicted: str = ""
    #: The UID of what makes it again; "" where nothing does.
    workload: str = ""
    #: The name of its PodGroup, and whether it counts for the minimum of that.
    gang: str = ""
    is_there: bool = False


class SeenGang(msgspec.Struct, frozen=True):
    """A PodGroup, which does not change. `least`: its minimum, of pods of one priority."""

    uid: str
    name: str
    least: int
    created: str


def seen_gang(podgroup: Object) -> SeenGang:
    meta = podgroup["metadata"]
    return SeenGang(meta["uid"], meta["name"], podgroup["spec"]["minMember"], meta["creationTimestamp"])


def seen_pod(pod: Object, *, prefix: str) -> SeenPod:
    """`prefix`: of the names of queues, before their short names in the tree. A pod of a gang may have no
    label of its queue yet when it is released, and no gate where its PodGroup was not known.
    """
    meta, spec, status = pod["metadata"], pod["spec"], pod["status"]
    named, gang = meta.get("annotations", {}), meta.get("annotations", {}).get(GROUPED_BY, "")
    labels, ours = meta.get("labels", {}), [gate for gate in gates(pod) if gate.startswith("sluice.dev/")]
    bound, ends = on_a_node(pod), "deletionTimestamp" in meta
    is_over = status.get("phase") in ("Succeeded", "Failed") or (ends and not bound)
    is_released = bound or (not ours and labels.get(RELEASED) == meta["uid"])
    return SeenPod(
        uid=meta["uid"],
        name=meta["name"],
        queue=(labels.get(QUEUE) or named.get(NAMED_BY, "")).removeprefix(prefix),
        version=int(meta["resourceVersion"]),
        takes=pod_takes(pod),
        place=(-spec.get("priority", 0), meta["creationTimestamp"], meta["uid"]),
        is_released=is_released,
        is_over=is_over,
        waits=bool(ours or gang) and not (is_released or is_over or ends),
        says_claim="claimed by a pod" in why(pod),
        says=why(pod),
        ran=bound,
        evicted=condition(pod, "DisruptionTarget").get("reason", ""),
        gang=gang,
        is_there=is_released and status.get("phase") != "Failed" and not ends,
        workload=next(
            (each["uid"] for each in meta.get("ownerReferences", []) if each.get("controller")), ""
        ),
    )


def pod_takes(pod: Object) -> dict[str, int]:
    """One pod; of each resource what all containers take, or an init container where that is more."""
    spec, status = pod["spec"], pod["status"]
    held = {each["name"]: each for each in status.get("containerStatuses", [])}
    total: defaultdict[str, int] = defaultdict(int)
    for each in spec["containers"]:
        for name, amount in _container_takes(each, held.get(each["name"], {})).items():
            total[name] += amount
    for each in spec.get("initContainers", []):
        for name, amount in _container_takes(each, {}).items():
            total[name] = max(total[name], amount)
    return {"pods": 1, **total}


def _container_takes(container: Object, status: Object) -> dict[str, int]:
    """While it is resized: the largest of what was asked for, is set aside and is in force."""
    texts = (
        container.get("resources", {}).get("requests", {}),
        status.get("allocatedResources", {}),
        (status.get("resources") or {}).get("requests", {}),
    )
    most: dict[str, int] = {}
    for each in map(amounts, texts):
        most |= {name: max(amount, most.get(name, 0)) for name, amount in each.items()}
    return most


class QuotaJudge:
    """Give it every state in the order of resource versions. For one thread."""

    def __init__(self) -> None:
        self.pods: dict[str, SeenPod] = {}
        self.faults: list[str] = []
        #: What was counted at each fault of that kind, to find out why.
        self.notes: list[str] = []
        #: The most that each queue used of each resource of its capability.
        self.most: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self.released = 0
        #: The names of those that were ever on a node.
        self.ran: set[str] = set()
        #: Those that were released, and gone before they had a node: they gave their room back.
        self.gave_back: set[str] = set()
        #: The longest time that a pod had room and was not released, which pod, and what it said then.
        self.longest: tuple[float, str] = (0.0, "")
        #: Those that were evicted, by reason.
        self.evicted: defaultdict[str, set[str]] = defaultdict(set)
        #: When each pod was released, which version it had when it came, and by workload the version at which
        #: a pod of it was evicted first.
        self._released_at: dict[str, float] = {}
        self._came: dict[str, int] = {}
        self._gave: dict[str, int] = {}
        self.let_in_again = 0
        self.books = 0
        #: By name; those whose minimum was on nodes once, and those that have lost a pod before that.
        self.gangs: dict[str, SeenGang] = {}
        self.whole: set[str] = set()
        self.spoilt: set[str] = set()
        #: The longest time from the first release of a gang until its minimum was on nodes, and which.
        self.longest_partly: tuple[float, str] = (0.0, "")
        self._partly_since: dict[str, float] = {}
        self._of_gang: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self._book: Book | None = None
        self._used: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
        self._counted: dict[str, tuple[str, Amounts]] = {}
        self._fits_since: dict[str, float] = {}
        self._looked_at = 0.0

    # What is stored

    def note_pod(self, seen: SeenPod, *, gone: bool = False, at: float = 0.0) -> None:
        """`at`: when that was, in seconds."""
        if seen.queue not in TREE:
            return
        before = self.pods.get(seen.uid)
        if seen.ran:
            self.ran.add(seen.name)
        self._came.setdefault(seen.uid, seen.version)
        if seen.is_released and seen.uid not in self._released_at:
            self._released_at[seen.uid] = at
            self.let_in_again += self._is_again(seen)
        if seen.evicted:
            if seen.evicted in TAKEN_BACK and seen.name not in self.evicted[seen.evicted]:
                self._note_taken_back(seen, at)
            self.evicted[seen.evicted].add(seen.name)
        if seen.is_released and not (before is not None and before.is_released):
            self._note_release(seen, before)
        if gone and seen.is_released and seen.name not in self.ran:
            self.gave_back.add(seen.name)
        if gone:
            self.pods.pop(seen.uid, None)
        else:
            self.pods[seen.uid] = seen
        self._count(seen.uid, of=seen.name)
        if seen.gang:
            self._note_of_gang(seen, gone=gone, at=at)
        self._measure_gangs(at)
        self._look(at)

    def note_gang(self, seen: SeenGang) -> None:
        self.gangs[seen.name] = seen

    def note_book(self, text: str | None) -> None:
        """None: it is gone."""
        before, self._book = self._book, None
        self.books += 1
        if text is not None:
            try:
                self._book = parse(text)
            except BadBook as bad:
                if not str(bad).startswith("it is of another version"):
                    self.faults.append(f"the book cannot be read: {bad}")
        now = self._book
        if now is not None and len(now.intents) > MAX_INTENTS:
            self.faults.append(f"the book has {len(now.intents)} entries")
        if now is not None and before is not None and now.term < before.term:
            self.faults.append(f"the book of term {now.term} follows that of term {before.term}")
        for uid in {*(before.intents if before else ()), *(now.intents if now else ())}:
            self._count(uid, of="the book")
        if now is not None:
            self._note_begun(now.intents.keys() - (before.intents.keys() if before is not None else set()))

    def _is_again(self, seen: SeenPod) -> bool:
        """Whether it came after its workload gave back."""
        return bool(seen.workload) and self._gave.get(seen.workload, math.inf) < self._came[seen.uid]

    def _note_taken_back(self, seen: SeenPod, at: float) -> None:
        seconds = at - self._released_at.get(seen.uid, -math.inf)
        if self._is_again(seen) and seconds < SAFE:
            self.faults.append(f"{seen.name} had to go {seconds:.0f} s after it was let in again")
        if seen.workload:
            self._gave.setdefault(seen.workload, seen.version)

    def _note_release(self, seen: SeenPod, before: SeenPod | None) -> None:
        self.released += 1
        book = self._book
        is_known = book is not None and not book.is_new
        if before is None:
            self.faults.append(f"{seen.name} was released when it was created")
        elif is_known and book is not None and book.intents.get(seen.uid) != before.version:
            self.faults.append(f"{seen.name} was released at version {before.version}: not in the book")

    # Gangs

    def _note_begun(self, uids: Set[str]) -> None:
        """These are in the book, and were not before."""
        for name in {self.pods[uid].gang for uid in uids if uid in self.pods} - self.spoilt - {""}:
            gang, pods = self.gangs.get(name), self._pods_of(name)
            begun = sum(each.is_there or self._is_in_book(each) for each in pods)
            if gang is None or begun < gang.least:
                least = gang.least if gang is not None else "unknown"
                self.faults.append(f"the book begins {begun} pods of {name}, of which {least} start together")

    def _note_of_gang(self, seen: SeenPod, *, gone: bool, at: float) -> None:
        name, gang = seen.gang, self.gangs.get(seen.gang)
        self._of_gang[name][seen.uid] = None
        if name in self.whole:
            return
        if gone or not (seen.is_there or seen.waits):
            self.spoilt.add(name)
        pods = self._pods_of(name)
        if gang is not None and sum(each.is_there and each.ran for each in pods) >= gang.least:
            self.whole.add(name)
        if name in self.whole or name in self.spoilt:
            self._measure(name, at)
            self._partly_since.pop(name, None)
        elif any(each.is_released for each in pods):
            self._partly_since.setdefault(name, at)

    def _pods_of(self, gang: str) -> list[SeenPod]:
        return [self.pods[uid] for uid in self._of_gang[gang] if uid in self.pods]

    def _measure_gangs(self, at: float) -> None:
        for name, since in list(self._partly_since.items()):
            self._measure(name, at)
            if at - since > IN_TIME:
                del self._partly_since[name]
                self.spoilt.add(name)
                states = ", ".join(
                    f"{each.name} {'ran' if each.ran else each.says or 'released'}"
                    for each in self._pods_of(name)
                )
                self.faults.append(f"{name} was partly on nodes for {at - since:.0f} s: {states}")

    def _measure(self, name: str, at: float) -> None:
        took = at - self._partly_since.get(name, at)
        self.longest_partly = max(self.longest_partly, (took, name))

    # What is used

    def _count(self, uid: str, *, of: str) -> None:
        queue, before = self._counted.pop(uid, ("", {}))
        seen = self.pods.get(uid)
        takes: Amounts = {}
        if seen is not None and not seen.is_over and (seen.is_released or self._is_begun(seen)):
            queue, takes = seen.queue, seen.takes
            self._counted[uid] = queue, takes
        for name in {*before, *takes}:
            more = takes.get(name, 0) - before.get(name, 0)
            if more:
                self._add(queue, name, more, of=of)

    def _is_in_book(self, seen: SeenPod) -> bool:
        return self._book is not None and seen.uid in self._book.intents

    def _is_begun(self, seen: SeenPod) -> bool:
        return self._book is not None and self._book.intents.get(seen.uid) == seen.version

    def _add(self, queue: str, resource: str, more: int, *, of: str) -> None:
        for above in chain(queue):
            self._used[above][resource] += more
            used, limit = self._used[above][resource], TREE[above].capability.get(resource)
            if limit is None or more < 0:
                continue
            self.most[above][resource] = max(used, self.most[above].get(resource, 0))
            if used > limit:
                self.faults.append(f"{of} takes {above} to {used} {resource} of {limit}")
                self.notes.append(self._what_counts(above, resource))

    def _what_counts(self, queue: str, resource: str) -> str:
        """The pods below the queue that take some of it, and by what each counts."""
        pods = [
            self.pods[uid]
            for uid, (own, takes) in self._counted.items()
            if queue in chain(own) and takes.get(resource)
        ]
        says = (
            f"{each.name} ({each.gang or 'single'}, version {each.version}): "
            + ("on a node" if each.ran else "released" if each.is_released else "in the book")
            for each in pods
        )
        term = self._book.term if self._book is not None else "none"
        return f"{queue} {resource}, book of term {term}: " + "; ".join(says)

    # Who waits

    def left(self, claims: Mapping[str, str] = NO_CLAIMS) -> dict[str, SeenPod]:
        """The pods that wait though they have room, by UID, but for those that others keep waiting by the
        rules: in a `fifo` queue those before it, and a claim. `claims`: which pod has one, by queue; of those
        that are not given, what a pod says counts. The minimum of a gang is as one pod.
        """
        found = {}
        asked = list(self._asked())
        first = _first(asked)
        alike: dict[tuple[str, tuple[tuple[str, int], ...]], bool] = {}
        for seen in asked:
            is_behind = TREE[seen.queue].is_fifo and first[seen.queue].uid != seen.uid
            if is_behind or seen.says_claim:
                continue
            key = seen.queue, tuple(seen.takes.items())
            if key not in alike:
                alike[key] = self.has_room(seen)
            if alike[key] and not self._waits_for_claim(seen, asked, claims):
                found[seen.uid] = seen
        return found

    def _waits_for_claim(self, seen: SeenPod, asked: Iterable[SeenPod], claims: Mapping[str, str]) -> bool:
        """Whether it has no room beside what others have a claim on, in the queues of its chain."""
        names = {claims[name] for name in chain(seen.queue) if name in claims}
        if not names:
            return False
        gangs = {each.gang for each in self.pods.values() if each.name in names} - {""}
        claimants = [
            each for each in asked if (each.name in names or each.gang in gangs) and each.uid != seen.uid
        ]
        return any(not self.has_room(seen, beside=each) for each in claimants)

    def waiting(self) -> Iterator[SeenPod]:
        return (seen for seen in self.pods.values() if seen.waits)

    def _asked(self) -> Iterator[SeenPod]:
        """What waits for room: pods, and of each gang that has enough of them what its minimum lacks."""
        gangs = set[str]()
        for seen in self.waiting():
            if seen.gang:
                gangs.add(seen.gang)
            else:
                yield seen
        for name in gangs:
            lacking, waiting = self._lacking(name)
            if lacking <= 0:
                yield from waiting
            elif lacking <= len(waiting):
                yield _as_one(self.gangs[name], waiting[: int(lacking)])

    def incomplete(self) -> set[str]:
        """The names of pods that wait in vain: pods of the minimum of their gang do not exist any more."""
        found = set[str]()
        for name in {each.gang for each in self.waiting() if each.gang in self.gangs}:
            lacking, waiting = self._lacking(name)
            if lacking > len(waiting):
                found.update(each.name for each in waiting)
        return found

    def _lacking(self, gang: str) -> tuple[float, list[SeenPod]]:
        """How many pods its minimum lacks, and those that wait, the first one first."""
        pods = self._pods_of(gang)
        waiting = sorted((each for each in pods if each.waits), key=lambda each: each.place)
        least = self.gangs[gang].least if gang in self.gangs else math.inf
        return least - sum(each.is_there for each in pods), waiting

    def has_room(self, seen: SeenPod, *, beside: SeenPod | None = None) -> bool:
        """Whether one more such pod keeps each capability of its chain, with what others are guaranteed, as
        if the one beside it were released.
        """
        for resource, amount in seen.takes.items():
            used = {} if beside is None else {beside.queue: beside.takes.get(resource, 0)}
            with_it = {**used, seen.queue: used.get(seen.queue, 0) + amount}
            for name in chain(seen.queue):
                limit = TREE[name].capability.get(resource)
                if limit is None:
                    continue
                kept = self._kept(name, resource, with_it)
                if kept > limit and kept > self._kept(name, resource, used):
                    return False
        return True

    def _kept(self, name: str, resource: str, more: Amounts) -> int:
        """What the queue and those below it use, or are guaranteed where that is more. `more`: by queue."""
        if resource not in GUARANTEED:
            return self._used[name][resource] + sum(more[each] for each in more if name in chain(each))
        below = children(name)
        own = self._used[name][resource] - sum(self._used[each][resource] for each in below)
        total = own + more.get(name, 0) + sum(self._kept(each, resource, more) for each in below)
        return max(TREE[name].guarantee.get(resource, 0), total)

    def _look(self, at: float) -> None:
        """Which pods have room at this moment, and for how long without a break."""
        if at < self._looked_at + LOOK:
            return
        self._looked_at = at
        left = self.left()
        self._fits_since = {uid: self._fits_since.get(uid, at) for uid in left}
        for uid, since in self._fits_since.items():
            if at - since > self.longest[0]:
                seen = left[uid]
                self.longest = at - since, f"{seen.name} of {seen.queue}: {seen.says}"


def _first(asked: Iterable[SeenPod]) -> Mapping[str, SeenPod]:
    """Which goes first, by queue."""
    first: dict[str, SeenPod] = {}
    for seen in asked:
        if seen.queue not in first or seen.place < first[seen.queue].place:
            first[seen.queue] = seen
    return first


def _as_one(gang: SeenGang, pods: Sequence[SeenPod]) -> SeenPod:
    """What these ask for together."""
    takes: defaultdict[str, int] = defaultdict(int)
    for each in pods:
        for name, amount in each.takes.items():
            takes[name] += amount
    return msgspec.structs.replace(
        pods[0],
        uid=gang.uid,
        name=gang.name,
        takes=dict(takes),
        place=(pods[0].place[0], gang.created, gang.uid),
        says_claim=any(each.says_claim for each in pods),
    )
