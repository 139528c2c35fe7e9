"""The Kubernetes versions of the control plane: which there are, which was chosen, and how one is built.

`VERSION=1.30 make up` starts 1.30; without VERSION it is the newest. The tests obey VERSION too.

| what                        | of the newest | of an older version                                   |
|-----------------------------|---------------|-------------------------------------------------------|
| etcd, kwok                  | `go.mod`      | the same: they do not differ                          |
| Kubernetes' own programs    | `go.mod`      | a module in the cache (`write_module`)                |
| what Go checks the source by | `go.sum`     | `kubernetes/VERSION.sum` and Kubernetes' own `go.sum` |

The module of an older version has the requirements of Kubernetes' own `go.mod`, in the published versions of
the modules that its repository keeps in its folder staging. So nothing but the digests is stored here.

    python -m localcluster.versions 1.31

writes `kubernetes/1.31.sum` anew, after a change of the release in the table. Go compares what it downloads
with the public checksum database then.

Invariants
- The digest of `k8s.io/kubernetes` is compared before its `go.sum` is believed.
- A program that is built from a module whose digests are not here fails to build.
- All that differs between the versions in how components are started is in this file: each takes the same
  flags and the same configuration, but kube-scheduler of 1.30 does not serve `/readyz`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from localcluster import go_modules
from localcluster.exceptions import BuildFailed, VersionRefused

HERE = Path(__file__).parent
DIGESTS = HERE / "kubernetes"

#: The releases, oldest first. The newest is the one in `go.mod`; a test compares the two.
RELEASES: Mapping[str, str] = {
    "1.30": "v1.30.14",
    "1.31": "v1.31.14",
    "1.32": "v1.32.13",
    "1.33": "v1.33.13",
    "1.34": "v1.34.4",
    "1.35": "v1.35.4",
    "1.36": "v1.36.3",
}
OLDEST, NEWEST = (
    min(RELEASES, key=lambda minor: int(minor[2:])),
    max(RELEASES, key=lambda minor: int(minor[2:])),
)
#: The public module proxy lacks modules of these releases, so they cannot be built from it: of both
#: cri-client, csi-translation-lib, endpointslice, kube-controller-manager, kube-proxy and kube-scheduler
#: (asked on 2026-11-23). Of kube-scheduler it has no other release of 1.31 or 1.32 either.
UNPUBLISHED = frozenset({"1.31", "1.32"})

#: Kubernetes' own programs.
PROGRAMS = ("kube-scheduler", "kube-controller-manager", "kubectl", "kube-apiserver")
MODULE = "k8s.io/kubernetes"
#: Leaves out the clouds that 1.30 was still built with: they are half of its build. Later ones have none.
TAGS = "providerless"
#: A module that Kubernetes' own repository keeps in its folder staging, in a list of requirements.
_STAGED = re.compile(r"^(\s*(?:require )?)(k8s\.io/\S+) v0\.0\.0(?=\s)", re.MULTILINE)
_REPLACED = re.compile(r"^replace \((?:\n.*)*?\n\)$|^replace .*$", re.MULTILINE)


def chosen(env: Mapping[str, str] = os.environ) -> str:
    """The minor version that VERSION names; the newest without it. Raises `VersionRefused`."""
    named = env.get("VERSION", "").strip().removeprefix("v")
    minor = ".".join(named.split(".")[:2]) or NEWEST
    if minor not in RELEASES or named not in {"", minor, RELEASES[minor].removeprefix("v")}:
        raise VersionRefused(
            f"VERSION={named}: there is {', '.join(RELEASES)}, each in one release ({_table()})"
        )
    return minor


def release(env: Mapping[str, str] = os.environ) -> str:
    """The release of the chosen version, such as v1.30.14."""
    return RELEASES[chosen(env)]


def of_cluster(recorded: Path, env: Mapping[str, str] = os.environ, *, exists: bool) -> str:
    """The version of a cluster: what its file says where the cluster `exists`, else what VERSION names.

    Raises `VersionRefused` where VERSION names another one than the cluster has: its data may not be readable
    to an older API server.
    """
    minor = chosen(env)
    if not (exists and recorded.exists()):
        return minor
    kept = recorded.read_text().strip()
    if env.get("VERSION") and kept != minor:
        raise VersionRefused(
            f"VERSION={minor}: the cluster in {recorded.parent} is of {kept}; end it first with: "
            f"make down LOCAL={recorded.parent}"
        )
    return kept


def scheduler_readiness_path(recorded: Path) -> str:
    """Where kube-scheduler of the cluster says that it is ready, by the file with the cluster's version."""
    minor = recorded.read_text().strip() if recorded.exists() else NEWEST
    return "/healthz" if minor == "1.30" else "/readyz"


