"""Reads the API server's audit log: each bind request, who sent it, when, and its answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Bind:
    """One answered bind request. `received` and `answered`: the API server's time, UTC."""

    namespace: str
    pod: str
    user: str
    code: int
    message: str
    dry_run: bool
    received: datetime
    answered: datetime

    @property
    def bound(self) -> bool:
        """Whether this request bound the pod."""
        return self.code == 201 and not self.dry_run


def binds(log: Path) -> tuple[Bind, ...]:
    """Every bind request so far, in the order of the answers."""
    return tuple(_bind(json.loads(line)) for line in _lines(log))


def _lines(log: Path) -> Iterator[str]:
    """The complete lines; the API server may still be writing the last one."""
    text = log.read_text()
    return (line for line in text[: text.rfind("\n") + 1].splitlines() if line)


def _bind(event: Mapping[str, Any]) -> Bind:
    subject, status = event["objectRef"], event["responseStatus"]
    return Bind(
        namespace=subject["namespace"],
        pod=subject.get("name", ""),
        user=event["user"]["username"],
        code=status["code"],
        message=status.get("message", ""),
        dry_run="dryRun=" in event["requestURI"],
        received=datetime.fromisoformat(event["requestReceivedTimestamp"]),
        answered=datetime.fromisoformat(event["stageTimestamp"]),
    )
