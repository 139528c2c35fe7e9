"""The pages on draining say what the code does, cell by cell."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import queues.drain.model
import queues.drain.plan
import queues.drain.progress
import queues.drain.terminating_pods
from controller.drain.limits import MAX_OVERCOMMIT, PAUSE
from controller.drain.request_states import SUSPEND_SECONDS, RequestResult
from controller.drain.snapshot import MAX_BUDGETS
from controller.drain.state import ABANDONED_SECONDS, DrainState
from controller.events import DRAIN_EVENTS
from controller.evictions.answers import EvictionOutcome
from controller.evictions.pods import LANES_PER_NAMESPACE
from queues import well_known
from queues.drain.disruption_budgets import MAX_SELECTORS
from queues.drain.model import (
    BlockerReason,
    DrainAction,
    DrainSpec,
    KeepRule,
    Plan,
    RunningPod,
    keep_rule,
    parse_drain_spec,
)
from queues.drain.progress import (
    DRAINED,
    MAX_BLOCKERS,
    Blocker,
    DrainCounts,
    DrainedReason,
    QueueProgress,
    drain_status,
    drained_condition,
)
from queues.drain.terminating_pods import (
    GRACE_LIMIT,
    SPARE_SECONDS,
    Delay,
)
from queues.queue import Queue
from queues.states import StopPolicy
from queues.tree import Tree
from queues.verdict import verdict
from server.runtime import DRAIN_THREADS
from tests.support import yaml_texts
from tests.support.docs.pages import (
    Row,
    ruled,
    tables_of,
    text_of,
    words_of,
)
from tests.support.drain.drain_cases import (
    budget,
    job,
    keeping,
    only_block,
    planned,
    planned_unread,
    pod,
    pods,
    steps_of,
)
from tests.support.paths import ROOT
from tests.support.rules.cases import NOW

PAGE = text_of(
    "concepts/draining.md",
    "tasks/empty-a-queue.md",
    "tasks/unblock-a-drain.md",
    "operating/keep-users-apart.md",
)
WORDS = words_of(PAGE)
DEFINITION = ROOT / "manifests" / "crds" / "queues.yaml"
SECOND = timedelta(seconds=1)


def tables(section: str) -> list[list[Row]]:
    return tables_of(PAGE, section)


def plain(table: list[Row]) -> list[Row]:
    """The words alone: ticks stand around what is typed, on the page as in the code."""
    return [[cell.replace("`", "") for cell in row] for row in table]


# Which queues drain, and by which settings


def test_each_field_has_its_row_with_its_default() -> None:
    """Those of the definition, in its order; what has no default there has none here."""
    schema = yaml_texts.load(DEFINITION.read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    wishes = schema["properties"]["spec"]["properties"]["drain"]["properties"]
    told = {row[0]: row[1] for row in tables("Which queues drain, and by which settings")[0]}
    assert list(told.items()) == [(name, one.get("default", "")) for name, one in wishes.items()]
    assert parse_drain_spec({name: value for name, value in told.items() if value}) == DrainSpec()


def test_the_topmost_of_equal_policies_drains() -> None:
    """Whatever the queue has itself, its ancestor's drain counts."""
    for own in StopPolicy:
        tree = Tree(
            {
                "root": Queue(name="root", parent=None),
                "above": Queue(name="above", stop_policy=StopPolicy.HOLD_AND_DRAIN),
                "it": Queue(name="it", parent="above", stop_policy=own),
            }
        )
        found = verdict("it", tree=tree, live=True, now=NOW)
        assert (found.drains, found.policy_by) == (True, "above")


# Which pods stay

STAYING: dict[KeepRule, tuple[RunningPod, DrainSpec]] = {
    KeepRule.DAEMON: (pod(daemon=True), DrainSpec()),
    KeepRule.CRITICAL: (pod(priority=2_000_000_000), DrainSpec()),
    KeepRule.LABEL: (pod(), keeping(app="web")),
    KeepRule.BARE: (pod(bare=True), DrainSpec(keep_bare=True)),
}


def test_each_rule_has_its_row() -> None:
    """In the words of the code's own table, and as the code answers."""
    [rows] = tables("Which pods stay")
    assert [plain(rows)] == [plain(table) for table in ruled(queues.drain.model.__doc__)]
    assert [row[0] for row in rows] == list(STAYING) == list(KeepRule)
    for rule, (runner, wishes) in STAYING.items():
        assert keep_rule(runner, wishes) is rule


# How pods go


