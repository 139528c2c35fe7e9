"""A queue with work of every kind, for drains that something goes wrong with; and what has to hold of each.

==================  =============================================  ======================================
work                its budget                                     the drain
==================  =============================================  ======================================
6 bare pods         none                                           evicted and gone
2 bare pods         none                                           evicted; there until the end, for they
                                                                   have a finalizer
2 bare pods         none                                           kept, by `drain.keep`
Deployment of 4     none                                           evicted, and back
Deployment of 3     2 healthy: lets one go, then one for each      evicted, and back
                    that becomes ready elsewhere
Job of 2            none                                           suspended, and back
3 Jobs of 2         2 healthy: lets two Jobs go, one after the     suspended, and back
                    other, then one once two are ready elsewhere
==================  =============================================  ======================================
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from functools import partial

from tests.support.drain.budget_watch import BudgetWatch, is_ready
from tests.support.drain.draining import (
    DRAIN,
    NONE,
    budget,
    drained_reason,
    wait_for_allowed,
    wait_for_running,
)
from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import condition
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until
from tests.support.e2e.workloads import (
    DEPLOYMENT,
    JOB,
    work_body,
)
from tests.support.faults.intercepting import Interceptor

FINALIZER = "tests.sluice.dev/slow"
SLOW = ("slow-0", "slow-1")
KEPT = {"kept-0", "kept-1"}
JOBS = ("alone", "train-0", "train-1", "train-2")
#: By label `app`: how many have to be healthy, and how many go at a time.
WANTED = {"service": 2, "train": 2}
AT_ONCE = {"service": 1, "train": 2}
#: Pods that come back: of two Deployments and four Jobs.
BACK = {"web": 4, "service": 3, "alone": 2, "train": 6}


class MixedLoad:
    """One queue's. `extra`: so many more bare pods. For one thread."""

    def __init__(self, sandbox: Sandbox, *, extra: int = 0) -> None:
        self.sandbox = sandbox
        self.queue = sandbox.queue()
        self._elsewhere: Counter[str] = Counter()
        sandbox.pods("bare", 6 + extra, self.queue, terminationGracePeriodSeconds=5)
        sandbox.pods("slow", 2, self.queue, finalizers=[FINALIZER])
        sandbox.pods("kept", 2, self.queue, labels={"tier": "gold"})
        for name, replicas in (("web", 4), ("service", 3)):
            sandbox.make(DEPLOYMENT, work_body(DEPLOYMENT, name, self.queue, replicas=replicas)).must(201)
        for name in JOBS:
            sandbox.make(JOB, _job(name, self.queue)).must(201)
        wait_for_running(sandbox, 10 + extra + sum(BACK.values()))
        self.jobs = self._jobs()
        self._kept = self._uids(KEPT)
        self._budgets = {
            app: budget(sandbox, app, {"app": app}, minAvailable=wanted) for app, wanted in WANTED.items()
        }
        for app, path in self._budgets.items():
            wait_for_allowed(sandbox, path, BACK[app] - WANTED[app])
        self.watch = BudgetWatch(sandbox.cluster, sandbox.pods_path, wanted=WANTED)

    def drain(self, **wishes: object) -> None:
        """Ask for it."""
        keep = {"matchLabels": {"tier": "gold"}}
        self.edit(stopPolicy=DRAIN, drain={"keep": keep, **wishes})

    def edit(self, **spec: object) -> None:
        # What is sent on a connection that dies in that moment fails, and is for its sender to repeat.
        until(lambda: self.sandbox.patch_queue(self.queue, **spec).status == 200, "the edit to be taken")

    def is_drained(self) -> bool:
        """Whether the queue says so; meanwhile what its budgets wait for comes about."""
        self.move()
        self._let_go()
        found = self.sandbox.read_queue(self.queue)
        current = (condition(found, "Drained") or {}).get("observedGeneration") == found["metadata"][
            "generation"
        ]
        return current and drained_reason(found) == ("True", "Drained")

    def left(self) -> int:
        """How many are still to go, as far as the queue says it."""
        said = self.sandbox.read_queue(self.queue)["status"].get("drain") or {}
        return int(said.get("left", 0))

    def move(self) -> None:
        """As its users would: where a budget lets no more go, one more pod is ready elsewhere."""
        for app, path in self._budgets.items():
            status = self.sandbox.api.get(path).must().body["status"]
            if status["disruptionsAllowed"] < AT_ONCE[app] and self._elsewhere[app] < WANTED[app]:
                name = f"elsewhere-{app}-{self._elsewhere[app]}"
                until(partial(self._made, name, app), f"{name} to be taken")
                self._elsewhere[app] += 1

    def _made(self, name: str, app: str) -> bool:
        return self.sandbox.pod(name, labels={"app": app}).status in (201, 409)

    def _let_go(self) -> None:
        """Those with a finalizer may go once nobody else is left."""
        there = {
            name: pod
            for name, pod in self.sandbox.read_pods().items()
            if pod["spec"].get("nodeName") and name not in KEPT and not name.startswith("elsewhere")
        }
        if there.keys() == set(SLOW) and all(
            "deletionTimestamp" in pod["metadata"] for pod in there.values()
        ):
            for name in there:
                self.sandbox.patch_pod(name, {"metadata": {"finalizers": None}})

    def give_back(self) -> None:
        """Returns once all is back that can be, as it was."""
        self.edit(stopPolicy=NONE)
        for app, number in BACK.items():
            until(partial(self._runs, app, number), f"{number} pods of {app} to run again")
        until(lambda: self._jobs() == self.jobs, f"the Jobs to be as they were: {self.jobs}")

    def _runs(self, app: str, number: int) -> bool:
        return self._run(app) == number

    def _run(self, app: str) -> int:
        """Its own pods that are ready."""
        return sum(
            1
            for name, pod in self.sandbox.read_pods().items()
            if pod["metadata"].get("labels", {}).get("app") == app
            and not name.startswith("elsewhere")
            and "deletionTimestamp" not in pod["metadata"]
            and is_ready(pod)
        )

    def nothing_was_lost(self, ways: Iterable[Interceptor]) -> None:
        """No budget was overrun, nobody was evicted twice, nobody kept is gone, no Job has failed."""
        self.watch.end()
        assert self.watch.overruns == []
        assert self.watch.least == WANTED, "each budget was used up"
        assert {uid: times for uid, times in evicted(ways, self.sandbox.pods_path).items() if times > 1} == {}
        assert self._uids(KEPT) == self._kept
        assert self.watch.failed_pods == set()
        failed = [job["metadata"]["name"] for job in self._job_objects() if job["status"].get("failed")]
        assert failed == []

    def _jobs(self) -> dict[str, tuple[str, Object, object]]:
        """What has to be as it was: the object, its spec, its annotations."""
        return {
            job["metadata"]["name"]: (job["metadata"]["uid"], job["spec"], job["metadata"].get("annotations"))
            for job in self._job_objects()
        }

    def _job_objects(self) -> list[Object]:
        return list(self.sandbox.api.get(JOB.path(self.sandbox.namespace)).must().body["items"])

    def _uids(self, names: set[str]) -> set[str]:
        return {pod["metadata"]["uid"] for name, pod in self.sandbox.read_pods().items() if name in names}


def evicted(ways: Iterable[Interceptor], pods_path: str = "") -> Counter[str]:
    """By UID, how many evictions the API server has granted to these replicas; below that path alone."""
    return Counter(
        json.loads(answered.asked.body)["deleteOptions"]["preconditions"]["uid"]
        for way in ways
        for answered in list(way.answered)
        if answered.asked.path.startswith(pods_path)
        and answered.asked.path.endswith("/eviction")
        and answered.status == 201
    )


def _job(name: str, queue: str) -> Object:
    body = work_body(JOB, name, queue, parallelism=2, completions=2, backoffLimit=0)
    body["spec"]["template"]["metadata"]["labels"]["app"] = name.partition("-")[0]
    return body
