"""What is asked of the server all the while: members are created, and a queue is stopped and resumed.

The members that flow are bound to a node without a kubelet, so that a bind is all that they cost.
"""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

from localcluster.cluster import LocalCluster
from tests.support.e2e.api_requests import Api
from tests.support.e2e.objects import pod_body
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.stop import Stop
from tests.support.e2e.wait import until

T = TypeVar("T")

NODE = "without-kubelet"
#: The server's pods do not tolerate it.
TAINT = {"key": "tests.sluice.dev/without-kubelet", "effect": "NoSchedule"}
THERE: dict[str, Any] = {
    "nodeSelector": {"kubernetes.io/hostname": NODE},
    "tolerations": [{"operator": "Exists"}],
}
#: Members that wait when a round begins; members and pods of no queue that are made while it is stopped.
BACKLOG, LATE, OTHERS = 6, 2, 2
#: Between two creations, and two rounds: kind to the machine.
CREATION_PAUSE, ROUND_PAUSE = 0.03, 0.3


class Creation(NamedTuple):
    """One member that was asked for. `began`: monotonic seconds; `error`: empty if it was created."""

    began: float
    seconds: float
    error: str


@dataclass(frozen=True)
class Round:
    """One stop and what it let through. `seconds`: from the request until the acknowledgement."""

    seconds: float
    bound_after_it: tuple[str, ...]


class Traffic:
    """What came of the creations and the rounds; complete once `flowing` has ended."""

    def __init__(self) -> None:
        self.creations: list[Creation] = []
        self.rounds: list[Round] = []

    @property
    def failures(self) -> list[Creation]:
        return [each for each in self.creations if each.error]

    @property
    def seconds_of_failures(self) -> float:
        """From the begin of the first one until the end of the last one."""
        if not self.failures:
            return 0.0
        return max(each.began + each.seconds for each in self.failures) - self.failures[0].began

    def assert_no_pod_was_bound_after_a_stop(self) -> None:
        assert self.rounds
        assert [each.bound_after_it for each in self.rounds] == [()] * len(self.rounds)

    def assert_uninterrupted(self) -> None:
        """No creation failed either."""
        assert self.failures == []
        self.assert_no_pod_was_bound_after_a_stop()

    def report(self, title: str) -> str:
        stops = ", ".join(f"{each.seconds:.1f}" for each in self.rounds)
        failed = f"{len(self.failures)} failed in {self.seconds_of_failures:.1f} s"
        texts = {each.error for each in self.failures}
        lines = [f"{title}: {len(self.creations)} creations, {failed}; acknowledged after {stops} s"]
        return "\n".join([*lines, *(f"    {text[:300]}" for text in sorted(texts)[:5])])

    def wait_for_rounds(self, more: int) -> None:
        """Returns once so many more rounds than now are complete."""
        wanted = len(self.rounds) + more
        until(lambda: len(self.rounds) >= wanted, f"{more} more rounds", seconds=180)

    def wait_for_creations(self, more: int) -> None:
        """Returns once so many more members have been created than now."""
        wanted = self._created() + more
        until(lambda: self._created() >= wanted, f"{more} more members", seconds=180)

    def _created(self) -> int:
        return len(self.creations) - len(self.failures)


@contextmanager
def flowing(cluster: LocalCluster, *, title: str, stops: bool = True) -> Iterator[Traffic]:
    """Creations, and rounds if `stops`, go on while the body runs; the round under way is completed."""
    traffic, ended = Traffic(), threading.Event()
    ensure_node(cluster)
    sandbox = _sandbox(cluster)
    created = sandbox.queue("open")
    stopped = sandbox.queue("stopped") if stops else ""
    with ExitStack() as afterwards:  # the last one first
        afterwards.callback(lambda: print(traffic.report(title)))
        afterwards.callback(sandbox.close)
        afterwards.callback(sandbox.delete_pods)
        pool = afterwards.enter_context(ThreadPoolExecutor(2, thread_name_prefix="traffic"))
        tasks = [pool.submit(_create, cluster, sandbox.namespace, created, traffic, ended)]
        if stops:
            tasks.append(pool.submit(_rounds, sandbox, stopped, traffic, ended))
        for task in tasks:
            afterwards.callback(task.result)
        afterwards.callback(ended.set)
        begun = partial(_under_way, traffic, tasks, stops)
        until(begun, "the first round and creation", share=0, seconds=180)
        yield traffic


