"""A worker that dies at its start ends the server; one that dies later is replaced."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from server.gunicorn_app import FAILED
from tests.support.paths import ROOT

#: Much longer than any of it takes.
SECONDS = 60


@contextmanager
def booted(how: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.http.booting_worker", how],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


def worker(process: subprocess.Popen[str]) -> int:
    """The process of the next worker that is started, by the log."""
    return int(said(process, r"Booting worker with pid: (\d+)")[1])


def said(process: subprocess.Popen[str], pattern: str) -> re.Match[str]:
    """What the log says next of this; waited for."""
    assert process.stderr is not None
    for line in process.stderr:
        if match := re.search(pattern, line):
            return match
    raise AssertionError(f"nothing more of {pattern} is said")


def test_a_worker_that_dies_at_its_start_ends_the_server_and_the_log_says_so() -> None:
    with booted("start") as process:
        _, log = process.communicate(timeout=SECONDS)
    assert process.returncode == FAILED
    assert log.count("Booting worker") == 1
    assert "SIGSEGV" in log
    assert "ended before it was ready" in log


def test_a_worker_that_dies_after_it_was_ready_is_replaced() -> None:
    with booted("later") as process:
        first = worker(process)
        said(process, "^ready$")
        os.kill(first, signal.SIGKILL)
        assert worker(process) != first
        assert process.poll() is None


def test_a_worker_that_is_told_to_end_as_soon_as_it_is_forked_ends() -> None:
    """Until its handlers are there, those of the master would take the signal, and do nothing with it."""
    with booted("told") as process:
        first = worker(process)
        said(process, "^ready$")
        impatient = threading.Timer(SECONDS, process.kill)
        impatient.start()
        try:
            assert worker(process) != first
        finally:
            impatient.cancel()
            impatient.join()


def test_a_stop_is_no_failed_start() -> None:
    with booted("later") as process:
        worker(process)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=SECONDS)
    assert process.returncode == 0
