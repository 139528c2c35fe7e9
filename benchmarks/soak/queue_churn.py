"""Queues that are stopped and resumed in turns, drained now and then, made and deleted."""

from __future__ import annotations

import time

from benchmarks.acknowledgement import acknowledged
from benchmarks.bench import PATIENCE, Bench
from benchmarks.objects import QUEUES as PATH
from benchmarks.objects import pods
from benchmarks.soak.pod_churn import (
    NAMESPACES,
    PARENT,
    QUEUES,
)
from benchmarks.soak.quarters import Reading
from localcluster.components import until

#: Each twelfth turn also drains a queue, until the next turn.
DRAINED = 12
#: Of a queue that comes and goes.
PODS = 5


def make_queues(bench: Bench) -> None:
    """They and the namespaces of their pods are there afterwards, all open."""
    for name in NAMESPACES:
        bench.namespace(name)
    bench.queue(PARENT)
    for name in QUEUES:
        bench.queue(name, parent=PARENT, state="Open")


class Turns:
    """One queue is suspended at any time, each in its turn. For one thread, but for reading `took`."""

    def __init__(self, bench: Bench, *, began: float) -> None:
        self._bench, self._began = bench, began
        #: Milliseconds from before the write of each stop until its acknowledgement.
        self.took: list[Reading] = []

    def turn(self, number: int) -> None:
        """The queue before goes on, this one stops."""
        self._set(number - 1, state="Open", stopPolicy="None")
        self._drain(number)
        took = acknowledged(self._bench, QUEUES[number % len(QUEUES)])
        self.took.append(Reading(time.monotonic() - self._began, 1000 * took))

    def _drain(self, number: int) -> None:
        """Not the one that stops now, nor the one that stops next."""
        other = number + len(QUEUES) // 2
        if number % DRAINED == DRAINED - 1:
            self._set(other, stopPolicy="HoldAndDrain")
        elif number % DRAINED == 0:
            self._set(other - 1, stopPolicy="None")

    def _set(self, number: int, **spec: str) -> None:
        self._bench.must("PATCH", f"{PATH}/{QUEUES[number % len(QUEUES)]}", {"spec": spec})


class Visits:
    """Queues that come with a namespace and some pods, and go again. For one thread."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def visit(self, number: int) -> None:
        """Nothing of it is left but a namespace on its way out."""
        bench, name = self._bench, f"visitor-{number}"
        bench.namespace(name)
        bench.queue(name, parent="root")
        bench.create_pods(pods(PODS, queue=name), namespace=name)
        bench.await_running(namespace=name)
        bench.clear(namespace=name)
        bench.queue(name, state="Closed")
        until(lambda: self._state(name) == "Closed", what=f"queue {name} to be Closed", seconds=PATIENCE)
        bench.must("DELETE", f"{PATH}/{name}")
        bench.must("DELETE", f"/api/v1/namespaces/{name}")

    def _state(self, name: str) -> object:
        return self._bench.must("GET", f"{PATH}/{name}").get("status", {}).get("state")
