"""docs/operating/security.md: each field that is read has its line, and each test that it names exists."""

from __future__ import annotations

import re
from functools import cache

import msgspec

from cluster import objects
from queues import well_known
from queues.world import objects as world_objects
from tests.support.docs.pages import (
    DOCS,
    Row,
    read,
)

TESTS = DOCS.parent / "tests"
PAGE = (DOCS / "operating" / "security.md").read_text()
#: The lines that say what is read, what it could do, what stops it and which test shows that.
ROWS = [row for table in read(PAGE) for row in table if len(row) == 4]


def fields() -> set[str]:
    """Each field of each struct by which an object is read."""
    structs = (
        one for one in vars(objects).values() if isinstance(one, type) and issubclass(one, msgspec.Struct)
    )
    modules = {objects.__name__, world_objects.__name__}
    own = (one for one in structs if one.__module__ in modules)
    return {f"{one.__name__}.{field}" for one in own for field in one.__struct_fields__}


def named(row: Row) -> set[str]:
    return set(re.findall(r"\b[A-Z][A-Za-z]+\.[a-z_]+\b", row[0]))


def cited(row: Row) -> list[str]:
    return re.findall(r"[\w/]+\.py::\w+", row[3])


@cache
def functions_of(file: str) -> frozenset[str]:
    text = (TESTS / file).read_text() if (TESTS / file).exists() else ""
    return frozenset(re.findall(r"^ *def (\w+)\(", text, re.MULTILINE))


def test_every_field_that_is_read_has_its_line() -> None:
    assert fields() - set().union(*map(named, ROWS)) == set()


def test_no_line_is_of_a_field_that_is_not_read() -> None:
    assert set().union(*map(named, ROWS)) - fields() == set()


def test_each_line_names_a_test_that_is_there() -> None:
    assert [row[0] for row in ROWS if not cited(row)] == []
    named = {tuple(one.split("::")) for row in ROWS for one in cited(row)}
    assert {(file, test) for file, test in named if test not in functions_of(file)} == set()


def test_every_name_of_ours_that_stands_on_objects_has_its_line() -> None:
    ours = {
        value
        for value in vars(well_known).values()
        if isinstance(value, str) and value.startswith("sluice.dev/")
    }
    assert {one for one in ours if one not in PAGE} == set()


def test_the_page_is_in_the_map_of_the_documentation() -> None:
    readme = (DOCS.parent / "README.md").read_text()
    assert "docs/operating/security.md" in readme
