"""Each node has addresses, folders and cgroups of its own; the control plane differs where pods need it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from localcluster import components
from localcluster.exceptions import StartFailed
from localcluster.layout import Layout
from localcluster.pods import control_plane, lifecycle, node, sandbox
from localcluster.pods.binaries import Binaries
from localcluster.pods.layout import MOST_NODES, nodes_of
from localcluster.ports import Ports
from tests.support import yaml_texts

PORTS = Ports(etcd=1, etcd_peer=2, apiserver=3, controller_manager=4, scheduler=5, kwok=6, server=7, health=8)
BINARIES = Binaries(bin=Path("/cache/bin"), cni=Path("/cache/cni"))


def test_no_two_nodes_share_an_address_a_folder_or_a_cgroup(tmp_path: Path) -> None:
    nodes = [*nodes_of(Layout.at(tmp_path / "a"), MOST_NODES), *nodes_of(Layout.at(tmp_path / "b"), 1)]
    assert len({each.cgroup for each in nodes}) == len({each.folder for each in nodes}) == len(nodes)
    of_one_cluster = nodes[:MOST_NODES]
    assert len({each.address for each in of_one_cluster} | {each.pod_range for each in of_one_cluster}) == 18


def test_the_configuration_of_a_node_names_only_files_of_its_cluster_and_of_the_cache(tmp_path: Path) -> None:
    [first] = nodes_of(Layout.at(tmp_path), 1)
    files = node.configuration(first, BINARIES)
    kubelet: dict[str, Any] = yaml_texts.load(files["kubelet.yaml"])
    assert kubelet["cgroupRoot"] == f"/{first.cgroup}"
    assert Path(kubelet["resolvConf"]).is_relative_to(tmp_path)
    for name in ("podLogsDir", "volumePluginDir"):
        assert Path(kubelet[name]).is_relative_to(first.inside), name
    assert f'conf_dir = "{first.inside}/cni"' in files["containerd.toml"]


def test_sockets_are_at_short_paths_however_long_that_of_the_cluster_is(tmp_path: Path) -> None:
    last = nodes_of(Layout.at(tmp_path / ("x" * 200)), MOST_NODES)[-1]
    containerd, kubelet = (node.commands(last, BINARIES)[name] for name in ("containerd", "kubelet"))
    [root] = (each.partition("=")[2] for each in kubelet if each.startswith("--root-dir="))
    assert f"--config={last.inside}/containerd.toml" in containerd
    sockets = (f"{last.containerd_socket}.ttrpc", f"{root}/device-plugins/kubelet.sock")
    assert all(len(each) <= 107 for each in sockets), sockets


@pytest.mark.parametrize("program", ["containerd", "kubelet"])
def test_what_a_node_runs_has_the_usual_umask(tmp_path: Path, program: str) -> None:
    [first] = nodes_of(Layout.at(tmp_path), 1)
    command = node.commands(first, BINARIES)[program]
    shown = [*command[: command.index(program)], "sh", "-c", "umask"]
    done = subprocess.run(shown, umask=0o077, check=True, capture_output=True, text=True)
    assert done.stdout == "0022\n"


def test_the_api_server_differs_in_the_flags_that_pods_need(tmp_path: Path) -> None:
    """Each flag is there once, with the value for pods."""
    layout = Layout.at(tmp_path)
    usual = components.BY_NAME["kube-apiserver"].command(layout, PORTS)
    command = control_plane.command(layout, PORTS, "kube-apiserver")
    names = [each.partition("=")[0] for each in command]
    assert len(names) == len(set(names))
    assert "--authorization-mode=Node,RBAC" in command
    assert "--endpoint-reconciler-type=none" in usual
    assert "--endpoint-reconciler-type" not in names


def test_who_is_not_root_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(StartFailed, match="need root"):
        sandbox.check_machine(tmp_path)


def test_another_system_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(StartFailed, match="need Linux on x86_64; this is darwin"):
        sandbox.check_machine(tmp_path)


def test_a_folder_that_the_sandbox_does_not_see_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    with pytest.raises(StartFailed, match="/var/lib/sluice is below /var/lib"):
        sandbox.check_machine(Path("/var/lib/sluice"))


@pytest.mark.parametrize("count", [0, MOST_NODES + 1])
def test_a_number_of_nodes_that_cannot_be_is_refused(tmp_path: Path, count: int) -> None:
    with pytest.raises(StartFailed, match=f"NODES is {count}; it may be 1 to {MOST_NODES}"):
        lifecycle.up(Layout.at(tmp_path), lifecycle.PodClusterOptions(nodes=count), say=print)


def test_cgroups_of_version_2_are_one_hierarchy_and_of_version_1_one_each(tmp_path: Path) -> None:
    for name in ("cpu,cpuacct", "memory"):
        (tmp_path / name).mkdir()
    (tmp_path / "cpu").symlink_to("cpu,cpuacct")
    assert [each.name for each in sandbox.hierarchies(tmp_path)] == ["cpu,cpuacct", "memory"]
    (tmp_path / "cgroup.controllers").write_text("cpu memory")
    assert sandbox.hierarchies(tmp_path) == [tmp_path]
