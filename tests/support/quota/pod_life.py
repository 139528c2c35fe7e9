"""What users and nodes do in the run under faults: pods come, end, fail, are evicted and resized; some are
made again by a ReplicaSet.
"""

from __future__ import annotations

import http.client
import random
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from tests.support.e2e.api_requests import MERGE, STRATEGIC, Answer, Api, Object
from tests.support.e2e.objects import GROUPED_BY, IGNORES_SIGTERM, on_a_node, pod_body, podgroup_body
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.workloads import REPLICA_SET, work_body
from tests.support.quota.fault_tree import GPU, LEAVES, TREE
from tests.support.quota.quota_judge import RELEASED
from tests.support.quota.quota_recorder import RecordedPods

#: The queues with a workload that makes its pods again.
MADE_AGAIN = ("a2", "b3", "d2")
#: Seconds that a pod runs, on the average, before something ends it.
LIFE = 14.0
#: Seconds between two turns of each of those who act.
TURN = 0.25
#: How pods on nodes end.
WAYS = ("succeeds", "fails", "deleted", "evicted")
#: How often a gang comes instead of a pod: one pod in five is of a gang.
GANGS = 0.06


class Arrival(NamedTuple):
    """A pod, or a PodGroup with that minimum. `gang`: of which it is. `is_at_once`: it comes with the one
    before it, whoever is due.
    """

    name: str
    queue: str
    gang: str = ""
    least: int = 0
    is_at_once: bool = False


def random_arrivals(total: int, chance: random.Random) -> list[Arrival]:
    """So many pods. Those of a gang come at once, or one by one among others; their PodGroup comes before
    them, or later.
    """
    names = (f"p{number}" for number in range(total))
    found: list[Arrival] = []
    slow: deque[Arrival] = deque()
    for name in names:
        if slow and chance.random() < 0.5:
            found.append(slow.popleft()._replace(name=name))
            continue
        queue, least = chance.choice(LEAVES), chance.randint(2, 5)
        if chance.random() >= GANGS:
            found.append(Arrival(name, queue))
            continue
        least = min(least, TREE[queue].capability.get("pods", least))
        gang = f"g{name}"
        group = Arrival(gang, queue, gang, least, is_at_once=True)
        others = [Arrival("", queue, gang)] * (least - 1 + (chance.random() < 0.25))
        is_first = chance.random() < 0.7
        found += [group] * is_first + [Arrival(name, queue, gang)]
        if chance.random() < 0.5:
            found += [
                each._replace(name=next_name, is_at_once=True)
                for each, next_name in zip(others, names, strict=False)
            ]
        else:
            slow.extend(others)
        if not is_first:
            found.append(group._replace(is_at_once=False))
    return found


def gang_pod(name: str, queue: str, gang: str, chance: random.Random) -> Object:
    """Small: the largest gang fits into the smallest queue."""
    requests = {"cpu": chance.choice(["250m", "500m"]), "memory": chance.choice(["256Mi", "512Mi"])}
    body = pod_body(name, queue, annotations={GROUPED_BY: gang})
    body["spec"]["containers"][0]["resources"] = {"requests": requests}
    return body


def random_pod(name: str, queue: str, chance: random.Random) -> Object:
    """Requests of some of the resources; with an init container now and then, and one that ends slowly."""
    requests = {"cpu": f"{chance.choice([250, 500, 1000, 1500, 2000, 3000])}m"}
    if chance.random() < 0.7:
        requests["memory"] = f"{chance.choice([256, 512, 1024, 2048])}Mi"
    gpus = chance.choice([1, 1, 2]) if chance.random() < 0.15 else 0
    more: dict[str, Any] = {}
    if chance.random() < 0.1:
        first = {"name": "first", "image": "none", "resources": {"requests": {"cpu": "2500m"}}}
        more["initContainers"] = [first]
    if chance.random() < 0.1:
        more |= {"annotations": {IGNORES_SIGTERM: "true"}, "terminationGracePeriodSeconds": 2}
    body = pod_body(name, queue, **more)
    resources: Object = {"requests": requests}
    if gpus:
        resources = {"requests": {**requests, GPU: str(gpus)}, "limits": {GPU: str(gpus)}}
    body["spec"]["containers"][0]["resources"] = resources
    return body


