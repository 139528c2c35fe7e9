"""*Faster or slower* has ten lines, and each figure of it is one of the measured page."""

from __future__ import annotations

import re

from tests.docs.test_pages import anchors
from tests.support.docs.pages import read, section_of, text_of
from tests.support.paths import ROOT

MEASURED = ROOT / "benchmarks" / "RESULTS.md"
PAGE = text_of("operating/faster-or-slower.md")
#: A link to a section of the measured page, and what follows it up to the next link or the end of the line.
LINKED = re.compile(r"\[[^]]*\]\(\.\./\.\./benchmarks/RESULTS\.md#([\w-]+)\)")
FIGURE = re.compile(r"\b\d+\.\d+(?: s| ms)?\b")


def section_at(anchor: str) -> str:
    assert anchor in anchors(MEASURED)
    titles = re.findall(r"^## (.+)$", MEASURED.read_text(), re.MULTILINE)
    [title] = [each for each in titles if re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") == anchor]
    return section_of(MEASURED.read_text(), title)


def test_it_has_ten_lines_each_with_figures_of_its_section() -> None:
    rows = read(PAGE)[0]
    assert len(rows) == 10
    for row in rows:
        [anchor] = LINKED.findall(row[0])
        measured = section_at(anchor)
        figures = FIGURE.findall(" ".join(row[2:]))
        assert [each for each in figures if each not in measured] == [], row


def test_the_times_of_a_stop_are_measured() -> None:
    times = {"25.4 ms": "suspending-a-queue", "55.3 ms": "stops-and-freed-room-during-churn"}
    for time, anchor in times.items():
        assert time in PAGE
        assert time in section_at(anchor)
