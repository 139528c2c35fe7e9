"""The tables of the documentation's pages, as cells."""

from __future__ import annotations

import re

from tests.support.paths import ROOT

DOCS = ROOT / "docs"

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


def text_of(*names: str) -> str:
    """These pages one after another, by their paths below `docs/`."""
    return "\n".join((DOCS / name).read_text() for name in names)


def words_of(text: str) -> str:
    """The same on one line, for phrases: a paragraph may be wrapped anywhere."""
    return " ".join(text.split())


def section_of(text: str, title: str) -> str:
    """What is below this heading of the first or second level, up to the next of either."""
    _, _, rest = f"\n{text}".partition(f"\n## {title}\n")
    if not rest:
        _, found, rest = f"\n{text}".partition(f"\n# {title}\n")
        assert found, f"no heading {title}"
    return re.split(r"^##? ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def tables_of(text: str, title: str) -> list[list[Row]]:
    """The tables of one section."""
    return read(section_of(text, title))


def yes(flag: bool) -> str:
    return "yes" if flag else "no"


def ruled(docstring: str | None) -> list[list[Row]]:
    """The tables of a docstring, each without its head; a row goes on in lines without a first cell."""
    lines = (docstring or "").splitlines()
    rules = [number for number, line in enumerate(lines) if re.fullmatch(r"=+( +=+)+", line)]
    found = []
    for first, head, last in zip(rules[::3], rules[1::3], rules[2::3], strict=True):
        starts = [match.start() for match in re.finditer("=+", lines[first])]
        table: list[Row] = []
        for line in lines[head + 1 : last]:
            row = [line[start:end].strip() for start, end in zip(starts, [*starts[1:], None], strict=True)]
            if row[0]:
                table.append(row)
            else:
                table[-1] = [f"{above} {here}".strip() for above, here in zip(table[-1], row, strict=True)]
        found.append(table)
    return found
