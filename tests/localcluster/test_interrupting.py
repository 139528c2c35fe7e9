"""A start that is interrupted or fails, with programs that only pretend to be a control plane."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from localcluster import __main__ as command
from localcluster import processes
from localcluster.build import PACKAGES
from localcluster.layout import ROOT

HANGS = "#!/bin/sh\nsleep 600\n"
FAILS = "#!/bin/sh\necho no such flag; exit 1\n"
SAYS_NOTHING = "#!/bin/sh\n"
#: Seconds: Python alone takes many to start where ten others want the core.
PATIENCE = 120


@pytest.fixture
def env(tmp_path: Path) -> Mapping[str, str]:
    """Programs that start and never become ready; kubectl renders nothing."""
    assets = tmp_path / "assets"
    assets.mkdir()
    for name in PACKAGES:
        program(assets / name, SAYS_NOTHING if name == "kubectl" else HANGS)
    return {**os.environ, "KUBEBUILDER_ASSETS": str(assets), "LOCAL": str(tmp_path / "local")}


@pytest.fixture
def folder(env: Mapping[str, str]) -> Iterator[Path]:
    folder = Path(env["LOCAL"])
    yield folder
    processes.stop(folder, grace=0)


def program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def up(env: Mapping[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "localcluster", "up"],
        cwd=ROOT,
        env=dict(env),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_start_ends_what_it_started(
    number: signal.Signals, env: Mapping[str, str], folder: Path
) -> None:
    with up(env) as starting:
        until(lambda: processes.leaders(folder))
        starting.send_signal(number)
        assert starting.wait(PATIENCE) == 128 + number
    assert not processes.find(folder)


def test_after_a_killed_start_down_ends_what_is_left(env: Mapping[str, str], folder: Path) -> None:
    with up(env) as starting:
        until(lambda: processes.leaders(folder))
        starting.kill()
    assert list(processes.leaders(folder)) == ["etcd"]
    assert command.main(["down"], env=env) == 0
    assert not processes.find(folder)


def test_after_a_killed_start_another_goes_on_with_what_is_left(env: Mapping[str, str], folder: Path) -> None:
    with up(env) as killed:
        until(lambda: processes.leaders(folder))
        killed.kill()
    left = processes.leaders(folder)
    with up(env) as starting:
        assert starting.stdout is not None
        assert "etcd runs already" in starting.stdout.readline()
        starting.send_signal(signal.SIGTERM)
    assert processes.leaders(folder) == left


def test_a_component_that_fails_is_named_with_the_end_of_its_log(
    env: Mapping[str, str], folder: Path
) -> None:
    program(Path(env["KUBEBUILDER_ASSETS"]) / "etcd", FAILS)
    with up(env) as starting:
        said = starting.communicate(timeout=PATIENCE)[0]
    assert starting.returncode == 1
    assert "etcd ended while it was starting" in said
    assert "no such flag" in said
    assert not processes.find(folder)


def test_down_where_nothing_runs_is_fine(env: Mapping[str, str], folder: Path) -> None:
    assert command.main(["down"], env=env) == 0
    assert not folder.exists()


def test_down_keeps_logs_and_files_that_are_not_ours(env: Mapping[str, str], folder: Path) -> None:
    with up(env) as starting:
        until(lambda: processes.leaders(folder))
        starting.kill()
    (folder / "notes.txt").write_text("mine")
    assert command.main(["down"], env=env) == 0
    assert {path.name for path in folder.iterdir()} == {".lock", "logs", "notes.txt"}


def test_status_names_what_does_not_run(
    env: Mapping[str, str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["status"], env=env) == 1
    assert capsys.readouterr().out.count("not running") == 6
