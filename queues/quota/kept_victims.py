"""Who could go for a pod that waits, and which rule keeps the others: where nobody goes for it.

| of the queues that might lend           | is told                                                     |
|-----------------------------------------|-------------------------------------------------------------|
| the pod's queue may ask nothing back    | why                                                         |
| a queue lends none of its pods          | why, by the first of them                                   |
| a queue lends pods, and rules keep them | how many, and how many each rule keeps (`queues.quota.kept_by`) |
| some that nothing keeps                 | that they do not suffice                                    |

Invariants
- What is told of a pod is what the search for victims goes by (`queues.quota.giving_back`): a pod that
  nothing keeps is one that the search may take.
- A pod that frees nothing of what lacks is not counted.
- Nothing is changed by it.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from queues.quota.giving_back import OWN, AllowedTaking, GivingBack, Search, Taking, unit_of
from queues.quota.kept_by import KeptBy, kept_text
from queues.quota.pod_classes import WaitingPod
from queues.text import quoted

#: Queues of which it is told who could go.
MOST_QUEUES = 5


class QueueVictims(msgspec.Struct, frozen=True, kw_only=True):
    """Of one queue, so many pods that it lends, and how many of these each rule keeps. `denial`: why it lends
    none; "" where it lends some.
    """

    queue: str
    could: int = 0
    kept: tuple[tuple[KeptBy, int], ...] = ()
    denial: str = ""

    @property
    def free(self) -> int:
        """Those that no rule keeps."""
        return self.could - sum(number for _, number in self.kept)


class KeptVictims(msgspec.Struct, frozen=True, kw_only=True):
    """`asking`: why the pod's queue may ask nothing back; "" where it may, or asks nobody."""

    asking: str = ""
    queues: tuple[QueueVictims, ...] = ()

    def lines(self) -> list[str]:
        """A sentence for each queue, those that lend most first, and why its own may ask nothing back."""
        lending = sorted((each for each in self.queues if each.could), key=lambda each: -each.could)
        others = [each for each in self.queues if each.denial]
        found = [_lending_text(each) for each in lending[:MOST_QUEUES]]
        found += dict.fromkeys(each.denial for each in others[: MOST_QUEUES - len(found)])
        more = (
            len(self.queues) - len(lending[:MOST_QUEUES]) - len(others[: max(0, MOST_QUEUES - len(lending))])
        )
        if more > 0:
            found.append(f"and {more} more queues")
        return [*found, *([self.asking] if self.asking else [])]

    @property
    def brief(self) -> str:
        """What is said of the two queues that lend most, in one line without a semicolon; "" for none."""
        lending = sorted((each for each in self.queues if each.could), key=lambda each: -each.could)
        return " and ".join(map(_lending_text, lending[:2]))


def _lending_text(each: QueueVictims) -> str:
    pods = "1 pod" if each.could == 1 else f"{each.could} pods"
    text = f"{pods} of queue {quoted(each.queue)} could go"
    parts = [kept_text(each.kept)] if each.kept else []
    if each.free:
        parts.append(f"{each.free} would not suffice")
    return f"{text}: {', '.join(parts)}"


def kept_victims(look: GivingBack, claimant: WaitingPod, asked: AllowedTaking) -> KeptVictims:
    """`look`: in which the claimant was denied."""
    search = Search(look, claimant, asked)
    asking: str | None = None
    found: list[QueueVictims] = []
    for common, queues in sorted(look.tiers(claimant.queue).items()):
        taking = asked.own if common == OWN else asked.others
        if not taking.is_allowed:
            continue
        denial = search.asking_text(common)
        if denial is not None:
            asking = asking or denial
            continue
        of_tier = (_of_queue(look, search, queue, common, taking) for queue in sorted(queues))
        found += [each for each in of_tier if each is not None]
    return KeptVictims(asking=asking or "", queues=tuple(found))


def _of_queue(
    look: GivingBack, search: Search, queue: str, common: int, taking: Taking
) -> QueueVictims | None:
    """None where no pod of it frees anything of what lacks."""
    could, kept, denial = 0, Counter[KeptBy](), ""
    whole = {unit.gang: unit for unit in look.units(queue) if unit.is_whole}
    may_go_whole: dict[str, bool] = {}
    for pod in look.pods(queue):
        unit = unit_of((pod,), gang=pod.gang)
        if pod.uid in look.gone or not search.helps(unit):
            continue
        if (text := search.lending_text(unit, common)) is not None:
            denial = denial or text
            continue
        could += 1
        rule = pod.kept or search.kept_by(unit, common, taking)
        if rule is None and pod.gang and search.present(unit) is None:
            if pod.gang not in may_go_whole:
                gang = whole.get(pod.gang)
                may_go_whole[pod.gang] = (
                    gang is not None
                    and search.kept_by(gang, common, taking) is None
                    and search.lending_text(gang, common) is None
                )
            rule = None if may_go_whole[pod.gang] else KeptBy.GANG
        if rule is not None:
            kept[rule] += 1
    if not could and not denial:
        return None
    told = tuple((rule, kept[rule]) for rule in KeptBy if kept[rule])
    return QueueVictims(queue=queue, could=could, kept=told, denial="" if could else denial)
