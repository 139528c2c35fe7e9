"""What the page *Move from Volcano* has in place of Volcano's metrics."""

from __future__ import annotations

import re

import yaml

from tests.support.docs.pages import tables_of, text_of

PAGE = text_of("operating/move-from-volcano.md")
#: Volcano's names, and what stands for them.
METRIC_ROWS = tables_of(PAGE, "Metrics and boards")[0]


def expressions() -> list[str]:
    """All PromQL of the table: what is code there and reads a series."""
    cells = [here if "`" in here else f"`{here}`" for _, here in METRIC_ROWS]
    return [
        code
        for cell in cells
        for code in re.findall(r"`([^`]*)`", cell)
        if re.search(r"\b(sluice|scheduler)_\w+[{\[ /)]", code)
    ]


def recording_rules() -> list[dict[str, str]]:
    """Those that keep the old names."""
    rules: list[dict[str, str]] = yaml.safe_load(recording_groups())["groups"][0]["rules"]
    return rules


def recording_groups() -> str:
    """The file with them, as Prometheus takes it."""
    [text] = re.findall(r"```yaml\n(groups:.*?)```", PAGE, re.DOTALL)
    return str(text)
