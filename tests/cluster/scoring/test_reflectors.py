"""Nodes and assigned pods are watched while some policy scores, and only then."""

from __future__ import annotations

from cluster.scoring.node_scoring import NodeScoring
from cluster.scoring.reflectors import (
    ASSIGNED_PODS,
    NODES,
    READING_SECONDS,
    ScoredKind,
    ScoringReflectors,
)
from queues.policies.policy_set import NO_POLICIES, PolicySet
from queues.policies.policy_texts import read_policies
from tests.support.cluster.recording_reflector import RecordingReflector

SCORES = read_policies({"pack": "actions: allocate\ntiers: [{plugins: [{name: binpack}]}]"}, NO_POLICIES)
PLAIN = read_policies({"plain": "actions: allocate\ntiers: [{}]"}, NO_POLICIES)


class Watches:
    def __init__(self) -> None:
        self.made: list[tuple[ScoredKind, RecordingReflector]] = []
        self.now = 100.0
        self.reflectors = ScoringReflectors(
            new_scoring=lambda: NodeScoring(namespace_labels=lambda _: None, monotonic=lambda: 0.0),
            new_reflector=self._new,
            monotonic=lambda: self.now,
        )

    def _new(self, kind: ScoredKind) -> RecordingReflector:
        self.made.append((kind, RecordingReflector()))
        return self.made[-1][1]

    def follow(self, *policies: PolicySet) -> Watches:
        for each in policies:
            self.reflectors.follow(each)
        return self


def test_nothing_is_watched_while_no_policy_scores() -> None:
    watches = Watches().follow(NO_POLICIES, PLAIN)
    assert watches.made == []
    assert watches.reflectors.scoring() is None


def test_nodes_and_pods_are_watched_from_the_first_policy_that_scores() -> None:
    watches = Watches().follow(SCORES, SCORES)
    assert [kind.kind for kind, _ in watches.made] == [NODES, ASSIGNED_PODS]
    assert [reflector.calls for _, reflector in watches.made] == [["start"], ["start"]]


def test_nothing_scores_until_both_have_been_listed_and_while_either_is_not() -> None:
    watches = Watches().follow(SCORES)
    nodes, pods = (kind.synced for kind, _ in watches.made)
    nodes.set()
    assert watches.reflectors.scoring() is None
    pods.set()
    assert watches.reflectors.scoring() is not None
    nodes.clear()
    assert watches.reflectors.scoring() is None


def test_nodes_and_pods_are_being_read_until_both_have_been_listed() -> None:
    watches = Watches()
    assert not watches.reflectors.is_reading()
    nodes, pods = (kind.synced for kind, _ in watches.follow(SCORES).made)
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
    for kind, _ in watches.made:
        kind.synced.set()
    before = watches.reflectors.scoring()
    watches.follow(PLAIN)
    assert [reflector.calls for _, reflector in watches.made] == [["start", "stop"]] * 2
    assert watches.reflectors.scoring() is None
    watches.follow(SCORES)
    assert len(watches.made) == 4
    for kind, _ in watches.made:
        kind.synced.set()
    assert watches.reflectors.scoring() is not before
