"""docs/operating/helm.md: the table of the chart's values is that of the code."""

from __future__ import annotations

import re

from release.chart.values import VALUES
from tests.support.docs.pages import text_of

PAGE = text_of("operating/helm.md")


def test_each_value_of_the_chart_has_its_row() -> None:
    rows = re.findall(r"^\| (`.+?) \|", PAGE, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([\w.]+)`", row)}
    assert named == {value.name for value in VALUES} | {"settings"}
