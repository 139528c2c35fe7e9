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
from tests.support.e2e.calling import Api, watched
from tests.support.e2e.fleet import Fleet
from tests.support.e2e.shapes import (
    pod_body,
    state_of,
    version,
)
from tests.support.e2e.stage import QUEUES, Stage
from tests.support.e2e.waiting_for import until
from tests.support.faults.slow_webhook import SlowWebhook

ROUNDS = 5
COMERS = 3
SECONDS = 0.7


@pytest.fixture(scope="module")
def late(fleet: Fleet) -> Fleet:
    """One of them hears of everything late."""
    fleet.ways["server-2"].delay = 0.2
    return fleet


@contextmanager
def coming(stage: Stage, queue: str) -> Iterator[list[int]]:
    """Pods are asked for by several clients until it ends; the statuses of the answers."""
    answers: list[int] = []
    ended = threading.Event()

    def come(number: int) -> None:
        with Api(stage.cluster) as api:
            while not ended.is_set():
                body = pod_body(f"member-{queue[-1]}-{number}-{len(answers)}", queue)
                answers.append(api.create(stage.pods_path, body).status)

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


def closed_at(stage: Stage, queue: str) -> int:
    """Where the write that says Closed stands among all writes; whoever is there is deleted meanwhile."""

    def found() -> int:
        stage.api.delete(f"{stage.pods_path}?gracePeriodSeconds=0").must()
        read = stage.read_queue(queue)
        return version(read) if state_of(read) == "Closed" else 0

    return until(found, f"{queue} to be Closed")


@pytest.fixture
def stage(module_cluster: LocalCluster, late: Fleet) -> Iterator[Stage]:
    made = Stage(module_cluster)
    yield made
    made.close()


def deleted(stage: Stage, queue: str) -> bool:
    return stage.api.delete(f"{QUEUES}/{queue}").status == 200


def test_no_pod_comes_to_a_closed_queue(stage: Stage, tmp_path: Path) -> None:
    """Round after round: close in mid-flow, see it Closed, delete it."""
    with SlowWebhook(stage, tmp_path, seconds=SECONDS, resources=["pods"]) as webhook:
        until(lambda: stage.pod("would-be", dry=True).status == 201 and webhook.seen, "the webhook")
        for number in range(ROUNDS):
            queue = stage.queue(f"round-{number}")
            since = stage.api.get(stage.pods_path).must().body["metadata"]["resourceVersion"]
            with coming(stage, queue) as answers:
                until(partial(contains, answers, 201), "pods to come")
                stage.patch_queue(queue, state="Closed").must()
                closed = closed_at(stage, queue)
            # The replica that hears late may still know of pods that have ended.
            until(partial(deleted, stage, queue), "the queue to go")
            stage.pod("last").must()
            assert came_after(stage, closed, since=since) == []
            stage.delete_pods()
            assert 403 in answers, "somebody was refused"


def came_after(stage: Stage, closed: int, *, since: str) -> list[str]:
    """The pods that were there, and not on their way out, after the queue was said to be Closed."""
    found = []
    with closing(watched(stage.cluster, stage.pods_path, since=since)) as changes:
        for pod in changes:
            if pod["metadata"]["name"] == "last":
                break
            if version(pod) > closed and "deletionTimestamp" not in pod["metadata"]:
                found.append(pod["metadata"]["name"])
    return found
