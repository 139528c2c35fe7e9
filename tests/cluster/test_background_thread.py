"""A thread that its owner starts, and that ends by what it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from cluster.background_thread import BackgroundThread


def test_it_runs_from_its_start_under_its_name_until_what_it_runs_returns() -> None:
    begun, end = threading.Event(), threading.Event()
    names: list[str] = []

    def run() -> None:
        names.append(threading.current_thread().name)
        begun.set()
        end.wait(60)

    thread = BackgroundThread(run, name="elector")
    assert not thread.started
    assert not thread.alive
    thread.start()
    assert begun.wait(60)
    assert thread.started
    assert thread.alive
    end.set()
    thread.join(timeout=60)
    assert names == ["elector"]
    assert thread.started
    assert not thread.alive


def test_the_end_of_a_thread_that_was_not_started_is_not_waited_for() -> None:
    thread = BackgroundThread(lambda: None, name="elector")
    thread.join(timeout=60)
    assert not thread.started


def test_it_may_be_stopped_while_it_is_being_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until its start is done it counts as not started, never as ended; whoever waits for its end gets it."""
    starting, go_on = threading.Event(), threading.Event()

    class SlowToStart(threading.Thread):
        def start(self) -> None:
            starting.set()
            assert go_on.wait(60)
            super().start()

    end = threading.Event()
    thread = BackgroundThread(lambda: end.wait(60), name="elector")
    with monkeypatch.context() as patched:
        patched.setattr("cluster.background_thread.threading", SimpleNamespace(Thread=SlowToStart))
        starter = _in_thread(thread.start)
        assert starting.wait(60)
        assert (thread.started, thread.alive) == (False, False)
    joined = _in_thread(lambda: thread.join(timeout=60))
    go_on.set()
    starter.join(60)
    assert (thread.started, thread.alive) == (True, True)
    end.set()
    joined.join(60)
    assert not joined.is_alive()
    assert not thread.alive


def test_one_whose_start_is_interrupted_after_it_runs_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the handler of a signal, which raises."""

    class Interrupted(threading.Thread):
        def start(self) -> None:
            super().start()
            raise SystemExit

    end = threading.Event()
    thread = BackgroundThread(lambda: end.wait(60), name="elector")
    monkeypatch.setattr("cluster.background_thread.threading", SimpleNamespace(Thread=Interrupted))
    with pytest.raises(SystemExit):
        thread.start()
    assert (thread.started, thread.alive) == (True, True)
    end.set()
    thread.join(timeout=60)
    assert not thread.alive


def _in_thread(run: Callable[[], object]) -> threading.Thread:
    started = threading.Thread(target=run, daemon=True)
    started.start()
    return started
