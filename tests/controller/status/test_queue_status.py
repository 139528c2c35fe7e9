"""A queue's status as it should be: conditions and their times, what waits for an acknowledgement, counts."""

from __future__ import annotations

import json
from datetime import timedelta
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.cache.members import MemberCounts
from cluster.cache.queues import queue_from_object
from cluster.objects import QueueObject, QueueStatus, StopStatus
from controller.status.queue_status import (
    PHASES,
    Confirmed,
    Counted,
    StopReport,
    changes,
    counts,
    current_status,
    desired_status,
    is_policy_alone,
    is_urgent,
    may_share,
    split_essential,
    status_patch,
)
from queues.quota.report import MORE_RESOURCES, RESOURCES
from queues.status.closing import ClosingStatus
from queues.status.conditions import DerivedCondition
from queues.tree import Tree
from queues.verdict import verdict
from tests.support.cases import each_case
from tests.support.http.wire_objects import Wire, queue
from tests.support.rules.cases import MODEST, NOW

LONG_AGO = "2029-01-01T00:00:00Z"
NOW_TEXT = "2030-01-01T12:00:00Z"
NOTHING = Counted(pods=MemberCounts(), groups={})
ALL = Confirmed(acknowledged=True, seen_by_all=True)
UNACKNOWLEDGED = Confirmed(acknowledged=False, seen_by_all=True)
UNSEEN = Confirmed(acknowledged=True, seen_by_all=False)
NOTHING_KNOWN = Confirmed(acknowledged=False, seen_by_all=False)


def read(obj: Wire) -> QueueObject:
    return msgspec.json.decode(json.dumps(obj), type=QueueObject)


def condition(
    kind: str, status: str, *, since: str | None = LONG_AGO, generation: int = 1, **more: str
) -> Wire:
    return {
        "type": kind,
        "status": status,
        "reason": more.get("reason", "Before"),
        "message": more.get("message", "before"),
        "observedGeneration": generation,
        "lastTransitionTime": since,
    }


def status_of(
    obj: Wire,
    *,
    confirmed: Confirmed = ALL,
    stop: StopReport | None = None,
    counted: Counted = NOTHING,
    live: bool = False,
    policy: DerivedCondition | None = None,
    closing: ClosingStatus | None = None,
    above: tuple[Wire, ...] = (),
) -> Wire:
    stored = read(obj)
    tree = Tree({one.name: one for one in (queue_from_object(read(each)) for each in (obj, *above))})
    found = verdict(stored.metadata.name, tree=tree, live=live, now=NOW)
    return desired_status(
        stored,
        found,
        counted,
        confirmed=confirmed,
        stop=stop,
        now=NOW,
        policy=policy,
        closing=closing,
    )


def of_kind(status: Wire, kind: str) -> Wire:
    [found] = [one for one in status["conditions"] if one["type"] == kind]
    return dict(found)


# Conditions


@each_case(
    ("spec", "accepting", "active", "reasons"),
    [
        ({}, "True", "True", ("Open", "Ready")),
        ({"state": "Suspended"}, "True", "False", ("Open", "Suspended")),
        ({"stopPolicy": "Hold"}, "True", "False", ("Open", "Stopped")),
        ({"state": "Closed"}, "False", "True", ("Closed", "Ready")),
        ({"state": "Closed", "stopPolicy": "HoldAndDrain"}, "False", "False", ("Closed", "Stopped")),
        ({"parent": "nobody"}, "False", "False", ("ChainBroken", "ChainBroken")),
    ],
    ids=str,
)
def test_the_conditions_say_what_the_verdict_does(
    spec: Wire, accepting: str, active: str, reasons: tuple[str, str]
) -> None:
    status = status_of(queue("a", generation=3, **spec))
    for kind, expected, reason in zip(("Accepting", "Active"), (accepting, active), reasons, strict=True):
        found = of_kind(status, kind)
        assert (found["status"], found["reason"]) == (expected, reason)
        assert found["observedGeneration"] == 3
        assert found["message"]
    assert status["observedGeneration"] == 3


