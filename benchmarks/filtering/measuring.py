"""p50 and p99 of one filter call, as kube-scheduler makes them: serial, keep-alive, TLS.

Ours is the whole server in a running control plane; beside it stands `twin`, a Go program that does the
same work. They are asked in turns, `ROUNDS` times `SECONDS` each; a figure is the median of the rounds'
ratios, with the least and the greatest beside it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from certs.authority import create
from localcluster.cluster import LocalCluster
from localcluster.waiting import until

HERE = Path(__file__).parent
LOAD = HERE.parent / "worker" / "load"
NAMES = (100, 1_000, 5_000)
ROUNDS, SECONDS = 7, 2.0
QUEUE = "research"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"

Figures = dict[str, float]
Target = tuple[str, Path]


def page() -> str:
    """Measure, and tell it as a page."""
    with tempfile.TemporaryDirectory() as folder:
        load = built(LOAD, Path(folder) / "load")
        twin = built(HERE / "twin", Path(folder) / "twin")
        cluster = LocalCluster.start(Path(folder) / "cluster", nodes=1, say=_say)
        try:
            rows = [row for stopped in (False, True) for row in _rows(cluster, load, twin, stopped=stopped)]
        finally:
            cluster.stop()
    return HEAD + "\n".join(rows) + "\n"


HEAD = f"""# Filter over the real wire

Ours beside a Go extender that does the same (`benchmarks/filtering/twin`), asked in turns:
{ROUNDS} rounds of {SECONDS:.0f} s each, serial calls over one TLS connection, a pod of 4 KiB.
Ratios, ours by Go's: the median of the rounds (least to greatest); below 1 ours is the faster.
Again: `make bench ROW=filter`.

| queue | node names | p50 | p99 |
|---|---:|---:|---:|
"""


def _rows(cluster: LocalCluster, load: Path, twin: Path, *, stopped: bool) -> Iterator[str]:
    _queue(cluster, state="Suspended" if stopped else "Open")
    ours: Target = (f"{cluster.ports.server_url}/extender/filter", Path(cluster.info["ca_file"]))
    with serving(twin, stopped=stopped) as theirs:
        for names in NAMES:
            pairs = [(ask(load, ours, names), ask(load, theirs, names)) for _ in range(ROUNDS)]
            cells = " | ".join(_ratio([a[key] / b[key] for a, b in pairs]) for key in ("p50_us", "p99_us"))
            _say(f"{'stopped' if stopped else 'open'}, {names} names: {cells}")
            yield f"| {'stopped' if stopped else 'open'} | {names:,} | {cells} |"


def ask(load: Path, target: Target, names: int) -> Figures:
    """One round at one server; raises if any call failed."""
    url, ca = target
    command = [load, "request", "-url", url, "-ca", ca, "-seconds", str(SECONDS), "-names", str(names)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    found: Figures = json.loads(answer.stdout)
    if found["errors"]:
        raise RuntimeError(f"{found['errors']} calls to {url} failed")
    return found


@contextmanager
def serving(twin: Path, *, stopped: bool) -> Iterator[Target]:
    """The Go extender, with a P-256 certificate like ours."""
    with tempfile.TemporaryDirectory() as folder:
        now = datetime.now(UTC)
        authority = create(name="twin", now=now)
        ca, _ = authority.save(Path(folder), stem="ca")
        cert, key = authority.serving(now=now, ips=["127.0.0.1"]).save(Path(folder), stem="twin")
        command = [twin, "-cert", cert, "-key", key, "-stopped", QUEUE if stopped else "another"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            yield f"https://{process.stdout.readline().strip()}/extender/filter", ca
        finally:
            process.terminate()
            process.wait()


def built(source: Path, target: Path) -> Path:
    """A small Go program of ours."""
    subprocess.run(["go", "build", "-o", target, "."], cwd=source, check=True)
    return target


def _queue(cluster: LocalCluster, *, state: str) -> None:
    body: dict[str, Any] = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": QUEUE},
        "spec": {"state": state},
    }
    cluster.kubectl("apply", "-f", "-", given=json.dumps(body))

    def observed() -> bool:
        with cluster.api() as api:
            return bool(
                api.request("GET", f"{QUEUES}/{QUEUE}").json().get("status", {}).get("state") == state
            )

    until(observed, what=f"queue {QUEUE} to be {state}")


def _ratio(ratios: list[float]) -> str:
    return f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
