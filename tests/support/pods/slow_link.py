"""Hands what comes to one port of the loopback on to another, each byte so much later: a long way.

    python slow_link.py LISTEN TARGET FILE

FILE holds the delay of each direction in seconds, and may be written at any time. A program of the standard
library alone: it runs in the sandbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path

LOOPBACK = "127.0.0.1"


class Link:
    def __init__(self, target: int, delay: Path) -> None:
        self._target = target
        self._delay = delay

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            far_reader, far_writer = await asyncio.open_connection(LOOPBACK, self._target)
            await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))
            far_writer.close()
        writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Everything arrives in its order, and nothing waits for what was sent before it."""
        on_the_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        delivering = asyncio.create_task(deliver(on_the_way, writer))
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                on_the_way.put_nowait((asyncio.get_running_loop().time() + self._seconds(), data))
        on_the_way.put_nowait((0.0, b""))
        await delivering

    def _seconds(self) -> float:
        return float(self._delay.read_text() or 0)


async def deliver(on_the_way: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while True:
            at, data = await on_the_way.get()
            if not data:
                writer.write_eof()
                return
            await asyncio.sleep(max(0.0, at - asyncio.get_running_loop().time()))
            writer.write(data)
            await writer.drain()


async def main(listen: int, target: int, delay: Path) -> None:
    server = await asyncio.start_server(Link(target, delay).serve, LOOPBACK, listen)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])))
