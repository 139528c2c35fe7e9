"""The worker under test as a process of its own, and callers who speak to it byte by byte.

    python -m tests.support.http.served_worker CERTFILE KEYFILE WORKER_CLASS LIMITS_AS_JSON ACCESS_AS_JSON

serves `app` below on a free port of 127.0.0.1, and on another one for probes, until a signal ends it.
ACCESS: `client_ca` (files), `scheduler` and `api_server` (names); empty for everybody.
"""

import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.message import Message
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from server.gunicorn_app import ServedApp, gunicorn_settings
from server.http.authorization import Callers, ClientCertificates
from server.http.limits import Limits
from tests.support.paths import ROOT

HUGE = 4_000_000
#: How often the worker counted a refusal, by path and status; `app` shows it at /refusals.
REFUSALS: Counter[tuple[str, int]] = Counter()
#: Set in the environment: the server stops itself while its worker starts.
STOP_EARLY = "STOP_EARLY"
WAIT = 60.0  # seconds for anything that is sure to come


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Says what it was asked; and a few paths that do worse."""
    path = environ["PATH_INFO"]
    if path == "/raise":
        raise RuntimeError("secret of the app")
    if path == "/break":
        start_response("200 OK", [("X-Bad", "a\r\nX-Injected: b")])
        return [b""]
    if path == "/huge":
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"x" * HUGE]
    if path == "/refusals":
        start_response("200 OK", [("Content-Type", "application/json")])
        return [json.dumps([[*refusal, number] for refusal, number in REFUSALS.items()]).encode()]
    if path.startswith("/wait/"):
        wait_for_file(Path(path.removeprefix("/wait")))
    body = environ["wsgi.input"].read()
    seen = {key: value for key, value in environ.items() if isinstance(value, str)}
    status = "405 Method Not Allowed" if path == "/post" and environ["REQUEST_METHOD"] != "POST" else "200 OK"
    start_response(status, [("Content-Type", "application/json")])
    return [json.dumps({"environ": seen, "read": len(body), "body": body[:100].decode("latin-1")}).encode()]


def seen(body: bytes) -> dict[str, Any]:
    """What `app` was asked, by its answer."""
    answer: dict[str, Any] = json.loads(body)
    return answer


def waiting_for(path: Path) -> str:
    """What to ask `app` so that it answers once somebody has made the file."""
    return f"/wait{quote(str(path))}"


def wait_for_file(path: Path) -> None:
    """Until somebody makes it."""
    until = time.monotonic() + WAIT
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.005)


def serve() -> None:
    """The process under test."""
    certfile, keyfile, worker_class, limits, access = sys.argv[1:]
    hooks: dict[str, Callable[..., object]] = {
        "post_worker_init": stop_early if STOP_EARLY in os.environ else start_threads,
        "worker_exit": lambda _, worker: worker.log.info("hook: threads must stop"),
    }
    settings = gunicorn_settings(
        bind="127.0.0.1:0",
        health_bind="127.0.0.1:0",
        certfile=Path(certfile) if certfile else None,
        keyfile=Path(keyfile) if keyfile else None,
        hooks=hooks,
    )
    if worker_class:
        settings |= {"worker_class": worker_class, "threads": 64, "keepalive": 100}
    threading.Thread(target=end_with_parent, name="parent watch", daemon=True).start()
    ServedApp(
        app,
        settings=settings,
        limits=Limits(**json.loads(limits)),
        count_refusal=lambda path, status: REFUSALS.update([(path, status)]),
        client_certificates=client_certificates(**json.loads(access)),
    ).run()


def start_threads(worker: Any) -> None:
    worker.log.info("hook: threads may start")


def stop_early(worker: Any) -> None:
    """The server is stopped before its worker serves."""
    start_threads(worker)
    os.kill(os.getppid(), signal.SIGTERM)
    while worker.alive:  # until gunicorn's own handler has seen the signal
        os.sched_yield()


def client_certificates(
    client_ca: Sequence[str] = (), scheduler: Sequence[str] = (), api_server: Sequence[str] = ()
) -> ClientCertificates | None:
    if not client_ca:
        return None
    callers = Callers(scheduler=frozenset(scheduler), api_server=frozenset(api_server))
    return ClientCertificates(authorities=tuple(map(Path, client_ca)), callers=callers)


def end_with_parent() -> None:
    """Whoever started us holds the other end of stdin; however it ends, we end too."""
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


@dataclass
class Log:
    """What the process has written so far, read by a thread that ends with the process."""

    lines: list[str] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def read(self, pipe: Iterable[str]) -> None:
        """Until the end."""
        for line in pipe:
            with self.changed:
                self.lines.append(line)
                self.changed.notify_all()

    def wait_for(self, text: str) -> str:
        """The first line that holds the text."""
        with self.changed:
            assert self.changed.wait_for(lambda: self._find(text), WAIT), f"no {text!r} in {self.lines}"
            return self._find(text)

    def _find(self, text: str) -> str:
        return next((line for line in self.lines if text in line), "")

    def __str__(self) -> str:
        return "".join(self.lines)


@dataclass
class Served:
    """A running server."""

    process: subprocess.Popen[str]
    port: int
    health_port: int
    log: Log
    certfile: Path
    tls: bool = True

    def terminate(self) -> None:
        """SIGTERM to the master, as a kubelet does."""
        self.process.send_signal(signal.SIGTERM)

    def caller(self) -> "Caller":
        """A new connection."""
        return Caller(self.port, certfile=self.certfile if self.tls else None)


@cache
def trusting(certfile: Path) -> ssl.SSLContext:
    """A client's context; made once, for each costs more than a handshake."""
    return ssl.create_default_context(cafile=certfile)


