"""Commands whose wall clock is wrong."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path


def wrong_clock(offset: str) -> list[str]:
    """Starts a command with its wall clock that far off, such as `+1h`; what counts seconds goes right."""
    return [*_preloaded(), f"FAKETIME={offset}"]


def changing_clock(file: Path, offset: str) -> list[str]:
    """As `wrong_clock`; the command reads the offset from the file anew each second (`set_clock`)."""
    set_clock(file, offset)
    return [*_preloaded(), f"FAKETIME_TIMESTAMP_FILE={file}", "FAKETIME_CACHE_DURATION=1"]


def set_clock(file: Path, offset: str) -> None:
    written = file.with_suffix(".new")
    written.write_text(f"{offset}\n")
    written.replace(file)


def _preloaded() -> list[str]:
    spec = find_spec("libfaketime")
    assert spec is not None
    assert spec.origin is not None
    library = Path(spec.origin).parent / "vendor/libfaketime/src/libfaketime.so.1"
    assert library.exists()
    return ["/usr/bin/env", f"LD_PRELOAD={library}", "FAKETIME_DONT_FAKE_MONOTONIC=1"]
