"""Which edits of the ConfigMap with the policies are refused, and what their authors are warned of."""

from __future__ import annotations

import time

import pytest

from queues.admission.policy_edits import (
    FAULTS_NAMED,
    WARNING_LENGTH,
    WARNINGS_LIMIT,
    check_policies,
    deletion_warnings,
    limited_warnings,
    removal_warnings,
)
from queues.policies.policy_set import GLOBAL_KEY, KEYS_LIMIT

GOOD = "actions: allocate\ntiers: [{plugins: [{name: binpack}]}]"
BAD = "actions: allocate\ntiers:\n- plugins:\n  - nme: binpack\n"
UNKNOWN_FIELD = "actions: allocate\nqueues: 1\ntiers: [{}]\n"
#: What each of these is refused for, at which line.
FAULTY = {
    "actions: [": (2, "not YAML"),
    "actions: allocate\na: &a [x, x]\nb: &b [*a, *a]\n"
    + "".join(f"c{i}: &c{i} [{'*b, ' * 9}*b]\n" for i in range(200)): (
        2,
        "more than 5,000 values",
    ),
    "actions: allocate\ntiers:\n" + "- plugins: []\n" * 4000: (1668, "more than 5,000 values"),
    "tiers:\n" + "- a\n" * 1_000_000: (1, "longer than 65,536 bytes"),
    "actions: allocate\ntiers:\n- plugins:\n  - name: binpack\n    arguments:\n      binpack.weight: -1": (
        6,
        "from 0",
    ),
    "actions: allocate\ntiers:\n- plugins:\n  - name: binpack\n    arguments:\n      binpack.cpu: 9999999": (
        6,
        "from 0",
    ),
    "actions: allocate": (1, "tiers is missing or empty"),
    "actions: allocate\ntiers:\n- plugins:\n\t- name: gang": (4, "not YAML"),
    "actions: alocate": (1, 'did you mean "allocate"?'),
    BAD: (4, "a plugin has no name"),
}


@pytest.mark.parametrize("text", FAULTY, ids=lambda text: text[:20])
def test_a_text_that_is_no_policy_is_refused_with_key_line_and_reason(text: str) -> None:
    line, reason = FAULTY[text]
    refusal = check_policies({}, {"packed": text}).refusal
    assert refusal.startswith('key "packed", line ')
    assert f", line {line}: " in refusal
    assert reason in refusal
    assert len(refusal) < 500


def test_nan_and_texts_for_numbers_are_warned_of() -> None:
    """Volcano takes the default for them; so do we, and say so."""
    text = (
        "actions: allocate\ntiers:\n- plugins:\n  - name: binpack\n    arguments:\n"
        '      binpack.weight: .nan\n      binpack.cpu: "10"\n'
    )
    edit = check_policies({}, {"packed": text})
    assert edit.refusal == ""
    assert [warning.partition(": ")[0] for warning in edit.warnings] == [
        'key "packed", line 6',
        'key "packed", line 7',
    ]


def test_all_faulty_keys_are_named_the_global_one_first() -> None:
    refusal = check_policies({}, {"b": BAD, "a": BAD, "good": GOOD, GLOBAL_KEY: "actions: x"}).refusal
    places = [refusal.index(f'key "{key}", line') for key in (GLOBAL_KEY, "a", "b")]
    assert places == sorted(places)
    assert "good" not in refusal


def test_of_many_faulty_keys_the_first_are_named_and_the_others_counted() -> None:
    refusal = check_policies({}, {f"k{number:03}": BAD for number in range(300)}).refusal
    assert refusal.endswith(f" and {300 - FAULTS_NAMED} more")
    assert refusal.count("key ") == FAULTS_NAMED


def test_keys_that_do_not_change_are_not_read_again() -> None:
    """What is faulty can be corrected key by key."""
    before = {"a": BAD, "b": BAD}
    assert check_policies(before, {"a": GOOD, "b": BAD}).refusal == ""
    assert check_policies(before, {"b": BAD}).refusal == ""
    assert 'key "c"' in check_policies(before, {**before, "c": BAD}).refusal
    assert 'key "a"' in check_policies(before, {"a": BAD + " ", "b": BAD}).refusal


def test_keys_beyond_those_that_are_read_are_refused_unless_they_get_fewer() -> None:
    many = {f"k{number}": GOOD for number in range(KEYS_LIMIT + 2)}
    assert "1,002 policies; at most 1,000 are read" in check_policies({}, many).refusal
    fewer = dict(list(many.items())[:-1])
    assert check_policies(many, fewer).refusal == ""
    assert check_policies(many, many).refusal == ""


def test_warnings_name_their_key_and_line_and_are_bounded() -> None:
    edit = check_policies({}, {"packed": UNKNOWN_FIELD})
    [warning] = edit.warnings
    assert warning.startswith('key "packed", line 2: ')
    many = check_policies({}, {f"k{number}" + "x" * 200: UNKNOWN_FIELD for number in range(50)}).warnings
    assert len(many) == WARNINGS_LIMIT + 1
    assert many[-1] == f"there are {50 - WARNINGS_LIMIT} more warnings"
    assert all(len(each) <= WARNING_LENGTH for each in many)
    assert limited_warnings(["x" * 400])[0][-1] == "…"


def test_a_key_that_goes_though_queues_name_it_is_warned_of() -> None:
    named_by = {"packed": ["a"], "spread": ["b"], "absent": ["c"]}
    [warning] = removal_warnings(["packed", "spread"], ["spread"], named_by)
    assert warning.startswith('policy "packed" goes, which queue "a" names; ')
    assert removal_warnings(["packed"], ["packed"], named_by) == ()
    assert removal_warnings(["other"], [], named_by) == ()


def test_the_deletion_of_the_configmap_names_the_queues_at_most_three() -> None:
    queues = [f"q{number}" for number in range(1000)]
    [warning] = deletion_warnings(["packed"], {"packed": queues, "absent": ["c"]})
    assert warning == (
        'queues "q0", "q1", "q10" and 997 more name policies of this ConfigMap; '
        "no policy counts once it is deleted"
    )
    assert deletion_warnings(["packed"], {"absent": ["c"]}) == ()
    assert len(deletion_warnings(["packed"], {"packed": ["q" * 253] * 9})[0]) <= WARNING_LENGTH


@pytest.mark.parametrize(
    "text",
    [
        "actions: allocate\ntiers:\n- plugins:\n  - name: binpack\n"
        + "".join(f"    enableNodeOrder{number:04}x: 1\n" for number in range(2300)),
        "actions: allocate\ntiers:\n- plugins:\n  - name: binpack\n    arguments:\n      x: ["
        + "1," * 4900
        + "1]",
    ],
    ids=["likely names", "many values"],
)
def test_a_text_at_its_limits_is_read_soon(text: str) -> None:
    """No longer than the API server waits: a ConfigMap may have 1 MiB, which is sixteen of the longest."""
    started = time.process_time()
    check_policies({}, {f"k{number}": text for number in range(16)})
    assert time.process_time() - started < 4
