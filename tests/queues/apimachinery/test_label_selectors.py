"""Label selectors, against what the documentation of Kubernetes says of them and what its code refuses."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.apimachinery.label_selectors import (
    BadSelector,
    Operator,
    Requirement,
    Selector,
    parse_selector,
)
from tests.support.cases import each_case
from tests.support.rules.cases import (
    HOSTILE,
    MODEST,
    plain,
)

WEB = {"app": "web", "tier": "front"}


def expression(operator: str, *values: str, key: str = "tier") -> dict[str, Any]:
    found: dict[str, Any] = {"key": key, "operator": operator}
    return found | ({"values": list(values)} if values else {})


def read(*expressions: dict[str, Any], **labels: str) -> Selector:
    found = parse_selector({"matchLabels": labels, "matchExpressions": list(expressions)})
    assert found is not None
    return found


def test_no_selector_is_none() -> None:
    """null is no selector, which selects nothing: whoever asks has to see to that."""
    assert parse_selector(None) is None


@pytest.mark.parametrize(
    "empty",
    [{}, {"matchLabels": {}}, {"matchExpressions": []}, {"matchLabels": None, "matchExpressions": None}],
)
def test_an_empty_selector_selects_everything(empty: dict[str, Any]) -> None:
    """A pod without labels too."""
    found = parse_selector(empty)
    assert found is not None
    assert found.selects({})
    assert found.selects(WEB)
    assert str(found) == ""


@each_case(
    ("one", "labels", "selects"),
    [
        (expression("In", "front", "back"), {"tier": "front"}, True),
        (expression("In", "front", "back"), {"tier": "back"}, True),
        (expression("In", "front", "back"), {"tier": "cache"}, False),
        (expression("In", "front"), {}, False),
        (expression("In", ""), {"tier": ""}, True),
        (expression("In", ""), {}, False),
        (expression("NotIn", "front", "back"), {"tier": "cache"}, True),
        (expression("NotIn", "front", "back"), {"tier": "front"}, False),
        (expression("NotIn", "front", "back"), {}, True),
        (expression("NotIn", ""), {}, True),
        (expression("Exists"), {"tier": "any"}, True),
        (expression("Exists"), {"tier": ""}, True),
        (expression("Exists"), {"tiers": "any"}, False),
        (expression("DoesNotExist"), {}, True),
        (expression("DoesNotExist"), {"tier": ""}, False),
    ],
)
def test_each_operator_means_what_kubernetes_says(
    one: dict[str, Any], labels: dict[str, str], selects: bool
) -> None:
    """A label that is not there is in no list, so that NotIn selects it; an empty value is a value."""
    assert read(one).selects(labels) is selects


def test_labels_match_by_their_whole_value() -> None:
    """Neither a part of it nor another label will do."""
    found = read(app="web")
    assert found.selects(WEB)
    assert not found.selects({"app": "webs"})
    assert not found.selects({"apps": "web"})
    assert not found.selects({})


def test_a_label_that_has_to_be_empty_has_to_be_there() -> None:
    """Absent is not empty."""
    assert read(app="").selects({"app": ""})
    assert not read(app="").selects({})


@pytest.mark.parametrize("but", [{"app": "db"}, {"tier": "back"}, {"old": "yes"}])
def test_everything_asked_for_has_to_hold(but: dict[str, str]) -> None:
    """Labels and expressions together; one that does not hold is enough."""
    found = read(expression("In", "front"), expression("DoesNotExist", key="old"), app="web")
    assert found.selects(WEB)
    assert not found.selects(WEB | but)


def test_it_knows_the_labels_that_decide() -> None:
    """No other label of a pod changes the answer."""
    assert read(expression("In", "front"), expression("DoesNotExist", key="old"), app="web").keys == {
        "app",
        "tier",
        "old",
    }


def test_it_is_written_as_a_request_asks_for_it() -> None:
    """The form of `labelSelector=` and of `kubectl get -l`."""
    found = read(
        expression("In", "front", "back"),
        expression("NotIn", "old", key="state"),
        expression("Exists", key="example.com/owner"),
        expression("DoesNotExist", key="canary"),
        app="web",
    )
    assert str(found) == "app=web,tier in (front,back),state notin (old),example.com/owner,!canary"


@each_case(
    ("wrong", "says"),
    [
        ("app=web", "Expected `object"),
        ([], "Expected `object"),
        ({"matchLabels": {"app": 1}}, "Expected `str`"),
        ({"matchLabels": {"app": None}}, "Expected `str`"),
        ({"matchLabels": ["app"]}, "Expected `object"),
        ({"matchLabels": {"the app": "web"}}, '"the app" is not the key of a label'),
        ({"matchLabels": {"": "web"}}, "is not the key of a label"),
        ({"matchLabels": {"example.com/": "web"}}, "is not the key of a label"),
        ({"matchLabels": {"Example.com/app": "web"}}, "is not the key of a label"),
        ({"matchLabels": {"a" * 64: "web"}}, "is not the key of a label"),
        ({"matchLabels": {"app": "two words"}}, '"two words" is not the value of a label'),
        ({"matchLabels": {"app": "-web"}}, "is not the value of a label"),
        ({"matchLabels": {"app": "a" * 64}}, "is not the value of a label"),
        ({"matchExpressions": {"key": "tier"}}, "Expected `array"),
        ({"matchExpressions": [{"key": "tier"}]}, "missing required field `operator`"),
        ({"matchExpressions": [{"operator": "Exists"}]}, "missing required field `key`"),
        ({"matchExpressions": [expression("in", "front")]}, "Invalid enum value 'in'"),
        ({"matchExpressions": [expression("Gt", "3")]}, "Invalid enum value 'Gt'"),
        ({"matchExpressions": [expression("In")]}, "In takes one value or more"),
        ({"matchExpressions": [expression("NotIn")]}, "NotIn takes one value or more"),
        ({"matchExpressions": [expression("Exists", "front")]}, "Exists takes no values"),
        ({"matchExpressions": [expression("DoesNotExist", "front")]}, "DoesNotExist takes no values"),
        ({"matchExpressions": [expression("Exists", key="a b")]}, '"a b" is not the key of a label'),
        ({"matchExpressions": [expression("In", "a b")]}, '"a b" is not the value of a label'),
    ],
)
def test_what_is_no_selector_is_refused(wrong: Any, says: str) -> None:
    """In words, and never read as some other selector: a typing error keeps nobody, and evicts nobody."""
    with pytest.raises(BadSelector) as refused:
        parse_selector(wrong)
    assert says in str(refused.value)


@each_case("text", HOSTILE.values(), ids=HOSTILE)
@each_case(
    "wrong",
    [
        lambda text: {"matchLabels": {text: "web"}},
        lambda text: {"matchLabels": {"app": text}},
        lambda text: {"matchExpressions": [expression("In", text)]},
    ],
    ids=["key", "value", "operand"],
)
def test_a_hostile_selector_is_refused_on_one_short_line(wrong: Any, text: str) -> None:
    """Whatever it holds, what is said of it can be shown."""
    with pytest.raises(BadSelector) as refused:
        parse_selector(wrong(text))
    assert plain(str(refused.value))
    assert len(str(refused.value)) < 400


labels = st.dictionaries(st.sampled_from("abc"), st.sampled_from(("", "x", "y")), max_size=3)
values = st.lists(st.sampled_from(("", "x", "y")), min_size=1, max_size=2)


@MODEST
@given(labels, st.sampled_from("abc"), values)
def test_each_operator_has_its_opposite(held: dict[str, str], key: str, operands: list[str]) -> None:
    """NotIn holds just where In does not, DoesNotExist just where Exists does not."""
    has = {operator: Requirement(key, operator, operands).matches(held) for operator in Operator}
    assert has[Operator.IN] is not has[Operator.NOT_IN]
    assert has[Operator.EXISTS] is not has[Operator.DOES_NOT_EXIST]
    assert has[Operator.EXISTS] or not has[Operator.IN]


@MODEST
@given(labels, labels)
def test_labels_are_expressions_of_one_value(wanted: dict[str, str], held: dict[str, str]) -> None:
    """`matchLabels` says what In with that one value says."""
    spelled = read(*(expression("In", value, key=key) for key, value in wanted.items()))
    assert read(**wanted).selects(held) is spelled.selects(held)
