"""Many gangs: they compete for a few nodes, or thousands of them ask for room that there never is."""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Iterator

import pytest

from localcluster.cluster import LocalCluster
from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import COMPLETES, GROUPED_BY, on_a_node, podgroup_body
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until
from tests.support.e2e.workloads import JOB, work_body

pytestmark = pytest.mark.long

#: Of `configured_cluster`.
CLUSTER = {"nodes": 8}
#: CPUs of a pod: a node has room for one. The quota lets half as many more go as there are nodes.
CPU, ROOM = 40, 12
GANGS, SIZES = 40, range(1, 7)
SEED = int(os.environ.get("SEED") or secrets.randbelow(10**6))
PODGROUPS = int(os.environ.get("PODGROUPS") or 1_000)
WITHIN = "sluice.dev/place-within"


@pytest.fixture
def sandbox(configured_cluster: LocalCluster) -> Iterator[Sandbox]:
    """Nothing is cleared: the cluster ends with the module."""
    made = Sandbox(configured_cluster)
    yield made
    made.close()


def job(sandbox: Sandbox, name: str, queue: str, size: int) -> None:
    """A Job whose pods start together, and do nothing before all of them run."""
    annotations = {GROUPED_BY: name}
    body = work_body(
        JOB, name, queue, cpu=str(CPU), annotations=annotations, parallelism=size, completions=size
    )
    sandbox.podgroup(name, queue, minMember=size)
    meta = {"metadata": {"annotations": {WITHIN: "10s"}}}
    sandbox.api.patch(f"{sandbox.podgroups_path}/{name}", meta).must()
    sandbox.make(JOB, body).must(201)


class Gangs:
    """Those of which all pods are on nodes end, and no others: the rest keep their nodes, and wait."""

    def __init__(self, sandbox: Sandbox, sizes: dict[str, int]) -> None:
        self._sandbox = sandbox
        self._left = dict(sizes)

    def __call__(self) -> bool:
        found: dict[str, list[Object]] = {name: [] for name in self._left}
        for pod in self._sandbox.read_pods().values():
            of_gang = found.get(pod["metadata"]["annotations"].get(GROUPED_BY, ""))
            if of_gang is not None and on_a_node(pod) and "deletionTimestamp" not in pod["metadata"]:
                of_gang.append(pod)
        for name, pods in found.items():
            if len(pods) == self._left[name]:
                del self._left[name]
                for pod in pods:
                    ends = {"metadata": {"annotations": {COMPLETES: "0s"}}}
                    self._sandbox.patch_pod(pod["metadata"]["name"], ends).must()
        return not self._left

    def __repr__(self) -> str:
        return f"gangs that wait, by their pods: {self._left}"


def test_forty_gangs_of_random_sizes_on_eight_nodes_all_complete(sandbox: Sandbox) -> None:
    """They are of two queues, whose pods are released in turns: so some hold each other's nodes, and all
    others wait for these until one gives back.
    """
    print(f"SEED={SEED}")
    chance = random.Random(SEED)
    whole = sandbox.queue("whole", capability={"cpu": "0"})
    queues = [sandbox.queue(name, parent=whole) for name in ("one", "two")]
    # The first two hold half of the nodes each.
    sizes = {f"gang-{at:02}": chance.choice(SIZES) if at > 1 else 5 for at in range(GANGS)}
    for at, (name, size) in enumerate(sizes.items()):
        job(sandbox, name, queues[at % 2], size)
    sandbox.edit(whole, capability={"cpu": str(CPU * ROOM)})
    until(Gangs(sandbox, sizes), "all to run", seconds=300)
    path = JOB.path(sandbox.namespace)

    def left() -> list[str]:
        jobs = {
            each["metadata"]["name"]: each["status"] for each in sandbox.api.get(path).must().body["items"]
        }
        assert not any(status.get("failed") for status in jobs.values())
        return [name for name, size in sizes.items() if jobs[name].get("succeeded", 0) < size]

    until(lambda: not left(), "all to complete")
    gave_back = [each for name in sizes for each in sandbox.events(name) if "GangGaveBack" in each]
    print(f"{sum(sizes.values())} pods, {len(gave_back)} times a gang gave back")


#: Each of them is never complete, or never has room.
VAIN: tuple[Object, ...] = (
    {"minMember": 2},
    {"minMember": 2, "minResources": {"cpu": "10"}},
    {"minMember": 100_000},
    {"minTaskMember": {f"task-{at}": 1 for at in range(200)}},
)


def test_thousands_of_podgroups_in_vain_hold_up_nobody(sandbox: Sandbox) -> None:
    """Ten thousand are tried below a control plane: `tests/controller/quota/test_gangs.py`."""
    queue = sandbox.queue("many", capability={"cpu": "4"})
    other = sandbox.queue("other", capability={"cpu": "4"})
    sandbox.make_podgroups(
        podgroup_body(f"vain-{at}", queue, **VAIN[at % len(VAIN)]) for at in range(PODGROUPS)
    )
    sandbox.pod("vain-0-0", annotations={GROUPED_BY: "vain-0"}, cpu="1").must(201)
    sandbox.podgroup("gang", queue, minMember=2)
    for name in ("gang-0", "gang-1"):
        sandbox.pod(name, annotations={GROUPED_BY: "gang"}, cpu="2").must(201)
    sandbox.pod("single", other, cpu="4").must(201)
    sandbox.all_bound(["gang-0", "gang-1", "single"])
    sandbox.reason_on("vain-0-0", "fewer than 2 pods of its PodGroup exist")

    def pending(status: Object) -> int:
        return int(status.get("pending", 0)) + int(status.get("inqueue", 0))

    sandbox.queue_that(queue, "count them", lambda read: pending(read["status"]) >= PODGROUPS)
