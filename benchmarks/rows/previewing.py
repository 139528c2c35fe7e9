"""`kubectl queue drain --dry-run` of one queue among many: seconds, and the memory of the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks import scale
from benchmarks.bench import Bench, running
from benchmarks.figures import Line, RowResult, at_most
from benchmarks.objects import (
    JSON,
    QUEUES,
    Object,
    Request,
    pod,
    pods_path,
    queue,
)
from localcluster.build import Say

#: Pods of the queue, all pods, and other queues.
OURS, ALL, OTHERS = 2_000, 30_000, 800
NAMESPACES, JOBS = 5, 100
NODES = 300
#: Seconds and MiB that a preview may take.
SECONDS, MEMORY = 1.0, 100.0
_QUEUE, _LABEL = "research", "sluice.dev/queue"
#: What a pod in use has beside what a row's pods have: environment, mounts, a status.
_PADDING = {"bench.sluice.dev/padding": "x" * 1500}
_JOBS = "/apis/batch/v1/namespaces/{}/jobs"


class Cost(NamedTuple):
    """Seconds, and the most that a process of the command held, in MiB."""

    seconds: float
    memory: float


def measure(say: Say) -> RowResult:
    labelled: list[tuple[Cost, Cost]] = []
    unlabelled: list[tuple[Cost, Cost]] = []
    number, others = scale.scaled(OURS), scale.scaled(ALL - OURS)
    with running(nodes=min(NODES, scale.scaled(NODES)), say=say) as bench:
        bench.cluster.stop_components("kwok", "kube-controller-manager")  # nothing changes what is listed
        bench.write([*_queues(scale.scaled(OTHERS))])
        _plant(bench, number)
        for seen, label in ((labelled, True), (unlabelled, False)):
            bench.write([*_others(others, labelled=label)])
            _preview(bench)  # it has been read from disk
            _listed(bench)
            for turn in scale.rounds():
                seen.append((_preview(bench), _listed(bench)))
                ours, theirs = seen[-1]
                took = f"{ours.seconds:.2f} s, {ours.memory:.0f} MiB"
                say(f"pair {turn}: {took}; kubectl {theirs.seconds:.2f} s")
            _clear(bench)
    return RowResult(
        title="What a drain would do",
        about="`kubectl queue drain --dry-run=client` of a queue with "
        f"{number:,} of {number + others:,} pods, in {NAMESPACES} namespaces and of {JOBS} Jobs, from its "
        "start to its end, and the most that its largest process held. The others are in "
        f"{scale.scaled(OTHERS)} queues, or in none: then their metadata is read, since a member may have "
        "lost its label. Beside it `kubectl get pods -A -l` of the same pods. No server and no controller "
        "runs.",
        lines=(
            *_lines(labelled, "the others in other queues", has_goal=True),
            *_lines(unlabelled, "the others in no queue", has_goal=False),
        ),
    )


def _lines(seen: Sequence[tuple[Cost, Cost]], what: str, *, has_goal: bool) -> Iterator[Line]:
    ours, theirs = [each for each, _ in seen], [each for _, each in seen]

    def line(beside: str, unit: str, mine: list[float], other: list[float], *, bound: bool) -> Line:
        return Line(
            what=what,
            beside=beside,
            unit=unit,
            ours=tuple(mine),
            theirs=tuple(other),
            goal=at_most(1.0) if bound and has_goal else None,
        )

    seconds, memory = [each.seconds for each in ours], [each.memory for each in ours]
    yield line("1 s", "s", seconds, [SECONDS] * len(seen), bound=True)
    yield line("100 MiB", "MiB", memory, [MEMORY] * len(seen), bound=True)
    yield line("`kubectl get pods -A -l`", "s", seconds, [each.seconds for each in theirs], bound=False)


def _queues(others: int) -> Iterator[Request]:
    for name in ("root", _QUEUE, *(f"other-{number}" for number in range(others))):
        parent = {} if name == "root" else {"parent": "root"}
        yield Request("POST", QUEUES, JSON, queue(name, **parent))


def _names(prefix: str) -> list[str]:
    return [f"{prefix}-{number}" for number in range(NAMESPACES)]


def _plant(bench: Bench, number: int) -> None:
    for name in (*_names("ours"), *_names("other")):
        bench.namespace(name)
    bench.write([Request("POST", _JOBS.format(f"ours-{n % NAMESPACES}"), JSON, _job(n)) for n in range(JOBS)])
    jobs = {
        each["metadata"]["name"]: each["metadata"]
        for name in _names("ours")
        for each in bench.must("GET", _JOBS.format(name))["items"]
    }
    bench.write([*_of_jobs(number, jobs)])


def _job(number: int) -> Object:
    """One that no controller of the cluster acts on."""
    spec = {"containers": [{"name": "main", "image": "none"}], "restartPolicy": "Never"}
    template = {"metadata": {"annotations": {_LABEL: _QUEUE}}, "spec": spec}
    return {"metadata": {"name": f"job-{number}"}, "spec": {"suspend": False, "template": template}}


def _of_jobs(number: int, jobs: dict[str, Object]) -> Iterator[Request]:
    for place in range(number):
        job = jobs[f"job-{place % JOBS}"]
        made = _pod(f"work-{place}", _QUEUE, place)
        made["metadata"]["ownerReferences"] = [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": job["name"],
                "uid": job["uid"],
                "controller": True,
            }
        ]
        yield Request("POST", pods_path(job["namespace"]), JSON, made)


def _others(number: int, *, labelled: bool) -> Iterator[Request]:
    for place in range(number):
        name = f"other-{place % scale.scaled(OTHERS)}" if labelled else ""
        namespace = f"other-{place % NAMESPACES}"
        yield Request("POST", pods_path(namespace), JSON, _pod(f"p-{labelled:d}-{place}", name, place))


def _pod(name: str, in_queue: str, place: int) -> Object:
    made = pod(name, nodeName=f"node-{place % min(NODES, scale.scaled(NODES))}")
    marks = {_LABEL: in_queue} if in_queue else {}
    made["metadata"]["labels"] |= marks
    made["metadata"]["annotations"] = {**marks, **_PADDING}
    return made


def _clear(bench: Bench) -> None:
    for name in _names("other"):
        bench.clear(namespace=name)


def _preview(bench: Bench) -> Cost:
    program = Path(sys.executable).parent / "kubectl-queue"
    return _cost([str(program), "drain", _QUEUE, "--dry-run=client", *_access(bench)], bench)


def _listed(bench: Bench) -> Cost:
    kubectl = str(bench.cluster.layout.bin / "kubectl")
    return _cost([kubectl, "get", "pods", "-A", "-l", f"{_LABEL}={_QUEUE}", *_access(bench)], bench)


def _access(bench: Bench) -> list[str]:
    return ["--kubeconfig", str(bench.cluster.client_kubeconfig)]


#: A small process in between: what a process held before it became the command counts as the command's.
_MEASURED = """
import json, resource, subprocess, sys, time
began = time.monotonic()
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
seconds = time.monotonic() - began
print(json.dumps([code, seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss]))
"""


def _cost(command: Sequence[str], bench: Bench) -> Cost:
    path = f"{bench.cluster.layout.bin}:{os.environ['PATH']}"
    said = subprocess.run(
        [sys.executable, "-c", _MEASURED, *command],
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        check=True,
    )
    code, seconds, kib = json.loads(said.stdout)
    if code:
        raise RuntimeError(f"{command}: exit code {code}")
    return Cost(seconds, kib / 1024)
