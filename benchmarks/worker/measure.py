"""Puts each candidate beside Go's net/http, and attacks it.

    python -m benchmarks.worker.measure [--seconds 1] [--rounds 5] [CANDIDATE ...]

Everything speaks TLS on 127.0.0.1. A speed is the median of the rounds, in each of which the Go server is
measured next to the candidate; so it says how many times Go's, whatever the machine does meanwhile. What is
measured is kept in `results/`, a file a candidate, and `README.md` says all that is kept.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import companions
from benchmarks.worker import page
from benchmarks.worker.attacks import ATTACKS, attacked
from benchmarks.worker.candidate import CANDIDATES, USUAL
from localcluster import processes

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LOADS = {"serial": 1, "32 at once": 32}
CROWD = ("500", "500", "500")  # idle, unfinished, slow: see tests/support/http/hostile_crowd.py
Figures = dict[str, float]


def build(folder: Path) -> Path:
    """The load generator, which is the Go server too."""
    subprocess.run(["go", "build", "-o", folder / "load", "."], cwd=HERE / "load", check=True)
    return folder / "load"


def write_certificate(folder: Path) -> tuple[Path, Path]:
    """P-256: a handshake is paid often."""
    cert, key = folder / "tls.crt", folder / "tls.key"
    kind = [
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-subj",
        "/CN=localhost",
    ]
    names = ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-days", "2"]
    subprocess.run(
        ["openssl", "req", *kind, *names, "-keyout", key, "-out", cert],
        check=True,
        capture_output=True,
    )
    return cert, key


class Bench:
    """The binaries and files of one run."""

    def __init__(self, *, folder: Path, seconds: float) -> None:
        self.load = build(folder)
        self.cert, self.key = write_certificate(folder)
        self.seconds = seconds

    @contextmanager
    def go(self) -> Iterator[int]:
        """The Go server's port."""
        command = [self.load, "serve", "-cert", self.cert, "-key", self.key]
        with running(command, says="listening at") as port:
            yield port

    @contextmanager
    def candidate(self, name: str, *, app: str, compute: bool) -> Iterator[int]:
        """The candidate's port."""
        command = [sys.executable, "-m", "benchmarks.worker.candidate", name, app, self.cert, self.key]
        with running([*command, *(["--compute"] if compute else [])], says="Listening at") as port:
            yield port

    def ask(self, port: int, *, workers: int, names: int, http2: bool) -> Figures:
        """Load for so many seconds. Over HTTP/2 it is asked by a name, as our worker wants it."""
        url = f"https://{'localhost' if http2 else '127.0.0.1'}:{port}/filter"
        command: list[Any] = [
            self.load,
            "request",
            "-url",
            url,
            "-ca",
            self.cert,
            "-seconds",
            str(self.seconds),
        ]
        command += ["-workers", str(workers), "-names", str(names), *(["-http2"] if http2 else [])]
        said = subprocess.run(command, check=True, capture_output=True, text=True)
        figures: Figures = json.loads(said.stdout)
        return figures


@contextmanager
def running(command: list[Any], *, says: str) -> Iterator[int]:
    """A server while the block runs, and the port it says it listens at."""
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert process.stderr is not None
        line = next(line for line in process.stderr if says in line)
        port = int(line.split("(")[0].rsplit(":", 1)[1])
        threading.Thread(target=process.stderr.read, daemon=True).start()
        await_port(port)
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def await_port(port: int) -> None:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.02)


@contextmanager
def besieged(port: int) -> Iterator[None]:
    """With the hostile crowd standing."""
    command = [sys.executable, "-m", "tests.support.http.hostile_crowd", str(port), *CROWD]
    with companions.started(command, folder=ROOT):
        yield


def ratios(bench: Bench, name: str, *, app: str, names: int, compute: bool = False) -> dict[str, float]:
    """One round: for each load, requests a second and p50 as multiples of Go's."""
    row = {}
    with bench.go() as go, bench.candidate(name, app=app, compute=compute) as own:
        for load, workers in LOADS.items():
            base = bench.ask(go, workers=workers, names=names, http2=False)
            seen = bench.ask(own, workers=workers, names=names, http2="h2" in name)
            row[f"{load}: requests/s"] = seen["rps"] / base["rps"]
            row[f"{load}: p50"] = seen["p50_us"] / base["p50_us"]
            row[f"{load}: p99"] = seen["p99_us"] / base["p99_us"]
    return row


def siege(bench: Bench, name: str) -> dict[str, float]:
    """How many times its own undisturbed p99 the candidate takes with the crowd; inf if it answers nobody."""
    with bench.candidate(name, app="flask", compute=False) as port:
        calm = bench.ask(port, workers=1, names=100, http2="h2" in name)
        with besieged(port):
            seen = bench.ask(port, workers=1, names=100, http2="h2" in name)
    answered = seen["requests"] > 0
    return {"besieged: p99": seen["p99_us"] / calm["p99_us"] if answered else float("inf")}


def main() -> None:
    """Measure, keep and say."""
    processes.exit_on_signals()
    parser = argparse.ArgumentParser()
    parser.add_argument("candidates", nargs="*", default=list(USUAL))
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    unknown = set(asked.candidates) - set(CANDIDATES)
    if unknown:
        parser.error(f"no such candidate: {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(folder=Path(folder), seconds=asked.seconds)
        for name in asked.candidates:
            page.keep(name, measured(bench, name, rounds=asked.rounds))
            print(f"{time.strftime('%H:%M:%S')} {name} measured", file=sys.stderr, flush=True)
    page.write()


def measured(bench: Bench, name: str, *, rounds: int) -> page.Kept:
    """All that is measured of a candidate."""
    speeds = {
        f"{app}, {names} names": medians([ratios(bench, name, app=app, names=names) for _ in range(rounds)])
        for app, names in (("bare", 100), ("flask", 100), ("flask", 500))
    }
    calm = medians([siege(bench, name) for _ in range(rounds)])
    same = name.endswith("-h2")  # as the server that is asked over HTTP/1.1
    attacks = {} if same else {attack: attacked(bench, name, attack) for attack in ATTACKS}
    return page.Kept(speeds=speeds, crowd=calm["besieged: p99"], attacks=attacks, rounds=rounds)


def medians(rounds: list[Figures]) -> Figures:
    return {key: median(one[key] for one in rounds) for key in rounds[0]}


if __name__ == "__main__":
    main()
