"""A reflector that reads nothing and records what it was told."""

from __future__ import annotations


class RecordingReflector:
    def __init__(self) -> None:
        self.calls: list[str] = []
        self.has_died = False

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")

    def retry_now(self) -> None:
        self.calls.append("retry_now")
