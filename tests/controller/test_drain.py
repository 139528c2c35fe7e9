"""One drain: how much may be asked for, and what is remembered of what was."""

from __future__ import annotations

from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from controller.drain.controller import rest_after
from controller.drain.eviction import Outcome, RequestResult
from controller.drain.executor import (
    BUDGET_SETTLE_SECONDS,
    GRANTED_SECONDS,
    MAX_BUDGET_RETRY_SECONDS,
    MAX_PAUSE_SECONDS,
    MAX_RETRY_SECONDS,
    RETRY_SECONDS,
    SUSPEND_SECONDS,
    Drain,
)
from controller.drain.running_pods import VOLCANO
from controller.drain.snapshot import DrainSnapshot
from queues.drain.disruption_budgets import BudgetIndex
from queues.drain.model import (
    DrainAction,
    DrainSpec,
    Plan,
    RunningPod,
    SuspendableWorkload,
    Unit,
)

NOW = 1000.0
#: The share of a drain that has the server for itself.
RATE, IN_FLIGHT = 1000.0, 100
MADE = datetime(2030, 1, 1, tzinfo=UTC)
BUDGET = ("team", "web")


def pod(name: str, **more: Any) -> RunningPod:
    return RunningPod(
        uid=name, namespace="team", name=name, queue="research", labels={}, created=MADE, **more
    )


def work(kind: str = "jobs", name: str = "train") -> SuspendableWorkload:
    return SuspendableWorkload(kind=kind, namespace="team", name=name, uid=f"uid-of-{name}")


def evicting(*pods: str, gang: str = "") -> Unit:
    return Unit(action=DrainAction.EVICT, pods=tuple(map(pod, pods)), gang=gang, budgets=(BUDGET,))


def suspending(number: int = 2, kind: str = "jobs") -> Unit:
    made = work(kind)
    pods = tuple(pod(f"part-{each}", workload=made) for each in range(number))
    return Unit(action=DrainAction.SUSPEND, pods=pods, workload=made, budgets=(BUDGET,))


def drain(**spec: Any) -> Drain:
    made = Drain("research", now=NOW, rate=RATE)
    made.set_spec(DrainSpec(**spec))
    made.set_shares(in_flight=IN_FLIGHT, rate=RATE)
    return made


def names(units: list[Unit]) -> list[str]:
    return [each.name for unit in units for each in unit.pods]


def sendable(held: Drain, *units: Unit, leaving: int = 0, spare: int = 100, now: float = NOW) -> list[str]:
    found = Plan(steps=units, leaving=tuple(pod(f"old-{number}") for number in range(leaving)))
    return names(held.take_steps(found, now=now, spare=spare)[0])


def answer(
    held: Drain, unit: Unit, outcome: Outcome = Outcome.GONE, *, now: float = NOW, **more: Any
) -> None:
    whole = unit.action is DrainAction.SUSPEND
    for each in (None,) if whole else unit.pods:
        told = RequestResult(
            drain="research", unit=unit, action=unit.action, outcome=outcome, pod=each, **more
        )
        held.record_result(told, now=now)


@pytest.mark.parametrize(("limit", "leaving", "expected"), [(0, 50, 3), (3, 0, 3), (3, 1, 2), (3, 3, 0)])
def test_no_more_are_in_flight_than_the_queue_says(limit: int, leaving: int, expected: int) -> None:
    """Those on their way count."""
    units = [evicting(name) for name in "abc"]
    assert len(sendable(drain(in_flight=limit), *units, leaving=leaving)) == expected


@pytest.mark.parametrize(("share", "spare", "expected"), [(2, 9, "ab"), (9, 2, "ab"), (0, 9, ""), (9, 0, "")])
def test_no_more_are_in_flight_than_the_server_has_room_for(share: int, spare: int, expected: str) -> None:
    """Neither more than the share of this drain, nor more than all drains may have."""
    held = drain()
    held.set_shares(in_flight=share, rate=RATE)
    assert sendable(held, *map(evicting, "abc"), spare=spare) == list(expected)


