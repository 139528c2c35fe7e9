"""Which labels and annotations of Volcano and Kueue are found, and the lines that are told of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from queues.membership import KUEUE_LABEL, VOLCANO_ANNOTATION, VOLCANO_LABEL
from queues.messages import WARNING_LIMIT
from queues.metadata.findings import FindingKind, KeyFinding, PlacedMetadata, find, findings, min_member
from queues.metadata.keys import GROUP_MIN_MEMBER, KEYS, PREEMPTABLE, Form, Place
from queues.metadata.warnings import metadata_warnings
from tests.support.cases import each_case

L, A = Form.LABEL, Form.ANNOTATION
WRITE = f"write annotation {VOLCANO_ANNOTATION}"
SLA = "volcano.sh/sla-waiting-time"


def kind_of(found: KeyFinding | None) -> FindingKind | None:
    return None if found is None else found.kind


@each_case(
    ("place", "form", "key", "found"),
    [
        # what acts is not found
        (Place.POD, A, VOLCANO_ANNOTATION, None),
        (Place.TEMPLATE, L, VOLCANO_LABEL, None),
        (Place.WORKLOAD, A, VOLCANO_LABEL, None),
        (Place.NAMESPACE, A, VOLCANO_ANNOTATION, None),
        (Place.PODGROUP, A, "volcano.sh/preemptable", FindingKind.BAD),
        (Place.POD, L, "volcano.sh/job-name", None),
        (Place.POD, A, "volcano.sh/qos-level", None),
        (Place.POD, A, "example.com/queue-name", None),
        (Place.POD, A, "volcano.sh/anything", None),
        (Place.TEMPLATE, A, "sluice.dev/queue-from", None),
        # in a wrong place or form
        (Place.WORKLOAD, L, VOLCANO_ANNOTATION, FindingKind.MISPLACED),
        (Place.NAMESPACE, L, VOLCANO_ANNOTATION, FindingKind.MISPLACED),
        (Place.NAMESPACE, A, VOLCANO_LABEL, FindingKind.MISPLACED),
        (Place.NAMESPACE, L, KUEUE_LABEL, FindingKind.MISPLACED),
        (Place.PODGROUP, A, VOLCANO_ANNOTATION, FindingKind.MISPLACED),
        (Place.POD, A, KUEUE_LABEL, FindingKind.MISPLACED),
        (Place.POD, L, KUEUE_LABEL, FindingKind.MISPLACED),
        (Place.POD, A, "scheduling.volcano.sh/group-name", FindingKind.MISPLACED),
        (Place.POD, L, "scheduling.k8s.io/group-name", FindingKind.MISPLACED),
        # misspelt
        (Place.NAMESPACE, A, "scheduling.volcano.sh/queue", FindingKind.MISSPELT),
        (Place.NAMESPACE, L, "sluice.dev/queue", FindingKind.MISSPELT),
        (Place.WORKLOAD, A, "scheduling.volcano.io/queue-name", FindingKind.MISSPELT),
        (Place.POD, L, "volcano.sh/queueName", FindingKind.MISSPELT),
        (Place.POD, L, "kueue.x-k8s.io/queue", FindingKind.MISSPELT),
        (Place.POD, A, "scheduling.k8s.io/queue-name", FindingKind.MISSPELT),
        # what does nothing
        (Place.PODGROUP, A, SLA, FindingKind.IGNORED),
        (Place.POD, A, GROUP_MIN_MEMBER, FindingKind.IGNORED),
        (Place.MAKER, A, GROUP_MIN_MEMBER, FindingKind.IGNORED),
        (Place.WORKLOAD, L, GROUP_MIN_MEMBER, FindingKind.IGNORED),
        (Place.NAMESPACE, L, "volcano.sh/nodegroup-name", FindingKind.IGNORED),
    ],
    ids=str,
)
def test_what_is_found_of_one_key(place: Place, form: Form, key: str, found: FindingKind | None) -> None:
    assert kind_of(find(place, form, key, "x")) is found


def test_kueues_label_names_a_queue_where_the_setting_is_on() -> None:
    assert find(Place.POD, L, KUEUE_LABEL, "x", kueue=True) is None


@each_case(
    ("value", "number"),
    [
        ("3", 3),
        ("1", 1),
        ("0003", 3),
        (str(2**31 - 1), 2**31 - 1),
        *((text, None) for text in ("abc", "-1", "0", "", str(2**31), str(2**63), "3.0", "٣", "9" * 10**6)),
    ],
    ids=lambda each: str(each)[:20],
)
def test_a_minimum_is_a_positive_32_bit_number(value: str, number: int | None) -> None:
    assert min_member(value) == number


def placed(
    *, annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None
) -> PlacedMetadata:
    return PlacedMetadata(Place.WORKLOAD, labels or {}, annotations or {})


def lines(after: PlacedMetadata, *before: PlacedMetadata) -> tuple[str, ...]:
    return metadata_warnings(findings([after], before))


@each_case(
    ("annotations", "labels", "told"),
    [
        ({}, {}, ()),
        ({SLA: ""}, {}, ()),
        ({SLA: "1h"}, {}, (f"annotation {SLA} has no effect here: use a PriorityClass",)),
        (
            {SLA: "1h", "volcano.sh/cooldown-time": "1m"},
            {},
            (f"{SLA}, volcano.sh/cooldown-time have no effect here",),
        ),
        (
            {SLA: "1h", GROUP_MIN_MEMBER: "abc"},
            {VOLCANO_ANNOTATION: "a"},
            (
                f"label {VOLCANO_ANNOTATION} names no queue: {WRITE}",
                f'annotation {GROUP_MIN_MEMBER} has no effect: "abc" is no number from 1 to 2147483647',
                f"annotation {SLA} has no effect here: use a PriorityClass",
            ),
        ),
    ],
    ids=str,
)
def test_the_lines_that_are_told(
    annotations: dict[str, str], labels: dict[str, str], told: tuple[str, ...]
) -> None:
    assert lines(placed(annotations=annotations, labels=labels)) == told


def test_only_what_an_edit_sets_or_changes_is_told() -> None:
    before = placed(annotations={SLA: "1h"})
    assert lines(before, before) == ()
    assert lines(placed(annotations={SLA: "2h"}), before) == lines(placed(annotations={SLA: "1h"}))


def test_a_thousand_keys_and_a_value_of_a_megabyte_are_told_in_one_short_line_each() -> None:
    many = {f"volcano.sh/queue-{number:050}": "x" for number in range(1000)} | {
        name: "x" * 2**20 for name in KEYS if name != KUEUE_LABEL
    }
    told = lines(placed(annotations=many, labels=many))
    assert len(told) == len(FindingKind)
    assert max(map(len, told)) <= WARNING_LIMIT


@given(
    st.dictionaries(st.one_of(st.sampled_from([*KEYS]), st.text()), st.text()),
    st.sampled_from(Place),
    st.booleans(),
)
def test_whatever_stands_there_the_lines_are_few_and_short(
    held: dict[str, str], place: Place, kueue: bool
) -> None:
    told = metadata_warnings(findings([PlacedMetadata(place, held, held)], kueue=kueue))
    assert len(told) <= len(FindingKind)
    assert all(line.isprintable() and len(line) <= WARNING_LIMIT for line in told)


@each_case(
    ("value", "is_bad"),
    [
        *((value, False) for value in ("true", "false", "T", "f", "1", "0", "TRUE", "False")),
        *((value, True) for value in ("yes", "no", "tRUE", "2")),
    ],
)
def test_a_boolean_is_what_go_reads_as_one(value: str, is_bad: bool) -> None:
    found = findings([PlacedMetadata(Place.POD, {}, {PREEMPTABLE: value})])
    assert [each.hint for each in found] == ([f'"{value}" is neither true nor false'] if is_bad else [])
