"""Mode `scheduler`: a real second kube-scheduler, with the rights and the configuration of the manifests.

The cluster's own kube-scheduler knows nothing of the server.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from localcluster.cluster import LocalCluster
from localcluster.exceptions import StartFailed
from localcluster.layout import OWN_SCHEDULER
from queues.mode import Mode
from tests.e2e.acknowledgement.test_stop_in_mid_flow import run_rounds
from tests.e2e.localcluster.test_refused_starts import start as refused_start
from tests.support import yaml_texts
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
from tests.support.e2e.wait import settled, until
from tests.support.paths import ROOT

pytestmark = pytest.mark.long

BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
CLUSTERS = "system:kube-scheduler"
OURS = "system:serviceaccount:sluice-system:sluice"
#: Of `configured_cluster`.
CLUSTER = {"mode": Mode.SCHEDULER}


def test_members_go_by_our_scheduler_and_all_others_by_the_clusters(sandbox: Sandbox) -> None:
    """No pod requests a resource that no node offers: that is what node autoscalers need."""
    members = sandbox.pods("member", 3, sandbox.queue())
    others = sandbox.pods("other", 3)
    sandbox.all_bound([*members, *others])
    pods = sandbox.read_pods()
    assert {mode_of(pods[name]) for name in members} == {Mode.SCHEDULER}
    assert {pods[name]["spec"]["schedulerName"] for name in others} == {"default-scheduler"}
    assert "sluice.dev/member" not in str(pods)
    by_user = {bind.pod: bind.user for bind in sandbox.binds_of([*members, *others])}
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
        queue, "find its policy", lambda read: condition(read, "PolicyResolved").get("status") == "True"
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


def test_a_right_that_our_kube_scheduler_lacks_is_named_before_anything_is_written(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    cluster = sandbox.cluster
    sandbox.api.delete(f"{BINDINGS}/sluice-volume-scheduler").must()
    try:
        done = refused_start(cluster, tmp_path / "certs")
        assert done.returncode == 1
        assert "our own kube-scheduler has our service account, which may not" in done.stderr
        assert "update persistentvolumes everywhere" in done.stderr
        assert "-f manifests/ways/scheduler/rights.yaml" in done.stderr
        assert not (tmp_path / "certs").exists()
    finally:
        cluster.kubectl("apply", "--server-side", "-f", str(ROOT / "manifests/ways/scheduler/rights.yaml"))


def test_our_scheduler_is_let_in_by_its_client_certificate_and_by_nothing_else(sandbox: Sandbox) -> None:
    """The server asks its callers for certificates. The last test: our scheduler stays without one."""
    cluster, queue = sandbox.cluster, sandbox.queue()
    refused = r'sluice_requests_total{[^}]*code="401",path="/extender/filter"[^}]*}'
    sandbox.pod("let-in", queue).must(201)
    sandbox.all_bound(["let-in"])
    assert sandbox.counted(refused) == 0

    file = cluster.layout.own_scheduler_config
    configuration = yaml_texts.load(file.read_text())
    configuration["leaderElection"] = {"leaderElect": False}  # nobody waits until its Lease has ended
    for extender in configuration["extenders"]:
        extender["tlsConfig"] = {"insecure": True}
    file.write_text(yaml.safe_dump(configuration))
    cluster.restart_components(OWN_SCHEDULER)
    sandbox.pod("anonymous", queue).must(201)
    until(lambda: sandbox.counted(refused) > 0, "the server to answer 401")
    assert sandbox.bound(["anonymous"]) == set()
