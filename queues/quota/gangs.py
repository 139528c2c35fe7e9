"""Whether a gang may be asked for room, with which of its pods, and for how much.

A gang is a PodGroup of which so many pods start together or not at all: its minimum. The minimum is asked for
as one entry (`pod_classes.WaitingPod`), and released whole. What is beyond the minimum is asked for pod by
pod, once the minimum was released.

| of the PodGroup | value                              | then                                               |
|-----------------|------------------------------------|----------------------------------------------------|
| `minMember`     | 2 or more                          | the minimum is so many pods                        |
|                 | absent, 1, 0, negative             | 1: each pod goes by itself                         |
|                 | more than a book has room for      | never: TOO_MANY                                    |
| `minTaskMember` | so many of a task                  | the minimum has so many of it                      |
|                 | without `minMember`                | it has as many pods as all tasks together          |
|                 | more together than `minMember`     | as if it were not there                            |
|                 | 0, negative, no number             | as if it were not there                            |
|                 | of a task of which no pod exists   | TOO_FEW: none of so many pods of this task exist   |
|                 | more than `MAX_TASKS` tasks        | never: BAD_SPEC                                    |
| `minResources`  | more than the pods request         | so much has to be free, and is kept for the gang   |
|                 | less, 0, negative                  | what the pods request counts                       |
|                 | of `requests.X`, `limits.X`,       | as if it were not there: it is of ResourceQuotas   |
|                 | `count/X`                          |                                                    |
|                 | no quantity, or beyond any         | never: BAD_SPEC                                    |
|                 | beyond a capability of its chain   | never: TOO_LARGE                                   |
| `priority-      | a PriorityClass that exists        | the minimum, and each pod beyond it, has its value |
| ClassName`      | absent, or of none that exists     | the minimum has the greatest priority of its pods  |

| a pod of the gang                       | for the minimum | of what the gang uses |
|-----------------------------------------|-----------------|-----------------------|
| waits, and may be released              | may be asked    | nothing               |
| waits, and may not be released now      | exists          | nothing               |
| was released, and has no node           | is there        | what it requests      |
| is on a node                            | is there        | what it requests      |
| is being deleted, and counts in a quota | is not there    | what it requests      |
| has succeeded                           | is there        | of `minResources` its |
|                                         |                 | part; else nothing    |
| failed, or is being deleted without a   | is not there    | nothing               |
| node                                    |                 |                       |
| is in another queue than the PodGroup   | is not there    | nothing               |

Invariants
- An entry of the minimum completes it: with what is there, it has `minMember` pods, and so many of each task.
- The minimum is a condition of starting. Nothing of a gang that has not started is asked for while a part of
  its minimum is missing. One that has started asks for what waits, pod by pod, however many it has lost.
- Of the sum of its pods, and of what of `minResources` the pods of the gang do not use yet, the greater has
  to be free for an entry of the minimum. From its release on so much counts, and is kept for the gang.
- An entry requests what the use of the queue grows by: what is kept for a gang is used by its own pods first.
- Pods beyond the minimum may be released in any order, and some of them: together they never take more than
  was asked for them.
- The answer does not depend on the order in which pods are given.

Tasks are not looked at where `minMember` is less than their sum, as in Volcano: its Job controller writes all
replicas of each task into `minTaskMember`, and then `minMember` alone says that fewer may start. It writes
what a ResourceQuota would count into `minResources`, too. Parts of a group (`subGroupPolicy`) are not looked
at. Sources: `pkg/scheduler/api/job_info.go` of Volcano (what is there, what is valid, whose task it is), and
`pkg/controllers/job` (what is written).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import Enum, StrEnum, unique

import msgspec

from queues.apimachinery.pod_requests import CLAIMS, Requests
from queues.apimachinery.quantities import Amount, BadQuantity, parse_quantity
from queues.apimachinery.timestamps import rfc3339
from queues.quota.book import MAX_INTENTS
from queues.quota.devices import is_of_claims
from queues.quota.lack import Lack
from queues.quota.pod_classes import WaitingPod
from queues.quota.usage import PODS
from queues.text import printable

#: The tasks and resources of a PodGroup that are read.
MAX_TASKS = MAX_RESOURCES = 128
#: What ResourceQuotas count by these names, no pod requests.
_OF_QUOTAS = ("requests.", "limits.", "count/")
#: What pods beyond a minimum are told while that waits.
BEYOND = "the minimum of its PodGroup goes first; it goes after that"
#: Characters of a name that a text shows.
_SHOWN = 63


class Gang(msgspec.Struct, frozen=True, kw_only=True):
    """What a PodGroup asks for. `uid`: its own. `since`: its creation. `least`: the pods of its minimum.
    `tasks`: those of each task, by name. `resources`: `minResources`. `priority`: of its PriorityClass;
    None: its pods have it. `fault`: why its spec cannot be followed.
    """

    uid: str
    queue: str
    since: datetime
    least: int = 1
    tasks: tuple[tuple[str, int], ...] = ()
    resources: Requests = ()
    priority: int | None = None
    fault: str = ""

    @property
    def is_single(self) -> bool:
        """Whether its pods go by themselves."""
        return self.least <= 1 and not self.resources and not self.fault

    @property
    def asks_before(self) -> bool:
        """Whether it asks for something before its pods exist, or says so in words that cannot be read."""
        return bool(self.resources or self.fault)


def gang_of(
    uid: str,
    queue: str,
    since: datetime,
    *,
    min_member: int = 0,
    min_task_member: object = None,
    min_resources: object = None,
    priority: int | None = None,
) -> Gang:
    """The gang of a PodGroup, whatever its fields contain."""
    tasks, fault = _tasks(min_task_member)
    together = sum(least for _, least in tasks)
    if 0 < min_member < together:
        tasks, fault = (), ""
    resources, bad = _resources(min_resources)
    return Gang(
        uid=uid,
        queue=queue,
        since=since,
        least=max(1, min_member, together) if tasks else max(1, min_member),
        tasks=tasks,
        resources=resources,
        priority=priority,
        fault=fault or bad,
    )


def _tasks(written: object) -> tuple[tuple[tuple[str, int], ...], str]:
    if not isinstance(written, Mapping):
        return (), ""
    if len(written) > MAX_TASKS:
        return (), f"minTaskMember has more than {MAX_TASKS} tasks"
    found = ((str(task), least) for task, least in written.items() if type(least) is int and least > 0)
    return tuple(sorted(found)), ""


def _resources(written: object) -> tuple[Requests, str]:
    if not isinstance(written, Mapping):
        return (), ""
    if len(written) > MAX_RESOURCES:
        return (), f"minResources has more than {MAX_RESOURCES} resources"
    amounts: dict[str, Amount] = {}
    for resource, text in written.items():
        if resource == CLAIMS or is_of_claims(resource) or str(resource).startswith(_OF_QUOTAS):
            continue
        try:
            amount = parse_quantity(text)
        except BadQuantity:
            return (), f'minResources "{printable(str(resource)[:_SHOWN])}" is no quantity'
        if amount > 0:
            amounts[resource] = amount
    return tuple(sorted(amounts.items())), ""


@unique
class PodState(StrEnum):
    """What becomes of a pod of a gang (the second table). Others are not given."""

    WAITS = "waits"
    HELD = "held"
    RELEASED = "released"
    PLACED = "placed"
    LEAVING = "leaving"
    SUCCEEDED = "succeeded"


_THERE = frozenset({PodState.RELEASED, PodState.PLACED, PodState.SUCCEEDED})
#: What uses something.
USING = frozenset({PodState.RELEASED, PodState.PLACED, PodState.LEAVING})
#: Of what is kept for a gang they have had their part.
_HAD_PART = USING | {PodState.SUCCEEDED}


class GangPod(msgspec.Struct, frozen=True, gc=False):
    """A pod of a gang. `task`: annotation `volcano.sh/task-spec`, else the label; "" without one."""

    pod: WaitingPod
    state: PodState = PodState.WAITS
    task: str = ""


def own_pods(gang: Gang, pods: Iterable[GangPod]) -> list[GangPod]:
    """Those that count for it: the pods of its queue."""
    return [member for member in pods if member.pod.queue == gang.queue]


def is_placed(gang: Gang, tasks: Iterable[str]) -> bool:
    """Whether the minimum is on nodes. `tasks`: that of each pod of its queue that is on one, or has
    succeeded.
    """
    placed = Counter(tasks)
    return placed.total() >= gang.least and all(placed[task] >= least for task, least in gang.tasks)


@unique
class NotAskedKind(Enum):
    """Why nothing of a gang is asked for. Of those from TOO_MANY on, time mends nothing."""

    #: Pods of the minimum do not exist.
    TOO_FEW = "too-few"
    #: They exist, and some may not be released now.
    HELD = "held"
    #: So many exist with those that are in another queue than the PodGroup.
    QUEUES = "queues"
    #: The PodGroup does not exist.
    ABSENT = "absent"
    #: It gives back what it was released for; it has given that back, and waits for another try.
    GIVES_BACK = "gives-back"
    PAUSED = "paused"
    TOO_MANY = "too-many"
    TOO_LARGE = "too-large"
    BAD_SPEC = "bad-spec"

    @property
    def never(self) -> bool:
        return self in _NEVER


_NEVER = frozenset({NotAskedKind.TOO_MANY, NotAskedKind.TOO_LARGE, NotAskedKind.BAD_SPEC})
_FAILED = "was released, got too few nodes in its time"


class NotAsked(msgspec.Struct, frozen=True, kw_only=True):
    """`have` of `least` pods exist, may be released, or are in its queue; of `task`, if it has a name.
    `lack`: the limit that the gang would pass in an empty queue. `until`: the end of its pause.
    """

    kind: NotAskedKind
    have: int = 0
    least: int = 0
    task: str = ""
    lack: Lack | None = None
    fault: str = ""
    until: datetime | None = None

    @property
    def reason(self) -> str:
        """The same without what changes with each pod, and what lets them go: for the conditions of pods."""
        texts = {
            NotAskedKind.TOO_FEW: f"fewer than {self.least} pods{self._of_task} of its PodGroup exist",
            NotAskedKind.HELD: f"pods{self._of_task} of its PodGroup may not be released now",
            NotAskedKind.QUEUES: "pods of its PodGroup are in another queue than the PodGroup",
            NotAskedKind.ABSENT: "its PodGroup does not exist",
            NotAskedKind.GIVES_BACK: f"its PodGroup {_FAILED}, and gives back what it has",
            NotAskedKind.PAUSED: f"its PodGroup {_FAILED}, and has a pause{self._until}",
            NotAskedKind.TOO_MANY: f"with its PodGroup {self}; lower minMember",
            NotAskedKind.TOO_LARGE: f"with its PodGroup: {self}; request less, or have an admin raise it",
            NotAskedKind.BAD_SPEC: f"of its PodGroup {self}; mend that",
        }
        return texts[self.kind] + ("" if self.kind.never else "; its pods start together")

    def __str__(self) -> str:
        lack = self.lack or Lack("")
        texts = {
            NotAskedKind.TOO_FEW: f"{self.have} of {self.least} pods{self._of_task} exist",
            NotAskedKind.HELD: f"{self.have} of {self.least} pods{self._of_task} may be released now",
            NotAskedKind.QUEUES: f"{self.have} of {self.least} pods are in the queue of their PodGroup",
            NotAskedKind.ABSENT: "their PodGroup does not exist",
            NotAskedKind.GIVES_BACK: "they were released, got too few nodes, and are given back",
            NotAskedKind.PAUSED: f"they were released, got too few nodes, and have a pause{self._until}",
            NotAskedKind.TOO_MANY: f"{self.least} pods are to start together, and {MAX_INTENTS} can at most",
            NotAskedKind.TOO_LARGE: f"together they need more {lack.resource} than {lack.queue} may use",
            NotAskedKind.BAD_SPEC: self.fault,
        }
        return texts[self.kind]

    @property
    def _until(self) -> str:
        return f" until {rfc3339(self.until)}" if self.until is not None else ""

    @property
    def _of_task(self) -> str:
        return f" of task {printable(self.task[:_SHOWN])}" if self.task else ""


class RequestedPods(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for now: the minimum as one entry, or pod by pod once that was released."""

    minimum: WaitingPod | None = None
    others: tuple[WaitingPod, ...] = ()


