"""Callers who hold connections of a TLS server and never ask anything to the end.

    python hostile_crowd.py PORT IDLE UNFINISHED SLOW

IDLE finish the handshake and send nothing; UNFINISHED send half a ClientHello; SLOW send a request a byte at
a time, one a second. Who is cut off comes back. Prints `standing` once they are there; answers each
character on stdin with how many are there now; goes when stdin ends. Only ever to 127.0.0.1.
"""

import os
import resource
import select
import socket
import ssl
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

REQUEST = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\n\r\n" + b"x" * 5000
ROUND = 1.0  # seconds in which each slow one sends a byte and everyone is looked at
TOGETHER = 5  # do so at the same time
CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # made once: each costs more than a handshake
CONTEXT.check_hostname = False
CONTEXT.verify_mode = ssl.CERT_NONE
PATIENCE = 5.0  # seconds for the server to shake hands
GATHERING = 30.0  # seconds for all of them


def connected(port: int) -> socket.socket:
    """A TCP connection."""
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)


def finished(port: int) -> socket.socket:
    """A connection with a finished handshake."""
    made = CONTEXT.wrap_socket(connected(port))
    made.setblocking(False)
    return made


def unfinished(port: int) -> socket.socket:
    """A connection with half a ClientHello sent."""
    made = connected(port)
    made.sendall(client_hello()[:100])
    made.setblocking(False)
    return made


def client_hello() -> bytes:
    """What a caller says first."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    shaking = CONTEXT.wrap_bio(incoming, outgoing)
    with suppress(ssl.SSLWantReadError):
        shaking.do_handshake()
    return outgoing.read()


@dataclass
class Hostile:
    """One of them. It is there until the server has closed."""

    make: Callable[[int], socket.socket]
    port: int
    speaks: bool = False
    said: int = 0
    line: socket.socket | None = field(default=None)

    def stand(self) -> None:
        """Be there, again if need be."""
        if self.line is not None and self._cut():
            self.line.close()
            self.line, self.said = None, 0
        if self.line is None:
            with suppress(OSError):
                self.line = self.make(self.port)

    def _cut(self) -> bool:
        assert self.line is not None
        try:
            return self.line.recv(4096) == b""
        except (ssl.SSLWantReadError, BlockingIOError):
            return False
        except OSError:
            return True

    def speak(self) -> None:
        """Say one byte more."""
        if self.speaks and self.line is not None and self.said < len(REQUEST):
            with suppress(OSError):
                self.line.send(REQUEST[self.said : self.said + 1])
                self.said += 1


def gather(crowd: list[Hostile]) -> None:
    """Let everybody come, or as many as the server shakes hands with in good time."""
    until = time.monotonic() + GATHERING
    for one in crowd:
        if time.monotonic() < until:
            one.stand()


def go_round(crowd: list[Hostile]) -> None:
    """Let everybody stand and speak, spread over the round."""
    for number, one in enumerate(crowd):
        one.stand()
        one.speak()
        if number % TOGETHER == 0:
            time.sleep(ROUND * TOGETHER / len(crowd))
            answer_questions(crowd)


def answer_questions(crowd: list[Hostile]) -> None:
    """How many stand, if asked; the end, if nobody is there to ask."""
    while select.select([sys.stdin], [], [], 0)[0]:
        if not os.read(sys.stdin.fileno(), 1):
            sys.exit(0)
        print(sum(one.line is not None for one in crowd), flush=True)


def main() -> None:
    """Gather, say so, and stay."""
    port, idle, half, slow = (int(argument) for argument in sys.argv[1:])
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    crowd = [Hostile(finished, port) for _ in range(idle)]
    crowd += [Hostile(unfinished, port) for _ in range(half)]
    crowd += [Hostile(finished, port, speaks=True) for _ in range(slow)]
    gather(crowd)
    print("standing", flush=True)
    while True:
        go_round(crowd)


if __name__ == "__main__":
    main()