def test_a_unit_that_is_larger_than_what_may_be_in_flight_goes_alone() -> None:
    """Else it would never go."""
    assert len(sendable(drain(in_flight=2), suspending(5))) == 5
    assert sendable(drain(in_flight=2), suspending(5), leaving=1) == []


def test_nobody_overtakes_a_unit_that_waits_for_room() -> None:
    """The order is kept."""
    assert sendable(drain(in_flight=3), evicting("a"), suspending(3), evicting("b")) == ["a"]


def test_a_rate_lets_so_many_go_in_a_second() -> None:
    held = drain(rate=2.0)
    units = [evicting(name) for name in "abcdef"]
    assert sendable(held, *units) == ["a"]
    assert sendable(held, *units, now=NOW + 1.0) == ["a", "b"]
    assert sendable(held, *units, now=NOW + 1.2) == []
    assert sendable(held, *units, now=NOW + 1.5) == ["a"]


def test_a_gang_of_many_is_owed_afterwards() -> None:
    """It goes whole, and the next waits for as long as all of it would have taken."""
    held = drain(rate=2.0)
    assert len(sendable(held, evicting("a", "b", "c", "d"))) == 4
    assert sendable(held, evicting("e"), now=NOW + 1.9) == []
    assert sendable(held, evicting("e"), now=NOW + 2.1) == ["e"]


def test_who_was_asked_is_not_asked_again_before_the_answer() -> None:
    held, unit = drain(), evicting("a")
    held.record_request(unit, now=NOW)
    assert (held.in_flight, held.requested_uids) == (1, frozenset({"a"}))
    assert sendable(held, unit) == []


def test_who_is_gone_is_not_asked_again_though_the_cache_still_has_it() -> None:
    held, unit = drain(), evicting("a")
    held.record_request(unit, now=NOW)
    answer(held, unit)
    assert held.requested_uids == {"a"}
    held.record_pods([pod("a")], on_its_way=lambda _: False, now=NOW + 1)
    assert held.requested_uids == {"a"}
    held.record_pods([pod("a")], on_its_way=lambda _: True, now=NOW + 1)
    assert held.requested_uids == frozenset()


def test_who_was_granted_and_never_goes_is_asked_again() -> None:
    """Whatever took the eviction back, the pod does not count as in flight for ever."""
    held, unit = drain(), evicting("a")
    held.record_request(unit, now=NOW)
    answer(held, unit)
    held.record_pods([pod("a")], on_its_way=lambda _: False, now=NOW + GRANTED_SECONDS - 1)
    assert sendable(held, unit) == []
    held.record_pods([pod("a")], on_its_way=lambda _: False, now=NOW + GRANTED_SECONDS)
    assert sendable(held, unit) == ["a"]


@pytest.mark.parametrize("outcome", [Outcome.BUDGET, Outcome.AWAY, Outcome.REFUSED, Outcome.BUSY])
def test_what_failed_is_asked_for_again_after_a_while_that_grows(outcome: Outcome) -> None:
    held, unit = drain(), evicting("a")
    for wait in (RETRY_SECONDS, 2 * RETRY_SECONDS, 4 * RETRY_SECONDS):
        held.record_request(unit, now=NOW)
        answer(held, unit, outcome)
        assert sendable(held, unit, now=NOW + wait * 0.9) == []
        assert sendable(held, unit, now=NOW + wait) == ["a"]


@pytest.mark.parametrize(
    ("excess", "longest"), [("", MAX_BUDGET_RETRY_SECONDS), ("too many", MAX_RETRY_SECONDS)]
)
def test_what_a_budget_refuses_is_soon_asked_again_unless_its_budgets_are_not_known(
    excess: str, longest: float
) -> None:
    """Then the API server looks through thousands of them for each try."""
    held, unit = drain(), evicting("a")
    held.record_snapshot(
        DrainSnapshot(at=NOW, index=BudgetIndex([], excess={"team": excess} if excess else {}))
    )
    for _ in range(20):
        held.record_request(unit, now=NOW)
        answer(held, unit, Outcome.BUDGET)
    assert sendable(held, unit, now=NOW + longest * 0.9) == []
    assert sendable(held, unit, now=NOW + longest) == ["a"]


