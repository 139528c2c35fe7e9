"""Under each condition the merged tree is the build that was given for it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from release.chart.variants import (
    ABSENT,
    Branch,
    Choice,
    Fields,
    HelmExpression,
    Items,
    Optional,
    TemplateNode,
    edit,
    merge,
)
from tests.support.cases import each_case


def holds(condition: str, true: frozenset[str]) -> bool:
    """Whether a condition of the words `a` and `b` holds: `not (or a b)`, `and a b`, `a`."""
    words = condition.replace("(", " ( ").replace(")", " ) ").split()

    def term() -> bool:
        word = words.pop(0)
        if word == "(":
            value = expression()
            words.pop(0)
            return value
        return word in true

    def expression() -> bool:
        word = words[0]
        if word not in ("not", "or", "and"):
            return term()
        words.pop(0)
        values = []
        while words and words[0] != ")":
            values.append(term())
        return not values[0] if word == "not" else any(values) if word == "or" else all(values)

    return expression()


def chosen(choice: Choice, true: frozenset[str]) -> Any:
    """What a template gives where these words are true; ABSENT where it gives nothing."""
    for branch in choice:
        if not branch.condition or holds(branch.condition, true):
            return value_of(branch.node, true)
    return ABSENT


def value_of(node: TemplateNode, true: frozenset[str]) -> Any:
    if isinstance(node, Fields):
        fields = {field.key: chosen(field.choice, true) for field in node.fields}
        return {key: value for key, value in fields.items() if value is not ABSENT}
    if isinstance(node, Items):
        items = [chosen(item, true) for item in node.items]
        return [item for item in items if item is not ABSENT]
    return node


SCALARS = st.sampled_from(["x", "y", "--flag", "z"])
NAMED = st.fixed_dictionaries({"name": SCALARS}, optional={"value": SCALARS, "items": st.lists(SCALARS)})
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner | NAMED, max_size=4) | st.dictionaries(SCALARS, inner, max_size=3),
    max_leaves=8,
)


@given(TREES, TREES, TREES)
def test_each_build_comes_back_under_its_condition(default: Any, first: Any, second: Any) -> None:
    tree = merge(default, [("a", first), ("b", second)])
    assert chosen(tree, frozenset()) == default
    assert chosen(tree, frozenset("a")) == first
    assert chosen(tree, frozenset("b")) == second


@given(TREES)
def test_builds_that_agree_have_no_condition(tree: Any) -> None:
    assert [branch.condition for branch in merge(tree, [("a", tree), ("b", tree)])] == [""]


def test_two_additions_to_one_object_are_both_there_when_both_conditions_hold() -> None:
    default = {"args": ["serve", "--port", "1"], "volumes": [{"name": "tmp"}]}
    first = {"args": ["serve", "--port", "1", "--first"], "volumes": [{"name": "tmp"}, {"name": "new"}]}
    second = {"args": ["serve", "--port", "2"], "volumes": [{"name": "tmp", "size": 1}]}
    tree = merge(default, [("a", first), ("b", second)])
    assert chosen(tree, frozenset("ab")) == {
        "args": ["serve", "--port", "2", "--first"],
        "volumes": [{"name": "tmp", "size": 1}, {"name": "new"}],
    }


def test_an_object_that_a_condition_removes_is_not_there_under_it() -> None:
    [branch] = merge("x", [("a", ABSENT), ("b", "x")])
    assert branch == Branch("not a", "x")


def test_what_a_value_may_add_is_there_only_where_the_value_is_not_empty() -> None:
    tree = merge(
        {"type": "x", "ip": Optional(".Values.ip", HelmExpression(".Values.ip"))}, [("a", {"type": "y"})]
    )
    [branch] = tree
    assert isinstance(branch.node, Fields)
    assert [field.choice for field in branch.node.fields] == [
        (Branch("a", "y"), Branch("", "x")),
        (Branch("and (not a) .Values.ip", HelmExpression(".Values.ip")),),
    ]


@each_case(
    ("path", "changed"),
    [
        (("args", "--port"), {"args": ["--port", "new", {"name": "x"}]}),
        (("args", "x"), {"args": ["--port", "1", "new"]}),
        (("args", "x", "deep"), {"args": ["--port", "1", {"name": "x", "deep": "new"}]}),
        (("more", "deep"), {"args": ["--port", "1", {"name": "x"}], "more": {"deep": "new"}}),
        (("args", "--host"), {"args": ["--port", "1", {"name": "x"}]}),
    ],
)
def test_a_place_is_found_by_keys_names_and_flags(path: tuple[str, ...], changed: Any) -> None:
    assert edit({"args": ["--port", "1", {"name": "x"}]}, lambda _: "new", path) == changed


def test_a_place_that_is_not_there_may_stay_away() -> None:
    assert edit({"a": 1}, lambda old: old, ("b", "c")) == {"a": 1}
