"""Only the pinned file of a package is unpacked."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from localcluster.exceptions import BuildFailed
from localcluster.pods import packages
from localcluster.pods.packages import Package

CONTENT = b"a package"
PINNED = Package("runc", "1:1.1.5+ds1-1", hashlib.sha256(CONTENT).hexdigest())


def test_a_file_in_the_cache_needs_no_download(tmp_path: Path) -> None:
    """apt-get is not on PATH of this test's machine, or it is: it is not called."""
    file = tmp_path / "runc_1%3a1.1.5+ds1-1_amd64.deb"
    file.write_bytes(CONTENT)
    assert packages.ensure_downloaded([PINNED], tmp_path) == [file]


def test_a_file_with_another_hash_is_refused_and_removed(tmp_path: Path) -> None:
    file = tmp_path / "runc_1%3a1.1.5+ds1-1_all.deb"
    file.write_bytes(b"another")
    with pytest.raises(BuildFailed, match=r"runc_1%3a1\.1\.5.*SHA-256"):
        packages.ensure_downloaded([PINNED], tmp_path)
    assert not file.exists()


def test_without_apt_get_the_error_says_what_real_nodes_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildFailed, match="there is no apt-get here"):
        packages.ensure_downloaded([PINNED], tmp_path)


@pytest.fixture
def apt_get(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One that knows no package with the machine's own lists, and notes in `calls` what it is asked."""
    script = tmp_path / "bin" / "apt-get"
    script.parent.mkdir()
    script.write_text(APT_GET.format(folder=tmp_path, file=PINNED.file_names[0]))
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:/usr/bin:/bin")
    return script


def test_where_the_machines_lists_do_not_do_its_sources_are_read_with_lists_of_our_own(
    apt_get: Path, tmp_path: Path
) -> None:
    """A new machine has no lists."""
    (tmp_path / "sites").write_text("https://archive.example.com/debian\n")
    [file] = packages.ensure_downloaded([PINNED], tmp_path / "downloads")
    assert file.read_bytes() == CONTENT
    own, _, update, download = (tmp_path / "calls").read_text().splitlines()
    assert own == "download -q runc=1:1.1.5+ds1-1"
    lists = f"-oDir::State::Lists={tmp_path / 'downloads' / 'apt' / 'lists'}"
    assert f"{lists} " in update
    assert f"{lists} " in download


def test_where_apt_has_no_source_the_error_says_so(apt_get: Path, tmp_path: Path) -> None:
    with pytest.raises(BuildFailed, match=r"apt is set up with no source.*bookworm-security"):
        packages.ensure_downloaded([PINNED], tmp_path / "downloads")
    assert " update " not in (tmp_path / "calls").read_text()


APT_GET = """#!/bin/sh
echo "$*" >> '{folder}/calls'
[ "$1" != download ] || {{ echo "E: Unable to locate package" >&2; exit 100; }}
case "$*" in
*" indextargets "*) [ ! -e '{folder}/sites' ] || cat '{folder}/sites' ;;
*" download "*) printf "a package" > '{file}' ;;
esac
"""


@pytest.mark.parametrize("purpose", ["node", "image", "shell", "builder"])
def test_each_package_is_pinned_once_by_version_and_hash(purpose: str) -> None:
    pinned = packages.pinned(purpose)
    assert len({each.name for each in pinned}) == len(pinned) > 4
    assert {len(each.sha256) for each in pinned} == {64}
