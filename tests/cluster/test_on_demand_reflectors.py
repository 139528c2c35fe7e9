"""Reflectors run while they are needed, and only then."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

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


@pytest.mark.parametrize("failing", [0, 1], ids=["the first", "the second"])
def test_if_one_cannot_be_started_none_runs_and_all_are_tried_again(failing: int) -> None:
    """The other one ran alone for good. Until it succeeds they count as dead: who asks for them may not do it
    again, and then only a restart helps.
    """
    watches = Watches()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(RecordingReflector, "start", lambda one: _start(one, watches.made[failing]))
        with pytest.raises(RuntimeError, match="can't start"):
            watches.follow(True)
    assert watches.reflectors.dead() == ["reflectors-on-demand"]
    assert all(calls[-1] == "stop" for calls in watches.calls[: failing + 1])
    watches.follow(True)
    assert [calls[-1] for calls in watches.calls[2:]] == ["start", "start"]
    assert watches.reflectors.dead() == []


def test_those_that_could_not_be_started_and_are_not_needed_any_more_are_not_dead() -> None:
    watches = Watches()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(RecordingReflector, "start", lambda one: _start(one, watches.made[0]))
        with pytest.raises(RuntimeError, match="can't start"):
            watches.follow(True)
    watches.follow(False)
    assert watches.reflectors.dead() == []


def _start(reflector: RecordingReflector, failing: RecordingReflector) -> None:
    if reflector is failing:
        raise RuntimeError("can't start new thread")
    reflector.calls.append("start")


def test_one_whose_stop_fails_leaves_no_other_running() -> None:
    watches = Watches().follow(True)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(RecordingReflector, "stop", lambda one: _stop(one, watches.made))
        with pytest.raises(RuntimeError, match="as ordered"):
            watches.follow(False)
    assert watches.calls == [["start", "stop"]] * 2


def _stop(reflector: RecordingReflector, made: list[RecordingReflector]) -> None:
    reflector.calls.append("stop")
    if all("stop" in each.calls for each in made):
        return
    raise RuntimeError("as ordered")
