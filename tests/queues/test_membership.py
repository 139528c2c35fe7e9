"""Whose queue a pod is in: the rules of the design's section 4, first match first."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from queues.membership import (
    Membership,
    MembershipSettings,
    PodFacts,
    Source,
    label_value,
    name_fault,
    stored_pod_membership,
    submitted_pod_membership,
    valid_name,
)
from tests.support.cases import each_case
from tests.support.rules.cases import MODEST

#: First match wins: rule, where its key stands, the key, the queue it leads to, the source that is told.
KEYS = (
    ("group", "annotations", "scheduling.k8s.io/group-name", "q-group", "PodGroup"),
    (
        "annotation",
        "annotations",
        "scheduling.volcano.sh/queue-name",
        "q-annotation",
        "annotation scheduling.volcano.sh/queue-name",
    ),
    ("volcano label", "labels", "volcano.sh/queue-name", "q-vlabel", "volcano.sh/queue-name"),
    ("volcano annotation", "annotations", "volcano.sh/queue-name", "q-vannotation", "volcano.sh/queue-name"),
    ("kueue", "labels", "kueue.x-k8s.io/queue-name", "q-kueue", "label kueue.x-k8s.io/queue-name"),
    ("namespace", "namespace_queue", "", "q-namespace", "namespace"),
    ("scheduler", "scheduler", "", "default", "schedulerName"),
)
RULES = [rule for rule, *_ in KEYS]
KUEUE_ON = MembershipSettings(kueue=True)
WRITTEN = "sluice.dev/queue"
#: PodGroups by namespace and name.
GROUPS = {("team", "train"): "q-group", ("other", "alone"): "q-elsewhere"}


def group(namespace: str, name: str) -> str | None:
    return GROUPS.get((namespace, name))


def pod(
    rules: Iterable[str] = (), *, value: str | None = None, namespace: str = "team", **also: str
) -> PodFacts:
    """A pod with the keys of these rules; `also` are further annotations, `value` goes into every key."""
    labels: dict[str, str] = {}
    annotations = dict(also)
    plain: dict[str, Any] = {"scheduler": "default-scheduler", "namespace_queue": ""}
    for rule, where, key, queue, _ in KEYS:
        written = {"group": "train", "scheduler": "volcano"}.get(rule, queue) if value is None else value
        if rule in rules and where in plain:
            plain[where] = written
        elif rule in rules:
            (labels if where == "labels" else annotations)[key] = written
    return PodFacts(namespace=namespace, labels=labels, annotations=annotations, **plain)


def annotated(of: PodFacts, **annotations: str) -> PodFacts:
    return PodFacts(
        namespace=of.namespace,
        labels=of.labels,
        annotations={**of.annotations, **annotations},
        scheduler=of.scheduler,
        namespace_queue=of.namespace_queue,
    )


def submitted(of: PodFacts, rules: MembershipSettings = KUEUE_ON) -> Membership | None:
    return submitted_pod_membership(of, rules=rules, podgroup=group)


def stored(of: PodFacts, rules: MembershipSettings = KUEUE_ON) -> Membership | None:
    return stored_pod_membership(of, rules=rules, podgroup=group)


def expected(rule: str) -> Membership:
    queue, source = next((queue, source) for one, _, _, queue, source in KEYS if one == rule)
    return Membership(queue, Source(source), "train" if rule == "group" else "")


# Which key wins


@each_case("rule", RULES)
def test_each_key_alone_makes_a_member(rule: str) -> None:
    """A pod with one of the keys is in the queue it names, and the key is told."""
    assert submitted(pod([rule])) == expected(rule)


@each_case(("first", "second"), list(combinations(RULES, 2)))
def test_of_two_keys_the_first_in_the_list_wins(first: str, second: str) -> None:
    """Every pair of keys that disagree: the one that comes first in the design is the answer."""
    assert submitted(pod([first, second])) == expected(first)


def test_of_many_keys_the_first_in_the_list_wins() -> None:
    """Every larger set of keys too: what is left out counts for nothing, what is first is the answer."""
    for number in range(3, len(RULES) + 1):
        for rules in combinations(RULES, number):
            assert submitted(pod(rules)) == expected(rules[0]), rules


@each_case(("first", "second"), list(combinations(RULES[:-1], 2)))
def test_an_empty_key_is_no_key(first: str, second: str) -> None:
    """A key without a value leaves the answer to the next one."""
    empty, other = pod([first], value=""), pod([second])
    both = PodFacts(
        namespace="team",
        labels={**empty.labels, **other.labels},
        annotations={**empty.annotations, **other.annotations},
        scheduler=other.scheduler,
        namespace_queue=other.namespace_queue,
    )
    assert submitted(both) == expected(second)


def test_a_pod_without_a_key_is_no_member() -> None:
    """A pod of no queue is none of our business."""
    assert submitted(pod()) is None
    assert stored(pod()) is None


@each_case("rule", RULES[:-1])
def test_a_pod_with_empty_keys_is_no_member(rule: str) -> None:
    """A key without a value makes no member."""
    assert submitted(pod([rule], value="")) is None


@pytest.mark.parametrize("wrong", ["group", "annotation", "kueue"])
def test_a_key_on_the_wrong_side_counts_for_nothing(wrong: str) -> None:
    """The PodGroup and Volcano's long key are annotations, Kueue's is a label; elsewhere they say nothing."""
    right = pod([wrong])
    swapped = PodFacts(
        namespace="team", labels=right.annotations, annotations=right.labels, scheduler="default-scheduler"
    )
    assert submitted(swapped) is None


# Settings


def test_kueues_label_counts_only_where_it_is_switched_on() -> None:
    """Unless told otherwise Kueue's label is Kueue's."""
    assert submitted(pod(["kueue"]), MembershipSettings()) is None
    assert submitted(pod(["kueue", "namespace"]), MembershipSettings()) == expected("namespace")
    assert submitted(pod(["kueue"]), MembershipSettings(kueue=True)) == expected("kueue")


def test_volcano_is_among_the_schedulers_we_own() -> None:
    """A pod for `volcano` is in `default` unless it says more."""
    assert submitted(pod(["scheduler"]), MembershipSettings()) == Membership("default", Source.SCHEDULER)


@pytest.mark.parametrize(
    ("owned", "ours"), [({"sluice"}, False), ({"sluice", "volcano"}, True), (set(), False)]
)
def test_the_schedulers_we_own_are_a_setting(owned: set[str], ours: bool) -> None:
    """Only pods of those schedulers are in `default` unasked."""
    found = submitted(pod(["scheduler"]), MembershipSettings(owned_schedulers=frozenset(owned)))
    assert (found is not None) is ours


@each_case("rules", [*([one] for one in RULES), RULES], ids="+".join)
@each_case("namespace", ["kube-system", "sluice-system"])
def test_exempt_namespaces_never_hold_members(namespace: str, rules: list[str]) -> None:
    """In kube-system and our own namespace no key makes a member, not even one that was written down."""
    of = pod(rules, namespace=namespace)
    assert submitted(of) is None
    assert stored(of) is None
    assert stored(annotated(of, **{WRITTEN: "q-written"})) is None


def test_the_exempt_namespaces_are_a_setting() -> None:
    """Installed elsewhere, that namespace is the exempt one."""
    rules = MembershipSettings(exempt_namespaces=frozenset({"team"}))
    assert submitted(pod(["annotation"]), rules) is None
    assert submitted(pod(["annotation"], namespace="sluice-system"), rules) == expected("annotation")


@pytest.mark.parametrize("value", ["", "0123abc"])
def test_a_mirror_pod_is_never_a_member(value: str) -> None:
    """The kubelet's picture of a static pod cannot be stopped, whatever it carries."""
    mirror = annotated(pod(RULES), **{"kubernetes.io/config.mirror": value})
    assert submitted(mirror) is None
    assert stored(mirror) is None
    assert stored(annotated(mirror, **{WRITTEN: "q-written"})) is None


