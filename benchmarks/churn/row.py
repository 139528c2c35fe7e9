"""From the edit of a stop to its acknowledgement, and from a pod's end to the next release, during churn."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from statistics import median

import msgspec

from benchmarks import companions, scale
from benchmarks.acknowledgement import acknowledged
from benchmarks.bench import PATIENCE, Bench, running
from benchmarks.churn import load
from benchmarks.figures import Line, RowResult, at_most
from benchmarks.go_programs import built
from benchmarks.interleaved import in_turns
from benchmarks.objects import QUEUES, Object, answered, creations, pods_path, version
from benchmarks.rows.trees import all_queues
from benchmarks.scheduler_configurations import ours
from benchmarks.soak.repeated import Repeated
from benchmarks.watch import watched
from localcluster.build import Say
from localcluster.components import until

NUMBER, RATE, NODES = 400, 100, 50
#: Of whoever writes the pods.
WRITERS = 4
#: In each turn, in seconds: until the churn is what it will be, and between two figures.
WARM_UP, BETWEEN = 5.0, 1.0
#: Of which a turn's figure is the median.
FIGURES = 5
#: By how much each write of the server is late, in seconds.
DELAY = 0.02
REST, CHURN = "at rest", "during churn"
GOAL = at_most(3.0)
RELEASED = "sluice.dev/released"


class Times(msgspec.Struct, frozen=True):
    """Milliseconds of one turn: the medians, and the slowest of each."""

    stop: float
    release: float
    slowest_stop: float
    slowest_release: float

    def __str__(self) -> str:
        return f"acknowledged after {self.stop:.0f} ms, the next released after {self.release:.0f} ms"


class Churn:
    """The pods that come and go. For one thread at a time."""

    def __init__(self, bench: Bench) -> None:
        self._bench, self._writer = bench, Bench(bench.cluster, say=bench.say)
        self._second = 0
        self.latest = 0.0

    def fill(self) -> None:
        """As many pods are there afterwards as at any time during the churn."""
        for _ in range(load.LIFE):
            self._write_next()

    @contextmanager
    def going_on(self) -> Iterator[None]:
        ended = threading.Event()
        again = Repeated("pods", lambda _: self._write_next(), every=1.0, ended=ended, say=self._bench.say)
        with again:
            yield
        self.latest = max(self.latest, again.latest)

    def _write_next(self) -> None:
        second, self._second = self._second, self._second + 1
        requests = load.writes(second, rate=scale.scaled(RATE), count=scale.scaled(NUMBER))
        self._writer.write(requests, workers=WRITERS)


class Figures:
    """What is measured, with or without churn. For one thread."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._stops = count()

    def take(self) -> Times:
        stops, releases = [], []
        for _ in range(FIGURES):
            stops.append(1000 * self._stop())
            time.sleep(BETWEEN)
            releases.append(1000 * self._release())
            self.await_full()
            time.sleep(BETWEEN)
        return Times(median(stops), median(releases), max(stops), max(releases))

    def _stop(self) -> float:
        """Of the next of the queues; it goes on afterwards."""
        name = load.queue_names(scale.scaled(NUMBER))[7 * next(self._stops) % scale.scaled(NUMBER)]
        took = acknowledged(self._bench, name)
        self._bench.queue(name, state="Open")
        return took

    def _release(self) -> float:
        """Seconds from before a pod of the full queue is deleted until the next is seen released."""
        bench = self._bench
        released = set(self._of_full(RELEASED))
        ending = next(iter(self._of_full(field="status.phase=Running")))
        since = version(bench.must("GET", f"{pods_path()}?limit=1"))
        with watched(bench.cluster, pods_path(), since=since) as states:
            began = time.perf_counter()
            bench.must("DELETE", f"{pods_path()}/{ending}?gracePeriodSeconds=0")
            next(
                each
                for each in states
                if RELEASED in each["metadata"]["labels"] and name(each) not in released
            )
            return time.perf_counter() - began

    def await_full(self) -> None:
        """Its quota is used, by pods that run."""
        until(
            lambda: len(self._of_full(field="status.phase=Running")) == load.CAPABILITY,
            what="the full queue to be full",
            seconds=PATIENCE,
        )

    def _of_full(self, label: str = "", *, field: str = "") -> list[str]:
        """Names of its pods."""
        selector = f"sluice.dev/queue={load.FULL}" + (f",{label}" if label else "")
        return self._bench.pod_names(label=selector, field=field)


