"""The real krew, built from pinned modules, installs what a release has for it, and takes it away."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from release import plugin
from release.__main__ import uv_runner
from tests.support.helm import built_krew
from tests.support.paths import ROOT

pytestmark = pytest.mark.cluster  # kubectl and krew are built with the control plane

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
TIME = 1_700_000_000
PYTHON = "{}.{}".format(*sys.version_info[:2])


@dataclass(frozen=True)
class Machine:
    """Somebody's machine: kubectl, krew and a python3 on PATH, and nothing of this checkout."""

    folder: Path

    def run(self, *command: str) -> str:
        env = {
            "HOME": str(self.folder),
            "KREW_ROOT": str(self.folder / ".krew"),
            "KREW_NO_UPGRADE_CHECK": "1",
            "KREW_DEFAULT_INDEX_URI": str(self.folder / "index"),
            "PATH": f"{self.folder / '.krew/bin'}:{self.folder / 'bin'}:/usr/bin:/bin",
        }
        done = subprocess.run(
            command,
            env=env,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr


@pytest.fixture
def machine(kubectl: Path, tmp_path: Path) -> Machine:
    path = tmp_path / "bin"
    path.mkdir()
    (path / "kubectl").symlink_to(kubectl)
    (path / "kubectl-krew").symlink_to(built_krew())
    (path / "python3").symlink_to(f"{sys.base_prefix}/bin/python{PYTHON}")
    machine = Machine(tmp_path)
    create_index(tmp_path / "index")
    machine.run("kubectl", "krew", "update")
    return machine


def create_index(folder: Path) -> None:
    """Stands in for krew's own, without which it lists and uninstalls nothing; ours is not in it."""
    (folder / "plugins").mkdir(parents=True)
    (folder / "plugins" / ".keep").touch()
    git = (
        "git",
        "-C",
        str(folder),
        "-c",
        "user.name=test",
        "-c",
        "user.email=test@example.com",
        "-c",
        "commit.gpgsign=false",
    )
    for command in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "--message", "plugins")):
        subprocess.run([*git, *command], check=True)


@pytest.mark.skipif(sys.platform != "linux" or platform.machine() != "x86_64", reason="runs what it builds")
def test_krew_installs_the_plugin_from_its_archive_and_removes_it(machine: Machine) -> None:
    """By the manifest of the release, whose digest krew checks. It names an archive for each platform."""
    dist, uv = machine.folder, uv_runner(ROOT, time=TIME)
    archive = plugin.build_archive(
        *(ROOT, plugin.build_wheel(ROOT, dist, uv=uv), dist),
        platform=("linux", "amd64"),
        uv=uv,
        time=TIME,
        pythons=[PYTHON],
    )
    manifest = dist / "queue.yaml"
    archives = dict.fromkeys(plugin.PLATFORMS, archive)
    manifest.write_text(plugin.krew_manifest(archives, version=VERSION, url="https://example.com"))

    said = machine.run("kubectl", "krew", "install", f"--manifest={manifest}", f"--archive={archive}")
    assert "Installed plugin: queue" in said
    assert machine.run("kubectl", "krew", "list") == "detached/queue\n"
    assert machine.run("kubectl", "queue", "version", "--client") == f"Client Version: {VERSION}\n"

    [(source, target)] = re.findall(r"ln -s ~/(\S+) ~/(\S+)", said)
    link = machine.folder / target / Path(source).name
    link.parent.mkdir(parents=True)
    link.symlink_to(machine.folder / source)
    assert machine.run(str(link), "res").endswith("\n:4\n")

    machine.run("kubectl", "krew", "uninstall", "queue")
    assert not os.path.lexists(machine.folder / ".krew/bin/kubectl-queue")
