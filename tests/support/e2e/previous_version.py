"""An earlier version of the project, from the history of this repository: its manifests, and its server."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

import yaml

from localcluster import manifests
from localcluster.cluster import LocalCluster
from tests.support.paths import ROOT
from tests.support.skipping import skip_unless_ci

#: Of 0.1, before `spec.parked`: its definition of queues lacks that field, its Leases say less, its
#: webhooks are narrowed otherwise, and it knows no change windows.
PREVIOUS = "551f4c52d309b9f500dee715fb6ce2e6d2f05579"
#: Runs the server of a tree, without the flags that it does not know.
_START = """\
import os, re, subprocess, sys
tree, *command = sys.argv[1:]
env = {**os.environ, "PYTHONPATH": tree}
page = subprocess.run([*command[:2], "--help"], env=env, capture_output=True, text=True, check=True).stdout
known = set(re.findall(r"--[a-z][-a-z]*", page))
os.execve(command[0], [*command[:2], *(word for word in command[2:] if word.split("=")[0] in known)], env)
"""


class Version:
    """A tree of the project. `folder`: its root."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        self.folder = folder
        self._start = scratch / "start.py"
        self._start.write_text(_START)

    @property
    def prefix(self) -> Sequence[str]:
        """What a command that starts the server begins with, so that it is this version's."""
        return (sys.executable, str(self._start), str(self.folder))

    def apply(self, cluster: LocalCluster, *parts: str) -> None:
        """Apply its manifests, all or the parts that are named; webhooks call the front by its address."""
        for part in parts or ("",):
            text = cluster.kubectl("kustomize", str(self.folder / "manifests" / part))
            documents = [each for each in yaml.load_all(text, Loader=yaml.CSafeLoader) if each]
            local = manifests.localised(documents, server_url=cluster.ports.server_url, webhooks=True)
            manifests.apply(cluster.layout, cluster.ports, local)


def this_version(scratch: Path) -> Version:
    """The one that is tested."""
    return Version(ROOT, scratch)


def previous_version(scratch: Path) -> Version:
    """Unpack it. A history that does not reach back skips the test, and fails it where CI=true.

    A shallow clone fetches it, if it can.
    """
    if _git("cat-file", "-e", PREVIOUS).returncode:
        _git("fetch", "--quiet", "--depth=1", "origin", PREVIOUS)
    done = _git("archive", PREVIOUS)
    if done.returncode:
        skip_unless_ci(f"NO HISTORY, so this is not tested: {done.stderr.decode().strip()}")
    folder = scratch / "previous"
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return Version(folder, scratch)


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    """In this repository, whoever owns it: root may test another user's checkout."""
    command = ["/usr/bin/env", "git", "-c", f"safe.directory={ROOT.resolve()}", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