class PodLife:
    """Three threads until the block ends. `total` pods come in `seconds`, at an even rate.

    `done`: how often what was done, `made`: the names of the pods that were created,
    `given_up`: those of them that were deleted while they waited, `wrong`: what the API
    server should not have allowed.
    """

    def __init__(
        self, sandbox: Sandbox, pods: RecordedPods, *, total: int, seconds: float, seed: int
    ) -> None:
        self._sandbox, self._pods = sandbox, pods
        self._total, self._seconds, self._seed = total, seconds, seed
        self._coming = deque(random_arrivals(total, random.Random(seed)))
        self._began = 0.0
        self._ended = threading.Event()
        self._troubles: list[BaseException] = []
        self.made: set[str] = set()
        self.given_up: set[str] = set()
        self.done: Counter[str] = Counter()
        self.wrong: list[str] = []

    @contextmanager
    def going_on(self) -> Iterator[None]:
        self._began = time.monotonic()
        for queue in MADE_AGAIN:
            body = work_body(REPLICA_SET, f"again-{queue}", self._sandbox.named(queue), cpu="1", replicas=6)
            self._sandbox.make(REPLICA_SET, body).must(201)
        acts = {"arrivals": self._arrive, "ends": self._end_some, "changes": self._change_some}
        threads = [
            threading.Thread(target=self._run, args=(act, number), name=name, daemon=True)
            for number, (name, act) in enumerate(acts.items())
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._ended.set()
            for thread in threads:
                thread.join()
        for queue in MADE_AGAIN:
            self._sandbox.api.delete(f"{self._workloads}/again-{queue}?propagationPolicy=Background").must()
        if self._troubles:
            raise self._troubles[0]

    def _run(self, act: Callable[[Api, random.Random], object], number: int) -> None:
        chance = random.Random(self._seed * 10 + number)
        try:
            with Api(self._sandbox.cluster) as api, ExitStack():
                while not self._ended.wait(TURN):
                    try:
                        act(api, chance)
                    except (OSError, http.client.HTTPException):
                        self.done["no answer"] += 1
        except BaseException as exc:  # raised again when the block ends
            self._troubles.append(exc)

    # What comes

    def _arrive(self, api: Api, chance: random.Random) -> None:
        due = min(self._total, int(self._total * (time.monotonic() - self._began) / self._seconds))
        while self._coming and not self._ended.is_set():
            next_one = self._coming[0]
            if len(self.made) >= due and not next_one.is_at_once and due < self._total:
                return
            # 409: an earlier try was done, though its answer said that it was not.
            if self._create(api, next_one, chance).status not in (201, 409):
                self.done["creation refused for now"] += 1
                return
            self._coming.popleft()
            if next_one.least:
                self.done["PodGroups"] += 1
            else:
                self.made.add(next_one.name)
                self.done["pods of gangs"] += bool(next_one.gang)

    @property
    def all_have_come(self) -> bool:
        return not self._coming

    def _create(self, api: Api, next_one: Arrival, chance: random.Random) -> Answer:
        name, queue = next_one.name, self._sandbox.named(next_one.queue)
        if next_one.least:
            body = podgroup_body(name, queue, minMember=next_one.least)
            return api.create(self._sandbox.podgroups_path, body)
        gang = next_one.gang
        pod = gang_pod(name, queue, gang, chance) if gang else random_pod(name, queue, chance)
        return api.create(self._sandbox.pods_path, pod)

    # What ends

    def _end_some(self, api: Api, chance: random.Random) -> None:
        """A pod of a gang does no more than succeed while others of it wait: nobody makes it again."""
        pods = self._pods.pods()
        waiting = gangs_that_wait(pods)
        for pod in pods:
            name, phase = pod["metadata"]["name"], pod["status"].get("phase")
            if self._ended.is_set() or "deletionTimestamp" in pod["metadata"]:
                continue
            is_awaited = pod["metadata"].get("annotations", {}).get(GROUPED_BY) in waiting
            if phase in ("Succeeded", "Failed"):
                if chance.random() < 0.2 and not is_awaited:
                    api.delete(self._path(name))
            elif on_a_node(pod):
                if chance.random() < TURN / LIFE:
                    self._end(api, name, "succeeds" if is_awaited else chance.choice(WAYS))
            elif chance.random() < 0.0005:
                self.given_up.add(name)
                self._count("deleted while it waits", api.delete(self._path(name)))

    def _end(self, api: Api, name: str, way: str) -> None:
        if way == "deleted":
            self._count(way, api.delete(self._path(name)))
        elif way == "evicted":
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
            self._count(way, api.create(f"{self._path(name)}/eviction", body))
        else:
            phase = "Succeeded" if way == "succeeds" else "Failed"
            self._count(way, api.patch(f"{self._path(name)}/status", {"status": {"phase": phase}}))

    # What changes

    def _change_some(self, api: Api, chance: random.Random) -> None:
        for pod in self._pods.pods():
            if self._ended.is_set():
                return
            if "deletionTimestamp" in pod["metadata"] or pod["status"].get("phase") in (
                "Succeeded",
                "Failed",
            ):
                continue
            if on_a_node(pod):
                if pod["status"].get("containerStatuses") and chance.random() < TURN / 5:
                    self._change_running(api, pod, chance)
            elif chance.random() < TURN / 60:
                self._change_waiting(api, pod, chance)

    def _change_running(self, api: Api, pod: Object, chance: random.Random) -> None:
        """First the node says what the pod has. Then it is made smaller, and the node says that later."""
        name, [container] = pod["metadata"]["name"], pod["spec"]["containers"]
        [status] = pod["status"]["containerStatuses"]
        wanted = container["resources"]["requests"]
        if status.get("allocatedResources") != wanted:
            given = {**status, "allocatedResources": wanted, "resources": container["resources"]}
            body = {"status": {"containerStatuses": [given]}}
            self._count("node has resized", api.patch(f"{self._path(name)}/status", body))
            return
        milli = _milli(wanted)
        if chance.random() < 0.5 or "initContainers" in pod["spec"]:  # which may need more all the same
            if milli > 250:
                self._count("made smaller", self._resize(api, name, milli // 2))
            return
        answer = self._resize(api, name, milli + 500)
        if answer.status == 200 and pod["metadata"].get("labels", {}).get(RELEASED):
            self.wrong.append(f"{name} was made larger")
        self.done[f"growth answered {answer.status}"] += 1

    def _change_waiting(self, api: Api, pod: Object, chance: random.Random) -> None:
        """A pod that waits may have any size: what it is released with counts. Not one of a gang, of which
        the rest may have gone.
        """
        name = pod["metadata"]["name"]
        if chance.random() < 0.5:
            label = {"metadata": {"labels": {"tests.sluice.dev/note": str(chance.randrange(1000))}}}
            self._count("labelled", api.patch(self._path(name), label, kind=MERGE))
        elif not (
            pod["metadata"].get("labels", {}).get(RELEASED) or GROUPED_BY in pod["metadata"]["annotations"]
        ):
            milli = _milli(pod["spec"]["containers"][0]["resources"]["requests"])
            self._count(
                "resized while it waits",
                self._resize(api, name, chance.choice([min(milli + 250, 3500), 250])),
            )

    def _resize(self, api: Api, name: str, milli: int) -> Answer:
        requests = {"cpu": f"{milli}m"}
        body = {"spec": {"containers": [{"name": "work", "resources": {"requests": requests}}]}}
        return api.patch(f"{self._path(name)}/resize", body, kind=STRATEGIC)

    def _count(self, what: str, answer: Answer) -> None:
        """Refusals are of objects that have changed meanwhile, or of a webhook that does not answer."""
        self.done[what if answer.status in (200, 201) else f"{what}: refused"] += 1

    @property
    def _workloads(self) -> str:
        return f"/apis/apps/v1/namespaces/{self._sandbox.namespace}/replicasets"

    def _path(self, name: str) -> str:
        return f"{self._sandbox.pods_path}/{name}"


def _milli(requests: Mapping[str, str]) -> int:
    text = requests["cpu"]
    return int(text.removesuffix("m")) if text.endswith("m") else int(text) * 1000


def gangs_that_wait(pods: Iterable[Object]) -> set[str]:
    """The PodGroups of which a pod is on no node."""
    found = (pod["metadata"].get("annotations", {}).get(GROUPED_BY) for pod in pods if not on_a_node(pod))
    return {gang for gang in found if gang}