#: The limit that these requests would pass even in an empty queue (`usage.never_lack`).
NeverLack = Callable[[Requests], Lack | None]


def ask(
    gang: Gang,
    pods: Iterable[GangPod],
    *,
    keeps: bool = False,
    keeps_once_started: bool = False,
    started: bool = False,
    never: NeverLack = lambda _requests: None,
) -> RequestedPods | NotAsked:
    """What of the gang may be asked for. `keeps`: whether what its pods do not use of `minResources` counts
    already; `keeps_once_started`: whether it does if its minimum was released. `started`: whether its
    minimum was on nodes before (`is_started`).
    """
    everywhere = list(pods)
    members = everywhere if gang.is_single else own_pods(gang, everywhere)
    waiting = sorted(
        (member for member in members if member.state is PodState.WAITS), key=lambda member: member.pod.rank
    )
    if gang.is_single:
        return RequestedPods(others=tuple(member.pod for member in waiting))
    if gang.fault:
        return NotAsked(kind=NotAskedKind.BAD_SPEC, fault=gang.fault)
    there = [member for member in members if member.state in _THERE]
    chosen, missing = _minimum(gang, there, waiting)
    unused = dict(unused_resources(gang, members))
    if started:
        others = _one_by_one(waiting, unused if keeps or keeps_once_started else {})
        return RequestedPods(others=tuple(with_priority(pod, gang.priority) for pod in others))
    if missing is not None:
        refused = _never(gang, gang.least - len(there), unused, never=never)
        return refused or _not_yet(missing, may_go=(*there, *waiting), members=members, everywhere=everywhere)
    if not chosen:
        others = _one_by_one(waiting, unused if keeps or keeps_once_started else {})
        return RequestedPods(others=tuple(with_priority(pod, gang.priority) for pod in others))
    requests = _greater(_total(chosen), unused)
    refused = _never(gang, len(chosen), dict(requests), never=never)
    if keeps:
        requests = _less(requests, unused)
    return refused or RequestedPods(minimum=_entry(gang, chosen, requests))


