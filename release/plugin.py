"""The plugin alone, for people: a wheel for `pipx install`, and archives for krew.

Both have `queues` and `kubectl_queue` and depend on three packages; the server's wheel depends on a dozen.
[tool.sluice.plugin] in pyproject.toml names both, and what an extra adds: the wheel has it as
`kubectl-queue[ui]`, and the archives, which cannot be added to, have it and all beneath it.

krew puts one executable on PATH and runs nothing else. So an archive for a platform has, beside our code, the
compiled packages for each Python that we support, and `kubectl-queue`, a shell script that starts the
`python3` on PATH with them. Completion is a second executable, which krew cannot install:
`kubectl_complete-queue` lies beside the first, to be linked to by hand (docs/reference/plugin.md).
"""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from release.archives import tar_gz

NAME = "kubectl-queue"
COMPLETE = "kubectl_complete-queue"
#: By krew's words for a platform, uv's.
PLATFORMS: Mapping[tuple[str, str], str] = {
    ("linux", "amd64"): "x86_64-manylinux_2_28",
    ("linux", "arm64"): "aarch64-manylinux_2_28",
    ("darwin", "amd64"): "x86_64-apple-darwin",
    ("darwin", "arm64"): "aarch64-apple-darwin",
}
PYTHONS = ("3.11", "3.12", "3.13", "3.14")

#: Runs uv with these arguments in the checkout; what it prints.
Uv = Callable[..., str]

_LAUNCHER = """\
#!/bin/sh
# Starts {module} with the python3 on PATH and the packages that lie beside this file.
file=$0
while [ -L "$file" ]; do # krew links to it
  target=$(readlink "$file")
  case $target in
    /*) file=$target ;;
    *) file=$(dirname "$file")/$target ;;
  esac
done
folder=$(cd "$(dirname "$file")" && pwd)
exec python3 "$folder/start.py" {module} "$@"
"""

_START = """\
import sys
from pathlib import Path

folder = Path(__file__).resolve().parent
python = "{}.{}".format(*sys.version_info[:2])
if not (folder / python).is_dir():
    sys.exit(f"error: kubectl queue needs python3 on PATH, one of the versions PYTHONS; it is {python}")
sys.path[0:1] = [str(folder / "lib"), str(folder / python)]
sys.dont_write_bytecode = True
module = sys.argv.pop(1)
sys.exit(__import__(module, fromlist=["main"]).main())
"""


def settings(root: Path) -> Mapping[str, Any]:
    """What pyproject.toml says of the plugin: `packages`, `dependencies` and `extras` with their versions."""
    content = tomllib.loads((root / "pyproject.toml").read_text())
    plugin = content["tool"]["sluice"]["plugin"]
    pinned = {re.split("[=<>!~ ]", each)[0].lower(): each for each in content["project"]["dependencies"]}
    return {
        **plugin,
        "dependencies": [pinned[name] for name in plugin["dependencies"]],
        "extras": {extra: [pinned[name] for name in names] for extra, names in plugin["extras"].items()},
    }