# Written down


@each_case("rules", [[], *([one] for one in RULES), RULES], ids="+".join)
def test_what_was_written_down_is_the_answer_for_a_stored_pod(rules: list[str]) -> None:
    """Once the webhook has written the queue on a pod no other key counts."""
    of = annotated(pod(rules), **{WRITTEN: "q-written"})
    assert stored(of) == Membership("q-written", Source.WRITTEN)


def test_the_queue_in_our_annotation_counts() -> None:
    """`kubectl queue why` names the key that was believed."""
    found = stored(annotated(pod(), **{WRITTEN: "q"}))
    assert found
    assert found.source == "annotation sluice.dev/queue"


@each_case("rule", RULES)
def test_what_a_user_wrote_down_himself_is_ignored(rule: str) -> None:
    """A submitted pod is asked by the other keys: nobody chooses a queue by writing the answer."""
    of = annotated(pod([rule]), **{WRITTEN: "q-written"})
    assert submitted(of) == expected(rule)


def test_the_answer_alone_makes_no_member_of_a_submitted_pod() -> None:
    """A user's own `sluice.dev/queue` makes no pod ours."""
    assert submitted(annotated(pod(), **{WRITTEN: "q-written"})) is None


@each_case("rule", RULES)
def test_a_stored_pod_without_the_answer_is_asked_by_the_other_keys(rule: str) -> None:
    """Pods older than the installation, and an empty answer, go by the keys."""
    assert stored(pod([rule])) == expected(rule)
    assert stored(annotated(pod([rule]), **{WRITTEN: ""})) == expected(rule)


