"""A process that runs beside a measurement."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def started(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, folder: Path | None = None
) -> Iterator[tuple[str, int]]:
    """The first line that the process prints, and its process ID, once it has printed that. It ends with the
    block, and its stdin is open until then. `folder`: where it runs.
    """
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env, cwd=folder
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip(), process.pid
        finally:
            process.terminate()
