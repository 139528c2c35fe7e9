"""kubectl of the cluster's own version, as the administrator unless told otherwise."""

from __future__ import annotations

import subprocess
from pathlib import Path

from localcluster.exceptions import SetUpFailed
from localcluster.layout import Layout


def run(layout: Layout, *arguments: str, kubeconfig: Path | None = None, given: str | None = None) -> str:
    """What kubectl prints, fed with `given`. Raises `SetUpFailed` with what it complained of."""
    done = attempt(layout, *arguments, kubeconfig=kubeconfig, given=given)
    if done.returncode:
        raise SetUpFailed(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def attempt(
    layout: Layout, *arguments: str, kubeconfig: Path | None = None, given: str | None = None
) -> subprocess.CompletedProcess[str]:
    """The same, whatever comes of it."""
    return subprocess.run(
        [
            str(layout.bin / "kubectl"),
            f"--kubeconfig={kubeconfig or layout.kubeconfig}",
            f"--cache-dir={layout.kubectl_cache}",
            *arguments,
        ],
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )
