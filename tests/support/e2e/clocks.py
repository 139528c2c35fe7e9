"""Commands whose wall clock is wrong."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path


def wrong_clock(offset: str) -> list[str]:
    """Starts a command with its wall clock that far off, such as `+1h`; what counts seconds goes right."""
    spec = find_spec("libfaketime")
    assert spec is not None
    assert spec.origin is not None
    library = Path(spec.origin).parent / "vendor/libfaketime/src/libfaketime.so.1"
    assert library.exists()
    return ["/usr/bin/env", f"LD_PRELOAD={library}", f"FAKETIME={offset}", "FAKETIME_DONT_FAKE_MONOTONIC=1"]
