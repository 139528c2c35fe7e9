"""Draining Jobs of Volcano and JobSets: suspended by those who know how, and given back.

Their controllers do not run here: stand-ins do what draining asks of them.
"""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import partial
from time import monotonic
from types import TracebackType

import pytest

from controller.drain.request_states import SUSPEND_SECONDS
from localcluster.cluster import LocalCluster
from tests.e2e.membership.test_jobs_of_other_projects import (
    DEFINITIONS,
    JOB_SET,
    VOLCANO_JOB,
    body,
    definition,
)
from tests.support.drain.draining import (
    DRAIN,
    NONE,
    counts,
    drain,
    evicted_so_far,
    wait_for_drain,
    wait_for_running,
)
from tests.support.e2e.api_requests import Api, Object
from tests.support.e2e.objects import GATE, NAMED_BY, pod_body
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import PAUSE, until
from tests.support.e2e.workloads import (
    JOB,
    WorkloadKind,
    owned_by,
    work_body,
)

SUSPENDED = "sluice.dev/suspended"
#: Definitions of other projects, which stay.
KEEPS_CLUSTER = True


def is_served(api: Api, path: str) -> bool:
    return api.get(path).status == 200


@pytest.fixture(scope="module")
def defined(module_cluster: LocalCluster) -> LocalCluster:
    """A cluster with both definitions, which the server knows from its start."""
    with Api(module_cluster) as api:
        for made in (VOLCANO_JOB, JOB_SET):
            api.create(DEFINITIONS, definition(made)).must(201)
            path = f"/apis/{made.group}/{made.resource}"
            until(partial(is_served, api, path), f"{made.kind} to be served")
    module_cluster.start_components("server")
    return module_cluster


@pytest.fixture
def own_sandbox(defined: LocalCluster) -> Iterator[Sandbox]:
    sandbox = Sandbox(defined)
    yield sandbox
    for made in (VOLCANO_JOB, JOB_SET):
        sandbox.api.delete(made.path(sandbox.namespace)).must()
    sandbox.clear()
    sandbox.close()


