"""Controllers of other projects that make pods, unmodified, beside a control plane of the tests.

In a cluster each is a Deployment with a Service, which makes certificates for its webhooks itself, or has
them made by cert-manager. Here it is a process of this machine: its webhooks are registered by address, with
certificates of the test, as its own configuration allows. All that its manifests say of these webhooks counts
(`patched` has what their kustomizations add). It acts as its own service account, with all rights.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from certs import authority
from localcluster import external_tools, processes
from localcluster.cluster import LocalCluster
from localcluster.ports import LOOPBACK, spare_port
from tests.support import yaml_texts
from tests.support.e2e.api_requests import Object
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until
from tests.support.e2e.workloads import WorkloadKind
from tests.support.skipping import built_or_skipped

REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1"


class Operator(NamedTuple):
    """`tool`: of `external_tools.OPERATORS`. `pod_label`: what the pods have that its webhooks are asked
    about. `config`: more of its configuration.
    """

    tool: str
    made: WorkloadKind
    user: str
    config_group: str
    pod_label: str
    config: Mapping[str, Any] = {}


JOB_SET = Operator(
    "jobset",
    WorkloadKind("JobSet", "jobset.x-k8s.io/v1alpha2", "jobsets"),
    "system:serviceaccount:jobset-system:jobset-controller-manager",
    "config.jobset.x-k8s.io",
    "jobset.sigs.k8s.io/jobset-name",
)
LEADER_WORKER_SET = Operator(
    "leaderworkerset",
    WorkloadKind("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", "leaderworkersets"),
    "system:serviceaccount:lws-system:lws-controller-manager",
    "config.lws.x-k8s.io",
    "leaderworkerset.sigs.k8s.io/name",
    {"gangSchedulingManagement": {"schedulerProvider": "volcano"}},
)


def built(tool: str) -> tuple[Path, list[Path]]:
    """The program and the definitions. Where they cannot be built, tests are skipped, or fail if CI=true."""
    return built_or_skipped(f"controller {tool}", lambda: external_tools.operator(tool, say=print))


@contextmanager
def running(cluster: LocalCluster, operator: Operator, folder: Path) -> Iterator[None]:
    """The operator, with its kinds and webhooks; these stay in the cluster."""
    binary, definitions = built(operator.tool)
    layout, port = cluster.layout, spare_port(cluster.layout.ports)
    ca = authority.create(name=operator.tool, now=datetime.now(UTC))
    ca.serving(now=datetime.now(UTC), ips=[LOOPBACK]).save(folder, stem="tls")
    configuration = folder / "config.yaml"
    configuration.write_text(json.dumps(_configuration(operator, folder, port)))
    kinds = [path for path in definitions if path.name != external_tools.WEBHOOKS]
    cluster.kubectl("apply", "--server-side", *(f"--filename={path}" for path in kinds))
    sandbox = Sandbox(cluster)
    kubeconfig = sandbox.user(operator.user, "cluster-admin")
    sandbox.may(operator.user, "create", "pods")
    until(
        lambda: sandbox.api.get(operator.made.path(sandbox.namespace)).status == 200,
        f"{operator.made.resource} to be served",
    )
    processes.spawn(
        [str(binary), f"--config={configuration}", f"--kubeconfig={kubeconfig}", "--leader-elect=false"],
        folder=layout.folder,
        component=operator.tool,
        log=layout.log(operator.tool),
    )
    try:
        [webhooks] = [path for path in definitions if path.name == external_tools.WEBHOOKS]
        for body in yaml_texts.load_all(webhooks.read_text()):
            path = f"{REGISTRATIONS}/{body['kind'].lower()}s"
            sandbox.api.create(path, patched(body, operator, port, ca.certificate)).must(201)
        yield
    finally:
        processes.stop(layout.folder, components=[operator.tool])
        sandbox.close()


def _configuration(operator: Operator, folder: Path, port: int) -> Object:
    return {
        "apiVersion": f"{operator.config_group}/v1alpha1",
        "kind": "Configuration",
        "webhook": {"host": LOOPBACK, "port": port, "certDir": str(folder)},
        "health": {"healthProbeBindAddress": "0"},
        "metrics": {"bindAddress": "0"},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        **operator.config,
    }


def patched(body: Object, operator: Operator, port: int, ca: bytes) -> Object:
    """Its webhooks, by address. Of pods they are asked about the operator's own alone, and their name is that
    of the installed ones: they are called before those of Sluice, in the order of names.
    """
    body["metadata"]["name"] = f"{operator.tool}-{body['metadata']['name']}"
    for webhook in body["webhooks"]:
        path = webhook["clientConfig"]["service"]["path"]
        webhook["clientConfig"] = {
            "url": f"https://{LOOPBACK}:{port}{path}",
            "caBundle": base64.b64encode(ca).decode(),
        }
        if webhook["rules"][0]["resources"] == ["pods"]:
            webhook["objectSelector"] = {
                "matchExpressions": [{"key": operator.pod_label, "operator": "Exists"}]
            }
    return body
