"""What the writes of a resume cost the server: our client beside urllib3, http.client and pycurl.

Each client does what the server's own does: the threads of a write queue patch pods, over TLS, with a service
account's token, on kept connections. Each reads its answers whole and checks their status.
pycurl is no dependency: its lines are left out where it is not installed (`pip install pycurl`).
"""

from __future__ import annotations

import http.client
import importlib.util
import json
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import urllib3
from kubernetes.client import Configuration

from benchmarks import scale
from benchmarks.bench import Bench, running
from benchmarks.figures import Line, RowResult
from benchmarks.interleaved import in_turns
from benchmarks.objects import MERGE, pods, pods_path
from cluster.api.client import Client
from cluster.metrics import Metrics
from cluster.write_queue import WriteQueue
from localcluster.build import Say

WRITES, THREADS = 1_000, 4
GATE = {"name": "bench.sluice.dev/kept"}

#: Patches the object at a path with a body.
Patch = Callable[[str, object], object]


class Cost(NamedTuple):
    """Of one write: CPU time of the process (user and system), and wall time; microseconds."""

    cpu: float
    wall: float


def measure(say: Say) -> RowResult:
    with running(nodes=1, say=say) as bench:
        bench.create_pods(pods(scale.scaled(WRITES), schedulingGates=[GATE]))
        paths = [f"{pods_path()}/{name}" for name in bench.pod_names()]
        settings = _settings(bench)
        ways = {
            name: partial(_cost, make(settings), paths=paths)
            for name, make in CLIENTS.items()
            if _usable(name)
        }
        costs = in_turns(ways, told=lambda cost: f"{cost.cpu:.0f} µs", say=say)
    others = [name for name in costs if name not in {"ours", "no client"}]
    alone = median(cost.cpu for cost in costs["no client"])
    return RowResult(
        title="What the writes of a resume cost the server",
        about=f"{scale.scaled(WRITES):,} pods get another annotation, as parked pods do in a resume: by the "
        f"{THREADS} threads of a write queue, over TLS, with a token. CPU is that of the writing process "
        "(user and system) for each write, the write queue's own included; every client in turns.",
        lines=tuple(
            Line(
                what=f"{what} of a write, our client",
                beside=f"{other} in its place",
                unit="µs",
                ours=tuple(getattr(cost, field) for cost in costs["ours"]),
                theirs=tuple(getattr(cost, field) for cost in costs[other]),
            )
            for what, field in (("CPU", "cpu"), ("time", "wall"))
            for other in others
        ),
        notes=(f"The write queue without any client took {alone:.0f} µs of CPU for a write.",),
    )


def _cost(patch: Patch, *, paths: list[str]) -> Cost:
    writers = WriteQueue(metrics=Metrics(), threads=THREADS)
    left, done, failed = threading.Semaphore(0), len(paths), []
    body = {"metadata": {"annotations": {"sluice.dev/woken": str(time.time_ns())}}}

    def written(ok: bool) -> None:
        if not ok:
            failed.append(ok)
        left.release()

    patch(paths[0], body)  # a connection is there, as in a server that has run for a while
    writers.start()
    try:
        cpu, wall = time.process_time(), time.perf_counter()
        for path in paths:
            writers.submit(("bench", path), partial(patch, path, body), done=written)
        for _ in range(done):
            left.acquire()
        cost = Cost(cpu=time.process_time() - cpu, wall=time.perf_counter() - wall)
    finally:
        writers.stop()
    if failed:
        raise RuntimeError(f"{len(failed)} writes failed")
    return Cost(*(1e6 * seconds / done for seconds in cost))


def _settings(bench: Bench) -> Configuration:
    settings = Configuration()
    settings.host = bench.cluster.ports.apiserver_url
    settings.ssl_ca_cert = str(bench.cluster.layout.pki / "ca.crt")
    settings.api_key = {"authorization": f"Bearer {bench.token}"}
    return settings


def _headers(settings: Configuration) -> dict[str, str]:
    return {
        "Accept": "application/json",
        "User-Agent": "sluice",
        "Content-Type": MERGE,
        "Authorization": settings.api_key["authorization"],
    }


def _require_200(status: int) -> None:
    if status != 200:
        raise RuntimeError(f"status {status}")