def test_a_new_conditions_time_is_now() -> None:
    status = status_of(queue("a"))
    assert {one["lastTransitionTime"] for one in status["conditions"]} == {NOW_TEXT}


@pytest.mark.parametrize(
    ("before", "since"), [("True", LONG_AGO), ("False", NOW_TEXT), ("Unknown", NOW_TEXT)]
)
def test_the_time_changes_with_the_status_and_only_with_it(before: str, since: str) -> None:
    """Changes of the reason, the message or the generation do not change it."""
    held = {"conditions": [condition("Active", before), condition("Accepting", "True")]}
    status = status_of(queue("a", generation=9, status=held))
    assert of_kind(status, "Active")["lastTransitionTime"] == since
    assert of_kind(status, "Active")["message"] != "before"
    assert of_kind(status, "Accepting")["lastTransitionTime"] == LONG_AGO


def test_a_condition_without_a_time_gets_one() -> None:
    held = {"conditions": [condition("Active", "True", since=None)]}
    assert of_kind(status_of(queue("a", status=held)), "Active")["lastTransitionTime"] == NOW_TEXT


def test_conditions_of_other_types_are_left_as_they_are_and_all_are_in_order() -> None:
    other = condition("Fair", "False", generation=4)
    status = status_of(queue("a", status={"conditions": [other, condition("Active", "True")]}))
    assert [one["type"] for one in status["conditions"]] == ["Accepting", "Active", "Fair"]
    assert of_kind(status, "Fair") == other


def test_condition_policy_resolved_is_written_with_its_generation_and_goes_with_the_policies() -> None:
    found = DerivedCondition("PolicyResolved", False, "NotFound", "there is none")
    obj = queue("a", generation=3, status={"conditions": [condition("PolicyResolved", "False")]})
    expected = condition("PolicyResolved", "False", generation=3, reason="NotFound", message="there is none")
    assert of_kind(status_of(obj, policy=found), "PolicyResolved") == expected
    unacknowledged = status_of(obj, policy=found, confirmed=NOTHING_KNOWN)
    assert of_kind(unacknowledged, "PolicyResolved") == expected
    assert [one["type"] for one in status_of(obj)["conditions"]] == ["Accepting", "Active"]


@each_case(
    ("change", "expected"),
    [
        ({"policy": True}, True),
        ({"policy": True, "running": 1}, True),
        ({"policy": True, "state": "Closed"}, False),
        ({"policy": True, "active": True}, False),
        ({"active": True}, False),
        ({"running": 1}, False),
    ],
    ids=str,
)
def test_a_write_that_says_only_which_policy_counts_can_be_told_from_others(
    change: Wire, expected: bool
) -> None:
    """It gives way to those of stops."""
    before = {"state": "Open", "running": 0, "conditions": [condition("Active", "True")]}
    conditions = [condition("Active", "False" if "active" in change else "True")]
    if "policy" in change:
        conditions.append(condition("PolicyResolved", "True"))
    after = {**before, "conditions": conditions}
    after |= {key: value for key, value in change.items() if key in before}
    assert is_policy_alone(status_patch(after, before), before) is expected


def test_what_keeps_a_closing_queue_is_said() -> None:
    """As fields, and in the condition in words."""
    closing = ClosingStatus(kind="Pod", namespace="team", name="x", queue="a", others=1)
    status = status_of(queue("a", state="Closed"), live=True, closing=closing)
    assert status["state"] == "Closing"
    kept = "; kept from Closed by pod team/x and others of queue a"
    assert of_kind(status, "Accepting")["message"].endswith(kept)
    assert status["closing"] == {"kind": "Pod", "namespace": "team", "name": "x", "queue": "a", "others": 1}


