"""A reverse proxy in front of a real API server, that a test tells what to do wrong.

Plain HTTP towards the client, the administrator's TLS towards the API server. What no fault is ordered
for passes through untouched, byte by byte and on the same connection.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Asked:
    """One request as it came."""

    method: str
    path: str
    query: dict[str, str]

    @property
    def watch(self) -> bool:
        return "watch" in self.query

    @property
    def lists(self) -> bool:
        return self.method == "GET" and not self.watch


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


Fault = Answer | Cut | Silence | Closing
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


class FaultyProxy:
    """Runs in a thread of its own until it is closed."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        self._upstream = port
        self._context = context
        self._orders: list[tuple[When, Fault, int]] = []
        self._lock = threading.Lock()
        #: Every request so far, in the order they came.
        self.asked: list[Asked] = []
        self._connections: set[asyncio.Transport] = set()
        self._loop = asyncio.new_event_loop()
        self._server = self._loop.run_until_complete(asyncio.start_server(self._serve, LOOPBACK, 0))
        self.port: int = self._server.sockets[0].getsockname()[1]
        self._thread = threading.Thread(target=self._run, name="faulty-proxy", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def order(self, fault: Fault, *, when: When = lambda _: True, times: int = 1) -> None:
        """Do this wrong at the next so many requests of which `when` holds."""
        with self._lock:
            self._orders.append((when, fault, times))

    def relent(self) -> None:
        """Forget every order."""
        with self._lock:
            self._orders.clear()

    def cut(self) -> None:
        """Reset every connection that is open now."""
        self._loop.call_soon_threadsafe(lambda: [_reset(each) for each in list(self._connections)])

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(timeout=5)

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.run_until_complete(self._end())
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.01)  # for transports to close

    def _ordered(self, asked: Asked) -> Fault | None:
        with self._lock:
            self.asked.append(asked)
            for number, (when, fault, times) in enumerate(self._orders):
                if when(asked):
                    self._orders[number : number + 1] = [(when, fault, times - 1)] if times > 1 else []
                    return fault
        return None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(reader, writer, self._upstream, self._context)
        self._connections.add(writer.transport)  # type: ignore[arg-type]
        try:
            while (request := await connection.read()) is not None:
                asked, raw = request
                await connection.answer(raw, self._ordered(asked))
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            connection.close()
            self._connections.discard(writer.transport)  # type: ignore[arg-type]


class _Connection:
    """One client's connection and the one to the API server that goes with it."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        upstream: int,
        context: ssl.SSLContext,
    ) -> None:
        self._reader, self._writer = reader, writer
        self._upstream, self._context = upstream, context
        self._there: asyncio.StreamWriter | None = None
        self._pump: asyncio.Task[None] | None = None
        self._fault: Fault | None = None
        self._passed = 0

    async def read(self) -> tuple[Asked, bytes] | None:
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
        except (OSError, asyncio.IncompleteReadError):
            return None
        method, target, _ = head.split(b"\r\n")[0].decode().split(" ")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
        body = await self._reader.readexactly(int(fields.get(b"content-length", b"0")))
        parts = urlsplit(target)
        return Asked(method, parts.path, dict(parse_qsl(parts.query))), head + body

    async def answer(self, raw: bytes, fault: Fault | None) -> None:
        self._fault, self._passed = fault, 0
        if isinstance(fault, Answer):
            self._writer.write(fault.encoded())
            await self._writer.drain()
            return
        if self._there is None:
            there, self._there = await asyncio.open_connection(LOOPBACK, self._upstream, ssl=self._context)
            self._pump = asyncio.create_task(self._pumped(there))
        self._there.write(raw)
        await self._there.drain()

    async def _pumped(self, there: asyncio.StreamReader) -> None:
        while chunk := await there.read(65536):
            if isinstance(self._fault, Closing) and not self._passed:
                chunk = chunk.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
            if isinstance(self._fault, Cut | Silence):
                chunk = chunk[: max(0, self._fault.after - self._passed)]
            self._passed += len(chunk)
            self._writer.write(chunk)
            await self._writer.drain()
            if isinstance(self._fault, Cut) and self._passed >= self._fault.after:
                _reset(self._writer.transport)  # type: ignore[arg-type]
                return
        self._writer.close()

    def close(self) -> None:
        if self._pump is not None:
            self._pump.cancel()
        if self._there is not None:
            self._there.transport.abort()
        self._writer.transport.abort()


def _reset(transport: asyncio.Transport) -> None:
    sock = transport.get_extra_info("socket")
    if sock is not None and sock.fileno() != -1:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