def with_priority(pod: WaitingPod, priority: int | None) -> WaitingPod:
    """The pod with the priority of its gang, if that has one of its own."""
    if priority is None or pod.priority == priority:
        return pod
    return msgspec.structs.replace(pod, priority=priority)


def _entry(gang: Gang, chosen: Sequence[GangPod], requests: Requests) -> WaitingPod:
    priority = gang.priority if gang.priority is not None else max(each.pod.priority for each in chosen)
    uids = tuple(each.pod.uid for each in chosen)
    return WaitingPod(gang.uid, gang.queue, requests, priority, gang.since, uids)


def unused_resources(gang: Gang, pods: Iterable[GangPod]) -> Requests:
    """What of `minResources` the pods of the gang do not use, nor used before they succeeded."""
    if not gang.resources:
        return ()
    used = dict(_total([member for member in own_pods(gang, pods) if member.state in _HAD_PART]))
    left = ((resource, amount - used.get(resource, 0)) for resource, amount in gang.resources)
    return tuple((resource, amount) for resource, amount in left if amount > 0)


def task_of(annotation: str, label: str) -> str:
    """The task of a pod, by the two places where it may be named."""
    return annotation or label


def is_started(pods: Iterable[GangPod]) -> bool:
    """Whether a gang with these pods of its queue has started, as far as they say: one is on a node. Without
    a live pod it starts anew.
    """
    return any(member.state is PodState.PLACED for member in pods)


