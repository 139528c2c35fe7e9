"""Nodes and assigned pods are watched while some policy scores, and only then."""

from __future__ import annotations

from cluster.scoring.node_scoring import NodeScoring
from cluster.scoring.reflectors import (
    ASSIGNED_PODS,
    NODES,
    READING_SECONDS,
    ScoringReflectors,
    WatchedKind,
)
from queues.policies.policy_set import NO_POLICIES, PolicySet, read_policies

SCORES = read_policies({"pack": "actions: allocate\ntiers: [{plugins: [{name: binpack}]}]"}, NO_POLICIES)
PLAIN = read_policies({"plain": "actions: allocate"}, NO_POLICIES)


class RecordingReflector:
    def __init__(self, kind: WatchedKind) -> None:
        self.kind = kind
        self.calls: list[str] = []
        self.has_died = False

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")

    def retry_now(self) -> None:
        self.calls.append("retry_now")


class Watches:
    def __init__(self) -> None:
        self.made: list[RecordingReflector] = []
        self.now = 100.0
        self.reflectors = ScoringReflectors(
            new_scoring=lambda: NodeScoring(namespace_labels=lambda _: None, monotonic=lambda: 0.0),
            new_reflector=self._new,
            monotonic=lambda: self.now,
        )

    def _new(self, kind: WatchedKind) -> RecordingReflector:
        self.made.append(RecordingReflector(kind))
        return self.made[-1]

    def follow(self, *policies: PolicySet) -> Watches:
        for each in policies:
            self.reflectors.follow(each)
        return self


def test_nothing_is_watched_while_no_policy_scores() -> None:
    watches = Watches().follow(NO_POLICIES, PLAIN)
    assert watches.made == []
    assert watches.reflectors.scoring() is None
    watches.reflectors.retry_now()
    assert watches.reflectors.dead() == []


def test_nodes_and_pods_are_watched_from_the_first_policy_that_scores() -> None:
    watches = Watches().follow(SCORES, SCORES)
    assert [made.kind.kind for made in watches.made] == [NODES, ASSIGNED_PODS]
    assert [made.calls for made in watches.made] == [["start"], ["start"]]


def test_nothing_scores_until_both_have_been_listed_and_while_either_is_not() -> None:
    watches = Watches().follow(SCORES)
    nodes, pods = (made.kind.synced for made in watches.made)
    nodes.set()
    assert watches.reflectors.scoring() is None
    pods.set()
    assert watches.reflectors.scoring() is not None
    nodes.clear()
    assert watches.reflectors.scoring() is None


def test_nodes_and_pods_are_being_read_until_both_have_been_listed() -> None:
    watches = Watches()
    assert not watches.reflectors.is_reading()
    nodes, pods = (made.kind.synced for made in watches.follow(SCORES).made)
    assert watches.reflectors.is_reading()
    nodes.set()
    assert watches.reflectors.is_reading()
    pods.set()
    assert not watches.reflectors.is_reading()


def test_what_cannot_be_read_is_waited_for_only_so_long_and_anew_for_the_next_policies() -> None:
    watches = Watches().follow(SCORES)
    watches.now += READING_SECONDS
    assert not watches.reflectors.is_reading()
    watches.follow(PLAIN)
    assert not watches.reflectors.is_reading()
    watches.follow(SCORES)
    assert watches.reflectors.is_reading()


def test_the_watches_end_with_the_last_policy_that_scores_and_begin_anew() -> None:
    watches = Watches().follow(SCORES)
    for made in watches.made:
        made.kind.synced.set()
    before = watches.reflectors.scoring()
    watches.follow(PLAIN)
    assert [made.calls for made in watches.made] == [["start", "stop"]] * 2
    assert watches.reflectors.scoring() is None
    watches.follow(SCORES)
    assert len(watches.made) == 4
    for made in watches.made:
        made.kind.synced.set()
    assert watches.reflectors.scoring() is not before


def test_after_a_stop_nothing_starts() -> None:
    watches = Watches().follow(SCORES)
    watches.reflectors.stop()
    watches.follow(PLAIN, SCORES)
    assert len(watches.made) == 2


def test_they_try_again_when_the_api_server_answers_and_a_dead_one_is_named() -> None:
    watches = Watches().follow(SCORES)
    watches.reflectors.retry_now()
    assert [made.calls[-1] for made in watches.made] == ["retry_now", "retry_now"]
    watches.made[0].has_died = True
    assert watches.reflectors.dead() == ["reflector-nodes"]
