"""Gangs that give back and are made again at once, and whose wait that is: of their own scope alone."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from cluster.cache.priority_classes import PriorityClass
from cluster.objects import Metadata
from queues.quota.gang_life import GangPhase
from queues.quota.lack import LackKind
from queues.status.podgroup_conditions import Lacking
from tests.controller.quota.test_gang_placements import Placing

CRITICAL = PriorityClass(
    metadata=Metadata(name="system-cluster-critical", uid="uid-critical"), value=2_000_000_000
)
#: Steps of a tenth of a second in which something has to happen.
QUICK_STEPS = 600


class Recreating(Placing):
    """Whoever owns pods of gangs makes each again the moment it is deleted, with the same PodGroup."""

    def __init__(self, cpu: int) -> None:
        super().__init__(cpu)
        self.again = 0
        self.api.delete = self._delete_and_make_again  # type: ignore[method-assign]

    def _delete_and_make_again(self, name: str) -> None:
        group = self.api._group_of.get(self.api.pods[name]["metadata"]["uid"], "")
        type(self.api).delete(self.api, name)
        if group and name not in self.api.pods:
            self.again += 1
            of = self.api.groups[group]["spec"]["queue"]
            self.own(*self.pods(group, [f"{group}-again-{self.again}"], of=of))

    def run(self, chance: random.Random, holds: Callable[[], bool]) -> None:
        """Until this holds. Events are heard one by one or all at once, and writes are answered late, in any
        order.
        """
        for _ in range(QUICK_STEPS):
            if holds():
                return
            self.leader.hear(chance.choice([1, 2, 9]))
            self.leader.step()
            self.leader.server.clock.seconds -= 0.9
            held = list(self.leader.writes.held)
            chance.shuffle(held)
            for key in held[: chance.choice([0, 1, 2])]:
                self.leader.writes.send(key, gives_up=False)
        raise AssertionError("it never holds")


def of_gang(stage: Placing, name: str) -> list[str]:
    """What became of its pods."""
    return [how for pod, how in stage.calls.gone if pod.startswith(f"{name}-")]


# Giving back is a phase


@pytest.mark.parametrize("seed", range(5))
def test_a_gang_whose_pods_are_made_again_at_once_is_not_asked_for_before_its_pause_ends(seed: int) -> None:
    stage = Recreating(2)
    stage.gang("gang", 2, within="10s")
    assert stage.settle(6) == {"gang-0", "gang-1"}
    stage.api.create("behind", "team", 2, priority=-1)
    chance = random.Random(seed)
    stage.run(chance, lambda: stage.released == {"behind"})
    assert of_gang(stage, "gang") == ["deleted"] * 2, "its room is for the pod that waits behind it"
    stage.place("behind")
    stage.api.change("behind", lambda one: one["status"].update(phase="Succeeded"))
    stage.run(chance, lambda: {"gang-again-1", "gang-again-2"} <= stage.released)
    stage.run(chance, lambda: stage.again == 4)
    assert of_gang(stage, "gang") == ["deleted"] * 4, "its time has begun anew"
    stage.run(chance, lambda: {"gang-again-3", "gang-again-4"} <= stage.released)


def test_its_pods_and_its_podgroup_say_that_it_gives_back() -> None:
    """While a budget keeps one of its pods on its node. The other one is made again meanwhile."""
    stage = Recreating(2)
    stage.gang("gang", 2, within="10s")
    stage.settle(6)
    stage.place("gang-0")
    stage.calls.kept.add("gang-0")
    stage.until_sent(lambda: "gives back what it has" in stage.said("gang-again-1"))
    assert of_gang(stage, "gang") == ["deleted"]
    assert stage.phase("gang") is GangPhase.GIVING_BACK
    assert stage.lacks("gang") is Lacking.GIVES_BACK
    stage.calls.kept.clear()
    stage.until_sent(lambda: stage.phase("gang") is GangPhase.PAUSED)
    assert sorted(of_gang(stage, "gang")) == ["deleted", "evicted"]


def test_a_podgroup_says_that_it_gives_back_while_no_pod_of_it_waits() -> None:
    stage = Placing(2)
    stage.gang("gang", 2, within="10s")
    stage.settle(6)
    stage.place("gang-0")
    stage.calls.kept.add("gang-0")
    stage.settle(10)
    assert stage.lacks("gang") is Lacking.GIVES_BACK


def test_a_podgroup_that_is_made_anew_at_once_has_a_time_of_its_own() -> None:
    """Its pods are not given back for the one of the same name that it follows."""
    stage = Placing(4)
    stage.gang("gang", 2, within="30s")
    stage.settle(20)
    stage.api.delete_group("gang")
    for name in ("gang-0", "gang-1"):
        stage.api.delete(name)
    stage.gang("gang", 2, within="30s")
    stage.settle(20)
    assert (stage.calls.gone, len(stage.released)) == ([], 2)
    assert len(stage.leader.releases._placements._watched) == 1
    stage.settle(20)
    assert of_gang(stage, "gang") == ["deleted"] * 2


def test_nothing_is_remembered_of_a_podgroup_that_is_deleted_in_its_pause() -> None:
    stage = Placing(2)
    stage.gang("gang", 2, within="10s")
    stage.until_sent(lambda: stage.phase("gang") is GangPhase.PAUSED)
    stage.api.delete_group("gang")
    stage.settle(3)
    placements = stage.leader.releases._placements
    assert not any((placements._by_key, placements._keys, placements._since, placements.rules._gangs))
    assert placements.due == float("inf")


def test_a_release_that_is_under_way_as_its_gang_gives_back_is_given_back_too() -> None:
    """Its pod counts from then on: it would hold its room for ever."""
    stage = Placing(3)
    names = stage.gang("gang", 3, within="10s")
    stage.until(lambda: len(stage.held("quota-release")) == 3)
    late = next(key for key in stage.leader.writes.held if key[0] == "quota-release")
    for _ in range(25):
        for key in list(stage.leader.writes.held):
            if key != late:
                stage.leader.writes.send(key, gives_up=False)
        stage.step()
    assert len(of_gang(stage, "gang")) == 2
    assert stage.phase("gang") is GangPhase.GIVING_BACK
    stage.settle(5)
    assert len(of_gang(stage, "gang")) == len(names)


# Turns are per scope


@pytest.mark.parametrize("other_cpu", [None, 4], ids=["of the same capability", "of another capability"])
def test_gangs_that_no_node_takes_hold_up_no_gang_of_another_queue(other_cpu: int | None) -> None:
    """Five fail, and then ask for an hour. One of another queue has failed, too, and goes after its pause."""
    stage = Recreating(20)
    stage.set_tree(team=None if other_cpu is None else 16, other=other_cpu)
    for number in range(5):
        stage.gang(f"bad{number}", 2, within="10s")
    stage.settle(3)
    stage.gang("good", 2, of="other", within="10s")
    stage.settle(16)
    assert len(stage.calls.gone) == 12, "it fails last, and so would have its turn last"
    for number in range(5):
        stage.annotate(f"bad{number}", "1h")
    stage.annotate("good", "1h")
    # One of the same capability waits for one of the others at most.
    stage.settle(20 if other_cpu else 80)
    assert any(name.startswith("good-again") for name in stage.released)


def test_the_time_that_a_tenant_asks_for_lengthens_nobody_elses_turn() -> None:
    stage = Recreating(20)
    stage.gang("bad", 2, within="10s")
    stage.settle(3)
    stage.gang("good", 2, within="10s")
    stage.settle(16)
    assert len(stage.calls.gone) == 4
    stage.annotate("bad", "24h")
    stage.annotate("good", "24h")
    stage.until_sent(lambda: Lacking.TURN in map(stage.lacks, ["bad", "good"]))
    waits = "good" if stage.lacks("good") is Lacking.TURN else "bad"
    lack = stage.leader.said[next(name for name in stage.api.pods if name.startswith(waits))]
    assert (lack.queue, lack.kind) == ("team", LackKind.TURN), "its pods are told of which scope it is"
    stage.settle(70)
    assert {name.partition("-")[0] for name in stage.released} == {"bad", "good"}


# Ranks are compared across queues by what a ResourceQuota can bound


@pytest.mark.parametrize("has_node", [False, True], ids=["no node takes it", "a node takes a pod of it"])
def test_the_class_of_a_podgroup_evicts_no_pods_of_strangers(has_node: bool) -> None:
    stage = Placing(9)
    stage.set_queue(9, name="other")
    stage.leader.server.store.priority_classes.replace([CRITICAL])
    stage.gang("stranger", 2, of="other", within="1h")
    stage.gang("vip", 2, within="60s", priorityClassName="system-cluster-critical")
    stage.settle(4)
    stage.place("stranger-0", *(["vip-0"] if has_node else []))
    stage.settle(90)
    assert of_gang(stage, "stranger") == []
    assert sorted(of_gang(stage, "vip")) == ["deleted", "evicted" if has_node else "deleted"]


def test_pods_of_a_higher_class_take_the_nodes_of_others_where_both_have_some() -> None:
    stage = Placing(9)
    stage.set_queue(9, name="other")
    stage.gang("stranger", 2, of="other", within="1h")
    stage.gang("vip", 2, within="40s", priority=9)
    stage.settle(4)
    stage.place("stranger-0", "vip-0")
    stage.settle(60)
    assert (of_gang(stage, "vip"), sorted(of_gang(stage, "stranger"))) == ([], ["deleted", "evicted"])


def test_a_gang_without_a_node_has_nobody_evicted_in_its_own_queue_either() -> None:
    stage = Placing(9)
    stage.gang("first", 2, within="60s")
    stage.gang("second", 2, within="1h")
    stage.settle(4)
    stage.place("second-0")
    stage.settle(90)
    assert (of_gang(stage, "second"), of_gang(stage, "first")) == ([], ["deleted"] * 2)
