"""Markers in two steps: prompted before a version is demanded, and ended when that is not enough."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from cluster.cache import watch_progress as module
from cluster.cache.watch_progress import WatchProgress
from cluster.exceptions import Unreachable

FIRST = 100
LONG = 60.0


class Pods:
    """The reflector of pods, and its markers: each step of one is a version of its own."""

    def __init__(self) -> None:
        self.applied = self.version = FIRST
        self.steps: list[str] = []
        #: What was said of the versions of markers.
        self.written: list[tuple[float, int]] = []
        self.refused = self.is_there = False
        self.changed = threading.Condition()

    def advance_watch_cache(self) -> None: ...

    def rewatch(self) -> None: ...

    def relist(self) -> int:
        return 0

    def __call__(self) -> None:
        self._step("marker")

    def begin(self) -> int:
        if self.refused:
            self._step("refused")
            raise Unreachable("as ordered")
        return 0 if self.is_there else self._step("begin")

    def end(self) -> None:
        self._step("end")

    def _step(self, name: str) -> int:
        with self.changed:
            self.version += 1
            self.steps.append(name)
            self.changed.notify_all()
            return self.version

    def await_steps(self, *steps: str) -> None:
        """These are the first steps."""
        with self.changed:
            took = self.changed.wait_for(lambda: len(self.steps) >= len(steps), timeout=LONG)
        assert took and self.steps[: len(steps)] == list(steps)


@pytest.fixture
def pods() -> Pods:
    return Pods()


@pytest.fixture
def progress(pods: Pods) -> Iterator[WatchProgress]:
    progress = WatchProgress(
        clock=time.monotonic, written=lambda at, version: pods.written.append((at, version))
    )
    progress.attach("pods", pods, marker=pods, two_steps=pods)
    progress.start()
    yield progress
    progress.stop()
    assert not progress.alive


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A marker is not ended by itself."""
    monkeypatch.setattr(module, "OPEN_SECONDS", LONG)


def test_a_prompted_marker_names_its_version_and_is_ended(pods: Pods, progress: WatchProgress) -> None:
    known = threading.Event()
    progress.listen(lambda _kind: known.set())
    began = time.monotonic()
    progress.prompt("pods")
    assert known.wait(LONG)
    assert progress.prompted_version("pods", since=began) == FIRST + 1
    assert progress.prompted_version("pods", since=time.monotonic()) == 0
    pods.await_steps("begin", "end")
    ((at, version),) = pods.written
    assert (began <= at <= time.monotonic(), version) == (True, FIRST + 1)


def test_a_demand_that_its_beginning_does_not_meet_ends_it_at_once(
    pods: Pods, progress: WatchProgress, kept: None
) -> None:
    progress.prompt("pods")
    pods.await_steps("begin")
    assert not progress.demand("pods", FIRST + 2)
    pods.await_steps("begin", "end")


def test_a_demand_that_its_event_meets_writes_no_marker(
    pods: Pods, progress: WatchProgress, kept: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PROMPT_EVENT_SECONDS", LONG)
    progress.prompt("pods")
    pods.await_steps("begin")
    assert not progress.demand("pods", FIRST + 1)
    pods.applied = FIRST + 1
    progress.advanced("pods", FIRST + 1)
    assert progress.demand("pods", FIRST + 1)
    assert pods.steps == ["begin"]


def test_a_demand_and_an_announcement_of_one_version_share_a_marker(
    pods: Pods, progress: WatchProgress, kept: None
) -> None:
    assert not progress.demand("pods", FIRST + 1)
    progress.announce("pods", FIRST + 1)
    pods.await_steps("marker")
    assert not progress.demand("pods", FIRST + 2)
    pods.await_steps("marker", "marker")


def test_while_one_is_there_no_other_is_prompted(pods: Pods, progress: WatchProgress, kept: None) -> None:
    for _ in range(3):
        progress.prompt("pods")
    pods.await_steps("begin")
    progress.stop()
    assert pods.steps == ["begin", "end"]  # a stop leaves nothing behind


@pytest.mark.parametrize("fault", ["refused", "is_there"])
def test_a_demand_has_a_marker_all_the_same_where_a_prompted_one_fails(
    pods: Pods, progress: WatchProgress, kept: None, fault: str
) -> None:
    """It was refused, or the pod of another replica was there, whose version nobody knows."""
    setattr(pods, fault, True)
    began = time.monotonic()
    progress.prompt("pods")
    assert not progress.demand("pods", FIRST + 1)
    pods.await_steps(*(("refused", "marker") if fault == "refused" else ("end", "marker")))
    assert progress.prompted_version("pods", since=began) == 0


def test_a_kind_without_such_a_marker_is_left_alone(pods: Pods) -> None:
    progress = WatchProgress(clock=time.monotonic)
    progress.attach("queues", pods)
    progress.prompt("queues")
    assert progress.prompted_version("queues", since=0.0) == 0
