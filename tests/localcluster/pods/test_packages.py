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


def test_where_the_machines_apt_cannot_debians_archive_is_read_with_lists_of_our_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new machine has no lists, and another system has other packages."""
    apt_get = tmp_path / "bin" / "apt-get"
    apt_get.parent.mkdir()
    apt_get.write_text(APT_GET.format(calls=tmp_path / "calls", file=PINNED.file_names[0]))
    apt_get.chmod(0o755)
    monkeypatch.setenv("PATH", f"{apt_get.parent}:/usr/bin:/bin")
    [file] = packages.ensure_downloaded([PINNED], tmp_path / "downloads")
    assert file.read_bytes() == CONTENT
    own, update, download = (tmp_path / "calls").read_text().splitlines()
    assert own == "download -q runc=1:1.1.5+ds1-1"
    lists = f"-oDir::State::Lists={tmp_path / 'downloads' / 'apt' / 'lists'}"
    assert f" {lists} " in update
    assert f" {lists} " in download


#: Knows no package with the machine's own lists.
APT_GET = """#!/bin/sh
echo "$*" >> '{calls}'
[ "$1" != download ] || {{ echo "E: Unable to locate package" >&2; exit 100; }}
case "$*" in *" download "*) printf "a package" > '{file}' ;; esac
"""


@pytest.mark.parametrize("purpose", ["node", "image", "shell", "builder"])
def test_each_package_is_pinned_once_by_version_and_hash(purpose: str) -> None:
    pinned = packages.pinned(purpose)
    assert len({each.name for each in pinned}) == len(pinned) > 4
    assert {len(each.sha256) for each in pinned} == {64}
