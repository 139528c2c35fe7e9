"""Debian's Chromium is unpacked once, without being installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from localcluster import chromium
from localcluster.exceptions import BuildFailed

APT_GET = """#!/bin/sh
echo "$*" >> '{folder}/calls'
case "$*" in
*update*) exit 0 ;;
*State::Lists*) ;;
*) [ -e '{folder}/lists' ] || {{ echo "E: Unable to locate package" >&2; exit 100; }} ;;
esac
for word in "$@"; do
  case "$word" in -oDir::Cache::archives=*) touch "${{word#*=}}/a.deb" ;; esac
done
"""
DPKG_DEB = """#!/bin/sh
mkdir -p "$3/usr/lib/chromium" "$3/usr/lib/x86_64-linux-gnu/deep"
touch "$3/usr/lib/chromium/chromium-headless-shell" "$3/usr/lib/x86_64-linux-gnu/deep/libx.so.1"
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """One without a browser, whose apt-get knows packages only by lists that are read anew."""
    bin = tmp_path / "bin"
    bin.mkdir()
    for name, script in (("apt-get", APT_GET.format(folder=tmp_path)), ("dpkg-deb", DPKG_DEB)):
        (bin / name).write_text(script)
        (bin / name).chmod(0o755)
    environ = {"PATH": f"{bin}:/bin", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    monkeypatch.setenv("PATH", environ["PATH"])
    monkeypatch.setattr(chromium, "ON_PATH", ("no-such-browser",))
    return environ


def test_it_is_unpacked_once_with_lists_of_our_own_where_the_machines_do_not_do(
    machine: dict[str, str], tmp_path: Path
) -> None:
    said: list[str] = []
    found = chromium.chromium(say=said.append, env=machine)
    assert found.path.exists()
    assert found.environ["LD_LIBRARY_PATH"].endswith("/usr/lib/x86_64-linux-gnu/deep")
    assert Path(found.environ["FONTCONFIG_FILE"]).exists()
    calls = (tmp_path / "calls").read_text()
    assert chromium.chromium(say=said.append, env=machine) == found
    assert (len(said), (tmp_path / "calls").read_text()) == (1, calls)
    assert "--download-only" in calls


def test_where_there_is_no_apt_the_error_says_so(
    machine: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildFailed, match="there is no apt-get here"):
        chromium.chromium(say=print, env={**machine, "PATH": str(tmp_path)})


def test_one_that_is_on_path_is_taken(
    machine: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chromium, "ON_PATH", ("apt-get",))
    assert chromium.chromium(say=print, env=machine).path == tmp_path / "bin" / "apt-get"
