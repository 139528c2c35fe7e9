"""The state of one drain: what may be sent, and what is remembered of what was sent."""

from __future__ import annotations

from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from controller.drain.limits import PAUSE
from controller.drain.request_states import (
    BUDGET_RETRY,
    GRANTED_SECONDS,
    RETRY,
    SUSPEND_SECONDS,
    RequestResult,
)
from controller.drain.snapshot import DrainSnapshot, ReadMemory, ReadRequest, ReadResult
from controller.drain.state import (
    ABANDONED_SECONDS,
    BUDGET_SETTLE_SECONDS,
    STEP_SECONDS,
    Drains,
    DrainState,
    rest_after,
)
from controller.evictions.answers import EvictionOutcome
from queues.drain.disruption_budgets import BudgetIndex
from queues.drain.model import (
    DrainAction,
    DrainSpec,
    Plan,
    RunningPod,
    SuspendableWorkload,
    Termination,
    Unit,
)
from queues.drain.progress import DrainCounts, QueueProgress
from queues.drain.terminating_pods import Delay, DelayedPod
from tests.support.cases import each_case

NOW = 1000.0
#: The share of a drain that has the server for itself.
RATE, IN_FLIGHT = 1000.0, 100
MADE = datetime(2030, 1, 1, tzinfo=UTC)
BUDGET = ("team", "web")


def pod(name: str, **more: Any) -> RunningPod:
    return RunningPod(
        uid=name, namespace="team", name=name, queue="research", labels={}, created=MADE, **more
    )


def work(kind: str = "jobs", *, suspended: bool = False) -> SuspendableWorkload:
    return SuspendableWorkload(
        kind=kind, namespace="team", name="train", uid="uid-of-train", suspended=suspended
    )


def evicting(*pods: str, gang: str = "") -> Unit:
    return Unit(action=DrainAction.EVICT, pods=tuple(map(pod, pods)), gang=gang, budgets=(BUDGET,))


def suspending(number: int = 2, kind: str = "jobs") -> Unit:
    made = work(kind)
    pods = tuple(pod(f"part-{each}", workload=made) for each in range(number))
    return Unit(action=DrainAction.SUSPEND, pods=pods, workload=made, budgets=(BUDGET,))


def delayed(of: RunningPod) -> DelayedPod:
    return DelayedPod(pod=of, delay=Delay.NOT_ENDED, message="it does not end")


def drain(**spec: Any) -> DrainState:
    made = DrainState("research", now=NOW, rate=RATE)
    made.set_spec(DrainSpec(**spec))
    made.set_shares(in_flight=IN_FLIGHT, rate=RATE)
    return made


def names(units: list[Unit]) -> list[str]:
    return [each.name for unit in units for each in unit.pods]


def send(state: DrainState, *units: Unit, leaving: int = 0, spare: int = 100, now: float = NOW) -> list[str]:
    found = Plan(steps=units, leaving=tuple(pod(f"old-{number}") for number in range(leaving)))
    return names(state.take_steps(found, now=now, spare=spare)[0])


def record(
    state: DrainState,
    unit: Unit,
    outcome: EvictionOutcome = EvictionOutcome.GRANTED,
    *,
    now: float = NOW,
    **more: Any,
) -> None:
    whole = unit.action is DrainAction.SUSPEND
    for each in (None,) if whole else unit.pods:
        told = RequestResult(drain="research", unit=unit, outcome=outcome, pod=each, **more)
        state.record_result(told, now=now)


@pytest.mark.parametrize(("limit", "leaving", "expected"), [(0, 50, 3), (3, 0, 3), (3, 1, 2), (3, 3, 0)])
def test_no_more_pods_are_in_flight_than_in_flight_of_the_queue_allows(
    limit: int, leaving: int, expected: int
) -> None:
    """Leaving pods count."""
    units = [evicting(name) for name in "abc"]
    assert len(send(drain(in_flight=limit), *units, leaving=leaving)) == expected


