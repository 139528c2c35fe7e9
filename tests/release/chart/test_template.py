"""A tree as the text of a Helm template: strings stay strings."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from release.chart.template import document, scalar
from release.chart.variants import ABSENT, Block, HelmExpression, Optional, merge
from tests.support import yaml_texts
from tests.support.cases import each_case

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")))
KEYS = st.text("abyn01e.- ", min_size=1)
TREES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc"))),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("abyn01e.- ", min_size=1), inner, max_size=4)
    ),
    max_leaves=12,
).filter(lambda tree: "{{" not in str(tree) and "}}" not in str(tree))


@given(TREES)
def test_a_tree_without_conditions_is_read_back_as_it_was(tree: Any) -> None:
    assert yaml_texts.load(document(merge(tree, []), tokens={})) == tree


@each_case("text", ["1e3", "on", "0x1", "1_000", "", " x", "x: y", "2026-01-01", "#", "~", "null", "-"])
def test_what_yaml_takes_for_something_else_is_quoted(text: str) -> None:
    """Also what only YAML 1.1, or only Go's YAML, takes so."""
    assert scalar(text).startswith('"')


def test_braces_in_a_manifest_are_printed_and_not_read_by_helm() -> None:
    assert document(merge({"a": "{{ $x }} of space"}, []), tokens={"space": "{{ .Values.space }}"}) == (
        'a: "{{ `{{` }} $x {{ `}}` }} of {{ .Values.space }}"\n'
    )


def test_conditions_and_values_stand_where_they_count() -> None:
    default = {
        "args": ["x"],
        "ip": Optional(".Values.ip", HelmExpression(".Values.ip")),
        "map": Block("toYaml .Values.m"),
    }
    other = {**default, "args": ["x", "z"], "name": "space"}
    assert document(merge(default, [(".Values.on", other)]), tokens={"space": "{{ .Values.space }}"}) == (
        "args:\n"
        "- x\n"
        "{{- if .Values.on }}\n"
        "- z\n"
        "{{- end }}\n"
        "{{- if .Values.ip }}\n"
        "ip: {{ .Values.ip }}\n"
        "{{- end }}\n"
        "map:\n"
        "{{- toYaml .Values.m | nindent 2 }}\n"
        "{{- if .Values.on }}\n"
        'name: "{{ .Values.space }}"\n'
        "{{- end }}\n"
    )


def test_an_object_of_one_condition_alone_is_wrapped_as_a_whole() -> None:
    tree = merge(ABSENT, [("a", {"k": 1}), ("b", {"k": 1})])
    assert document(tree, tokens={}) == "{{- if or a b }}\nk: 1\n{{- end }}\n"
