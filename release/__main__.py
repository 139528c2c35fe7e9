"""Builds the wheel and the container image.

| command                   | builds                                                                   |
|---------------------------|--------------------------------------------------------------------------|
| `python -m release`       | all of the table below, and the image                                    |
| `python -m release image` | the image alone, from the checkout as it is                              |

| in `dist/`                             | what it is                                                  |
|----------------------------------------|-------------------------------------------------------------|
| `sluice-VERSION-...whl`                | the wheel, built by the hatchling of uv.lock                |
| `sluice-VERSION.tgz`                   | the Helm chart (`release.chart`)                            |
| `kubectl_queue-VERSION-...whl`         | the plugin alone (`release.plugin`)                         |
| `kubectl-queue-VERSION-OS-ARCH.tar.gz` | the plugin for krew, and `queue.yaml`, its manifest         |
| `sluice-VERSION.cdx.json`              | the SBOM (`release.attestations`)                           |
| `provenance.json`, `SHA256SUMS`        | where all of it comes from, and its checksums               |

The image is `sluice:VERSION`, built by docker, podman or buildah from `Containerfile` beside this file. Its
context is the checkout, of which `.dockerignore` sends the product and the lock file alone.

| variable           | what it says                                                                    |
|--------------------|---------------------------------------------------------------------------------|
| `RELEASE_URL`      | where these files are published: krew fetches the archives there                |
| `IMAGE_REPOSITORY` | where the image is pushed, without a tag: the chart installs it from there      |
| `BUILDER_ID`       | the URI of who runs the build, for the provenance                               |

For a release the commit must have the tag `vVERSION`, and the tree must have no changes, so that it can be
built again. All places that name the version must say the same (`release.versions`). Without a tool that can
build images the wheel is built all the same, and the exit code is 1.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from localcluster.exceptions import BuildFailed
from release import attestations, plugin, versions
from release.chart.chart import build_chart
from release.chart.kustomize import KustomizeError

ROOT = Path(__file__).parent.parent
CONTAINERFILE = Path(__file__).with_name("Containerfile")
IMAGE_BUILDERS = ("docker", "podman", "buildah")


class ReleaseError(Exception):
    """The release cannot be built; the message says what to do."""


def main(arguments: Sequence[str]) -> int:
    if list(arguments) not in ([], ["image"]):
        print("usage: python -m release [image]", file=sys.stderr)
        return 2
    try:
        if not arguments:
            version = check_commit(ROOT)
            check_versions(ROOT, version)
            wheel = build_wheel(ROOT, ROOT / "dist")
            for file in build_rest(ROOT, wheel, ROOT / "dist", version=version):
                print(f"built {file.relative_to(ROOT)}")
        image = build_image(ROOT)
    except (ReleaseError, KustomizeError, BuildFailed) as exc:
        print(f"error: {exc}", file=sys.stderr)
        return 1
    print(f"built image {image}")
    return 0


def check_commit(root: Path) -> str:
    """The version of the commit.

    Raises ReleaseError unless the tree is clean and HEAD has the version's tag.
    """
    changes = _git(root, "status", "--porcelain")
    if changes:
        raise ReleaseError(f"the tree has changes; commit or remove them:\n{changes}")
    version = _version(root)
    tags = _git(root, "tag", "--points-at", "HEAD").split()
    if f"v{version}" not in tags:
        has = f"has only {', '.join(tags)}" if tags else "has no tag"
        raise ReleaseError(
            f"HEAD {has}, and pyproject.toml says version {version}; tag it with: git tag -a v{version}"
        )
    return version


def check_versions(root: Path, version: str) -> None:
    """Raises ReleaseError, with a line for each place that names another version."""
    lines = versions.disagreements(version, versions.version_files(root))
    if lines:
        raise ReleaseError("\n  ".join([f"pyproject.toml says version {version}, but", *lines]))


def build_wheel(root: Path, dist: Path) -> Path:
    """The wheel, with the commit's time for all its files, so that building it again gives the same bytes."""
    shutil.rmtree(dist, ignore_errors=True)
    env = {**os.environ, "SOURCE_DATE_EPOCH": _git(root, "log", "-1", "--format=%ct")}
    tools = ("--no-build-isolation", "--python", sys.executable)
    _uv("build", "--quiet", "--wheel", *tools, "--out-dir", str(dist), root=root, env=env)
    (wheel,) = dist.glob("*.whl")
    return wheel


