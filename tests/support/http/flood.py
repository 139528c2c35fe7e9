"""Clients that send one kind of hostile traffic to a TLS server, as fast as it takes it.

`flooder()` starts a process of its own, so that the traffic does not compete with the test for an
interpreter; `Flooder.flood` has it send while a block runs. The process reads lines from stdin:

- `PORT KIND CONNECTIONS BYTES reading` (or `deaf`): each connection sends BYTES of KIND. Prints `flowing`
  once all are connected, and `over` once all have ended.
- `stop`: ends the connections.

It only ever connects to 127.0.0.1.
"""

from __future__ import annotations

import socket
import ssl
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import hpack
from h2.errors import ErrorCodes as Error

import tests.support.http.http2_frames_out as frames
from server.http.http2.frame_reader import (
    END_HEADERS,
    END_STREAM,
    PREFACE,
    Kind,
)
from tests.support.paths import ROOT

HEAD = [(":method", "POST"), (":scheme", "https"), (":authority", "localhost"), (":path", "/echo")]
#: Begins a table of headers that holds those of `HEAD`, and names them.
FIRST = hpack.Encoder().encode(HEAD)
PLAIN = hpack.Encoder()
PLAIN.encode(HEAD)
AGAIN = PLAIN.encode(HEAD)
PATIENCE = 20.0


def streams(make: Callable[[int], bytes]) -> Iterator[bytes]:
    """A first request, then one of these for each stream after it."""
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
    """Until all is sent, or the connection is ended by the server or by `stop`."""
    with suppress(OSError, ValueError):
        for at in range(0, len(data), record):
            line.sendall(data[at : at + record])
    shut_down(line)


def shut_down(line: ssl.SSLSocket) -> None:
    """End both directions for all threads. TLS's own `shutdown` takes its state from under the others."""
    with suppress(OSError):
        socket.socket.shutdown(line, socket.SHUT_RDWR)


def start_flood(port: int, kind: str, count: int, size: int, *, reading: bool) -> list[ssl.SSLSocket]:
    """Returns the connections once all are open; prints `over` once all have ended.

    They are closed when no thread uses them any more. A reader would go on with the number of a file that
    was closed, which the next connection has by then, and would take a part of its handshake.
    """
    kind, _, tiny = kind.partition("+")
    data, record = payload(kind, size), 16 if tiny else 65_536
    lines = [connected(port, http2=kind in HTTP2) for _ in range(count)]
    print("flowing", flush=True)
    threads = [threading.Thread(target=send, args=(line, data), kwargs={"record": record}) for line in lines]
    readers = [threading.Thread(target=take, args=(line,), daemon=True) for line in lines if reading]

    def wait() -> None:
        for thread in (*threads, *readers):
            thread.join()
        for line in lines:
            line.close()
        print("over", flush=True)

    for thread in (*readers, *threads, threading.Thread(target=wait)):
        thread.start()
    return lines


def main() -> None:
    lines: list[ssl.SSLSocket] = []
    for command in sys.stdin:
        if command == "stop\n":
            for line in lines:
                shut_down(line)
        else:
            port, kind, count, size, reading = command.split()
            lines = start_flood(int(port), kind, int(count), int(size), reading=reading == "reading")


class Flooder:
    """The process that floods. One flood at a time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout

    @contextmanager
    def flood(
        self, port: int, kind: str, *, connections: int, size: int, reading: bool
    ) -> Iterator[threading.Event]:
        """Flood while the block runs; the event is set if the flood ends before."""
        how = "reading" if reading else "deaf"
        self._command(f"{port} {kind} {connections} {size} {how}")
        assert self._stdout.readline() == "flowing\n"
        over = threading.Event()

        def wait() -> None:
            self._stdout.readline()
            over.set()

        waiting = threading.Thread(target=wait, name="end of the flood")
        waiting.start()
        try:
            yield over
        finally:
            self._command("stop")
            waiting.join()

    def _command(self, line: str) -> None:
        self._stdin.write(f"{line}\n")
        self._stdin.flush()


@contextmanager
def flooder() -> Iterator[Flooder]:
    """A process that floods; it is gone when the block ends."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.http.flood"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        yield Flooder(process)
    finally:
        process.kill()
        process.communicate()


if __name__ == "__main__":
    main()