def test_each_unit_has_its_row() -> None:
    """In the code's own words, and how each goes."""
    [rows] = tables("How pods go")
    [told] = ruled(queues.drain.plan.__doc__)
    assert [(row[0], row[2]) for row in rows] == [(row[0], row[2]) for row in told]
    units = {
        "workload": planned(job(2)),
        "gang": planned(pods(2, pod_group="g")),
        "pod": planned([pod()]),
    }
    assert [row[:2] for row in rows] == [[name, found.steps[0].action] for name, found in units.items()]
    assert [len(found.steps) for found in units.values()] == [1, 1, 1]


def test_a_workload_waits_for_all_its_pods_and_its_turn_and_a_gang_only_to_start() -> None:
    """The last column, row by row."""
    two, one = budget(allowed=2, desired=0, outside=0), budget(allowed=1, desired=0, outside=0)
    assert only_block(planned(job(2), one)).reason is BlockerReason.BUDGET
    assert steps_of(planned(job(2), two)) == [["j-0", "j-1"]]
    both = planned([*job(1, "a"), *job(1, "b")], two)
    assert (len(both.steps), only_block(both).reason) == (1, BlockerReason.BUDGET_BUSY)
    gang = pods(2, pod_group="g")
    assert steps_of(planned(gang, one)) == []
    assert steps_of(planned(gang, one, started_gangs=[("lab", "g")])) == [["p0"]]
    assert steps_of(planned(pods(2), one)) == [["p0"]]


def test_the_order_is_that_of_the_code() -> None:
    """Begun, priority, age, name."""
    order = "first units that have started; then the lowest priority, then the youngest, then by name"
    assert order in WORDS
    begun = pods(1, "begun", pod_group="g", priority=9)
    others = [pod("b"), pod("a"), pod("old", age=5), pod("high", priority=1)]
    found = planned([*others, *begun], started_gangs=[("lab", "g")])
    assert steps_of(found) == [["begun0"], ["a"], ["b"], ["old"], ["high"]]


# What blocks, and what to do

KEEPS = budget(desired=1, outside=0)
BUSY = planned([*job(1, "a"), *job(1, "b")], budget(allowed=2, desired=0, outside=0))


def refused_twice(found: Plan) -> Plan:
    """As the controller tells of it when the API server has refused its one pod again and again."""
    drain, (unit,) = DrainState("research", now=0.0, rate=1.0), found.steps
    for _ in range(2):
        told = RequestResult(drain="research", unit=unit, pod=unit.pods[0], outcome=EvictionOutcome.REFUSED)
        drain.record_result(told, now=0.0)
    return drain.with_refusals(found)


#: What each hindrance comes of, and whether it is for good.
BLOCKED: dict[BlockerReason, tuple[Plan, str]] = {
    BlockerReason.BUDGET: (planned([pod()], KEEPS), "if it keeps some pods whatever else goes"),
    BlockerReason.TWO_BUDGETS: (planned([pod()], budget("a", allowed=9), budget("b", allowed=9)), "yes"),
    BlockerReason.MANY_BUDGETS: (planned_unread(job(1)), "yes"),
    BlockerReason.BUDGET_BUSY: (BUSY, "no"),
    BlockerReason.KEPT_PART: (
        planned([*job(1), *job(1, "j", labels={"keep": "me"})], spec=keeping(keep="me")),
        "yes",
    ),
    BlockerReason.DEADLINE: (planned([pod()], spec=DrainSpec(deadline=NOW)), "yes"),
    BlockerReason.SETTINGS: (planned([pod()], spec=DrainSpec(unreadable="no")), "yes"),
    BlockerReason.REFUSED: (refused_twice(planned([pod()])), "no"),
}


def test_each_blocker_has_its_row() -> None:
    """And says whether it is for good as the plan does."""
    [rows] = tables("What blocks, and what to do")
    assert [row[0] for row in rows] == list(BLOCKED) == list(BlockerReason)
    assert [row[1] for row in rows] == [said for _, said in BLOCKED.values()]
    for hindrance, (found, said) in BLOCKED.items():
        block = only_block(found)
        assert (block.reason, block.never) == (hindrance, said != "no")
    now_only = planned([pod()], budget(allowed=0, desired=0, outside=0))
    assert (only_block(now_only).reason, only_block(now_only).never) == (BlockerReason.BUDGET, False)


