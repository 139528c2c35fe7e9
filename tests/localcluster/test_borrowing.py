"""What others wrote is built from pinned modules, or the failure says why not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from localcluster import external_tools as borrowing
from localcluster.build import BuildFailed


def test_where_its_modules_cannot_be_had_the_failure_says_so(tmp_path: Path) -> None:
    """With the end of the build's output, and nothing that looks like a binary left behind."""
    nowhere = {"GOPROXY": "off", "GOMODCACHE": str(tmp_path / "modules"), "XDG_CACHE_HOME": str(tmp_path)}
    with pytest.raises(BuildFailed, match=r"go build of vcctl failed with code 1(.|\n)*GOPROXY=off"):
        borrowing.vcctl(say=print, env={**os.environ, **nowhere})
    assert not list(tmp_path.rglob("vcctl"))


def test_what_is_in_the_cache_is_not_built_again(tmp_path: Path) -> None:
    """Found by the versions it was built from."""
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "GOPROXY": "off"}
    folder = tmp_path / "sluice" / "control-plane" / f"vcctl-{borrowing.key('vcctl')}"
    folder.mkdir(parents=True)
    (folder / "vcctl").write_text("#!/bin/sh\n")
    (folder / "vcctl").chmod(0o755)
    said: list[str] = []
    assert borrowing.vcctl(say=said.append, env=env) == folder / "vcctl"
    assert said == []
