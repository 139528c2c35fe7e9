"""What a real node runs, built or unpacked once and kept outside the tree.

| program                                   | from                                                       |
|-------------------------------------------|------------------------------------------------------------|
| kubelet, kube-proxy, pause                | built with Go: `go.mod` and `pause/` beside this file      |
| containerd, its shim, ctr, runc, nft, CNI | Debian's packages (`packages`), unpacked and not installed |

Invariants
- The module is not the control plane's: a change here builds nothing of that again, and the other way round.
- The key of a cache folder covers everything that decides what is in it. It is filled under another name and
  then renamed; two builds at the same time wait for each other.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from localcluster import build
from localcluster.build import Say
from localcluster.pods import packages

HERE = Path(__file__).parent
#: In the order in which they are built.
GO_PACKAGES: Mapping[str, str] = {
    "pause": "./pause",
    "kube-proxy": "k8s.io/kubernetes/cmd/kube-proxy",
    "kubelet": "k8s.io/kubernetes/cmd/kubelet",
}
GO_FILES = ("go.mod", "go.sum", "pause/main.go")
#: With the folder of each in its package.
DEBIAN_PROGRAMS: Mapping[str, str] = {
    "containerd": "usr/bin",
    "containerd-shim-runc-v2": "usr/bin",
    "ctr": "usr/bin",
    "runc": "usr/sbin",
    "nft": "usr/sbin",
}
#: Starts a program with the libraries of its own packages.
WRAPPER = """#!/bin/sh
root={root}
LD_LIBRARY_PATH="$root"/usr/lib/x86_64-linux-gnu exec "$root"/{folder}/{name} "$@"
"""


@dataclass(frozen=True)
class Binaries:
    """`bin` has every program of the table; `cni` has the plugins of CNI."""

    bin: Path
    cni: Path


def cache(env: Mapping[str, str] = os.environ) -> Path:
    """The folder of everything for real nodes that outlives a cluster."""
    return build.home(env) / "pods"


def ensure(*, say: Say, env: Mapping[str, str] = os.environ) -> Binaries:
    """Build and unpack what is missing. Raises `BuildFailed`."""
    go_folder = _go_folder(env)
    with build.locked_cache(cache(env)):
        missing = [name for name in GO_PACKAGES if not os.access(go_folder / name, os.X_OK)]
        for number, name in enumerate(missing, start=1):
            step = f"{number}/{len(missing)}"
            build.go_build(GO_PACKAGES[name], go_folder / name, module=HERE, step=step, say=say, env=env)
        debian = _ensure_debian(say=say, env=env)
    for name in GO_PACKAGES:
        build.link(debian / "bin" / name, go_folder / name)
    return Binaries(bin=debian / "bin", cni=debian / "usr" / "lib" / "cni")


def _go_folder(env: Mapping[str, str]) -> Path:
    digest = hashlib.sha256(build.ldflags().encode())
    for name in GO_FILES:
        digest.update((HERE / name).read_bytes())
    return cache(env) / f"go-{build.KUBERNETES}-{digest.hexdigest()[:12]}"


def _ensure_debian(*, say: Say, env: Mapping[str, str]) -> Path:
    pinned = packages.pinned("node")
    folder = cache(env) / f"node-{_debian_key(pinned)}"
    if folder.exists():
        return folder
    say(f"unpacking containerd, runc, CNI and nftables; once, then kept in {folder}")
    temporary = folder.with_name(f".{folder.name}.unpacking")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    packages.unpack(pinned, temporary, downloads=cache(env) / "debian")
    write_wrappers(temporary / "bin", root=folder)
    temporary.replace(folder)
    return folder


def write_wrappers(into: Path, *, root: Path) -> None:
    """A script for each program of the packages that will be in `root`."""
    into.mkdir()
    for name, inside in DEBIAN_PROGRAMS.items():
        wrapper = into / name
        wrapper.write_text(WRAPPER.format(root=shlex.quote(str(root)), folder=inside, name=name))
        wrapper.chmod(0o755)


def _debian_key(pinned: tuple[packages.Package, ...]) -> str:
    digest = hashlib.sha256(packages.key(pinned).encode())
    digest.update((WRAPPER + repr(sorted(DEBIAN_PROGRAMS.items()))).encode())
    return digest.hexdigest()[:12]
