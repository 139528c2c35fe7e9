"""A browser for the tests of the page: Debian's Chromium, unpacked once and kept outside the tree.

    python -m localcluster.chromium

Invariants
- One that is on PATH is taken as it is.
- Nothing is installed, and no file outside the cache is written: `apt-get install --download-only` says what
  this machine lacks of the packages beneath it, and `dpkg-deb -x` unpacks that.
- The version is that of the machine's Debian, checked by apt's own signatures. It is not pinned: Debian keeps
  only the newest of a browser.
- It is unpacked under another name and then renamed; two at the same time wait for each other.

| case                                        | what happens                                        |
|---------------------------------------------|-----------------------------------------------------|
| the cache has one                           | no network is needed                                |
| no apt-get or dpkg-deb                      | `BuildFailed` says so                               |
| apt's lists do not do (none yet, or old)    | lists of our own, of the machine's sources, do      |
| the archive cannot be reached               | `BuildFailed` with apt's message                    |
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from localcluster import build
from localcluster.build import Say
from localcluster.exceptions import BuildFailed
from localcluster.pods import packages

#: The smaller one of Debian's: without a window, which no test needs. A font, since a new machine has none.
PACKAGES = ("chromium-headless-shell", "fonts-dejavu-core")
ON_PATH = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
_BINARY = "usr/lib/chromium/chromium-headless-shell"
_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{root}/usr/share/fonts</dir><dir>/usr/share/fonts</dir><cachedir>{root}/fonts</cachedir></fontconfig>
"""


@dataclass(frozen=True)
class Chromium:
    """`environ`: what it has to find beside the machine's own environment."""

    path: Path
    environ: Mapping[str, str]


def chromium(*, say: Say, env: Mapping[str, str] = os.environ) -> Chromium:
    """Unpacks it if there is none. Raises `BuildFailed`."""
    present = next((found for name in ON_PATH if (found := shutil.which(name, path=env.get("PATH")))), None)
    if present is not None:
        return Chromium(Path(present), {})
    home = build.home(env) / "chromium"
    home.mkdir(parents=True, exist_ok=True)
    root = home / "root"
    with (home / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.exists():
            say(f"unpacking Chromium; once, then kept in {home}")
            _unpack(home)
    return Chromium(root / _BINARY, _environ(root))


def _unpack(home: Path) -> None:
    downloads, root = home / "downloads", home / ".unpacking"
    for folder in (downloads, root):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    try:
        _download(downloads, ())
    except BuildFailed:
        if shutil.which("apt-get") is None:
            raise
        _download(downloads, _own_lists(downloads))
    for package in sorted((downloads / "archives").glob("*.deb")):
        packages.run(["dpkg-deb", "-x", str(package), str(root)])
    if not (root / _BINARY).exists():
        raise BuildFailed(f"Debian's {PACKAGES[0]} has no {_BINARY}")
    (root / "fonts.conf").write_text(_FONTS.format(root=home / "root"))
    root.rename(home / "root")
    shutil.rmtree(downloads)


def _download(folder: Path, options: tuple[str, ...]) -> None:
    """The packages, and those beneath them that are not installed, into `archives`."""
    archives = folder / "archives"
    (archives / "partial").mkdir(parents=True, exist_ok=True)
    apt_get = ("apt-get", *options, "-oDebug::NoLocking=1", f"-oDir::Cache::archives={archives}")
    wanted = ("install", "--download-only", "--reinstall", "--no-install-recommends", "-y", "-q", *PACKAGES)
    packages.run([*apt_get, *wanted])


def _own_lists(folder: Path) -> tuple[str, ...]:
    """The options with which apt-get uses lists that were just read."""
    apt = folder / "apt"
    (apt / "lists" / "partial").mkdir(parents=True)
    (apt / "cache").mkdir()
    options = (f"-oDir::State::Lists={apt / 'lists'}", f"-oDir::Cache={apt / 'cache'}")
    packages.run(["apt-get", *options, "-oDebug::NoLocking=1", "update", "-q"])
    return options


def _environ(root: Path) -> Mapping[str, str]:
    """Where its libraries and fonts are."""
    folders = {
        str(path.parent) for path in (root / "usr/lib").rglob("*.so*") if path.parent.name != "chromium"
    }
    return {"LD_LIBRARY_PATH": ":".join(sorted(folders)), "FONTCONFIG_FILE": str(root / "fonts.conf")}


if __name__ == "__main__":
    try:
        print(chromium(say=print).path)
    except BuildFailed as exc:
        sys.exit(f"error: {exc}")
