"""Which namespaces may use a queue: the selectors of its chain, what is said to others, and the way out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.apimachinery.label_selectors import parse_selector
from queues.causes import Cause, CauseKind
from queues.messages import (
    remedy_command,
    stop_text,
    waiting_warning,
)
from queues.namespace_access import chain_restrictions, namespace_denial
from queues.namespace_selectors import NamespaceSelector, compile_selector
from queues.queue import Queue
from queues.snapshot import (
    QueueDecision,
    QueueSnapshot,
    decision_for_namespace,
)
from queues.status.changes import changes_between
from queues.tree import Tree
from tests.support.cases import each_case
from tests.support.rules.cases import (
    HOLD,
    HOSTILE,
    MODEST,
    NOW,
    SUSPENDED,
    plain,
    queue,
    random_forests,
    tree,
)

NAME = "kubernetes.io/metadata.name"
TEAM = {"matchLabels": {"team": "a"}}

Labels = Mapping[str, str]


def selecting(name: str, selector: Any, parent: str | None = "root", **wishes: Any) -> Queue:
    return queue(name, parent, namespace_selector=compile_selector(selector), **wishes)


def one_of(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def ruled(
    *queues: Queue, name: str = "q", namespace: str = "team", labels: Labels | None = None
) -> QueueDecision:
    decision = QueueSnapshot(tree(*queues), now=NOW).decision(name)
    return decision_for_namespace(decision, namespace=namespace, labels={} if labels is None else labels)


# What a selector selects


@each_case("nothing", [None, {}, {"matchLabels": {}}, {"matchExpressions": []}, {"x": 1}], ids=str)
def test_no_selector_and_an_empty_one_select_every_namespace(nothing: Any) -> None:
    """Unlike in Kueue, where an absent one selects none: a Queue of Volcano's says nothing of namespaces."""
    assert compile_selector(nothing) is None
    assert ruled(selecting("q", nothing)).selected


@each_case(
    ("selector", "labels", "selected"),
    [
        (TEAM, {"team": "a"}, True),
        (TEAM, {"team": "a", "x": "y"}, True),
        (TEAM, {"team": "b"}, False),
        (TEAM, {}, False),
        ({"matchLabels": {"team": "a", "tier": "x"}}, {"team": "a"}, False),
        (one_of("team", "In", "a", "b"), {"team": "b"}, True),
        (one_of("team", "In", "a", "b"), {"team": "c"}, False),
        (one_of("team", "In", "a", "b"), {}, False),
        (one_of("team", "NotIn", "a", "b"), {"team": "a"}, False),
        (one_of("team", "NotIn", "a", "b"), {"team": "c"}, True),
        (one_of("team", "NotIn", "a", "b"), {}, True),
        (one_of("team", "Exists"), {"team": ""}, True),
        (one_of("team", "Exists"), {}, False),
        (one_of("team", "DoesNotExist"), {"team": ""}, False),
        (one_of("team", "DoesNotExist"), {}, True),
        ({**TEAM, **one_of("frozen", "DoesNotExist")}, {"team": "a"}, True),
        ({**TEAM, **one_of("frozen", "DoesNotExist")}, {"team": "a", "frozen": ""}, False),
    ],
)
def test_each_operator_is_that_of_the_api_server(selector: Any, labels: Labels, *, selected: bool) -> None:
    """All requirements have to hold; a label that is not there is in no list."""
    assert ruled(selecting("q", selector), labels=labels).selected is selected


@each_case(
    "unreadable",
    [
        "team=a",
        3,
        ["team"],
        {"matchLabels": {"team": 3}},
        {"matchLabels": {"a b": "c"}},
        {"matchLabels": {"\ud800": "c"}},
        one_of("team", "Like", "a"),
        one_of("team", "In"),
        one_of("team", "Exists", "a"),
        {"matchLabels": {"sluice.dev/guard": "on"}},
        one_of("sluice.dev/guard", "DoesNotExist"),
    ],
    ids=repr,
)
def test_a_selector_that_cannot_be_read_selects_no_namespace(unreadable: Any) -> None:
    """Nobody guesses; nor may who uses a queue depend on labels that the server itself switches."""
    found = ruled(selecting("q", unreadable), labels={"team": "a"})
    assert not found.selected
    assert "cannot be read: " in found.text
    assert found.stop is not None
    assert stop_text(found.stop).endswith("change that with: kubectl edit queue q")
    assert plain(found.text)


KEYS, VALUES = ("team", "tier", NAME), ("a", "b", "")
REQUIREMENTS = st.one_of(
    st.tuples(
        st.sampled_from(KEYS), st.sampled_from(("In", "NotIn")), st.lists(st.sampled_from(VALUES), min_size=1)
    ),
    st.tuples(st.sampled_from(KEYS), st.sampled_from(("Exists", "DoesNotExist")), st.just([])),
).map(lambda one: {"key": one[0], "operator": one[1], "values": one[2]})
SELECTORS = st.fixed_dictionaries(
    {},
    optional={
        "matchLabels": st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES)),
        "matchExpressions": st.lists(REQUIREMENTS, max_size=3),
    },
)
LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))


