"""The stream of one window: lines of JSON, the first with all rows, each later one with what differs.

Invariants
- Whoever applies every line shows the board's frame.
- A line comes at least every `HEARTBEAT` seconds, with the age of what is shown: a window that hears nothing
  for longer says so itself.
- A window that reads slowly gets fewer lines and not older ones: each is made when it is sent.

Threads: each stream in that of its request.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kubectl_queue.ui.board import Board, Shown
from kubectl_queue.ui.rows import Difference, Frame, difference, encoded

#: Seconds. A window that was closed is noticed by the next line.
HEARTBEAT = 2.0


class StreamLine(msgspec.Struct, frozen=True, kw_only=True):
    """`age`: seconds since what is shown was known to be so; None before the first frame.

    `frame`: its number, 0 before the first. `change`: None where the window shows it already. `fault`,
    `outage`: as in `board.Shown`.
    """

    age: float | None
    fault: str
    outage: str
    frame: int
    change: Difference | None


def lines(board: Board, *, heartbeat: float = HEARTBEAT) -> Iterator[bytes]:
    """Until the board is closed."""
    version, before = -1, None
    while True:
        shown = board.wait(version, seconds=heartbeat)
        if board.is_closed:
            return
        yield encoded(_line(before, shown))
        version, before = shown.version, shown.frame


def _line(before: Frame | None, shown: Shown) -> StreamLine:
    frame = shown.frame
    is_news = frame is not None and frame is not before
    return StreamLine(
        age=shown.age,
        fault=shown.fault,
        outage=shown.outage,
        frame=frame.number if frame is not None else 0,
        change=difference(before, frame) if is_news and frame is not None else None,
    )