class StandIn(ABC):
    """A controller that acts when it finds something to do, in a thread of its own. Use it in a `with`."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stand-in")

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()

    @abstractmethod
    def act(self, api: Api) -> None:
        """Look at what there is, and do what is due."""

    def _run(self) -> None:
        with Api(self._sandbox.cluster) as api:
            while not self._ended.wait(PAUSE):
                self.act(api)


class Volcano(StandIn):
    """Takes Commands for Jobs: an aborted one loses its pods, a resumed one gets new ones.

    It deletes a Command when it takes it, and acts so many seconds later.
    """

    def __init__(self, sandbox: Sandbox, *, acts_after: float = 0.0) -> None:
        super().__init__(sandbox)
        self._acts_after = acts_after
        self._taken: list[tuple[float, Object]] = []

    def act(self, api: Api) -> None:
        for command in api.get(self._sandbox.commands_path).must().body["items"]:
            api.delete(f"{self._sandbox.commands_path}/{command['metadata']['name']}").must()
            self._taken.append((monotonic() + self._acts_after, command))
        while self._taken and self._taken[0][0] <= monotonic():
            _, command = self._taken.pop(0)
            job = command["target"]["name"]
            if command["action"] == "AbortJob":
                set_phase(api, self._sandbox, job, "Aborting")
                api.delete(f"{self._sandbox.pods_path}?labelSelector=volcano.sh/job-name={job}").must()
                set_phase(api, self._sandbox, job, "Aborted")
            else:
                assert command["action"] == "ResumeJob"
                set_phase(api, self._sandbox, job, "Running")
                make_pods(api, self._sandbox, job)


class JobSets(StandIn):
    """Suspends and resumes the Job of each JobSet with it."""

    def act(self, api: Api) -> None:
        for job_set in api.get(JOB_SET.path(self._sandbox.namespace)).must().body["items"]:
            path = f"{JOB.path(self._sandbox.namespace)}/{job_set['metadata']['name']}-r0"
            wish = bool(job_set["spec"].get("suspend"))
            found = api.get(path)
            if found.status == 200 and bool(found.body["spec"].get("suspend")) != wish:
                api.patch(path, {"spec": {"suspend": wish}}).must()


def read(api: Api, sandbox: Sandbox, made: WorkloadKind, name: str) -> Object:
    return api.get(f"{made.path(sandbox.namespace)}/{name}").must().body


def set_phase(api: Api, sandbox: Sandbox, job: str, phase: str) -> None:
    path = f"{VOLCANO_JOB.path(sandbox.namespace)}/{job}/status"
    api.patch(path, {"status": {"state": {"phase": phase}}}).must()


def make_pods(api: Api, sandbox: Sandbox, job: str) -> None:
    """A pod for each of its two tasks."""
    owner = read(api, sandbox, VOLCANO_JOB, job)
    for number, task in enumerate(owner["spec"]["tasks"]):
        queue = task["template"]["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"]
        pod = pod_body(f"{job}-{number}", queue, labels={"volcano.sh/job-name": job})
        pod["metadata"]["ownerReferences"] = owned_by(owner)
        api.create(sandbox.pods_path, pod).must(201)


def volcano_job(sandbox: Sandbox, queue: str) -> None:
    """One whose two pods run."""
    sandbox.make(VOLCANO_JOB, body(VOLCANO_JOB, "train", queue)).must(201)
    set_phase(sandbox.api, sandbox, "train", "Running")
    make_pods(sandbox.api, sandbox, "train")
    wait_for_running(sandbox, 2)


def mark(sandbox: Sandbox, made: WorkloadKind) -> str:
    """The queue whose drain has suspended it, as is written on it."""
    found = read(sandbox.api, sandbox, made, "train")["metadata"].get("annotations", {})
    return str(found.get(SUSPENDED, ""))


def test_a_volcano_job_is_aborted_and_resumed_by_commands(own_sandbox: Sandbox) -> None:
    """None of its pods is evicted: its controller lets them go, and makes them again."""
    queue = own_sandbox.queue()
    volcano_job(own_sandbox, queue)
    before = evicted_so_far(own_sandbox, "Evict")
    with Volcano(own_sandbox):
        drain(own_sandbox, queue)
        assert counts(wait_for_drain(own_sandbox, queue, "Drained", suspended=1)) == {"suspended": 1}
        assert mark(own_sandbox, VOLCANO_JOB) == queue
        assert own_sandbox.read_pods() == {}
        own_sandbox.edit(queue, stopPolicy=NONE)
        wait_for_running(own_sandbox, 2)
    until(lambda: not mark(own_sandbox, VOLCANO_JOB), "the mark to be taken off")
    assert own_sandbox.commands() == []
    assert evicted_so_far(own_sandbox, "Evict") == before


def test_a_volcano_job_that_names_no_queue_is_in_that_of_its_namespace_and_suspended_with_it(
    own_sandbox: Sandbox,
) -> None:
    """However it is submitted, also where the namespace is bound.

    The definition fills in `default`, and the API server says of that what it says of a user's word.
    """
    queue = own_sandbox.queue()
    unnamed = own_sandbox.make(VOLCANO_JOB, body(VOLCANO_JOB, "unnamed"), dry=True).must(201).body
    assert unnamed["spec"]["queue"] == "default"
    assert "f:queue" in unnamed["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]
    own_sandbox.api.patch(
        own_sandbox.home, {"metadata": {"annotations": {NAMED_BY: queue, "sluice.dev/binding": "true"}}}
    ).must()
    given = json.dumps(body(VOLCANO_JOB, "train"))
    for words in (["create"], ["apply"], ["apply", "--server-side"]):
        own_sandbox.api.delete(f"{VOLCANO_JOB.path(own_sandbox.namespace)}/train").must(200, 404)
        done = own_sandbox.kubectl(*words, "--filename=-", given=given)
        assert done.returncode == 0, done.stderr
        assert f'spec.queue "default" counts as none: this is in queue "{queue}"' in done.stderr
        job = read(own_sandbox.api, own_sandbox, VOLCANO_JOB, "train")
        assert {
            job["spec"]["queue"],
            *(each["metadata"]["annotations"][GATE] for each in templates(job)),
        } == {queue}
    group = own_sandbox.make_podgroup("train", job["spec"]["queue"]).must(201).body
    assert group["spec"]["queue"] == queue
    set_phase(own_sandbox.api, own_sandbox, "train", "Running")
    make_pods(own_sandbox.api, own_sandbox, "train")
    wait_for_running(own_sandbox, 2)
    with Volcano(own_sandbox):
        drain(own_sandbox, queue)
        assert counts(wait_for_drain(own_sandbox, queue, "Drained", suspended=1)) == {"suspended": 1}
    own_sandbox.api.patch(
        own_sandbox.home, {"metadata": {"annotations": {NAMED_BY: None, "sluice.dev/binding": None}}}
    ).must()


def templates(job: Object) -> list[Object]:
    return [task["template"] for task in job["spec"]["tasks"]]


def test_a_volcano_job_that_is_aborted_late_is_resumed(own_sandbox: Sandbox) -> None:
    """Its Command is gone long before: it was taken, and not withdrawn."""
    queue = own_sandbox.queue()
    volcano_job(own_sandbox, queue)
    before = evicted_so_far(own_sandbox, "Evict")
    with Volcano(own_sandbox, acts_after=SUSPEND_SECONDS + 1):
        drain(own_sandbox, queue)
        assert counts(wait_for_drain(own_sandbox, queue, "Drained", suspended=1)) == {"suspended": 1}
        assert (mark(own_sandbox, VOLCANO_JOB), evicted_so_far(own_sandbox, "Evict")) == (queue, before)
        own_sandbox.edit(queue, stopPolicy=NONE)
        until(lambda: not mark(own_sandbox, VOLCANO_JOB), "the mark to be taken off")
        wait_for_running(own_sandbox, 2)


def test_a_volcano_job_that_nobody_aborts_is_evicted(own_sandbox: Sandbox) -> None:
    """After ten seconds; the Command is taken back, and nothing of ours is left on the Job."""
    queue = own_sandbox.queue()
    volcano_job(own_sandbox, queue)
    own_sandbox.patch_queue(queue, stopPolicy=DRAIN).must()
    (command,) = until(own_sandbox.commands, "the Command")
    assert (command["action"], command["target"]["name"]) == ("AbortJob", "train")
    wait_for_drain(own_sandbox, queue, "Drained", evicted=2)
    assert own_sandbox.commands() == []
    assert mark(own_sandbox, VOLCANO_JOB) == ""


def test_a_job_set_is_suspended_and_resumed_as_a_whole(own_sandbox: Sandbox) -> None:
    """It is its controller that suspends its Job, and resumes it."""
    queue = own_sandbox.queue()
    owner = own_sandbox.make(JOB_SET, body(JOB_SET, "train", queue)).must(201).body
    job = work_body(JOB, "train-r0", queue, parallelism=2)
    job["metadata"]["ownerReferences"] = owned_by(owner)
    job["spec"]["template"]["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"] = "train"
    own_sandbox.make(JOB, job).must(201)
    wait_for_running(own_sandbox, 2)
    with JobSets(own_sandbox):
        drain(own_sandbox, queue)
        assert counts(wait_for_drain(own_sandbox, queue, "Drained", suspended=1)) == {"suspended": 1}
        assert mark(own_sandbox, JOB_SET) == queue
        own_sandbox.edit(queue, stopPolicy=NONE)
        wait_for_running(own_sandbox, 2)
    until(lambda: not mark(own_sandbox, JOB_SET), "the mark to be taken off")
    assert SUSPENDED not in read(own_sandbox.api, own_sandbox, JOB, "train-r0")["metadata"].get(
        "annotations", {}
    )