def _table() -> str:
    return ", ".join(name.removeprefix("v") for name in RELEASES.values())


def digests(minor: str) -> Path:
    """The file with the digests of one version's modules, in the form of a `go.sum`."""
    return DIGESTS / f"{minor}.sum"


def write_module(minor: str, folder: Path, *, go: str, env: Mapping[str, str]) -> Path:
    """Write the module that builds one version into `folder`, and return that. Raises `BuildFailed`."""
    if minor in UNPUBLISHED:
        raise BuildFailed(
            f"{RELEASES[minor]} cannot be built: the module proxy lacks modules of that release"
        )
    pinned = digests(minor)
    if not pinned.exists():
        raise BuildFailed(
            f"the digests of {minor} are missing; write them with: python -m localcluster.versions {minor}"
        )
    lines = pinned.read_text()
    source = _download(RELEASES[minor], folder, go=go, env=env)
    if f"{MODULE} {RELEASES[minor]} {source['Sum']}" not in lines.splitlines():
        raise BuildFailed(
            f"{MODULE} {RELEASES[minor]} is not what {pinned} says: its digest is {source['Sum']}"
        )
    upstream = Path(source["Dir"])
    _replace_file(folder / "go.sum", (upstream / "go.sum").read_text() + lines)
    _replace_file(folder / "go.mod", requirements((upstream / "go.mod").read_text(), release=RELEASES[minor]))
    return folder


def requirements(upstream: str, *, release: str) -> str:
    """The `go.mod` that builds a release, from the text of Kubernetes' own."""
    published = f"v0{release.removeprefix('v1')}"
    staged = sorted({match[2] for match in _STAGED.finditer(upstream)})
    text = _REPLACED.sub("", upstream).replace(
        f"module {MODULE}\n", "module sluice.dev/localcluster/kubernetes\n", 1
    )
    text = _STAGED.sub(rf"\g<1>\g<2> {published}", text)
    replaced = "".join(f"\t{name} => {name} {published}\n" for name in staged)
    return f"{text.rstrip()}\n\nrequire {MODULE} {release}\n\nreplace (\n{replaced})\n"


def _download(release: str, folder: Path, *, go: str, env: Mapping[str, str]) -> dict[str, str]:
    """Download the source; `Dir`: where it is, `Sum`: its digest."""
    folder.mkdir(parents=True, exist_ok=True)
    return go_modules.download(MODULE, release, go=go, env=env)


def _replace_file(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text)
    temporary.replace(path)


def write_digests(minor: str, *, folder: Path, go: str, env: Mapping[str, str]) -> Path:
    """Write the file of digests anew, as the public checksum database has them. Raises `BuildFailed`."""
    source = _download(RELEASES[minor], folder, go=go, env=env)
    upstream = Path(source["Dir"])
    known = (upstream / "go.sum").read_text()
    _replace_file(folder / "go.sum", known)
    _replace_file(folder / "go.mod", requirements((upstream / "go.mod").read_text(), release=RELEASES[minor]))
    packages = [f"{MODULE}/cmd/{name}" for name in PROGRAMS]
    done = go_modules.run(
        [go, "list", "-deps", "-tags", TAGS, "-f", "{{.ImportPath}}", *packages], folder, env
    )
    if done.returncode:
        raise BuildFailed(f"go list of {minor}: {done.stderr.strip()}")
    more = set((folder / "go.sum").read_text().splitlines()) - set(known.splitlines())
    _replace_file(digests(minor), "".join(f"{line}\n" for line in sorted(more)))
    return digests(minor)


def main(arguments: Sequence[str]) -> int:
    """Write the digests of the versions that are named."""
    from localcluster import build  # noqa: PLC0415 - which imports this module

    try:
        for minor in arguments:
            folder = build.cache({**os.environ, "VERSION": minor}) / "module"
            print(write_digests(minor, folder=folder, go=build.go(say=print), env=os.environ), flush=True)
    except (BuildFailed, VersionRefused) as exc:
        print(f"error: {exc}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