def _nothing(_: Configuration) -> Patch:
    return lambda _path, _body: None


def _ours(settings: Configuration) -> Patch:
    return Client(settings).patch


def _urllib3(settings: Configuration) -> Patch:
    context = ssl.create_default_context(cafile=settings.ssl_ca_cert)
    pool = urllib3.PoolManager(maxsize=16, ssl_context=context, retries=False)
    headers = _headers(settings)

    def patch(path: str, body: object) -> None:
        reply = pool.request("PATCH", settings.host + path, body=json.dumps(body).encode(), headers=headers)
        _require_200(reply.status)

    return patch


def _http_client(settings: Configuration) -> Patch:
    context = ssl.create_default_context(cafile=settings.ssl_ca_cert)
    address = settings.host.removeprefix("https://")
    headers = _headers(settings)
    idle: deque[http.client.HTTPSConnection] = deque()

    def patch(path: str, body: object) -> None:
        connection = idle.pop() if idle else http.client.HTTPSConnection(address, context=context, timeout=35)
        connection.request("PATCH", path, body=json.dumps(body).encode(), headers=headers)
        reply = connection.getresponse()
        reply.read()
        idle.append(connection)
        _require_200(reply.status)

    return patch


def _pycurl(settings: Configuration) -> Patch:
    """One call for a request. It has no time-out for each reading, only one for the whole request."""
    pycurl: Any = importlib.import_module("pycurl")
    idle: deque[Any] = deque()

    def patch(path: str, body: object) -> None:
        curl = idle.pop() if idle else _curl(pycurl, settings)
        curl.setopt(pycurl.TIMEOUT_MS, 35_000)
        _prepare(pycurl, curl, settings, path, body)
        curl.perform()
        idle.append(curl)
        _require_200(curl.getinfo(pycurl.RESPONSE_CODE))

    return patch


def _pycurl_multi(settings: Configuration) -> Patch:
    """As the server would have to use it: with a time-out for each reading, and answers read as they come."""
    pycurl: Any = importlib.import_module("pycurl")
    idle: deque[tuple[Any, Any]] = deque()

    def patch(path: str, body: object) -> None:
        multi, curl = idle.pop() if idle else (pycurl.CurlMulti(), _curl(pycurl, settings))
        _prepare(pycurl, curl, settings, path, body)
        multi.add_handle(curl)
        while multi.perform()[1]:
            multi.select(35.0)
        _, done, failed = multi.info_read()
        multi.remove_handle(curl)
        if failed or not done:
            raise RuntimeError(str(failed))
        idle.append((multi, curl))
        _require_200(curl.getinfo(pycurl.RESPONSE_CODE))

    return patch


def _curl(pycurl: Any, settings: Configuration) -> Any:
    made = pycurl.Curl()
    made.setopt(pycurl.CUSTOMREQUEST, "PATCH")
    made.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
    made.setopt(pycurl.CAINFO_BLOB, Path(settings.ssl_ca_cert or "").read_bytes())
    made.setopt(pycurl.NOSIGNAL, 1)
    made.setopt(pycurl.TCP_NODELAY, 1)
    return made


def _prepare(pycurl: Any, curl: Any, settings: Configuration, path: str, body: object) -> None:
    """The token may change between requests. The answer's headers have the time and when to try again."""
    headers: list[bytes] = []
    answer: list[bytes] = []
    curl.setopt(pycurl.URL, settings.host + path)
    curl.setopt(pycurl.HTTPHEADER, [f"{name}: {value}" for name, value in _headers(settings).items()])
    curl.setopt(pycurl.POSTFIELDS, json.dumps(body))
    curl.setopt(pycurl.HEADERFUNCTION, headers.append)
    curl.setopt(pycurl.WRITEFUNCTION, answer.append)


CLIENTS: dict[str, Callable[[Configuration], Patch]] = {
    "ours": _ours,
    "no client": _nothing,
    "urllib3": _urllib3,
    "http.client": _http_client,
    "pycurl": _pycurl,
    "pycurl, waiting by itself": _pycurl_multi,
}


def _usable(name: str) -> bool:
    return not name.startswith("pycurl") or importlib.util.find_spec("pycurl") is not None