def test_what_keeps_a_queue_is_written_as_a_whole() -> None:
    """A merge patch keeps the fields that it does not name: those of the member before are taken away."""
    before = {"closing": {"kind": "Pod", "namespace": "team", "name": "x", "queue": "a", "others": 0}}
    gone = dict.fromkeys(("kind", "namespace", "name", "queue"))
    assert status_patch({"closing": {"others": 0}}, before) == {"closing": {"others": 0, **gone}}
    assert status_patch({"closing": None}, before) == {"closing": None}
    fewer = {"closing": {**before["closing"], "others": 3}}
    assert not is_urgent(status_patch(fewer, before), before)


def test_what_keeps_a_queue_stays_until_all_replicas_have_seen_its_spec() -> None:
    """As condition Accepting does, which says the same in words."""
    stored = {"closing": {"kind": "Pod", "namespace": "team", "name": "x", "queue": "a", "others": 0}}
    closing = queue("a", state="Closed", status=stored)
    assert status_of(closing, live=True, confirmed=UNSEEN)["closing"] == stored["closing"]
    assert status_of(closing, live=True)["closing"] is None


# What is not known to hold yet


@pytest.mark.parametrize(
    "spec", [{"state": "Suspended"}, {"stopPolicy": "Hold"}, {"parent": "nobody"}], ids=str
)
def test_a_stop_that_is_not_acknowledged_leaves_the_condition_as_it_was(spec: Wire) -> None:
    before = condition("Active", "True", generation=1)
    obj = queue("a", generation=2, status={"conditions": [before], "observedGeneration": 1}, **spec)
    status = status_of(obj, confirmed=UNACKNOWLEDGED)
    assert of_kind(status, "Active") == before
    assert status["observedGeneration"] == 1
    assert of_kind(status, "Accepting")["observedGeneration"] == 2


def test_a_stop_of_a_new_queue_has_no_condition_until_it_is_acknowledged() -> None:
    status = status_of(queue("a", state="Suspended"), confirmed=UNACKNOWLEDGED)
    assert [one["type"] for one in status["conditions"]] == ["Accepting"]
    assert status["observedGeneration"] == 0


def test_a_stop_that_became_another_waits_again() -> None:
    before = condition("Active", "False", generation=1, reason="Suspended")
    obj = queue(
        "a", generation=2, stopPolicy="Hold", status={"conditions": [before], "observedGeneration": 1}
    )
    waiting = of_kind(
        status_of(
            obj,
            confirmed=UNACKNOWLEDGED,
            stop=StopReport(status=StopStatus(), scope="other"),
        ),
        "Active",
    )
    assert (waiting["status"], waiting["reason"]) == ("Unknown", "NotAcknowledged")
    after = of_kind(status_of(obj), "Active")
    assert (after["reason"], after["lastTransitionTime"]) == ("Stopped", LONG_AGO)


@pytest.mark.parametrize(("scope", "expected"), [("same", "False"), ("other", "Unknown")])
def test_an_acknowledgement_falls_with_the_specs_that_it_holds_for(scope: str, expected: str) -> None:
    """An ancestor, or a queue below, may have changed; the queue's own generation is what it was."""
    held = {
        "conditions": [condition("Active", "False")],
        "observedGeneration": 1,
        "stop": {"scope": "same", "revision": "r"},
    }
    obj = queue("a", generation=1, stopPolicy="Hold", status=held)
    stop = StopReport(status=StopStatus(revision="r"), scope=scope)
    status = status_of(obj, confirmed=UNACKNOWLEDGED, stop=stop)
    assert of_kind(status, "Active")["status"] == expected
    assert status["stop"] == {"revision": "r"}


def test_a_queue_accepts_only_once_every_replica_does() -> None:
    before = condition("Accepting", "False", generation=1)
    obj = queue("a", generation=2, status={"conditions": [before], "observedGeneration": 1})
    status = status_of(obj, confirmed=UNSEEN)
    assert of_kind(status, "Accepting") == before
    assert status["observedGeneration"] == 1
    assert of_kind(status, "Active")["status"] == "True"


