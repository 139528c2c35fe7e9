"""A long computation lets other threads have the interpreter."""

from __future__ import annotations

from controller.slices import PAUSE_SECONDS, SLICE_SECONDS, Slices


class Time:
    def __init__(self) -> None:
        self.now = 5.0
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def test_it_pauses_after_each_slice_and_not_before() -> None:
    time = Time()
    slices = Slices(lambda: time.now, sleep=time.sleep)
    time.now += 1
    slices.begin()
    for _ in range(8):
        time.now += SLICE_SECONDS * 0.6
        slices.pause()
    assert time.pauses == [PAUSE_SECONDS] * 4