LONG = "q" * 80


@each_case(
    ("label", "annotation", "queue"),
    [
        ("q", "", "q"),
        ("q", "q", "q"),
        ("q", "another", "q"),
        (label_value(LONG), LONG, LONG),
        (label_value(LONG), "another", LONG),
        (label_value("z" * 80), "", label_value("z" * 80)),
    ],
)
def test_the_label_is_the_truth(label: str, annotation: str, queue: str) -> None:
    """An annotation that does not fit the label is not believed: a Binding can write one onto a pod."""
    named = annotated(pod(RULES), **({WRITTEN: annotation} if annotation else {}))
    of = replace(named, labels={**named.labels, WRITTEN: label})

    def queue_of_label(label: str) -> str:
        return next((name for name in ("q", LONG) if label_value(name) == label), label)

    found = stored_pod_membership(of, rules=KUEUE_ON, podgroup=group, queue_of_label=queue_of_label)
    assert found == Membership(queue, Source.WRITTEN)


@each_case("rule", RULES)
@each_case("annotation", ["", "q-written"])
def test_an_empty_label_leaves_the_answer_to_the_keys(rule: str, annotation: str) -> None:
    """A pod that waits for its PodGroup; an annotation does not fit an empty label."""
    named = annotated(pod([rule]), **({WRITTEN: annotation} if annotation else {}))
    assert stored(replace(named, labels={**named.labels, WRITTEN: ""})) == expected(rule)


# PodGroups


@pytest.mark.parametrize(("namespace", "name"), [("team", "missing"), ("team", "alone"), ("other", "train")])
def test_a_pod_whose_podgroup_is_not_there_is_a_member_of_no_queue_yet(namespace: str, name: str) -> None:
    """It waits for the PodGroup of its own namespace and that name, and no other key answers for it."""
    of = annotated(pod(RULES, namespace=namespace), **{"scheduling.k8s.io/group-name": name})
    assert submitted(of) == Membership(None, Source.PODGROUP, name)


# Names


@each_case(
    ("name", "valid"),
    [
        ("a", True),
        ("0", True),
        ("research", True),
        ("team-a.research.2030", True),
        ("a--b", True),
        ("a" * 253, True),
        ("a" * 254, False),
        ("", False),
        (".", False),
        ("a.", False),
        (".a", False),
        ("a..b", False),
        ("-a", False),
        ("a-", False),
        ("a-.b", False),
        ("a.-b", False),
        ("A", False),
        ("a_b", False),
        ("a b", False),
        ("a\n", False),
        ("\na", False),
        ("a\x00", False),
        ("a/b", False),
        ("\u00e9", False),
        ("\u0661", False),
        ("a;reboot", False),
    ],
)
def test_a_name_is_one_that_an_object_can_have(name: str, valid: bool) -> None:
    """Lower-case letters, digits and hyphens, in parts between dots, at most 253 characters."""
    assert valid_name(name) is valid


