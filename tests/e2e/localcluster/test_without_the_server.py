"""A real control plane, without the server."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from localcluster import lifecycle, scheduler_config
from localcluster.apiserver import Https
from localcluster.cluster import LocalCluster
from localcluster.components import until
from localcluster.exceptions import SetUpFailed
from localcluster.lifecycle import ClusterOptions

pytestmark = pytest.mark.long

NewCluster = Callable[..., LocalCluster]
RUNNING = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"]


def plane(new_cluster: NewCluster) -> LocalCluster:
    return new_cluster(server=False, edit_scheduler=scheduler_config.without_extenders)


def pod(name: str, **spec: object) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "none"}], **spec},
    }


def create(api: Https, name: str) -> None:
    reply = api.request("POST", "/api/v1/namespaces/default/pods", pod(name))
    assert reply.status == 201, reply.body


def running(api: Https, name: str) -> bool:
    read = api.request("GET", f"/api/v1/namespaces/default/pods/{name}").json()
    return bool(read["status"]["phase"] == "Running")


def test_a_life_of_a_cluster(new_cluster: NewCluster) -> None:
    """One long test, because a start costs seconds: each step builds on the last."""
    cluster = plane(new_cluster)
    info_says_where_everything_is(cluster)
    pods_are_bound_and_run(cluster)
    a_refused_bind_is_in_the_audit_log(cluster)
    a_user_has_no_rights(cluster)
    a_second_start_changes_nothing(cluster)
    only_the_dead_are_started_again(cluster)
    the_scheduler_can_be_configured_anew(cluster)
    nothing_is_left_after_the_end(cluster)


def info_says_where_everything_is(cluster: LocalCluster) -> None:
    info = cluster.info
    keys = ("kubeconfig", "bin_dir", "ca_file", "client_cert", "client_key", "logs_dir", "audit_log")
    files = [info[key] for key in keys]
    assert all(Path(file).is_absolute() and Path(file).exists() for file in files)
    assert info["metrics_url"] == f"{cluster.ports.health_url}/metrics"
    assert sorted(info["pids"]) == RUNNING
    assert all(os.getpgid(pid) == pid for pid in info["pids"].values())


def pods_are_bound_and_run(cluster: LocalCluster) -> None:
    with cluster.api() as api:
        create(api, "first")
        until(lambda: running(api, "first"), what="a pod to run")
    # The API server writes a line once it has answered: others may see the bind before that.
    until(lambda: any(bind.bound for bind in cluster.audit()), what="the line of the bind in the audit log")
    assert [bind.pod for bind in cluster.audit() if bind.bound] == ["first"]


def a_refused_bind_is_in_the_audit_log(cluster: LocalCluster) -> None:
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "none"}, "target": {"name": "n"}}
    with cluster.api() as api:
        api.request("POST", "/api/v1/namespaces/default/pods/none/binding", binding)
        api.request("POST", "/api/v1/namespaces/default/bindings?dryRun=All", binding)
    until(
        lambda: refused_binds(cluster) == [("none", 404, False), ("none", 404, True)],
        what="the lines of the binds in the audit log",
    )


def refused_binds(cluster: LocalCluster) -> list[tuple[str, int, bool]]:
    return [(bind.pod, bind.code, bind.dry_run) for bind in cluster.audit() if bind.pod == "none"]


def a_user_has_no_rights(cluster: LocalCluster) -> None:
    kubeconfig = cluster.user("alice", "team-a")
    said = json.loads(cluster.kubectl("auth", "whoami", "-o", "json", kubeconfig=kubeconfig))
    user = said["status"]["userInfo"]
    assert user["username"] == "alice"
    assert set(user["groups"]) == {"team-a", "system:authenticated"}
    with pytest.raises(SetUpFailed, match="forbidden"):
        cluster.kubectl("get", "nodes", kubeconfig=kubeconfig)


def a_second_start_changes_nothing(cluster: LocalCluster) -> None:
    before = cluster.pids
    lifecycle.up(cluster.layout, ClusterOptions(server=False), say=cluster.say)
    assert cluster.pids == before


def only_the_dead_are_started_again(cluster: LocalCluster) -> None:
    before = cluster.pids
    cluster.signal_component("kube-apiserver", signal.SIGKILL)
    cluster.signal_component("kwok", signal.SIGKILL)
    lifecycle.up(cluster.layout, ClusterOptions(server=False), say=cluster.say)
    after = cluster.pids
    assert {name for name in RUNNING if before[name] != after[name]} == {"kube-apiserver", "kwok"}
    assert cluster.info["pids"] == after


def the_scheduler_can_be_configured_anew(cluster: LocalCluster) -> None:
    cluster.configure_scheduler(scheduler_config.without_extenders)
    with cluster.api() as api:
        create(api, "second")
        until(lambda: running(api, "second"), what="a pod to run")


def nothing_is_left_after_the_end(cluster: LocalCluster) -> None:
    cluster.stop()
    assert not cluster.pids
    assert [path.name for path in cluster.layout.folder.iterdir() if path.name != ".lock"] == ["logs"]


def test_two_clusters_run_beside_each_other(new_cluster: NewCluster) -> None:
    one = plane(new_cluster)
    two = plane(new_cluster)
    one.stop()
    assert sorted(two.pids) == RUNNING
    assert json.loads(two.kubectl("get", "nodes", "-o", "json"))["items"]
