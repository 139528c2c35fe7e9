"""`version`: the server's version is read in the server's own namespace alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta

import pytest

from kubectl_queue.objects.fields import Object
from tests.support.plugin.harness import NOW, StoredObjects, StoredQueues, run_command

WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


def replica(version: str, *, age: float = 0.0) -> Object:
    annotations = {"sluice.dev/seen": json.dumps({"seen": 7, "version": version})}
    renewed = (NOW - timedelta(seconds=age)).isoformat()
    return {
        "metadata": {"name": f"sluice-replica-{version}", "annotations": annotations},
        "spec": {"renewTime": renewed, "leaseDurationSeconds": 6},
    }


def cluster(
    *,
    server: str = "",
    leases: Mapping[str, list[Object]] | None = None,
    images: Mapping[str, str] | None = None,
) -> StoredObjects:
    """Leases, and the images of Deployments, by namespace; webhooks that call a Service in `server`."""
    webhook = {"clientConfig": {"service": {"namespace": server}}}
    items = [{"metadata": {"name": "sluice"}, "webhooks": [webhook]}] if server else []
    objects: dict[str, Object] = {"/version": {"gitVersion": "v1.36.3"}, WEBHOOKS: {"items": items}}
    for namespace in ("sluice-system", "queues", "team"):
        image = (images or {}).get(namespace)
        containers = [{"image": image}] if image else []
        deployment = {"spec": {"template": {"spec": {"containers": containers}}}}
        objects[f"/apis/apps/v1/namespaces/{namespace}/deployments"] = {"items": [deployment]}
        found = (leases or {}).get(namespace, [])
        objects[f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"] = {"items": found}
    everywhere = [lease for found in (leases or {}).values() for lease in found]
    objects["/apis/coordination.k8s.io/v1/leases"] = {"items": everywhere}
    return StoredObjects(objects)


def server_version(client: StoredObjects, *words: str) -> str:
    done = run_command(StoredQueues(), "version", *words, client=client)
    assert (done.code, done.err) == (0, "")
    return dict(line.split(": ", 1) for line in done.out.splitlines())["Server Version"]


@pytest.mark.parametrize(
    ("server", "words"),
    [("queues", ()), ("", ("-n", "queues")), ("sluice-system", ("-n", "queues"))],
    ids=["of the webhooks", "of -n", "of -n, whatever the webhooks name"],
)
def test_the_replicas_in_the_servers_namespace_say_it(server: str, words: tuple[str, ...]) -> None:
    """Whoever may write Leases in another namespace can label one as a replica's."""
    leases = {"queues": [replica("1.2.0"), replica("1.1.0", age=60)], "team": [replica("6.6.6")]}
    assert server_version(cluster(server=server, leases=leases), *words) == "1.2.0"


def test_where_no_webhooks_name_it_the_namespace_is_that_of_the_manifests() -> None:
    leases = {"sluice-system": [replica("1.2.0")], "team": [replica("6.6.6")]}
    assert server_version(cluster(leases=leases)) == "1.2.0"


def test_the_deployment_of_that_namespace_says_it_where_no_replica_does() -> None:
    images = {"queues": "registry.example.com:5000/sluice:1.2.0", "team": "other:6.6.6"}
    assert server_version(cluster(server="queues", images=images)) == "1.2.0"


def test_where_nothing_says_it_the_way_out_is_named() -> None:
    text = server_version(cluster(images={"team": "other:6.6.6"}, leases={"team": [replica("6.6.6")]}))
    assert text.startswith("not known: in namespace sluice-system no replica says it")
    assert text.endswith("-n names another namespace")
