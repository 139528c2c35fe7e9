"""The page about the plugin says what the code does."""

from __future__ import annotations

import re

import kubectl_queue
from kubectl_queue.cli.flags import parse
from kubectl_queue.commands import verbs
from kubectl_queue.commands.verbs import load
from kubectl_queue.drain import spec_flags as settings
from queues.why import explain as why
from queues.why.explanation import Fate
from tests.support.paths import ROOT
from tests.support.plugin.harness import NOW

PAGE = (ROOT / "docs" / "reference" / "plugin.md").read_text()


def rows(section: str, *, head: str = "") -> list[list[str]]:
    """The cells of a section's first table, or of the one whose first heading is `head`, without its head."""
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    tables = [part.splitlines() for part in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)]
    lines = next(table for table in tables if table[0].startswith(f"| {head}"))
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_each_verb_has_its_row() -> None:
    """In the order and the words of the help."""
    assert rows("Verbs") == [[name, row.short] for name, row in verbs.TABLE.items()]


def test_each_verb_is_in_the_package_s_table_of_files() -> None:
    """With its own module, but for those whose module has their name."""
    table = {}
    for line in str(kubectl_queue.__doc__).splitlines():
        if line.startswith("| ") and not line.startswith("|  "):
            names, files = line.strip("|").split("|")
            table.update({name.strip(): files for name in names.split(",")})
    missing = [
        name
        for name, row in verbs.TABLE.items()
        if row.module != name and f"`commands.{row.module}`" not in table.get(name, "")
    ]
    assert (missing, verbs.TABLE.keys() - table.keys()) == ([], set())


def test_each_setting_of_a_drain_has_its_row() -> None:
    """With the field that it sets, in the order of the help."""
    documented = [(flag.strip("-"), what.partition("`")[0]) for flag, what, _ in rows("drain", head="flag")]
    assert documented == [(flag.name, field) for field, flag in settings.FLAGS]


def test_what_takes_a_setting_of_a_drain_back_is_what_the_page_says() -> None:
    for flag, _, back in rows("drain", head="flag"):
        words = ["research", *back.split()]
        given = parse(words, load("drain").flags, command="kubectl queue drain")
        fields = settings.drain_fields(given, now=NOW, command="kubectl queue drain")
        assert back.startswith(flag)
        assert set(fields.values()) <= {None, "Evict", "Keep"}, flag


def test_each_outcome_has_its_row_on_the_page_and_in_the_code() -> None:
    """In the order in which they are decided."""
    documented = [row[0] for row in rows("why")]
    assert set(documented) == {outcome.value for outcome in Fate}
    assert why.__doc__ is not None
    places = [why.__doc__.index(f"\n{outcome} ") for outcome in documented]
    assert places == sorted(places)