def _minimum(
    gang: Gang, there: Sequence[GangPod], waiting: Sequence[GangPod]
) -> tuple[list[GangPod], tuple[str, int] | None]:
    """The pods that complete the minimum, as far as they are there; and the task of which too few are ("": of
    all), with how many the minimum has of it.
    """
    if not gang.tasks:
        missing = max(0, gang.least - len(there))
        return list(waiting[:missing]), ("", gang.least) if missing > len(waiting) else None
    left = dict(gang.tasks)
    for member in there:
        if member.task in left:
            left[member.task] -= 1
    chosen, others = list[GangPod](), list[GangPod]()
    for member in waiting:
        if left.get(member.task, 0) > 0:
            left[member.task] -= 1
            chosen.append(member)
        else:
            others.append(member)
    more = max(0, gang.least - len(there) - len(chosen))
    missing_of = next(((task, least) for task, least in gang.tasks if left[task] > 0), None)
    if missing_of is None and more > len(others):
        missing_of = ("", gang.least)
    return chosen + others[:more], missing_of


def _never(gang: Gang, pods: int, amounts: Mapping[str, Amount], *, never: NeverLack) -> NotAsked | None:
    """Why so many pods that request so much, at least, cannot start together."""
    if pods > MAX_INTENTS:
        return NotAsked(kind=NotAskedKind.TOO_MANY, least=pods)
    requests = {**amounts, PODS: max(pods, amounts.get(PODS, 0))}
    lack = never(tuple(sorted(requests.items())))
    return None if lack is None else NotAsked(kind=NotAskedKind.TOO_LARGE, least=gang.least, lack=lack)


