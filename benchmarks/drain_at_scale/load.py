"""What runs while it is drained: Jobs, Deployments and bare pods in ten queues below one, and 20 budgets.

Each queue has a namespace of its own. Of the two budgets in each, one counts half of the queue's Jobs, the
other its first Deployment:

===========  =========  ===================================================================================
budget       in queues  lets go
===========  =========  ===================================================================================
jobs         0 to 4     all, at once (`minAvailable: 0`)
jobs         5 to 9     in steps: the last Job once as many pods are ready elsewhere
service      0 to 3     all, at once
service      4 to 7     in steps: one half, and of the other as many as are ready elsewhere
service      8 and 9    never: every pod has to be available, and nobody comes elsewhere
===========  =========  ===================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException

from benchmarks.bench import PATIENCE, Bench
from benchmarks.objects import (
    JSON,
    MERGE,
    NAMED_BY,
    QUEUES,
    Object,
    Request,
    pods_path,
    queue,
)
from localcluster.apiserver import Https
from localcluster.components import until

Key = tuple[str, str]

BUDGETS = "/apis/policy/v1/poddisruptionbudgets"
PARENT = "fleet"
LABS = tuple(f"lab-{number}" for number in range(10))
#: Pods of the load; those that nobody takes say why in a second label.
OURS, STAYS = "load=drain", "stays"
LABELS = {"load": "drain"}
#: So much of what a budget waits for comes at a time.
STEPS = 4
LATER = "bench.sluice.dev/later"


@dataclass(frozen=True)
class Size:
    """Of so many pods three fifths are in Jobs of 15, a fiftieth is bare, the rest is in Deployments."""

    jobs: int
    parallelism: int
    deployments: int
    replicas: int
    bare: int

    @classmethod
    def of(cls, pods: int) -> Size:
        jobs, deployments = max(2 * len(LABS), pods // 25), max(len(LABS), pods // 100)
        parallelism = max(1, pods * 3 // 5 // jobs)
        replicas = max(2, pods * 19 // 50 // deployments)
        bare = max(len(LABS), pods - jobs * parallelism - deployments * replicas)
        return cls(jobs, parallelism, deployments, replicas, bare)

    @property
    def pods(self) -> int:
        return self.jobs * self.parallelism + self.deployments * self.replicas + self.bare

    @property
    def kept(self) -> int:
        """Bare pods that stay by rule: every fifth."""
        return len(range(0, self.bare, 5))

    @property
    def never(self) -> int:
        """Pods that their budget never lets go."""
        return 2 * self.replicas

    @property
    def going(self) -> int:
        return self.pods - self.kept - self.never


@dataclass(frozen=True)
class Budget:
    """`wanted` of the pods with its label have to be healthy. `steps`: those come about elsewhere."""

    lab: str
    name: str
    wanted: int
    at_once: int
    steps: bool = False
    never: bool = False

    @property
    def key(self) -> Key:
        return self.lab, self.name


class Load:
    """The queues and what is in them. For one thread."""

    def __init__(self, bench: Bench, size: Size) -> None:
        self._bench = bench
        self.size = size
        self.budgets = tuple(_budgets(size))
        #: Pods elsewhere that are ready, or about to be.
        self._ready: dict[Key, int] = {}

    def make_queues(self) -> None:
        """Those, their namespaces and the budgets."""
        self._bench.queue(PARENT)
        for lab in LABS:
            self._bench.namespace(lab)
            self._ask("POST", QUEUES, queue(lab, parent=PARENT))
        for lab in LABS:
            self._bench.await_answer(lab)
        self._bench.write([_budget(budget) for budget in self.budgets])

    def make_work(self) -> None:
        """All of it, and nobody elsewhere yet."""
        self._make([*_jobs(self.size), *_deployments(self.size)])
        self._make(each for budget in self.budgets for each in _elsewhere(budget))
        self._ready.clear()
        self.make_bare()

    def make_bare(self) -> None:
        """Those that nobody would make again, and that are not there."""
        there = {pod["metadata"]["name"] for pod in self.items(f"/api/v1/pods?labelSelector={OURS}")}
        self._make(each for name, each in _bare(self.size) if name not in there)

    def remove_work(self) -> None:
        for path in ("/apis/batch/v1/{}/jobs", "/apis/apps/v1/{}/deployments", "/api/v1/{}/pods"):
            for lab in LABS:
                query = "labelSelector=load&propagationPolicy=Background"
                self._ask("DELETE", f"{path.format(f'namespaces/{lab}')}?{query}")

    def move(self) -> None:
        """Where a budget lets no more go, some more pods become ready elsewhere."""
        allowed = {
            (item["metadata"]["namespace"], item["metadata"]["name"]): item["status"]["disruptionsAllowed"]
            for item in self.items(BUDGETS)
        }
        for budget in self.budgets:
            ready = self._ready.get(budget.key, 0)
            if budget.steps and allowed[budget.key] < budget.at_once and ready < budget.wanted:
                self._ready[budget.key] = min(budget.wanted, ready + max(1, budget.wanted // STEPS))
                self._bench.write([_ungated(budget, n) for n in range(ready, self._ready[budget.key])])

    def stop(self, policy: str, **spec: object) -> None:
        """Ask it of the one above."""
        self._make([Request("PATCH", f"{QUEUES}/{PARENT}", MERGE, {"spec": {"stopPolicy": policy, **spec}})])

    def queues(self) -> dict[str, Object]:
        """All of the tree, by name."""
        found = {item["metadata"]["name"]: item for item in self.items(QUEUES)}
        return {name: found[name] for name in (PARENT, *LABS)}

    def jobs(self) -> list[Object]:
        return self.items(f"/apis/batch/v1/jobs?labelSelector={OURS}")

    def items(self, path: str) -> list[Object]:
        found: list[Object] = self._ask("GET", path)["items"]
        return found

    def _make(self, requests: Iterable[Request]) -> None:
        """One after the other, and again where a server that was too busy to hold its Lease took none."""
        with self._bench.cluster.api() as api:
            for request in requests:
                until(partial(_is_taken, api, request), what=request.path, seconds=PATIENCE)

    def _ask(self, method: str, path: str, body: object = None) -> Object:
        """On a new connection: the API server closes one that nobody has used for a while."""
        with self._bench.cluster.api() as api:
            reply = api.request(method, path, body)
        if reply.status >= 300:
            raise RuntimeError(f"{method} {path}: {reply.status}: {reply.body.decode(errors='replace')}")
        read: Object = reply.json()
        return read


def _is_taken(api: Https, request: Request) -> bool:
    try:
        reply = api.request(request.method, request.path, request.body)
    except (OSError, HTTPException):
        return False
    if 400 <= reply.status < 500 and reply.status not in (409, 429):
        raise RuntimeError(f"{request.path}: {reply.status}: {reply.body.decode(errors='replace')}")
    return reply.status in (200, 201, 409)


def _budgets(size: Size) -> Iterator[Budget]:
    for number, lab in enumerate(LABS):
        steps = number >= 5
        wanted = size.parallelism if steps else 0
        yield Budget(lab, "jobs", wanted=wanted, at_once=size.parallelism, steps=steps)
        wanted = 0 if number < 4 else size.replicas // 2 if number < 8 else size.replicas
        yield Budget(lab, "service", wanted=wanted, at_once=1, steps=4 <= number < 8, never=number >= 8)


def _budget(budget: Budget) -> Request:
    spec = {"minAvailable": budget.wanted, "selector": {"matchLabels": {"budget": budget.name}}}
    body = {"metadata": {"name": budget.name}, "spec": spec}
    return Request("POST", _path("policy", budget.lab, "poddisruptionbudgets"), JSON, body)


def _jobs(size: Size) -> Iterator[Request]:
    for number in range(size.jobs):
        lab = LABS[number % len(LABS)]
        labels = {"budget": "jobs"} if number < size.jobs // 2 else {}
        spec = {
            "parallelism": size.parallelism,
            "completions": size.parallelism,
            "backoffLimit": 10 * size.parallelism,  # `kubectl delete` of its pods counts as failure
            "template": _template(lab, labels, restart="Never"),
        }
        body = {"metadata": {"name": f"train-{number}", "labels": LABELS}, "spec": spec}
        yield Request("POST", _path("batch", lab, "jobs"), JSON, body)


def _deployments(size: Size) -> Iterator[Request]:
    for number in range(size.deployments):
        labels = {"budget": "service"} if number < len(LABS) else {}
        if 8 <= number < len(LABS):
            labels[STAYS] = "never"
        yield _deployment(LABS[number % len(LABS)], f"web-{number}", size.replicas, labels)


def _deployment(lab: str, name: str, replicas: int, labels: Object) -> Request:
    app = {"app": name}
    template = _template(lab, {**app, **labels})
    spec = {"replicas": replicas, "selector": {"matchLabels": app}, "template": template}
    body = {"metadata": {"name": name, "labels": LABELS}, "spec": spec}
    return Request("POST", _path("apps", lab, "deployments"), JSON, body)


def _bare(size: Size) -> Iterator[tuple[str, Request]]:
    for number in range(size.bare):
        lab, name = LABS[number % len(LABS)], f"bare-{number}"
        yield name, _pod(lab, name, _template(lab, {STAYS: "kept"} if number % 5 == 0 else {}))


def _elsewhere(budget: Budget) -> Iterator[Request]:
    """Pods of no queue that will be ready one day."""
    for number in range(budget.wanted if budget.steps else 0):
        pod = _template(budget.lab, {"budget": budget.name, "load": "elsewhere"})
        pod["metadata"]["annotations"] = {}
        pod["spec"]["schedulingGates"] = [{"name": LATER}]
        yield _pod(budget.lab, f"elsewhere-{budget.name}-{number}", pod)


def _ungated(budget: Budget, number: int) -> Request:
    path = f"{pods_path(budget.lab)}/elsewhere-{budget.name}-{number}"
    return Request("PATCH", path, MERGE, {"spec": {"schedulingGates": None}})


def _pod(lab: str, name: str, template: Object) -> Request:
    template["metadata"]["name"] = name
    return Request("POST", pods_path(lab), JSON, template)


def _template(lab: str, labels: Object, *, restart: str = "Always") -> Object:
    return {
        "metadata": {"labels": {**LABELS, **labels}, "annotations": {NAMED_BY: lab}},
        "spec": {"restartPolicy": restart, "containers": [{"name": "work", "image": "none"}]},
    }


def _path(group: str, lab: str, resource: str) -> str:
    return f"/apis/{group}/v1/namespaces/{lab}/{resource}"
