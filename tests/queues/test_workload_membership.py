"""Whose queue a workload is in: its templates' names, its own, and what follows where there is none."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations, product
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.membership import (
    Membership,
    MembershipSettings,
    NamingMetadata,
    QueueConflict,
    Source,
    WorkloadFacts,
    names_a_queue,
    overruled_name,
    without_webhook_names,
    workload_membership,
)
from tests.support.cases import each_case
from tests.support.rules.cases import MODEST

GROUP, NAMED = "scheduling.k8s.io/group-name", "scheduling.volcano.sh/queue-name"
VOLCANO, KUEUE = "volcano.sh/queue-name", "kueue.x-k8s.io/queue-name"
QUEUE, FROM = "sluice.dev/queue", "sluice.dev/queue-from"
GROUPS = {("team", "gang"): "labs", ("far", "gang"): "elsewhere"}
KUEUE_ON = MembershipSettings(kueue=True)

#: Rules 2 to 5: where the key stands, the key, what it says, and the answer.
WORDS: dict[str, tuple[str, str, str, Membership]] = {
    "group": ("annotations", GROUP, "gang", Membership("labs", Source.PODGROUP, "gang")),
    "annotation": ("annotations", NAMED, "q", Membership("q", Source.ANNOTATION)),
    "label": ("labels", VOLCANO, "q", Membership("q", Source.VOLCANO)),
    "short annotation": ("annotations", VOLCANO, "q", Membership("q", Source.VOLCANO)),
    "kueue": ("labels", KUEUE, "q", Membership("q", Source.KUEUE)),
}
EACH = pytest.mark.parametrize("word", WORDS)


def names(*words: str, says: str = "", **annotations: str) -> NamingMetadata:
    """A place with these words; `says` in place of their queues."""
    maps: dict[str, dict[str, str]] = {"labels": {}, "annotations": dict(annotations)}
    for word in words:
        where, key, value, _ = WORDS[word]
        maps[where][key] = says or value
    return NamingMetadata(maps["labels"], maps["annotations"])


def work(*templates: NamingMetadata, own: NamingMetadata | None = None, **more: Any) -> WorkloadFacts:
    return WorkloadFacts(
        namespace=more.pop("namespace", "team"),
        templates=templates,
        own_metadata=own or names(),
        schedulers=more.pop("schedulers", ("default-scheduler",)),
        **more,
    )


def judged(of: WorkloadFacts, rules: MembershipSettings = KUEUE_ON) -> Membership | QueueConflict | None:
    return workload_membership(of, rules=rules, podgroup=lambda *key: GROUPS.get(key))


# One name


@EACH
def test_each_key_in_a_template_names_the_queue(word: str) -> None:
    assert judged(work(names(word))) == WORDS[word][3]


@EACH
def test_each_key_on_the_workload_names_the_queue(word: str) -> None:
    assert judged(work(names(), own=names(word))) == WORDS[word][3]


@EACH
@pytest.mark.parametrize("at", [0, 1, 2])
def test_any_of_its_templates_names_it(word: str, at: int) -> None:
    templates = [names(word) if number == at else names() for number in range(3)]
    assert judged(work(*templates)) == WORDS[word][3]


def other(word: str) -> dict[str, str | None]:
    """What `other` becomes as the value of this key."""
    return {"queue": None, "podgroup": "other"} if word == "group" else {"queue": "other"}


@each_case(("first", "second"), list(combinations(WORDS, 2)))
def test_in_one_place_the_first_of_two_keys_counts(first: str, second: str) -> None:
    """They are one place's own affair, and no disagreement."""
    one = names(first)
    where, key, _, _ = WORDS[second]
    maps = {"labels": dict(one.labels), "annotations": dict(one.annotations)}
    maps[where][key] = "other"
    both = NamingMetadata(maps["labels"], maps["annotations"])
    assert judged(work(both)) == WORDS[first][3]
    assert judged(work(names(), own=both)) == WORDS[first][3]
    said = overruled_name(both, "team", rules=KUEUE_ON, podgroup=lambda *key: GROUPS.get(key))
    assert said == QueueConflict(WORDS[first][3], msgspec.structs.replace(WORDS[second][3], **other(second)))
    alone = overruled_name(one, "team", rules=KUEUE_ON, podgroup=lambda *key: GROUPS.get(key))
    assert alone is None