@MODEST
@given(SELECTORS, LABELS)
def test_compiled_it_selects_what_it_selects_as_it_was_written(selector: Any, labels: Labels) -> None:
    """Against the selectors of drains, which are evaluated as they stand."""
    written = parse_selector(selector)
    assert written is not None
    found = compile_selector(selector)
    assert (found is None or found.selects(labels)) is written.selects(labels)


# The chain


@MODEST
@given(random_forests(), st.dictionaries(st.sampled_from("abcdef"), SELECTORS), LABELS)
def test_a_namespace_has_to_match_every_selector_of_the_chain(
    queues: Mapping[str, Queue], selectors: Mapping[str, Any], labels: Labels
) -> None:
    """Whatever the tree, cycles and missing parents included; and no more than that is asked."""
    forest = Tree({name: _with(one, selectors.get(name)) for name, one in queues.items()})
    snapshot = QueueSnapshot(forest, now=NOW)
    for name in forest:
        written = [parse_selector(selectors.get(above.name)) for above in forest.chain(name).queues]
        expected = all(one.selects(labels) for one in written if one is not None)
        found = decision_for_namespace(snapshot.decision(name), namespace="team", labels=labels)
        assert found.selected is expected
        assert found.selected or not (found.accepts or found.schedules)
        assert (name in snapshot.restricted_queues) is bool(snapshot.decision(name).restricted)


def _with(one: Queue, selector: Any) -> Queue:
    return Queue(
        name=one.name,
        uid=one.uid,
        parent=one.parent,
        desired=one.desired,
        namespace_selector=compile_selector(selector),
    )


def test_a_narrower_parent_narrows_its_children_and_no_child_widens_it() -> None:
    """The child says everybody or somebody else, the parent says who."""
    parent = selecting("p", TEAM)
    for child in (queue("q", "p"), selecting("q", one_of("tier", "Exists"), "p")):
        assert not ruled(parent, child, labels={"tier": "x"}).selected
        assert ruled(parent, child, labels={"tier": "x", "team": "a"}).selected
    assert ruled(parent, queue("other"), name="other").selected


def test_a_selector_of_root_is_for_every_queue() -> None:
    assert not ruled(selecting("root", TEAM, None), queue("q")).selected


def test_where_no_selector_is_nothing_is_restricted() -> None:
    """So that a request asks for nobody's labels, and gets the queue's own decision."""
    snapshot = QueueSnapshot(tree(queue("p"), queue("q", "p")), now=NOW)
    assert (snapshot.restricted_queues, snapshot.decision("q").restricted) == ((), ())
    assert decision_for_namespace(snapshot.decision("q"), namespace="team", labels=None) is snapshot.decision(
        "q"
    )


def test_a_queue_that_is_not_there_has_no_selector() -> None:
    """Its members wait for it, as they did before there were selectors."""
    assert ruled(name="absent").selected


def test_a_snapshot_that_follows_knows_whose_selector_changed() -> None:
    """Also for the queues below, and when it is taken away again."""
    before = QueueSnapshot(tree(queue("p"), queue("q", "p")), now=NOW)
    after = QueueSnapshot.updated(before, tree(selecting("p", TEAM), queue("q", "p")), changed=["p"], now=NOW)
    assert set(after.restricted_queues) == {"p", "q"}
    assert after.decision("q").restricted == chain_restrictions(after.tree.chain("q"))
    assert QueueSnapshot.updated(after, before.tree, changed=["p"], now=NOW).restricted_queues == ()


# Labels that are not known


@each_case(
    ("selector", "selected"),
    [
        (one_of(NAME, "In", "team"), True),
        (one_of(NAME, "In", "other"), False),
        (one_of(NAME, "NotIn", "other"), True),
        (TEAM, False),
        (one_of("team", "DoesNotExist"), False),
        ({**one_of(NAME, "In", "team"), **TEAM}, False),
    ],
)
def test_of_a_namespace_that_is_not_known_the_name_is(selector: Any, *, selected: bool) -> None:
    """Nothing is believed of other labels, that there are none neither."""
    snapshot = QueueSnapshot(tree(selecting("q", selector)), now=NOW)
    found = decision_for_namespace(snapshot.decision("q"), namespace="team", labels=None)
    assert found.selected is selected
    assert selected or plain(found.text)


# What is said


def test_the_denial_names_the_queue_the_namespace_what_is_missing_and_the_way_out() -> None:
    """In one constant text; a stop of the queue goes after it, for a resume would let nobody go."""
    found = ruled(selecting("p", one_of("team", "In", "a", "b")), queue("q", "p", desired=SUSPENDED))
    assert found.text == (
        'queue "q" is not for namespace "team": the namespaceSelector of its ancestor "p" asks for '
        "team in (a,b); use another queue, or have an admin of queues change that"
    )
    assert (found.stop, found.refusal) == (found.stop, found.stop)
    assert found.stop is not None
    assert (found.stop.kind, found.stop.by, found.stop.queue) == (CauseKind.NOT_SELECTED, "p", "q")
    again = ruled(selecting("p", one_of("team", "In", "a", "b")), queue("q", "p", desired=SUSPENDED))
    assert again == found


