"""docs/operating.md: the table of the chart's values is that of the code."""

from __future__ import annotations

import re

from release.chart.values import VALUES
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "operating.md").read_text()


def test_each_value_of_the_chart_has_its_row() -> None:
    section = PAGE.split("\n## With Helm\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.+?) \|", section, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([\w.]+)`", row)}
    assert named == {value.name for value in VALUES} | {"settings"}
