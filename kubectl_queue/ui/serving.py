"""Serves the page on a loopback port, and brings a browser there.

Promises
- It listens on 127.0.0.1 alone. Each connection has a thread, and at most `CONNECTIONS` have; more are closed
  at once. One that sends or takes nothing for `IDLE` seconds is ended.
- The browser is started with a file that only its user may read, and that is gone once the page is open:
  arguments of programs are seen by everybody on the machine, and the address has the code.
- `close` ends the server, the streams and the threads of `queue_watch`.
- No interrupt is lost while it serves: the signal is noted, and raised between two requests. Python drops a
  KeyboardInterrupt that comes while it clears away an object.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import HTTPServer
from pathlib import Path
from shutil import rmtree
from typing import Any

from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler

from kubectl_queue.access.client import ApiClient, Queues
from kubectl_queue.access.outages import read_outage
from kubectl_queue.access.transport import Transport
from kubectl_queue.ui import guard
from kubectl_queue.ui.app import create_app
from kubectl_queue.ui.backend import Backend, ClusterAccess, ignore
from kubectl_queue.ui.board import Board
from kubectl_queue.ui.keys import PageKeys
from kubectl_queue.ui.queue_watch import QueueWatch
from kubectl_queue.ui.viewer import ClusterContext
from kubectl_queue.views.outage import outage_text

CONNECTIONS = 64
IDLE = 60.0
#: How often the server looks whether it was interrupted, in seconds.
POLL = 0.2
_REDIRECT = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url={}">\n'


class _Handler(WSGIRequestHandler):
    timeout = IDLE

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """The terminal is for people."""

    def log_error(self, format: str, *args: Any) -> None:
        """As above: a time-out of a connection is none of theirs."""

    def version_string(self) -> str:
        return "kubectl-queue"


class _Server(ThreadedWSGIServer):
    daemon_threads = True
    is_interrupted = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._places = threading.BoundedSemaphore(CONNECTIONS)

    def service_actions(self) -> None:
        """Called after each request, and each `POLL` seconds."""
        if self.is_interrupted:
            raise KeyboardInterrupt

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A window that was closed."""


class PageServer:
    """`say` gets the address, and another one each time that it was used. `run` it, then `close` it."""

    def __init__(
        self, transport: Transport, place: ClusterContext, *, port: int, say: Callable[[str], None]
    ) -> None:
        """`port`: 0 for any. Raises OSError where it is taken."""
        self._transport = transport
        self._say = say
        self._keys = PageKeys()
        self._board = Board(clock=time.monotonic)
        self._watch = QueueWatch(
            lambda: Queues(ApiClient(transport, warn=ignore)),
            self._board,
            clock=time.monotonic,
            outage=lambda: _outage(ApiClient(transport, warn=ignore)),
        )
        self._socket = socket.create_server((guard.HOST, port))
        self._folder = Path(tempfile.mkdtemp(prefix="kubectl-queue-ui-"))
        self.port: int = self._socket.getsockname()[1]
        backend = Backend(
            port=self.port,
            keys=self._keys,
            board=self._board,
            connect=self._connect,
            place=place,
            now=self._watch.now,
            used=self._say_next_address,
            written=self._watch.heard,
        )
        self._server = _Server(
            guard.HOST, self.port, create_app(backend), handler=_Handler, fd=self._socket.fileno()
        )

    @property
    def address(self) -> str:
        """With the code that works now."""
        return f"{guard.origin_of(self.port)}/#{self._keys.code}"

    def run(self) -> None:
        """Until KeyboardInterrupt."""
        self._watch.start()
        with self._interrupts_noted():
            HTTPServer.serve_forever(self._server, poll_interval=POLL)  # werkzeug's hides the interrupt

    @contextmanager
    def _interrupts_noted(self) -> Iterator[None]:
        """Where they are ignored, as in the background of a script, they stay so. Only the main thread may
        ask for signals; another one gets none.
        """
        is_main = threading.current_thread() is threading.main_thread()
        if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return

        def note(_number: int, _frame: object) -> None:
            self._server.is_interrupted = True

        before = signal.signal(signal.SIGINT, note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def close(self) -> None:
        self._board.close()
        self._transport.close()
        self._watch.stop()
        self._server.server_close()
        self._socket.close()
        rmtree(self._folder, ignore_errors=True)

    def redirect_file(self) -> Path:
        """A page that leads to the address, for a browser of this user."""
        path = self._folder / "open.html"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(_REDIRECT.format(self.address))
        return path

    def _connect(self, warn: Callable[[str], None]) -> ClusterAccess:
        client = ApiClient(self._transport, warn=warn, read_outage=read_outage)
        return ClusterAccess(client, Queues(client))

    def _say_next_address(self) -> None:
        (self._folder / "open.html").unlink(missing_ok=True)
        self._say(f"the page was opened; for another window: {self.address}")


def _outage(client: ApiClient) -> str:
    outage = read_outage(client)
    return outage_text(outage) if outage is not None else ""


def open_browser(page: Path, *, environ: Mapping[str, str]) -> bool:
    """Whether one was started. Where there is no desktop, none is: it would take the terminal."""
    has_desktop = sys.platform == "darwin" or environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")
    if not has_desktop:
        return False
    import webbrowser  # noqa: PLC0415 - for those who have a desktop

    try:
        return webbrowser.open(page.as_uri())
    except webbrowser.Error:
        return False
