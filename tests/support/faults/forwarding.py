"""A TCP proxy that a test holds: it delays, cuts, and spreads connections over several targets."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")

CHUNK = 65536


class Forwarder:
    """Listens on a loopback port and forwards to `targets`, in turns. `close` ends it."""

    def __init__(self, targets: Sequence[int], *, port: int = 0) -> None:
        self._targets = list(targets)
        self._turns = itertools.count()
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        #: Seconds by which each piece of data is held up, either way.
        self.delay = 0.0
        self._flows = asyncio.Event()
        self._flows.set()
        self._is_cut = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="forwarder", daemon=True)
        self._thread.start()
        self._server = self._do(asyncio.start_server(self._accept, "127.0.0.1", port))
        self.port: int = self._server.sockets[0].getsockname()[1]

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=120)

    def set_targets(self, targets: Sequence[int]) -> None:
        """For new connections; those there are stay where they are."""
        self._targets = list(targets)

    def cut(self) -> None:
        """Nothing passes from now on: connections are dropped, new ones are closed at once."""
        self._is_cut = True
        self._do(self._drop())

    def heal(self) -> None:
        self._is_cut = False

    def hold_back(self) -> None:
        """Nothing passes until `let_through`, and no connection is closed."""
        self._loop.call_soon_threadsafe(self._flows.clear)

    def let_through(self) -> None:
        self._loop.call_soon_threadsafe(self._flows.set)

    def close(self) -> None:
        self._is_cut = True
        self._server.close()
        self._do(self._drop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)
        self._loop.close()

    async def _drop(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _order(self) -> Iterator[int]:
        targets = self._targets
        start = next(self._turns)
        return (targets[(start + step) % len(targets)] for step in range(len(targets)))

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._open.add(writer)
        try:
            beyond = None if self._is_cut else await self._dial()
            if beyond is not None:
                self._open.add(beyond[1])
                try:
                    await asyncio.gather(self._pump(reader, beyond[1]), self._pump(beyond[0], writer))
                finally:
                    self._open.discard(beyond[1])
        finally:
            self._open.discard(writer)
            writer.close()

    async def _dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        for port in self._order():
            with suppress(OSError):
                return await asyncio.open_connection("127.0.0.1", port)
        return None

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(CHUNK):
                if self.delay:
                    await asyncio.sleep(self.delay)
                await self._flows.wait()
                sink.write(data)
                await sink.drain()
        sink.close()
