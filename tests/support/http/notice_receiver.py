"""A receiver of notices over TLS that answers as it is told."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import ssl
import threading
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from certs import authority
from localcluster.ports import LOOPBACK

OK, SERVER_ERROR = b"HTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"
REFUSED = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
#: What it does instead of an answer: it hangs up, says nothing until the other side gives up, or goes on with
#: a header that does not end.
CUT, SILENT, DRIPPING = b"", b"silent", b"dripping"
#: No part of it may be seen anywhere.
SECRET = "T0KEN-B0T-xyz"


class NoticeReceiver:
    """Answers the n-th request with the n-th of `answers`, and any later one by `OK`. Use it in a `with`.

    `folder` gets what the server reads of it: `url` and `ca.crt`. `posts`: what came, with the answer.
    """

    def __init__(self, folder: Path, *answers: bytes) -> None:
        self.answers = list(answers)
        self.posts: list[tuple[dict[str, Any], bytes]] = []
        self.heads: list[bytes] = []
        self._listening = socket.create_server((LOOPBACK, 0))
        self.port = self._listening.getsockname()[1]
        ca = authority.create(name="receiver", now=datetime.now(UTC))
        pair = ca.serving(now=datetime.now(UTC), ips=[LOOPBACK])
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(*pair.save(folder, stem="receiver"))
        (folder / "ca.crt").write_bytes(ca.certificate)
        (folder / "url").write_text(f"https://{LOOPBACK}:{self.port}/services/{SECRET}?key={SECRET}\n")
        self._open: socket.socket | None = None
        self._thread = threading.Thread(target=self._run, name="notice-receiver")

    def __enter__(self) -> NoticeReceiver:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in (self._listening, self._open):
            with contextlib.suppress(OSError):
                if each is not None:
                    socket.socket.shutdown(each, socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(timeout=10)

    def ids(self, *answers: bytes) -> list[str]:
        """Of the notices in posts that were answered so, in their order; of all, if none is given."""
        return [
            notice["id"]
            for body, answer in list(self.posts)
            if not answers or answer in answers
            for notice in body["notices"]
        ]

    def _run(self) -> None:
        while True:
            try:
                accepted, _ = self._listening.accept()
            except OSError:
                return
            self._open = accepted
            with contextlib.suppress(OSError), self._context.wrap_socket(accepted, server_side=True) as tls:
                self._open = tls
                self._serve(tls)

    def _serve(self, tls: ssl.SSLSocket) -> None:
        stream = tls.makefile("rb")
        lines = []
        while (line := stream.readline()).strip():
            lines.append(line)
        [length] = [line.split()[1] for line in lines if line.lower().startswith(b"content-length:")]
        body = json.loads(stream.read(int(length)))
        answer = self.answers.pop(0) if self.answers else OK
        self.heads.append(b"".join(lines))
        self.posts.append((body, answer))
        if answer == SILENT:
            stream.read(1)
        elif answer == DRIPPING:
            tls.sendall(b"HTTP/1.1 200 OK\r\nX: ")
            while not select.select([tls], [], [], 0.05)[0]:
                tls.sendall(b"x")
        elif answer != CUT:
            tls.sendall(answer)
