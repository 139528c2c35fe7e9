"""What hold, drain and stop make of a queue, and what is said of it afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from kubectl_queue.edit.operation import (
    MANY_UNGATED,
    Decision,
    StopFields,
    apply_patch,
    patch_between,
)
from kubectl_queue.edit.stop_policy_operation import StopPolicyOperation
from kubectl_queue.errors import QueueError
from kubectl_queue.objects.fields import Object
from kubectl_queue.views.acknowledgement import AcknowledgementWait
from kubectl_queue.views.drain_status import DrainWait
from queues.states import StopPolicy
from tests.support.cases import each_case
from tests.support.plugin.harness import (
    NOW,
    item,
    snapshot,
)

HOLD, DRAIN, NONE = StopPolicy.HOLD, StopPolicy.HOLD_AND_DRAIN, StopPolicy.NONE
PAST, LATER = "2030-01-01T11:00:00Z", "2030-01-01T13:00:00Z"


def decided(edit: StopPolicyOperation, queue: Object, *others: Object) -> Decision:
    return edit.decide(item=queue, queues=snapshot(queue, *others))


def operation(
    policy: StopPolicy, *, drain: Mapping[str, Any] | None = None, **stop: Any
) -> StopPolicyOperation:
    return StopPolicyOperation(policy=policy, stop=StopFields(**stop), drain=drain or {})


def patch_for(queue: Object, policy: StopPolicy = DRAIN, **given: Any) -> dict[str, Any]:
    return dict(decided(operation(policy, **given), queue).patch)


def outcome_for(queue: Object, policy: StopPolicy = DRAIN, **given: Any) -> str:
    return decided(operation(policy, **given), queue).outcome


def after(edit: StopPolicyOperation, queue: Object, *others: Object) -> list[str]:
    """What is said once it is done."""
    before = snapshot(queue, *others)
    done = apply_patch(queue, {"spec": edit.decide(item=queue, queues=before).patch})
    return edit.warnings("b", before=before, after=snapshot(done, *others))


@each_case("before", StopPolicy)
@each_case(("policy", "word"), [(HOLD, "held"), (DRAIN, "draining")])
def test_each_change_of_policy_is_one_patch_and_the_same_policy_is_none(
    before: StopPolicy, policy: StopPolicy, word: str
) -> None:
    queue = item("b", stopPolicy=before.value)
    if before is policy:
        assert outcome_for(queue, policy).startswith("unchanged (it is ")
        assert patch_for(queue, policy) == {}
    else:
        assert outcome_for(queue, policy) == word
        assert patch_for(queue, policy) == {"stopPolicy": policy.value}


@pytest.mark.parametrize("state", ["Open", "Suspended", "Closed"])
def test_a_stop_policy_leaves_the_state_as_it_is(state: str) -> None:
    assert patch_for(item("b", state=state)) == {"stopPolicy": "HoldAndDrain"}


def test_a_new_policy_replaces_the_reason_and_time_of_the_earlier_stop() -> None:
    queue = item("b", stopPolicy="Hold", reason="old", resumeAt=LATER)
    assert patch_for(queue) == {"stopPolicy": "HoldAndDrain", "reason": None, "resumeAt": None}
    given: dict[str, Any] = {"reason": "new racks", "resume_at": NOW + timedelta(minutes=30)}
    assert patch_for(queue, **given) == {
        "stopPolicy": "HoldAndDrain",
        "reason": "new racks",
        "resumeAt": "2030-01-01T12:30:00Z",
    }
    assert outcome_for(queue, **given) == "draining until 2030-01-01T12:30:00Z"


def test_the_same_policy_again_takes_a_new_reason_time_or_setting() -> None:
    queue = item("b", stopPolicy="HoldAndDrain", reason="old", drain={"rate": 5})
    assert patch_for(queue, reason="new") == {"reason": "new"}
    assert patch_for(queue, drain={"rate": 9}) == {"drain": {"rate": 9}}
    assert outcome_for(queue, reason="new", drain={"rate": 9}) == "edited (reason, drain.rate)"
    assert outcome_for(queue, drain={"rate": 5}) == "unchanged (it is to be drained already)"


@pytest.mark.parametrize("policy", [HOLD, DRAIN])
def test_a_stop_policy_sets_what_becomes_of_parked_pods(policy: StopPolicy) -> None:
    recreate: dict[str, Any] = {"settings": {"parked": "Recreate"}}
    assert patch_for(item("b"), policy, **recreate) == {"stopPolicy": policy.value, "parked": "Recreate"}
    held = item("b", stopPolicy=policy.value, parked="Recreate")
    assert patch_for(held, policy, settings={"parked": None}) == {"parked": None}
    assert outcome_for(held, policy, settings={"parked": None}) == "edited (parked)"
    assert patch_for(held, policy, **recreate) == {}


def test_the_time_to_resume_can_be_taken_away() -> None:
    queue = item("b", stopPolicy="Hold", resumeAt=LATER)
    assert patch_for(queue, HOLD, clear_resume_at=True) == {"resumeAt": None}
    assert outcome_for(queue, HOLD, clear_resume_at=True) == "edited (resumeAt)"


def test_a_setting_of_an_earlier_drain_can_be_taken_away() -> None:
    queue = item("b", stopPolicy="HoldAndDrain", drain={"rate": 5, "keep": {"matchLabels": {"app": "db"}}})
    assert patch_for(queue, drain={"keep": None}) == {"drain": {"keep": None}}
    assert outcome_for(queue, drain={"keep": None}) == "edited (drain.keep)"


def test_a_stop_whose_time_has_passed_is_set_again() -> None:
    queue = item("b", stopPolicy="Hold", reason="old", resumeAt=PAST)
    assert (outcome_for(queue, HOLD), patch_for(queue, HOLD)) == ("held", {"reason": None, "resumeAt": None})


def test_settings_that_are_not_given_stay_and_a_given_one_is_replaced_as_a_whole() -> None:
    """What a merge would leave of the selector before would keep other pods."""
    stored = {"rate": 5, "keep": {"matchLabels": {"app": "db"}, "matchExpressions": [{"key": "x"}]}}
    found = patch_for(item("b", drain=stored), drain={"keep": {"matchLabels": {"tier": "web"}}})
    patch = {"keep": {"matchLabels": {"app": None, "tier": "web"}, "matchExpressions": None}}
    assert found == {"stopPolicy": "HoldAndDrain", "drain": patch}
    assert apply_patch(stored, patch) == {"rate": 5, "keep": {"matchLabels": {"tier": "web"}}}


@each_case(
    ("before", "wanted"),
    [
        ({}, {"a": {"b": 1}}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}),
        ({"a": {"b": {"c": 1}}, "d": 1}, {"a": {"b": {"e": [1]}}}),
        ({"a": [1]}, {"a": {"b": 1}}),
        ({"a": {"b": 1}}, {"a": [1]}),
        ({"a": 1}, {}),
        ({"a": 1}, {"a": 1}),
    ],
)
def test_the_patch_between_two_objects_turns_the_first_into_the_second(
    before: dict[str, Any], wanted: dict[str, Any]
) -> None:
    assert apply_patch(before, patch_between(before, wanted)) == wanted


@pytest.mark.parametrize(
    ("stored", "then"),
    [
        ({"deadline": PAST}, "so nothing would be evicted"),
        (
            {"deadline": PAST, "afterDeadline": "Delete"},
            "so its pods would be deleted, whatever their budgets",
        ),
        (
            {"deadline": PAST, "afterDeadline": "Scale"},
            "so its pods would be deleted, or their workloads brought to zero, whatever their budgets",
        ),
    ],
)
def test_no_drain_begins_while_the_stored_deadline_has_passed(stored: dict[str, str], then: str) -> None:
    """It names the time and the way out, by which it then begins."""
    queue = item("b", drain=stored)
    with pytest.raises(QueueError) as error:
        patch_for(queue)
    assert PAST in str(error.value)
    assert then in str(error.value)
    assert "--deadline=none" in str(error.value)
    assert patch_for(queue, drain={"deadline": None, "afterDeadline": "Keep"})["stopPolicy"] == "HoldAndDrain"
    assert patch_for(queue, drain={"deadline": LATER})["drain"] == {"deadline": LATER}


def test_a_passed_deadline_does_not_refuse_a_hold_or_a_drain_that_goes_on() -> None:
    drain = {"deadline": PAST}
    assert patch_for(item("b", drain=drain), HOLD) == {"stopPolicy": "Hold"}
    assert patch_for(item("b", stopPolicy="HoldAndDrain", drain=drain)) == {}


def test_delete_after_deadline_needs_a_deadline_that_is_given_or_stored() -> None:
    given: dict[str, Any] = {"drain": {"afterDeadline": "Delete"}}
    with pytest.raises(QueueError, match=r"--delete-after-deadline needs a deadline; .* --deadline 2h"):
        patch_for(item("b"), **given)
    assert patch_for(item("b", drain={"deadline": LATER}), **given)["drain"] == {"afterDeadline": "Delete"}


@pytest.mark.parametrize("policy", [HOLD, DRAIN])
def test_no_time_resumes_a_closed_queue(policy: StopPolicy) -> None:
    with pytest.raises(QueueError, match=r"is Closing, which no time undoes: .* kubectl queue open b"):
        patch_for(item("b", state="Closed"), policy, resume_at=NOW + timedelta(hours=1))


def test_an_ancestor_that_stops_the_queue_too_is_named() -> None:
    parent = item("a", state="Suspended", reason="why")
    assert after(StopPolicyOperation(policy=HOLD), item("b", parent="a"), parent) == [
        'queue "b" is Suspended by its ancestor "a" (why); resume it with: kubectl queue resume a'
    ]


def test_a_hold_warns_that_an_ancestor_drains_the_queue_all_the_same() -> None:
    parent = item("a", stopPolicy="HoldAndDrain")
    texts = after(StopPolicyOperation(policy=HOLD), item("b", parent="a"), parent)
    assert texts[-1] == ('queue "b" is drained all the same, by stopPolicy HoldAndDrain of its ancestor "a"')


def test_a_stop_policy_with_a_time_warns_that_a_suspension_ends_then_too() -> None:
    suspended = item("b", state="Suspended", resumeAt=LATER)
    at = NOW + timedelta(hours=2)
    assert after(operation(HOLD, resume_at=at), suspended) == [
        'the suspension of queue "b" ends at the same time'
    ]


@pytest.mark.parametrize(("policy", "verb"), [(HOLD, "hold"), (DRAIN, "drain")])
def test_a_stop_policy_that_leaves_many_pods_without_the_gate_names_the_way_out(
    policy: StopPolicy, verb: str
) -> None:
    queue = item("b", status={"pods": {"pending": MANY_UNGATED, "gated": 0}})
    (text,) = after(operation(policy), queue)
    assert text.endswith(f"created again with the gate: kubectl queue {verb} b --parked=Recreate")
    assert after(operation(policy, settings={"parked": "Recreate"}), queue) == []


def test_a_drain_warns_of_settings_that_an_earlier_drain_left() -> None:
    """Those that were given now are not, nor is what holds anyway."""
    stored = {
        "rate": 5,
        "barePods": "Evict",
        "keep": {"matchLabels": {"app": "db"}, "matchExpressions": [{"key": "x", "operator": "Exists"}]},
        "inFlight": 3,
    }
    queue = item("b", drain=stored)
    assert after(StopPolicyOperation(policy=DRAIN, drain={"inFlight": 4}), queue) == [
        'queue "b" keeps from before, in spec.drain: rate 5, keep app=db,x'
    ]
    assert after(StopPolicyOperation(policy=HOLD), queue) == []


def test_wait_waits_for_the_end_of_a_drain_and_the_acknowledgement_of_a_hold() -> None:
    verdict = snapshot(item("b", stopPolicy="Hold")).decisions.verdict("b", live=True)
    assert isinstance(StopPolicyOperation(policy=DRAIN).wait_condition(verdict), DrainWait)
    assert StopPolicyOperation(policy=HOLD).wait_condition(verdict) == AcknowledgementWait(
        condition="Active", wanted=False
    )
