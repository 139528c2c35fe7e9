"""A reverse proxy in front of a real API server, that a test tells what to do wrong.

Plain HTTP towards the client, TLS with the client's own certificate towards the API server, which so sees
the user that it always saw. What no fault is ordered for passes through untouched, byte by byte and on the
same connection.
"""

from __future__ import annotations

import asyncio
import math
import socket
import ssl
import struct
import threading
from contextlib import suppress
from urllib.parse import parse_qsl, urlsplit

from tests.support.faults.faults import (
    Answer,
    Answered,
    Asked,
    Closing,
    Cut,
    Fault,
    Kept,
    Silence,
    When,
    expired_event,
    status,
)

LOOPBACK = "127.0.0.1"

__all__ = ["Answer", "Answered", "Asked", "Closing", "Cut", "Fault", "FaultyProxy", "Kept", "Silence", "When"]
__all__ += ["expired_event", "status"]


class FaultyProxy:
    """Runs in a thread of its own until it is closed."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        self._upstream = port
        self._context = context
        self._orders: list[tuple[When, Fault, int]] = []
        self._lock = threading.Lock()
        #: Every request so far, in the order they came.
        self.asked: list[Asked] = []
        #: Those that the API server has answered, in the order of its answers.
        self.answered: list[Answered] = []
        #: All that were ever kept: whoever waits for one that nobody frees lives as long as we do.
        self._kept: list[Kept] = []
        self._is_away = False
        self._connections: set[_Connection] = set()
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

    def keep(self, when: When, *, answered: bool) -> Kept:
        """Keep the next request of which `when` holds; those after it pass."""
        kept = Kept(answered)
        with self._lock:
            self._orders = [order for order in self._orders if not isinstance(order[1], Kept)]
            self._orders.append((when, kept, 1))
            self._kept.append(kept)
        return kept

    def free(self, kept: Kept) -> None:
        """Let it go on."""
        self._loop.call_soon_threadsafe(kept.freed.set)

    def cut(self, *, when: When = lambda _: True) -> None:
        """Reset every connection that is open now and whose latest request is one of these, or has none.

        What it has sent and is not passed on yet does not reach the API server.
        """

        def reset() -> None:
            for each in list(self._connections):
                if each.asked is None or when(each.asked):
                    each.reset()

        self._loop.call_soon_threadsafe(reset)

    def cut_answered(self, *, when: When, seconds: float) -> None:
        """Reset the connections whose latest request is one of these and is being answered for so long."""

        def reset() -> None:
            since = self._loop.time() - seconds
            for each in list(self._connections):
                if each.asked is not None and when(each.asked) and each.answered_since <= since:
                    each.reset()

        self._loop.call_soon_threadsafe(reset)

    def go_away(self) -> None:
        """Nothing passes any more: connections are reset, new ones are closed at once."""
        self._is_away = True
        self.cut()

    def come_back(self) -> None:
        self._is_away = False

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
                    if isinstance(fault, Kept):
                        fault.requests.append(asked)
                    return fault
        return None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(reader, writer, self._upstream, self._context, self.answered)
        self._connections.add(connection)
        try:
            while not self._is_away and (request := await connection.read()) is not None:
                asked, raw = request
                await connection.answer(asked, raw, self._ordered(asked))
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            connection.close()
            self._connections.discard(connection)


class _Connection:
    """One client's connection and the one to the API server that goes with it."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        upstream: int,
        context: ssl.SSLContext,
        answered: list[Answered],
    ) -> None:
        self._reader, self._writer = reader, writer
        self._upstream, self._context = upstream, context
        self._answered = answered
        #: Its latest request.
        self.asked: Asked | None = None
        self._there: asyncio.StreamWriter | None = None
        self._pump: asyncio.Task[None] | None = None
        self._fault: Fault | None = None
        self._passed, self._begun = 0, False
        #: When the answer to the latest request began, by the loop's clock; infinity before.
        self.answered_since = math.inf
        self._is_reset = False

    async def read(self) -> tuple[Asked, bytes] | None:
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
        except (OSError, asyncio.IncompleteReadError):
            return None
        method, target, _ = head.split(b"\r\n")[0].decode().split(" ")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
        body = await self._reader.readexactly(int(fields.get(b"content-length", b"0")))
        if self._is_reset:  # it had come already, and its client hears no answer
            return None
        parts = urlsplit(target)
        return Asked(method, parts.path, dict(parse_qsl(parts.query)), body), head + body

    async def answer(self, asked: Asked, raw: bytes, fault: Fault | None) -> None:
        self.asked, self._fault, self._passed, self._begun = asked, fault, 0, False
        self.answered_since = math.inf
        if isinstance(fault, Answer):
            self._writer.write(fault.encoded())
            await self._writer.drain()
            return
        if isinstance(fault, Kept) and not fault.answered:
            await fault.hold()
        if self._there is None:
            there, self._there = await asyncio.open_connection(LOOPBACK, self._upstream, ssl=self._context)
            self._pump = asyncio.create_task(self._pumped(there))
        self._there.write(raw)
        await self._there.drain()

    async def _pumped(self, there: asyncio.StreamReader) -> None:
        with suppress(OSError):
            await self._passed_on(there)
        self._writer.close()

    async def _passed_on(self, there: asyncio.StreamReader) -> None:
        while chunk := await there.read(65536):
            if not self._begun:
                chunk = await self._begin(chunk)
            if isinstance(self._fault, Cut | Silence):
                chunk = chunk[: max(0, self._fault.after - self._passed)]
            self._passed += len(chunk)
            self._writer.write(chunk)
            await self._writer.drain()
            if isinstance(self._fault, Cut) and self._passed >= self._fault.after:
                self.reset()
                return

    async def _begin(self, chunk: bytes) -> bytes:
        """The first part of an answer."""
        self._begun = True
        self.answered_since = asyncio.get_running_loop().time()
        if self.asked is not None:
            self._answered.append(Answered(self.asked, int(chunk.split(b" ", 2)[1])))
        if isinstance(self._fault, Kept) and self._fault.answered:
            await self._fault.hold()
        if isinstance(self._fault, Closing):
            return chunk.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
        return chunk

    def reset(self) -> None:
        self._is_reset = True
        sock = self._writer.transport.get_extra_info("socket")
        if sock is not None and sock.fileno() != -1:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    def close(self) -> None:
        if self._pump is not None:
            self._pump.cancel()
        if self._there is not None:
            self._there.transport.abort()
        self._writer.transport.abort()
