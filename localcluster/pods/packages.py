"""Debian packages that are unpacked and not installed: what a real node runs, and Python beneath the server.

Invariants
- `debian-packages.txt` names each with its version and the hash of its file; a file with another hash is an
  error, whether it was just downloaded or is in the cache.
- Nothing is installed, and no file outside the given folder is written: `apt-get download` and `dpkg-deb -x`.
- Packages come from where this machine's apt takes its own. Where that cannot download one (it has no lists
  yet, or old ones), lists of our own are read from the same sources, into the given folder.

| case                                 | what happens                                          |
|--------------------------------------|-------------------------------------------------------|
| all files are in the cache           | no network is needed                                  |
| no apt-get or dpkg-deb               | `BuildFailed`: Debian 12 (or what knows its packages) |
| apt is set up with no source         | `BuildFailed` says so, and which sources are needed   |
| the archive has only a newer version | `BuildFailed` with apt's message: pin the newer one   |
| a file has another hash              | `BuildFailed` with its name; the file is removed      |
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from localcluster.exceptions import BuildFailed

PINS = Path(__file__).with_name("debian-packages.txt")
ARCHITECTURE = "amd64"
#: The suites that have the pinned versions.
SUITES = ("bookworm", "bookworm-updates", "bookworm-security")


@dataclass(frozen=True)
class Package:
    name: str
    version: str
    sha256: str

    @property
    def file_names(self) -> tuple[str, str]:
        """As apt-get names the file: of Architecture amd64, or of all."""
        stem = f"{self.name}_{self.version.replace(':', '%3a')}"
        return f"{stem}_{ARCHITECTURE}.deb", f"{stem}_all.deb"


def pinned(purpose: str, *, pins: Path = PINS) -> tuple[Package, ...]:
    """The packages for `node` or for `image`."""
    rows = [line.split() for line in pins.read_text().splitlines() if not line.startswith("#")]
    return tuple(Package(*fields) for kind, *fields in rows if kind == purpose)


def key(packages: Sequence[Package]) -> str:
    return hashlib.sha256(repr(packages).encode()).hexdigest()[:12]


def unpack(packages: Sequence[Package], folder: Path, *, downloads: Path) -> None:
    """Unpack all of them into `folder`; downloads what is not in `downloads`. Raises `BuildFailed`."""
    for file in ensure_downloaded(packages, downloads):
        run(["dpkg-deb", "-x", str(file), str(folder)])


def ensure_downloaded(packages: Sequence[Package], folder: Path) -> list[Path]:
    """The file of each package, with its hash checked."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = [f"{each.name}={each.version}" for each in packages if find_file(each, folder) is None]
    if missing:
        try:
            run(["apt-get", "download", "-q", *missing], cwd=folder)
        except BuildFailed as exc:
            if shutil.which("apt-get") is None:
                raise
            _download_with_new_lists(missing, folder, reason=str(exc))
    return [checked_file(each, folder) for each in packages]


def _download_with_new_lists(names: Sequence[str], folder: Path, *, reason: str) -> None:
    """With lists of our own, of the machine's sources; `reason`: why apt's own lists do not do."""
    apt = folder.absolute() / "apt"
    for each in ("lists/partial", "cache/archives/partial"):
        (apt / each).mkdir(parents=True, exist_ok=True)
    settings = {
        "Dir::State::Lists": str(apt / "lists"),
        "Dir::Cache": str(apt / "cache"),
        "APT::Architecture": ARCHITECTURE,
        "APT::Architectures": ARCHITECTURE,
    }
    apt_get = ["apt-get", *(f"-o{name}={value}" for name, value in settings.items())]
    needed = f"real nodes are made of packages of Debian's suites {', '.join(SUITES)}"
    if not run([*apt_get, "indextargets", "--format", "$(SITE)"]).strip():
        raise BuildFailed(f"{reason}\nThis machine's apt is set up with no source, and {needed}")
    try:
        run([*apt_get, "update", "-q"])
        run([*apt_get, "download", "-q", *names], cwd=folder)
    except BuildFailed as exc:
        raise BuildFailed(f"{reason}\nWith new lists of this machine's sources: {exc}\n{needed}") from exc


def find_file(package: Package, folder: Path) -> Path | None:
    files = [folder / name for name in package.file_names]
    return next((file for file in files if file.exists()), None)


def checked_file(package: Package, folder: Path) -> Path:
    file = find_file(package, folder)
    if file is None:
        raise BuildFailed(f"apt-get has downloaded no {package.name} {package.version} to {folder}")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    if digest != package.sha256:
        file.unlink()
        raise BuildFailed(f"{file.name} has SHA-256 {digest}, and {PINS.name} says {package.sha256}")
    return file


def run(command: Sequence[str], *, cwd: Path | None = None) -> str:
    """Its standard output. Raises `BuildFailed` if it cannot be run or fails."""
    program = shutil.which(command[0])
    if program is None:
        raise BuildFailed(f"there is no {command[0]} here; real nodes are made of Debian's packages")
    done = subprocess.run(
        [program, *command[1:]],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        raise BuildFailed(
            f"{' '.join(command)[:200]} failed: {done.stderr.strip()}\n"
            f"If the archive has only a newer version, set that one in {PINS.name}."
        )
    return done.stdout
