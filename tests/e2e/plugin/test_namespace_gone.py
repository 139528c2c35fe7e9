"""docs/operating/namespace-gone.md: what goes on, what is refused, and the way out without the server."""

from __future__ import annotations

import subprocess

from localcluster.apiserver import try_kubectl
from localcluster.cluster import LocalCluster
from tests.support.e2e.objects import pod_body
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until
from tests.support.plugin.harness import plugin_in_process

#: Its namespace goes, and with it the service account of the server.
KEEPS_CLUSTER = True


def plugin(cluster: LocalCluster, *words: str) -> subprocess.CompletedProcess[str]:
    return plugin_in_process(*words, kubeconfig=cluster.client_kubeconfig)


def test_members_wait_others_go_on_and_the_removal_needs_nothing_of_it(own_sandbox: Sandbox) -> None:
    cluster, sandbox = own_sandbox.cluster, own_sandbox
    cluster.start_components("server")
    queue = sandbox.queue("lab")
    sandbox.suspend(queue)
    sandbox.pod("waits", queue).must(201)
    cluster.stop_components("server")
    cluster.kubectl("delete", "namespace", "sluice-system")
    assert "NotFound" in try_kubectl(cluster.layout, "get", "namespace", "sluice-system").stderr

    refused = sandbox.pod("member", queue)
    assert refused.status == 500
    assert "failed calling webhook" in refused.body["message"]
    sandbox.api.create(sandbox.pods_path, pod_body("stranger")).must(201)
    sandbox.all_bound(["stranger"])
    edited = plugin(cluster, "resume", queue)
    assert edited.returncode == 1
    assert "nothing was changed: no replica of Sluice answers" in edited.stderr
    assert sandbox.read_queue(queue)["status"]["state"] == "Suspended"
    until(lambda: plugin(cluster, "status").returncode == 1, "the Leases to be known as gone")

    looked = plugin(cluster, "uninstall", "--dry-run=client")
    assert looked.returncode == 0, looked.stderr
    assert (
        "validatingwebhookconfigurations.admissionregistration.k8s.io/sluice deleted (dry run)"
        in looked.stdout
    )
    removed = plugin(cluster, "uninstall", "--yes")
    assert removed.returncode == 0, removed.stderr
    until(lambda: sandbox.pod("late", queue).status in {201, 409}, "the webhooks to be gone everywhere")
    assert not sandbox.read_pod("waits")["spec"].get("schedulingGates")