def build_wheel(root: Path, dist: Path, *, uv: Uv) -> Path:
    """`kubectl_queue-VERSION-py3-none-any.whl`, by the same tools as the server's."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        for package in settings(root)["packages"]:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(root / package, folder / package, ignore=ignored)
        shutil.copy(root / "LICENSE", folder)
        shutil.copy(root / "docs" / "reference" / "plugin.md", folder / "README.md")
        (folder / "pyproject.toml").write_text(_pyproject(root, project))
        uv("build", "--quiet", "--wheel", "--no-build-isolation", "--out-dir", str(dist), str(folder))
    (wheel,) = dist.glob("kubectl_queue-*.whl")
    return wheel


def _pyproject(root: Path, project: Mapping[str, Any]) -> str:
    plugin = settings(root)
    scripts = {name: target for name, target in project["scripts"].items() if "kubectl" in name}
    lines = [
        "[build-system]",
        'requires = ["hatchling"]',
        'build-backend = "hatchling.build"',
        "[project]",
        f'name = "{NAME}"',
        *(f"{key} = {_toml(project[key])}" for key in ("version", "description", "requires-python")),
        'readme = "README.md"',
        f"license = {_toml(project['license'])}",
        'license-files = ["LICENSE"]',
        f"dependencies = {_toml(plugin['dependencies'])}",
        "[project.optional-dependencies]",
        *(f"{extra} = {_toml(needed)}" for extra, needed in plugin["extras"].items()),
        "[project.scripts]",
        *(f"{_toml(name)} = {_toml(target)}" for name, target in scripts.items()),
        "[tool.hatch.build.targets.wheel]",
        f"packages = {_toml(plugin['packages'])}",
    ]
    return "\n".join(lines) + "\n"


def _toml(value: str | Sequence[str]) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return "[" + ", ".join(map(_toml, value)) + "]"


def build_archive(
    root: Path,
    wheel: Path,
    dist: Path,
    *,
    platform: tuple[str, str],
    uv: Uv,
    time: int,
    pythons: Sequence[str] = PYTHONS,
) -> Path:
    """`kubectl-queue-VERSION-OS-ARCH.tar.gz`. `time`: seconds since 1970, of all its files."""
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory) / NAME
        with zipfile.ZipFile(wheel) as content:
            content.extractall(folder / "lib")
        for python in pythons:
            _install_dependencies(root, folder / python, platform=PLATFORMS[platform], python=python, uv=uv)
        for name, module in ((NAME, "kubectl_queue.main"), (COMPLETE, "kubectl_queue.cli.completion")):
            (folder / name).write_text(_LAUNCHER.format(module=module))
            (folder / name).chmod(0o755)
        (folder / "start.py").write_text(_START.replace("PYTHONS", " ".join(pythons)))
        shutil.copy(root / "LICENSE", folder)
        version = wheel.name.split("-")[1]
        archive = dist / f"{NAME}-{version}-{'-'.join(platform)}.tar.gz"
        archive.write_bytes(tar_gz(folder, time=time))
    return archive


def _install_dependencies(root: Path, target: Path, *, platform: str, python: str, uv: Uv) -> None:
    """The packages of uv.lock, each checked by its hash."""
    only = _with_dependencies(root, _named(root))
    locked = uv(
        *("export", "--quiet", "--frozen", "--no-dev", "--no-emit-project", "--no-header", "--no-annotate"),
        *("--format", "requirements-txt"),
    )
    blocks = re.split(r"\n(?=\S)", locked)
    chosen = [block for block in blocks if re.split("[=;\\s]", block)[0].lower() in only]
    requirements = target.with_name(f"requirements-{python}.txt")
    requirements.write_text("\n".join(chosen) + "\n")
    uv(
        *("pip", "install", "--quiet", "--target", str(target), "--no-deps", "--require-hashes"),
        *("--only-binary", ":all:", "--python-platform", platform, "--python-version", python),
        *("--no-compile-bytecode", "--requirement", str(requirements)),
    )
    requirements.unlink()
    (target / ".lock").unlink(missing_ok=True)
    shutil.rmtree(target / "bin", ignore_errors=True)


def _named(root: Path) -> list[str]:
    plugin = settings(root)
    needed = [*plugin["dependencies"], *(each for names in plugin["extras"].values() for each in names)]
    return [each.split("==")[0] for each in needed]


def _with_dependencies(root: Path, names: Sequence[str]) -> set[str]:
    """With all that these need, by uv.lock; what only Windows needs is left out, as the plugin is there."""
    locked = {each["name"]: each for each in tomllib.loads((root / "uv.lock").read_text())["package"]}
    found: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            needed = locked[name].get("dependencies", ())
            todo += [each["name"] for each in needed if "win32" not in each.get("marker", "")]
    return found


def krew_manifest(archives: Mapping[tuple[str, str], Path], *, version: str, url: str) -> str:
    """The manifest of the plugin for krew. `url`: the folder that has the archives."""
    platforms = [
        {
            "selector": {"matchLabels": {"os": os, "arch": arch}},
            "uri": f"{url.rstrip('/')}/{archive.name}",
            "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
            "files": [{"from": f"{NAME}/*", "to": "."}],
            "bin": NAME,
        }
        for (os, arch), archive in archives.items()
    ]
    spec = {
        "version": f"v{version}",
        "shortDescription": "Stop, drain and steer queues",
        "description": (
            "Shows, opens, closes, suspends, holds, drains and resumes the queues of Sluice or Volcano, and\n"
            "says why a pod or a workload waits.\n"
        ),
        "caveats": (
            f"It needs python3 on PATH, of one of the versions {', '.join(PYTHONS)}.\n"
            "For completion by TAB link to the second executable from a folder on PATH:\n"
            f"  ln -s ~/.krew/store/queue/v{version}/{COMPLETE} ~/.local/bin/\n"
        ),
        "platforms": platforms,
    }
    manifest = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "queue"},
        "spec": spec,
    }
    return yaml.safe_dump(manifest, sort_keys=False)
