"""The server on real nodes in each mode, by kustomizations of the administrator's own."""

from __future__ import annotations

import os
import re
from pathlib import Path

import yaml

from localcluster import manifests
from localcluster.cluster import LocalCluster
from localcluster.components import NAMESPACE
from queues.mode import Mode
from tests.support.paths import ROOT

WITH_CERTIFICATES = (
    (ROOT / "docs" / "operating" / "mode-scheduler.md")
    .read_text()
    .split("\n## With client certificates\n")[1]
)


def kustomization(folder: Path, mode: Mode, *, replicas: int) -> Path:
    """As docs/operating/kustomize.md has it, in a new folder."""
    return _write(folder, manifests.folder(mode), replicas)


def with_certificates(folder: Path, cluster: LocalCluster, *, replicas: int) -> Path:
    """Mode `scheduler` with client certificates, as docs/operating/mode-scheduler.md, in a new folder."""
    namespace, layout = f"--namespace={NAMESPACE}", cluster.layout
    authority = f"--from-file=ca.crt={layout.caller_authorities}"
    cluster.kubectl("create", "configmap", "sluice-callers", namespace, authority)
    [secret] = re.findall(r"kubectl create secret tls (\S+) ", WITH_CERTIFICATES)
    certificate, key = layout.caller_certificate("kube-scheduler")
    cluster.kubectl("create", "secret", "tls", secret, namespace, f"--cert={certificate}", f"--key={key}")
    [applied] = re.findall(r"kubectl apply --server-side -k (\S+)", WITH_CERTIFICATES.split("\n## ")[0])
    return _write(folder, ROOT / applied, replicas)


def _write(folder: Path, resources: Path, replicas: int) -> Path:
    """A kustomization of what is in `resources`, with so many replicas."""
    folder.mkdir()
    content = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(resources, folder)],
        "replicas": [{"name": "sluice", "count": replicas}],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(content))
    return folder
