"""No queue is ever over its capability, whatever happens to leaders, watches, pods and the book.

A minute of it. `make test-faults` is ten minutes with 2,000 pods; MINUTES and SEED make others.
"""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Iterator, Mapping

import pytest

from localcluster.cluster import LocalCluster
from tests.support.e2e.api_requests import Api
from tests.support.e2e.fleet import Fleet
from tests.support.e2e.objects import on_a_node
from tests.support.e2e.policies import Policies, policy
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until
from tests.support.quota.fault_tree import GPU, POLICY, TREE, spec_of
from tests.support.quota.fleet_faults import REPLICAS, FleetFaults, join
from tests.support.quota.pod_life import PodLife, gangs_that_wait
from tests.support.quota.quota_judge import QuotaJudge, seen_gang, seen_pod
from tests.support.quota.quota_recorder import RecordedBook, RecordedGangs, RecordedPods, judged

pytestmark = pytest.mark.long
SECONDS = 60 * float(os.environ.get("MINUTES") or 0.5)
#: How many come in a second.
RATE = 4
SEED = int(os.environ.get("SEED") or secrets.randbelow(10**6))


@pytest.fixture
def fleet(module_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Three replicas that say which of them leads."""
    made = Fleet(module_cluster, tmp_path_factory.mktemp("fleet"))
    try:
        for name in REPLICAS:
            join(made, name)
        yield made
    finally:
        made.close()


@pytest.fixture
def own_sandbox(module_cluster: LocalCluster, fleet: Fleet) -> Iterator[Sandbox]:
    made = Sandbox(module_cluster)
    yield made
    made.close()


def test_no_queue_is_over_its_capability_and_what_fits_goes(own_sandbox: Sandbox, fleet: Fleet) -> None:
    """Leaders die, sleep and leave; what replicas hear is late, held up or cut; the book is lost. Meanwhile
    pods come, end, fail, are evicted and resized, and queues take back what they deserve."""
    print(f"SEED={SEED}")
    give_nodes_devices(own_sandbox)
    Policies(own_sandbox).write(**{POLICY: policy("allocate, backfill, reclaim, preempt")})
    make_tree(own_sandbox)
    prefix = own_sandbox.named("")
    pods = RecordedPods(own_sandbox.cluster, own_sandbox.pods_path, prefix=prefix)
    gangs = RecordedGangs(own_sandbox.cluster, own_sandbox.podgroups_path)
    book = RecordedBook(own_sandbox.cluster)
    life = PodLife(own_sandbox, pods, total=int(RATE * SECONDS), seconds=SECONDS, seed=SEED)
    with Api(own_sandbox.cluster) as api:
        faults = FleetFaults(fleet, chance=random.Random(SEED), api=api, await_moment=pods.await_gang)
        with life.going_on(), faults.going_on():
            until(lambda: life.all_have_come, "all to come", seconds=2 * SECONDS + 60)
        faults.end()

    def judge_now() -> QuotaJudge:
        """Of what is stored at this moment."""
        judge = QuotaJudge()
        for podgroup in own_sandbox.api.get(own_sandbox.podgroups_path).must().body["items"]:
            judge.note_gang(seen_gang(podgroup))
        for pod in own_sandbox.read_pods().values():
            judge.note_pod(seen_pod(pod, prefix=prefix))
        return judge

    def look() -> Left:
        return Left(judge_now(), claims=read_claims(own_sandbox, prefix=prefix))

    until(look, "each pod that has room to be released")

    def nothing_waits() -> Waiting:
        """What runs ends, and what has waited runs. A gang that has lost a pod waits in vain."""
        judge, found = judge_now(), own_sandbox.read_pods()
        vain, waiting = judge.incomplete(), gangs_that_wait(found.values())
        for name, pod in found.items():
            path = f"{own_sandbox.pods_path}/{name}"
            if on_a_node(pod) and seen_pod(pod, prefix=prefix).gang in waiting:
                own_sandbox.api.patch(f"{path}/status", {"status": {"phase": "Succeeded"}})
            elif on_a_node(pod) or name in vain:
                own_sandbox.api.delete(f"{path}?gracePeriodSeconds=0")
        life.given_up.update(vain)
        return Waiting(judge)

    until(nothing_waits, "each pod to have run: none is forgotten", seconds=180 + 3 * SECONDS)
    pods.end()
    gangs.end()
    book.end()
    judge = judged(pods.stored, book.stored, gangs.stored.values())
    print(*figures(judge, life, faults), *judge.notes, sep="\n")
    assert judge.faults == []
    assert life.wrong == []
    assert life.made - judge.ran - judge.gave_back - life.given_up == set()


def give_nodes_devices(sandbox: Sandbox) -> None:
    for node in sandbox.api.get("/api/v1/nodes").must().body["items"]:
        more = {"capacity": {GPU: "16"}, "allocatable": {GPU: "16"}}
        sandbox.api.patch(f"/api/v1/nodes/{node['metadata']['name']}/status", {"status": more}).must()


def make_tree(sandbox: Sandbox) -> None:
    for name, limits in TREE.items():
        parent = "root" if limits.parent == "root" else sandbox.named(limits.parent)
        sandbox.queue(name, **spec_of(name, parent=parent))


class Waiting:
    """Which pods wait. True where none does, for who waits for that."""

    def __init__(self, judge: QuotaJudge) -> None:
        self._pods = [f"{each.name} of {each.queue} {each.gang}: {each.says}" for each in judge.waiting()]

    def __bool__(self) -> bool:
        return not self._pods

    def __repr__(self) -> str:
        return f"{len(self._pods)} pods: {self._pods[:20]}"


class Left:
    """Which pods have room and wait. True where none does, for who waits for that."""

    def __init__(self, judge: QuotaJudge, *, claims: Mapping[str, str]) -> None:
        self._claims = claims
        self._pods = [f"{each.name} of {each.queue}: {each.says}" for each in judge.left(claims).values()]

    def __bool__(self) -> bool:
        return not self._pods

    def __repr__(self) -> str:
        return f"{len(self._pods)} pods with claims {dict(self._claims)}: {self._pods[:20]}"


def read_claims(sandbox: Sandbox, *, prefix: str) -> dict[str, str]:
    """The names of the pods for which others leave room, by the short names of the queues."""
    queues = sandbox.api.get("/apis/scheduling.volcano.sh/v1beta1/queues").must().body["items"]
    found = {}
    for queue in queues:
        claim = queue.get("status", {}).get("quota", {}).get("claim")
        if claim:
            found[queue["metadata"]["name"].removeprefix(prefix)] = claim["pod"]
    return found


def figures(judge: QuotaJudge, life: PodLife, faults: FleetFaults) -> Iterator[str]:
    """What is told of a run."""
    yield f"{len(life.made)} pods, {len(judge.ran)} ran, {judge.released} releases, {judge.books} books"
    yield f"faults: {dict(faults.done)}, of which {faults.leaders_killed} killed the leader"
    yield f"pods: {dict(life.done)}"
    seconds, name = judge.longest_partly
    yield f"{len(judge.gangs)} gangs: {len(judge.whole)} were whole, {len(judge.spoilt)} lost a pod before"
    yield f"the longest from the first release of a gang until it was on nodes: {seconds:.1f} s ({name})"
    evicted = {reason: len(names) for reason, names in judge.evicted.items()}
    yield f"evicted: {evicted}, and {len(judge.gave_back)} gone before they had a node"
    yield f"{judge.let_in_again} let in again after their workload gave back"
    for queue, most in judge.most.items():
        limits = TREE[queue].capability
        yield f"{queue}: " + ", ".join(
            f"{name} {100 * used / limits[name]:.0f} %" for name, used in most.items()
        )
    seconds, name = judge.longest
    yield f"the longest that a pod had room and waited: {seconds:.1f} s ({name})"
