"""Pods that come and go: each second as many are created as are deleted. Values only.

A second's pods have names of their own, so that who deletes them needs to know nothing but the second.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.objects import (
    Object,
    Request,
    creations,
    deletions,
    pod,
    pods_path,
)

#: Pods a second. Ten of them, with their queues, took 0.6 of a core: twice as many leave room for the rest.
RATE = 20
#: How many seconds a pod is there.
LIFE = 20
PARENT = "soak"
#: Queue `soak-5` has its pods in the second namespace, beside those of `soak-1` and of no queue.
QUEUES = tuple(f"soak-{number}" for number in range(8))
NAMESPACES = tuple(f"soak-{number}" for number in range(4))
#: So many seconds of running; then kwok lets it succeed.
COMPLETES = "pod-complete.stage.kwok.x-k8s.io/delay"
#: Every fifth pod ends by itself before it is deleted.
ENDING = 5


def home(queue: str) -> str:
    """The namespace of its pods."""
    return NAMESPACES[QUEUES.index(queue) % len(NAMESPACES)]


def writes(second: int, *, rate: int = RATE) -> Iterator[Request]:
    """What is written in that second: the oldest go, new ones come."""
    if second >= LIFE:
        for namespace, body in bodies(second - LIFE, rate=rate):
            yield from deletions(pods_path(namespace), [body["metadata"]["name"]])
    for namespace, body in bodies(second, rate=rate):
        yield from creations(pods_path(namespace), [body])


def bodies(second: int, *, rate: int) -> Iterator[tuple[str, Object]]:
    """The pods of one second with their namespaces: every other one is a member, of all queues in turns."""
    for number in range(rate):
        turn = second * rate + number
        queue = QUEUES[turn // 2 % len(QUEUES)]
        body = pod(f"pod-{second}-{number}", queue=queue if number % 2 else "", restartPolicy="Never")
        if number % ENDING == 0:
            body["metadata"]["annotations"][COMPLETES] = "5s"
        yield home(queue), body
