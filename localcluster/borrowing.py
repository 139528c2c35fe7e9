"""Volcano's own `vcctl`, unmodified, for the tests that it shows something to.

    python -m localcluster.borrowing

builds it, beside the tests that come before those.

No part of the control plane: `make up` neither needs nor builds it.

Invariants
- It is built from the versions pinned in `vcctl/go.mod`, once, and kept in the cache of binaries,
  in a folder keyed by those versions.
- It appears there whole or not at all; two builds at once wait for each other.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from localcluster import building
from localcluster.building import BuildFailed, Say

HERE = Path(__file__).parent / "vcctl"
PACKAGE = "volcano.sh/volcano/cmd/cli"
#: A module that cannot be fetched fails in seconds; a cold build on two cores takes two minutes.
BUILD_SECONDS = 900.0


def vcctl(*, say: Say, env: Mapping[str, str] = os.environ) -> Path:
    """The binary, built if it has to be. Raises `BuildFailed`."""
    target = building.cache(env).parent / f"vcctl-{key()}" / "vcctl"
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_name(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.access(target, os.X_OK):
            say(f"building vcctl; once, then kept in {target.parent}")
            _build(target, go=building.go(say=say, env=env), env=env)
    return target


def key() -> str:
    """What decides the result."""
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum"):
        digest.update((HERE / name).read_bytes())
    return digest.hexdigest()[:12]


def _build(target: Path, *, go: str, env: Mapping[str, str]) -> None:
    aside, log = target.with_name(".vcctl.building"), target.with_name("vcctl.build.log")
    with log.open("wb") as output:
        try:
            done = subprocess.run(
                [go, "build", "-trimpath", "-ldflags", "-s -w", "-o", str(aside), PACKAGE],
                cwd=HERE,
                env={**env, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"},
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=BUILD_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as exc:
            raise BuildFailed(f"go build of vcctl took more than {BUILD_SECONDS:.0f} s: {log}") from exc
    if done.returncode:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        raise BuildFailed(f"go build of vcctl failed with code {done.returncode}, see {log}:\n{tail}")
    aside.replace(target)


if __name__ == "__main__":
    try:
        vcctl(say=print)
    except BuildFailed as exc:
        sys.exit(f"error: {exc}")
