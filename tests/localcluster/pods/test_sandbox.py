"""What a machine must offer for real nodes: the parts that need no root to be told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from localcluster.pods import sandbox

Make = Callable[..., Path]
NEEDED = ("cpu", "cpuset", "memory", "pids")


def version_1(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).mkdir()
    return root


def version_2(root: Path, *names: str) -> Path:
    (root / "cgroup.controllers").write_text(" ".join(names))
    return root


@pytest.mark.parametrize("make", [version_1, version_2])
def test_all_controllers_are_enough(tmp_path: Path, make: Make) -> None:
    assert sandbox.cgroup_problems(make(tmp_path, *NEEDED)) == []


@pytest.mark.parametrize("make", [version_1, version_2])
def test_a_controller_that_is_missing_is_named(tmp_path: Path, make: Make) -> None:
    assert sandbox.cgroup_problems(make(tmp_path, "cpu", "cpuset", "pids")) == ["no cgroup controller memory"]


def test_a_machine_without_cgroups_is_told_so(tmp_path: Path) -> None:
    assert sandbox.cgroup_problems(tmp_path / "none") == [f"there is no {tmp_path / 'none'}"]
