"""A webhook that allows everything and remembers who was asked about what."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from certs import authority

LOOPBACK = "127.0.0.1"
#: The users of the control plane's own components: what they write at any time is not what a test asks for.
COMPONENTS = ("system:apiserver", "system:kube-", "system:serviceaccount:kube-system:")
#: No test waits for a webhook's time-out, and a busy machine must not reach it.
TIMEOUT_SECONDS = 30


class Recorder:
    """Serves HTTPS in a thread of its own from construction until `close`.

    The API server answers a request only after its webhooks have, so once a request is
    answered every call it made is in `calls`.
    """

    def __init__(self, folder: Path) -> None:
        now = datetime.now(UTC)
        ca = authority.create(name="recorder", now=now)
        certificate, key = ca.serving(ips=[LOOPBACK], now=now).save(folder, stem="recorder")
        self.calls: list[dict[str, Any]] = []
        self._dead = False
        self._ca = base64.b64encode(ca.certificate).decode()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._server = ThreadingHTTPServer((LOOPBACK, 0), _handler(self))
        self._server.daemon_threads = True
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self._thread = Thread(target=self._server.serve_forever, name="admission-recorder")
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def pointed_here(self, configuration: dict[str, Any]) -> dict[str, Any]:
        """The configuration with every entry calling us, under a path that starts with its name."""
        copy = deepcopy(configuration)
        for hook in copy["webhooks"]:
            path = hook["clientConfig"]["service"]["path"]
            url = f"https://{LOOPBACK}:{self._server.server_port}/{hook['name']}{path}"
            hook["clientConfig"] = {"url": url, "caBundle": self._ca}
            hook["timeoutSeconds"] = TIMEOUT_SECONDS
        return copy

    @contextmanager
    def asked(self) -> Iterator[list[str]]:
        """What is asked meanwhile, each call as `<entry>/<path>`, filled in when the block ends.

        Without what components of the control plane ask: controllers go on with what other tests have left.
        """
        before = len(self.calls)
        heard: list[str] = []
        yield heard
        heard.extend(
            call["path"].lstrip("/")
            for call in self.calls[before:]
            if not call["request"]["userInfo"]["username"].startswith(COMPONENTS)
        )

    @contextmanager
    def dead(self) -> Iterator[None]:
        """Meanwhile every call ends without an answer."""
        self._dead = True
        try:
            yield
        finally:
            self._dead = False


def _handler(recorder: Recorder) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Silence: the calls are the log."""

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
            if recorder._dead:
                self.close_connection = True
                return
            path = self.path.split("?")[0]
            recorder.calls.append({"path": path, "request": request})
            answer = {
                "apiVersion": "admission.k8s.io/v1",
                "kind": "AdmissionReview",
                "response": {"uid": request["uid"], "allowed": True},
            }
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler
