"""Gangs that have started, below a control plane: what becomes of one that loses pods, or whose pods wait for
somebody else.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from cluster.cache.podgroups import PodGroupKey
from controller.quota.lost_pods import LOOK_SECONDS, LOST_SECONDS
from queues.quota.lack import LackKind
from tests.controller.quota.test_gangs import Stage, letters, set_task
from tests.support.http.wire_objects import owner, queue, workload
from tests.support.quota.histories import GATES

GATE = "example.com/checked"


def owned(stage: Stage, resource: str, names: Iterable[str], *, version: int = 1, **spec: Any) -> list[str]:
    """Pods of PodGroup "gang" with such a controller."""
    made = list(names)
    status = spec.pop("status", None)
    controller = workload(resource, "train", version=version, status=status, **spec)
    stage.leader.server.has(controller)
    for name in made:
        stage.api.create(name, "team", 1, group="gang", owner=owner(controller))
    return made


def bind(stage: Stage, names: Iterable[str]) -> None:
    for name in names:
        stage.api.change(name, lambda one: one["spec"].update(nodeName="node"))
        stage.api.change(name, lambda one: one["status"].update(phase="Running"))


def end(stage: Stage, name: str) -> None:
    """It was deleted, and its kubelet has ended it, if it had one."""
    stage.api.delete(name)
    if name in stage.api.pods:
        stage.settle(2)
        stage.api.delete(name)


def started(stage: Stage, resource: str = "replicasets.apps", *, least: int = 3, **spec: Any) -> list[str]:
    """A gang of three that runs, with a controller."""
    stage.api.set_group("gang", "team", least)
    names = owned(stage, resource, letters(3), replicas=3, **spec)
    assert stage.settle() == set(names)
    bind(stage, names)
    stage.settle()
    return names


@pytest.mark.parametrize("is_made_at_once", [True, False], ids=["at once", "late"])
@pytest.mark.parametrize("is_new_leader", [False, True], ids=["", "another leader"])
def test_the_room_of_a_lost_pod_is_for_the_one_in_its_place(
    is_made_at_once: bool, is_new_leader: bool
) -> None:
    """A StatefulSet makes it only once the other one is gone. The leader has seen the gang complete."""
    stage = Stage(3)
    names = started(stage)
    if is_new_leader:
        stage.leader.begin_term()
        stage.settle()
    stage.pods("", ["a-stranger"])
    stage.settle()
    if is_made_at_once:
        stage.api.delete(names[0])
        (new,) = owned(stage, "replicasets.apps", ["new"], replicas=3)
        stage.settle(2)
        stage.api.delete(names[0])
    else:
        end(stage, names[0])
        assert stage.settle() == set(names[1:]), "its room is kept"
        (new,) = owned(stage, "replicasets.apps", ["new"], replicas=3)
    assert stage.settle() == {*names[1:], new}


def test_room_is_kept_for_a_while_and_no_longer() -> None:
    stage = Stage(3)
    names = started(stage)
    stage.pods("", ["a-stranger"])
    end(stage, names[0])
    assert "a-stranger" not in stage.settle()
    stage.leader.server.clock.seconds += LOST_SECONDS
    assert "a-stranger" in stage.settle()
    assert stage.leader.releases.due > stage.leader.server.clock.seconds, "nothing is due for it any more"


@pytest.mark.parametrize(
    ("resource", "change"),
    [
        ("replicasets.apps", {"replicas": 2}),
        ("jobs.batch", {"status": {"conditions": [{"type": "Failed", "status": "True"}]}}),
        ("jobs.batch", {"suspend": True}),
    ],
    ids=["scaled down", "over", "suspended"],
)
def test_nothing_is_kept_that_nobody_makes_again(resource: str, change: dict[str, Any]) -> None:
    stage = Stage(3)
    names = started(stage, resource)
    stage.pods("", ["a-stranger"])
    owned(stage, resource, [], version=2, **change)
    end(stage, names[0])
    assert stage.settle() == {*names[1:], "a-stranger"}


def test_nothing_is_kept_for_a_queue_that_was_stopped() -> None:
    stage = Stage(3)
    names = started(stage)
    stage.set_queue(3, state="Suspended")
    end(stage, names[0])
    stage.settle()
    assert not stage.leader.releases.kept_below("root")


def test_a_gang_that_lost_two_goes_on_with_the_first_that_comes_back() -> None:
    stage = Stage(3)
    names = started(stage)
    for name in names[:2]:
        end(stage, name)
    stage.pods("", ["a-stranger"])
    (new,) = owned(stage, "replicasets.apps", ["new"], replicas=3)
    assert stage.settle() == {names[2], new}, "room is kept for the second one, too"


def test_a_gang_without_a_live_pod_starts_anew() -> None:
    stage = Stage(3)
    names = started(stage)
    for name in names:
        end(stage, name)
    owned(stage, "replicasets.apps", ["x", "y"], replicas=3)
    assert stage.settle() == set(), "two of three"
    owned(stage, "replicasets.apps", ["z"], replicas=3)
    assert stage.settle() == {"x", "y", "z"}


def test_room_of_min_resources_is_kept_for_a_lost_pod_whoever_makes_another() -> None:
    """Spark's driver makes its executors: no controller that is known."""
    stage = Stage(2)
    stage.api.set_group("gang", "team", 1, minResources={"cpu": "2"})
    names = stage.pods("gang", letters(2))
    assert stage.settle() == set(names)
    bind(stage, names)
    stage.pods("", ["a-stranger"])
    stage.settle()
    end(stage, names[0])
    assert stage.settle() == {names[1]}
    stage.leader.server.clock.seconds += LOST_SECONDS
    assert stage.settle() == {names[1], "a-stranger"}, "and not for ever"