def build_rest(root: Path, wheel: Path, dist: Path, *, version: str) -> list[Path]:
    """All files but the image: the wheel, the chart, the plugin, and what says of each of them what it is.

    Raises the errors of those parts.
    """
    time = int(_git(root, "log", "-1", "--format=%ct"))
    revision = _git(root, "rev-parse", "HEAD")
    uv = uv_runner(root, time=time)
    plugin_wheel = plugin.build_wheel(root, dist, uv=uv)
    archives = {
        platform: plugin.build_archive(root, plugin_wheel, dist, platform=platform, uv=uv, time=time)
        for platform in plugin.PLATFORMS
    }
    url = os.environ.get("RELEASE_URL", f"https://sluice.dev/releases/v{version}")
    texts = {
        "queue.yaml": plugin.krew_manifest(archives, version=version, url=url),
        f"sluice-{version}.cdx.json": attestations.sbom(
            uv("export", "--quiet", "--frozen", "--no-dev", "--format", "cyclonedx1.5"), time=time
        ),
    }
    chart = build_chart(root, dist, time=time, repository=os.environ.get("IMAGE_REPOSITORY", ""))
    files = [wheel, plugin_wheel, chart, *archives.values()]
    files += [_write(dist / name, text) for name, text in texts.items()]
    builder = os.environ.get("BUILDER_ID", "https://sluice.dev/make-release/local")
    statement = attestations.provenance(
        root, files, version=version, revision=revision, time=time, builder=builder
    )
    files.append(_write(dist / "provenance.json", statement))
    return [*files, _write(dist / "SHA256SUMS", attestations.checksums(files))]


def _write(file: Path, text: str) -> Path:
    file.write_text(text)
    return file


def uv_runner(root: Path, *, time: int) -> plugin.Uv:
    """Runs uv in the checkout; what it builds has this time, in seconds since 1970."""
    env = {**os.environ, "SOURCE_DATE_EPOCH": str(time)}

    def run(*arguments: str) -> str:
        python = ("--python", sys.executable) if arguments[0] == "build" else ()
        return _uv(*arguments, *python, root=root, env=env)

    return run


def build_image(root: Path) -> str:
    """Build the image with the first tool that works; returns its name.

    Raises ReleaseError if there is none, or it fails.
    """
    builder, name = find_image_builder(), f"sluice:{_version(root)}"
    label = f"org.opencontainers.image.revision={_revision(root)}"
    command = [builder, "build", "--file", str(CONTAINERFILE), "--tag", name, "--label", label, str(root)]
    if subprocess.run(command, check=False).returncode:
        raise ReleaseError(f"the image could not be built: {' '.join(command)}")
    return name


def find_image_builder(names: Sequence[str] = IMAGE_BUILDERS) -> str:
    """The path of a tool that can build images here. Raises ReleaseError, with what is wrong with each."""
    problems = []
    for name in names:
        path = shutil.which(name)
        if path is None:
            problems.append(f"{name} is not installed")
            continue
        info = subprocess.run([path, "info"], capture_output=True, text=True, check=False)
        if info.returncode == 0:
            return path
        reason = (info.stderr.strip().splitlines() or ["no reason given"])[-1]
        problems.append(f"{name} does not work here ({reason})")
    raise ReleaseError(f"the image is not built: {'; '.join(problems)}")


def _version(root: Path) -> str:
    version: str = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    return version


def _revision(root: Path) -> str:
    """The commit; with `-dirty` behind it if the tree has changes."""
    return _git(root, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")


def _git(root: Path, *arguments: str) -> str:
    return _output(["git", "-C", str(root), *arguments])


def _uv(*arguments: str, root: Path, env: dict[str, str] | None = None) -> str:
    uv = Path(sys.executable).with_name("uv")
    return _output([str(uv), *arguments, "--project", str(root)], cwd=root, env=env) + "\n"


def _output(command: list[str], *, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=env)
    if done.returncode:
        raise ReleaseError(f"{' '.join(command)} failed: {done.stderr.strip()}")
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