@pytest.mark.parametrize(("share", "spare", "expected"), [(2, 9, "ab"), (9, 2, "ab"), (0, 9, ""), (9, 0, "")])
def test_no_more_pods_are_in_flight_than_the_limits_of_the_server_allow(
    share: int, spare: int, expected: str
) -> None:
    """Neither more than the share of this drain, nor more than all drains may have."""
    state = drain()
    state.set_shares(in_flight=share, rate=RATE)
    assert send(state, *map(evicting, "abc"), spare=spare) == list(expected)


def test_a_unit_larger_than_the_limit_is_sent_alone() -> None:
    """Else it would never go."""
    assert len(send(drain(in_flight=2), suspending(5))) == 5
    assert send(drain(in_flight=2), suspending(5), leaving=1) == []


def test_no_unit_overtakes_one_that_waits_for_places() -> None:
    """The order is kept."""
    assert send(drain(in_flight=3), evicting("a"), suspending(3), evicting("b")) == ["a"]


def test_a_rate_allows_so_many_evictions_a_second() -> None:
    state = drain(rate=2.0)
    units = [evicting(name) for name in "abcdef"]
    assert send(state, *units) == ["a"]
    assert send(state, *units, now=NOW + 1.0) == ["a", "b"]
    assert send(state, *units, now=NOW + 1.2) == []
    assert send(state, *units, now=NOW + 1.5) == ["a"]


def test_a_gang_larger_than_the_rate_delays_what_comes_after_it() -> None:
    """It goes whole, and the next waits for as long as all of it would have taken."""
    state = drain(rate=2.0)
    assert len(send(state, evicting("a", "b", "c", "d"))) == 4
    assert send(state, evicting("e"), now=NOW + 1.9) == []
    assert send(state, evicting("e"), now=NOW + 2.1) == ["e"]


def test_a_pending_request_is_not_sent_again() -> None:
    state, unit = drain(), evicting("a")
    state.record_request(unit, now=NOW)
    assert (state.in_flight, state.requested_uids) == (1, frozenset("a"))
    assert send(state, unit) == []


def test_a_granted_request_is_not_sent_again_before_the_cache_shows_it() -> None:
    state, unit = drain(), evicting("a")
    state.record_request(unit, now=NOW)
    record(state, unit)
    assert state.requested_uids == {"a"}
    state.record_pods([pod("a")], is_leaving=lambda _: False, now=NOW + 1)
    assert state.requested_uids == {"a"}
    state.record_pods([pod("a")], is_leaving=lambda _: True, now=NOW + 1)
    assert state.requested_uids == frozenset()


def test_a_granted_request_that_never_shows_is_sent_again() -> None:
    """The pod does not count as in flight for ever, whatever took the eviction back."""
    state, unit = drain(), evicting("a")
    state.record_request(unit, now=NOW)
    record(state, unit)
    state.record_pods([pod("a")], is_leaving=lambda _: False, now=NOW + GRANTED_SECONDS - 1)
    assert send(state, unit) == []
    state.record_pods([pod("a")], is_leaving=lambda _: False, now=NOW + GRANTED_SECONDS)
    assert send(state, unit) == ["a"]


@pytest.mark.parametrize(
    "outcome",
    [EvictionOutcome.BUDGET, EvictionOutcome.ABSENT, EvictionOutcome.REFUSED, EvictionOutcome.OVERLOADED],
)
def test_a_failed_request_is_sent_again_after_a_wait_that_doubles(outcome: EvictionOutcome) -> None:
    state, unit = drain(), evicting("a")
    for wait in (RETRY.first, 2 * RETRY.first, 4 * RETRY.first):
        state.record_request(unit, now=NOW)
        record(state, unit, outcome)
        assert send(state, unit, now=NOW + wait * 0.9) == []
        assert send(state, unit, now=NOW + wait) == ["a"]


@pytest.mark.parametrize(("excess", "longest"), [("", BUDGET_RETRY.longest), ("too many", RETRY.longest)])
def test_what_a_budget_refuses_is_sent_again_soon_unless_the_budgets_are_unknown(
    excess: str, longest: float
) -> None:
    """Then the API server looks through thousands of them for each try."""
    state, unit = drain(), evicting("a")
    state.record_snapshot(
        DrainSnapshot(at=NOW, index=BudgetIndex([], excess={"team": excess} if excess else {}))
    )
    for _ in range(20):
        state.record_request(unit, now=NOW)
        record(state, unit, EvictionOutcome.BUDGET)
    assert send(state, unit, now=NOW + longest * 0.9) == []
    assert send(state, unit, now=NOW + longest) == ["a"]