def _not_yet(
    missing: tuple[str, int],
    *,
    may_go: Sequence[GangPod],
    members: Sequence[GangPod],
    everywhere: Sequence[GangPod],
) -> NotAsked:
    """`members`: the pods of its queue; `everywhere`: and those of others."""
    task, least = missing
    have = sum(not task or member.task == task for member in may_go)
    held = sum(member.state is PodState.HELD and (not task or member.task == task) for member in members)
    if have + held >= least:
        return NotAsked(kind=NotAskedKind.HELD, have=have, least=least, task=task)
    if len(members) < len(everywhere) and sum(not task or each.task == task for each in everywhere) >= least:
        return NotAsked(kind=NotAskedKind.QUEUES, have=have + held, least=least, task=task)
    return NotAsked(kind=NotAskedKind.TOO_FEW, have=have + held, least=least, task=task)


def _one_by_one(waiting: Iterable[GangPod], kept: dict[str, Amount]) -> Iterable[WaitingPod]:
    """Each asks for what it requests beyond what is kept, and beyond what those before it leave of that."""
    for member in waiting:
        requests = member.pod.requests
        more = _less(requests, kept)
        for resource, amount in requests:
            if resource in kept:
                kept[resource] = max(0, kept[resource] - amount)
        yield member.pod if more is requests else msgspec.structs.replace(member.pod, requests=more)


def _total(members: Sequence[GangPod]) -> Requests:
    if not members:
        return ()
    first = members[0].pod.requests
    if all(member.pod.requests is first or member.pod.requests == first for member in members):
        return tuple((resource, amount * len(members)) for resource, amount in first)
    amounts: dict[str, Amount] = {}
    for member in members:
        for resource, amount in member.pod.requests:
            amounts[resource] = amounts.get(resource, 0) + amount
    return tuple(sorted(amounts.items()))


def _greater(requests: Requests, unused: Mapping[str, Amount]) -> Requests:
    if not unused:
        return requests
    amounts = dict(requests)
    for resource, amount in unused.items():
        amounts[resource] = max(amount, amounts.get(resource, 0))
    return tuple(sorted(amounts.items()))


def _less(requests: Requests, kept: Mapping[str, Amount]) -> Requests:
    if not any(kept.get(resource) for resource, _ in requests):
        return requests
    left = ((resource, amount - kept.get(resource, 0)) for resource, amount in requests)
    return tuple((resource, amount) for resource, amount in left if amount > 0)
