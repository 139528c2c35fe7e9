"""Whatever thread of the server ends without having been stopped is named by `/healthz`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.backoff import Backoff
from localcluster.cluster import LocalCluster
from server.runtime import Runtime
from server.settings import Settings
from tests.support.cluster.notes import eventually
from tests.support.e2e.wait import PATIENCE

#: Done with what it is for once the server is ready.
ENDS = "starting"


@pytest.fixture
def running(cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    """One more replica, of which nobody asks anything, and which leaves the webhooks as they are."""
    monkeypatch.setattr("certs.renewal.register", lambda _client, *, certificate: 0)
    made = Runtime(Settings(kubeconfig=str(cluster.client_kubeconfig), certs_dir=str(tmp_path)))
    try:
        yield made
    finally:
        try:
            made.stop()
        finally:  # or it would register after the test
            eventually(lambda: not made.certificates.alive, within=PATIENCE)


def threads_of(running: Runtime) -> dict[str, threading.Thread]:
    before = set(threading.enumerate())
    ready = threading.Event()
    running.start(ready=ready.set)
    assert ready.wait(PATIENCE)
    started = set(threading.enumerate()) - before
    return {thread.name: thread for thread in started if thread.name != ENDS}


def test_every_thread_is_watched(running: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by looking at what runs, so that a new one is found too."""
    threads = threads_of(running)
    assert running.dead_threads() == []
    assert len(threads) > 25
    for name, thread in threads.items():
        monkeypatch.setattr(thread, "is_alive", lambda: False)
        assert running.dead_threads() == [name]
        monkeypatch.setattr(thread, "is_alive", lambda: True)
    for thread in threads.values():
        monkeypatch.delattr(thread, "is_alive")


def test_a_start_that_fails_is_named(running: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise RuntimeError("as ordered")

    monkeypatch.setattr(running._informers, "start", fail)
    running.start()
    eventually(lambda: ENDS in running.dead_threads(), within=PATIENCE)


def test_certificates_that_cannot_be_had_do_not_end_their_thread(
    running: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def fail(_client: object, *, certificate: bytes) -> int:
        asked.append(len(certificate))
        raise OSError("No space left on device")

    monkeypatch.setattr("certs.renewal.BACKOFF", Backoff(0.01, 0.01))
    monkeypatch.setattr("certs.renewal.register", fail)
    running.start()
    eventually(lambda: len(asked) > 2, within=PATIENCE)
    assert "certificates" not in running.dead_threads()
