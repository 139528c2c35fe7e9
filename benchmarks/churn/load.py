"""Pods that come and go in hundreds of queues, and one queue that is full. Values only.

The pods of a second have names of their own, so that who deletes them needs to know nothing but the second.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.objects import Object, Request, creations, deletions, pod, pods, pods_path, queue

#: Below it are the queues of all that comes and goes.
PARENT = "churn"
#: On each of the pods that come and go: to bind as many in a second takes both cores by itself.
HELD = [{"name": "bench.dev/held"}]
#: How many seconds a pod is there.
LIFE = 20
#: The namespaces of the pods: of a queue all are in one.
NAMESPACES = 20
#: The queue without room, how much it has, and how many pods wait for that.
FULL, CAPABILITY, WAITING = "full", 20, 400


def queue_names(count: int) -> list[str]:
    return [f"{PARENT}-{number}" for number in range(count)]


def namespaces() -> list[str]:
    return [f"{PARENT}-{number}" for number in range(NAMESPACES)]


def queues(count: int) -> Iterator[Object]:
    yield from (queue(name, parent=PARENT) for name in queue_names(count))


def writes(second: int, *, rate: int, count: int) -> Iterator[Request]:
    """What is written in that second: the oldest go, and as many come, of all `count` queues in turns."""
    if second >= LIFE:
        for namespace, body in _bodies(second - LIFE, rate=rate, count=count):
            yield from deletions(pods_path(namespace), [body["metadata"]["name"]])
    for namespace, body in _bodies(second, rate=rate, count=count):
        yield from creations(pods_path(namespace), [body])


def _bodies(second: int, *, rate: int, count: int) -> Iterator[tuple[str, Object]]:
    for number in range(rate):
        turn = (second * rate + number) % count
        yield namespaces()[turn % NAMESPACES], _held_pod(f"pod-{second}-{number}", turn)


def _held_pod(name: str, turn: int) -> Object:
    return pod(name, queue=f"{PARENT}-{turn}", schedulingGates=HELD)


def full_queue_s_pods() -> list[Object]:
    """In this order: those that fill it, and those that wait."""
    return pods(CAPABILITY + WAITING, prefix=FULL, queue=FULL, cpu="1")