def test_no_edit_of_a_podgroup_keeps_room() -> None:
    """What is kept is what pods have used that are gone."""
    stage = Stage(10)
    stage.api.set_group("gang", "team", 1)
    owned(stage, "replicasets.apps", ["a"], replicas=1000)
    stage.settle()
    bind(stage, ["a"])
    stage.settle()
    stage.api.set_group("gang", "team", 1000)
    stage.settle()
    stage.pods("", ["a-stranger"])
    assert "a-stranger" in stage.settle()
    assert stage.leader.releases.kept_below("root") == {}


def test_a_pod_that_asks_for_more_than_the_lost_one_goes_in_its_turn() -> None:
    stage = Stage(3)
    names = started(stage)
    stage.api.create("before", "team", 1, priority=100)
    stage.settle()
    controller = workload("replicasets.apps", "train", version=2, replicas=3)
    end(stage, names[0])
    stage.api.create("large", "team", 2, group="gang", owner=owner(controller))
    assert stage.settle() == {*names[1:], "before"}


def test_a_minimum_that_was_never_on_nodes_starts_whole() -> None:
    stage = Stage(10)
    stage.api.set_group("gang", "team", 1)
    stage.pods("gang", ["a"])
    stage.settle()
    bind(stage, ["a"])
    stage.settle()
    stage.api.set_group("gang", "team", 4)
    stage.pods("gang", ["b"])
    assert stage.settle() == {"a"}


def test_what_never_had_room_is_not_kept() -> None:
    stage = Stage(10)
    stage.api.set_group("gang", "team", 2, minResources={"cpu": "9"})
    stage.pods("", ["full"], cpu=8)
    stage.settle()
    bind(stage, ["full"])
    stage.api.create("a", "team", 1, group="gang", gated=False)
    stage.settle()
    bind(stage, ["a"])
    stage.settle()
    assert stage.leader.releases.kept_below("team") == {}


def test_a_podgroup_that_is_made_anew_has_lost_nothing() -> None:
    stage = Stage(3)
    names = started(stage)
    end(stage, names[0])
    stage.settle()
    stage.api.delete_group("gang")
    stage.api.set_group("gang", "team", 3)
    stage.pods("", ["a-stranger"])
    assert "a-stranger" in stage.settle()
    assert not stage.leader.releases._waiting._gang_reading.lost._looks_at


def test_a_scale_down_after_the_loss_ends_what_is_kept() -> None:
    """Though no pod and no PodGroup changes by it."""
    stage = Stage(3)
    names = started(stage)
    end(stage, names[0])
    stage.pods("", ["a-stranger"])
    assert "a-stranger" not in stage.settle()
    owned(stage, "replicasets.apps", [], version=2, replicas=2)
    assert "a-stranger" in stage.settle(int(LOOK_SECONDS) + 2)


def test_by_task() -> None:
    stage = Stage(3)
    stage.api.set_group("gang", "team", 3, minTaskMember={"master": 1, "worker": 2})
    names = owned(stage, "replicasets.apps", ["m", "w-0", "w-1"], replicas=4)
    for name in names:
        set_task(stage, name, "master" if name == "m" else "worker")
    assert stage.settle() == set(names)
    bind(stage, names)
    stage.pods("", ["a-stranger"])
    stage.settle()
    end(stage, "m")
    owned(stage, "replicasets.apps", ["w-2"], replicas=4)
    set_task(stage, "w-2", "worker")
    assert stage.settle() == {"w-0", "w-1"}, "the room of the master is no worker's"
    owned(stage, "replicasets.apps", ["m-2"], replicas=4)
    set_task(stage, "m-2", "master")
    assert stage.settle() == {"w-0", "w-1", "m-2"}


