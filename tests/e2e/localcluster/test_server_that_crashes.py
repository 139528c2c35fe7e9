"""A server that crashes at its start makes `make up` fail, with its log shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from localcluster.cluster import LocalCluster
from localcluster.exceptions import StartFailed

pytestmark = pytest.mark.long

NewCluster = Callable[..., LocalCluster]

#: Read by every Python that starts with this folder in its path: its forked children die of SIGSEGV.
CRASHING = """
import os, signal, sys
if "serve" in open("/proc/self/cmdline").read().split("\\0"):
    os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGSEGV))
"""


def test_a_worker_that_crashes_at_its_start_fails_the_start_of_the_cluster(
    new_cluster: NewCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(CRASHING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(StartFailed, match="server ended while it was starting") as failed:
        new_cluster()
    assert "SIGSEGV" in str(failed.value)
    assert "ended before it was ready" in str(failed.value)
