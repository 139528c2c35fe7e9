"""The real Helm, krew, kubeadm, Prometheus and promtool, built from pinned modules; and our chart."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from localcluster import build
from localcluster.external_tools import helm, krew, kubeadm, prometheus, promtool
from release.chart.kustomize import Manifest, identity
from tests.support.skipping import built_or_skipped


def built_helm() -> Path:
    """Built when it is not there yet; where it cannot be, the test is skipped, or fails where CI=true."""
    return built_or_skipped("helm", lambda: helm(say=print))


def built_krew() -> Path:
    return built_or_skipped("krew", lambda: krew(say=print))


def built_kubeadm() -> Path:
    return built_or_skipped("kubeadm", lambda: kubeadm(say=print))


def built_promtool() -> Path:
    return built_or_skipped("promtool", lambda: promtool(say=print))


def built_prometheus() -> Path:
    return built_or_skipped("prometheus", lambda: prometheus(say=print))


def built_kubectl() -> Path:
    return built_or_skipped("kubectl", lambda: build.binary("kubectl", say=print))


@dataclass(frozen=True)
class Helm:
    """Helm with files of its own in `folder`; without a kubeconfig it knows no cluster."""

    binary: Path
    folder: Path
    kubeconfig: Path | None = None

    def try_(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The finished command, whatever its exit code."""
        homes = {f"HELM_{name}_HOME": str(self.folder / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
        env = {**os.environ, **homes, "KUBECONFIG": str(self.kubeconfig or self.folder / "none")}
        command = [str(self.binary), *arguments]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    def __call__(self, *arguments: str) -> str:
        """What it prints."""
        done = self.try_(*arguments)
        assert done.returncode == 0, f"helm {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

    def refused(self, *arguments: str) -> str:
        """The error of a command that fails."""
        done = self.try_(*arguments)
        assert done.returncode != 0, f"helm {' '.join(arguments)}: {done.stdout}"
        return done.stderr

    def rendered(self, chart: Path, *arguments: str) -> dict[tuple[str, str, str], Manifest]:
        """The objects of `helm template` by their identity."""
        return by_identity(self("template", "sluice", str(chart), *arguments))


def by_identity(text: str) -> dict[tuple[str, str, str], Manifest]:
    manifests = [each for each in yaml.load_all(text, Loader=yaml.CSafeLoader) if each]
    found = {identity(manifest): manifest for manifest in manifests}
    assert len(found) == len(manifests)
    return found


def flags(values: Mapping[str, Any]) -> tuple[str, ...]:
    """The flags that give these values."""
    return tuple(
        word for name, value in values.items() for word in ("--set-json", f"{name}={json.dumps(value)}")
    )
