"""Unmodified programs of other projects that some tests run: Volcano's `vcctl`, `h2spec`, and Helm.

    python -m localcluster.external_tools

builds them; `make test` does so in the background. `make up` neither needs nor builds them.

Invariants
- Each is built once from the versions pinned in the `go.mod` of its own folder here, and kept in the cache of
  binaries, in a folder keyed by those versions.
- It is built under another name and then renamed; two builds at the same time wait for each other.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from localcluster import build
from localcluster.build import Say
from localcluster.exceptions import BuildFailed

HERE = Path(__file__).parent
#: The Go package of each program, by the name of its folder here.
PACKAGES: Mapping[str, str] = {
    "vcctl": "volcano.sh/volcano/cmd/cli",
    "h2spec": "github.com/summerwind/h2spec/cmd/h2spec",
    "helm": "helm.sh/helm/v3/cmd/helm",
}
#: More flags for the linker. Without a cluster Helm takes this for the version of Kubernetes.
LDFLAGS: Mapping[str, str] = {
    "helm": "-X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=36"
    " -X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor=36",
}
#: A module that cannot be fetched fails in seconds; a cold build on two cores takes two minutes.
BUILD_SECONDS = 900.0


def vcctl(*, say: Say, env: Mapping[str, str] = os.environ) -> Path:
    """Volcano's command line; builds it if it is not cached. Raises `BuildFailed`."""
    return _ensure_built("vcctl", say=say, env=env)


def h2spec(*, say: Say, env: Mapping[str, str] = os.environ) -> Path:
    """The conformance tests of HTTP/2; builds them if they are not cached. Raises `BuildFailed`."""
    return _ensure_built("h2spec", say=say, env=env)


def helm(*, say: Say, env: Mapping[str, str] = os.environ) -> Path:
    """Helm; builds it if it is not cached. Raises `BuildFailed`."""
    return _ensure_built("helm", say=say, env=env)


def _ensure_built(name: str, *, say: Say, env: Mapping[str, str]) -> Path:
    target = build.cache(env).parent / f"{name}-{key(name)}" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_name(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.access(target, os.X_OK):
            say(f"building {name}; once, then kept in {target.parent}")
            _build(name, target, go=build.go(say=say, env=env), env=env)
    return target


def key(name: str) -> str:
    """A digest of everything that decides the result."""
    digest = hashlib.sha256(LDFLAGS.get(name, "").encode())
    for file in ("go.mod", "go.sum"):
        digest.update((HERE / name / file).read_bytes())
    return digest.hexdigest()[:12]


def _build(name: str, target: Path, *, go: str, env: Mapping[str, str]) -> None:
    flags = f"-s -w {LDFLAGS.get(name, '')}".strip()
    temporary, log = target.with_name(f".{name}.building"), target.with_name(f"{name}.build.log")
    with log.open("wb") as output:
        try:
            done = subprocess.run(
                [go, "build", "-trimpath", "-ldflags", flags, "-o", str(temporary), PACKAGES[name]],
                cwd=HERE / name,
                env={**env, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"},
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=BUILD_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as exc:
            raise BuildFailed(f"go build of {name} took more than {BUILD_SECONDS:.0f} s: {log}") from exc
    if done.returncode:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        raise BuildFailed(f"go build of {name} failed with code {done.returncode}, see {log}:\n{tail}")
    temporary.replace(target)


if __name__ == "__main__":
    try:
        for ensure in (vcctl, h2spec, helm):
            ensure(say=print)
    except BuildFailed as exc:
        sys.exit(f"error: {exc}")
