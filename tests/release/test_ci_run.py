"""`.ci/run` runs all suites, and says it aloud where it cannot run the one with real nodes."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from pathlib import Path

import pytest

from localcluster.versions import OLDEST
from tests.support.paths import ROOT

SUITES = ("test", "test-rest", "test-long", "test-core", "test-browser", "test-pods")
#: What make is asked for: with CI=true, on the newest Kubernetes unless it says on which.
ALL = [
    "true test",
    "true test-rest",
    "true test-long",
    f"true test-core on {OLDEST}",
    "true test-browser",
    "true test-pods",
]


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A checkout in which `make` writes down what it is asked for, on Linux as root."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    (tmp_path / "bin").mkdir()
    program(tmp_path, "make", 'echo "$CI $*${VERSION:+ on $VERSION}" >> calls; [ "$*" != "$FAILING" ]')
    program(tmp_path, "uname", '[ "$1" = -s ] && echo "$SYSTEM" || echo "$MACHINE"')
    program(tmp_path, "id", 'echo "$USER_ID"')
    return tmp_path


def program(machine: Path, name: str, script: str) -> None:
    path = machine / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def run(machine: Path, **environment: str) -> tuple[int, list[str], str]:
    """The exit code, what make was asked for, and the last words."""
    done = subprocess.run(
        [str(machine / ".ci" / "run")],
        env={
            "PATH": f"{machine / 'bin'}:{os.environ['PATH']}",
            **{"SYSTEM": "Linux", "MACHINE": "x86_64", "USER_ID": "0", **environment},
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    calls = (machine / "calls").read_text().splitlines()
    said = [line.split(" ended ")[0] for line in done.stdout.splitlines()]
    assert said == [f".ci/run: make {name}" for name in SUITES[: len(calls)]]
    return done.returncode, calls, done.stderr


def test_all_suites_run(machine: Path) -> None:
    assert run(machine) == (0, ALL, "")


@pytest.mark.parametrize("name", ["VERSION", "MODE", "NODES", "LOCAL", "GIT_DIR", "GIT_WORK_TREE"])
def test_what_the_caller_chose_for_other_purposes_changes_nothing(machine: Path, name: str) -> None:
    """A pipeline has versions and modes of its own, and a hook names its repository."""
    program(machine, "make", f'echo "$CI $*${{VERSION:+ on $VERSION}}" >> calls; [ "${name}" != 1.2 ]')
    assert run(machine, **{name: "1.2"}) == (0, ALL, "")


@pytest.mark.parametrize("home", [{}, {"HOME": ""}], ids=["unset", "empty"])
def test_who_has_no_home_in_the_environment_gets_the_one_of_the_user(
    machine: Path, home: dict[str, str]
) -> None:
    program(machine, "make", 'echo "$HOME" >> calls')
    assert set(run(machine, **home)[1]) == {pwd.getpwuid(os.getuid()).pw_dir}


def test_configuration_of_git_in_the_environment_is_kept(machine: Path) -> None:
    """A pipeline says so which checkouts are safe, and by which way they are fetched."""
    program(machine, "make", 'echo "$(git config x.y)" >> calls')
    given = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "x.y", "GIT_CONFIG_VALUE_0": "as given"}
    assert set(run(machine, **given)[1]) == {"as given"}


@pytest.mark.parametrize("suite", SUITES)
def test_one_that_fails_keeps_the_others_from_nothing(machine: Path, suite: str) -> None:
    code, calls, _ = run(machine, FAILING=suite)
    assert code != 0
    assert calls == ALL


def test_one_that_hangs_is_ended_and_the_others_run(machine: Path) -> None:
    """`LAST` is for all together: a second each is left to those that come after it."""
    script = machine / ".ci" / "run"
    before = script.read_text()
    script.write_text(before.replace("LAST=5100", "LAST=2"))
    assert script.read_text() != before
    program(
        machine, "make", 'echo "$CI $*${VERSION:+ on $VERSION}" >> calls; [ "$*" != test ] || exec sleep 600'
    )
    code, calls, _ = run(machine)
    assert (code, calls) == (124, ALL)


@pytest.mark.parametrize("other", [{"SYSTEM": "Darwin"}, {"MACHINE": "aarch64"}, {"USER_ID": "1000"}])
def test_where_real_nodes_cannot_run_that_is_said_and_nothing_else_fails(
    machine: Path, other: dict[str, str]
) -> None:
    code, calls, said = run(machine, **other)
    assert (code, calls) == (0, ALL[:-1])
    assert "NOT RUN: make test-pods" in said
    assert next(iter(other.values())) in said