def test_one_that_is_always_refused_keeps_no_other_waiting() -> None:
    """It neither is first again at once, nor takes what may go in a second."""
    held, first, asked = drain(rate=0.5), evicting("a"), []
    for second in range(60):
        found = Plan(steps=(first, evicting(f"b-{second}")))
        units, _ = held.take_steps(found, now=NOW + second, spare=9)
        for unit in units:
            held.record_request(unit, now=NOW + second)
            answer(held, unit, Outcome.REFUSED if unit is first else Outcome.GONE, now=NOW + second)
            asked += names([unit])
    assert len([name for name in asked if name != "a"]) >= 25


def test_who_is_refused_again_and_again_is_told_as_blocked_in_the_refusals_words() -> None:
    held, unit = drain(), evicting("a")
    found = Plan(steps=(unit, evicting("b")))
    answer(held, unit, Outcome.REFUSED, message="webhook says no")
    assert held.with_refusals(found) == found
    answer(held, unit, Outcome.REFUSED, message="webhook says no")
    told = held.with_refusals(found)
    assert names(list(told.steps)) == ["b"]
    assert [(block.blocker, block.never) for block in told.blocked] == [("pod team/a", False)]
    assert "webhook says no" in told.blocked[0].message
    answer(held, unit)
    assert held.with_refusals(found) == found


def test_pods_that_do_not_get_on_hold_no_room() -> None:
    """Whoever puts a finalizer on his pods stops no drain."""
    held = drain(in_flight=2)
    hanging = (pod("old-0"), pod("old-1"))
    found = Plan(steps=(evicting("a"),), leaving=hanging)
    held.record_plan(found, stuck=frozenset(["old-0", "old-1"]), now=NOW)
    assert held.in_flight == 0
    assert sendable(held, evicting("a"), leaving=2) == ["a"]


def test_namespaces_whose_pods_outstay_their_places_go_last_and_have_half_of_the_places() -> None:
    """Others need not wait again for each of their thousand pods."""
    held = drain(in_flight=4)
    held.record_plan(Plan(), now=NOW, slow=frozenset(["team"]))
    units = [*map(evicting, ("a", "b", "c")), elsewhere("x")]
    assert sendable(held, *units) == ["x", "a", "b"]
    held.record_plan(Plan(), now=NOW, slow=frozenset())
    assert sendable(held, *units) == ["a", "b", "c", "x"]


def test_one_tenant_with_many_pods_that_do_not_end_holds_up_others_once() -> None:
    """A thousand of them, of which each keeps its place for five minutes."""
    held, waits, clock = drain(in_flight=10), 0, NOW
    hostile, honest = [f"h-{number}" for number in range(1000)], [f"o-{number}" for number in range(100)]
    flying: dict[str, float] = {}
    lost: set[str] = set()
    while honest:
        lost |= {name for name, at in flying.items() if clock - at > 310}
        flying = {name: at for name, at in flying.items() if name not in lost}
        leaving = tuple(pod(name) for name in (*flying, *lost))
        steps = (*map(evicting, hostile), *map(elsewhere, honest))
        held.record_plan(Plan(), now=clock, stuck=frozenset(lost), slow=frozenset(["team"] if lost else []))
        sent = names(held.take_steps(Plan(steps=steps, leaving=leaving), now=clock, spare=1000)[0])
        flying |= {name: clock for name in sent if name in set(hostile)}
        hostile = [name for name in hostile if name not in flying]
        honest = [name for name in honest if name not in sent]
        waits, clock = waits + 1, clock + 10
    assert clock - NOW < 2 * 310


