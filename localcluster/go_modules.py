"""The source of Go modules of other projects, each in one pinned version, as the module proxy has them.

Invariants
- A module is downloaded once, into Go's own cache. With it there no network is needed.
- Its digest is compared with the one here before its folder is handed out.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from localcluster.exceptions import BuildFailed


class Pin(NamedTuple):
    """`digest`: of the whole module, as in a `go.sum`."""

    version: str
    digest: str


#: What tests compare tables with: the newest releases that the proxy has. Kubernetes': that of `go.mod`.
SOURCES: Mapping[str, Pin] = {
    "volcano.sh/volcano": Pin("v1.15.0", "h1:dW8hW/FPDqwcJ1GxGfpR/9qToH1t3+ySn+oaiEMfpm4="),
    "volcano.sh/apis": Pin("v1.14.0", "h1:Rf8wzGFmgzbyg85GO0CxapDDEk/VM3D7QbjbI/sH+OQ="),
    "k8s.io/kubernetes": Pin("v1.36.3", "h1:qDQdoMiluAE2Eab6Fa52YV+WjiGz9mZFFoagEA6cI+o="),
}


def source(module: str, *, go: str, env: Mapping[str, str] = os.environ) -> Path:
    """The folder with the source of a module of `SOURCES`. `go`: the path of Go. Raises `BuildFailed`."""
    pin = SOURCES[module]
    found = download(module, pin.version, go=go, env=env)
    if found["Sum"] != pin.digest:
        raise BuildFailed(f"{module} {pin.version} is not the pinned one: its digest is {found['Sum']}")
    return Path(found["Dir"])


def download(module: str, version: str, *, go: str, env: Mapping[str, str]) -> dict[str, str]:
    """Download a module. Returns `Dir`, where its source is, and `Sum`, its digest. Raises `BuildFailed`."""
    done = run([go, "mod", "download", "-json", f"{module}@{version}"], Path("/"), env)
    answer: dict[str, str] = json.loads(done.stdout or "{}")
    if done.returncode or "Dir" not in answer:
        raise BuildFailed(
            f"{module}@{version} cannot be downloaded: {answer.get('Error') or done.stderr.strip()}"
        )
    return answer


def run(command: Sequence[str], folder: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run Go in a folder, with no other Go than this one."""
    settings = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"}
    return subprocess.run(
        command, cwd=folder, env={**env, **settings}, capture_output=True, text=True, check=False
    )
