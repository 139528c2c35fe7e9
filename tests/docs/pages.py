"""The tables of the documentation's pages, as cells."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"

Row = list[str]


def read(text: str) -> list[list[Row]]:
    """The tables of a text, each without its head."""
    found = re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE)
    return [[cells(line) for line in table.splitlines()[2:]] for table in found]


def cells(line: str) -> Row:
    """A cell that is all code is its text; ticks in the middle of words stay."""
    return [_bare(cell.strip()) for cell in line.strip("|").split("|")]


def _bare(cell: str) -> str:
    return cell[1:-1] if cell.startswith("`") and cell.find("`", 1) == len(cell) - 1 else cell


def tables_of(page: str, section: str) -> list[list[Row]]:
    """The tables of one section of a page."""
    return read(page.split(f"\n## {section}\n")[1].split("\n## ", maxsplit=1)[0])


def yes(flag: bool) -> str:
    return "yes" if flag else "no"
