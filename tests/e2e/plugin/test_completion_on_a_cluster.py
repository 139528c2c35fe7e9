"""kubectl itself asks for candidates, as it does when a user presses TAB."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until


def completed(sandbox: Sandbox, *words: str, kubeconfig: Path | None = None) -> list[str]:
    """What `kubectl __complete` prints, which the shells' scripts call; the directive comes last."""
    layout = sandbox.cluster.layout
    path = os.pathsep.join((str(layout.bin), str(Path(sys.executable).parent), os.environ["PATH"]))
    environ = {**os.environ, "PATH": path, "KUBECONFIG": str(kubeconfig or layout.kubeconfig)}
    command = [str(layout.bin / "kubectl"), "__complete", "queue", *words]
    done = subprocess.run(command, env=environ, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


def has_candidates(lines: list[str]) -> list[str]:
    return lines if len(lines) > 1 else []


def test_resume_is_offered_the_queues_that_are_stopped_and_no_others(sandbox: Sandbox) -> None:
    runs, stopped = sandbox.queue("runs"), sandbox.queue("stopped")
    sandbox.suspend(stopped)
    # A user who waits is given up after two seconds: then there are no candidates.
    lines = until(lambda: has_candidates(completed(sandbox, "resume", "")), "the queues to be read in time")
    names = {line.partition("\t")[0] for line in lines}
    assert stopped in names
    assert runs not in names
    assert lines[-1] == ":4"
    assert [line for line in lines if line.startswith(stopped)] == [f"{stopped}\tSuspended"]
    shown = until(lambda: has_candidates(completed(sandbox, "get", "")), "the queues to be read in time")
    assert {runs, stopped} <= {line.partition("\t")[0] for line in shown}


def test_who_may_not_list_queues_is_offered_none(sandbox: Sandbox) -> None:
    sandbox.suspend(sandbox.queue())
    assert completed(sandbox, "resume", "", kubeconfig=sandbox.cluster.user("nobody")) == [":4"]
