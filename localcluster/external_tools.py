"""Programs of other projects that some tests run: Volcano's `vcctl` and controllers, a client with the Go
types of its API, `h2spec`, Helm, krew, kubeadm, Prometheus and its `promtool`, cert-manager's controllers,
and those of `OPERATORS`.

    python -m localcluster.external_tools

builds all but the last two, or those that are named after it; `make test` does so first. `make test-long`
builds those of `OPERATORS`, `make test-cert-manager` cert-manager's. `make up` neither needs nor builds them.

Invariants
- Each is built once from the versions pinned in the `go.mod` of its folder here (`MODULES`), and kept in the
  cache of binaries, in a folder keyed by those versions.
- It is built under another name and then renamed; two builds at the same time wait for each other.
- All but two are unmodified. cert-manager's commands are not in the module proxy: a main of our own runs
  its controllers. Another one has Volcano's Go client make single requests (`volcanoclient/main.go`).
- LeaderWorkerSet's is built with the versions of Kubernetes' modules that JobSet has, newer than its own: so
  one build serves both.
- Of Kueue there are the definitions of its kinds alone: they are copied, and nothing is built.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from localcluster import build
from localcluster.build import Say
from localcluster.exceptions import BuildFailed

HERE = Path(__file__).parent
#: The file of the webhooks of an operator.
WEBHOOKS = "manifests.yaml"
#: The file that says that definitions without a program are copied.
COPIED = ".copied"
#: The Go package of each program.
PACKAGES: Mapping[str, str] = {
    "vcctl": "volcano.sh/volcano/cmd/cli",
    "vccontrollers": "volcano.sh/volcano/cmd/controller-manager",
    "volcanoclient": ".",
    "h2spec": "github.com/summerwind/h2spec/cmd/h2spec",
    "helm": "helm.sh/helm/v3/cmd/helm",
    "krew": "sigs.k8s.io/krew/cmd/krew",
    "kubeadm": "k8s.io/kubernetes/cmd/kubeadm",
    "promtool": "github.com/prometheus/prometheus/cmd/promtool",
    "prometheus": "github.com/prometheus/prometheus/cmd/prometheus",
    "certmanager": ".",
    "jobset": "sigs.k8s.io/jobset",
    "leaderworkerset": "sigs.k8s.io/lws/cmd",
}
#: Controllers that make pods, and may make PodGroups for them. The first cold build takes 3.5 minutes of a
#: core, and the next ones less, since all are built with the same versions of Kubernetes' modules.
OPERATORS = ("jobset", "leaderworkerset")
#: The folder here whose `go.mod` pins it, where that has not its name.
MODULES: Mapping[str, str] = {"promtool": "prometheus"}
USED_BY_MAKE_TEST = tuple(name for name in PACKAGES if name not in {"certmanager", *OPERATORS})
#: Build tags. Without service discovery these need no client of any cloud, which are most of their modules.
#: Prometheus has pages only if another tag asks for them.
TAGS: Mapping[str, str] = {"promtool": "remove_all_sd", "prometheus": "remove_all_sd"}
#: Definitions of kinds, and of webhooks, that are copied beside a program: the module, and where they are in
#: it. Its archive may be gone when they are needed.
DEFINITIONS: Mapping[str, tuple[str, ...]] = {
    "vccontrollers": (
        "volcano.sh/volcano",
        "installer/helm/chart/volcano/crd/bases/batch.volcano.sh_jobs.yaml",
    ),
    "certmanager": ("github.com/cert-manager/cert-manager", "deploy/crds/cert-manager.io_*.yaml"),
    "kueue": ("sigs.k8s.io/kueue", "config/components/crd/bases/kueue.x-k8s.io_*.yaml"),
    "jobset": (
        "sigs.k8s.io/jobset",
        "config/components/crd/bases/*_jobsets.yaml",
        f"config/components/webhook/{WEBHOOKS}",
    ),
    "leaderworkerset": (
        "sigs.k8s.io/lws",
        "config/crd/bases/*_leaderworkersets.yaml",
        f"config/webhook/{WEBHOOKS}",
    ),
}
#: More flags for the linker. Without a cluster Helm takes this for the version of Kubernetes.
LDFLAGS: Mapping[str, str] = {
    "helm": "-X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=36"
    " -X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor=36",
    "kubeadm": build.ldflags().removeprefix("-s -w "),
}
#: A module that cannot be fetched fails in seconds; a cold build on two cores takes minutes, and that of
#: cert-manager more than ten beside other work.
BUILD_SECONDS = 1800.0


def vcctl(*, say: Say, env: Mapping[str, str] = os.environ) -> Path:
    """Volcano's command line; builds it if it is not cached. Raises `BuildFailed`."""
    return _ensure_built("vcctl", say=say, env=env)


def volcano_controllers(*, say: Say, env: Mapping[str, str] = os.environ) -> tuple[Path, list[Path]]:
    """Volcano's controllers, and the definition of its Jobs; builds and copies them if they are not cached.

    Raises `BuildFailed`.
    """
    return _with_definitions("vccontrollers", say=say, env=env)


def volcano_client(*, say: Say, env: Mapping[str, str] = os.environ) -> Path:
    """A client with the Go types of Volcano's API; builds it if it is not cached. Raises `BuildFailed`."""
    return _ensure_built("volcanoclient", say=say, env=env)


