"""What a start of the server costs until it answers, beside an app of Flask on gunicorn alone."""

from __future__ import annotations

import http.client
import os
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

import yaml

from benchmarks.figures import Line, RowResult
from benchmarks.interleaved import in_turns
from benchmarks.process_cpu import cpu_seconds
from certs.serving import ensure
from localcluster.build import Say
from localcluster.ports import spare_port

OURS, BARE = "the server", "Flask on gunicorn"
UNCOMPILED, WITH_PACKAGE = "the server without bytecode", "the server with `kubernetes` imported"
SERVE = "import sys; from server.main import main; sys.exit(main())"
#: One route, one worker, TLS with the same kind of certificate.
BARE_APP = """
import sys
from flask import Flask
from gunicorn.app.base import BaseApplication

app = Flask("bare")
app.add_url_rule("/healthz", view_func=lambda: "ok")


class Served(BaseApplication):
    def load_config(self):
        names = ("bind", "certfile", "keyfile")
        for name, value in (*zip(names, sys.argv[1:]), ("worker_class", "gthread"), ("loglevel", "error")):
            self.cfg.set(name, value)

    def load(self):
        return app


Served().run()
"""
LONGEST = 120.0
PAUSE = 0.005


class Start(NamedTuple):
    """Until the first answer: seconds, and CPU seconds of all its processes."""

    wall: float
    cpu: float


def measure(say: Say) -> RowResult:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        port = spare_port(folder / "port")
        bind = f"127.0.0.1:{port}"
        probes = f"127.0.0.1:{spare_port(folder / 'probes')}"
        ensure(folder / "certs", hosts=["127.0.0.1"], now=datetime.now(UTC))
        serving = [str(folder / "certs" / f"serving.{end}") for end in ("crt", "key")]
        settings = ["--bind", bind, "--health-bind", probes, "--certs-dir", str(folder / "own")]
        settings += ["--kubeconfig", _kubeconfig(folder)]
        server = [sys.executable, "-c", SERVE, "serve", *settings]
        package = [sys.executable, "-c", f"import kubernetes; {SERVE}", "serve", *settings]
        without = {"PYTHONPYCACHEPREFIX": str(folder / "none"), "PYTHONDONTWRITEBYTECODE": "1"}
        _start(package, {}, port=port)  # which writes what bytecode is missing
        ways = {
            OURS: partial(_start, server, {}, port=port),
            BARE: partial(_start, [sys.executable, "-c", BARE_APP, bind, *serving], {}, port=port),
            UNCOMPILED: partial(_start, server, without, port=port),
            WITH_PACKAGE: partial(_start, package, {}, port=port),
        }
        seen = in_turns(
            ways, told=lambda start: f"{start.wall:.2f} s, {start.cpu:.2f} s of CPU time", say=say
        )
    return RowResult(
        title="What a start of the server costs",
        about="From the start of the process until a request is answered over TLS, with a certificate "
        "issued on the way. There is no API server, so nothing of the cluster is read. CPU time is that of "
        f"all its processes. {BARE} is one route on a gthread worker. All have bytecode, except where the "
        "line says otherwise.",
        lines=(
            _line("wall", OURS, BARE, seen),
            _line("cpu", OURS, BARE, seen),
            _line("cpu", UNCOMPILED, OURS, seen),
            _line("cpu", WITH_PACKAGE, OURS, seen),
        ),
    )


def _line(field: str, what: str, beside: str, seen: Mapping[str, Sequence[Start]]) -> Line:
    unit = {"wall": "seconds", "cpu": "CPU seconds"}[field]
    return Line(
        what=f"{unit} until it answers, {what}",
        beside=beside,
        unit="s",
        ours=tuple(getattr(start, field) for start in seen[what]),
        theirs=tuple(getattr(start, field) for start in seen[beside]),
    )


def _start(command: Sequence[str], environment: Mapping[str, str], *, port: int) -> Start:
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    began = time.perf_counter()
    process = subprocess.Popen(
        command, env={**inherited, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while not _answers(port):
            assert process.poll() is None, f"{command[:3]} ended"
            assert time.perf_counter() - began < LONGEST, f"{command[:3]} does not answer"
            time.sleep(PAUSE)
        return Start(time.perf_counter() - began, cpu_seconds(_family(process.pid)))
    finally:
        process.terminate()
        process.wait()


def _family(pid: int) -> list[int]:
    """The process and its children: gunicorn's master has one worker."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)]


def _answers(port: int) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=5)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status > 0
    except OSError:
        return False
    finally:
        connection.close()


def _kubeconfig(folder: Path) -> str:
    """With one authority, as in a pod: to read all that the machine trusts takes longer than all else."""
    cluster = {"server": "https://127.0.0.1:1", "certificate-authority": str(folder / "certs" / "ca.crt")}
    content = {
        "clusters": [{"name": "none", "cluster": cluster}],
        "users": [{"name": "none", "user": {"token": "none"}}],
        "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}],
        "current-context": "none",
    }
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(content))
    return str(file)
