from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from localcluster import processes

SLEEP = ["/bin/sleep", "600"]
#: Told to end, its first thread does so at once, and the one that remains ends a little later.
LINGERS = """
import ctypes, os, signal, socket, sys, threading, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
told = threading.Event()
def linger():
    signal.sigwait([signal.SIGTERM])
    told.set()
    time.sleep(0.5)
    os._exit(0)
held = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=linger).start()
print(held.getsockname()[1], flush=True)
told.wait()
ctypes.CDLL(None).pthread_exit(None)
"""
DEAF = ["/bin/sh", "-c", "trap '' TERM; echo deaf; while true; do sleep 0.1; done"]
PARENT = ["/bin/sh", "-c", "sleep 600 & sleep 600 & echo born; wait"]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    processes.stop(tmp_path, grace=0)


def spawn(folder: Path, command: list[str] = SLEEP, component: str = "etcd") -> int:
    return processes.spawn(command, folder=folder, component=component, log=folder / "log")


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_component_leads_its_own_process_group(folder: Path) -> None:
    pid = spawn(folder)
    assert os.getpgid(pid) == pid
    assert processes.leaders(folder) == {"etcd": pid}


def test_the_output_is_appended_to_its_log(folder: Path) -> None:
    for word in ("one", "two"):
        spawn(folder, ["/bin/sh", "-c", f"echo {word}"])
        until(lambda: not processes.find(folder))
    assert (folder / "log").read_text() == "one\ntwo\n"


def test_a_process_is_found_even_if_its_starter_was_killed(folder: Path) -> None:
    script = (
        "import os, signal, sys; from pathlib import Path; from localcluster import processes;"
        f"f = Path({str(folder)!r}); processes.spawn({SLEEP!r}, folder=f, component='kwok', log=f / 'log');"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    starter = subprocess.run([sys.executable, "-c", script], check=False)
    assert starter.returncode == -signal.SIGKILL
    assert list(processes.leaders(folder)) == ["kwok"]


def test_stopping_ends_children_that_outlived_their_leader(folder: Path) -> None:
    pid = spawn(folder, PARENT)
    until(lambda: "born" in (folder / "log").read_text())
    os.kill(pid, signal.SIGKILL)
    until(lambda: not processes.leaders(folder))
    assert len(processes.find(folder)) == 2
    processes.stop(folder, grace=0)
    assert not processes.find(folder)


def test_a_process_that_ignores_sigterm_is_killed(folder: Path) -> None:
    spawn(folder, DEAF)
    until(lambda: "deaf" in (folder / "log").read_text())
    processes.stop(folder, grace=0.1)
    assert not processes.find(folder)


def test_a_stopped_process_is_ended_without_waiting_for_the_grace_period(folder: Path) -> None:
    spawn(folder)
    processes.kill(folder, "etcd", number=signal.SIGSTOP)
    began = time.monotonic()
    processes.stop(folder, grace=600)
    assert time.monotonic() - began < 300


def test_the_port_of_a_stopped_process_is_free(folder: Path) -> None:
    """A process that ends loses its environment before its sockets."""
    spawn(folder, [sys.executable, "-c", LINGERS])
    until((folder / "log").read_text)
    processes.stop(folder)
    with socket.create_server(("127.0.0.1", int((folder / "log").read_text()))):
        assert not processes.find(folder)


def test_another_process_with_the_same_command_is_left_alone(folder: Path) -> None:
    with subprocess.Popen(SLEEP) as stranger:
        spawn(folder)
        processes.stop(folder)
        assert stranger.poll() is None
        stranger.kill()


def test_another_cluster_is_left_alone(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    spawn(folder)
    pid = spawn(other)
    processes.stop(folder)
    assert processes.leaders(other) == {"etcd": pid}
    processes.stop(other)


def test_sessions_to_keep_are_left_alone(folder: Path) -> None:
    kept = spawn(folder)
    spawn(folder, component="kwok")
    processes.stop(folder, keep=[kept])
    assert processes.leaders(folder) == {"etcd": kept}


def test_only_the_named_component_is_stopped(folder: Path) -> None:
    spawn(folder)
    spawn(folder, component="kwok")
    processes.stop(folder, components=["etcd"])
    assert list(processes.leaders(folder)) == ["kwok"]


def test_variables_that_etcd_would_read_as_flags_do_not_reach_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ETCD_NAME", "stray")
    spawn(folder, ["/bin/sh", "-c", "echo name=$ETCD_NAME."])
    until(lambda: not processes.find(folder))
    assert (folder / "log").read_text() == "name=.\n"


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "http_proxy", "No_Proxy"])
def test_a_component_asks_no_proxy_for_others(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Which reaches neither the addresses of nodes nor those of pods."""
    monkeypatch.setenv(name, "stray")
    spawn(folder, ["/bin/sh", "-c", f"echo {name}=${name}."])
    until(lambda: not processes.find(folder))
    assert (folder / "log").read_text() == f"{name}=.\n"
