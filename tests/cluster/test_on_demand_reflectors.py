"""Reflectors run while they are needed, and only then."""

from __future__ import annotations

from collections.abc import Mapping

from cluster.on_demand_reflectors import OnDemandReflectors
from tests.support.cluster.recording_reflector import RecordingReflector


class Watches:
    """Two kinds, `a` and `b`, of which `made` has all reflectors in the order in which they were made."""

    def __init__(self) -> None:
        self.made: list[RecordingReflector] = []
        self.reflectors = OnDemandReflectors(self._new_reflectors)

    def _new_reflectors(self) -> Mapping[str, RecordingReflector]:
        self.made += (RecordingReflector(), RecordingReflector())
        return {"a": self.made[-2], "b": self.made[-1]}

    def follow(self, *needed: bool) -> Watches:
        for each in needed:
            self.reflectors.follow(needed=each)
        return self

    @property
    def calls(self) -> list[list[str]]:
        return [reflector.calls for reflector in self.made]


def test_none_is_made_while_none_is_needed() -> None:
    watches = Watches().follow(False, False)
    watches.reflectors.retry_now()
    assert (watches.made, watches.reflectors.dead()) == ([], [])


def test_they_start_once_while_they_are_needed() -> None:
    watches = Watches().follow(True, True)
    assert watches.calls == [["start"], ["start"]]


def test_they_stop_when_they_are_not_needed_and_others_are_made_when_they_are_again() -> None:
    watches = Watches().follow(True, False)
    assert watches.calls == [["start", "stop"]] * 2
    watches.follow(True)
    assert watches.calls == [["start", "stop"]] * 2 + [["start"]] * 2


def test_after_a_stop_none_starts() -> None:
    watches = Watches().follow(True)
    watches.reflectors.stop()
    watches.follow(False, True)
    assert watches.calls == [["start", "stop"]] * 2


def test_those_that_run_are_retried_and_the_dead_ones_are_named() -> None:
    watches = Watches().follow(True, False, True)
    watches.reflectors.retry_now()
    assert [calls[-1] for calls in watches.calls] == ["stop", "stop", "retry_now", "retry_now"]
    watches.made[3].has_died = True
    assert watches.reflectors.dead() == ["reflector-b"]