def test_a_pod_that_is_always_refused_delays_no_other() -> None:
    """It neither is first again at once, nor takes what may go in a second."""
    state, first, asked = drain(rate=0.5), evicting("a"), []
    for second in range(60):
        found = Plan(steps=(first, evicting(f"b-{second}")))
        units, _ = state.take_steps(found, now=NOW + second, spare=9)
        for unit in units:
            state.record_request(unit, now=NOW + second)
            record(
                state,
                unit,
                EvictionOutcome.REFUSED if unit is first else EvictionOutcome.GRANTED,
                now=NOW + second,
            )
            asked += names([unit])
    assert len([name for name in asked if name != "a"]) >= 25


def test_a_pod_that_is_refused_twice_is_blocked_with_the_words_of_the_refusal() -> None:
    state, unit = drain(), evicting("a")
    found = Plan(steps=(unit, evicting("b")))
    record(state, unit, EvictionOutcome.REFUSED, message="webhook says no")
    assert state.with_refusals(found) == found
    record(state, unit, EvictionOutcome.REFUSED, message="webhook says no")
    told = state.with_refusals(found)
    assert names(list(told.steps)) == ["b"]
    assert [(block.blocker, block.never) for block in told.blocked] == [("pod team/a", False)]
    assert "webhook says no" in told.blocked[0].message
    record(state, unit)
    assert state.with_refusals(found) == found


def test_a_pod_that_two_budgets_select_is_blocked_at_once() -> None:
    """The eviction API refuses it for ever."""
    state, unit = drain(), evicting("a")
    record(state, unit, EvictionOutcome.SEVERAL_BUDGETS, message="more than one PodDisruptionBudget")
    [block] = state.with_refusals(Plan(steps=(unit,))).blocked
    assert "more than one PodDisruptionBudget" in block.message
    assert send(state, unit, now=NOW + RETRY.longest - 1) == []


def test_delayed_pods_hold_no_places() -> None:
    """A finalizer on every pod stops no drain."""
    state = drain(in_flight=2)
    hanging = (pod("old-0"), pod("old-1"))
    found = Plan(steps=(evicting("a"),), leaving=hanging)
    state.record_plan(found, delays=map(delayed, hanging), now=NOW)
    assert state.in_flight == 0
    assert send(state, evicting("a"), leaving=2) == ["a"]


def test_namespaces_with_delayed_pods_go_last_and_have_half_of_the_places() -> None:
    """Others need not wait again for each of their thousand pods."""
    state = drain(in_flight=4)
    state.record_plan(Plan(), now=NOW, delays=[delayed(pod("old"))])
    units = [*map(evicting, ("a", "b", "c")), elsewhere("x")]
    assert send(state, *units) == ["x", "a", "b"]
    state.record_plan(Plan(), now=NOW)
    assert send(state, *units) == ["a", "b", "c", "x"]


def test_a_namespace_with_many_pods_that_do_not_end_delays_others_once() -> None:
    """A thousand of them, of which each keeps its place for five minutes."""
    state, waits, clock = drain(in_flight=10), 0, NOW
    hostile, honest = [f"h-{number}" for number in range(1000)], [f"o-{number}" for number in range(100)]
    flying: dict[str, float] = {}
    lost: set[str] = set()
    while honest:
        lost |= {name for name, at in flying.items() if clock - at > 310}
        flying = {name: at for name, at in flying.items() if name not in lost}
        leaving = tuple(pod(name) for name in (*flying, *lost))
        steps = (*map(evicting, hostile), *map(elsewhere, honest))
        state.record_plan(Plan(), now=clock, delays=[delayed(pod(name)) for name in lost])
        sent = names(state.take_steps(Plan(steps=steps, leaving=leaving), now=clock, spare=1000)[0])
        flying |= {name: clock for name in sent if name in set(hostile)}
        hostile = [name for name in hostile if name not in flying]
        honest = [name for name in honest if name not in sent]
        waits, clock = waits + 1, clock + 10
    assert clock - NOW < 2 * 310


