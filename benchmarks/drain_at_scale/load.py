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

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from localcluster import apiserver
from localcluster.cluster import LocalCluster

Object = dict[str, Any]
Key = tuple[str, str]
T = TypeVar("T")

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
BUDGETS = "/apis/policy/v1/poddisruptionbudgets"
PARENT = "fleet"
LABS = 10
WRITERS = 8
NAMED_BY = "scheduling.volcano.sh/queue-name"
#: Pods of the load; those that nobody takes say why in a second label.
OURS, STAYS = "load=drain", "stays"
#: So much of what a budget waits for comes at a time.
STEPS = 4


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
        jobs, deployments = max(2 * LABS, pods // 25), max(LABS, pods // 100)
        parallelism = max(1, pods * 3 // 5 // jobs)
        replicas = max(2, pods * 19 // 50 // deployments)
        bare = max(LABS, pods - jobs * parallelism - deployments * replicas)
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

    def __init__(self, cluster: LocalCluster, size: Size) -> None:
        self._cluster = cluster
        self.size = size
        self.budgets = tuple(_budgets(size))
        self._elsewhere: dict[Key, int] = {}

    def make_queues(self) -> None:
        self._create((QUEUES, _queue(name, **spec)) for name, spec in [(PARENT, {}), *_children()])
        self._create(("/api/v1/namespaces", {"metadata": {"name": lab}}) for lab in _labs())

    def make_work(self) -> None:
        self._create(_jobs(self.size))
        self._create(_deployments(self.size))
        self.make_bare()

    def make_bare(self) -> None:
        """Those that nobody would make again."""
        self._create(_bare(self.size))

    def make_budgets(self) -> None:
        self._create(_budget(budget) for budget in self.budgets)
        self._create(_elsewhere(budget) for budget in self.budgets if budget.steps)

    def remove_work(self) -> None:
        """The budgets stay."""
        kinds = ("/apis/batch/v1/{}/jobs", "/apis/apps/v1/{}/deployments", "/api/v1/{}/pods")
        paths = [
            f"{kind.format(f'namespaces/{lab}')}?labelSelector={OURS}&propagationPolicy=Background"
            for kind in kinds
            for lab in _labs()
        ]
        self._by_many(lambda api, path: _must(api.request("DELETE", path)), paths)

    def move(self) -> None:
        """Where a budget lets no more go, some more pods become ready elsewhere."""
        allowed = {
            (item["metadata"]["namespace"], item["metadata"]["name"]): item["status"]["disruptionsAllowed"]
            for item in self.read(BUDGETS)["items"]
        }
        for budget in self.budgets:
            there = self._elsewhere.get(budget.key, 0)
            if budget.steps and allowed[budget.key] < budget.at_once and there < budget.wanted:
                more = max(budget.at_once, budget.wanted // STEPS)
                self._scale(budget, min(budget.wanted, there + more))

    def move_back(self) -> None:
        for budget in self.budgets:
            if budget.steps:
                self._scale(budget, 0)

    def patch_queue(self, **spec: object) -> None:
        with self._cluster.api() as api:
            _must(api.request("PATCH", f"{QUEUES}/{PARENT}", {"spec": spec}))

    def queues(self) -> dict[str, Object]:
        """All of the tree, by name."""
        wanted = {PARENT, *_labs()}
        items = self.read(QUEUES)["items"]
        return {item["metadata"]["name"]: item for item in items if item["metadata"]["name"] in wanted}

    def jobs(self) -> list[Object]:
        return list(self.read(f"/apis/batch/v1/jobs?labelSelector={OURS}")["items"])

    def read(self, path: str) -> Object:
        with self._cluster.api() as api:
            return _must(api.request("GET", path))

    def _scale(self, budget: Budget, replicas: int) -> None:
        path = f"/apis/apps/v1/namespaces/{budget.lab}/deployments/elsewhere-{budget.name}"
        with self._cluster.api() as api:
            _must(api.request("PATCH", path, {"spec": {"replicas": replicas}}))
        self._elsewhere[budget.key] = replicas

    def _create(self, objects: Iterable[tuple[str, Object]]) -> None:
        self._by_many(lambda api, one: _must(api.request("POST", *one)), objects)

    def _by_many(self, write: Callable[[apiserver.Https, T], object], each: Iterable[T]) -> None:
        share = list(each)

        def work(start: int) -> None:
            with self._cluster.api() as api:
                for one in share[start::WRITERS]:
                    write(api, one)

        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(work, range(WRITERS)))


def _must(reply: apiserver.Reply) -> Object:
    if reply.status not in (200, 201):
        raise RuntimeError(f"the API server answers {reply.status}: {reply.body.decode(errors='replace')}")
    found: Object = reply.json()
    return found


def _labs() -> list[str]:
    return [f"lab-{number}" for number in range(LABS)]


def _children() -> list[tuple[str, Object]]:
    return [(lab, {"parent": PARENT}) for lab in _labs()]


def _queue(name: str, **spec: object) -> Object:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": spec,
    }


def _budgets(size: Size) -> Iterator[Budget]:
    for number, lab in enumerate(_labs()):
        steps = number >= 5
        wanted = size.parallelism if steps else 0
        yield Budget(lab, "jobs", wanted=wanted, at_once=size.parallelism, steps=steps)
        wanted = 0 if number < 4 else size.replicas // 2 if number < 8 else size.replicas
        yield Budget(lab, "service", wanted=wanted, at_once=1, steps=4 <= number < 8, never=number >= 8)


def _budget(budget: Budget) -> tuple[str, Object]:
    spec = {"minAvailable": budget.wanted, "selector": {"matchLabels": {"budget": budget.name}}}
    return (
        f"/apis/policy/v1/namespaces/{budget.lab}/poddisruptionbudgets",
        {"metadata": {"name": budget.name}, "spec": spec},
    )


def _jobs(size: Size) -> Iterator[tuple[str, Object]]:
    for number in range(size.jobs):
        lab = f"lab-{number % LABS}"
        labels = {"budget": "jobs"} if number < size.jobs // 2 else {}
        spec = {
            "parallelism": size.parallelism,
            "completions": size.parallelism,
            "backoffLimit": 10 * size.parallelism,  # `kubectl delete` counts as failure
            "template": _template(lab, labels, restart="Never"),
        }
        body = {"metadata": {"name": f"train-{number}", "labels": _LABELS}, "spec": spec}
        yield f"/apis/batch/v1/namespaces/{lab}/jobs", body


def _deployments(size: Size) -> Iterator[tuple[str, Object]]:
    for number in range(size.deployments):
        lab, app = f"lab-{number % LABS}", {"app": f"web-{number}"}
        labels = {**app, **({"budget": "service"} if number < LABS else {})}
        if 8 <= number < LABS:
            labels[STAYS] = "never"
        template = _template(lab, labels)
        spec = {"replicas": size.replicas, "selector": {"matchLabels": app}, "template": template}
        body = {"metadata": {"name": f"web-{number}", "labels": _LABELS}, "spec": spec}
        yield f"/apis/apps/v1/namespaces/{lab}/deployments", body


def _bare(size: Size) -> Iterator[tuple[str, Object]]:
    for number in range(size.bare):
        lab = f"lab-{number % LABS}"
        pod = _template(lab, {STAYS: "kept"} if number % 5 == 0 else {})
        pod["metadata"]["name"] = f"bare-{number}"
        yield f"/api/v1/namespaces/{lab}/pods", pod


def _elsewhere(budget: Budget) -> tuple[str, Object]:
    """Of no queue, and no replicas yet."""
    app = {"app": f"elsewhere-{budget.name}"}
    template = {
        "metadata": {"labels": {**app, "budget": budget.name, "load": "elsewhere"}},
        "spec": _spec("Always"),
    }
    spec = {"replicas": 0, "selector": {"matchLabels": app}, "template": template}
    body = {"metadata": {"name": app["app"]}, "spec": spec}
    return f"/apis/apps/v1/namespaces/{budget.lab}/deployments", body


_LABELS = {"load": "drain"}


def _template(queue: str, labels: Object, *, restart: str = "Always") -> Object:
    return {
        "metadata": {"labels": {**_LABELS, **labels}, "annotations": {NAMED_BY: queue}},
        "spec": _spec(restart),
    }


def _spec(restart: str) -> Object:
    return {"restartPolicy": restart, "containers": [{"name": "work", "image": "none"}]}
