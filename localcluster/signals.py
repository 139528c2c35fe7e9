"""Signals that end a command: by way of the ends of all blocks, so that what was started is ended too."""

from __future__ import annotations

import signal
import sys
from types import FrameType


def heed() -> None:
    """Even SIGINT, which a shell's background job is born deaf to; but nohup's word counts."""
    signal.signal(signal.SIGINT, _end)
    signal.signal(signal.SIGTERM, _end)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _end)


def _end(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)