def test_a_close_is_said_once_every_replica_refuses() -> None:
    """A replica that still accepts does so before the `lastTransitionTime` that is written."""
    held = {"conditions": [condition("Accepting", "True")], "observedGeneration": 1}
    obj = queue("a", generation=2, state="Closed", status=held)
    waiting = status_of(obj, confirmed=NOTHING_KNOWN)
    assert (of_kind(waiting, "Accepting")["status"], waiting["observedGeneration"]) == ("True", 1)
    said = status_of(obj, confirmed=UNACKNOWLEDGED)
    assert (of_kind(said, "Accepting")["status"], said["observedGeneration"]) == ("False", 2)
    assert of_kind(said, "Active")["status"] == "True"


def test_a_close_waits_for_what_is_said_below_of_a_former_one() -> None:
    obj = queue("a", generation=3, state="Closed", status={"observedGeneration": 1})
    assert (
        status_of(obj, confirmed=Confirmed(acknowledged=True, seen_by_all=True, closed_verified=False))[
            "observedGeneration"
        ]
        == 1
    )
    assert (
        status_of(obj, confirmed=Confirmed(acknowledged=True, seen_by_all=True, closed_verified=True))[
            "observedGeneration"
        ]
        == 3
    )


def test_the_state_is_said_at_once_whatever_waits() -> None:
    status = status_of(queue("a", state="Suspended"), confirmed=NOTHING_KNOWN)
    assert status["state"] == "Suspended"


def test_a_stop_of_an_ancestor_waits_like_ones_own() -> None:
    obj = queue("a", parent="labs", status={"conditions": [condition("Active", "True")]})
    labs = queue("labs", stopPolicy="Hold")
    waiting = status_of(obj, confirmed=UNACKNOWLEDGED, above=(labs,))
    assert of_kind(waiting, "Active")["status"] == "True"
    assert 'its ancestor "labs"' in of_kind(status_of(obj, above=(labs,)), "Active")["message"]


# Counts


PODS = MemberCounts(pending=5, gated=2, running=3, succeeded=1, failed=4, live=8)


def test_the_counts_are_those_counted() -> None:
    status = status_of(queue("a"), counted=Counted(pods=PODS, groups={"running": 2, "inqueue": 1, "odd": 9}))
    assert {phase: status[phase] for phase in PHASES} == {
        "pending": 0,
        "running": 2,
        "inqueue": 1,
        "unknown": 0,
        "completed": 0,
    }
    assert status["pods"] == {
        "pending": 5,
        "gated": 2,
        "parked": 2,
        "recreating": 0,
        "running": 3,
        "succeeded": 1,
        "failed": 4,
        "notSelected": 0,
    }
    assert status["allocated"] == {"pods": "3"}


def test_in_a_queue_that_does_not_schedule_all_who_wait_are_parked() -> None:
    status = status_of(queue("a", stopPolicy="Hold"), counted=Counted(pods=PODS, groups={}))
    assert status["pods"]["parked"] == 5


@pytest.mark.parametrize(
    ("policy", "left", "expected"),
    [("Hold", 2, 2), ("Hold", 4, 3), ("None", 2, 0)],
    ids=["stopped", "stopped, some have gone since they were counted", "it schedules"],
)
def test_pods_that_are_to_be_created_again_are_among_the_parked_without_the_gate(
    policy: str, left: int, expected: int
) -> None:
    counted = Counted(pods=PODS, groups={}, recreating=left)
    status = status_of(queue("a", stopPolicy=policy), counted=counted)
    assert status["pods"]["recreating"] == expected