def test_a_dropped_request_is_no_failure() -> None:
    """A former one for the same pod was under way, of a drain that has ended since."""
    state, unit = drain(), evicting("a")
    state.record_request(unit, now=NOW)
    record(state, unit, EvictionOutcome.DROPPED)
    assert state.requested_uids == frozenset()
    assert send(state, unit, now=NOW + RETRY.first) == ["a"]


def elsewhere(name: str) -> Unit:
    """A pod of another namespace."""
    return Unit(action=DrainAction.EVICT, pods=(msgspec.structs.replace(pod(name), namespace="elsewhere"),))


def test_an_overload_pauses_its_namespace_for_longer_each_time() -> None:
    """What it asks for at least; another namespace goes on."""
    state, pauses = drain(), []
    for number in range(10):
        record(state, evicting(f"a-{number}"), EvictionOutcome.OVERLOADED)
        assert state.pause_seconds(NOW) == 0.0
        assert send(state, elsewhere(f"other-{number}")) == [f"other-{number}"]
        pauses.append(pause_of(state))
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (1.0, PAUSE.longest)
    record(state, evicting("a"))
    record(state, evicting("b"), EvictionOutcome.OVERLOADED, retry_after=7.0)
    assert pause_of(state) == 7.0


def pause_of(state: DrainState) -> float:
    """Whole seconds until something of namespace team may be asked for."""
    later = (deepcopy(state) for _ in range(60))
    return next(
        float(wait) for wait, each in enumerate(later) if send(each, evicting("fresh"), now=NOW + wait)
    )


def test_overloads_in_several_namespaces_pause_all_namespaces() -> None:
    """And nothing succeeds in between; the first success ends it."""
    state = drain()
    for _ in range(10):
        record(state, evicting("a"), EvictionOutcome.OVERLOADED)
        record(state, elsewhere("b"), EvictionOutcome.OVERLOADED)
    assert state.pause_seconds(NOW) == PAUSE.longest
    record(state, evicting("a"))
    record(state, elsewhere("b"), EvictionOutcome.OVERLOADED)
    assert state.pause_seconds(NOW + PAUSE.longest) == 0.0


def test_a_namespace_that_always_fails_does_not_pause_others_that_succeed() -> None:
    """Whatever it asks to wait for."""
    state = drain()
    for number in range(50):
        record(state, evicting(f"a-{number}"), EvictionOutcome.OVERLOADED, retry_after=30.0)
        record(state, elsewhere(f"b-{number}"))
        assert state.pause_seconds(NOW) == 0.0


def test_a_namespace_waits_until_its_budgets_are_read() -> None:
    """Another one's are."""
    state = drain()
    state.record_snapshot(DrainSnapshot(at=NOW, index=BudgetIndex([]), read_times={"elsewhere": NOW}))
    assert send(state, evicting("a"), elsewhere("b")) == ["b"]


def test_grace_periods_are_cut_once_each_and_no_faster_than_the_rate() -> None:
    """They take no place in flight: those pods have theirs, or have lost it."""
    state = drain(rate=2.0, in_flight=1)
    units = [Unit(action=DrainAction.CUT_GRACE, pods=(pod(name),)) for name in "abc"]
    asked = []
    for second in range(3):
        for unit in list(state.take_cuts(units, now=NOW + second)):
            state.record_request(unit, now=NOW + second)
            record(state, unit, now=NOW + second)
            asked += names([unit])
        assert (state.in_flight, state.requested_uids) == (0, frozenset())
    assert asked == ["a", "b", "c"]


def test_a_disruption_is_pending_until_its_budget_was_read_after_the_answer() -> None:
    state = drain()
    state.record_snapshot(DrainSnapshot(at=NOW - 1, index=BudgetIndex([])))
    state.record_request(evicting("a"), now=NOW)
    assert state.pending_disruptions() == {BUDGET: 1}
    record(state, evicting("a"), now=NOW + 1)
    state.record_snapshot(DrainSnapshot(at=NOW + 0.5, index=BudgetIndex([])))
    assert state.pending_disruptions() == {BUDGET: 1}
    state.record_snapshot(DrainSnapshot(at=NOW + 1.5, index=BudgetIndex([])))
    assert state.pending_disruptions() == {}


