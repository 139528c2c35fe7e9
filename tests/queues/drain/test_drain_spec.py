"""What `spec.drain` is read as, who stays by rule, and what units are called."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from queues.apimachinery.label_selectors import Selector
from queues.drain import model as draining
from queues.drain.model import (
    DrainAction,
    DrainSpec,
    KeepRule,
    Plan,
    RunningPod,
    Unit,
    keep_rule,
    may_keep,
    parse_drain_spec,
)
from tests.support.cases import each_case
from tests.support.drain.drain_cases import (
    job,
    keeping,
    pod,
    work,
)
from tests.support.rules.cases import (
    NOW,
    SECOND,
    plain,
)

CRITICAL = 2_000_000_000
STAYS = keeping(stay="yes")
KEEP_BARE = DrainSpec(keep_bare=True)


# spec.drain


@pytest.mark.parametrize("nothing", [None, {}, {"rate": None, "keep": None, "deadline": None}])
def test_an_empty_spec_keeps_no_pod_and_sets_no_limit(nothing: Any) -> None:
    assert parse_drain_spec(nothing) == DrainSpec()


def test_every_field_of_the_spec_is_read() -> None:
    """Under the names that the definition of a Queue has."""
    found = parse_drain_spec(
        {
            "rate": 2.5,
            "inFlight": 7,
            "barePods": "Keep",
            "keep": {"matchLabels": {"stay": "yes"}},
            "brokenGangs": "Evict",
            "deadline": "2030-01-01T13:00:00Z",
            "afterDeadline": "Delete",
        }
    )
    assert found == DrainSpec(
        rate=2.5,
        in_flight=7,
        keep_bare=True,
        keep=Selector(match_labels={"stay": "yes"}),
        evict_broken_gangs=True,
        deadline=NOW + timedelta(hours=1),
        delete_after_deadline=True,
    )


def test_the_defaults_of_the_fields_with_two_choices() -> None:
    defaults = {"barePods": "Evict", "brokenGangs": "Keep", "afterDeadline": "Keep"}
    assert parse_drain_spec(defaults) == DrainSpec()


def test_an_empty_keep_selector_keeps_all_pods() -> None:
    """As an empty selector does everywhere; one that is not there keeps nobody."""
    assert keep_rule(pod(), parse_drain_spec({"keep": {}})) is KeepRule.LABEL
    assert keep_rule(pod(), parse_drain_spec({})) is None


@each_case(
    ("wrong", "place"),
    [
        ("fast", "Expected `object`"),
        ([], "Expected `object`"),
        ({"rate": "fast"}, "$.rate"),
        ({"rate": -1}, "$.rate"),
        ({"rate": 0}, "$.rate"),
        ({"inFlight": 0}, "$.inFlight"),
        ({"inFlight": -3}, "$.inFlight"),
        ({"inFlight": 1.5}, "$.inFlight"),
        ({"barePods": "keep"}, "$.barePods"),
        ({"barePods": True}, "$.barePods"),
        ({"brokenGangs": "evict"}, "$.brokenGangs"),
        ({"afterDeadline": "delete"}, "$.afterDeadline"),
        ({"deadline": "tomorrow"}, "$.deadline"),
        ({"deadline": ""}, "$.deadline"),
        ({"deadline": "\ud800"}, ""),
        ({"keep": "stay=yes"}, "drain.keep"),
        ({"keep": {"matchLabels": {"to stay": "yes"}}}, "drain.keep"),
        ({"keep": {"matchExpressions": [{"key": "stay", "operator": "In"}]}}, "drain.keep"),
    ],
)
def test_a_spec_that_cannot_be_read_says_so(wrong: Any, place: str) -> None:
    """They name the field; none of them passes for another wish, for a pod lost by a typing error is lost."""
    found = parse_drain_spec(wrong)
    assert found.unreadable.startswith("spec.drain")
    assert place in found.unreadable
    assert plain(found.unreadable)
    assert found == DrainSpec(unreadable=found.unreadable)


@each_case(
    ("written", "meant"),
    [
        ("2030-01-01T12:00:00Z", NOW),
        ("2030-01-01T14:00:00+02:00", NOW),
        ("2030-01-01T12:00:00", NOW),
        ("0001-01-01T00:00:00+02:00", datetime.min.replace(tzinfo=UTC)),
        ("9999-12-31T23:59:59-02:00", datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ],
)
def test_a_deadline_is_stored_in_utc(written: str, meant: datetime) -> None:
    """Whatever zone it was written in, and at either end of the calendar."""
    found = parse_drain_spec({"deadline": written}).deadline
    assert found == meant
    assert found.tzinfo is UTC


@pytest.mark.parametrize(
    ("deadline", "overdue"), [(None, False), (NOW + SECOND, False), (NOW, True), (NOW - SECOND, True)]
)
def test_a_drain_is_overdue_from_its_deadline_on(deadline: datetime | None, overdue: bool) -> None:
    assert DrainSpec(deadline=deadline).overdue(NOW) is overdue


def test_a_deadline_counts_across_zones() -> None:
    east = timezone(timedelta(hours=2))
    assert DrainSpec(deadline=NOW.astimezone(east)).overdue(NOW)
    assert not DrainSpec(deadline=(NOW + SECOND).astimezone(east)).overdue(NOW)


# Who stays by rule


@each_case(
    ("one", "spec", "rule"),
    [
        (pod(), DrainSpec(), None),
        (pod(bare=True), DrainSpec(), None),
        (pod(daemon=True), DrainSpec(), KeepRule.DAEMON),
        (pod(priority=CRITICAL), DrainSpec(), KeepRule.CRITICAL),
        (pod(priority=CRITICAL + 1000), DrainSpec(), KeepRule.CRITICAL),
        (pod(priority=CRITICAL - 1), DrainSpec(), None),
        (pod(labels={"stay": "yes"}), STAYS, KeepRule.LABEL),
        (pod(labels={"stay": "no"}), STAYS, None),
        (pod(labels={}), STAYS, None),
        (pod(bare=True), KEEP_BARE, KeepRule.BARE),
        (pod(), KEEP_BARE, None),
    ],
)
def test_each_rule_keeps_its_pods(one: RunningPod, spec: DrainSpec, rule: KeepRule | None) -> None:
    assert keep_rule(one, spec) is rule


def test_the_first_rule_that_holds_is_given() -> None:
    """In the order of the table; take one away, and the next holds."""
    spec = DrainSpec(keep=Selector(match_labels={"stay": "yes"}), keep_bare=True)
    all_of_them: dict[str, Any] = {
        "daemon": True,
        "priority": CRITICAL,
        "labels": {"stay": "yes"},
        "bare": True,
    }
    found = []
    for _ in range(len(all_of_them) + 1):
        found.append(keep_rule(pod(**all_of_them), spec))
        all_of_them = dict(list(all_of_them.items())[1:])
    assert found == [KeepRule.DAEMON, KeepRule.CRITICAL, KeepRule.LABEL, KeepRule.BARE, None]


def test_the_table_of_rules_has_them_all_in_their_order() -> None:
    """The page at the top of the module is what the code knows."""
    first = [line.split()[0] for line in (draining.__doc__ or "").splitlines() if line]
    assert [word for word in first if word in set(KeepRule)] == list(KeepRule)


# What they are called


@pytest.mark.parametrize(
    ("kind", "called"),
    [("jobs", "job lab/j"), ("jobs.batch.volcano.sh", "job lab/j"), ("jobsets", "jobset lab/j")],
)
def test_a_workload_is_named_by_its_kind(kind: str, called: str) -> None:
    assert str(work(kind=kind)) == called


def test_a_unit_is_named_by_its_workload_gang_or_pod() -> None:
    """A Job, a gang, a pod."""
    pods = tuple(job(2))
    assert str(Unit(action=DrainAction.SUSPEND, pods=pods, workload=pods[0].workload)) == "job lab/j"
    assert str(Unit(action=DrainAction.EVICT, pods=pods, gang="g")) == "podgroup lab/g"
    assert str(Unit(action=DrainAction.EVICT, pods=(pod("a"),))) == "pod lab/a"


def test_an_empty_plan_has_no_pods_left() -> None:
    assert Plan().left == 0


@each_case(
    ("drain", "expected"),
    [
        (None, False),
        ({"rate": 5, "barePods": "Evict"}, False),
        ({"barePods": "Keep"}, True),
        ({"keep": {"matchLabels": {"app": "db"}}}, True),
        ({"keep": 5}, True),
    ],
    ids=str,
)
def test_a_drain_may_keep_pods_by_its_settings_or_where_they_cannot_be_read(
    drain: object, expected: bool
) -> None:
    assert may_keep(drain) is expected
