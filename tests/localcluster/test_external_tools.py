"""Programs of other projects are built from pinned modules, or the error says why not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from localcluster import external_tools
from localcluster.exceptions import BuildFailed


def test_modules_that_cannot_be_fetched_are_an_error_with_the_output_of_go(tmp_path: Path) -> None:
    """No file that looks like a binary is left behind."""
    nowhere = {"GOPROXY": "off", "GOMODCACHE": str(tmp_path / "modules"), "XDG_CACHE_HOME": str(tmp_path)}
    with pytest.raises(BuildFailed, match=r"go build of vcctl failed with code 1(.|\n)*GOPROXY=off"):
        external_tools.vcctl(say=print, env={**os.environ, **nowhere})
    assert not list(tmp_path.rglob("vcctl"))


def test_a_cached_program_is_not_built_again(tmp_path: Path) -> None:
    """The cache folder is named by the versions it was built from."""
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "GOPROXY": "off"}
    folder = tmp_path / "sluice" / "control-plane" / f"vcctl-{external_tools.key('vcctl')}"
    folder.mkdir(parents=True)
    (folder / "vcctl").write_text("#!/bin/sh\n")
    (folder / "vcctl").chmod(0o755)
    lines: list[str] = []
    assert external_tools.vcctl(say=lines.append, env=env) == folder / "vcctl"
    assert lines == []


def test_each_has_a_go_mod_that_pins_it_and_is_built_by_the_suite_that_runs_it() -> None:
    assert all(
        (external_tools.HERE / external_tools.MODULES.get(name, name) / "go.mod").exists()
        for name in external_tools.PACKAGES
    )
    assert not {*external_tools.OPERATORS} & {*external_tools.USED_BY_MAKE_TEST}
    recipe = (
        (external_tools.HERE.parent / "Makefile")
        .read_text()
        .partition("\ntest-long:")[2]
        .partition("\n\n")[0]
    )
    assert f"localcluster.external_tools {' '.join(external_tools.OPERATORS)} " in recipe


def test_definitions_that_cannot_be_fetched_are_an_error_with_the_output_of_go(tmp_path: Path) -> None:
    nowhere = {"GOPROXY": "off", "GOMODCACHE": str(tmp_path / "modules"), "XDG_CACHE_HOME": str(tmp_path)}
    with pytest.raises(BuildFailed, match=r"go mod download of sigs.k8s.io/kueue failed(.|\n)*GOPROXY=off"):
        external_tools.kueue_definitions(say=print, env={**os.environ, **nowhere})
    assert not list(tmp_path.rglob("*.yaml"))