def test_a_refused_disruption_is_not_pending() -> None:
    state = drain()
    state.record_request(evicting("a"), now=NOW)
    record(state, evicting("a"), EvictionOutcome.BUDGET)
    assert state.pending_disruptions() == {}


def test_a_gang_has_started_once_an_eviction_was_granted() -> None:
    """Not when the API server was asked: it may refuse."""
    state, gang = drain(), evicting("a", "b", gang="ring")
    state.record_request(gang, now=NOW)
    record(state, gang, EvictionOutcome.BUDGET)
    assert state.started_gangs == set()
    record(state, gang)
    assert state.started_gangs == {("team", "ring")}


def test_a_budget_is_busy_while_pods_of_a_suspended_job_leave_and_until_its_status_follows() -> None:
    state = drain()
    state.record_request(suspending(), now=NOW)
    assert state.busy_budgets(DrainSnapshot(at=NOW, index=BudgetIndex([]))) == {BUDGET}
    state.record_plan(Plan(busy_budgets=frozenset([BUDGET])), now=NOW + 2)
    state.record_plan(Plan(), now=NOW + 3)
    state.record_plan(Plan(), now=NOW + 4)
    assert state.busy_budgets(DrainSnapshot(at=NOW + 3 + BUDGET_SETTLE_SECONDS, index=BudgetIndex([]))) == {
        BUDGET
    }
    assert (
        state.busy_budgets(DrainSnapshot(at=NOW + 3.1 + BUDGET_SETTLE_SECONDS, index=BudgetIndex([])))
        == frozenset()
    )


def test_a_volcano_job_is_suspended_only_when_its_controller_says_so() -> None:
    """A Command may find nobody; when it has waited for long enough the Job comes up again."""
    state, unit = drain(), suspending(kind="jobs.batch.volcano.sh")
    state.record_request(unit, now=NOW)
    record(state, unit)
    assert state.requested_uids == frozenset()
    assert send(state, unit, now=NOW + SUSPEND_SECONDS / 2) == []
    assert len(send(state, unit, now=NOW + SUSPEND_SECONDS)) == 2
    assert state.has_command(unit)
    record(state, unit, EvictionOutcome.COMMAND_WITHDRAWN)
    assert state.unsuspendable == {"uid-of-train"}


def test_a_job_whose_command_was_taken_is_waited_for_and_then_evicted() -> None:
    """Its controller may abort it at any time; one that has ended does not."""
    state, unit = drain(), suspending(kind="jobs.batch.volcano.sh")
    state.record_request(unit, now=NOW)
    record(state, unit)
    at = NOW
    while not state.unsuspendable:
        at += SUSPEND_SECONDS
        assert len(send(state, unit, now=at)) == 2
        record(state, unit, EvictionOutcome.COMMAND_TAKEN, now=at)
        assert send(state, unit, now=at + SUSPEND_SECONDS / 2) == []
    assert (at, state.unsuspendable) == (NOW + ABANDONED_SECONDS, {"uid-of-train"})
    state.record_snapshot(DrainSnapshot(at=at + 1, index=BudgetIndex([])))
    assert state.pending_disruptions() == {}


def test_pods_that_leave_already_are_taken_from_the_first_snapshot() -> None:
    state = drain()
    state.record_snapshot(DrainSnapshot(at=NOW, index=BudgetIndex([]), leaving=frozenset(["a"])))
    assert send(state, evicting("a"), evicting("b")) == ["b"]


def test_requests_for_absent_pods_are_forgotten() -> None:
    state, unit = drain(), evicting("a")
    record(state, unit, EvictionOutcome.REFUSED)
    state.forget_absent({"b"})
    assert send(state, unit) == ["a"]


