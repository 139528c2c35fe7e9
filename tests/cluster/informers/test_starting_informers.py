"""Informers may be stopped at any moment, and asked which threads are dead, while they are being started."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import pytest

from cluster.api.client import Client
from cluster.background_thread import BackgroundThread
from cluster.cache.store import Clock, Store
from cluster.exceptions import Unreachable
from cluster.informers import informers
from cluster.informers.informers import ALL_KINDS, MEMBERSHIP_KINDS, Informers
from cluster.informers.reflector import Reflector
from cluster.metrics import Metrics
from cluster.objects import Pod
from cluster.readiness import ClusterReadiness
from queues.membership import MembershipSettings
from tests.support.cluster.notes import eventually
from tests.support.cluster.recording_reflector import RecordingReflector

PATIENCE = 60.0


class Unread:
    """Informers of a cluster that is never read; `reflectors` by kind."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reflectors: dict[str, RecordingReflector] = {}
        monkeypatch.setattr(informers, "Reflector", self._new_reflector)
        self.store = Store(membership_settings=MembershipSettings(), clock=Clock())
        readiness = ClusterReadiness(ALL_KINDS, clock=self.store.clock.monotonic)
        client = cast(Client, None)  # nothing is read
        self.informers = Informers(client=client, store=self.store, readiness=readiness, metrics=Metrics())

    def _new_reflector(self, *, kind: str, options: Any, **_: Any) -> RecordingReflector:
        self.reflectors[kind] = RecordingReflector()
        vars(self.reflectors[kind])["synced"] = options.synced
        return self.reflectors[kind]

    @property
    def started(self) -> set[str]:
        return {kind for kind, reflector in self.reflectors.items() if "start" in reflector.calls}


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> Iterator[Unread]:
    made = Unread(monkeypatch)
    yield made
    made.informers.stop()


def test_a_stop_ends_a_start_that_waits_for_the_cluster(unread: Unread) -> None:
    """Not after its patience: whoever stops waits for the thread that starts."""
    starting = BackgroundThread(lambda: unread.informers.start(patience=1_000.0), name="starting")
    starting.start()
    eventually(lambda: unread.started == set(MEMBERSHIP_KINDS))
    unread.informers.stop()
    starting.join(timeout=PATIENCE)
    assert not starting.alive
    assert unread.started == set(MEMBERSHIP_KINDS)


def test_a_thread_that_is_not_started_yet_is_not_dead(
    unread: Unread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`/healthz` said that it was, in the moment in which the informers began."""
    named: list[list[str]] = []
    start = unread.store.watch_progress.start

    def look_and_start() -> None:
        named.append(unread.informers.dead())
        start()
        named.append(unread.informers.dead())

    monkeypatch.setattr(unread.store.watch_progress, "start", look_and_start)
    unread.informers.start(patience=0.0)
    assert (named, unread.informers.dead()) == ([[], []], [])


def test_an_owner_whose_stop_fails_leaves_no_reflector_running(
    unread: Unread, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RuntimeError("as ordered")

    unread.informers.start(patience=0.0)
    with monkeypatch.context() as patched:
        patched.setattr(unread.store.watch_progress, "stop", fail)
        patched.setattr(unread.reflectors["pods"], "stop", fail)
        with pytest.raises(RuntimeError, match="as ordered"):
            unread.informers.stop()
    running = {kind for kind, reflector in unread.reflectors.items() if "stop" not in reflector.calls}
    assert running == {"pods"}


class Interrupted:
    """A client whose request ends by the second interrupt: the first one came between two requests."""

    def __init__(self) -> None:
        self.began, self._cut = threading.Event(), threading.Event()
        self._interrupts = 0

    def interruptible(self) -> Interrupted:
        return self

    def interrupt(self) -> None:
        self._interrupts += 1
        if self._interrupts > 1:
            self._cut.set()

    def read(self, *_: object, **__: object) -> NoReturn:
        self.began.set()
        assert self._cut.wait(PATIENCE)
        raise Unreachable("the connection was cut")


def reflector_of(client: Interrupted) -> Reflector[Pod]:
    return Reflector(
        kind="pods",
        path="/api/v1/pods",
        decode=cast(Any, None),
        handler=cast(Any, None),
        client=cast(Client, client),
        counters=Metrics(),
    )


def test_a_reflector_is_stopped_though_another_thread_is_still_starting_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its thread reads before its start is known to be done; it was left reading."""
    client, go_on = Interrupted(), threading.Event()

    class SlowToReturn(threading.Thread):
        def start(self) -> None:
            super().start()
            assert go_on.wait(PATIENCE)

    reflector = reflector_of(client)
    monkeypatch.setattr(reflector._pages, "read", client.read)
    join = reflector._thread.join

    def let_start_and_join(*, timeout: float) -> None:
        go_on.set()
        join(timeout=timeout)

    monkeypatch.setattr(reflector._thread, "join", let_start_and_join)
    starter = threading.Thread(target=reflector.start, daemon=True)
    with monkeypatch.context() as patched:
        patched.setattr("cluster.background_thread.threading", SimpleNamespace(Thread=SlowToReturn))
        starter.start()
        assert client.began.wait(PATIENCE)
    try:
        reflector.stop()
    finally:
        go_on.set()
        starter.join(PATIENCE)
    assert not reflector.alive


class ClearedLate(threading.Event):
    """Is cleared only after a stop, which began after its thread had looked whether it is stopped."""

    def __init__(self, stop: Callable[[], object]) -> None:
        super().__init__()
        self._stop = stop

    def clear(self) -> None:
        self._stop()
        super().clear()


def test_a_stop_is_not_lost_on_a_reflector_that_is_about_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """It read once more, and slept for ten seconds where its kind is not installed."""
    reflector = reflector_of(Interrupted())
    reads: list[object] = []
    monkeypatch.setattr(reflector, "_list", lambda: reads.append("list"))
    monkeypatch.setattr(reflector, "_watch", lambda: reads.append("watch"))
    monkeypatch.setattr(reflector, "_awake", ClearedLate(reflector._stopped.set))
    reflector._run()
    assert reads == []
