"""docs/operating/helm.md: the table of the chart's values is that of the code."""

from __future__ import annotations

import re
import tomllib

from release.chart.values import VALUES
from tests.support.docs.pages import DOCS, text_of
from tests.support.paths import ROOT

PAGE = text_of("operating/helm.md")


def test_each_value_of_the_chart_has_its_row() -> None:
    rows = re.findall(r"^\| (`.+?) \|", PAGE, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([\w.]+)`", row)}
    assert named == {value.name for value in VALUES} | {"settings"}


def test_commands_install_the_chart_where_make_chart_writes_it() -> None:
    """In a checkout, by the version of the project."""
    named = {
        path
        for page in sorted(DOCS.rglob("*.md"))
        for path in re.findall(r"\bhelm (?:install|upgrade) sluice (\S+)", page.read_text())
    }
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert named == {f"dist/sluice-{version}.tgz"}
