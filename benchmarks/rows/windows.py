"""A thousand queues whose windows begin at the same second, and what windows cost while none begins."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta

import msgspec

from benchmarks import scale
from benchmarks.bench import PATIENCE, Bench, running
from benchmarks.figures import Line, RowResult, at_most
from benchmarks.objects import MERGE, QUEUES, Object, Request, answered, creations, queue
from benchmarks.process_cpu import cpu_seconds
from benchmarks.rows.trees import all_queues
from benchmarks.watch import watched
from localcluster import processes
from localcluster.build import Say
from localcluster.components import until

NUMBER, EDGE_PAIRS = 1_000, 3
#: As many writers as the server has by default.
WRITERS = 4
#: The windows begin so long after they are written, and more: `Bench.quiet` waits for 20 s at most.
AHEAD = timedelta(seconds=25)
#: Seconds.
ALL_WRITTEN = 10.0
#: Windows of each queue at rest, and for how long it is looked at: two resyncs.
EACH, REST_SECONDS, REST_PAIRS = 16, 60.0, 3
#: Of a core, in percent.
MOST_AT_REST = 1.0


class Edge(msgspec.Struct, frozen=True):
    """Seconds from the beginning of the windows."""

    written: float
    acknowledged: float


def measure_edge(say: Say) -> RowResult:
    edges: list[Edge] = []
    bare: list[float] = []
    with running(nodes=1, say=say) as bench:
        bench.install()
        names, took = _plant(bench)
        for number in scale.rounds(EDGE_PAIRS):
            edges.append(_edge(bench, names, ahead=3 * took + AHEAD))
            bare.append(_patched(bench, names, mark=str(number)))
            say(
                f"pair {number}: {len(names)} edges written in {edges[-1].written:.2f} s, acknowledged in "
                f"{edges[-1].acknowledged:.2f} s, patched in {bare[-1]:.2f} s"
            )
    return RowResult(
        title="A thousand windows begin",
        about=f"{len(names):,} queues below `root`, each with a window that begins at the same second. From "
        "that second until a client that only watches has read the last `spec.inWindow`, and the last "
        "`Active=False` for that generation. Beside it, in the same run, a merge patch of an annotation of "
        f"each of the same queues by a client in Go over {WRITERS} connections, as many as the server has. "
        "Our webhooks are asked about each of these, as about any edit, and about no edge. An "
        "acknowledgement takes a status of each queue besides, which the server writes after the edges, and "
        "two events, after the statuses.",
        lines=(
            _line(
                "the last edge written",
                "10 s",
                edges,
                lambda edge: edge.written,
                [ALL_WRITTEN] * len(edges),
                1.0,
            ),
            _line(
                "the last stop acknowledged",
                "10 s",
                edges,
                lambda edge: edge.acknowledged,
                [ALL_WRITTEN] * len(edges),
                1.0,
            ),
            _line(
                "the last edge written",
                "bare patches of the same queues",
                edges,
                lambda edge: edge.written,
                bare,
            ),
            _line(
                "the last stop acknowledged",
                "bare patches of the same queues",
                edges,
                lambda edge: edge.acknowledged,
                bare,
            ),
        ),
    )


def measure_rest(say: Say) -> RowResult:
    shares: dict[bool, list[float]] = {True: [], False: []}
    with running(nodes=1, say=say) as bench:
        bench.install()
        names, _ = _plant(bench)
        for number in scale.rounds(REST_PAIRS):
            for has_windows in (True, False):
                windows = [_weekly(place) for place in range(EACH)] if has_windows else None
                bench.write(_patches(names, {"spec": {"windows": windows}}))
                _await_answers(bench)
                shares[has_windows].append(_share(bench))
            say(f"pair {number}: {shares[True][-1]:.2f} % of a core, {shares[False][-1]:.2f} without windows")
    pairs = zip(shares[True], shares[False], strict=True)
    return RowResult(
        title="Windows at rest",
        about=f"{len(names):,} queues with {EACH} weekly windows each, of which none begins: CPU time of the "
        f"server, which leads, over {REST_SECONDS:.0f} s, and the same of the same queues without windows.",
        lines=(
            Line(
                what="what windows add to the leader at rest",
                beside="1 % of a core",
                unit="%",
                ours=tuple(max(0.0, with_windows - without) for with_windows, without in pairs),
                theirs=(MOST_AT_REST,) * len(shares[True]),
                goal=at_most(1.0),
            ),
            Line(
                what="the leader at rest, of a core",
                beside="the same queues without windows",
                unit="%",
                ours=tuple(shares[True]),
                theirs=tuple(shares[False]),
            ),
        ),
    )


def _line(
    what: str,
    beside: str,
    edges: list[Edge],
    figure: Callable[[Edge], float],
    theirs: list[float],
    bound: float | None = None,
) -> Line:
    return Line(
        what=f"from the edge to {what}",
        beside=beside,
        unit="s",
        ours=tuple(map(figure, edges)),
        theirs=tuple(theirs),
        goal=None if bound is None else at_most(bound),
    )


def _plant(bench: Bench) -> tuple[list[str], timedelta]:
    """The queues, and how long their creation took."""
    names = [f"window-{number}" for number in range(scale.scaled(NUMBER))]
    done = bench.write(creations(QUEUES, (queue(name, parent="root") for name in names)))
    _await_answers(bench)
    return names, timedelta(seconds=done.ended - done.began)


def _await_answers(bench: Bench) -> None:
    until(lambda: all(map(answered, all_queues(bench))), what="the queues to be answered", seconds=PATIENCE)


def _edge(bench: Bench, names: list[str], *, ahead: timedelta) -> Edge:
    """Of windows that are written so long before that they have been read when they begin."""
    start = (datetime.now(UTC) + ahead).replace(microsecond=0)
    bench.write(_patches(names, {"spec": {"windows": [_freeze(start)]}}))
    _await_answers(bench)
    bench.quiet()
    listed = bench.must("GET", QUEUES)
    if datetime.now(UTC) >= start:
        raise RuntimeError("the windows began before all was at rest")
    with watched(bench.cluster, QUEUES, since=listed["metadata"]["resourceVersion"]) as states:
        edge = _seen(states, names, began=start.timestamp())
    bench.quiet()
    return edge


def _seen(states: Iterator[Object], names: list[str], *, began: float) -> Edge:
    unwritten, unacknowledged = set(names), set(names)
    written = began
    while unacknowledged:
        found = next(states)
        name, is_in = found["metadata"]["name"], bool(found["spec"].get("inWindow"))
        if is_in and name in unwritten:
            unwritten.discard(name)
            written = time.time()
        if is_in and answered(found):
            unacknowledged.discard(name)
    return Edge(written - began, time.time() - began)


def _patched(bench: Bench, names: list[str], *, mark: str) -> float:
    """Seconds for as many patches that change nothing for the server."""
    bench.quiet()
    done = bench.write(_patches(names, {"metadata": {"annotations": {"bench": mark}}}), workers=WRITERS)
    return done.ended - done.began


def _patches(names: list[str], body: Object) -> list[Request]:
    return [Request("PATCH", f"{QUEUES}/{name}", MERGE, body) for name in names]


def _freeze(start: datetime) -> Object:
    until_ = start + timedelta(hours=1)
    times = {"from": f"{start:%Y-%m-%dT%H:%M:%SZ}", "until": f"{until_:%Y-%m-%dT%H:%M:%SZ}"}
    return {"name": "freeze", **times, "stopPolicy": "Hold", "reason": "the end of the year"}


def _weekly(place: int) -> Object:
    """An hour a day, three days from now: none begins while it is measured."""
    day = (datetime.now(UTC) + timedelta(days=3)).strftime("%a").upper()
    times = {"schedule": f"0 {place} * * {day}", "duration": "30m", "timeZone": "Europe/Berlin"}
    return {"name": f"window-{place}", **times, "stopPolicy": "Hold", "reason": "backups"}


def _share(bench: Bench) -> float:
    """Of a core, in percent, that the server takes."""
    bench.quiet()
    pids = list(processes.pids(bench.cluster.layout.folder, "server"))
    before, began = cpu_seconds(pids, reaped=True), time.monotonic()
    time.sleep(REST_SECONDS)
    return 100 * (cpu_seconds(pids, reaped=True) - before) / (time.monotonic() - began)


ROWS: Mapping[str, Callable[[Say], RowResult]] = {"windows-edge": measure_edge, "windows-rest": measure_rest}