def test_what_is_kept_is_named_where_it_counts() -> None:
    stage = Stage(3)
    stage.api.set_group("gang", "team", 1, minResources={"cpu": "3"})
    stage.pods("gang", ["driver"])
    assert stage.settle() == {"driver"}
    bind(stage, ["driver"])
    stage.pods("", ["a-stranger"])
    assert stage.settle() == {"driver"}
    kept = {PodGroupKey("team", "gang"): (("cpu", 2),)}
    assert stage.leader.releases.kept_below("team") == kept
    assert stage.leader.releases.kept_below("root") == kept
    assert stage.leader.releases.kept_below("default") == {}


@pytest.mark.parametrize(
    ("completions", "succeeded", "goes"),
    [(3, 1, True), (3, 0, False), (100, 50, False), (None, 1, False)],
    ids=["one has succeeded", "none has", "others come in their place", "no completions"],
)
def test_pods_of_a_job_that_have_succeeded_count_when_they_are_gone(
    completions: int | None, succeeded: int, goes: bool
) -> None:
    stage = Stage(9)
    stage.api.set_group("gang", "team", 3)
    more = {} if completions is None else {"completions": completions}
    owned(stage, "jobs.batch", ["a", "b"], status={"succeeded": succeeded}, **more)
    assert stage.settle() == ({"a", "b"} if goes else set())


def test_a_pod_that_others_gate_holds_no_room_and_says_so() -> None:
    stage = Stage(1)
    stage.api.create("checked", "team", 1, more_gates=[GATE])
    stage.settle()
    assert stage.released == set()
    lack = stage.leader.said["checked"]
    assert (lack.kind, GATE in lack.why) == (LackKind.GATE, True)
    stage.pods("", ["other"])
    assert stage.settle() == {"other"}
    end(stage, "other")
    stage.api.change("checked", drop_gate)
    stage.settle()
    assert "checked" in stage.released


def test_the_pod_in_the_place_of_a_lost_one_names_the_gate_of_others_too() -> None:
    stage = Stage(3)
    names = started(stage)
    end(stage, names[0])
    stage.api.create("new", "team", 1, group="gang", more_gates=[GATE])
    stage.settle()
    assert GATE in stage.leader.said["new"].why


def test_a_pod_without_our_gate_counts_though_others_gate_it() -> None:
    """It is bound as soon as that gate is gone: no guard may be on by then."""
    stage = Stage(2)
    stage.api.create("bare", "team", 1, gated=False, more_gates=[GATE])
    stage.settle()
    stage.pods("", ["a", "b"])
    stage.settle()
    assert len(stage.released & {"a", "b"}) == 1


def test_without_a_quota_our_gate_goes_though_others_gate_the_pod() -> None:
    """It holds no room then."""
    stage = Stage(1)
    stage.api.create("checked", "team", 1, more_gates=[GATE])
    stage.settle()
    assert [gate["name"] for gate in stage.api.pods["checked"]["spec"]["schedulingGates"]] == [*GATES, GATE]
    stage.leader.server.has(queue("team", parent="root", version=99, generation=99))
    stage.settle()
    assert [gate["name"] for gate in stage.api.pods["checked"]["spec"]["schedulingGates"]] == [GATE]


def test_none_of_a_gang_goes_while_others_gate_a_pod_of_its_minimum() -> None:
    stage = Stage(2)
    stage.api.set_group("gang", "team", 2)
    stage.pods("gang", ["a"])
    stage.api.create("b", "team", 1, group="gang", more_gates=[GATE])
    assert stage.settle() == set()
    assert GATE in stage.leader.said["b"].why
    assert "may not be released now" in stage.leader.said["a"].why
    stage.pods("", ["other"])
    assert stage.settle() == {"other"}, "and nothing is held"
    end(stage, "other")
    stage.api.change("b", drop_gate)
    assert stage.settle() == {"a", "b"}


def drop_gate(one: dict[str, Any]) -> None:
    gates = one["spec"]["schedulingGates"]
    one["spec"]["schedulingGates"] = [gate for gate in gates if gate["name"] != GATE]