def h2spec(*, say: Say, env: Mapping[str, str] = os.environ) -> Path:
    """The conformance tests of HTTP/2; builds them if they are not cached. Raises `BuildFailed`."""
    return _ensure_built("h2spec", say=say, env=env)


def helm(*, say: Say, env: Mapping[str, str] = os.environ) -> Path:
    """Helm; builds it if it is not cached. Raises `BuildFailed`."""
    return _ensure_built("helm", say=say, env=env)


def krew(*, say: Say, env: Mapping[str, str] = os.environ) -> Path:
    """kubectl's plugin manager; builds it if it is not cached. Raises `BuildFailed`."""
    return _ensure_built("krew", say=say, env=env)


def kubeadm(*, say: Say, env: Mapping[str, str] = os.environ) -> Path:
    """Of the newest Kubernetes; builds it if it is not cached. Raises `BuildFailed`."""
    return _ensure_built("kubeadm", say=say, env=env)


def promtool(*, say: Say, env: Mapping[str, str] = os.environ) -> Path:
    """Prometheus' checker of rules; builds it if it is not cached. Raises `BuildFailed`."""
    return _ensure_built("promtool", say=say, env=env)


def prometheus(*, say: Say, env: Mapping[str, str] = os.environ) -> Path:
    """Prometheus, without its pages; builds it if it is not cached. Raises `BuildFailed`."""
    return _ensure_built("prometheus", say=say, env=env)


def certmanager(*, say: Say, env: Mapping[str, str] = os.environ) -> tuple[Path, list[Path]]:
    """cert-manager's controllers, and the definitions of its kinds; builds and copies them if they are not
    cached.

    Raises `BuildFailed`.
    """
    return _with_definitions("certmanager", say=say, env=env)


def operator(name: str, *, say: Say, env: Mapping[str, str] = os.environ) -> tuple[Path, list[Path]]:
    """One of `OPERATORS`, and the definitions of its kinds and webhooks; builds and copies them if they are
    not cached.

    Raises `BuildFailed`.
    """
    return _with_definitions(name, say=say, env=env)


def kueue_definitions(*, say: Say, env: Mapping[str, str] = os.environ) -> list[Path]:
    """The definitions of Kueue's kinds; copies them from its module if they are not cached. Nothing is built.

    Raises `BuildFailed`.
    """
    name = "kueue"
    folder = build.cache(env).parent / f"{name}-{key(name)}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / COPIED).exists():
            _download(DEFINITIONS[name][0], name, go=build.go(say=say, env=env), env=env)
            _copy_definitions(name, folder, go=build.go(say=say, env=env), env=env)
            (folder / COPIED).touch()
    return sorted(folder.glob("*.yaml"))


def _download(module: str, name: str, *, go: str, env: Mapping[str, str]) -> None:
    done = subprocess.run(
        [go, "mod", "download", module],
        cwd=_module(name),
        env={**env, "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"},
        capture_output=True,
        text=True,
        check=False,
        timeout=BUILD_SECONDS,
    )
    if done.returncode:
        raise BuildFailed(f"go mod download of {module} failed with code {done.returncode}:\n{done.stderr}")


def _with_definitions(name: str, *, say: Say, env: Mapping[str, str] = os.environ) -> tuple[Path, list[Path]]:
    binary = _ensure_built(name, say=say, env=env)
    return binary, sorted(binary.parent.glob("*.yaml"))


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
    digest = hashlib.sha256((LDFLAGS.get(name, "") + TAGS.get(name, "")).encode())
    folder = _module(name)
    for file in ("go.mod", "go.sum", *sorted(path.name for path in folder.glob("*.go"))):
        digest.update((folder / file).read_bytes())
    return digest.hexdigest()[:12]


def _module(name: str) -> Path:
    """The folder whose `go.mod` pins what it is built from."""
    return HERE / MODULES.get(name, name)


def _build(name: str, target: Path, *, go: str, env: Mapping[str, str]) -> None:
    flags = f"-s -w {LDFLAGS.get(name, '')}".strip()
    options = ["-trimpath", "-tags", TAGS.get(name, ""), "-ldflags", flags]
    temporary, log = target.with_name(f".{name}.building"), target.with_name(f"{name}.build.log")
    with log.open("wb") as output:
        try:
            done = subprocess.run(
                [go, "build", *options, "-o", str(temporary), PACKAGES[name]],
                cwd=_module(name),
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
    if name in DEFINITIONS:
        _copy_definitions(name, target.parent, go=go, env=env)
    temporary.replace(target)


def _copy_definitions(name: str, folder: Path, *, go: str, env: Mapping[str, str]) -> None:
    module, *patterns = DEFINITIONS[name]
    source = subprocess.run(
        [go, "list", "-m", "-f", "{{.Dir}}", module],
        cwd=_module(name),
        env={**env, "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    for path in (each for pattern in patterns for each in Path(source).glob(pattern)):
        shutil.copyfile(path, folder / path.name)


if __name__ == "__main__":
    try:
        for name in sys.argv[1:] or USED_BY_MAKE_TEST:
            _ensure_built(name, say=print, env=os.environ)
    except BuildFailed as exc:
        sys.exit(f"error: {exc}")
