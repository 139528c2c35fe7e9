"""Three replicas, a slow webhook of others, and pods that come all the while: once a queue is said to be
Closed no pod comes to it any more, and so none is ever in a queue that was deleted."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from operator import contains
from pathlib import Path

import pytest

from localcluster.cluster import LocalCluster
from tests.support.e2e.api_requests import Api, watched
from tests.support.e2e.fleet import Fleet
from tests.support.e2e.objects import (
    pod_body,
    state_of,
    version,
)
from tests.support.e2e.sandbox import QUEUES, Sandbox
from tests.support.e2e.wait import until
from tests.support.faults.slow_webhook import SlowWebhook

ROUNDS = 3
COMERS = 3
SECONDS = 0.7


@pytest.fixture(scope="module")
def late(fleet: Fleet) -> Fleet:
    """One of them hears of everything late."""
    fleet.ways["server-2"].delay = 0.2
    return fleet


@contextmanager
def coming(sandbox: Sandbox, queue: str) -> Iterator[list[int]]:
    """Pods are asked for by several clients until it ends; the statuses of the answers."""
    answers: list[int] = []
    ended = threading.Event()

    def come(number: int) -> None:
        with Api(sandbox.cluster) as api:
            while not ended.is_set():
                body = pod_body(f"member-{queue[-1]}-{number}-{len(answers)}", queue)
                answers.append(api.create(sandbox.pods_path, body).status)

    threads = [
        threading.Thread(target=come, args=(number,), name=f"comer-{number}") for number in range(COMERS)
    ]
    for thread in threads:
        thread.start()
    try:
        yield answers
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def closed_at(sandbox: Sandbox, queue: str) -> int:
    """Where the write that says Closed stands among all writes; whoever is there is deleted meanwhile."""

    def found() -> int:
        sandbox.api.delete(f"{sandbox.pods_path}?gracePeriodSeconds=0").must()
        read = sandbox.read_queue(queue)
        return version(read) if state_of(read) == "Closed" else 0

    return until(found, f"{queue} to be Closed")


@pytest.fixture
def sandbox(module_cluster: LocalCluster, late: Fleet) -> Iterator[Sandbox]:
    made = Sandbox(module_cluster)
    yield made
    made.close()


def deleted(sandbox: Sandbox, queue: str) -> bool:
    return sandbox.api.delete(f"{QUEUES}/{queue}").status == 200


def test_no_pod_comes_to_a_closed_queue(sandbox: Sandbox, tmp_path: Path) -> None:
    """Round after round: close in mid-flow, see it Closed, delete it."""
    with SlowWebhook(sandbox, tmp_path, seconds=SECONDS, resources=["pods"]) as webhook:
        until(lambda: sandbox.pod("would-be", dry=True).status == 201 and webhook.seen, "the webhook")
        for number in range(ROUNDS):
            queue = sandbox.queue(f"round-{number}")
            since = sandbox.api.get(sandbox.pods_path).must().body["metadata"]["resourceVersion"]
            with coming(sandbox, queue) as answers:
                until(partial(contains, answers, 201), "pods to come")
                sandbox.patch_queue(queue, state="Closed").must()
                closed = closed_at(sandbox, queue)
                until(partial(contains, answers, 403), "somebody to be refused")
            # The replica that hears late may still know of pods that have ended.
            until(partial(deleted, sandbox, queue), "the queue to go")
            sandbox.pod("last").must()
            assert came_after(sandbox, closed, since=since) == []
            sandbox.delete_pods()


def came_after(sandbox: Sandbox, closed: int, *, since: str) -> list[str]:
    """The pods that were there, and not on their way out, after the queue was said to be Closed."""
    found = []
    with closing(watched(sandbox.cluster, sandbox.pods_path, since=since)) as changes:
        for pod in changes:
            if pod["metadata"]["name"] == "last":
                break
            if version(pod) > closed and "deletionTimestamp" not in pod["metadata"]:
                found.append(pod["metadata"]["name"])
    return found