def name(found: Object) -> str:
    return str(found["metadata"]["name"])


def measure(say: Say) -> RowResult:
    seen: dict[float, Mapping[str, Sequence[Times]]] = {}
    with running(nodes=NODES, say=say) as bench:
        bench.install()
        churn, figures = Churn(bench), Figures(bench)
        _plant(bench)
        with bench.scheduling(ours()):
            churn.fill()
            figures.await_full()
            for delay in (0.0, DELAY):
                with _later(bench, delay):
                    ways = {
                        way: partial(_turn, bench, churn, figures, goes_on=way is CHURN)
                        for way in (REST, CHURN)
                    }
                    seen[delay] = in_turns(ways, told=str, say=say)
    return RowResult(
        title="Stops and freed room during churn",
        about=_about(),
        lines=tuple(line for delay in seen for line in _lines(seen[delay], delay)),
        notes=(
            *(_slowest(seen[delay][CHURN], delay) for delay in seen),
            f"The churn was {churn.latest:.1f} s late at most.",
        ),
    )


def _plant(bench: Bench) -> None:
    """The queues, and the pods of the full one."""
    for namespace in load.namespaces():
        bench.namespace(namespace)
    bench.queue(load.PARENT)
    bench.write(creations(QUEUES, load.queues(scale.scaled(NUMBER))))
    bench.queue(load.FULL, capability={"cpu": str(load.CAPABILITY)})
    until(lambda: all(map(answered, all_queues(bench))), what="the queues to be answered", seconds=PATIENCE)
    bench.create_pods(load.full_queue_s_pods())


@contextmanager
def _later(bench: Bench, seconds: float) -> Iterator[None]:
    """Each write of the server reaches the API server so much later."""
    if not seconds:
        yield
        return
    layout, url = bench.cluster.layout, bench.cluster.ports.apiserver_url
    kubeconfig = layout.component_kubeconfig("server")
    command = [
        *(str(built("delaying", say=bench.say)), "-url", url, "-ca", str(layout.pki / "ca.crt")),
        *("-seconds", str(seconds)),
    ]
    with companions.started(command) as (address, _):
        bench.halt()
        kubeconfig.write_text(kubeconfig.read_text().replace(url, address))
        bench.install()
        yield
        bench.halt()


def _turn(bench: Bench, churn: Churn, figures: Figures, *, goes_on: bool) -> Times:
    figures.await_full()
    bench.quiet()
    if not goes_on:
        return figures.take()
    with churn.going_on():
        time.sleep(WARM_UP)
        return figures.take()


def _lines(seen: Mapping[str, Sequence[Times]], delay: float) -> Iterator[Line]:
    late = _late(delay)
    for what, figure in (
        ("from the edit of a stop to its acknowledgement", "stop"),
        ("from a pod's end to the next release", "release"),
    ):
        yield Line(
            what=f"{what}, {CHURN}{late}",
            beside=f"the same {REST}",
            unit="ms",
            ours=tuple(getattr(each, figure) for each in seen[CHURN]),
            theirs=tuple(getattr(each, figure) for each in seen[REST]),
            goal=GOAL,
        )


def _slowest(seen: Sequence[Times], delay: float) -> str:
    stop, release = max(each.slowest_stop for each in seen), max(each.slowest_release for each in seen)
    return (
        f"The slowest {CHURN}{_late(delay)}: acknowledged after {stop:.0f} ms, the next released after "
        f"{release:.0f} ms."
    )


def _late(delay: float) -> str:
    return f", each write of the server {1000 * delay:.0f} ms later" if delay else ""


def _about() -> str:
    return (
        f"{scale.scaled(RATE)} pods a second are created and as many deleted, {load.LIFE} s later, in "
        f"{scale.scaled(NUMBER)} queues in turns, {load.NAMESPACES} namespaces, {NODES} nodes, the "
        "recommended scheduler settings. They have a gate of another owner, so that none is bound: to bind "
        "as many takes both cores by itself. Meanwhile one of these queues after the other is suspended, "
        "from before the patch until a client that only watches it reads the acknowledgement. And in a "
        "queue that is full, while others of it wait, one pod after the other is deleted, from before that "
        f"until the next is seen with label `{RELEASED}`. Beside it the same with the same pods, none of "
        f"which comes or goes. Each figure is the median of {FIGURES}. Then once more with a proxy between "
        f"the server and the API server that keeps each write for {1000 * DELAY:.0f} ms."
    )
