"""Which pods of a running gang may be evicted: single pods beyond its minimum, or all of the gang.

| the pods that would stay                            | the others                     |
|-----------------------------------------------------|--------------------------------|
| are the minimum: `minMember` pods, and              | may be evicted                 |
| `minTaskMember` pods of each task                   |                                |
| are none                                            | may be evicted, all together   |
| are some, but fewer than the minimum                | may not be evicted             |

| a pod of the gang                     | counts towards the minimum | belongs to "all of the gang" |
|---------------------------------------|----------------------------|------------------------------|
| is on a node, or was released         | yes                        | yes                          |
| has succeeded                         | yes                        | no                           |
| waits, has failed, or is deleted      | no                         | no                           |
| is in another queue than the PodGroup | as in the same queue       | as in the same queue         |

Invariants
- An eviction never leaves a part of the minimum.
- A gang that runs with fewer pods than its minimum is evicted whole or not at all.
- The rule does not depend on plugin `gang` of a scheduling policy: a part of a minimum is of no use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Set

import msgspec

from queues.quota.gangs import Gang


class StartedGang(msgspec.Struct, frozen=True, kw_only=True):
    """A gang with running pods. `uid`: of its PodGroup. `least`, `tasks`: its minimum, as in `Gang`.

    `running`: by UID, the task of each pod that is on a node, or was released, and is not being deleted.
    `ended`: the tasks of the pods that have succeeded.
    """

    uid: str
    least: int
    tasks: tuple[tuple[str, int], ...] = ()
    running: Mapping[str, str] = {}
    ended: tuple[str, ...] = ()

    def is_whole(self, gone: Set[str]) -> bool:
        """Whether these are all of its running pods, by UID."""
        return self.running.keys() <= gone

    def keeps_minimum(self, gone: Container[str]) -> bool:
        """Whether the pods without these, by UID, are its minimum."""
        return self.suffices(self.there(gone))

    def there(self, gone: Container[str]) -> Counter[str]:
        """By task, how many pods count towards the minimum, without these. Reads all of the gang."""
        there = Counter(task for uid, task in self.running.items() if uid not in gone)
        there.update(self.ended)
        return there

    def suffices(self, there: Counter[str], *, but: Counter[str] | None = None) -> bool:
        """Whether these numbers of pods by task, less those in `but`, are its minimum."""
        but = but or Counter()
        is_enough = there.total() - but.total() >= self.least
        return is_enough and all(there[task] - but[task] >= least for task, least in self.tasks)


class GangCount:
    """The pods that are left of one gang while others are chosen as victims. For one thread.

    The gang is read once. After that each question costs as many steps as it names pods.
    """

    def __init__(self, gang: StartedGang, *, gone: Container[str] = ()) -> None:
        """`gone`: the victims that were chosen before, by UID."""
        self._gang = gang
        self._left = {uid: task for uid, task in gang.running.items() if uid not in gone}
        self._there = gang.there(gone)

    def remove(self, uid: str) -> None:
        """The pod, by UID, is a victim."""
        task = self._left.pop(uid, None)
        if task is not None:
            self._there[task] -= 1

    def add(self, uid: str) -> None:
        """The pod, by UID, is no victim any more."""
        task = self._gang.running.get(uid)
        if task is not None and uid not in self._left:
            self._left[uid] = task
            self._there[task] += 1

    def may_lose(self, pods: Set[str]) -> bool:
        """Whether these, by UID, may be victims as well: the minimum stays, or no pod."""
        return self._left.keys() <= pods or self.keeps_minimum(pods)

    def keeps_minimum(self, pods: Set[str]) -> bool:
        """Whether the minimum stays without these, by UID, as well."""
        return self._gang.suffices(
            self._there, but=Counter(self._left[uid] for uid in pods if uid in self._left)
        )


def started_gang(gang: Gang, *, running: Mapping[str, str], ended: Iterable[str] = ()) -> StartedGang:
    """A gang with these pods. `running`: tasks by UID. `ended`: tasks."""
    return StartedGang(
        uid=gang.uid, least=gang.least, tasks=gang.tasks, running=running, ended=tuple(sorted(ended))
    )