def test_its_spec_names_it() -> None:
    assert judged(work(names(), spec_queue="q")) == Membership("q", Source.SPEC)


def test_default_in_its_spec_is_no_name() -> None:
    """Volcano's definition writes it where none is given."""
    assert judged(work(names(), spec_queue="default")) == Membership("default", Source.SPEC)
    in_namespace = work(names(), spec_queue="default", namespace_queue="n", schedulers=("volcano",))
    assert judged(in_namespace) == Membership("n", Source.NAMESPACE)
    assert judged(work(names(), spec_queue="q", namespace_queue="n")) == Membership("q", Source.SPEC)


@EACH
def test_default_in_its_spec_differs_from_no_name(word: str) -> None:
    for of in (work(names(word), spec_queue="default"), work(names(), own=names(word), spec_queue="default")):
        assert judged(of) == WORDS[word][3]


def test_a_template_without_names_is_of_no_queue() -> None:
    assert judged(work()) is None
    assert judged(work(names(), own=names())) is None


@EACH
def test_an_empty_name_counts_as_absent(word: str) -> None:
    where, key, _, _ = WORDS[word]
    empty = NamingMetadata({key: ""}, {}) if where == "labels" else NamingMetadata({}, {key: ""})
    assert judged(work(empty, own=empty)) is None
    assert judged(work(empty, spec_queue="q")) == Membership("q", Source.SPEC)


def test_kueues_label_counts_only_where_it_is_switched_on() -> None:
    assert judged(work(names("kueue"), own=names("kueue")), MembershipSettings()) is None


def test_a_group_of_another_namespace_is_not_its_group() -> None:
    assert judged(work(names("group"), namespace="far")) == Membership("elsewhere", Source.PODGROUP, "gang")


@pytest.mark.parametrize("namespace", ["kube-system", "sluice-system"])
def test_an_exempt_namespace_holds_none(namespace: str) -> None:
    loud = names("annotation")
    assert judged(work(loud, own=loud, spec_queue="q", namespace_queue="q", namespace=namespace)) is None


# What follows where there is no name


def test_its_namespace_then_its_scheduler() -> None:
    owned = ("default-scheduler", "volcano")
    assert judged(work(names(), namespace_queue="n", schedulers=owned)) == Membership("n", Source.NAMESPACE)
    assert judged(work(names(), schedulers=owned)) == Membership("default", Source.SCHEDULER)
    assert judged(
        work(names(), schedulers=("mine",)), MembershipSettings(owned_schedulers=frozenset({"mine"}))
    ) == (Membership("default", Source.SCHEDULER))
    assert judged(work(names(), schedulers=())) is None


@EACH
def test_any_name_beats_its_namespace_and_its_scheduler(word: str) -> None:
    for of in (work(names(word), namespace_queue="n"), work(names(), own=names(word), namespace_queue="n")):
        assert judged(of) == WORDS[word][3]


# Two names


PLACES = ("first template", "second template", "own", "spec")


def placed(said: Mapping[str, str]) -> WorkloadFacts:
    """A workload whose places say these queues."""
    first, second, own = (
        names("annotation", says=said[one]) if one in said else names() for one in PLACES[:3]
    )
    return work(first, second, own=own, spec_queue=said.get("spec", ""))


@each_case(("first", "second"), list(combinations(PLACES, 2)))
def test_two_places_that_say_the_same_agree(first: str, second: str) -> None:
    found = judged(placed({first: "q", second: "q"}))
    assert isinstance(found, Membership)
    assert found.queue == "q"


