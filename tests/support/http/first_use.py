"""Many processes in which several threads decode at once what none has decoded before. A script.

Each process is forked off one that has imported everything and decoded nothing, so it costs milliseconds.
Prints one line for each that did not end well: the number of the process and its status (-11 is SIGSEGV).
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import random
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from kubernetes.client import Configuration

import cluster
import controller
import extender
import queues
import server
import webhooks
from cluster.api.client import Client
from cluster.api.pages import list_objects
from cluster.cache.store import Clock, Store
from cluster.coordination.leases import Leases
from cluster.informers.informers import ALL_KINDS, Informers
from cluster.metrics import Metrics
from cluster.readiness import ClusterReadiness
from extender.routes import handlers as extender_handlers
from kubectl_queue.views.drain_status import drain_status_of
from queues.admission.field_validation import field_refusal
from queues.apimachinery.label_selectors import parse_selector
from queues.drain.model import parse_drain_spec
from queues.membership import MembershipSettings
from tests.support.cluster.readiness import FixedReadiness
from webhooks.routes import handlers as webhook_handlers
from webhooks.settings import AdmissionSettings

#: Of as many as these seven or so died before decoders were built at import.
PROCESSES = 30
THREADS = 12
#: For one process; it takes some hundredths.
SECONDS = 30
SWITCH_INTERVAL = 1e-5

Work = Callable[[], object]

META = {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "2", "labels": {"a": "b"}}
SELECTOR = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
DRAIN = {"rate": 1, "keep": SELECTOR, "deadline": "2030-01-31T18:00:00Z", "barePods": "Keep"}
SPEC = {"state": "Open", "parent": "root", "resumeAt": "2030-01-31T18:00:00Z", "drain": DRAIN}
OBJECT = {
    "metadata": META,
    "spec": {
        **SPEC,
        "containers": [{"resources": {"requests": {"cpu": "1"}}}],
        "template": {"metadata": META},
    },
    "status": {"conditions": [{"type": "a", "status": "True"}]},
}
STATUS = {"kind": "Status", "code": 500, "message": "as ordered"}


class Answering(Client):
    """An API server's answers, without one."""

    def __init__(self) -> None:
        settings = Configuration()
        settings.host = "http://127.0.0.1:1"
        super().__init__(settings)

    def request(self, method: str, path: str, **_: Any) -> bytes:
        if path.endswith("/a"):
            return encoded(OBJECT)
        return encoded({"metadata": {"resourceVersion": "1"}, "items": [OBJECT]})


def encoded(value: object) -> bytes:
    return json.dumps(value).encode()


def import_all() -> None:
    for package in (cluster, controller, extender, queues, server, webhooks):
        for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            importlib.import_module(found.name)


def works() -> list[Work]:
    """What the threads of a server that starts do first."""
    client = Answering()
    store = Store(membership_settings=MembershipSettings(), clock=Clock(), readiness=FixedReadiness())
    readiness = ClusterReadiness(ALL_KINDS, clock=store.clock.monotonic)
    watching = Informers(client=client, store=store, readiness=readiness, metrics=Metrics())
    leases = Leases(client, namespace="n", now=store.clock.now)
    found: list[Work] = [
        lambda: leases.get("a"),
        leases.list,
        lambda: list(list_objects(client, "/x")),
        lambda: parse_drain_spec(DRAIN),
        lambda: parse_selector(SELECTOR),
        lambda: field_refusal({}, SPEC),
        lambda: drain_status_of({"status": {"drain": {"evicted": 1}}}),
    ]
    for reflector in watching.reflectors.values():
        lines = [
            encoded({"type": "BOOKMARK", "object": OBJECT}),
            encoded({"type": "MODIFIED", "object": {"metadata": META, "spec": 1}}),
            encoded({"type": "ERROR", "object": STATUS}),
        ]
        found += [partial(reflector._apply, line) for line in lines]
    for path, handler in {**extender_handlers(store), **webhook_handlers(store, AdmissionSettings())}.items():
        found += [partial(handler, body) for body in bodies(path)]
    return found


def bodies(path: str) -> list[bytes]:
    if path.startswith("/extender"):
        return [encoded({"Pod": OBJECT, "NodeNames": ["a"]})]
    request = {
        "uid": "u",
        "kind": {"group": "batch", "version": "v1", "kind": "Job"},
        "resource": {"group": "batch", "version": "v1", "resource": "jobs"},
        "namespace": "n",
        "operation": "UPDATE",
        "userInfo": {"username": "somebody"},
        "object": OBJECT,
        "oldObject": {**OBJECT, "spec": {}},
    }
    return [encoded({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})]


def together(seed: int) -> None:
    """All of the works at once, in each thread in another order."""
    sys.setswitchinterval(SWITCH_INTERVAL)
    signal.alarm(SECONDS)
    todo, barrier = works(), threading.Barrier(THREADS)

    def run(number: int) -> None:
        own = todo[:]
        random.Random(f"{seed}-{number % 3}").shuffle(own)
        barrier.wait()
        for work in own:
            try:
                work()
            except Exception:  # noqa: S112 - what it says of a body of no sense is not what is looked at
                continue

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> None:
    import_all()
    for seed in range(PROCESSES):
        child = os.fork()
        if not child:
            status = 1
            try:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                together(seed)
                status = 0
            finally:
                os._exit(status)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code:
            print(seed, code, flush=True)
    print("done", flush=True)


if __name__ == "__main__":
    main()
