"""Small Go programs of ours, and those of others that the rows ask for; built where they are missing."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

from localcluster import build as building
from localcluster.build import Say

HERE = Path(__file__).parent


def built(source: str, *, say: Say) -> Path:
    """The program of `benchmarks/<source>`, kept outside the tree; built again when it has changed."""
    folder = HERE / source
    target = building.cache(os.environ).parent / "benchmarks" / f"{folder.name}-{_key(folder)}"
    if not target.exists():
        say(f"building {source}")
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = target.with_name(f".{target.name}.{os.getpid()}")
        command = [building.go(say=say), "build", "-trimpath", "-ldflags", "-s -w", "-o", str(aside), "."]
        env = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"}
        subprocess.run(command, cwd=folder, env=env, check=True)
        aside.replace(target)
    return target


def _key(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.go")) + sorted(folder.glob("go.*")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