@each_case(("first", "second"), list(combinations(PLACES, 2)))
def test_two_places_that_differ_are_both_shown(first: str, second: str) -> None:
    found = judged(placed({first: "one", second: "two"}))
    assert isinstance(found, QueueConflict)
    assert (found.first.queue, found.second.queue) == ("one", "two")


@MODEST
@given(said=st.dictionaries(st.sampled_from(PLACES), st.sampled_from(["a", "b", "c"])))
def test_it_is_in_a_queue_only_where_all_its_names_are_that_queue(said: dict[str, str]) -> None:
    found = judged(placed(said))
    queues = set(said.values())
    if len(queues) > 1:
        assert isinstance(found, QueueConflict)
        assert {found.first.queue, found.second.queue} <= queues
        assert found.first.queue != found.second.queue
    else:
        assert not isinstance(found, QueueConflict)
        assert {found.queue} == queues if found else not queues


def test_a_group_and_a_name_of_its_queue_agree() -> None:
    own = names("annotation", says="labs")
    assert judged(work(names("group"), own=own)) == WORDS["group"][3]
    assert isinstance(judged(work(names("group"), own=names("annotation"))), QueueConflict)


@pytest.mark.parametrize("first", [True, False])
def test_while_a_podgroup_does_not_exist_it_is_not_known_whether_names_differ(first: bool) -> None:
    waiting, named = names("group", says="later"), names("annotation")
    templates = (waiting, named) if first else (named, waiting)
    unknown = Membership(None, Source.PODGROUP, "later")
    assert judged(work(*templates)) == unknown
    assert judged(work(waiting, own=named)) == unknown
    assert isinstance(judged(work(*templates, spec_queue="other")), QueueConflict)


# What the webhook wrote


@EACH
def test_a_name_that_the_webhook_wrote_is_not_the_templates_own(word: str) -> None:
    template = names(**{FROM: "workload", NAMED: "old", QUEUE: "old"})
    assert judged(work(template, own=names(word))) == WORDS[word][3]
    assert judged(work(template)) is None
    assert judged(work(template, namespace_queue="n")) == Membership("n", Source.NAMESPACE)


@EACH
def test_a_template_that_names_itself_beside_it_does(word: str) -> None:
    one = names(word, **{FROM: "workload"})
    expected = None if word == "annotation" else WORDS[word][3]
    assert judged(work(one)) == expected


def test_in_what_another_workload_made_the_name_in_the_template_counts() -> None:
    template = names(**{FROM: "namespace", NAMED: "q", QUEUE: "q"})
    found = judged(work(template, own=names("label", says="other"), namespace_queue="n", owned=True))
    assert found == Membership("q", Source.ANNOTATION), (
        "and what its maker's own words became does not matter"
    )
    assert judged(work(names(), own=names("label"), owned=True)) == WORDS["label"][3]
    assert judged(work(names(), namespace_queue="n", owned=True)) == Membership("n", Source.NAMESPACE)


def test_what_was_written_down_is_no_name_of_a_queue() -> None:
    """`sluice.dev/queue` is the answer once it is stored, and not what a user may say."""
    forged = names(**{QUEUE: "q"})
    assert judged(work(forged, own=forged)) is None


@each_case(("word", "mark"), list(product(WORDS, ["workload", "podgroup", ""])))
def test_only_the_names_that_the_webhook_wrote_are_left_out(word: str, mark: str) -> None:
    given = names(word, a="b", **({FROM: mark} if mark else {}))
    kept = without_webhook_names(given)
    assert kept.labels == given.labels
    gone = {"workload": {NAMED}, "podgroup": {GROUP}}.get(mark, set())
    assert kept.annotations == {key: value for key, value in given.annotations.items() if key not in gone}


@EACH
def test_a_template_names_a_queue_by_any_key_but_kueues(word: str) -> None:
    """Of Kueue's label the webhook of pods need not know."""
    assert names_a_queue(names(word)) is (word != "kueue")
    assert not names_a_queue(names())
