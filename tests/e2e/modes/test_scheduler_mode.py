"""Mode `scheduler`: a real second kube-scheduler, with the rights and the configuration of the manifests.

The cluster's own kube-scheduler knows nothing of the server.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from localcluster.cluster import LocalCluster
from localcluster.exceptions import StartFailed
from localcluster.layout import OWN_SCHEDULER
from queues.mode import Mode
from tests.conftest import end, end_abandoned, folder_name, start
from tests.e2e.acknowledgement.test_stop_in_mid_flow import run_rounds
from tests.support.e2e.modes import (
    alive,
    fill_nodes,
    make_room,
    mode_of,
    pending_before_a_stop,
    wait_for_room,
)
from tests.support.e2e.objects import GATE, condition, gates, suspended_text
from tests.support.e2e.policies import NAME, NAMESPACE, policy
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import settled

CLUSTERS = "system:kube-scheduler"
OURS = "system:serviceaccount:sluice-system:sluice"


@pytest.fixture(scope="module")
def its_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    end_abandoned()
    started = start(tmp_path_factory.mktemp(folder_name(), numbered=True), mode=Mode.SCHEDULER)
    yield started
    end(started)


@pytest.fixture
def sandbox(its_cluster: LocalCluster) -> Iterator[Sandbox]:
    made = Sandbox(its_cluster)
    yield made
    made.leave()
    made.close()


def test_members_go_by_our_scheduler_and_all_others_by_the_clusters(sandbox: Sandbox) -> None:
    """No pod requests a resource that no node offers: that is what node autoscalers need."""
    members = sandbox.pods("member", 3, sandbox.queue())
    others = sandbox.pods("other", 3)
    sandbox.all_bound([*members, *others])
    pods = sandbox.read_pods()
    assert {mode_of(pods[name]) for name in members} == {Mode.SCHEDULER}
    assert {pods[name]["spec"]["schedulerName"] for name in others} == {"default-scheduler"}
    assert "sluice.dev/member" not in str(pods)
    by_user = {bind.pod: bind.user for bind in sandbox.binds() if bind.bound}
    assert by_user == {**dict.fromkeys(members, OURS), **dict.fromkeys(others, CLUSTERS)}
    assert OWN_SCHEDULER in sandbox.cluster.info["pids"]


def test_a_cluster_that_runs_is_not_started_in_another_mode(sandbox: Sandbox) -> None:
    with pytest.raises(StartFailed, match="runs in mode scheduler; end it first: make down"):
        LocalCluster.start(sandbox.cluster.layout.folder, mode=Mode.GATE)


def test_stops_in_mid_flow_let_no_pod_through(sandbox: Sandbox) -> None:
    assert run_rounds(sandbox, sandbox.queue(), 3) == [[]] * 3


def test_pods_that_were_pending_before_a_stop_wait_in_filter_and_new_ones_behind_a_gate(
    sandbox: Sandbox,
) -> None:
    """No bind of theirs is even tried. A resume lets all go at once."""
    queue = sandbox.queue()
    pending = wait_for_room(sandbox, "pending", 5, queue)
    sandbox.suspend(queue)
    sandbox.pod("gated", queue).must(201)
    assert gates(sandbox.read_pod("gated")) == [GATE]
    make_room(sandbox)
    for name in pending:
        sandbox.reason_on(name, suspended_text(queue))
    assert not [bind for bind in sandbox.binds() if not bind.dry_run]
    sandbox.edit(queue, state="Open")
    sandbox.all_bound([*pending, "gated"])


def test_a_pod_of_a_stopped_queue_evicts_nobody(sandbox: Sandbox) -> None:
    """Neither the pods of its own scheduler nor those of the cluster's."""
    important = pending_before_a_stop(sandbox, sandbox.queue())
    victims = fill_nodes(sandbox)
    asked = sandbox.calls("/extender/preempt")
    sandbox.ungate([important])
    sandbox.reason_on(important, "Insufficient cpu")
    settled(lambda: sandbox.calls("/extender/preempt"), "the calls of preempt")
    assert sandbox.calls("/extender/preempt") > asked
    assert alive(sandbox, victims) == victims


def test_a_policy_scores_nodes_without_a_resource_on_the_pods(sandbox: Sandbox) -> None:
    """The second entry of the scheduler's configuration is called for each of its pods."""
    sandbox.api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}).must(201)
    policies = {"metadata": {"name": NAME}, "data": {"packed": policy("allocate", "binpack")}}
    sandbox.create(f"/api/v1/namespaces/{NAMESPACE}/configmaps", policies)
    queue = sandbox.queue(schedulerPolicy="packed")
    sandbox.queue_that(
        queue, "find its policy", lambda read: condition(read, "PolicyResolved")["status"] == "True"
    )
    asked = sandbox.calls("/extender/prioritize")
    names = [f"packed-{number}" for number in range(4)]
    for name in names:
        sandbox.pod(name, queue, cpu="1").must(201)
        sandbox.all_bound([name])
    assert sandbox.calls("/extender/prioritize") > asked
    pods = sandbox.read_pods()
    assert len({pods[name]["spec"]["nodeName"] for name in names}) == 1
    assert "sluice.dev/scored" not in str(pods)
