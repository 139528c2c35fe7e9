"""Quota against quota, up and down the tree; and that an edit is refused only for what it makes worse."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from queues.admission.resource_validation import (
    Quota,
    QuotaFamily,
    quota_of,
    quota_refusal,
    violations,
)
from tests.support.rules.cases import MODEST, plain

FIELDS = ("guarantee", "deserved", "capability")


def quota(**cpu: int) -> Quota:
    """A quota of cpu."""
    return Quota(**{field: {"cpu": amount} for field, amount in cpu.items()})


def family(own: Quota, **around: Any) -> QuotaFamily:
    return QuotaFamily(name="q", own=own, parent="labs", **around)


def refusal(before: Quota, after: Quota, **around: object) -> str | None:
    return quota_refusal(family(before, **around), family(after, **around))


def says(found: str | None, *words: str) -> None:
    assert found is not None
    assert plain(found)
    assert [word for word in words if word not in found] == []


# Within one queue


@pytest.mark.parametrize(
    ("low", "high"), [(FIELDS[0], FIELDS[1]), (FIELDS[1], FIELDS[2]), (FIELDS[0], FIELDS[2])]
)
def test_within_a_queue_guarantee_deserved_and_capability_are_in_order(low: str, high: str) -> None:
    """As much is allowed, one more is not; the refusal names both fields, both amounts and the fix."""
    assert refusal(Quota(), quota(**{low: 4, high: 4})) is None
    found = refusal(Quota(), quota(**{low: 5, high: 4}))
    says(found, f"spec.{low}", f"spec.{high}", '"5"', '"4"', "lower it or raise the other")


def test_resources_that_only_one_of_them_names_are_free() -> None:
    """What is not named has no bound."""
    assert refusal(Quota(), Quota(deserved={"cpu": 9}, capability={"memory": 1})) is None


# Under the parent


@pytest.mark.parametrize("field", ["guarantee", "deserved"])
def test_children_together_may_have_what_the_parent_has(field: str) -> None:
    """The refusal says what the sum would be and what is left."""
    around = {
        "parent_quota": quota(**{field: 10}),
        "sibling_quotas": {"a": quota(**{field: 4}), "b": quota(**{field: 3})},
    }
    assert refusal(Quota(), quota(**{field: 3}), **around) is None
    found = refusal(Quota(), quota(**{field: 4}), **around)
    says(found, f"spec.{field}", '"4" makes "11"', 'queue "labs", which has "10"', 'set "3" at most')


def test_a_childs_capability_may_be_its_parents() -> None:
    """Each child's by itself, not their sum."""
    around = {"parent_quota": quota(capability=10), "sibling_quotas": {"a": quota(capability=10)}}
    assert refusal(Quota(), quota(capability=10), **around) is None
    says(
        refusal(Quota(), quota(capability=11), **around), "spec.capability.cpu", '"11"', '"10" of its parent'
    )


def test_coming_under_a_parent_counts_like_asking_for_more() -> None:
    """The quota is the old one, the sum is new."""
    mine = quota(deserved=4)
    around = {"parent_quota": quota(deserved=10), "sibling_quotas": {"a": quota(deserved=7)}}
    before, after = family(mine, is_child=False, **around), family(mine, **around)
    says(quota_refusal(before, after), '"4" makes "11"')
    assert quota_refusal(after, after) is None


# Over the children


@pytest.mark.parametrize("field", ["guarantee", "deserved"])
def test_a_parent_may_not_shrink_below_what_its_children_have_together(field: str) -> None:
    """The refusal names the children, those with most first."""
    below = {name: quota(**{field: amount}) for name, amount in (("a", 1), ("b", 4), ("c", 3), ("d", 2))}
    assert refusal(quota(**{field: 20}), quota(**{field: 10}), child_quotas=below) is None
    found = refusal(quota(**{field: 20}), quota(**{field: 9}), child_quotas=below)
    says(
        found, f"spec.{field}", '"9" is less', '"10" ("b" "4", "c" "3", "d" "2", 1 more)', 'set "10" at least'
    )


def test_a_parents_capability_may_not_shrink_below_a_childs() -> None:
    """Those that have more are named, and no others."""
    below = {"a": quota(capability=8), "b": quota(capability=2)}
    found = refusal(quota(capability=9), quota(capability=7), child_quotas=below)
    says(found, "spec.capability.cpu", '"7" is less', '("a" "8")', 'set "8" at least')


def test_the_bound_of_a_parent_may_be_removed() -> None:
    """No bound is no smaller bound; one that is set anew is."""
    below = {"a": quota(deserved=8)}
    assert refusal(quota(deserved=9), Quota(), child_quotas=below) is None
    assert refusal(Quota(), quota(deserved=7), child_quotas=below) is not None


# Mending


def test_a_sum_that_is_too_much_can_be_brought_down_step_by_step() -> None:
    """Each child in its turn, though the sum is still too much; but not up again."""
    around = {
        "parent_quota": quota(deserved=10),
        "sibling_quotas": {"a": quota(deserved=9), "b": quota(deserved=9)},
    }
    assert refusal(quota(deserved=9), quota(deserved=8), **around) is None
    assert refusal(quota(deserved=9), quota(deserved=9, capability=20), **around) is None
    assert refusal(quota(deserved=8), quota(deserved=9), **around) is not None


def test_a_queue_without_a_share_is_no_part_of_a_sum_that_is_too_much() -> None:
    """It may be created beside those that make it so."""
    around = {"parent_quota": quota(deserved=1), "sibling_quotas": {"a": quota(deserved=9)}}
    before = family(Quota(), is_child=False, **around)
    assert quota_refusal(before, family(quota(capability=5), **around)) is None


AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(0, 4), max_size=2)
QUOTAS = st.builds(Quota, guarantee=AMOUNTS, deserved=AMOUNTS, capability=AMOUNTS)
OTHERS = st.dictionaries(st.sampled_from(["a", "b", "c"]), QUOTAS, max_size=3)
FAMILIES = st.builds(
    QuotaFamily,
    name=st.just("q"),
    own=QUOTAS,
    parent=st.just("labs"),
    parent_quota=st.none() | QUOTAS,
    sibling_quotas=OTHERS,
    child_quotas=OTHERS,
    is_child=st.booleans(),
)


@MODEST
@given(around=FAMILIES, after=QUOTAS)
def test_an_allowed_edit_leaves_no_violation_that_was_not_there(around: QuotaFamily, after: Quota) -> None:
    """And none is greater than it was; and whatever is refused breaks some rule."""
    wanted = replace(around, own=after, is_child=True)
    was, now = dict(violations(around)), dict(violations(wanted))
    worse = {key for key, fault in now.items() if key not in was or fault.excess > was[key].excess}
    found = quota_refusal(around, wanted)
    assert (found is not None) is bool(worse)
    assert found is None or plain(found)


@MODEST
@given(around=FAMILIES)
def test_writing_what_is_there_is_never_refused(around: QuotaFamily) -> None:
    """Whatever is wrong with it."""
    assert quota_refusal(around, around) is None


@MODEST
@given(mine=QUOTAS, parent=QUOTAS, beside=OTHERS)
def test_child_and_parent_are_checked_by_the_same_rules(
    mine: Quota, parent: Quota, beside: dict[str, Quota]
) -> None:
    """The tree breaks a rule between the two as seen from the child just when it does from the parent."""
    from_child = QuotaFamily(name="q", own=mine, parent="p", parent_quota=parent, sibling_quotas=beside)
    from_parent = QuotaFamily(name="p", own=parent, child_quotas={**beside, "q": mine})
    seen = {key[1:] for key, _ in violations(from_child) if key[0] == "under"}
    shown = {key[1:] for key, _ in violations(from_parent) if key[0] == "over"}
    assert {key for key in seen if key[0] != "capability"} == {key for key in shown if key[0] != "capability"}
    assert {key for key in seen if key[0] == "capability"} <= shown


def test_a_stored_quota_is_read_as_far_as_it_is_one() -> None:
    """Nothing that was stored is an error of whoever edits something else."""
    found = quota_of(guarantee=[], deserved={"cpu": "x", "memory": "1Ki"}, capability="all")
    assert found == Quota(deserved={"memory": 1024})


# What Volcano refuses and the rules of quotas do not need


@pytest.mark.parametrize("deserved", [{}, {"memory": 8}])
def test_a_guarantee_needs_no_deserved(deserved: dict[str, int]) -> None:
    """A queue deserves its guarantee at least."""
    own = Quota(guarantee={"cpu": 4}, deserved=deserved, capability={"cpu": 4})
    assert refusal(Quota(), own) is None


NONE, MEMORY = Quota(), Quota(guarantee={"memory": 1}, deserved={"memory": 1})


@pytest.mark.parametrize(
    ("field", "parent"), [("guarantee", NONE), ("guarantee", MEMORY), ("deserved", MEMORY)]
)
def test_what_the_parent_does_not_name_it_has_none_of(field: str, parent: Quota) -> None:
    """From either side: a right over the parent alone gives its children nothing that siblings wait for."""
    child = quota(**{field: 4})
    says(refusal(Quota(), child, parent_quota=parent), f"spec.{field}", '"4" makes "4"', 'which has "0"')
    both = replace(
        child, **{each: {**getattr(child, each), "memory": 1} for each in ("guarantee", "deserved")}
    )
    had = replace(parent, **{field: {**getattr(parent, field), "cpu": 4}})
    says(refusal(had, parent, child_quotas={"a": both}), f"spec.{field}", '"0" is less', '("a" "4")')
    assert refusal(child, child, parent_quota=parent) is None
    assert refusal(child, quota(**{field: 3}), parent_quota=parent) is None


def test_deserved_below_a_parent_without_any_has_no_bound_and_counts_there_alone() -> None:
    child = quota(deserved=4)
    assert refusal(Quota(), child, parent_quota=quota(capability=9)) is None
    assert refusal(quota(deserved=4), Quota(), child_quotas={"a": child}) is None
    says(refusal(Quota(), child, parent_quota=quota(deserved=0)), "spec.deserved")


@pytest.mark.parametrize("field", ["guarantee", "deserved"])
@pytest.mark.parametrize("root", [NONE, MEMORY])
def test_what_root_does_not_name_has_no_bound(field: str, root: Quota) -> None:
    child = quota(**{field: 4})
    below = replace(family(child, parent_quota=root), parent="root")
    assert quota_refusal(replace(below, own=Quota()), below) is None
    above = QuotaFamily(name="root", child_quotas={"a": child})
    assert quota_refusal(above, replace(above, own=root)) is None


def test_a_capability_is_compared_one_level_up_and_down() -> None:
    """A parent that names nothing stands between: the smallest capability of the chain holds at a release."""
    silent = Quota()
    assert refusal(Quota(), quota(capability=20), parent_quota=silent) is None  # 10 above that
    assert refusal(Quota(), quota(capability=10), child_quotas={"a": silent}) is None  # 20 below that
    says(refusal(Quota(), quota(capability=20), parent_quota=quota(capability=10)), "spec.capability")
    says(refusal(Quota(), quota(capability=10), child_quotas={"a": quota(capability=20)}), "spec.capability")
