"""No replica answers from queues older than a stop that counts as seen by all, whatever becomes of Leases.

Random histories of three replicas. Each renews its Lease when it comes to it. Anybody deletes Leases. The
leader lists them now and then, and its watch is late, or begins anew after a gap. Each part of the evidence
is left out in turn, and a replica is found that answers from older queues.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import cast

import msgspec
import pytest

from cluster.coordination.lease_events import LeaseEvents
from cluster.coordination.leases import LEASE_SECONDS, MARGIN_SECONDS, Lease, LeaseList, Leases
from cluster.coordination.own_lease import GAP_MARGIN_SECONDS
from cluster.coordination.replica_lease import PREFIX, LeaseKey, key_of
from cluster.coordination.replica_report import ReplicaReport
from cluster.coordination.replicas import OtherReplicas, ReplicaReading
from cluster.objects import ListMeta
from tests.support.controller.leases import lease
from tests.support.examples import scaled

STEPS, SOUND, TRIED = 300, scaled(300), 3_000
EVIDENCE = ("watched to the stop", "shown and not listed", "certain")
ACTIONS = {
    "renew": 6,
    "delete": 2,
    "end": 0.3,
    "see": 4,
    "ask_to_stop": 1,
    "deliver": 6,
    "gap": 0.3,
    "read": 6,
    "time": 4,
}


class Violation(AssertionError):
    """A replica answers from queues older than a stop that all have seen."""


@dataclass
class Replica:
    """`queues`: the version of its queues; `until`: up to when it answers, in seconds."""

    name: str
    uid: str = ""
    queues: int = 0
    until: float = -1.0
    renewed_at: float = -1.0


class History:
    """`without`: the part of the evidence that is not asked for."""

    def __init__(self, seed: int, *, without: str = "") -> None:
        self.chance, self.without, self.now = random.Random(seed), without, 100.0
        self.version = 1
        #: How often what happens in this history: what is rare in most is common in some.
        self.weights = [weight * self.chance.choice((0.1, 1.0, 3.0)) for weight in ACTIONS.values()]
        self.leases: dict[LeaseKey, Lease] = {}
        #: Each event of the watch: its version, and the Lease that was changed, or is gone.
        self.events: list[tuple[int, Lease, bool]] = []
        self.replicas = [Replica(name) for name in "abc"]
        self.stop = self.seen_by_all = self.applied = self.delivered = 0
        self.stopped_at = 0.0
        self.shown = LeaseEvents(clock=lambda: self.now)
        self.others = OtherReplicas(
            cast(Leases, None), identity="leader", clock=lambda: self.now, events=self.shown
        )
        self.reading: tuple[float, ReplicaReading] | None = None
        self.gap()

    def tick(self) -> int:
        self.version += 1
        return self.version

    def step(self) -> None:
        action = self.chance.choices(list(ACTIONS), self.weights)[0]
        if action in {"renew", "delete", "end", "see"}:
            getattr(self, action)(self.chance.choice(self.replicas))
        else:
            getattr(self, action)()
        self.look()
        answering = [each for each in self.replicas if self.now < each.until]
        late = [each.name for each in answering if each.queues < self.seen_by_all]
        if late:
            raise Violation(late)

    # Replicas

    def renew(self, replica: Replica) -> None:
        """As `own_lease` does. After a gap it lists the queues before it answers."""
        had_lease = (PREFIX + replica.name, replica.uid) in self.leases
        if not had_lease:
            replica.uid = str(self.tick())
        self.store(replica)
        if not had_lease or self.now > replica.renewed_at + LEASE_SECONDS - GAP_MARGIN_SECONDS:
            replica.queues = self.version
        replica.renewed_at, replica.until = self.now, self.now + LEASE_SECONDS - MARGIN_SECONDS

    def store(self, replica: Replica, *, ended: bool = False) -> None:
        written = lease(
            replica.name,
            ReplicaReport(seen=replica.queues),
            version=self.tick(),
            ended=ended,
            uid=replica.uid,
        )
        self.leases[key_of(written)] = written
        self.events.append((self.version, written, False))

    def delete(self, replica: Replica) -> None:
        found = self.leases.pop((PREFIX + replica.name, replica.uid), None)
        if found is not None:
            gone = msgspec.structs.replace(found.metadata, resource_version=str(self.tick()))
            self.events.append((self.version, msgspec.structs.replace(found, metadata=gone), True))

    def end(self, replica: Replica) -> None:
        replica.until = -1.0
        if (PREFIX + replica.name, replica.uid) in self.leases:
            self.store(replica, ended=True)
            self.delete(replica)

    def see(self, replica: Replica) -> None:
        replica.queues = max(replica.queues, self.stop)

    # The leader

    def ask_to_stop(self) -> None:
        self.stop, self.stopped_at = self.tick(), self.now

    def deliver(self) -> None:
        upto = self.chance.randint(self.delivered, len(self.events))
        for version, changed, is_gone in self.events[self.delivered : upto]:
            (self.shown.remove if is_gone else self.shown.upsert)(changed)
            self.applied = version
        self.delivered = upto

    def gap(self) -> None:
        self.shown.replace(list(self.leases.values()))
        self.delivered, self.applied = len(self.events), self.version

    def read(self) -> None:
        listed = LeaseList(ListMeta(resource_version=str(self.version)), list(self.leases.values()))
        self.reading = self.now, self.others.read(listed, began=self.now)

    def time(self) -> None:
        self.now += self.chance.choice((0.5, 1.0, 3.0))

    def look(self) -> None:
        """What the acknowledgement asks of the replicas."""
        if self.stop <= self.seen_by_all or self.reading is None or self.reading[1].version < self.stop:
            return
        reports = self.reading[1].views
        if self.without != "watched to the stop" and self.applied < self.stop:
            return
        if self.without != "shown and not listed":
            unread = self.others.unread(self.reading[1])
            reports = {**reports, **{name: report for name, _, report in unread}}
        if self.without != "certain" and self.now < self.shown.certain_at:
            return
        if all(report.seen >= self.stop for report in reports.values()):
            self.seen_by_all = self.stop


def run(seed: int, *, without: str = "") -> int:
    """How many stops were seen by all. Raises `Violation`."""
    history, seen = History(seed, without=without), set[int]()
    for _ in range(STEPS):
        history.step()
        seen.add(history.seen_by_all)
    return len(seen) - 1


def test_no_replica_answers_from_queues_older_than_a_stop_that_all_have_seen() -> None:
    assert sum(run(seed) for seed in range(SOUND)) > SOUND / 10


@pytest.mark.parametrize("without", EVIDENCE)
def test_each_part_of_the_evidence_is_needed(without: str) -> None:
    with pytest.raises(Violation):
        for seed in range(TRIED):
            run(seed, without=without)