def test_of_many_resources_a_hundred_are_shown_and_how_many_more() -> None:
    """The resources that each cluster has and those of the quota are among them, whatever their names."""
    asked: dict[str, int | Fraction] = {f"a{number:04}.example.com/r": 1 for number in range(1000)}
    asked |= {"memory": 1024, "cpu": 2, "zzz.example.com/gpu": 4}
    pods = MemberCounts(running=3, allocated=asked)
    obj = queue("a", capability={"zzz.example.com/gpu": "8"}, deserved=[], guarantee={"resource": 5})
    told = status_of(obj, counted=Counted(pods=pods, groups={}))["allocated"]
    assert len(told) == RESOURCES + 2
    assert (told["pods"], told["cpu"], told["memory"], told["zzz.example.com/gpu"]) == ("3", "2", "1Ki", "4")
    assert told[MORE_RESOURCES] == str(len(asked) - RESOURCES)
    assert told["a0096.example.com/r"] == "1"


def test_so_many_resources_are_shown_with_none_more() -> None:
    pods = MemberCounts(allocated={f"r-{number:04}": 1 for number in range(RESOURCES)})
    told = status_of(queue("a"), counted=Counted(pods=pods, groups={}))["allocated"]
    assert len(told) == RESOURCES + 1
    assert MORE_RESOURCES not in told


def test_pods_that_come_and_go_while_their_requests_are_shown_disturb_nothing() -> None:
    """The pod reflector's thread changes the counts meanwhile."""
    amounts: dict[str, int | Fraction] = {f"r-{number:04}": 1 for number in range(RESOURCES + 1)}
    before = len(amounts)

    class Quota(frozenset[str]):
        def __contains__(self, resource: object) -> bool:
            amounts.pop("r-0000", None)
            amounts[f"new-{len(amounts)}"] = 1
            return False

    pods = MemberCounts(running=1, allocated=amounts)
    shown = counts(Counted(pods=pods, groups={}), schedules=True, quota=Quota())["allocated"]
    assert len(amounts) > before
    assert shown["r-0000"] == "1"
    assert shown[MORE_RESOURCES] == "1"


def test_what_says_whether_a_stop_holds_is_apart_from_what_users_size() -> None:
    status = status_of(queue("a", stopPolicy="Hold"), counted=Counted(pods=PODS, groups={}))
    essential, counted = split_essential(status)
    assert set(essential) == {"state", "observedGeneration", "conditions", "changes", "stop"}
    assert {"allocated", "pods", "drain"} <= set(counted)
    assert may_share(counted)
    assert not may_share({**counted, "allocated": {f"r-{number}": "1" for number in range(1000)}})


def test_what_a_stop_does_not_say_any_more_is_taken_off() -> None:
    """A merge patch keeps what it does not name: else the same status would be written again and again."""
    before = {"stop": {"revision": "r", "scope": "old", "waitingFor": "somebody"}}
    after = {"stop": {"revision": "r", "scope": "new"}}
    assert status_patch(after, before) == {"stop": {"revision": "r", "scope": "new", "waitingFor": None}}
    assert status_patch({"stop": None}, before) == {"stop": None}


# The history


def test_the_history_is_the_one_that_admission_wrote_down() -> None:
    lines = [{"by": "alice", "field": "state", "from": "Open", "to": "Closed", "at": NOW_TEXT}]
    obj = queue("a", annotations={"sluice.dev/changes": json.dumps(lines)})
    assert status_of(obj)["changes"] == lines


@each_case("text", ["", "nonsense", "{}", "[5]", '[{"by": 5}]', "[" * 100_000])
def test_a_history_that_cannot_be_read_is_none(text: str) -> None:
    assert changes(read(queue("a", annotations={"sluice.dev/changes": text}))) == []


# What is written


def test_a_status_that_is_there_already_is_not_written() -> None:
    obj = queue("a", generation=2, stopPolicy="Hold", annotations={"sluice.dev/changes": "[]"})
    first = status_of(obj, counted=Counted(pods=PODS, groups={"running": 1}))
    stored = read({**obj, "status": first})
    again = status_of({**obj, "status": first}, counted=Counted(pods=PODS, groups={"running": 1}))
    assert status_patch(again, current_status(stored.status)) == {}


