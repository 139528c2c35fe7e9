"""Callers that send one kind of hostile traffic to a TLS server, as fast as it takes it.

    python flood.py PORT KIND CONNECTIONS BYTES [READING]

Each connection sends BYTES of KIND and goes once all is sent or the server has closed it. Prints `flowing`
once all are connected, and `over` once all are gone. With READING they take what they are answered. Only ever
to 127.0.0.1.
"""

from __future__ import annotations

import socket
import ssl
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import hpack
from h2.errors import ErrorCodes as Error

import tests.support.http.http2_frames_out as frames
from server.http.http2.frame_reader import (
    END_HEADERS,
    END_STREAM,
    PREFACE,
    Kind,
)

HEAD = [(":method", "POST"), (":scheme", "https"), (":authority", "localhost"), (":path", "/echo")]
#: Begins a table of headers that holds those of `HEAD`, and names them.
FIRST = hpack.Encoder().encode(HEAD)
PLAIN = hpack.Encoder()
PLAIN.encode(HEAD)
AGAIN = PLAIN.encode(HEAD)
PATIENCE = 20.0


def streams(make: Callable[[int], bytes]) -> Iterator[bytes]:
    """A first request, then so many of these."""
    yield PREFACE + frames.settings({}) + frames.headers(1, FIRST, ends=True)
    for number in range(3, 2**31, 2):
        yield make(number)


def ask(number: int) -> bytes:
    return frames.headers(number, AGAIN, ends=True)


def begin(number: int) -> bytes:
    return frames.headers(number, AGAIN, ends=False)


def block(number: int, data: bytes) -> bytes:
    return frames.frame(Kind.HEADERS, END_HEADERS | END_STREAM, number, data)


#: Over HTTP/2, by what a new stream's number makes of it.
HTTP2: dict[str, Callable[[int], bytes]] = {
    "windows-too-large": lambda number: begin(number) + frames.window_update(number, 2**31 - 1),
    "requests-after-goaway": lambda number: (
        (frames.goaway(0, Error.NO_ERROR) if number == 3 else b"") + ask(number)
    ),
    "table-sizes": lambda number: block(number, b"\x20" * 8_000 + AGAIN),
    "770-fields": lambda number: block(number, AGAIN + b"\x95" * 770),
    "resets": lambda number: begin(number) + frames.reset(number, Error.CANCEL),
    "pings": lambda _: frames.frame(Kind.PING, 0, 0, b"12345678"),
    "settings": lambda _: frames.frame(Kind.SETTINGS, 0, 0, struct.pack(">HL", 4, 1_000) * 100),
    "new-settings": lambda number: frames.frame(
        Kind.SETTINGS,
        0,
        0,
        b"".join(struct.pack(">HL", (number * 1000 + i) % 65_000 + 16, 1) for i in range(1000)),
    ),
    "windows": lambda _: frames.window_update(0, 1),
    "priorities": lambda number: frames.frame(Kind.PRIORITY, 0, number, b"\0\0\0\0\1"),
    "unknown-frames": lambda _: frames.frame(99, 0, 0, b""),
    "empty-data": lambda number: begin(3) if number == 3 else frames.data(3, b"", ends=False),
    "empty-continuations": lambda number: (
        frames.frame(Kind.HEADERS, 0, 3, b"") if number == 3 else frames.frame(Kind.CONTINUATION, 0, 3, b"")
    ),
    "long-codes": lambda number: block(number, AGAIN + b"\x40\x01a\xff\x81\x7e" + b"\xff" * 16_000),
    "pings-and-requests": lambda number: frames.frame(Kind.PING, 0, 0, b"12345678") * 900 + ask(number),
    "requests": ask,
}

LONG = b"x" * 16_384
CHUNKED = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
#: Over HTTP/1.1: how it begins, and what goes on for ever.
HTTP1: dict[str, tuple[bytes, bytes]] = {
    "header": (b"POST /echo HTTP/1.1\r\nHost: localhost\r\nX: ", LONG),
    "trailer": (CHUNKED + b"0\r\nX: ", LONG),
    "trailers": (CHUNKED + b"0\r\n", b"a:b\r\n" * 3_000),
    "extension": (CHUNKED + b"5;", LONG),
    "extensions": (CHUNKED, b"1;a=b\r\nx\r\n" * 1_000),
    "tiny-chunks": (CHUNKED, b"1\r\nx\r\n" * 3_000),
    "lines": (b"", b"\r\n" * 8_000),
    "pipelined": (b"", b"GET /echo HTTP/1.1\r\nHost: localhost\r\n\r\n" * 300),
}

KINDS = [*HTTP2, *HTTP1]


def pieces(kind: str) -> Iterator[bytes]:
    if kind in HTTP2:
        yield from streams(HTTP2[kind])
    begin_with, rest = HTTP1[kind]
    yield begin_with
    while True:
        yield rest


def payload(kind: str, size: int) -> bytes:
    sent = bytearray()
    for piece in pieces(kind):
        sent += piece
        if len(sent) >= size:
            break
    return bytes(sent)


def connected(port: int, *, http2: bool) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"] if http2 else ["http/1.1"])
    plain = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    return context.wrap_socket(plain, server_hostname="localhost" if http2 else None)


def take(line: ssl.SSLSocket) -> None:
    with suppress(OSError, ValueError):
        while line.recv(65_536):
            pass


def send(line: ssl.SSLSocket, data: bytes, *, record: int) -> None:
    with suppress(OSError):
        for at in range(0, len(data), record):
            line.sendall(data[at : at + record])
    with suppress(OSError):
        line.close()


def main() -> None:
    port, kind, count, size, *reading = sys.argv[1:]
    kind, _, tiny = kind.partition("+")
    data = payload(kind, int(size))
    lines = [connected(int(port), http2=kind in HTTP2) for _ in range(int(count))]
    print("flowing", flush=True)
    record = 16 if tiny else 65_536
    threads = [threading.Thread(target=send, args=(line, data), kwargs={"record": record}) for line in lines]
    if reading:
        for line in lines:
            threading.Thread(target=take, args=(line,), daemon=True).start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("over", flush=True)


if __name__ == "__main__":
    main()
