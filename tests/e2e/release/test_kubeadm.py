"""The real kubeadm takes the ClusterConfiguration of the manifests, and makes static pods of it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from localcluster.build import KUBERNETES
from tests.support import yaml_texts
from tests.support.helm import built_kubeadm
from tests.support.paths import ROOT

pytestmark = pytest.mark.cluster  # kubeadm is built with the control plane

MANIFESTS = ROOT / "manifests"
CONFIGURATION = MANIFESTS / "kubeadm" / "cluster-configuration.yaml"
FOLDER = Path("/etc/kubernetes/sluice")
#: As kubeadm has it in ConfigMap kubeadm-config of a cluster that it made.
STORED = {"kubernetesVersion": KUBERNETES, "networking": {"serviceSubnet": "10.96.0.0/12"}}
THIS_NODE = {
    "apiVersion": "kubeadm.k8s.io/v1beta4",
    "kind": "InitConfiguration",
    "localAPIEndpoint": {"advertiseAddress": "192.0.2.10", "bindPort": 6443},
}


@pytest.fixture(scope="module")
def kubeadm() -> Path:
    return built_kubeadm()


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    """What a cluster's administrator hands to kubeadm."""
    ours = yaml_texts.load(CONFIGURATION.read_text())
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all([{**STORED, **ours}, THIS_NODE]))
    return file


def run(kubeadm: Path, *arguments: str | Path, folder: Path) -> str:
    env = {**os.environ, "KUBEADM_INIT_DRYRUN_DIR": str(folder)}
    done = subprocess.run([kubeadm, *arguments], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def static_pod(kubeadm: Path, component: str, configuration: Path) -> dict[str, Any]:
    """The spec of the static pod that kubeadm would write on a node of the control plane."""
    folder = configuration.parent
    phase = ("init", "phase", "control-plane", component, "--dry-run", "--config", configuration)
    run(kubeadm, *phase, folder=folder)
    spec: dict[str, Any] = yaml_texts.load((folder / f"kube-{component}.yaml").read_text())["spec"]
    return spec


def mounted(spec: dict[str, Any]) -> Iterator[tuple[str, str, bool]]:
    """Folder of the node, path in the container, and whether the container can only read it."""
    folders = {volume["name"]: volume["hostPath"]["path"] for volume in spec["volumes"]}
    for mount in spec["containers"][0]["volumeMounts"]:
        yield folders[mount["name"]], mount["mountPath"], mount.get("readOnly", False)


@pytest.mark.parametrize(
    ("component", "flag", "example"),
    [
        ("scheduler", "--config", "scheduler/scheduler-config.yaml"),
        ("apiserver", "--admission-control-config-file", "apiserver/admission-config.yaml"),
    ],
)
def test_the_static_pod_of_a_component_reads_its_file_in_our_folder(
    kubeadm: Path, configuration: Path, component: str, flag: str, example: str
) -> None:
    run(kubeadm, "config", "validate", "--config", configuration, folder=configuration.parent)
    spec = static_pod(kubeadm, component, configuration)
    assert f"{flag}={FOLDER / Path(example).name}" in spec["containers"][0]["command"]
    assert (str(FOLDER), str(FOLDER), True) in mounted(spec)
    assert {"hostPath": {"path": str(FOLDER), "type": "Directory"}, "name": "sluice"} in spec["volumes"]
    assert str(FOLDER) in (MANIFESTS / example).read_text()


def test_the_scheduler_finds_the_kubeconfig_that_its_configuration_names(
    kubeadm: Path, configuration: Path
) -> None:
    """With --config it ignores --kubeconfig."""
    connection = yaml_texts.load((MANIFESTS / "scheduler/scheduler-config.yaml").read_text())[
        "clientConnection"
    ]
    paths = [path for _, path, _ in mounted(static_pod(kubeadm, "scheduler", configuration))]
    assert connection["kubeconfig"] in paths


def test_the_api_server_keeps_its_address_where_the_configuration_names_it(
    kubeadm: Path, configuration: Path
) -> None:
    """Without it kubeadm takes the address of the default route."""
    command = static_pod(kubeadm, "apiserver", configuration)["containers"][0]["command"]
    assert "--advertise-address=192.0.2.10" in command
