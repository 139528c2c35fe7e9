"""Which victims a policy lets a pod have; each rule beside the case in which it does not hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from queues.policies.model import Policy
from queues.policies.scheduler_conf import parse_policy
from queues.policies.victims import (
    CRITICAL_PRIORITY,
    Preemptor,
    QueueShare,
    Victim,
    VictimRules,
    victim_denial,
)
from queues.quota.started_gangs import StartedGang
from tests.support.cases import each_case
from tests.support.quota.counted_pods import ONCE, CountedPods

GI = 2**30
POD = Preemptor(queue="research", priority=100, requests={"cpu": 1})


def policy(actions: str, *plugins: str) -> Policy:
    listed = ", ".join("{" + plugin + "}" for plugin in plugins)
    return parse_policy(f"actions: {actions}\ntiers: [{{plugins: [{listed}]}}]")


def share(name: str, **fields: Any) -> QueueShare:
    return QueueShare(**{"name": name, "ancestors": ("root",), **fields})


def shares(*more: QueueShare) -> Mapping[str, QueueShare]:
    fixed = (share("research", deserved={"cpu": 100}), QueueShare(name="root", reclaimable=False))
    return {one.name: one for one in (*fixed, *more)}


def victim(queue: str, cpu: int = 1, **fields: Any) -> Victim:
    return Victim(**{"name": "v", "queue": queue, "requests": {"cpu": cpu}, **fields})


RECLAIM = policy("allocate, reclaim")
BUSY = share("team", allocated={"cpu": 10}, deserved={"cpu": 4})


@each_case(
    ("actions", "queue", "denied"),
    [
        ("allocate", "research", "no action preempt"),
        ("allocate, reclaim", "research", "no action preempt"),
        ("allocate, preempt", "research", None),
        ("allocate", "team", "no action reclaim"),
        ("allocate, preempt", "team", "no action reclaim"),
        ("allocate, reclaim", "team", None),
        ("allocate", "", None),
    ],
)
def test_the_actions_of_the_policy_say_whose_pods_may_go(
    actions: str, queue: str, denied: str | None
) -> None:
    check(victim_denial(policy(actions), POD, [victim(queue)], shares(BUSY)), denied)


def test_without_a_policy_every_victim_may_go() -> None:
    assert victim_denial(None, POD, [victim("research"), victim("team"), victim("none")], {}) is None


@each_case(
    ("team", "denied"),
    [
        ({}, None),
        ({"reclaimable": False}, "is not reclaimable"),
        ({"priority": 1}, "has a higher priority"),
        ({"priority": -1}, None),
        ({"allocated": {"cpu": 4}}, "uses no more than it deserves"),
        ({"allocated": {"cpu": 4, "memory": 1}}, "uses no more than it deserves"),  # memory is not short
        ({"deserved": {"memory": 1}}, None),  # of what the victim requests it lists nothing
        ({"deserved": {}}, None),
        ({"guarantee": {"cpu": 9}}, None),
        ({"guarantee": {"cpu": 10}}, "less cpu than its guarantee"),
        ({"allocated": {"cpu": 10, "memory": 5}, "guarantee": {"cpu": 10}}, "less cpu than its guarantee"),
        ({"guarantee": {"memory": 1}}, None),  # the victim has none of it
    ],
)
def test_what_a_queue_lends(team: Mapping[str, Any], denied: str | None) -> None:
    lender = share("team", **{"allocated": {"cpu": 10}, "deserved": {"cpu": 4}, **team})
    check(victim_denial(RECLAIM, POD, [victim("team")], shares(lender)), denied)


@each_case(
    ("research", "denied"),
    [
        ({"allocated": {"cpu": 3}}, None),
        ({"allocated": {"cpu": 4}}, "would use more cpu than it deserves"),
        ({"deserved": {}}, "lists nothing that it deserves"),
        ({"deserved": {}, "guarantee": {"cpu": 4}}, None),
        ({"deserved": {"memory": 9}}, "lists nothing that it deserves"),
    ],
)
def test_a_queue_asks_back_what_it_deserves(research: Mapping[str, Any], denied: str | None) -> None:
    asks = share("research", **{"deserved": {"cpu": 4}, **research})
    check(victim_denial(RECLAIM, POD, [victim("team")], shares(BUSY, asks)), denied)


def test_pods_of_a_queue_above_stand_beside_the_queues_below_it() -> None:
    asks = share("research", ancestors=("team", "root"), deserved={"cpu": 4})
    check(victim_denial(RECLAIM, POD, [victim("team")], shares(BUSY, asks)), None)
    kept = share("team", allocated={"cpu": 10}, reclaimable=False)
    check(victim_denial(RECLAIM, POD, [victim("team")], shares(kept, asks)), "is not reclaimable")


def test_victims_of_one_node_are_counted_one_after_the_other() -> None:
    lender = share("team", allocated={"cpu": 6}, deserved={"cpu": 4})
    assert victim_denial(RECLAIM, POD, [victim("team"), victim("team")], shares(lender)) is None
    three = [victim("team"), victim("team"), victim("team")]
    check(victim_denial(RECLAIM, POD, three, shares(lender)), "uses no more than it deserves")


def test_ancestors_of_the_lender_keep_what_they_deserve_and_their_guarantees() -> None:
    lender = share("leaf", ancestors=("team", "root"), allocated={"cpu": 6}, deserved={"cpu": 1})
    for team, denied in (
        (share("team", allocated={"cpu": 6}, guarantee={"cpu": 5}), None),
        (
            share("team", allocated={"cpu": 6, "memory": 1}, guarantee={"cpu": 6}),
            '"team" would have less cpu',
        ),
        (share("team", allocated={"cpu": 6}, reclaimable=False), '"team" is not reclaimable'),
        (share("team", allocated={"cpu": 6}, deserved={"cpu": 6}), '"team" uses no more than it deserves'),
        (share("team", allocated={"cpu": 6}, deserved={"cpu": 5}), None),
    ):
        check(victim_denial(RECLAIM, POD, [victim("leaf")], shares(lender, team)), denied)


def test_victims_of_several_queues_are_counted_for_the_queue_above_them() -> None:
    leaves = [share(name, ancestors=("team", "root"), allocated={"cpu": 6}) for name in ("one", "two")]
    team = share("team", allocated={"cpu": 12}, deserved={"cpu": 10})
    both = [victim("one"), victim("two")]
    assert victim_denial(RECLAIM, POD, both, shares(*leaves, team)) is None
    three = [*both, victim("one")]
    check(victim_denial(RECLAIM, POD, three, shares(*leaves, team)), '"team" uses no more than it deserves')


def test_a_queue_above_both_is_not_asked() -> None:
    lender = share("leaf", ancestors=("team", "root"), allocated={"cpu": 6}, deserved={"cpu": 1})
    team = share("team", allocated={"cpu": 6}, deserved={"cpu": 6}, reclaimable=False, guarantee={"cpu": 6})
    own = share("sister", ancestors=("team", "root"), deserved={"cpu": 1})
    pod = Preemptor(queue="sister", priority=1, requests={"cpu": 1})
    assert victim_denial(RECLAIM, pod, [victim("leaf")], shares(lender, team, own)) is None


def test_a_queue_that_is_not_known_lends_nothing() -> None:
    check(victim_denial(RECLAIM, POD, [victim("gone")], shares()), "is not known")


@each_case(
    ("fields", "critical"),
    [
        ({}, False),
        ({"priority_class": "system-node-critical"}, True),
        ({"priority_class": "system-cluster-critical"}, True),
        ({"priority": CRITICAL_PRIORITY}, True),
        ({"namespace": "kube-system"}, True),
    ],
)
@each_case("queue", ["", "research", "team"])
def test_conformance_protects_system_pods_of_any_queue(
    queue: str, fields: Mapping[str, Any], critical: bool
) -> None:
    one = victim(queue, **fields)
    without = policy("preempt, reclaim")
    assert victim_denial(without, POD, [one], shares(BUSY)) is None
    denial = victim_denial(policy("preempt, reclaim", "name: conformance"), POD, [one], shares(BUSY))
    check(denial, "plugin conformance" if critical else None)


@each_case(
    ("switch", "queue", "denied"),
    [
        ("", "research", "lower priority"),
        ("", "team", None),
        (", enablePreemptable: false", "research", None),
        (", enablePreemptable: true", "team", None),
        (", enableReclaimable: true", "team", "lower priority"),
        (", enableReclaimable: true", "research", "lower priority"),
        (", enablePreemptable: false, enableReclaimable: true", "team", "lower priority"),
        (", enableReclaimable: false", "team", None),
    ],
)
def test_priority_gates_preempt_and_reclaim_only_where_that_is_written(
    switch: str, queue: str, denied: str | None
) -> None:
    rules = policy("preempt, reclaim", "name: priority" + switch)
    check(victim_denial(rules, POD, [victim(queue, priority=100)], shares(BUSY)), denied)
    assert victim_denial(rules, POD, [victim(queue, priority=99)], shares(BUSY)) is None


@given(
    cpu=st.lists(st.integers(0, 5), max_size=8),
    allocated=st.integers(0, 20),
    deserved=st.integers(0, 20),
    guarantee=st.integers(0, 20),
)
def test_no_set_of_victims_takes_a_guarantee(
    cpu: list[int], allocated: int, deserved: int, guarantee: int
) -> None:
    lender = share(
        "team", allocated={"cpu": allocated}, deserved={"cpu": deserved}, guarantee={"cpu": guarantee}
    )
    victims = [victim("team", each) for each in cpu]
    if any(cpu) and victim_denial(RECLAIM, POD, victims, shares(lender)) is None:
        assert allocated - sum(cpu) >= guarantee
        assert allocated > deserved


def test_gangs_and_grants_are_read_once_for_all_nodes_of_a_request() -> None:
    running = CountedPods({f"pod-{number}": "" for number in range(100)})
    ring = StartedGang(uid="ring", least=50, running=running)
    reads: list[str] = []

    def given() -> frozenset[str]:
        reads.append("given")
        return frozenset({"pod-99"})

    rules = VictimRules(policy("preempt"), POD, {}, gangs=lambda _uid: ring, given=given)

    def of_ring(*numbers: int) -> list[Victim]:
        return [victim("research", uid=f"pod-{number}", gang="ring") for number in numbers]

    assert rules.denial([victim("research", uid="alone")]) is None
    assert rules.denial(of_ring(*range(100))) is None
    assert not reads, "nothing stays of it, whatever others were given"
    for _ in range(20):
        assert rules.denial(of_ring(*range(49))) is None
        check(rules.denial(of_ring(*range(50))), "fewer pods than its minimum")
        assert rules.denial(of_ring(*range(48), 99)) is None
    assert (running.times, reads) == (ONCE, ["given"])


def check(denial: str | None, expected: str | None) -> None:
    if expected is None:
        assert denial is None
    else:
        assert denial is not None and expected in denial
