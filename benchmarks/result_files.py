"""What was found, kept a file a row, and the page that is made of all of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from benchmarks import charts, results_page
from benchmarks.figures import RowResult
from benchmarks.missed_goals import WHY

HERE = Path(__file__).parent

_found = msgspec.json.Decoder(RowResult)


def save(name: str, found: RowResult, *, folder: Path = HERE) -> None:
    """In place of what was kept of that row before."""
    results = folder / "results"
    results.mkdir(exist_ok=True)
    text = msgspec.json.format(msgspec.json.encode(found), indent=1)
    (results / f"{name}.json").write_bytes(text + b"\n")
    for curve in found.curves:
        (results / f"{curve.name}.svg").write_text(charts.render(curve))


def write_page(names: Iterable[str], *, folder: Path = HERE) -> None:
    """RESULTS.md, with the rows in this order."""
    (folder / "RESULTS.md").write_text(results_page.render(load(names, folder=folder), reasons=WHY))


def load(names: Iterable[str], *, folder: Path = HERE) -> dict[str, RowResult]:
    """What is kept of these rows; of some there may be nothing yet."""
    paths = {name: folder / "results" / f"{name}.json" for name in names}
    found = {name: path for name, path in paths.items() if path.exists()}
    return {name: _found.decode(path.read_bytes()) for name, path in found.items()}
