"""When the API server bound what, by its audit log; read on from a mark, never from the start."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path


class Log:
    """The log. For one thread."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def mark(self) -> int:
        """Where it ends now."""
        return self._path.stat().st_size

    def count(self, mark: int) -> int:
        """About how many binds there have been since; cheap, to be asked again and again."""
        return self._since(mark).count(b'"code":201')

    def binds(self, mark: int, *, namespace: str) -> list[float]:
        """When each bind in the namespace since the mark was answered (Unix seconds), in order."""
        return sorted(_times(self._since(mark), namespace))

    def _since(self, mark: int) -> bytes:
        with self._path.open("rb") as file:
            file.seek(mark)
            text = file.read()
        return text[: text.rfind(b"\n") + 1]  # the last line may still be being written


def _times(text: bytes, namespace: str) -> Iterator[float]:
    for line in text.splitlines():
        said = json.loads(line)
        dry = "dryRun=" in said["requestURI"]
        if said["responseStatus"]["code"] == 201 and said["objectRef"]["namespace"] == namespace and not dry:
            yield datetime.fromisoformat(said["stageTimestamp"]).timestamp()