@pytest.mark.parametrize(
    ("took", "rest"), [(0.001, 0.015), (0.02, 0.3), (0.05, 0.5), (0.2, 1.0)], ids=lambda value: f"{value} s"
)
def test_a_step_is_followed_by_a_rest_many_times_as_long(took: float, rest: float) -> None:
    """Half a second of rest is enough for what takes long, unless it takes very long."""
    assert rest_after(took) == pytest.approx(rest)


def test_the_rest_is_short_where_in_flight_is_limited() -> None:
    assert rest_after(0.04, has_limit=True) == pytest.approx(0.2) != rest_after(0.04)


def test_a_result_does_not_end_the_rest_after_a_long_step() -> None:
    state, unit = drain(), evicting("one")
    state.begin_step(NOW - 0.02)
    state.schedule(NOW + 60.0)
    state.record_request(unit, now=NOW)
    state.end_step(NOW)
    record(state, unit)
    assert state.next_step_at == pytest.approx(NOW - 0.02 + rest_after(0.02))


def test_a_change_makes_a_step_due_at_once_but_not_sooner_than_the_pace() -> None:
    state = drain()
    state.begin_step(NOW)
    state.end_step(NOW)
    state.schedule(float("inf"))
    state.wake()
    assert state.next_step_at == NOW + STEP_SECONDS
    state.schedule(NOW + STEP_SECONDS / 2)
    state.wake()
    assert state.next_step_at == NOW + STEP_SECONDS / 2


def test_replicas_are_asked_about_one_version_until_all_have_it() -> None:
    """A newer one in each step would never be seen by all."""
    state, asked = drain(), []

    def await_version(version: int, *, has: int) -> bool:
        def demand_version_of_all(wanted: int) -> bool:
            asked.append(wanted)
            return wanted <= has

        return state.await_version(version, demand_version_of_all=demand_version_of_all)

    assert [await_version(5, has=4), await_version(6, has=4), await_version(7, has=5)] == [False, False, True]
    assert asked == [5, 5, 5]
    assert await_version(5, has=0), "known by now"
    assert not await_version(7, has=6)
    assert asked[3:] == [7]


def test_a_queue_that_joins_a_drain_is_awaited_with_a_version_that_has_it() -> None:
    state = drain()
    state.set_queues(("research",))
    assert not state.await_version(5, demand_version_of_all=lambda _wanted: False)
    state.set_queues(("research", "low"))
    assert not state.await_version(9, demand_version_of_all=lambda wanted: wanted <= 5)
    assert state.await_version(9, demand_version_of_all=lambda wanted: wanted <= 9)


@each_case(
    ("seconds", "undeleted", "unsuspendable"),
    [
        (0, False, False),
        (SUSPEND_SECONDS, False, False),
        (SUSPEND_SECONDS + 1, True, False),
        (ABANDONED_SECONDS, True, False),
        (ABANDONED_SECONDS + 1, True, True),
    ],
)
def test_a_suspended_job_whose_pods_nobody_deletes_is_named_and_then_not_suspended_again(
    seconds: float, undeleted: bool, unsuspendable: bool
) -> None:
    """Its pods are evicted instead."""
    state = drain()
    suspended = pod("part", workload=work(suspended=True))
    for now in (NOW, NOW + seconds):
        found = state.undeleted_workloads(Plan(leaving=(suspended,)), now=now)
    assert found == ({"uid-of-train"} if undeleted else set())
    assert state.unsuspendable == ({"uid-of-train"} if unsuspendable else set())


@pytest.mark.parametrize(("late", "undeleted"), [(False, False), (True, True)])
def test_a_scaled_statefulset_ends_its_pods_one_after_the_other(late: bool, undeleted: bool) -> None:
    """Until the one that is ending has lost its place in flight."""
    state, scaled = drain(), msgspec.structs.replace(work("statefulsets", suspended=True), scaled=True)
    ends = Termination(requested_at=MADE, grace=30)
    ending, waits = pod("db-1", workload=scaled, leaving=True, termination=ends), pod("db-0", workload=scaled)
    plan = Plan(leaving=(ending, waits))
    state.record_plan(plan, delays=[delayed(ending)] if late else (), now=NOW)
    for now in (NOW, NOW + ABANDONED_SECONDS + 1):
        found = state.undeleted_workloads(plan, now=now)
    assert bool(found) is bool(state.unsuspendable) is undeleted


