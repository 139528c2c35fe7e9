"""The fields of `spec`, each by itself: what is taken, what is refused, and in which words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.admission.field_validation import field_refusal
from queues.fields.table import FIELDS
from queues.node_groups import PREFERRED, REQUIRED
from tests.support.cases import each_case
from tests.support.rules.cases import (
    HOSTILE,
    MODEST,
    plain,
)

NAMES = sorted(row.name for row in FIELDS)
NIGHTLY = {
    "name": "nightly",
    "schedule": "0 2 * * SUN",
    "duration": "2h",
    "timeZone": "Europe/Berlin",
    "stopPolicy": "HoldAndDrain",
}
FREEZE = {"name": "freeze", "from": "2026-12-20T00:00Z", "until": "2027-01-04T00:00Z"}
GOOD: dict[str, list[Any]] = {
    "state": ["Open", "Suspended", "Closed"],
    "stopPolicy": ["None", "Hold", "HoldAndDrain"],
    "resumeAt": ["2030-01-31T18:00:00Z", "2030-01-31T18:00:00.5+05:30"],
    "reason": ["", "disks", "two\nlines", "x" * 1024],
    "parent": ["", "root", "a.b-c"],
    "namespaceSelector": [
        {},
        {"matchLabels": {"team": "a", "example.com/tier": ""}},
        {"matchLabels": {f"l{n}": "v" for n in range(16)}},
        {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["lab"]}]},
        {"matchExpressions": [{"key": "team", "operator": "In", "values": [f"v{n}" for n in range(256)]}]},
        {"matchExpressions": [{"key": f"l{n}", "operator": "Exists"} for n in range(16)]},
    ],
    "weight": [1, 65535],
    "priority": [0, 2**31 - 1],
    "reclaimable": [True, False],
    "dequeueStrategy": ["fifo", "traverse"],
    "type": ["", "batch"],
    "guarantee": [{}, {"resource": {}}, {"resource": {"cpu": "500m"}}],
    "guaranteeWhileStopped": ["Keep", "Lend"],
    "deserved": [{}, {"cpu": 4, "memory": "8Gi", "nvidia.com/gpu": "0"}],
    "capability": [{"cpu": 1.5, "hugepages-2Mi": "1Gi"}],
    "affinity": [{}, {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["big", ""]}}],
    "extendClusters": [[], [{"name": "b", "weight": 1, "capacity": {"cpu": "1"}}]],
    "drain": [
        {},
        {"rate": 0.5, "inFlight": 1, "barePods": "Keep"},
        {"brokenGangs": "Evict"},
        {"rate": 1000, "inFlight": 2**31 - 1, "gracePeriodSeconds": 0},
        {"gracePeriodSeconds": 2**31 - 1},
        {"keep": {}},
        {"keep": {"matchLabels": {"example.com/tier": "front"}}},
        {"keep": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["x", ""]}]}},
        {"keep": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": []}]}},
        {"keep": {"matchExpressions": [{"key": "a.b-c/d_e", "operator": "NotIn", "values": ["x", "y"]}]}},
        {"deadline": "2030-01-31T18:00:00Z", "afterDeadline": "Delete"},
    ],
    "parked": ["Keep", "Recreate"],
    "windows": [
        [],
        [NIGHTLY],
        [NIGHTLY, {**FREEZE, "state": "Suspended", "reason": "the end of the year"}],
        [{**NIGHTLY, "drain": {"rate": 1, "deadlineAfter": "30m", "afterDeadline": "Scale"}}],
    ],
    "windowOverrides": [
        [],
        [{"window": "nightly", "start": "2026-10-04T02:00", "skip": True}],
        [{"window": "nightly", "start": "2026-10-04T02:00", "until": "2026-10-04T09:00", "reason": "slow"}],
    ],
    "inWindow": [[], [{"name": "nightly", "start": "2026-10-04T00:00:00Z", "until": "2026-10-04T02:00:00Z"}]],
    "schedulerPolicy": ["", "packed", "A_b-c.conf"],
    "SchedulerPolicy": ["packed"],
}

SELECTOR = "drain.keep.matchExpressions[0]"
BAD: list[tuple[str, Any, str]] = [
    ("state", "Closing", 'spec.state: "Closing" is not one of Open, Suspended, Closed'),
    ("stopPolicy", "Drain", "spec.stopPolicy: "),
    ("resumeAt", "tomorrow", "such as 2030-01-31T18:00:00Z"),
    ("resumeAt", "2030-01-31T18:00:00", "with its zone"),
    ("resumeAt", "2030-13-31T18:00:00Z", "spec.resumeAt: "),
    ("reason", "x" * 1025, "has 1025 characters; use 1024 at most"),
    (
        "reason",
        "bell\x07",
        '"bell" has the control character U+0007 at position 5',
    ),
    ("parent", "Research!", 'spec.parent: "Research!" is not'),
    ("parent", "x" * 254, "spec.parent: "),
    ("namespaceSelector", "team=a", 'spec.namespaceSelector: "team=a" is not an object'),
    ("namespaceSelector", {"matchLabels": ["team"]}, "spec.namespaceSelector.matchLabels: a list is not"),
    ("namespaceSelector", {"matchLabels": {"team": 3}}, "spec.namespaceSelector.matchLabels.team: 3 is not"),
    (
        "namespaceSelector",
        {"matchLabels": {"sluice.dev/guard": "on"}},
        'spec.namespaceSelector: label "sluice.dev/guard" is written by sluice itself; select by another',
    ),
    (
        "namespaceSelector",
        {"matchExpressions": [{"key": "sluice.dev/x", "operator": "Exists"}]},
        'label "sluice.dev/x" is written by sluice itself',
    ),
    ("namespaceSelector", {"matchExpressions": [{"key": "a", "operator": "In"}]}, "In takes one or more"),
    (
        "namespaceSelector",
        {"matchLabels": {f"l{n}": "v" for n in range(17)}},
        "spec.namespaceSelector.matchLabels: has 17 labels, and 16 are allowed; use fewer",
    ),
    (
        "namespaceSelector",
        {"matchExpressions": [{"key": "a", "operator": "Exists"}] * 17},
        "spec.namespaceSelector.matchExpressions: has 17 expressions, and 16 are allowed",
    ),
    (
        "namespaceSelector",
        {"matchExpressions": [{"key": "a", "operator": "In", "values": ["v"] * 257}]},
        "spec.namespaceSelector.matchExpressions[0].values: has 257 values, and 256 are allowed",
    ),
    ("weight", 0, "spec.weight: 0 is not a whole number from 1 to 65535"),
    ("weight", 1.5, "spec.weight: 1.5 is not"),
    ("weight", 10**200, "spec.weight: a number of that many digits is not"),
    ("priority", -1, "spec.priority: -1 is not"),
    ("priority", 2**31, "spec.priority: "),
    ("reclaimable", "yes", 'spec.reclaimable: "yes" is not true or false'),
    ("dequeueStrategy", "lifo", "one of fifo, traverse"),
    ("type", "x" * 254, "spec.type: "),
    ("guarantee", {"resource": {"cpu": "-1"}}, 'spec.guarantee.resource.cpu: "-1" is below 0'),
    ("deserved", {"memory": "four"}, 'spec.deserved.memory: "four" is not a quantity'),
    ("deserved", {"cpu": None}, "spec.deserved.cpu: is null"),
    ("capability", {"cpu": "1e30"}, 'spec.capability.cpu: "1e30" is beyond'),
    ("capability", {"nvidia.com/gpu": "NaN"}, 'spec.capability["nvidia.com/gpu"]: "NaN"'),
    ("capability", {"c p u": "1"}, 'spec.capability key: "c p u" is not the name of a resource'),
    ("capability", ["cpu"], "spec.capability: a list is not"),
    ("capability", {"cpu": None}, "spec.capability.cpu: is null; leave it out or give it a value"),
    ("capability", {"cpu": ""}, 'spec.capability.cpu: "" is not a quantity; write a number with a unit'),
    ("capability", {"cpu": 10**30}, "spec.capability.cpu: "),
    ("capability", {"cpu": "1" + "0" * 30}, f'spec.capability.cpu: "{10**30}" is beyond 2^63-1'),
    ("deserved", {"cpu": "-1"}, 'spec.deserved.cpu: "-1" is below 0; leave the resource out for no bound'),
    (
        "guarantee",
        {"resource": {f"example.com/r{number}": "1" for number in range(5000)}},
        "spec.guarantee.resource: has 5000 resources, and 256 are allowed; use fewer",
    ),
    ("affinity", {"nodeGroupAffinity": {PREFERRED: "big"}}, "a list"),
    (
        "affinity",
        {"nodeGroupAntiAffinity": {REQUIRED: ["a b"]}},
        f'spec.affinity.nodeGroupAntiAffinity.{REQUIRED}[0]: "a b" is not the value of a label',
    ),
    (
        "affinity",
        {"nodeGroupAffinity": {REQUIRED: [str(number) for number in range(5000)]}},
        f"spec.affinity.nodeGroupAffinity.{REQUIRED}: has 5000 names, and 64 are allowed; use fewer",
    ),
    ("extendClusters", [{"name": "b"}, {"capacity": {"cpu": ""}}], "spec.extendClusters[1].capacity.cpu: "),
    ("extendClusters", [None], "spec.extendClusters[0]: is null"),
    ("drain", {"rate": 0}, "spec.drain.rate: 0 is not a number above 0 and up to 1000"),
    ("drain", {"rate": -0.5}, "spec.drain.rate: -0.5 is not a number above 0"),
    ("drain", {"rate": float("nan")}, "spec.drain.rate: NaN is not a number above 0"),
    ("drain", {"rate": float("inf")}, "spec.drain.rate: Infinity is not"),
    ("drain", {"rate": 1000.5}, "spec.drain.rate: 1000.5 is not"),
    ("drain", {"rate": 10**400}, "spec.drain.rate: a number of that many digits is not"),
    ("drain", {"rate": "fast"}, 'spec.drain.rate: "fast" is not'),
    ("drain", {"rate": True}, "spec.drain.rate: true is not"),
    ("drain", {"inFlight": 0}, "spec.drain.inFlight: 0 is not a whole number from 1 to 2147483647"),
    ("drain", {"inFlight": 1.5}, "spec.drain.inFlight: 1.5 is not"),
    (
        "drain",
        {"gracePeriodSeconds": -1},
        "spec.drain.gracePeriodSeconds: -1 is not a whole number from 0 to",
    ),
    ("drain", {"gracePeriodSeconds": 2**31}, "spec.drain.gracePeriodSeconds: 2147483648 is not"),
    ("drain", {"gracePeriodSeconds": 0.5}, "spec.drain.gracePeriodSeconds: 0.5 is not"),
    ("drain", {"gracePeriodSeconds": "30s"}, 'spec.drain.gracePeriodSeconds: "30s" is not'),
    ("drain", {"barePods": "Delete"}, 'spec.drain.barePods: "Delete" is not one of Evict, Keep'),
    ("drain", {"brokenGangs": "Go"}, 'spec.drain.brokenGangs: "Go" is not one of Evict, Keep'),
    (
        "drain",
        {"afterDeadline": "Evict"},
        'spec.drain.afterDeadline: "Evict" is not one of Keep, Scale, Delete',
    ),
    ("guaranteeWhileStopped", "Give", 'spec.guaranteeWhileStopped: "Give" is not one of Keep, Lend'),
    ("parked", "Delete", 'spec.parked: "Delete" is not one of Keep, Recreate'),
    ("drain", {"deadline": "soon"}, 'spec.drain.deadline: "soon" is not a time with its zone'),
    ("drain", {"keep": "app=web"}, 'spec.drain.keep: "app=web" is not an object'),
    ("drain", {"keep": {"matchLabels": {"a": "b c"}}}, 'spec.drain.keep.matchLabels.a: "b c" is not'),
    ("drain", {"keep": {"matchLabels": {"a": "b" * 64}}}, "up to 63 letters"),
    ("drain", {"keep": {"matchLabels": {"a": None}}}, "spec.drain.keep.matchLabels.a: is null"),
    (
        "drain",
        {"keep": {"matchLabels": {"/": "b"}}},
        'spec.drain.keep.matchLabels key: "/" is not the key of',
    ),
    ("drain", {"keep": {"matchLabels": {"": "b"}}}, 'spec.drain.keep.matchLabels key: "" is not'),
    ("drain", {"keep": {"matchLabels": {"a..b/c": "d"}}}, "spec.drain.keep.matchLabels key: "),
    ("drain", {"keep": {"matchLabels": {"a-/c": "d"}}}, "spec.drain.keep.matchLabels key: "),
    ("drain", {"keep": {"matchLabels": {"Tier.io/c": "d"}}}, "spec.drain.keep.matchLabels key: "),
    ("drain", {"keep": {"matchLabels": {"a" * 254 + "/c": "d"}}}, "spec.drain.keep.matchLabels key: "),
    ("drain", {"keep": {"matchExpressions": [{"operator": "Exists"}]}}, f"spec.{SELECTOR}.key: is missing"),
    (
        "drain",
        {"keep": {"matchExpressions": [{"key": "a", "operator": "Like"}]}},
        f"spec.{SELECTOR}.operator",
    ),
    (
        "drain",
        {"keep": {"matchExpressions": [{"key": "a b", "operator": "Exists"}]}},
        f'spec.{SELECTOR}.key: "a b" is not the key of a label',
    ),
    ("drain", {"keep": {"matchExpressions": [{"key": "a", "operator": "In"}]}}, "In takes one or more"),
    (
        "drain",
        {"keep": {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": []}]}},
        f"spec.{SELECTOR}.values: NotIn takes one or more; change them",
    ),
    (
        "drain",
        {"keep": {"matchExpressions": [{"key": "a", "operator": "In", "values": "b"}]}},
        f'spec.{SELECTOR}.values: "b" is not a list',
    ),
    (
        "drain",
        {"keep": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b", "c d"]}]}},
        f'spec.{SELECTOR}.values[1]: "c d" is not the value of a label',
    ),
    (
        "drain",
        {"keep": {"matchExpressions": [{"key": "a", "operator": "DoesNotExist", "values": ["b"]}]}},
        "DoesNotExist takes none",
    ),
    (
        "drain",
        {"keep": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}},
        "Exists takes none",
    ),
    ("drain", {"afterDeadline": "Delete"}, "spec.drain.deadline: is missing"),
    ("drain", {"afterDeadline": "Scale"}, "afterDeadline is Scale; set a time to scale at"),
    ("windows", {}, "spec.windows: an object is not a list"),
    ("windows", [NIGHTLY] * 10_000, "spec.windows: has 10000 windows, and 16 are allowed; use fewer"),
    ("windows", [None], "spec.windows[0]: is null"),
    ("windows", ["nightly"], 'spec.windows[0]: "nightly" is not an object'),
    ("windows", [NIGHTLY, NIGHTLY], "spec.windows[1].name of window "),
    ("windows", [{**NIGHTLY, "schedule": "x" * 1_000_000}], 'spec.windows[0].schedule of window "nightly": '),
    ("windows", [{**NIGHTLY, "schedule": "@daily"}], 'spec.windows[0].schedule of window "nightly": '),
    ("windows", [{**NIGHTLY, "timeZone": "Europe/Bonn"}], 'there is no time zone "Europe/Bonn"'),
    ("windows", [{**NIGHTLY, "duration": "30s"}], 'spec.windows[0].duration of window "nightly": "30s" is'),
    ("windows", [{**NIGHTLY, "state": "Closed"}], "a window has an end, and a close has none"),
    ("windows", [{**NIGHTLY, "name": "x" * 64}], "spec.windows[0].name"),
    ("windows", [FREEZE], "it stops nothing"),
    ("windows", [{**NIGHTLY, "duration": "", "name": "A"}], "; wrong too: spec.windows[0]"),
    ("windows", [{**NIGHTLY, "reason": "x" * 1025}], "spec.windows[0].reason: "),
    ("windows", [{**NIGHTLY, "except": [{}] * 17}], "spec.windows[0].except: has 17 spans, and 16 are"),
    ("windows", [{**NIGHTLY, "drain": {"rate": 0}}], "spec.windows[0].drain.rate: 0 is not"),
    ("windows", [{**NIGHTLY, "drain": {"afterDeadline": "Delete"}}], "drain.deadlineAfter: is missing"),
    (
        "windows",
        [{**NIGHTLY, "drain": {"deadline": "2030-01-31T18:00:00Z"}}],
        "it is one moment; write deadlineAfter",
    ),
    ("windowOverrides", "nightly", 'spec.windowOverrides: "nightly" is not a list'),
    ("windowOverrides", [{"window": "nightly"}], "spec.windowOverrides[0].start: is missing; set it"),
    ("windowOverrides", [{}] * 65, "spec.windowOverrides: has 65 overrides, and 64 are allowed"),
    ("inWindow", "nightly", 'spec.inWindow: "nightly" is not a list'),
    ("inWindow", [{"name": "nightly"}], "spec.inWindow[0].start: is missing"),
    ("schedulerPolicy", "..", 'spec.schedulerPolicy: ".." is not a key'),
    ("schedulerPolicy", "a/b", "spec.schedulerPolicy: "),
    ("SchedulerPolicy", "a b", "spec.SchedulerPolicy: "),
]


def test_every_field_is_tried_here() -> None:
    """A field without a good and a bad value here would pass unnoticed."""
    assert set(GOOD) == {field for field, _, _ in BAD} == set(NAMES)


@each_case(("field", "value"), [(field, value) for field in GOOD for value in GOOD[field]])
def test_valid_values_of_each_field_pass(field: str, value: Any) -> None:
    """Also where null stood before, which is the same as nothing."""
    assert field_refusal({}, {field: value}) is None
    assert field_refusal({field: None}, {field: value}) is None


@each_case(("field", "value", "says"), BAD)
def test_what_a_field_may_not_hold_is_refused_by_name(field: str, value: Any, says: str) -> None:
    """The refusal names the field first, shows the value and what it should be, on one short line."""
    refusal = field_refusal({}, {field: value})
    assert refusal is not None
    assert says in refusal
    assert refusal.startswith(f"spec.{field}")
    assert plain(refusal)
    assert len(refusal) < 400


@each_case(("field", "value", "says"), BAD)
def test_what_is_stored_already_stands_in_no_edits_way(field: str, value: Any, says: str) -> None:
    """Another field is edited, or the same one is mended or taken away."""
    assert (
        field_refusal({field: value}, {field: value, "weight" if field != "weight" else "type": None}) is None
    )
    assert field_refusal({field: value}, {field: GOOD[field][0]}) is None
    assert field_refusal({field: value}, {}) is None


def test_an_amount_may_be_edited_beside_a_wrong_one_that_stays() -> None:
    """Only what changes is judged, down to the resource."""
    before = {"capability": {"cpu": "-1", "memory": "1Gi"}}
    assert field_refusal(before, {"capability": {"cpu": "-1", "memory": "2Gi"}}) is None
    assert "capability.cpu" in str(field_refusal(before, {"capability": {"cpu": "-2", "memory": "1Gi"}}))


@pytest.mark.parametrize("change", [{"deadline": None}, {}, {"afterDeadline": "Delete", "rate": 1}])
def test_a_deadline_stays_while_what_is_left_is_to_be_deleted(change: dict[str, Any]) -> None:
    """Nothing can be deleted at no time, whichever of the two an edit takes away or sets."""
    before = {"drain": {"deadline": "2030-01-31T18:00:00Z", "afterDeadline": "Delete"}}
    refusal = field_refusal(before, {"drain": {"afterDeadline": "Delete", **change}})
    assert refusal == (
        "spec.drain.deadline: is missing, and afterDeadline is Delete; set a time to delete at"
    )
    assert field_refusal(before, {"drain": {"afterDeadline": "Keep", "rate": 1}}) is None


def test_a_drain_field_may_be_edited_beside_a_wrong_one_that_stays() -> None:
    """Also in `drain`, down to a label that is kept."""
    held = {"rate": 0, "keep": {"matchLabels": {"a b": "c", "tier": "front"}}}
    mended = {**held, "inFlight": 3, "keep": {"matchLabels": {"a b": "c", "tier": "back"}}}
    assert field_refusal({"drain": held}, {"drain": mended}) is None
    assert "spec.drain.rate: -1" in str(field_refusal({"drain": held}, {"drain": {**mended, "rate": -1}}))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@MODEST
@given(field=st.sampled_from(NAMES), before=JSON, value=JSON)
def test_any_value_passes_or_is_refused_on_one_line(field: str, before: Any, value: Any) -> None:
    """No value of JSON is an error of ours."""
    refusal = field_refusal({field: before}, {field: value})
    assert refusal is None or (refusal.startswith(f"spec.{field}") and plain(refusal))


@each_case("field", sorted(set(NAMES) - {"reason", "type"}))
def test_hostile_texts_are_refused_in_every_field_that_is_no_prose(field: str) -> None:
    """And what is shown of them is short and plain."""
    for name, text in HOSTILE.items():
        refusal = field_refusal({}, {field: text})
        assert refusal is not None, name
        assert plain(refusal), name
        assert len(refusal) < 300, name