@each_case(
    ("selector", "labels", "way_out"),
    [
        (TEAM, {}, "kubectl label namespace team --overwrite team=a"),
        (TEAM, {"team": "b"}, "kubectl label namespace team --overwrite team=a"),
        (one_of("team", "Exists"), {}, "kubectl label namespace team team="),
        (one_of("team", "NotIn", "b"), {"team": "b"}, "kubectl label namespace team team-"),
        (one_of("team", "DoesNotExist"), {"team": "b"}, "kubectl label namespace team team-"),
        (one_of(NAME, "In", "lab"), {NAME: "team"}, "kubectl edit queue q"),
        (one_of(NAME, "NotIn", "team"), {NAME: "team"}, "kubectl edit queue q"),
    ],
)
def test_the_way_out_is_the_command_that_makes_it_match(selector: Any, labels: Labels, way_out: str) -> None:
    """A name cannot be changed: then it is the selector that would have to be."""
    found = ruled(selecting("q", selector), labels=labels)
    assert found.stop is not None
    assert remedy_command(found.stop) == way_out
    assert stop_text(found.stop).endswith(f"use another queue, or change that with: {way_out}")


def test_the_nearest_queue_that_does_not_select_it_is_named() -> None:
    found = ruled(selecting("p", TEAM), selecting("q", one_of("tier", "Exists"), "p"))
    assert found.stop is not None
    assert found.stop.by == "q"
    found = ruled(selecting("p", TEAM), selecting("q", one_of("tier", "Exists"), "p"), labels={"tier": ""})
    assert found.stop is not None
    assert found.stop.by == "p"


@pytest.mark.parametrize("length", [1, 8, 63])
def test_texts_are_short_however_long_names_and_selectors_are(length: int) -> None:
    """Repeated for each node, kept on each pod, and a warning that clients do not cut."""
    many = one_of("k" * length, "In", *("v" * 57 + f"{n:03}" for n in range(256)))
    found = ruled(selecting("q" * length, many), name="q" * length, namespace="n" * length)
    assert plain(found.text)
    assert len(found.text) < 700
    assert len(found.warning) < 120
    assert 'queue "q' in found.warning


@each_case("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_whatever_is_stored_as_a_selector_is_shown_on_a_line(text: str) -> None:
    for selector in (text, {"matchLabels": {text: text}}, one_of("team", "In", text), one_of(text, text)):
        found = ruled(selecting("q", selector))
        assert plain(found.text + found.warning)
        assert len(found.text) < 700


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@MODEST
@given(JSON | st.fixed_dictionaries({}, optional={"matchLabels": JSON, "matchExpressions": JSON}))
def test_no_value_makes_the_check_fail(value: Any) -> None:
    """It is read, or it selects nobody."""
    found = compile_selector(value)
    assert found is None or isinstance(found, NamespaceSelector)
    assert found is None or plain(found.text + found.unreadable)


# What does not change by it


def test_a_stop_is_named_first_where_the_namespace_is_selected() -> None:
    found = ruled(selecting("q", TEAM, stop_policy=HOLD), labels={"team": "a"})
    assert found.stop is not None
    assert found.stop.kind is CauseKind.STOPPED
    assert found.accepts


def test_the_revision_of_what_is_not_selected_differs_with_what_is_missing() -> None:
    """So that a workload is told anew when something else keeps it waiting."""
    selector = {"matchLabels": {"team": "a", "tier": "x"}}
    revisions = {
        ruled(selecting("q", selector), labels=labels).revision
        for labels in ({}, {"team": "a"}, {"team": "a", "tier": "x"})
    }
    assert len(revisions) == 3


def test_the_history_names_the_author_of_a_selector() -> None:
    """As it is shown, cut; one line each for setting and for taking it away."""
    [told] = changes_between(queue("q"), selecting("q", TEAM), by="ann", reason="", at=NOW)
    assert (told.field, told.from_, told.to) == ("namespaceSelector", "", "team=a")
    [told] = changes_between(selecting("q", TEAM), queue("q"), by="ann", reason="", at=NOW)
    assert (told.field, told.from_, told.to) == ("namespaceSelector", "team=a", "")
    long = one_of("team", "In", *(f"v{n}" for n in range(256)))
    [told] = changes_between(queue("q"), selecting("q", long), by="ann", reason="", at=NOW)
    assert len(told.to) <= 120


def test_a_denial_names_no_cause_where_the_namespace_may() -> None:
    restricted = chain_restrictions(tree(selecting("q", TEAM)).chain("q"))
    assert namespace_denial("q", restricted, namespace="team", labels={"team": "a"}) is None
    cause = namespace_denial("q", restricted, namespace="team", labels={})
    assert isinstance(cause, Cause)
    assert stop_text(cause).startswith('queue "q" ')  # what the controller knows our refusals by
    assert waiting_warning(cause)
