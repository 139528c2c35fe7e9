"""Plans for random pods, budgets and spec, carried out on paper: what they promise holds anywhere."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta

from hypothesis import event, given
from hypothesis import strategies as st
from msgspec.structs import replace

from queues.apimachinery.label_selectors import Selector
from queues.drain.broken_gangs import OVERRULED, GangMinimum, broken_gangs
from queues.drain.disruption_budgets import Budget, BudgetKey
from queues.drain.model import (
    SYSTEM_PRIORITY,
    BlockedUnit,
    BlockerReason,
    DrainAction,
    DrainSpec,
    Plan,
    RunningPod,
    Unit,
    gang_key,
)
from tests.support.drain.drain_cases import (
    LAB,
    Cluster,
    budget,
    pod,
    sent_by,
    work,
)
from tests.support.rules.cases import (
    MODEST,
    NOW,
    SECOND,
)

#: Labels that budgets select, those of no budget, and those that `drain.keep` knows.
LABELS = (
    *[{"app": "web"}] * 6,
    {"app": "web", "tier": "front"},
    {"app": "web", "stay": "yes"},
    {"app": "db"},
    {},
)
SELECTORS: tuple[dict[str, str], ...] = ({"app": "web"}, {"app": "db"}, {"tier": "front"}, {})
#: The selectors of a cluster's budgets, by their place.
CHOSEN = ((0,), (0,), (0, 1), (0, 1, 2), (0, 2), (3,), (1, 3), ())
GANGS, JOBS = ("gang g", "gang g", "gang h"), ("job j", "job j", "job k", "job paused")
MAKERS = ("bare", *["replica"] * 6, *GANGS, *JOBS, "daemon")
GROUPS = tuple((namespace, name) for namespace in (LAB, "other") for name in "gh")
OFTEN = (True,) * 5 + (False,)
KEEP = Selector(match_labels={"stay": "yes"})
LONG = timedelta(days=1)


@st.composite
def random_pods(draw: st.DrawFn, name: str) -> RunningPod:
    """Any pod; one that is ready runs."""
    kind, _, which = draw(st.sampled_from(MAKERS)).partition(" ")
    running = draw(st.sampled_from(OFTEN))
    return pod(
        name,
        age=draw(st.integers(0, 2)),
        labels=draw(st.sampled_from(LABELS)),
        priority=draw(st.sampled_from((0, 0, 0, 1, 1, 2_000_000_000))),
        namespace=LAB if kind == "job" else draw(st.sampled_from((LAB, LAB, LAB, "other"))),
        pod_group=which if kind == "gang" else draw(st.sampled_from(("", "", "g"))) if kind == "job" else "",
        workload=work(which, suspended=which == "paused") if kind == "job" else None,
        bare=kind == "bare",
        daemon=kind == "daemon",
        ready=running and draw(st.sampled_from(OFTEN)),
        running=running,
        leaving=not draw(st.sampled_from(OFTEN)),
    )


@st.composite
def random_budgets(draw: st.DrawFn, number: int) -> Budget:
    """What it counts is worked out by the cluster; `outside` says whether that is looked at."""
    return budget(
        f"b{number}",
        labels=SELECTORS[number],
        desired=draw(st.integers(0, 4)),
        always_allow_unready=draw(st.booleans()),
        outside=draw(st.sampled_from((0, 0, 0, None))),
    )


@st.composite
def random_wishes(draw: st.DrawFn, *, overdue: bool = True) -> DrainSpec:
    late = (NOW - SECOND,) if overdue else ()
    return DrainSpec(
        keep_bare=draw(st.booleans()),
        keep=draw(st.sampled_from((None, KEEP))),
        evict_broken_gangs=draw(st.booleans()),
        deadline=draw(st.sampled_from((None, None, None, NOW + LONG, *late))),
        delete_after_deadline=draw(st.booleans()),
        unreadable=draw(st.sampled_from(("", "", "", "no such thing"))) if overdue else "",
    )


def random_minimums() -> st.SearchStrategy[GangMinimum]:
    return st.builds(GangMinimum, least=st.integers(2, 4), beside=st.sampled_from(((), (), ("",), ("", ""))))


@st.composite
def random_clusters(draw: st.DrawFn, *, overdue: bool = True) -> Cluster:
    names = [f"p{number}" for number in range(draw(st.integers(0, 9)))]
    want = [draw(random_budgets(number)) for number in draw(st.sampled_from(CHOSEN))]
    return Cluster(
        [draw(random_pods(name)) for name in names],
        want,
        spec=draw(random_wishes(overdue=overdue)),
        outside={one.key: draw(st.lists(st.booleans(), max_size=2)) for one in want},
        started_gangs=draw(st.frozensets(st.sampled_from(((LAB, "g"), ("other", "h"))))),
        minimums=draw(st.dictionaries(st.sampled_from(GROUPS), random_minimums())),
    )


def healthy(cluster: Cluster) -> Mapping[BudgetKey, int]:
    """By budget, who is healthy once all who are on their way are gone."""
    after = Cluster(
        cluster.runners.values(), cluster.want.values(), spec=cluster.spec, outside=cluster.outside
    )
    after.settle(ready=False)
    return {key: one.healthy for key, one in after.status.items()}


def uids(unit: Unit) -> frozenset[str]:
    return frozenset(one.uid for one in unit.pods)


def never(found: Plan) -> list[BlockedUnit]:
    """Blocks of budgets that are said to be for good."""
    return [block for block in found.blocked if block.never and block.reason is BlockerReason.BUDGET]


def goes_against_budgets(found: Plan) -> bool:
    return any(unit.action in {DrainAction.DELETE, DrainAction.SUSPEND_ANYWAY} for unit in found.steps)


@MODEST
@given(random_clusters(), st.data())
def test_no_plan_takes_more_than_a_budget_allows(cluster: Cluster, data: st.DataObject) -> None:
    """Each step in its order is granted by an API server that knows of all that was asked for before."""
    pending_disruptions = {key: data.draw(st.integers(0, 3), label="pending") for key in cluster.status}
    found = cluster.plan(pending_disruptions=pending_disruptions)
    if goes_against_budgets(found):
        return
    for key, number in pending_disruptions.items():
        held = cluster.status[key]
        cluster.status[key] = replace(held, allowed=max(0, held.allowed - number))
    assert cluster.carry_out(found)


@MODEST
@given(random_clusters(overdue=False))
def test_no_application_has_fewer_healthy_pods_than_it_wants(cluster: Cluster) -> None:
    """Once all who go are gone, each budget has those it wants, or no fewer than it would have had anyway."""
    before = healthy(cluster)
    found = cluster.plan()
    assert cluster.carry_out(found)
    for key, number in healthy(cluster).items():
        assert number >= min(before[key], cluster.want[key].desired)


@MODEST
@given(random_clusters(), st.booleans(), st.randoms())
def test_a_plan_that_is_not_carried_out(cluster: Cluster, later: bool, chance: random.Random) -> None:
    """What holds of it by itself: to draw the clusters takes longer than to look at what is made of them."""
    now = NOW + LONG if later else NOW
    found = cluster.plan(now=now)
    each_pod_is_in_one_part(cluster, found)
    nothing_of_a_broken_gang_stays_by_a_setting(cluster, found, now)
    the_order_holds_among_those_that_go_and_those_that_do_not(found)
    it_does_not_depend_on_the_order_of_its_pods(cluster, found, now, chance)


def each_pod_is_in_one_part(cluster: Cluster, found: Plan) -> None:
    """To go, kept, blocked or on its way: nobody is forgotten, and nobody is counted twice."""
    told = Counter(one.uid for unit in found.steps for one in unit.pods)
    told.update(one.uid for one, _ in found.kept)
    told.update(one.uid for block in found.blocked for one in block.unit.pods)
    told.update(one.uid for one in found.leaving)
    assert told == Counter(list(cluster.runners))
    assert found.left == len(cluster.runners) - len(found.kept)


def nothing_of_a_broken_gang_stays_by_a_setting(cluster: Cluster, found: Plan, now: datetime) -> None:
    """By no label, and as no bare pod; DaemonSets and the system stay whatever is set."""
    broken = broken_gangs(cluster.runners.values(), cluster.spec, cluster.minimums, now=now)
    event(f"broken: {bool(broken)}, kept: {bool(found.kept)}")
    assert not any(rule in OVERRULED and gang_key(one) in broken for one, rule in found.kept)
    units = (*found.steps, *(block.unit for block in found.blocked))
    assert not any(one.daemon or one.priority >= SYSTEM_PRIORITY for unit in units for one in unit.pods)
    assert all(gang_key(one) in broken for unit in units for one in unit.pods if one.uid in unit.overruled)


def the_order_holds_among_those_that_go_and_those_that_do_not(found: Plan) -> None:
    """Begun first, then the least important, then the youngest."""
    for units in (found.steps, [block.unit for block in found.blocked]):
        ranks = [
            (
                not unit.started,
                max(one.priority for one in unit.pods),
                NOW - max(one.created for one in unit.pods),
            )
            for unit in units
        ]
        assert ranks == sorted(ranks)


def it_does_not_depend_on_the_order_of_its_pods(
    cluster: Cluster, before: Plan, now: datetime, chance: random.Random
) -> None:
    """Two leaders that hold the same pods in another order ask the same of them, in the same order."""
    held = list(cluster.runners.items())
    chance.shuffle(held)
    cluster.runners = dict(held)
    after = cluster.plan(now=now)
    assert [uids(unit) for unit in after.steps] == [uids(unit) for unit in before.steps]
    assert {uids(block.unit) for block in after.blocked} == {uids(block.unit) for block in before.blocked}


@MODEST
@given(random_clusters(), st.booleans())
def test_no_pod_is_sent_twice(cluster: Cluster, counted: bool) -> None:
    """A second plan, before or after the budgets know of the first, names nobody whom the first sent away."""
    first = cluster.plan()
    if goes_against_budgets(first):
        return
    assert cluster.carry_out(first)
    if counted:
        cluster.count()
    sent = {uid for unit in first.steps for uid in sent_by(unit)}
    second = cluster.plan()
    assert not sent & {uid for unit in second.steps for uid in uids(unit)}
    assert sent <= {one.uid for one in second.leaving}


@MODEST
@given(random_clusters(overdue=False), st.data())
def test_never_is_not_set_for_a_pod_that_could_go(cluster: Cluster, data: st.DataObject) -> None:
    """Whoever else becomes ready or goes: the eviction API grants it to none of them, ever."""
    found = cluster.plan()
    assert cluster.carry_out(found)
    cluster.settle(ready=False)
    told = never(found)
    event(f"never: {bool(told)}")
    for _ in range(3):
        cluster.runners = {
            uid: replace(one, running=True, ready=True) if data.draw(st.booleans()) else one
            for uid, one in cluster.runners.items()
        }
        cluster.outside = {
            key: [ready or data.draw(st.booleans()) for ready in held]
            for key, held in cluster.outside.items()
        }
        for block in told:
            cluster.count()
            before = dict(cluster.runners)
            unit = replace(block.unit, pods=tuple(before[one.uid] for one in block.unit.pods))
            assert not cluster.send(unit)
            cluster.runners = before


@MODEST
@given(random_clusters(overdue=False), st.data())
def test_a_drain_ends_or_names_its_blockers(cluster: Cluster, data: st.DataObject) -> None:
    """Evict step by step until nobody may go any more, while pods become ready at any time.

    Who was said never to go has not gone; where all that can be known is known, all who are left are told of,
    and none of them is told to wait.
    """
    gone, said = set(), set()
    for _ in range(2 * len(cluster.runners) + 2):
        found = cluster.plan()
        gone |= {uids(unit) for unit in found.steps}
        said |= {uids(block.unit) for block in never(found)}
        assert not gone & said
        assert cluster.carry_out(found)
        cluster.settle(ready=data.draw(st.booleans()) or not found.steps)
    found = cluster.plan()
    assert (found.steps, found.leaving) == ((), ())
    assert found.left == sum(len(block.unit.pods) for block in found.blocked)
    event(f"ends: {not found.left}")
    known = all(one.outside is not None for one in cluster.want.values())
    if known and not (cluster.spec.deadline and cluster.spec.delete_after_deadline):
        assert all(block.never for block in found.blocked)


@MODEST
@given(random_clusters(overdue=False))
def test_a_deadline_that_deletes_ends_every_drain(cluster: Cluster) -> None:
    """Past it nobody is left but who stays by rule, and work of which a part does."""
    cluster.spec = replace(cluster.spec, deadline=NOW + LONG, delete_after_deadline=True)
    assert all(block.reason is BlockerReason.KEPT_PART for block in cluster.plan().blocked if block.never)
    found = cluster.plan(now=NOW + LONG)
    assert all(block.reason is BlockerReason.KEPT_PART for block in found.blocked)
    assert {unit.action for unit in found.steps} <= {DrainAction.DELETE, DrainAction.SUSPEND_ANYWAY}