@pytest.mark.parametrize(
    ("who", "how"), [(pods(1), DrainAction.DELETE), (job(1), DrainAction.SUSPEND_ANYWAY)]
)
def test_only_a_deadline_goes_past_a_budget(who: list[RunningPod], how: DrainAction) -> None:
    """When it has passed, and Delete is asked for; until then the block is not for good."""
    wishes = DrainSpec(deadline=NOW, delete_after_deadline=True)
    before = planned(who, KEEPS, spec=wishes, now=NOW - SECOND)
    assert (before.steps, only_block(before).never) == ((), False)
    assert [unit.action for unit in planned(who, KEEPS, spec=wishes).steps] == [how]
    assert planned([pod(daemon=True)], KEEPS, spec=wishes).steps == ()


def test_the_way_out_of_a_budget_is_the_plans() -> None:
    """The example shows the very words."""
    words = "PodDisruptionBudget scans/web, 2 pods: keeps 2 pods for good: it wants 2 healthy, and"
    assert words in WORDS
    message = only_block(planned([pod()], KEEPS)).message
    assert message.partition("; ")[2] in WORDS


def test_the_times_are_those_of_the_code() -> None:
    """Ten seconds, ten seconds, half a minute, two minutes, five."""
    assert (SUSPEND_SECONDS, SPARE_SECONDS, PAUSE.longest) == (10.0, 10.0, 30.0)
    assert (ABANDONED_SECONDS, GRACE_LIMIT) == (120.0, 300)


def test_the_numbers_are_those_of_the_code() -> None:
    """Budgets of a namespace and of a pod, writers of a namespace, and twice the limit in flight."""
    assert (MAX_BUDGETS, MAX_SELECTORS, LANES_PER_NAMESPACE, DRAIN_THREADS, MAX_OVERCOMMIT) == (
        1000,
        50,
        16,
        40,
        2,
    )
    for words in (
        "more than 1000 budgets",
        "more than 50 may",
        "16 of 40 writers",
        "twice as many at most",
    ):
        assert words in WORDS


# Pods that do not end


def test_each_delay_has_its_row() -> None:
    """In the words of the code's own table; tests/queues/drain/test_terminating_pods.py shows each."""
    [rows] = tables("Pods that do not end")
    assert [plain(rows)] == [plain(table) for table in ruled(queues.drain.terminating_pods.__doc__)]
    assert [row[0] for row in rows] == list(Delay)


# How far a drain is

STANDING: dict[DrainedReason, list[QueueProgress]] = {
    DrainedReason.DRAINED: [QueueProgress(kept=1)],
    DrainedReason.DRAINING: [QueueProgress(left=2, blocked=1), QueueProgress(left=1, leaving=1)],
    DrainedReason.BLOCKED: [QueueProgress(left=2, blocked=2)],
    DrainedReason.OVERDUE: [QueueProgress(left=2, blocked=2, overdue=True)],
}


def test_each_reason_of_the_condition_has_its_row() -> None:
    """In the code's own words, and as the code answers; with its event."""
    rows = tables("How far a drain is")[0]
    told = ruled(queues.drain.progress.__doc__)[0]
    assert plain(rows) == [[row[0], *row[1:]] for row in plain(told)]
    assert [row[1] for row in rows] == list(DrainedReason)
    for row in rows:
        found = drained_condition("it", STANDING[DrainedReason(row[1])])
        assert [str(found.status), found.reason] == row[:2]
    assert f"Condition `{DRAINED}`" in WORDS
    assert all(f"`{event}`" in PAGE for event in DRAIN_EVENTS.values())


def test_each_count_of_the_status_has_its_row() -> None:
    """In their order, and the parts of what blocks."""
    blocker = Blocker(name="b", pods=1, never=False, message="m")
    told = drain_status(DrainCounts(since=datetime.now(UTC)), QueueProgress(blockers=(blocker,)), since="now")
    rows: list[Row] = tables("How far a drain is")[1]
    assert [row[0] for row in rows] == list(told)
    parts: dict[str, Any] = told["blockers"][0]
    assert all(f"`{part}`" in rows[-1][1] for part in parts)
    assert (rows[-1][1].endswith("twenty at most"), MAX_BLOCKERS) == (True, 20)


# Giving back


def test_only_workloads_with_the_annotation_are_resumed() -> None:
    """Who can set and remove it: tests/webhooks/workloads/test_suspended_work.py."""
    assert f"annotation `{well_known.SUSPENDED}`" in WORDS
    for _, annotation, then in tables("Giving back")[0]:
        assert ("`GivenBack`" in then) is (annotation != "none")
