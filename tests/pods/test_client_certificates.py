"""`manifests/client-certificates` on real nodes: kube-apiserver and kube-scheduler show what is asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from localcluster.cluster import LocalCluster
from localcluster.components import NAMESPACE, until
from localcluster.manifests import MANIFESTS
from localcluster.pods import images, installation

#: The API server's way to a port of the Service, without a certificate of a caller.
ANONYMOUS = f"/api/v1/namespaces/{NAMESPACE}/services/https:sluice:443/proxy/extender/filter"
SECONDS = 120.0
QUEUE = "scheduling.volcano.sh/queue-name"


@pytest.fixture
def asking(pods_cluster: LocalCluster, tmp_path: Path) -> Iterator[LocalCluster]:
    """The server asks for certificates, as docs/operating/client-certificates.md says, for one test."""
    authorities = pods_cluster.layout.caller_authorities
    name, file = (
        ("configmap", "sluice-callers", f"--namespace={NAMESPACE}"),
        f"--from-file=ca.crt={authorities}",
    )
    pods_cluster.kubectl("create", *name, file)
    manifests = os.path.relpath(MANIFESTS, tmp_path)
    (tmp_path / "kustomization.yaml").write_text(
        f"resources: [{manifests}]\ncomponents: [{manifests}/client-certificates]\n"
    )
    with ExitStack() as afterwards:
        afterwards.callback(pods_cluster.kubectl, "delete", *name)
        afterwards.callback(apply, pods_cluster, MANIFESTS)
        apply(pods_cluster, tmp_path)
        yield pods_cluster


def apply(cluster: LocalCluster, folder: Path) -> None:
    cluster.kubectl("apply", "--server-side", "-k", str(folder))
    installation.wait_for_rollout(cluster.layout)


def test_members_run_and_others_are_answered_401(asking: LocalCluster) -> None:
    """kube-apiserver and kube-scheduler were given their certificates before the server asked for them."""
    with asking.api() as api:
        until(
            lambda: api.request("GET", ANONYMOUS).status == 401,
            what="strangers to be refused",
            seconds=SECONDS,
        )
    asking.kubectl("create", "namespace", "asked")
    asking.kubectl("annotate", "namespace", "asked", f"{QUEUE}=default")
    account = ("serviceaccount/default", "--namespace=asked", f"--timeout={SECONDS:.0f}s")
    asking.kubectl("wait", "--for=create", *account)
    asking.kubectl("run", "member", "--namespace=asked", f"--image={images.PAUSE}")
    ready = ("pod/member", "--namespace=asked", f"--timeout={SECONDS:.0f}s")
    asking.kubectl("wait", "--for=condition=Ready", *ready)
    label = ("-o", r"jsonpath={.metadata.labels.sluice\.dev/queue}")
    until(
        lambda: asking.kubectl("get", "pod", "member", "--namespace=asked", *label) == "default",
        what="the pod to be a member",
        seconds=SECONDS,
    )
    asking.kubectl("delete", "namespace", "asked", "--wait=false")
