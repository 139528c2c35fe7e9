"""Bytes pass through the relay in both directions, and the end of each direction too."""

from __future__ import annotations

import asyncio

import pytest

from localcluster.pods import relay


def test_a_request_passes_and_its_answer_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is sent only at the end of the request, so that the end has to pass as well."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"answer to " + await reader.read())
        writer.close()

    async def listen() -> tuple[asyncio.Server, asyncio.Server, int]:
        """Both on one port, which others on this machine may have."""
        while True:
            inner = await asyncio.start_server(answer, "127.0.0.2", 0)
            port: int = inner.sockets[0].getsockname()[1]
            try:
                return inner, await asyncio.start_server(relay.relay, "127.0.0.1", port), port
            except OSError:
                inner.close()

    async def ask() -> bytes:
        monkeypatch.setattr(relay, "LOOPBACK", "127.0.0.2")  # stands for the loopback of inside
        inner, outer, port = await listen()
        async with inner, outer:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"request")
            writer.write_eof()
            received = await reader.read()
            writer.close()
            return received

    assert asyncio.run(asyncio.wait_for(ask(), 120)) == b"answer to request"
