"""Draining Jobs of Volcano and JobSets: suspended by those who know how, and given back.

Their controllers do not run here: stand-ins do what draining asks of them.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import partial
from types import TracebackType

import pytest

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
from tests.support.e2e.calling import Api, Object
from tests.support.e2e.shapes import pod_body
from tests.support.e2e.stage import Stage
from tests.support.e2e.waiting_for import PAUSE, until
from tests.support.e2e.work import (
    JOB,
    Made,
    owned_by,
    work_body,
)

SUSPENDED = "sluice.dev/suspended"


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
    module_cluster.restart_components("server")
    return module_cluster


@pytest.fixture
def corner(defined: LocalCluster) -> Iterator[Stage]:
    stage = Stage(defined)
    yield stage
    for made in (VOLCANO_JOB, JOB_SET):
        stage.api.delete(made.path(stage.namespace)).must()
    stage.clear()
    stage.close()


class StandIn(ABC):
    """A controller that acts when it finds something to do, in a thread of its own. Use it in a `with`."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
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
        with Api(self._stage.cluster) as api:
            while not self._ended.wait(PAUSE):
                self.act(api)


class Volcano(StandIn):
    """Takes Commands for Jobs: an aborted one loses its pods, a resumed one gets new ones."""

    def act(self, api: Api) -> None:
        for command in api.get(self._stage.commands_path).must().body["items"]:
            job = command["target"]["name"]
            api.delete(f"{self._stage.commands_path}/{command['metadata']['name']}").must()
            if command["action"] == "AbortJob":
                set_phase(api, self._stage, job, "Aborting")
                api.delete(f"{self._stage.pods_path}?labelSelector=volcano.sh/job-name={job}").must()
                set_phase(api, self._stage, job, "Aborted")
            else:
                assert command["action"] == "ResumeJob"
                set_phase(api, self._stage, job, "Running")
                make_pods(api, self._stage, job)


class JobSets(StandIn):
    """Suspends and resumes the Job of each JobSet with it."""

    def act(self, api: Api) -> None:
        for job_set in api.get(JOB_SET.path(self._stage.namespace)).must().body["items"]:
            path = f"{JOB.path(self._stage.namespace)}/{job_set['metadata']['name']}-r0"
            wish = bool(job_set["spec"].get("suspend"))
            found = api.get(path)
            if found.status == 200 and bool(found.body["spec"].get("suspend")) != wish:
                api.patch(path, {"spec": {"suspend": wish}}).must()


def read(api: Api, stage: Stage, made: Made, name: str) -> Object:
    return api.get(f"{made.path(stage.namespace)}/{name}").must().body


def set_phase(api: Api, stage: Stage, job: str, phase: str) -> None:
    path = f"{VOLCANO_JOB.path(stage.namespace)}/{job}/status"
    api.patch(path, {"status": {"state": {"phase": phase}}}).must()


def make_pods(api: Api, stage: Stage, job: str) -> None:
    """A pod for each of its two tasks."""
    owner = read(api, stage, VOLCANO_JOB, job)
    for number, task in enumerate(owner["spec"]["tasks"]):
        queue = task["template"]["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"]
        pod = pod_body(f"{job}-{number}", queue, labels={"volcano.sh/job-name": job})
        pod["metadata"]["ownerReferences"] = owned_by(owner)
        api.create(stage.pods_path, pod).must(201)


def volcano_job(stage: Stage, queue: str) -> None:
    """One whose two pods run."""
    stage.make(VOLCANO_JOB, body(VOLCANO_JOB, "train", queue)).must(201)
    set_phase(stage.api, stage, "train", "Running")
    make_pods(stage.api, stage, "train")
    wait_for_running(stage, 2)


def mark(stage: Stage, made: Made) -> str:
    """The queue whose drain has suspended it, as is written on it."""
    found = read(stage.api, stage, made, "train")["metadata"].get("annotations", {})
    return str(found.get(SUSPENDED, ""))


def test_a_volcano_job_is_aborted_and_resumed_by_commands(corner: Stage) -> None:
    """None of its pods is evicted: its controller lets them go, and makes them again."""
    queue = corner.queue()
    volcano_job(corner, queue)
    before = evicted_so_far(corner, "Evict")
    with Volcano(corner):
        drain(corner, queue)
        assert counts(wait_for_drain(corner, queue, "Drained", suspended=1)) == {"suspended": 1}
        assert mark(corner, VOLCANO_JOB) == queue
        assert corner.read_pods() == {}
        corner.edit(queue, stopPolicy=NONE)
        wait_for_running(corner, 2)
    until(lambda: not mark(corner, VOLCANO_JOB), "the mark to be taken off")
    assert corner.commands() == []
    assert evicted_so_far(corner, "Evict") == before


def test_a_volcano_job_that_nobody_aborts_is_evicted(corner: Stage) -> None:
    """After ten seconds; the Command is taken back, and nothing of ours is left on the Job."""
    queue = corner.queue()
    volcano_job(corner, queue)
    corner.patch_queue(queue, stopPolicy=DRAIN).must()
    (command,) = until(corner.commands, "the Command")
    assert (command["action"], command["target"]["name"]) == ("AbortJob", "train")
    wait_for_drain(corner, queue, "Drained", evicted=2)
    assert corner.commands() == []
    assert mark(corner, VOLCANO_JOB) == ""


def test_a_job_set_is_suspended_and_resumed_as_a_whole(corner: Stage) -> None:
    """It is its controller that suspends its Job, and resumes it."""
    queue = corner.queue()
    owner = corner.make(JOB_SET, body(JOB_SET, "train", queue)).must(201).body
    job = work_body(JOB, "train-r0", queue, parallelism=2)
    job["metadata"]["ownerReferences"] = owned_by(owner)
    job["spec"]["template"]["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"] = "train"
    corner.make(JOB, job).must(201)
    wait_for_running(corner, 2)
    with JobSets(corner):
        drain(corner, queue)
        assert counts(wait_for_drain(corner, queue, "Drained", suspended=1)) == {"suspended": 1}
        assert mark(corner, JOB_SET) == queue
        corner.edit(queue, stopPolicy=NONE)
        wait_for_running(corner, 2)
    until(lambda: not mark(corner, JOB_SET), "the mark to be taken off")
    assert SUSPENDED not in read(corner.api, corner, JOB, "train-r0")["metadata"].get("annotations", {})