def insist(ask: Callable[[], T], what: str) -> T:
    """What `ask` returns, once the API server answers it."""

    def answered() -> tuple[T] | None:
        try:
            return (ask(),)
        except AssertionError:  # refused: it is starting
            return None

    return until(answered, what)[0]


def ensure_node(cluster: LocalCluster) -> None:
    """The node without a kubelet: it takes pods that tolerate everything, and never fails."""
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": NODE, "labels": {"kubernetes.io/hostname": NODE}},
        "spec": {"taints": [TAINT]},
    }
    room = {"cpu": "1000", "memory": "1000Gi", "pods": "100000"}
    with Api(cluster) as api:
        api.create("/api/v1/nodes", node).must(201, 409)
        api.patch(f"/api/v1/nodes/{NODE}/status", {"status": {"capacity": room, "allocatable": room}}).must()


def _sandbox(cluster: LocalCluster) -> Sandbox:
    """In whose namespace pods can be created."""
    sandbox = Sandbox(cluster)
    account = f"{sandbox.home}/serviceaccounts/default"
    until(lambda: sandbox.api.get(account).status == 200, "the service account of the pods")
    return sandbox


def _under_way(traffic: Traffic, tasks: list[Future[None]], stops: bool) -> bool:
    begun = traffic.creations and (traffic.rounds or not stops)
    return bool(begun) or any(task.done() for task in tasks)


def _create(
    cluster: LocalCluster, namespace: str, queue: str, traffic: Traffic, ended: threading.Event
) -> None:
    """One member after another, as dry runs: the webhooks are called all the same."""
    path, body = f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod_body("created", queue)
    with Api(cluster) as api:
        while not ended.wait(CREATION_PAUSE):
            began = time.monotonic()
            error = _error_of(lambda: api.create(path, body))
            traffic.creations.append(Creation(began, time.monotonic() - began, error))


def _error_of(create: Callable[[], Any]) -> str:
    try:
        answer = create()
    except (OSError, http.client.HTTPException) as exc:
        return f"no answer: {exc!r}"
    return "" if answer.status == 201 else f"{answer.status} {answer.message}"


def _rounds(sandbox: Sandbox, queue: str, traffic: Traffic, ended: threading.Event) -> None:
    rounds = _Rounds(sandbox, queue)
    while not ended.wait(ROUND_PAUSE):
        traffic.rounds.append(rounds.run())


class _Rounds:
    """The queue is resumed, its members flow, it is stopped, and others are bound after that."""

    def __init__(self, sandbox: Sandbox, queue: str) -> None:
        self._sandbox, self._queue = sandbox, queue
        self._made = 0

    def run(self) -> Round:
        waiting = sorted(insist(self._sandbox.waiting, "the waiting pods to be listed"))
        members = [*waiting, *self._make("member", BACKLOG - len(waiting), self._queue)]
        until(self._resumed, "a resume")
        until(lambda: self._bound(members), "members to be bound", share=0, seconds=180)
        stop = Stop(self._sandbox, self._queue)
        self._make("member", LATE, self._queue)
        others = self._make("other", OTHERS, "")
        until(lambda: self._bound(others) == set(others), "others to be bound", seconds=180)
        by_version = insist(stop.bound_since, "the pods to be listed as they were at the acknowledgement")
        return Round(stop.seconds, tuple(sorted({*by_version, *stop.binds_behind_the_mark()})))

    def _bound(self, names: list[str]) -> set[str]:
        return insist(lambda: self._sandbox.bound(names), "the bound pods to be listed")

    def _make(self, kind: str, count: int, queue: str) -> list[str]:
        names = []
        for _ in range(count):
            self._made += 1
            names.append(f"{kind}-{self._made}")
            until(partial(self._is_made, names[-1], queue), "a pod to be created")
        return names

    def _is_made(self, name: str, queue: str) -> bool:
        return self._sandbox.pod(name, queue, **THERE).status in (201, 409)

    def _resumed(self) -> bool:
        return self._sandbox.patch_queue(self._queue, state="Open").status == 200