def test_a_request_that_could_not_be_sent_is_no_failure() -> None:
    """A former one for the same pod was under way, of a drain that has ended since."""
    held, unit = drain(), evicting("a")
    held.record_request(unit, now=NOW)
    answer(held, unit, Outcome.DROPPED)
    assert held.requested_uids == frozenset()
    assert sendable(held, unit, now=NOW + RETRY_SECONDS) == ["a"]


def elsewhere(name: str) -> Unit:
    """A pod of another namespace."""
    return Unit(action=DrainAction.EVICT, pods=(msgspec.structs.replace(pod(name), namespace="elsewhere"),))


def test_what_the_api_server_is_too_busy_for_pauses_its_namespace_for_longer_and_longer() -> None:
    """What it asks for at least; another namespace goes on."""
    held, pauses = drain(), []
    for number in range(10):
        answer(held, evicting(f"a-{number}"), Outcome.BUSY)
        assert held.pause_seconds(NOW) == 0.0
        assert sendable(held, elsewhere(f"other-{number}")) == [f"other-{number}"]
        pauses.append(pause_of(held))
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (1.0, MAX_PAUSE_SECONDS)
    answer(held, evicting("a"))
    answer(held, evicting("b"), Outcome.BUSY, retry_after=7.0)
    assert pause_of(held) == 7.0


def pause_of(held: Drain) -> float:
    """Whole seconds until something of namespace team may be asked for."""
    later = (deepcopy(held) for _ in range(60))
    return next(
        float(wait) for wait, each in enumerate(later) if sendable(each, evicting("fresh"), now=NOW + wait)
    )


def test_a_busy_api_server_pauses_everything_where_several_namespaces_fail() -> None:
    """And nothing succeeds in between; the first success ends it."""
    held = drain()
    for _ in range(10):
        answer(held, evicting("a"), Outcome.BUSY)
        answer(held, elsewhere("b"), Outcome.BUSY)
    assert held.pause_seconds(NOW) == MAX_PAUSE_SECONDS
    answer(held, evicting("a"))
    answer(held, elsewhere("b"), Outcome.BUSY)
    assert held.pause_seconds(NOW + MAX_PAUSE_SECONDS) == 0.0


def test_one_namespace_that_always_fails_does_not_pause_others_that_succeed() -> None:
    """Whatever it asks to wait for."""
    held = drain()
    for number in range(50):
        answer(held, evicting(f"a-{number}"), Outcome.BUSY, retry_after=30.0)
        answer(held, elsewhere(f"b-{number}"))
        assert held.pause_seconds(NOW) == 0.0


def test_a_namespace_whose_budgets_are_not_read_yet_waits() -> None:
    """Another one's are."""
    held = drain()
    held.record_snapshot(DrainSnapshot(at=NOW, index=BudgetIndex([]), times={"elsewhere": NOW}))
    assert sendable(held, evicting("a"), elsewhere("b")) == ["b"]


def test_grace_periods_are_cut_no_faster_than_the_rate_and_each_once() -> None:
    """They take no place in flight: those pods have theirs, or have lost it."""
    held = drain(rate=2.0, in_flight=1)
    units = [Unit(action=DrainAction.CUT_GRACE, pods=(pod(name),)) for name in "abc"]
    asked = []
    for second in range(3):
        for unit in list(held.take_cuts(units, now=NOW + second)):
            held.record_request(unit, now=NOW + second)
            answer(held, unit, now=NOW + second)
            asked += names([unit])
        assert (held.in_flight, held.requested_uids) == (0, frozenset())
    assert asked == ["a", "b", "c"]


def test_what_was_asked_for_counts_until_a_reading_is_younger_than_its_answer() -> None:
    held = drain()
    held.record_snapshot(DrainSnapshot(at=NOW - 1, index=BudgetIndex([])))
    held.record_request(evicting("a"), now=NOW)
    assert held.pending_disruptions() == {BUDGET: 1}
    answer(held, evicting("a"), now=NOW + 1)
    held.record_snapshot(DrainSnapshot(at=NOW + 0.5, index=BudgetIndex([])))
    assert held.pending_disruptions() == {BUDGET: 1}
    held.record_snapshot(DrainSnapshot(at=NOW + 1.5, index=BudgetIndex([])))
    assert held.pending_disruptions() == {}


