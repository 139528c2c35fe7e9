"""A release is built only from a clean, tagged commit, and the wheel has the promised content."""

from __future__ import annotations

import re
import stat
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from release.__main__ import ReleaseError, check_commit, find_image_builder
from server.main import main
from tests.support.paths import ROOT

PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
VERSION: str = PYPROJECT["project"]["version"]
CONTAINERFILE = (ROOT / "release" / "Containerfile").read_text()
WHEEL_PACKAGES = {
    *("queues", "cluster", "extender", "webhooks", "controller", "certs", "server", "kubectl_queue"),
}


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false")
    command = ["git", "-C", str(folder), *identity, *arguments]
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with one commit of our `pyproject.toml`."""
    (tmp_path / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--message", "first")
    return tmp_path


def test_a_commit_with_the_tag_of_its_version_is_released(checkout: Path) -> None:
    git(checkout, "tag", f"v{VERSION}")
    assert check_commit(checkout) == VERSION


def test_a_tree_with_changes_is_refused_and_they_are_named(checkout: Path) -> None:
    git(checkout, "tag", f"v{VERSION}")
    (checkout / "new.txt").touch()
    with pytest.raises(ReleaseError, match=r"the tree has changes; commit or remove them:\n\?\? new\.txt"):
        check_commit(checkout)


def test_a_commit_without_a_tag_is_refused_with_the_command_that_tags_it(checkout: Path) -> None:
    with pytest.raises(ReleaseError, match=rf"HEAD has no tag, .* tag it with: git tag -a v{VERSION}$"):
        check_commit(checkout)


def test_a_tag_of_another_version_is_refused(checkout: Path) -> None:
    git(checkout, "tag", "v99.0.0")
    with pytest.raises(ReleaseError, match=rf"HEAD has only v99\.0\.0, .* version {VERSION}"):
        check_commit(checkout)


def test_without_a_working_image_builder_each_one_is_named_with_its_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\necho cannot connect >&2\nexit 1\n")
    docker.chmod(docker.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path))
    expected = (
        r"docker does not work here \(cannot connect\); podman is not installed; buildah is not installed"
    )
    with pytest.raises(ReleaseError, match=expected):
        find_image_builder()
    docker.write_text("#!/bin/sh\n")
    assert find_image_builder() == str(docker)


def test_the_wheel_has_the_product_its_types_and_its_license_and_nothing_else() -> None:
    from hatchling.builders.wheel import WheelBuilder  # noqa: PLC0415 - a tool of `make release`

    builder = WheelBuilder(str(ROOT))
    paths = {Path(included.distribution_path) for included in builder.recurse_included_files()}
    assert {path.parts[0] for path in paths} == WHEEL_PACKAGES
    assert {Path(package) / "py.typed" for package in WHEEL_PACKAGES} <= paths
    page = {path for path in paths if path.parts[:2] == ("kubectl_queue", "ui") and path.suffix != ".py"}
    assert {path.suffix for path in page} == {".css", ".html", ".js"}
    assert {path.name for path in paths - page if path.suffix != ".py"} == {"py.typed"}
    assert builder.metadata.core.license_files == ["LICENSE"]
    assert builder.metadata.core.license_expression == "Apache-2.0"


def test_the_wheel_is_built_with_the_pinned_tools() -> None:
    """`make release` uses the hatchling of uv.lock, which must be the one that pyproject.toml requires."""
    required: list[str] = PYPROJECT["build-system"]["requires"]
    assert set(required) <= set(PYPROJECT["dependency-groups"]["dev"])


def test_the_image_runs_as_the_user_of_the_deployment_and_has_the_version_of_its_tag() -> None:
    deployment = (ROOT / "manifests/deployment/deployment.yaml").read_text()
    user = re.search(r"^USER (\d+):(\d+)$", CONTAINERFILE, re.MULTILINE)
    assert user is not None
    assert f"runAsUser: {user[1]}" in deployment
    assert f"runAsGroup: {user[2]}" in deployment
    assert f"image: sluice:{VERSION}\n" in deployment


def test_all_that_is_installed_in_the_image_is_in_the_lock_file() -> None:
    """uv checks each package against its hash there; what builds our wheel too."""
    installs = re.findall(r"uv (?:sync|pip install) .*", CONTAINERFILE)
    assert installs == [
        "uv sync --frozen --no-dev --no-editable --no-install-project \\",
        "uv pip install --python /opt/sluice --no-deps --build-constraints /build-tools.txt .",
    ]
    [uv] = [each for each in PYPROJECT["dependency-groups"]["dev"] if each.startswith("uv==")]
    [pattern] = re.findall(r"sed -n '(.*?)' pyproject.toml", CONTAINERFILE)
    printed = ["sed", "-n", pattern, str(ROOT / "pyproject.toml")]
    assert subprocess.run(printed, check=True, capture_output=True, text=True).stdout == f"{uv}\n"


def test_the_image_is_sent_nothing_of_the_checkout_but_the_product_and_the_lock_file() -> None:
    """A checkout may hold private keys of a local cluster."""
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert lines[0] == "*"
    sent = {line[1:] for line in lines if line.startswith("!")}
    assert sent == WHEEL_PACKAGES | {"pyproject.toml", "uv.lock", "README.md", "LICENSE", "release/slim.py"}
    left_out = [line for line in lines[1:] if not line.startswith("!")]
    assert left_out == ["**/.*", "**/__pycache__", "**/*.key"]
    assert lines[-len(left_out) :] == left_out, "a later line wins"


def test_no_page_tells_anybody_to_copy_a_checkout_into_an_image() -> None:
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    assert [page.name for page in pages if re.search(r"^(?:COPY|ADD) ", page.read_text(), re.MULTILINE)] == []
    assert (
        "docker build --file release/Containerfile" in (ROOT / "docs" / "operating" / "image.md").read_text()
    )


def test_the_bytecode_of_the_base_is_made_by_the_base_that_is_shipped() -> None:
    """The bytecode of its standard library is made in the first stage, and not checked in the last."""
    stages = re.findall(r"^FROM (.*)", CONTAINERFILE, re.MULTILINE)
    assert stages == ["${PYTHON} AS build", "${PYTHON} AS root", "scratch"]
    last = CONTAINERFILE.partition("FROM scratch\n")[2]
    assert last.startswith("# hadolint ignore=DL3067\nCOPY --from=root / /\nENV ")


def test_the_version_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"sluice {VERSION}\n"
