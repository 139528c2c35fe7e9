"""What the API server was asked, by its audit log; read on from a mark, never from the start."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

#: Logs every request with its object, for those who count requests.
EVERY_REQUEST = Path(__file__).parent / "audit-policy.yaml"


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A request that was answered.

    `sent`, `stored`: bytes of JSON of the request's object and of a pod that was answered, 0 where neither
    was logged. `received`, `answered`: the API server's time, Unix seconds.
    """

    user: str
    verb: str
    resource: str
    namespace: str
    name: str
    code: int
    dry_run: bool
    sent: int
    stored: int
    received: float
    answered: float


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
        return sorted(
            asked.answered
            for asked in self.requests(mark)
            if asked.resource in {"pods/binding", "bindings"}
            and asked.code == 201
            and asked.namespace == namespace
            and not asked.dry_run
        )

    def requests(self, mark: int) -> Iterator[Asked]:
        """Each request since the mark that is logged, in the order of the answers."""
        return map(_asked, map(json.loads, self._since(mark).splitlines()))

    def _since(self, mark: int) -> bytes:
        with self._path.open("rb") as file:
            file.seek(mark)
            text = file.read()
        return text[: text.rfind(b"\n") + 1]  # the last line may still be being written


def _asked(line: dict[str, Any]) -> Asked:
    subject = line.get("objectRef") or {}
    parts = [subject.get("resource", line["requestURI"].partition("?")[0]), subject.get("subresource")]
    return Asked(
        user=line["user"]["username"],
        verb=line["verb"],
        resource="/".join(part for part in parts if part),
        namespace=subject.get("namespace", ""),
        name=subject.get("name", ""),
        code=line["responseStatus"]["code"],
        dry_run="dryRun=" in line["requestURI"],
        sent=_size(line.get("requestObject")),
        stored=_size(line.get("responseObject")),
        received=_unix(line["requestReceivedTimestamp"]),
        answered=_unix(line["stageTimestamp"]),
    )


def _size(value: object) -> int:
    return 0 if value is None else len(json.dumps(value, separators=(",", ":")).encode())


def _unix(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
