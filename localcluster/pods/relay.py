"""Makes ports of the sandbox's loopback reachable on the machine's loopback, under the same numbers.

    python relay.py FD...    (listening sockets, made outside the sandbox and inherited)

So kubectl, tests and readiness checks outside use the kubeconfigs and ports of inside. A program of the
standard library alone: `sandbox` starts it inside. A socket stays in the network namespace in which it was
made: accepted connections are of outside, new ones of inside.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys

LOOPBACK = "127.0.0.1"


async def main(sockets: list[socket.socket]) -> None:
    servers = [await asyncio.start_server(relay, sock=each) for each in sockets]
    await asyncio.gather(*(server.serve_forever() for server in servers))


async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve one connection: bytes in both directions, until both sides have ended."""
    port: int = writer.get_extra_info("sockname")[1]
    try:
        inner_reader, inner_writer = await asyncio.open_connection(LOOPBACK, port)
    except OSError:
        writer.close()
        return
    await asyncio.gather(copy(reader, inner_writer), copy(inner_reader, writer))
    for each in (writer, inner_writer):
        each.close()


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.write_eof()


if __name__ == "__main__":
    asyncio.run(main([socket.socket(fileno=int(fd)) for fd in sys.argv[1:]]))