@MODEST
@given(st.text(alphabet="aZ0-.\n_ ", max_size=12))
def test_a_name_is_valid_just_where_each_part_is(name: str) -> None:
    """The rule once more: every part begins and ends with a letter or digit."""
    parts = name.split(".")
    assert valid_name(name) is all(
        part and not part.startswith("-") and not part.endswith("-") and set(part) <= set("a0-")
        for part in parts
    )


@pytest.mark.parametrize("name", ["a" * 252 + "!", "a-" * 126 + "!", "a." * 126 + "!"])
def test_a_name_is_judged_in_no_time(name: str) -> None:
    """No name makes the pattern try every way to read it: this test ends."""
    assert not valid_name(name)


@each_case(
    ("name", "fault"),
    [
        ("research", ""),
        ("Research", "'R' at position 1"),
        ("re search", "' ' at position 3"),
        ("re\nsearch", "U+000A at position 3"),
        ("re\u202e", "U+202E at position 3"),
        ("half\ud800", "U+D800 at position 5"),
        ("x" * 254, "254 characters, and 253 are allowed"),
        ("-a", "each part between dots begins and ends with a letter or digit"),
        ("a..b", "each part between dots begins and ends with a letter or digit"),
        ("", "it is empty"),
    ],
    ids=lambda text: ascii(text)[:20],
)
def test_the_fault_of_a_name_is_shown_with_its_position(name: str, fault: str) -> None:
    assert name_fault(name) == fault


LABEL = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
PARTS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,70}[a-z0-9])?", fullmatch=True)
VALID = st.lists(PARTS, min_size=1, max_size=3).map(".".join).filter(lambda name: len(name) <= 253)


@pytest.mark.parametrize("length", [1, 50, 62, 63])
def test_a_short_name_is_its_own_label(length: int) -> None:
    """What fits a label is written as it is, so that people can select by it."""
    assert label_value("q" * length) == "q" * length


@each_case("name", ["q" * 64, "q" * 253, "q" * 49 + "." + "r" * 60, "q" + "-" * 62 + "q", ("q-" * 40)[:79]])
def test_a_long_name_is_cut_to_a_label(name: str) -> None:
    """A name that does not fit becomes a label value that does, and begins as the name does."""
    label = label_value(name)
    assert len(label) <= 63
    assert LABEL.fullmatch(label)
    assert label != label_value(name + "x")
    assert name.startswith(re.split(r"[._]", label)[0])


@MODEST
@given(VALID)
def test_every_name_gives_a_label_that_the_api_takes(name: str) -> None:
    """For any queue's name: a valid label value."""
    assert len(label_value(name)) <= 63
    assert LABEL.fullmatch(label_value(name))


@MODEST
@given(st.lists(VALID, min_size=2, max_size=20, unique=True))
def test_two_names_have_two_labels(names: list[str]) -> None:
    """Queues are not mixed up by the label of their members."""
    assert len(set(map(label_value, names))) == len(names)


@pytest.mark.parametrize("at", [51, 63, 64, 200])
def test_two_long_names_that_begin_alike_have_two_labels(at: int) -> None:
    """What is cut off still makes a difference."""
    one, other = ("q" * at + last + "q" * (250 - at) for last in "ab")
    assert label_value(one) != label_value(other)


def test_a_cut_label_uses_the_room_there_is() -> None:
    """Fifty characters of the name, and twelve of a digest, fill a label to the last."""
    assert len(label_value("q" * 64)) == 63
    assert label_value("q" * 64).startswith("q" * 50)


def test_no_queue_can_be_named_after_anothers_label() -> None:
    """A cut label is no valid name: else who may create queues could make one that shares it."""
    assert not valid_name(label_value("q" * 64))
