"""An HTTP proxy in front of the API server for one process, that keeps a request where a test says.

Plain HTTP towards the process, TLS with that process's own certificate towards the API server, which
so sees the user that it always saw. What is not kept passes through untouched.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from localcluster.addresses import LOOPBACK
from localcluster.cluster import LocalCluster

CHUNK = 65536


class Asked(NamedTuple):
    """One request as it came; the path is without its query."""

    method: str
    path: str
    body: bytes


When = Callable[[Asked], bool]


@dataclass(frozen=True)
class Kept:
    """Where one request is kept: before the API server has it, or before its answer is heard."""

    when: When
    answered: bool
    #: The request is there, or the API server has answered it.
    reached: threading.Event = field(default_factory=threading.Event)
    freed: asyncio.Event = field(default_factory=asyncio.Event)


class Interceptor:
    """Runs in a thread of its own until it is closed. Takes the place of a `Forwarder` in a `Fleet`."""

    def __init__(self, cluster: LocalCluster, *, component: str = "server") -> None:
        self._upstream = cluster.ports.apiserver
        self._context = ssl.create_default_context(cafile=str(cluster.layout.pki / "ca.crt"))
        identity: Path = cluster.layout.pki / component
        self._context.load_cert_chain(identity.with_suffix(".crt"), identity.with_suffix(".key"))
        self._kept: Kept | None = None
        #: All that were ever kept: whoever waits for one that nobody frees lives as long as we do.
        self._ever: list[Kept] = []
        self._loop = asyncio.new_event_loop()
        self._server = self._loop.run_until_complete(asyncio.start_server(self._serve, LOOPBACK, 0))
        self.port: int = self._server.sockets[0].getsockname()[1]
        self._thread = threading.Thread(target=self._run, name="interceptor", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def keep(self, when: When, *, answered: bool) -> Kept:
        """Keep the next request of which `when` holds; those after it pass."""
        self._kept = Kept(when, answered)
        self._ever.append(self._kept)
        return self._kept

    def free(self, kept: Kept) -> None:
        """Let it go on."""
        self._loop.call_soon_threadsafe(kept.freed.set)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)

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

    def _is_kept(self, asked: Asked) -> Kept | None:
        kept = self._kept
        if kept is None or not kept.when(asked):
            return None
        self._kept = None
        return kept

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = None
        try:
            there = await asyncio.open_connection(LOOPBACK, self._upstream, ssl=self._context)
            with suppress(OSError, asyncio.IncompleteReadError):
                await self._pass_on(reader, writer, there)
        except (OSError, asyncio.CancelledError):
            return  # the API server does not answer, and so do we not; or this is the end
        finally:
            for end in (writer, there and there[1]):
                if end:
                    end.transport.abort()

    async def _pass_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        there: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        """One request after the other; HTTP/1.1 has no second one before the first is answered."""
        holding: list[Kept] = []
        pump = asyncio.create_task(_pumped(there[0], writer, holding))
        pump.add_done_callback(lambda _: writer.transport.abort())
        try:
            while True:
                asked, raw = await _read(reader)
                kept = self._is_kept(asked)
                if kept is not None and kept.answered:
                    holding.append(kept)
                elif kept is not None:
                    await _held(kept)
                there[1].write(raw)
                await there[1].drain()
        finally:
            pump.cancel()


async def _read(reader: asyncio.StreamReader) -> tuple[Asked, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    method, target, _ = first.decode().split(" ")
    fields = dict(line.lower().split(b": ", 1) for line in lines if line)
    body = await reader.readexactly(int(fields.get(b"content-length", b"0")))
    return Asked(method, target.partition("?")[0], body), head + body


async def _pumped(there: asyncio.StreamReader, writer: asyncio.StreamWriter, holding: list[Kept]) -> None:
    with suppress(OSError):
        while chunk := await there.read(CHUNK):
            if holding:
                await _held(holding.pop())
            writer.write(chunk)
            await writer.drain()


async def _held(kept: Kept) -> None:
    kept.reached.set()
    await kept.freed.wait()