STATUSES = st.fixed_dictionaries(
    {},
    optional={
        "state": st.sampled_from(["Open", "Closed", ""]),
        "observedGeneration": st.integers(0, 3),
        "conditions": st.lists(
            st.builds(
                condition,
                st.sampled_from(["Active", "Accepting", "Drained"]),
                st.sampled_from(["True", "False"]),
                since=st.sampled_from([LONG_AGO, None]),
                generation=st.integers(0, 3),
            ),
            max_size=3,
            unique_by=lambda one: one["type"],
        ),
        "running": st.integers(0, 3),
        "allocated": st.none() | st.just({"pods": "1"}) | st.just({"cpu": 1}),
        "pods": st.none() | st.just({"pending": 1}),
    },
)
SPECS = st.sampled_from(
    [{}, {"state": "Suspended"}, {"state": "Closed"}, {"stopPolicy": "Hold"}, {"parent": "x"}]
)


def merged(held: Any, patch: Any) -> Any:
    """A merge patch (RFC 7396) applied."""
    if not isinstance(patch, dict):
        return patch
    kept = dict(held) if isinstance(held, dict) else {}
    after = {**kept, **{key: merged(kept.get(key), value) for key, value in patch.items()}}
    return {key: value for key, value in after.items() if patch.get(key, value) is not None}


@MODEST
@given(held=STATUSES, spec=SPECS, stop=st.booleans(), accepts=st.booleans())
def test_once_the_difference_is_written_nothing_differs(
    held: Wire, spec: Wire, stop: bool, accepts: bool
) -> None:
    """A merge patch of what differs, applied to whatever was there."""
    confirmed = Confirmed(acknowledged=stop, seen_by_all=accepts)
    obj = queue("a", generation=3, status=held, **spec)
    difference = status_patch(status_of(obj, confirmed=confirmed), current_status(read(obj).status))
    after = {**obj, "status": merged(held, difference)}
    assert status_patch(status_of(after, confirmed=confirmed), current_status(read(after).status)) == {}


@each_case(
    ("difference", "expected"),
    [
        ({}, False),
        ({"pods": {}}, False),
        ({"allocated": {}, "running": 1, "pending": 0}, False),
        ({"state": "Open"}, True),
        ({"conditions": []}, True),
        ({"changes": []}, True),
        ({"observedGeneration": 1}, True),
        ({"pods": {}, "state": "Open"}, True),
    ],
    ids=str,
)
def test_whatever_is_more_than_counts_is_urgent(difference: dict[str, Any], expected: bool) -> None:
    assert is_urgent(difference, {"conditions": [condition("Active", "True")]}) is expected


def test_a_status_that_says_nothing_is_read() -> None:
    assert current_status(QueueStatus())["conditions"] == []


def test_times_are_told_in_whole_seconds_of_utc() -> None:
    """The stored status is compared with the desired one: a fraction of a second would always differ."""
    stored = read(queue("a"))
    found = verdict("a", tree=Tree({"a": queue_from_object(stored)}), live=False, now=NOW)
    later = NOW + timedelta(microseconds=999_999)
    status = desired_status(stored, found, NOTHING, confirmed=ALL, now=later)
    assert of_kind(status, "Active")["lastTransitionTime"] == NOW_TEXT


@pytest.mark.parametrize(
    "since", ["2029-01-01T05:30:00+05:30", "0000-01-01T00:00:00Z", "0001-01-01T00:00:00Z"]
)
def test_the_time_of_a_condition_goes_back_as_it_was_written(since: str) -> None:
    """The API server took it once, so it takes it again."""
    held = {"conditions": [condition("Active", "True", since=since)]}
    assert of_kind(status_of(queue("a", status=held)), "Active")["lastTransitionTime"] == since
