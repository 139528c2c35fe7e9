"""Pods that are no members are watched while some policy protects the system-critical ones, and only then."""

from __future__ import annotations

from cluster.cache.system_pods import SystemPods
from cluster.informers.system_pods import SystemPodsWatch
from queues.policies.policy_set import NO_POLICIES, read_policies

CONFORMANCE = "actions: preempt\ntiers: [{plugins: [{name: conformance}]}]"
PROTECTS = read_policies({"safe": CONFORMANCE}, NO_POLICIES)
PLAIN = read_policies({"plain": "actions: allocate"}, NO_POLICIES)


class RecordingReflector:
    def __init__(self) -> None:
        self.calls: list[str] = []
        self.has_died = False

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")

    def retry_now(self) -> None:
        self.calls.append("retry_now")


def test_the_watch_lives_as_long_as_a_policy_needs_it() -> None:
    made: list[RecordingReflector] = []

    def new_reflector() -> RecordingReflector:
        made.append(RecordingReflector())
        return made[-1]

    watch = SystemPodsWatch(SystemPods(), new_reflector=new_reflector)
    watch.follow(PLAIN)
    watch.retry_now()
    assert (made, watch.dead()) == ([], [])
    watch.follow(PROTECTS)
    watch.follow(PROTECTS)
    watch.retry_now()
    watch.follow(PLAIN)
    assert [reflector.calls for reflector in made] == [["start", "retry_now", "stop"]]
    watch.follow(PROTECTS)
    made[1].has_died = True
    assert watch.dead() == ["reflector-system-pods"]
    watch.stop()
    watch.follow(PROTECTS)
    assert len(made) == 2, "none is started once the server stops"