def test_a_suspended_job_whose_pods_are_deleted_later_begins_anew() -> None:
    state, suspended = drain(), pod("part", workload=work(suspended=True))
    state.undeleted_workloads(Plan(leaving=(suspended,)), now=NOW)
    state.undeleted_workloads(Plan(), now=NOW + 5)
    assert state.undeleted_workloads(Plan(leaving=(suspended,)), now=NOW + ABANDONED_SECONDS + 1) == set()
    assert state.unsuspendable == set()


def test_a_delay_is_new_once() -> None:
    """So its event is recorded once, as long as the pod stays delayed."""
    state, late = drain(), pod("late", leaving=True)
    new = [state.record_plan(Plan(leaving=(late,)), delays=[delayed(late)], now=NOW) for _ in range(3)]
    assert [[each.pod.name for each in delays] for delays in new] == [["late"], [], []]


# All drains


def drains(**draining: list[str]) -> Drains:
    made = Drains()
    made.follow(draining, now=NOW, rate=RATE)
    return made


def test_the_counts_of_a_queue_stay_when_another_policy_drains_it() -> None:
    """What was counted since is not in `status.drain` yet."""
    made = drains(research=["research", "low"])
    progress = {"low": QueueProgress(left=2)}
    assert made.record_progress(progress, stored=lambda _: DrainCounts(since=MADE, evicted=3)) == {"low"}
    unit = Unit(
        action=DrainAction.EVICT, pods=(msgspec.structs.replace(pod("a"), queue="low"),), budgets=(BUDGET,)
    )
    result = RequestResult(drain="research", unit=unit, outcome=EvictionOutcome.GRANTED, pod=unit.pods[0])
    made.record_result(result, now=NOW)
    made.follow({"low": ["low"]}, now=NOW, rate=RATE)
    made.record_progress(progress, stored=lambda _: DrainCounts(since=MADE))
    counts, _ = made.progress("low") or (None, None)
    assert counts == DrainCounts(since=MADE, evicted=4)


def test_a_queue_that_drains_no_more_has_no_progress() -> None:
    made = drains(research=["research"])
    made.record_progress({"research": QueueProgress()}, stored=lambda _: DrainCounts(since=MADE))
    made.follow({}, now=NOW, rate=RATE)
    assert made.progress("research") is None
    assert made.of_queue("research") is None


def test_progress_that_is_the_same_as_before_is_not_told_again() -> None:
    made = drains(research=["research"])
    progress = {"research": QueueProgress(left=1)}
    stored = lambda _queue: DrainCounts(since=MADE)  # noqa: E731
    assert made.record_progress(progress, stored=stored) == {"research"}
    assert made.record_progress(progress, stored=stored) == set()


def test_one_read_is_under_way_at_a_time_and_serves_all_drains_that_wait() -> None:
    made = drains(a=["a"], b=["b"])
    request = ReadRequest(at=NOW, pods_to_go={}, waiting_pods=frozenset())
    for by in ("a", "b", "gone"):
        made.request_read(by, request)
    assert set(made.begin_read(NOW)[0]) == {"a", "b", "gone"}
    made.request_read("a", request)
    assert made.begin_read(NOW)[0] == {}
    snapshot = DrainSnapshot(at=NOW, index=BudgetIndex([]))
    result = ReadResult(drains=("a", "b", "gone"), snapshot=snapshot, memory=ReadMemory())
    made.record_read(result)
    assert [drain.snapshot for drain in made] == [snapshot, snapshot]
    assert set(made.begin_read(NOW)[0]) == {"a"}


def test_a_read_that_was_not_sent_does_not_keep_others_waiting() -> None:
    made = drains(a=["a"])
    request = ReadRequest(at=NOW, pods_to_go={}, waiting_pods=frozenset())
    made.request_read("a", request)
    assert set(made.begin_read(NOW)[0]) == {"a"}
    made.cancel_read()
    made.request_read("a", request)
    assert set(made.begin_read(NOW)[0]) == {"a"}
