"""A stop of `root` until the last of its queues shows it, by how many they are and how deep they lie."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from benchmarks.bench import PATIENCE, Bench
from benchmarks.growth.costs import Cost
from benchmarks.growth.repetitions import (
    FEW,
    rounds,
    scaled,
)
from benchmarks.objects import (
    MERGE,
    QUEUES,
    Request,
    answered,
    creations,
    deletions,
    queue,
)
from benchmarks.rows.trees import all_queues, shown
from localcluster.components import until

#: All queues, those that are there anyhow included.
NUMBERS = (10, 100, 300, 1_000)
#: So many queues, hung up in chains of each of these depths.
IN_CHAINS, DEPTHS = 64, (1, 4, 16, 64)
_OURS = "growth-"
_TITLE = "Suspend root to the last status written"


class Shape(msgspec.Struct, frozen=True, order=True):
    """So many queues of our own, in chains so deep below `root`."""

    number: int
    depth: int


def costs(bench: Bench) -> Iterator[Cost]:
    """By number and by depth; needs a server whose depth limit is that of the deepest. The queues stay."""
    there = len(all_queues(bench))
    flat = {number: Shape(max(1, number - there), 1) for number in scaled(NUMBERS)}
    chains = {depth: Shape(IN_CHAINS, depth) for depth in DEPTHS}
    seen = {shape: _stops(bench, shape) for shape in sorted({*flat.values(), *chains.values()})}
    for name, by, shapes in (("queues", "queues", flat), ("depth", f"depth of {IN_CHAINS} queues", chains)):
        yield Cost(
            name=name,
            title=_TITLE,
            by=by,
            unit="s",
            seen={size: seen[shape] for size, shape in shapes.items()},
        )


def cut(bench: Bench) -> None:
    """None of our queues is left, and the server has just started."""
    bench.remove()
    bench.write(deletions(QUEUES, sorted(_parents(bench))))
    bench.install()


def _stops(bench: Bench, shape: Shape) -> tuple[float, ...]:
    _hang(bench, shape)
    until(lambda: all(map(answered, all_queues(bench))), what="the queues to be answered", seconds=PATIENCE)
    count = len(all_queues(bench))
    seen = []
    for _ in rounds(FEW):
        seen.append(shown(bench, "Suspended", count=count))
        shown(bench, "Open", count=count)
    bench.say(f"{count} queues, {shape.depth} deep: {', '.join(f'{each:.2f}' for each in seen)} s")
    return tuple(seen)


def _hang(bench: Bench, shape: Shape) -> None:
    """They are there, and so; the upper ones are moved first, so that no cycle comes of it."""
    there = _parents(bench)
    wanted = dict(parents(shape))
    missing = [name for name in wanted if name not in there]
    bench.write(creations(QUEUES, (queue(name, parent="root") for name in missing)))
    moves = [
        Request("PATCH", f"{QUEUES}/{name}", MERGE, {"spec": {"parent": parent}})
        for name, parent in wanted.items()
        if there.get(name, "root") != parent
    ]
    bench.write(moves, workers=1)


def parents(shape: Shape) -> Iterator[tuple[str, str]]:
    """(name, parent) of each queue, parents before their children."""
    for number in range(shape.number):
        yield f"{_OURS}{number}", f"{_OURS}{number - 1}" if number % shape.depth else "root"


def _parents(bench: Bench) -> dict[str, str]:
    held = {
        each["metadata"]["name"]: each["spec"]["parent"]
        for each in all_queues(bench)
        if "parent" in each["spec"]
    }
    return {name: parent for name, parent in held.items() if name.startswith(_OURS)}
