"""A thread that its owner starts, and that ends by what it runs."""

from __future__ import annotations

import threading

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