class Caller:
    """One connection. Use with `with`."""

    def __init__(self, port: int, *, certfile: Path | None, context: ssl.SSLContext | None = None) -> None:
        """`context`: instead of one that trusts `certfile` and shows no certificate."""
        self.line = socket.create_connection(("127.0.0.1", port), timeout=WAIT)
        self.line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as Go and curl do
        if certfile is not None:
            context = context or trusting(certfile)
            self.line = context.wrap_socket(self.line, server_hostname="localhost")
        self._incoming = self.line.makefile("rb")

    def __enter__(self) -> "Caller":
        return self

    def __exit__(self, *_: object) -> None:
        self._incoming.close()
        self.line.close()

    def send(self, data: bytes) -> None:
        """As it is."""
        self.line.sendall(data)

    def reply(self, *, to: str = "POST") -> tuple[int, Message, bytes]:
        """Status, headers and body of the next reply."""
        line = self._incoming.readline()
        assert line.startswith(b"HTTP/1.1 "), line
        status, headers = int(line.split()[1]), http.client.parse_headers(self._incoming)
        length = 0 if to == "HEAD" or status < 200 else int(headers["Content-Length"])
        return status, headers, self._incoming.read(length)

    def ask(
        self, path: str = "/echo", *, method: str = "POST", body: bytes = b""
    ) -> tuple[int, Message, bytes]:
        """One request and its reply."""
        self.send(request(path, method=method, body=body))
        return self.reply(to=method)

    def at_end(self) -> bool:
        """Wait until the server has closed; True unless it says more first."""
        try:
            return self._incoming.read(1) == b""
        except (ConnectionResetError, ssl.SSLEOFError):
            return True


def request(path: str = "/echo", *, method: str = "POST", body: bytes = b"", headers: str = "") -> bytes:
    """A request with a length."""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return head.encode() + body


@contextmanager
def served(
    certificate: tuple[Path, Path] | None,
    *,
    worker_class: str = "",
    access: Mapping[str, Any] | None = None,
    **limits: float,
) -> Iterator[Served]:
    """A server while the block runs; nothing of it is left, however the block ends.

    `access`: who may call, as `client_certificates` takes it.
    """
    files = [str(path) for path in certificate or ("", "")]
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "tests.support.http.served_worker", *files, worker_class),
            *(json.dumps(limits), json.dumps(access or {})),
        ],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=ROOT,
    )
    log = Log()
    reading = threading.Thread(target=log.read, args=(process.stderr,), name="log of the served worker")
    reading.start()
    try:
        port, health_port = map(int, re.findall(r":(\d+)", log.wait_for("Listening at").split("(")[0])[-2:])
        log.wait_for("hook: threads may start")
        yield Served(process, port, health_port, log, Path(files[0]), tls=certificate is not None)
        process.send_signal(signal.SIGTERM)
        process.wait(WAIT)
    finally:
        end(process)
        reading.join()
        for pipe in (process.stdin, process.stderr):
            assert pipe is not None
            pipe.close()


def end(process: subprocess.Popen[str]) -> None:
    """The whole process group, at once."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def write_certificate(folder: Path, *, name: str = "tls") -> tuple[Path, Path]:
    """A self-signed P-256 certificate for localhost: its file and its key's."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certfile, keyfile = folder / f"{name}.crt", folder / f"{name}.key"
    certfile.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    keyfile.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return certfile, keyfile


if __name__ == "__main__":
    serve()
