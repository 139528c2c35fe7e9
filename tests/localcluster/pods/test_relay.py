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

    async def ask() -> bytes:
        async with await asyncio.start_server(answer, "127.0.0.2", 0) as inner:
            port = inner.sockets[0].getsockname()[1]
            monkeypatch.setattr(relay, "LOOPBACK", "127.0.0.2")  # stands for the loopback of inside
            async with await asyncio.start_server(relay.relay, "127.0.0.1", port):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"request")
                writer.write_eof()
                received = await reader.read()
                writer.close()
                return received

    assert asyncio.run(asyncio.wait_for(ask(), 30)) == b"answer to request"
