"""A long computation lets other threads have the interpreter."""

from __future__ import annotations

from controller.slices import GIVE_WAY_SECONDS, INTERRUPTED_SECONDS, PAUSE_SECONDS, SLICE_SECONDS, Slices


class Time:
    """What a thread sees of the time: it computes, is interrupted, or sleeps."""

    def __init__(self) -> None:
        self.now = 5.0
        self.busy = 1.0
        self.pauses: list[float] = []
        self.slices = Slices(lambda: self.now, busy=lambda: self.busy, sleep=self.sleep)

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def compute(self, seconds: float, *, interrupted: float = 0.0) -> None:
        self.busy += seconds
        self.now += seconds + interrupted
        self.slices.pause()


def test_it_pauses_after_each_slice_and_not_before() -> None:
    time = Time()
    time.now += 1
    time.slices.begin()
    for _ in range(8):
        time.compute(SLICE_SECONDS * 0.6)
    assert time.pauses == [PAUSE_SECONDS] * 4


def test_it_gives_way_once_another_thread_has_interrupted_it() -> None:
    time = Time()
    time.compute(SLICE_SECONDS / 10)
    assert time.pauses == []
    time.compute(SLICE_SECONDS / 10, interrupted=2 * INTERRUPTED_SECONDS)
    assert time.pauses == [GIVE_WAY_SECONDS]
    time.compute(SLICE_SECONDS / 10)
    assert time.pauses == [GIVE_WAY_SECONDS], "its own sleep is no interruption"
