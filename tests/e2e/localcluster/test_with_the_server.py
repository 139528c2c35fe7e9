"""The control plane with the server."""

from __future__ import annotations

import ssl

from localcluster import apiserver, manifests
from localcluster.cluster import LocalCluster
from localcluster.components import until
from localcluster.layout import COMPONENTS

NAMESPACE = "localcluster-serving"
FILTER, REVIEW = "/extender/filter", "/validate/binds"


def test_everything_runs(cluster: LocalCluster) -> None:
    assert set(cluster.info["pids"]) == set(COMPONENTS)


def test_metrics_are_read_with_what_info_says(cluster: LocalCluster) -> None:
    """Without a certificate, from a port of their own."""
    assert cluster.info["metrics_url"] == f"{cluster.ports.health_url}/metrics"
    assert apiserver.readiness_problem(cluster.ports.health, "/metrics", context=None) is None


def test_the_server_answers_whoever_shows_what_info_says(cluster: LocalCluster) -> None:
    info = cluster.info
    context = ssl.create_default_context(cafile=info["ca_file"])
    context.load_cert_chain(info["client_cert"], info["client_key"])
    with apiserver.Https(port=cluster.ports.server, context=context) as client:
        replies = {path: client.request("POST", path, {}).status for path in (FILTER, REVIEW)}
    assert replies == {FILTER: 400, REVIEW: 400}  # an empty object is neither


def test_a_member_reaches_the_server_and_is_bound(cluster: LocalCluster) -> None:
    member = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "member", "annotations": {"scheduling.volcano.sh/queue-name": "default"}},
        "spec": {"containers": [{"name": "c", "image": "none"}]},
    }
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
    with cluster.api() as api:
        api.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        made = api.request("POST", pods, member)
        assert made.status == 201, made.body
        until(
            lambda: bool(api.request("GET", f"{pods}/member").json()["spec"].get("nodeName")), what="a bind"
        )
        api.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}")
    until(lambda: codes_of_binds(cluster) == [201], what="the line of the bind in the audit log")


def test_a_manifest_that_was_applied_is_applied_again_once_somebody_has_changed_or_deleted_it(
    cluster: LocalCluster,
) -> None:
    """And otherwise left as it is, which is much less work for the API server."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "localcluster-applied"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    }
    where = manifests.path(role)
    changes: tuple[object, ...] = (None, {"rules": []}, "delete")
    with cluster.api() as api:
        for change in changes:
            manifests.apply(cluster.layout, cluster.ports, [role])
            if change == "delete":
                assert api.request("DELETE", where).status == 200
            elif change:
                assert not api.request("PATCH", where, change).json()["rules"]
            manifests.apply(cluster.layout, cluster.ports, [role])
            assert api.request("GET", where).json()["rules"] == role["rules"]
        more = {**role, "rules": []}
        manifests.apply(cluster.layout, cluster.ports, [more])
        assert not api.request("GET", where).json().get("rules")
        api.request("DELETE", where)


def codes_of_binds(cluster: LocalCluster) -> list[int]:
    """The API server writes a line once it has answered: others may see the bind before that."""
    return [bind.code for bind in cluster.audit() if (bind.namespace, bind.pod) == (NAMESPACE, "member")]
