"""Who would go now for the pods of a queue."""

from __future__ import annotations

from datetime import UTC, datetime

from queues.queue import DequeueStrategy, Queue
from queues.quota.giving_back import AllowedTaking, Borrowed, Taking
from queues.quota.ledger import AmountReason, Ledger
from queues.quota.reclaim_preview import ReclaimFacts, who_would_go
from queues.tree import Tree
from tests.support.quota.kept_index import a_pod

TAKES = AllowedTaking(others=Taking(is_allowed=True))


def test_in_a_fifo_queue_who_never_fits_keeps_nobody_behind_it_from_what_the_queue_deserves() -> None:
    team = Queue(
        name="team",
        parent="lab",
        capability=(("cpu", 4),),
        deserved=(("cpu", 4),),
        dequeue=DequeueStrategy.FIFO,
    )
    queues = [Queue(name="lab", capability=(("cpu", 4),)), team, Queue(name="other", parent="lab")]
    tree = Tree({each.name: each for each in queues})
    ledger = Ledger(tree)
    runs = Borrowed(
        uid="runs",
        queue="other",
        requests=a_pod("runs", "other", cpu=4).requests,
        since=datetime(2026, 1, 1, tzinfo=UTC),
    )
    ledger.set_one("other", AmountReason.USED, "runs", runs.requests)
    waiting = [a_pod("huge", "team", age=9, cpu=5), a_pod("next", "team", cpu=1)]
    facts = ReclaimFacts(ledger=ledger, waiting=waiting, pods=[runs], reclaimable=lambda _name: True)
    found = who_would_go("team", tree=tree, asked=TAKES, facts=facts)
    assert [(each.pod.uid, each.claimant.uid) for each in found.going] == [("runs", "next")]
