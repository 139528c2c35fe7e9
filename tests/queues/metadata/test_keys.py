"""The table of labels and annotations of Volcano and Kueue: whole, and as the page shows it."""

from __future__ import annotations

import re

import pytest

from queues.metadata.keys import KEYS, Form, KeyEffect, MetadataKey, Place
from tests.support.docs.pages import text_of
from tests.support.go_modules import go_module

PAGE = text_of("reference/keys-of-others.md")
#: Of the modules' constants: no keys, but prefixes, values and resources.
NO_KEYS = {"volcano.sh/", "volcano.sh/gpu-memory", "volcano.sh/gpu-number"}
#: By module.
FILES = {
    "volcano.sh/apis": ("pkg/apis/scheduling/v1beta1/labels.go", "pkg/apis/batch/v1alpha1/labels.go"),
    "volcano.sh/volcano": ("pkg/scheduler/api/well_known_labels.go",),
}
CONSTANT = re.compile(r'= (GroupName \+ )?"(/?[a-z0-9.]*/[\w-]+)"')


def cells(row: MetadataKey) -> list[str]:
    """A row as the page shows it."""
    where = [
        f"{form} of {', '.join(place for place in Place if place in row.places[form])}"
        for form in Form
        if form in row.places
    ]
    return [f"`{row.name}`", row.does, "; ".join(where) or row.effect.value, row.instead]


def table() -> str:
    rows = [["key", "what it says", "here", "instead"], ["---"] * 4]
    rows += [cells(row) for row in KEYS.values()]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows).replace("|  |", "| |")


def test_the_page_has_each_row() -> None:
    """To write it anew: print `table()`."""
    assert table() in PAGE


def test_each_row_that_acts_says_where_and_no_other_does() -> None:
    assert [row.name for row in KEYS.values() if (row.effect is KeyEffect.ACTS) != bool(row.places)] == []


def test_each_advice_fits_into_a_warning() -> None:
    assert [row.name for row in KEYS.values() if len(row.instead) > 60] == []


@pytest.mark.parametrize("module", FILES)
def test_each_constant_of_volcanos_modules_has_its_row(module: str) -> None:
    folder = go_module(module)
    found = {
        f"scheduling.volcano.sh{name}" if prefix else name
        for file in FILES[module]
        for prefix, name in CONSTANT.findall((folder / file).read_text())
    }
    assert len(found) > 10
    assert found - NO_KEYS - KEYS.keys() == set()
