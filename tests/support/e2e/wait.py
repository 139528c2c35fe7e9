"""Waiting for the thing itself: nothing in these tests sleeps for a time."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable
from typing import Literal, TypeVar

T = TypeVar("T")

#: Long, for machines that are slow or busy with other things; a wait that comes true is not longer for it.
#: Less than the five minutes after which kube-scheduler looks at each pod again by itself.
PATIENCE = 150.0
#: Between two looks; longer, the longer one has waited and the longer a look takes: others need the cores.
PAUSE = 0.03
SHARE = 0.08


def until(
    holds: Callable[[], T | Literal[False] | None],
    what: str,
    *,
    seconds: float = PATIENCE,
    share: float = SHARE,
) -> T:
    """What `holds` returns as soon as that is true; fails with what was waited for, and what there was.

    A failed connection counts as "not yet": components end and start again in some tests. `share`: 0 where it
    must be seen while it lasts.
    """
    began = time.monotonic()
    end = began + seconds
    found: T | Literal[False] | Exception | None
    while True:
        asked = time.monotonic()
        try:
            found = holds()
        except (OSError, http.client.HTTPException) as exc:
            found = exc
        if found and not isinstance(found, Exception):
            return found
        now = time.monotonic()
        assert now < end, f"waited {seconds:.0f} s for {what}; last seen: {found!r}"
        time.sleep(max(PAUSE, now - asked, min(0.5, share * (now - began))))


def settled(read: Callable[[], T], what: str, *, seconds: float = 3.0) -> T:
    """What `read` returns once it has been the same for so many seconds: nothing goes on any more."""
    held, since = read(), time.monotonic()

    def quiet() -> bool:
        nonlocal held, since
        now = read()
        if now != held:
            held, since = now, time.monotonic()
        return time.monotonic() - since >= seconds

    until(quiet, f"{what} to rest")
    return held
