"""What a proxy in front of the API server may be told to do wrong."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True)
class Asked:
    """One request as it came. `at`: when, in monotonic seconds."""

    method: str
    path: str
    query: dict[str, str]
    body: bytes = b""
    at: float = field(default_factory=time.monotonic, compare=False)

    @property
    def watch(self) -> bool:
        return "watch" in self.query

    @property
    def lists(self) -> bool:
        return self.method == "GET" and not self.watch

    @property
    def writes(self) -> bool:
        return self.method != "GET"


class Answered(NamedTuple):
    """A request and the API server's status, as it came."""

    asked: Asked
    status: int


@dataclass(frozen=True)
class Answer:
    """The proxy answers itself; the API server is not asked."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)

    def encoded(self) -> bytes:
        headers = {"Content-Type": "application/json", "Content-Length": str(len(self.body)), **self.headers}
        lines = [f"HTTP/1.1 {self.status} Ordered", *(f"{key}: {value}" for key, value in headers.items())]
        return "\r\n".join([*lines, "", ""]).encode() + self.body


@dataclass(frozen=True)
class Cut:
    """The connection is reset after so many bytes of the API server's answer."""

    after: int = 0


@dataclass(frozen=True)
class Silence:
    """Nothing more comes after so many bytes of the API server's answer; the connection stays open."""

    after: int = 0


@dataclass(frozen=True)
class Closing:
    """The API server's answer says that it closes the connection after it."""


@dataclass(frozen=True)
class Kept:
    """The request is kept until it is freed: before the API server has it, or before its answer is heard."""

    answered: bool
    #: The request is there, or the API server has answered it.
    reached: threading.Event = field(default_factory=threading.Event)
    freed: asyncio.Event = field(default_factory=asyncio.Event)
    #: The one request that is kept, once it is there.
    requests: list[Asked] = field(default_factory=list)

    async def hold(self) -> None:
        self.reached.set()
        await self.freed.wait()


Fault = Answer | Cut | Silence | Closing | Kept
When = Callable[[Asked], bool]


def status(code: int, *, reason: str = "", message: str = "as ordered", **headers: str) -> Answer:
    """A refusal as the API server words it."""
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(code, json.dumps(body).encode(), told)


def expired_event() -> Answer:
    """A watch that begins well and then says that its place is lost."""
    line = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "old"}}
    return Answer(200, json.dumps(line).encode() + b"\n")
