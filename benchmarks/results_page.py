"""RESULTS.md: one section a row that has ever been measured here, from what is kept of each. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from benchmarks.figures import Line, RowResult
from benchmarks.settled_rows import SETTLED

HEAD = """# Measured beside the scheduler alone

Ours and the thing beside it run in turns on the same machine; a ratio is ours by the other's, the median
of the pairs (least to greatest). Figures in units are medians too, and depend on the machine: keep the
ratios. The control plane is the local one (`make up`), on the same cores as the server and whoever asks.
All rows but the longest: `make bench`; under churn: `make soak`; how they are made:
[Benchmarks](../docs/contributing/benchmarks.md).
"""


def render(found: Mapping[str, RowResult], *, reasons: Mapping[str, str]) -> str:
    """The page. `reasons`: by row, why it does not reach what it does not."""
    sections = (section(name, each) for name, each in found.items())
    return "\n".join([HEAD, *_summary(found, reasons), *sections])


def section(name: str, found: RowResult) -> str:
    """What the page says of one row."""
    parts = [f"## {found.title}", "", found.about]
    parts += ["", *_table(found.lines)] if found.lines else []
    for curve in found.curves:
        parts += ["", f"![{curve.title}](results/{curve.name}.svg)"]
    parts += ["", *(f"- {note}" for note in found.notes)] if found.notes else []
    return "\n".join([*parts, "", _again(name), ""])


def _again(name: str) -> str:
    if name in SETTLED:
        return f"Settled, and not measured again: {SETTLED[name]}."
    return f"Again: `{'make soak' if name == 'soak' else f'make bench ROW={name}'}`."


def missed(found: RowResult) -> list[Line]:
    """Whose goals are not reached."""
    return [line for line in found.lines if line.reached is False]


def _summary(found: Mapping[str, RowResult], reasons: Mapping[str, str]) -> Iterator[str]:
    reached = sum(line.reached is True for each in found.values() for line in each.lines)
    yield f"Goals reached: {reached}; not reached: {sum(len(missed(each)) for each in found.values())}."
    yield ""
    for name, each in found.items():
        if missed(each):
            yield f"**{name}**"
            yield ""
            for line in missed(each):
                yield f"- {line.what}, beside {line.beside}: {line.ratio}, wanted {line.goal}"
            yield from (["", f"Why: {reasons[name]}"] if name in reasons else [])
            yield ""


def _table(lines: Sequence[Line]) -> Iterator[str]:
    yield "| what | beside | ours | the other | ratio | goal | reached | pairs |"
    yield "|---|---|---:|---:|---:|---|---|---:|"
    for line in lines:
        yield _row(line)


def _row(line: Line) -> str:
    reached = {True: "yes", False: "**no**", None: ""}[line.reached]
    cells = [
        *(
            line.what,
            line.beside,
            figure(median(line.ours), line.unit),
            figure(median(line.theirs), line.unit),
        ),
        *(str(line.ratio), str(line.goal or ""), reached, str(len(line.ours))),
    ]
    return f"| {' | '.join(cells)} |"


def figure(value: float, unit: str) -> str:
    """Three digits that count."""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3
    return f"{value:,.{digits}f} {unit}"
