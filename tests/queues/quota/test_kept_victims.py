"""Who could go for a pod for which nobody goes, and which rule keeps the others."""

from __future__ import annotations

from typing import Any

from hypothesis import given

from queues.quota.giving_back import AllowedTaking, Borrowed, Taking
from queues.quota.kept_by import KeptBy, kept_text
from queues.quota.kept_victims import KeptVictims, QueueVictims, kept_victims
from tests.queues.quota.test_giving_back_gangs import GangCluster, clusters
from tests.queues.quota.test_lending import PREEMPT, RECLAIM, amounts, asking, queue
from tests.support.cases import each_case
from tests.support.examples import examples


def told(
    cluster: GangCluster, cpu: int, *, asked: AllowedTaking = RECLAIM, priority: int = 0, of: str = "a"
) -> KeptVictims:
    before = cluster.used()
    look, claimant = cluster.look({"none": 0}), asking(of, amounts(cpu), priority)
    assert look.ask(claimant, asked) is None
    found = kept_victims(look, claimant, asked)
    look.close()
    assert cluster.used() == before
    return found


def lab(**b: Any) -> GangCluster:
    return GangCluster(queue("a", deserved=6), queue("b", **{"deserved": 2, **b}), whole=8)


@each_case(
    ("fields", "rule"),
    [
        ({"kept": KeptBy.NOT_PREEMPTABLE}, KeptBy.NOT_PREEMPTABLE),
        ({"is_critical": True}, KeptBy.CRITICAL),
        ({"priority": 5}, KeptBy.PRIORITY),
        ({"budgets": ("none",)}, KeptBy.BUDGET),
    ],
)
def test_each_rule_says_how_many_it_keeps(fields: dict[str, Any], rule: KeptBy) -> None:
    cluster = lab()
    cluster.runs("b", *[1] * 7, **fields)
    cluster.runs("b", 1)
    spares = AllowedTaking(others=Taking(is_allowed=True, spares_critical=True, lower_only=True))
    found = told(cluster, 2, asked=spares, priority=5)
    assert found == KeptVictims(queues=(QueueVictims(queue="b", could=8, kept=((rule, 7),)),))
    assert found.lines() == [f'8 pods of queue "b" could go: {kept_text([(rule, 7)])}, 1 would not suffice']
    assert found.brief == found.lines()[0]


def test_a_gang_that_goes_whole_or_not_at_all_says_so() -> None:
    cluster = lab(guarantee=2)
    cluster.gang("b", "ring", *[1] * 8, least=8)
    found = told(cluster, 1)
    assert found.lines() == ['8 pods of queue "b" could go: 8 are of gangs that go whole or not at all']


@each_case(
    ("a", "b", "line"),
    [
        ({"deserved": 6}, {"priority": 1}, 'queue "b" has a higher priority than "a"'),
        ({"deserved": 6}, {"deserved": 8}, 'queue "b" uses no more than it deserves'),
        ({}, {}, "its queue lists nothing that it deserves of what lacks room"),
        ({"deserved": 0}, {}, 'queue "a" would use more cpu than it deserves'),
    ],
)
def test_why_a_queue_lends_or_asks_nothing(a: dict[str, Any], b: dict[str, Any], line: str) -> None:
    cluster = GangCluster(queue("a", **a), queue("b", **b), whole=8)
    cluster.runs("b", *[1] * 8)
    found = told(cluster, 1)
    assert line in found.lines()[0] or line.removeprefix("its queue ") in found.lines()[0]
    assert found.brief == ""


def test_of_the_own_queue_those_of_no_lower_priority_are_told() -> None:
    cluster = GangCluster(queue("a"), whole=2)
    cluster.runs("a", 1, 1, priority=3)
    assert told(cluster, 1, asked=PREEMPT, priority=3).lines() == [
        '2 pods of queue "a" could go: 2 have no lower priority'
    ]


def test_the_lines_are_bounded_and_say_how_many_more() -> None:
    cluster = GangCluster(queue("a", deserved=10), *(queue(f"b{number}") for number in range(9)), whole=9)
    for number in range(9):
        cluster.runs(f"b{number}", 1, kept=KeptBy.DAEMON)
    lines = told(cluster, 9).lines()
    assert len(lines) == 6
    assert lines[-1] == "and 4 more queues"


@examples(200)
@given(clusters())
def test_where_nobody_goes_what_nothing_keeps_would_not_suffice(
    drawn: tuple[GangCluster, list[int], int],
) -> None:
    """What is told of each pod is what the search goes by."""
    cluster, _, cpu = drawn
    look, claimant = cluster.look({"two": 2}), asking("a", amounts(cpu))
    if look.ask(claimant, RECLAIM) is None:
        for each in kept_victims(look, claimant, RECLAIM).queues:
            pods: list[Borrowed] = [pod for pod in cluster.pods.values() if pod.queue == each.queue]
            assert 0 <= each.free <= each.could <= len(pods)
            assert bool(each.denial) is not bool(each.could)
    look.close()
