"""Leases of replicas that were changed by hand: no stop is acknowledged that a replica may still break.

A replica that does nothing for a while (SIGSTOP) relies upon its Lease for some seconds, whether that is
there or not. Only a mark of the replica itself says that it has ended.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cluster.coordination.leader_election import LEASE_NAME
from cluster.coordination.replica_lease import LABEL, PREFIX
from localcluster.cluster import LocalCluster
from localcluster.components import NAMESPACE
from tests.support.e2e.api_requests import Api
from tests.support.e2e.filter_calls import FilterCaller
from tests.support.e2e.fleet import Fleet
from tests.support.e2e.objects import waits_for
from tests.support.e2e.rounds import NothingWrong, Rounds
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until
from tests.support.examples import scaled
from tests.support.plugin.harness import plugin

pytestmark = pytest.mark.long

LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
REPLICAS = ("server-1", "server-2", "server-3")
SLOW = REPLICAS[1]
#: How many stops are asked for while Leases are deleted.
ROUNDS = scaled(4)
FAR = {"leaseDurationSeconds": 2**31 - 1, "renewTime": "2999-01-01T00:00:00.000000Z"}


@pytest.fixture(scope="module")
def fleet(module_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    made = Fleet(module_cluster, Path(tmp_path_factory.mktemp("fleet")))
    try:
        for name in REPLICAS:
            made.join(name)
        yield made
    finally:
        made.close()


@pytest.fixture
def own_sandbox(module_cluster: LocalCluster, fleet: Fleet) -> Iterator[Sandbox]:
    made = Sandbox(module_cluster)
    yield made
    made.close()


def replica_leases(api: Api) -> list[str]:
    names = [str(each["metadata"]["name"]) for each in api.get(LEASES).must().body["items"]]
    return [name for name in names if name.startswith(PREFIX)]


def test_a_slow_replica_whose_lease_was_deleted_breaks_no_stop(own_sandbox: Sandbox, fleet: Fleet) -> None:
    """It may answer as before the stop until its Lease would have ended. So the stop waits for that."""
    queue = own_sandbox.queue()
    names = own_sandbox.pods("member", 4, queue, gated=True)
    uids = {name: str(own_sandbox.read_pod(name)["metadata"]["uid"]) for name in names}
    with (
        Api(own_sandbox.cluster) as api,
        FilterCaller(own_sandbox, port=fleet.port(SLOW)) as caller,
        ThreadPoolExecutor(1) as pool,
    ):
        fleet.only(REPLICAS[0])
        caller.passed({"warm-up": ""}, "")
        fleet.ways[SLOW].cut()  # else the watch may bring it the stop before it reads a call
        fleet.pause(SLOW)
        for name in replica_leases(api):
            api.delete(f"{LEASES}/{name}").must()
        answers = pool.submit(caller.passed, uids, queue)
        own_sandbox.patch_queue(queue, state="Suspended").must()
        own_sandbox.answered(queue)
        fleet.go_on(SLOW)
        assert answers.result() == []
    fleet.heal(SLOW)
    fleet.share()


class LeasesDeleted(NothingWrong):
    """In each round Leases of the replicas and of the leader are deleted at random, one or all of them, and a
    replica does nothing for a while.
    """

    rounds = ROUNDS

    def __init__(self, fleet: Fleet, cluster: LocalCluster) -> None:
        super().__init__(fleet)
        self._cluster, self._chance = cluster, random.Random(7)
        self._began, self._ended = threading.Event(), threading.Event()
        self._thread = threading.Thread()
        self.deleted = 0

    def before(self) -> None:
        self._began.clear()
        self._ended.clear()
        self._thread = threading.Thread(target=self._run, name="deletions", daemon=True)
        self._thread.start()

    def after(self) -> None:
        self._ended.set()
        self._thread.join()
        with Api(self._cluster) as api:
            until(lambda: len(replica_leases(api)) == len(REPLICAS), "each replica to have a Lease again")
        for name in REPLICAS:
            self.fleet.wait_until_ready(name)

    def amid(self, number: int) -> None:
        """The stop may be asked for before a Lease is deleted, or after."""
        self._began.wait()

    def _run(self) -> None:
        with Api(self._cluster) as api:
            while True:
                paused = self._chance.choice(REPLICAS)
                self.fleet.pause(paused)
                try:
                    self._delete(api)
                    self._began.set()
                    self._ended.wait(self._chance.uniform(0.0, 3.0))
                finally:
                    self.fleet.go_on(paused)
                if self._ended.wait(self._chance.uniform(0.0, 0.5)):
                    break

    def _delete(self, api: Api) -> None:
        names = [*replica_leases(api), LEASE_NAME]
        for name in names if self._chance.random() < 0.2 else [self._chance.choice(names)]:
            self.deleted += api.delete(f"{LEASES}/{name}").must(200, 404).status == 200


def test_leases_that_are_deleted_at_random_have_no_pod_bound_after_an_acknowledgement(
    own_sandbox: Sandbox, fleet: Fleet
) -> None:
    """`HYPOTHESIS_PROFILE=thorough`: ten times as many rounds."""
    trouble = LeasesDeleted(fleet, own_sandbox.cluster)
    rounds = Rounds(own_sandbox, trouble)
    try:
        through = [rounds.stopped_in_mid_flow(number) for number in range(trouble.rounds)]
    finally:
        trouble.after()
    assert through == [[]] * trouble.rounds
    assert trouble.deleted >= trouble.rounds
    rounds.end()


def test_a_lease_that_no_replica_has_written_is_named_and_holds_up_no_stop_for_ever(
    own_sandbox: Sandbox, fleet: Fleet
) -> None:
    """Whatever duration and time is written on it. So is the leader's Lease that was given to another."""
    queue, kubeconfig = own_sandbox.queue(), own_sandbox.cluster.layout.kubeconfig
    body = {
        "metadata": {"name": f"{PREFIX}stranger", "labels": {LABEL: "true"}},
        "spec": {"holderIdentity": "stranger", **FAR},
    }
    with Api(own_sandbox.cluster) as api:
        api.create(LEASES, body).must(201)
        own_sandbox.patch_queue(queue, state="Suspended").must()
        named = f"delete Lease {PREFIX}stranger"
        own_sandbox.queue_that(queue, f"wait and say {named}", lambda held: named in waits_for(held))
        told = plugin("status", kubeconfig=kubeconfig)
        assert f"kubectl delete lease {PREFIX}stranger -n {NAMESPACE}" in told.stdout, told
        own_sandbox.answered(queue)
        api.patch(f"{LEASES}/{LEASE_NAME}", {"spec": {"holderIdentity": "stranger", **FAR}}).must()
        own_sandbox.suspend(own_sandbox.queue("other"))
