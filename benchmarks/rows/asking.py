"""What one small write costs whoever sends it: our client beside urllib3."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable
from functools import partial

import urllib3

from benchmarks import scale
from benchmarks.bench import Bench, running
from benchmarks.figures import Line, RowResult
from benchmarks.interleaved import in_turns
from benchmarks.objects import HOME, MERGE
from cluster.api.client import Client, load_configuration
from localcluster.build import Say

WRITES, THREADS = 2_000, 4
COLLECTION = f"/api/v1/namespaces/{HOME}/configmaps"
WRITTEN = f"{COLLECTION}/written"
#: So long that the answer is about as long as a pod.
PADDING = "x" * 3_000
CHANGE = {"data": {"key": "value"}}


def measure(say: Say) -> RowResult:
    with running(nodes=1, say=say) as bench:
        bench.must("POST", COLLECTION, {"metadata": {"name": "written"}, "data": {"pad": PADDING}})
        ways = {
            name: partial(_cpu, write) for name, write in (("ours", _ours(bench)), ("urllib3", _other(bench)))
        }
        seen = in_turns(ways, told=lambda micros: f"{micros:.0f} µs", say=say)
    return RowResult(
        title="What a write costs the server",
        about=f"{scale.scaled(WRITES):,} patches of a ConfigMap of 3 KB, which change nothing, by {THREADS} "
        "threads of one process over TLS: the CPU time of that process for each.",
        lines=(
            Line(
                what="CPU of a patch, our client",
                beside="urllib3 in its place",
                unit="µs",
                ours=tuple(seen["ours"]),
                theirs=tuple(seen["urllib3"]),
            ),
        ),
    )


def _cpu(write: Callable[[], None]) -> float:
    """Microseconds of all threads for each write."""
    each = scale.scaled(WRITES) // THREADS

    def some() -> None:
        for _ in range(each):
            write()

    write()
    began = time.process_time()
    threads = [threading.Thread(target=some) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 1e6 * (time.process_time() - began) / (each * THREADS)


def _ours(bench: Bench) -> Callable[[], None]:
    client = Client(load_configuration(str(bench.cluster.layout.kubeconfig)))

    def write() -> None:
        client.patch(WRITTEN, CHANGE)

    return write


def _other(bench: Bench) -> Callable[[], None]:
    settings = load_configuration(str(bench.cluster.layout.kubeconfig))
    context = ssl.create_default_context(cafile=settings.ssl_ca_cert)
    assert settings.cert_file is not None, "the administrator's kubeconfig has a certificate"
    context.load_cert_chain(settings.cert_file, settings.key_file)
    pool = urllib3.PoolManager(maxsize=16, ssl_context=context, retries=False)
    body = json.dumps(CHANGE).encode()

    def write() -> None:
        reply = pool.request("PATCH", settings.host + WRITTEN, body=body, headers={"Content-Type": MERGE})
        if reply.status != 200:
            raise RuntimeError(f"status {reply.status}")

    return write
