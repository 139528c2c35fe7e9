"""Builds `release/Containerfile` with Debian's buildah: without a daemon, and without a registry.

| what          | from                                                                             |
|---------------|----------------------------------------------------------------------------------|
| buildah       | Debian's packages, unpacked and not installed                                    |
| the base      | Debian's Python in place of `docker.io/library/python`, with the same commands   |
| pip and uv    | this checkout's `.venv`, mounted while the image is built: the base has neither  |
| the packages  | uv's cache of this machine, mounted; what is not in it is downloaded             |

Invariants
- Everything is kept in one folder: images, containers, settings. `remove` unmounts and deletes it.
- Nothing is pulled: a base that is missing is an error.
- The build is root's, in a chroot of its own mount namespace; its network is the machine's.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localcluster import build
from localcluster.build import Say
from localcluster.exceptions import BuildFailed
from localcluster.layout import ROOT
from localcluster.pods import binaries, images, packages

CONTAINERFILE = ROOT / "release" / "Containerfile"
BASE = "localhost/python:stand-in"
IMAGE = "localhost/sluice:built"
#: Debian's Python does not let pip install beside Debian's packages; that of the usual images does.
MARKER = "usr/lib/python3.11/EXTERNALLY-MANAGED"
COMMANDS = ("python", "python3")
TOOLS = "/tools"
#: What this machine trusts, the build trusts too.
CERTIFICATES = "/etc/ssl/certs"
UV_SETTINGS = "system-certs = true\n"
POLICY: Mapping[str, Any] = {"default": [{"type": "insecureAcceptAnything"}]}
#: Mounted over the machine's: buildah starts itself again without LD_LIBRARY_PATH. `$1` is its root.
WITH_LIBRARIES = """
libraries=/usr/lib/x86_64-linux-gnu
mount -t overlay overlay -o "lowerdir=$1$libraries:$1/lib/x86_64-linux-gnu:$libraries" $libraries
program=$1/usr/bin/buildah && shift && exec "$program" "$@"
"""


@dataclass(frozen=True)
class Builder:
    """buildah, with its storage and settings in `folder`."""

    folder: Path
    #: Of its packages.
    root: Path

    def run(self, *arguments: str) -> str:
        """What buildah prints. Raises `BuildFailed`."""
        done = subprocess.run(
            self.command(*arguments), capture_output=True, text=True, check=False, env=self.environment()
        )
        if done.returncode:
            output = (done.stdout + done.stderr)[-4000:]
            raise BuildFailed(f"buildah {' '.join(arguments)[:200]} failed:\n{output}")
        return done.stdout.strip()

    def unpack(self, image: str) -> Path:
        """A root file system with the files of an image."""
        return Path(self.run("mount", self.run("from", "--pull=never", self.policy, image)))

    @property
    def policy(self) -> str:
        return f"--signature-policy={self.folder}/policy.json"

    def command(self, *arguments: str) -> list[str]:
        storage = (f"--root={self.folder}/storage", f"--runroot={self.folder}/run", "--storage-driver=vfs")
        isolated = ("unshare", "--mount", "--propagation=private", "sh", "-ec", WITH_LIBRARIES, "sh")
        return [*isolated, str(self.root), *storage, *arguments]

    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "CONTAINERS_CONF": str(self.folder / "containers.conf"),
            "CONTAINERS_REGISTRIES_CONF": str(self.folder / "registries.conf"),
            "BUILDAH_ISOLATION": "chroot",
            "TMPDIR": str(self.folder / "tmp"),
        }


def prepare(folder: Path, *, say: Say) -> Builder:
    """buildah with the base in `folder`, which is empty or not there yet. Raises `BuildFailed`."""
    with build.locked_cache(binaries.cache()):
        builder = Builder(folder, _ensure_buildah(say=say))
        archive = _ensure_base(say=say)
    (folder / "tmp").mkdir(parents=True)
    (folder / "containers.conf").touch()
    (folder / "registries.conf").touch()
    (folder / "policy.json").write_text(json.dumps(POLICY))
    builder.run("tag", builder.run("pull", "--quiet", builder.policy, f"oci-archive:{archive}"), BASE)
    return builder


def build_image(builder: Builder, context: Path, *, say: Say) -> str:
    """Build the image from a checkout; returns its name. Raises `BuildFailed`."""
    say(f"building {CONTAINERFILE.name} on a base of Debian's Python")
    mounts = [f"--volume={host}:{inside}" for host, inside in _mounts(builder.folder).items()]
    builder.run(
        *("build", "--pull=never", builder.policy, "--layers=false"),
        *(f"--build-arg=PYTHON={BASE}", f"--file={CONTAINERFILE}", f"--tag={IMAGE}", *mounts, str(context)),
    )
    return IMAGE


def remove(builder: Builder) -> None:
    builder.run("rm", "--all")
    builder.run("rmi", "--all", "--force")
    shutil.rmtree(builder.folder)


def _mounts(folder: Path) -> dict[str, str]:
    """By the path here: the path in the build."""
    site = Path(sysconfig.get_path("purelib"))
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    for name in ("pip", "uv"):
        for found in (site / name, *site.glob(f"{name}-*.dist-info")):
            shutil.copytree(found, tools / found.name, dirs_exist_ok=True)
    settings = folder / "uv.toml"
    settings.write_text(UV_SETTINGS)
    pip = folder / "pip"
    pip.write_text(
        f"#!/usr/bin/python3.11\nimport sys\nsys.path.insert(0, {TOOLS!r})\n"
        "from pip._internal.cli.main import main\nsys.exit(main())\n"
    )
    pip.chmod(0o755)
    uv = Path(sys.executable).with_name("uv")
    cache = subprocess.run([str(uv), "cache", "dir"], capture_output=True, text=True, check=True).stdout
    return {
        CERTIFICATES: f"{CERTIFICATES}:ro",
        str(settings): "/etc/uv/uv.toml:ro",
        str(tools): f"{TOOLS}:ro",
        str(pip): "/usr/bin/pip:ro",
        str(uv): "/usr/bin/uv:ro",
        cache.strip(): "/root/.cache/uv",
    }


def _ensure_buildah(*, say: Say) -> Path:
    """Its packages, unpacked in the cache."""
    pinned = packages.pinned("builder")
    folder = binaries.cache() / f"builder-{packages.key(pinned)}"
    if not folder.exists():
        say(f"unpacking buildah; once, then kept in {folder}")
        temporary = folder.with_name(f".{folder.name}.unpacking")
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        packages.unpack(pinned, temporary, downloads=binaries.cache() / "debian")
        temporary.replace(folder)
    return folder


def _ensure_base(*, say: Say) -> Path:
    """An archive of the base, in the cache."""
    pinned = (*packages.pinned("image"), *packages.pinned("shell"))
    archive = binaries.cache() / f"base-{packages.key(pinned)}.tar"
    if archive.exists():
        return archive
    say(f"packing Debian's Python as a base; once, then kept in {archive}")
    root = archive.with_name(f".{archive.stem}.unpacking")
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    packages.unpack(pinned, root, downloads=binaries.cache() / "debian")
    for name in images.UNUSED:
        shutil.rmtree(root / name, ignore_errors=True)
    (root / MARKER).unlink(missing_ok=True)
    commands = root / "usr" / "local" / "bin"
    commands.mkdir(parents=True, exist_ok=True)
    for name in COMMANDS:
        (commands / name).symlink_to(images.PYTHON)
    (root / "tmp").chmod(0o1777)
    layer = images.write_layer(root, archive.with_suffix(".tar.gz"))
    environment = {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"]}
    images.write_archive(archive, BASE, [layer], environment)
    layer.file.unlink()
    shutil.rmtree(root)
    return archive
