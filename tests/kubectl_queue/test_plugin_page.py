"""The page about the plugin says what the code does."""

from __future__ import annotations

from kubectl_queue.commands import table as verbs
from kubectl_queue.drain import flags as settings
from queues.why import explain as why
from queues.why.explanation import Fate
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "plugin.md").read_text()


def rows(section: str) -> list[list[str]]:
    """The cells of a section's table, without its head."""
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_each_verb_has_its_row() -> None:
    """In the order and the words of the help."""
    assert rows("Verbs") == [[name, row.short] for name, row in verbs.TABLE.items()]


def test_each_setting_of_a_drain_has_its_row() -> None:
    """With the field that it sets, in the order of the help."""
    told = [(flag.strip("-"), what.partition("`")[0]) for flag, what in rows("drain")]
    assert told == [(flag.name, field) for field, flag in settings.FLAGS.items()]


def test_each_fate_has_its_row_on_the_page_and_in_the_code() -> None:
    """In the order in which they are decided."""
    told = [row[0] for row in rows("why")]
    assert set(told) == {fate.value for fate in Fate}
    assert why.__doc__ is not None
    places = [why.__doc__.index(f"\n{fate} ") for fate in told]
    assert places == sorted(places)