def test_a_refused_disruption_counts_no_more() -> None:
    held = drain()
    held.record_request(evicting("a"), now=NOW)
    answer(held, evicting("a"), Outcome.BUDGET)
    assert held.pending_disruptions() == {}


def test_a_gang_has_begun_once_one_of_it_has_gone() -> None:
    """Not when the API server was asked: it may refuse."""
    held, gang = drain(), evicting("a", "b", gang="ring")
    held.record_request(gang, now=NOW)
    answer(held, gang, Outcome.BUDGET)
    assert held.started_gangs == set()
    answer(held, gang)
    assert held.started_gangs == {("team", "ring")}


def test_a_budget_is_busy_while_paused_work_takes_from_it_and_until_its_status_has_followed() -> None:
    held = drain()
    held.record_request(suspending(), now=NOW)
    assert held.busy_budgets(DrainSnapshot(at=NOW, index=BudgetIndex([]))) == {BUDGET}
    held.record_plan(Plan(busy_budgets=frozenset([BUDGET])), now=NOW + 2)
    held.record_plan(Plan(), now=NOW + 3)
    held.record_plan(Plan(), now=NOW + 4)
    assert held.busy_budgets(DrainSnapshot(at=NOW + 3 + BUDGET_SETTLE_SECONDS, index=BudgetIndex([]))) == {
        BUDGET
    }
    assert (
        held.busy_budgets(DrainSnapshot(at=NOW + 3.1 + BUDGET_SETTLE_SECONDS, index=BudgetIndex([])))
        == frozenset()
    )


def test_volcanos_job_is_gone_only_when_its_controller_says_so() -> None:
    """A Command may find nobody; when it has waited for long enough the Job comes up again."""
    held, unit = drain(), suspending(kind=VOLCANO)
    held.record_request(unit, now=NOW)
    answer(held, unit)
    assert held.requested_uids == frozenset()
    assert sendable(held, unit, now=NOW + SUSPEND_SECONDS / 2) == []
    assert len(sendable(held, unit, now=NOW + SUSPEND_SECONDS)) == 2
    assert unit.workload is not None
    assert unit.workload.uid in held.commanded_at
    answer(held, unit, Outcome.UNANSWERED)
    assert held.unsuspendable == {unit.workload.uid}


def test_who_was_on_its_way_before_we_looked_is_taken_from_the_first_reading() -> None:
    held = drain()
    held.record_snapshot(DrainSnapshot(at=NOW, index=BudgetIndex([]), leaving=frozenset(["a"])))
    assert sendable(held, evicting("a"), evicting("b")) == ["b"]


def test_what_is_remembered_of_those_who_are_gone_is_forgotten() -> None:
    held, unit = drain(), evicting("a")
    answer(held, unit, Outcome.REFUSED)
    held.forget_absent({"b"})
    assert sendable(held, unit) == ["a"]


@pytest.mark.parametrize(
    ("took", "rest"), [(0.001, 0.015), (0.02, 0.3), (0.05, 0.5), (0.2, 1.0)], ids=lambda value: f"{value} s"
)
def test_after_a_look_nobody_looks_for_many_times_as_long(took: float, rest: float) -> None:
    """Half a second of rest is enough for what takes long, unless it takes very long."""
    assert rest_after(took) == pytest.approx(rest)


def test_where_one_has_to_leave_for_another_to_be_asked_the_rest_is_short() -> None:
    assert rest_after(0.04, waited=True) == pytest.approx(0.2) != rest_after(0.04)


def test_an_answer_does_not_end_the_rest_after_a_long_look() -> None:
    held, unit = drain(), evicting("one")
    held.due, held.rests_until = NOW + 60.0, NOW + 0.3
    held.record_request(unit, now=NOW)
    answer(held, unit)
    assert (held.due, held.next_step_at) == (NOW, NOW + 0.3)
