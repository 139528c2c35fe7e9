"""Gangs below a control plane: whole or not at all, whatever comes in between, and each pod says why."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Container, Iterable
from functools import partial
from typing import Any

import msgspec
import pytest

from cluster.cache.members import Member
from cluster.cache.priority_classes import PriorityClass
from cluster.objects import Metadata
from controller.quota.releases import QuotaReleases
from controller.quota.waiting_gangs import REST_SECONDS
from queues.quota.book import MAX_INTENTS, parse
from queues.quota.gangs import PodState
from queues.quota.lack import LackKind
from queues.world import gang_pods
from queues.world.gang_pods import pod_state
from queues.world.pod_rules import PodRules
from tests.support.examples import scaled
from tests.support.http.wire_objects import queue
from tests.support.quota.histories import ApiServer, History, Replica, is_released

HISTORIES = 100
TOGETHER = "its pods start together"


class Stage:
    """A leader, and the queue "team" with a capability of its own."""

    def __init__(self, cpu: int) -> None:
        self.api = ApiServer(random.Random(0))
        self.api.is_rough = False
        self.leader = Replica(self.api, QuotaReleases)
        self._version = 10
        self.set_queue(cpu)

    def set_queue(self, cpu: int, state: str = "Open", name: str = "team") -> None:
        """No queue above it has a limit."""
        self._version += 1
        made = queue(
            name,
            parent="root",
            capability={"cpu": str(cpu)},
            state=state,
            version=self._version,
            generation=self._version,
        )
        self.leader.server.has(made)

    def pods(self, group: str, names: Iterable[str], *, of: str = "team", cpu: int = 1) -> list[str]:
        made = list(names)
        for name in made:
            self.api.create(name, of, cpu, group=group)
        return made

    def step(self) -> None:
        self.leader.hear(999)
        self.leader.step()

    def settle(self, steps: int = 12) -> set[str]:
        """The pods that are released, once it has had so much time; each step is a second."""
        for _ in range(steps):
            self.step()
            self.leader.send_all()
        return self.released

    def until(self, holds: Callable[[], bool]) -> None:
        """Its writes are held from then on."""
        for _ in range(30):
            self.step()
            if holds():
                return
            self.leader.send_all()
        raise AssertionError("it never holds")

    @property
    def released(self) -> set[str]:
        return {name for name, one in self.api.pods.items() if is_released(one)}

    def said(self, name: str) -> str:
        lack = self.leader.said.get(name)
        return lack.why or lack.kind.value if lack is not None else ""

    def held(self, kind: str) -> list[str]:
        """The pods for which such a write is held."""
        uids = {key[1] for key in self.leader.writes.held if key[0] == kind}
        return [name for name, one in self.api.pods.items() if one["metadata"]["uid"] in uids]

    @property
    def in_book(self) -> int:
        assert self.api.book is not None
        return len(parse(self.api.book["data"]["book"]).intents)


def letters(number: int, first: int = 0) -> list[str]:
    return [f"g-{at:03}" for at in range(first, first + number)]


# Whole or not at all


HIGH = PriorityClass(metadata=Metadata(name="high", uid="uid-high"), value=10)


def stage_with_a_gang_of_a_class(*, pods: int) -> Stage:
    """Its queue is full. Beside the gang a pod waits whose priority is between those of its pods and HIGH."""
    stage = Stage(2)
    stage.pods("", ["first"], cpu=2)
    assert stage.settle() == {"first"}
    stage.api.create("other", "team", 1, priority=5)
    stage.api.set_group("gang", "team", 2, priorityClassName="high")
    stage.pods("gang", letters(pods))
    assert stage.settle() == {"first"}
    return stage


def test_a_gang_stands_in_line_with_the_value_of_its_priority_class() -> None:
    """Before a pod of a higher priority than its pods have; as the class comes, it is asked for anew."""
    stage = stage_with_a_gang_of_a_class(pods=3)
    stage.leader.server.store.priority_classes.replace([HIGH])
    stage.settle()
    stage.api.delete("first")
    assert stage.settle() == {"g-000", "g-001"}
    stage.api.delete("g-000")
    assert stage.settle() == {"g-001", "g-002"}, "what completes it, too"


def test_who_is_evicted_for_others_has_the_priority_of_its_gang_too() -> None:
    """Else a gang would have pods evicted that have it evicted in turn."""
    stage = Stage(9)
    stage.api.set_group("gang", "team", 2, priorityClassName="high")
    stage.pods("gang", letters(2))
    stage.api.create("alone", "team", 1, priority=5)
    stage.settle()
    store, rules = stage.leader.server.store, stage.leader.releases._waiting.rules

    def priorities() -> dict[str, int]:
        return {member.name: rules.priority(member) for member in store.members.in_queue("team")}

    assert priorities() == {"g-000": 0, "g-001": 0, "alone": 5}
    store.priority_classes.upsert(HIGH)
    assert priorities() == {"g-000": 10, "g-001": 10, "alone": 5}


def test_without_its_class_a_gang_has_the_priority_of_its_pods() -> None:
    """That of a class that went counts no more."""
    stage = stage_with_a_gang_of_a_class(pods=2)
    classes = stage.leader.server.store.priority_classes
    classes.replace([HIGH])
    stage.settle()
    classes.replace([])
    stage.settle()
    stage.api.delete("first")
    assert stage.settle() == {"other"}


def test_a_gang_waits_for_its_pods_then_for_room_then_goes_whole() -> None:
    stage = Stage(3)
    stage.api.set_group("gang", "team", 4)
    names = stage.pods("gang", letters(3))
    assert stage.settle() == set()
    assert {stage.said(name) for name in names} == {f"fewer than 4 pods of its PodGroup exist; {TOGETHER}"}
    names += stage.pods("gang", letters(1, first=3))
    assert stage.settle() == set()
    assert stage.said("g-003").startswith("with its PodGroup: together they need more cpu than team may use")
    stage.pods("", ["other"], cpu=3)
    assert stage.settle() == {"other"}
    stage.set_queue(6)
    assert stage.settle() == {"other"}
    lack = stage.leader.said["g-000"]
    assert (lack.kind, lack.together) == (LackKind.CAPABILITY, 4)
    stage.api.delete("other")
    assert stage.settle() == set(names)


def test_nothing_is_read_again_and_again_of_a_gang_that_runs_or_waits() -> None:
    stage = Stage(4)
    for name, least in (("runs", 2), ("waits", 3), ("few", 9)):
        stage.api.set_group(name, "team", least)
        stage.pods(name, [f"{name}-{at}" for at in range(3)])
    stage.pods("absent", ["absent-0"])
    stage.settle()
    for name in stage.released:
        stage.api.change(name, lambda one: one["spec"].update(nodeName="node"))
    stage.settle()
    now = stage.leader.server.clock.seconds
    assert not stage.leader.releases._waiting.is_due(now)
    assert stage.leader.releases.due > now


def test_all_of_a_gang_is_in_one_write_of_the_book() -> None:
    stage = Stage(9)
    stage.api.set_group("gang", "team", 4)
    stage.pods("gang", letters(4))
    stage.until(lambda: len(stage.held("quota-release")) > 0)
    assert stage.in_book == 4
    assert stage.held("quota-release") == letters(4)


def test_what_is_beyond_the_minimum_goes_one_by_one() -> None:
    stage = Stage(3)
    stage.api.set_group("gang", "team", 2)
    stage.pods("gang", letters(5))
    assert stage.settle() == set(letters(3))
    assert stage.said("g-004") == "capability"
    assert stage.leader.said["g-004"].together == 1


def test_a_gang_without_room_holds_up_nobody_else() -> None:
    """Neither one that waits for pods, nor one that never fits, nor one that waits for room."""
    stage = Stage(4)
    for name, least in (("few", 3), ("large", 9), ("many", MAX_INTENTS + 1), ("waits", 4)):
        stage.api.set_group(name, "team", least)
        stage.pods(name, [f"{name}-{at}" for at in range(4)])
    stage.api.delete("few-0")
    stage.api.delete("few-1")
    stage.pods("", ["a", "b", "c"])
    assert stage.settle() in ({"a", "b", "c"}, {f"waits-{at}" for at in range(4)})
    assert "513 pods are to start together" in stage.said("many-0")


def test_what_min_resources_has_beyond_its_pods_is_kept_for_the_gang() -> None:
    stage = Stage(6)
    stage.api.set_group("gang", "team", 2, minResources={"cpu": "4"})
    names = stage.pods("gang", letters(2))
    assert stage.settle() == set(names)
    stage.pods("", ["b", "c", "d"])
    stage.settle()
    assert stage.released == {*names, "b", "c"}, "4 of the 6 are the gang's"
    stage.leader.begin_term()
    assert stage.settle() == {*names, "b", "c"}, "a new leader counts it, too"
    names += stage.pods("gang", letters(2, first=2))
    assert stage.settle() == {*names, "b", "c"}, "more of its pods use it first"
    for name in names:
        stage.api.change(name, lambda one: one["spec"].update(nodeName="node"))
        stage.api.change(name, lambda one: one["status"].update(phase="Succeeded"))
    assert "d" in stage.settle(), "what is over keeps nothing"


@pytest.mark.parametrize("least", [2, 3])
def test_a_gang_that_runs_takes_no_room_by_asking_for_more_later(least: int) -> None:
    """Whether something is kept for it by then, or nothing."""
    stage = Stage(6)
    stage.api.set_group("gang", "team", 2, minResources={"cpu": str(least)})
    names = stage.pods("gang", letters(2))
    assert stage.settle() == set(names)
    stage.api.set_group("gang", "team", 2, minResources={"cpu": "1000"})
    stage.settle()
    stage.pods("", ["a", "b", "c"])
    assert stage.settle() == {*names, "a", "b", "c"}
    stage.leader.begin_term()
    stage.settle()
    stage.pods("", ["d", "e"])
    assert len(stage.settle()) == 6, "to a new leader it asks for more than the queue may use"


def test_a_gang_whose_pods_do_not_exist_takes_no_room_by_asking_for_more_later() -> None:
    stage = Stage(6)
    stage.api.set_group("gang", "team", 2, minResources={"cpu": "1"})
    stage.settle()
    stage.api.set_group("gang", "team", 2, minResources={"cpu": "1000"})
    stage.settle()
    others = stage.pods("", ["a", "b", "c", "d", "e"])
    assert stage.settle() == set(others)


def test_many_gangs_keep_no_more_than_their_queue_may_use_with_a_new_leader() -> None:
    stage = Stage(6)
    for name in ("x", "y", "z"):
        stage.api.set_group(name, "team", 2, minResources={"cpu": "2"})
        stage.pods(name, [f"{name}-{at}" for at in range(2)])
    stage.set_queue(9)
    assert len(stage.settle()) == 6
    for name in ("x", "y", "z"):
        stage.api.set_group(name, "team", 2, minResources={"cpu": "5"})
    stage.leader.begin_term()
    assert len(stage.settle()) == 6
    stage.set_queue(10)
    stage.pods("", ["other"])
    assert "other" in stage.settle(), "9 count at most"


def set_note(note: str, pod: dict[str, Any]) -> None:
    pod["metadata"]["labels"].update(note=note)


def set_task(stage: Stage, name: str, task: str) -> None:
    stage.api.change(name, lambda one: one["metadata"]["labels"].update({"volcano.sh/task-spec": task}))


def test_by_task() -> None:
    stage = Stage(9)
    stage.api.set_group("gang", "team", 3, minTaskMember={"ps": 1, "worker": 2})
    for name in stage.pods("gang", ["w-0", "w-1", "w-2"]):
        set_task(stage, name, "worker")
    assert stage.settle() == set()
    assert stage.said("w-0") == f"fewer than 1 pods of task ps of its PodGroup exist; {TOGETHER}"
    stage.pods("gang", ["p-0"])
    set_task(stage, "p-0", "ps")
    assert stage.settle() == {"w-0", "w-1", "w-2", "p-0"}


@pytest.mark.parametrize(
    "spec", [{"minResources": {"cpu": "lots"}}, {"minTaskMember": {str(at): 1 for at in range(200)}}]
)
def test_what_cannot_be_read_is_said_at_once_and_holds_up_nobody(spec: dict[str, object]) -> None:
    stage = Stage(9)
    stage.api.set_group("gang", "team", 2, **spec)
    stage.pods("gang", letters(2))
    stage.pods("", ["other"])
    assert stage.settle() == {"other"}
    assert stage.said("g-000").startswith("of its PodGroup min")


def test_ten_thousand_podgroups_of_one_namespace_hold_up_nobody() -> None:
    """Each of them asks for room, and is larger than the queue, or has none of its pods."""
    stage = Stage(9)
    for number in range(10_000):
        spec: dict[str, object] = {"minResources": {"cpu": "10"}} if number % 2 else {}
        stage.api.set_group(f"group-{number}", "team", 2, **spec)
    stage.pods("group-0", ["lost"])
    stage.pods("", ["other"])
    stage.leader.hear(20_000)
    assert stage.settle() == {"other"}


def test_a_pod_is_not_released_before_its_queue_is_written_on_it() -> None:
    """The next leader may not have heard of its PodGroup, and would count it nowhere."""
    stage = Stage(2)
    stage.api.set_group("group", "team", 1)
    stage.api.create("early", "team", 1, group="group", assigned=False)
    assert stage.settle() == set()
    stage.api.assign("early")
    assert stage.settle() == {"early"}


@pytest.mark.parametrize("part", range(2))
def test_no_history_leaves_a_gang_half_released_or_takes_a_queue_over_its_capability(part: int) -> None:
    """Where the rest of its minimum is there, and has room."""
    seeds = range(scaled(HISTORIES))[part::2]
    found = {seed: faults for seed in seeds if (faults := History(seed, gangs=True).run())}
    assert found == {}


def gangs_are_single(_rules: PodRules, _member: Member) -> bool:
    return False


read_state = pod_state


def completes_nothing(member: Member, rules: PodRules, *, begun: Container[str] = ()) -> PodState | None:
    """What was released of a gang does not count for its minimum."""
    state = read_state(member, rules, begun=begun)
    return None if state in {PodState.RELEASED, PodState.PLACED} else state


may_be_released = PodRules.may_be_released


def needs_no_written_queue(rules: PodRules, member: Member) -> bool:
    """A replica that has not heard of the PodGroup counts the pod in no queue."""
    return may_be_released(rules, msgspec.structs.replace(member, written=True))


@pytest.mark.parametrize(
    ("of", "rule", "fault", "first"),
    [
        (PodRules, "may_be_released", needs_no_written_queue, 0),
        (PodRules, "is_asked_with_gang", gangs_are_single, 0),
        (gang_pods, "pod_state", completes_nothing, 400),
    ],
)
def test_the_histories_find_each_rule_that_is_left_out(
    of: object, rule: str, fault: object, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`first`: of the seeds that are tried."""
    monkeypatch.setattr(of, rule, fault)
    assert any(History(first + seed, gangs=True).run() for seed in range(HISTORIES))


def test_where_a_pod_has_gone_since_it_was_asked_for_none_of_its_gang_is_chosen() -> None:
    stage = Stage(9)
    stage.api.set_group("gang", "team", 3)
    stage.pods("gang", letters(3))
    waiting = stage.leader.releases._waiting
    read, chosen = waiting.read, list[int]()

    def read_and_hear(begun: Collection[str], **more: Any) -> None:
        read(begun, **more)
        if waiting.gang_state("team", "gang") is not None and not chosen:
            chosen.append(len(begun))
            stage.api.delete("g-001")
            stage.leader.hear(9)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waiting, "read", read_and_hear)
        assert stage.settle() == set()
    assert chosen == [0]
    assert not stage.leader.releases._intents
    stage.pods("", ["other"], cpu=9)
    assert stage.settle() == {"other"}, "nothing counts"


# What changes


def test_a_podgroup_that_comes_after_its_pods() -> None:
    stage = Stage(9)
    names = stage.pods("gang", letters(3))
    assert stage.settle() == set()
    assert stage.said("g-000") == f"its PodGroup does not exist; {TOGETHER}"
    stage.api.set_group("gang", "team", 3)
    assert stage.settle() == set(names)


def test_one_that_comes_after_its_pods_and_is_no_gang_lets_each_go_by_itself() -> None:
    stage = Stage(2)
    stage.pods("gang", letters(3))
    stage.settle()
    stage.api.set_group("gang", "team", 1)
    assert stage.settle() == set(letters(2))


def test_a_minimum_that_changes_while_the_pods_wait() -> None:
    stage = Stage(2)
    stage.api.set_group("gang", "team", 1)
    stage.pods("gang", letters(4))
    assert stage.settle() == set(letters(2))
    stage.api.set_group("gang", "team", 4)
    stage.set_queue(3)
    assert stage.settle() == set(letters(2)), "two are there, and two complete it"
    stage.api.set_group("gang", "team", 3)
    assert stage.settle() == set(letters(3))


def test_a_minimum_that_is_lowered_to_one() -> None:
    stage = Stage(2)
    stage.api.set_group("gang", "team", 4)
    stage.pods("gang", letters(4))
    assert stage.settle() == set()
    stage.api.set_group("gang", "team", 1)
    assert stage.settle() == set(letters(2))


def test_a_podgroup_that_is_deleted_holds_those_that_wait() -> None:
    stage = Stage(2)
    stage.api.set_group("gang", "team", 3)
    stage.pods("gang", letters(3))
    stage.settle()
    stage.api.delete_group("gang")
    stage.set_queue(9)
    assert stage.settle() == set()
    assert stage.said("g-000").startswith("its PodGroup does not exist")
    stage.api.set_group("gang", "team", 3)
    assert stage.settle() == set(letters(3))


def test_pods_in_another_queue_than_the_podgroup() -> None:
    stage = Stage(9)
    stage.set_queue(9, name="else")
    stage.api.set_group("gang", "team", 3)
    stage.pods("gang", ["a", "b"])
    stage.pods("gang", ["c"], of="else")
    assert stage.settle() == set()
    assert "in another queue" in stage.said("a")
    stage.pods("gang", ["d"])
    assert stage.settle() == {"a", "b", "d"}, "it holds up nobody"
    assert "in another queue" in stage.said("c")
    stage.api.delete("c")
    stage.pods("gang", ["e"])
    assert stage.settle() == {"a", "b", "d", "e"}


def test_without_a_quota_nothing_waits_for_its_gang() -> None:
    """The last capability goes while the pods wait: they are released, each by itself."""
    stage = Stage(1)
    stage.api.set_group("gang", "free", 3)
    stage.set_queue(1, name="free")
    stage.pods("gang", ["a", "b"], of="free")
    assert stage.settle() == set()
    stage.leader.server.has(queue("free", parent="root", version=99, generation=99))
    assert stage.settle() == {"a", "b"}


def test_pods_that_are_made_slowly_are_told_once_whatever_comes() -> None:
    stage = Stage(99)
    stage.api.set_group("gang", "team", 30)
    told = list[str]()
    stage.leader.releases._blocked = lambda member, _lack: told.append(member.name)
    for at in range(20):
        stage.pods("gang", letters(1, first=at))
        stage.settle(2)
    stage.settle()
    assert sorted(told) == letters(20)


def test_a_gang_of_very_many_pods_is_read_so_seldom_that_others_have_time() -> None:
    """Its own pods wait for that, and nobody else's."""
    stage = Stage(10_000)
    number = 2 * MAX_INTENTS
    stage.api.set_group("many", "team", 3 * MAX_INTENTS)
    stage.pods("many", letters(number))
    stage.settle()
    clock, waiting = stage.leader.server.clock, stage.leader.releases._waiting
    stage.api.set_group("many", "team", 2)
    stage.step()
    state = waiting.gang_state("team", "many")
    clock.seconds -= 1.0  # no time has passed
    stage.api.create("m", "team", 1, group="many")
    stage.pods("", ["other"])
    stage.step()
    stage.leader.send_all()
    assert waiting.gang_state("team", "many") is state
    assert stage.leader.releases.due < clock.seconds + number * REST_SECONDS
    assert {"other", "m"} <= stage.settle()


# What comes in between


def test_a_pod_that_changed_since_it_was_asked_for_leaves_none_of_its_gang_half_released() -> None:
    """It goes at its present version, though another one would take its room."""
    stage = Stage(3)
    stage.api.set_group("gang", "team", 3)
    names = stage.pods("gang", letters(3))
    stage.until(lambda: len(stage.held("quota-release")) == 3)
    stage.api.create("first", "team", 1, priority=9)
    stage.api.change("g-001", lambda one: one["metadata"]["labels"].update(note="x"))
    assert stage.settle() == set(names)


def test_one_that_is_gone_is_completed_by_another_one() -> None:
    stage = Stage(9)
    stage.api.set_group("gang", "team", 3)
    stage.pods("gang", letters(3))
    stage.until(lambda: len(stage.held("quota-release")) == 3)
    stage.api.delete("g-001")
    stage.settle()
    assert stage.released == {"g-000", "g-002"}
    stage.pods("gang", ["g-003"])
    assert stage.settle() == {"g-000", "g-002", "g-003"}


def test_a_stop_between_releases_voids_the_rest_and_a_resume_lets_it_go() -> None:
    stage = Stage(9)
    stage.api.set_group("gang", "team", 3)
    names = stage.pods("gang", letters(3))
    stage.until(lambda: len(stage.held("quota-release")) == 3)
    first = stage.api.pods["g-000"]["metadata"]["uid"]
    stage.leader.writes.send(("quota-release", first), gives_up=True)
    stage.set_queue(9, state="Suspended")
    assert stage.settle() == {"g-000"}
    assert stage.in_book <= 3
    assert not stage.leader.releases._intents
    stage.set_queue(9)
    assert stage.settle() == set(names)


def test_a_stopped_queue_with_a_full_book_holds_up_nobody() -> None:
    stage = Stage(MAX_INTENTS)
    stage.set_queue(9, name="else")
    stage.pods("", letters(MAX_INTENTS))
    stage.until(lambda: len(stage.held("quota-release")) > 0)
    assert stage.in_book == MAX_INTENTS
    stage.set_queue(MAX_INTENTS, state="Suspended")
    stage.pods("", ["other"], of="else")
    assert stage.settle() == {"other"}


def test_a_resume_lets_a_gang_go_whole() -> None:
    stage = Stage(9)
    stage.set_queue(9, state="Suspended")
    stage.api.set_group("gang", "team", 3)
    names = stage.pods("gang", letters(3))
    assert stage.settle() == set()
    stage.set_queue(9)
    assert stage.settle() == set(names)


def test_a_gang_as_large_as_the_book_goes_though_others_come_all_the_time() -> None:
    stage = Stage(2 * MAX_INTENTS)
    stage.pods("", ["first"])
    stage.api.set_group("gang", "team", MAX_INTENTS)
    gang = stage.pods("gang", letters(MAX_INTENTS))
    for at in range(12):
        stage.pods("", [f"z-{at}"])
        stage.settle(1)
    assert stage.settle() >= set(gang)


def test_a_pod_of_a_gang_that_changes_for_ever_keeps_no_place_in_the_book() -> None:
    stage = Stage(3)
    stage.api.set_group("gang", "team", 2)
    first, restless = stage.pods("gang", letters(2))
    stage.until(lambda: len(stage.held("quota-release")) == 2)
    uid = stage.api.pods[restless]["metadata"]["uid"]
    times = 0
    while uid in stage.leader.releases._intents:
        stage.api.change(restless, partial(set_note, str(times)))
        stage.leader.send_all()
        stage.step()
        times += 1
        assert times < 500
    assert (first in stage.released, restless in stage.released) == (True, False)
    assert restless in stage.settle(60), "once it rests"


def test_releases_that_go_on_at_another_version_are_due_though_they_fill_the_book() -> None:
    """Nothing else may happen for long: each pod has changed twice, and is tried again after a time."""
    stage = Stage(MAX_INTENTS)
    stage.api.set_group("gang", "team", MAX_INTENTS)
    names = stage.pods("gang", letters(MAX_INTENTS))
    for note in ("x", "y"):
        stage.until(lambda: len(stage.held("quota-release")) == MAX_INTENTS)
        for name in names:
            stage.api.change(name, partial(set_note, note))
        stage.leader.send_all()
    stage.leader.hear(2 * MAX_INTENTS)
    stage.leader.step()
    assert len(stage.leader.releases._intents) == MAX_INTENTS
    assert stage.leader.releases.due < stage.leader.server.clock.seconds + 1
    assert stage.settle() == set(names)


def half_released() -> tuple[Stage, list[str]]:
    """A gang of three and its names: one is released, and the releases of the others are held."""
    stage = Stage(3)
    stage.api.set_group("gang", "team", 3)
    names = stage.pods("gang", letters(3))
    stage.until(lambda: len(stage.held("quota-release")) == 3)
    stage.leader.writes.send(("quota-release", stage.api.pods["g-001"]["metadata"]["uid"]), gives_up=True)
    return stage, list(names)


def test_a_leader_that_ends_between_two_patches_leaves_the_rest_to_the_next_one() -> None:
    stage, names = half_released()
    stage.api.create("first", "team", 1, priority=9)
    stage.leader.begin_term()
    assert stage.settle() == set(names)


@pytest.mark.parametrize("is_heard", [True, False])
@pytest.mark.parametrize("is_lost", [True, False])
def test_the_rest_of_a_gang_goes_first_though_it_has_changed_since_another_leader_began_it(
    is_heard: bool, is_lost: bool
) -> None:
    """Before or after the new leader has heard of that; and where the book is lost."""
    stage, names = half_released()
    stage.leader.writes.held.clear()
    stage.api.create("first", "team", 1, priority=9)
    if is_lost:
        stage.api.book = None
    stage.leader.begin_term()
    if not is_heard:
        stage.until(lambda: stage.leader.releases.is_book_ready)
    for name in ("g-000", "g-002"):
        stage.api.change(name, partial(set_note, "x"))
    assert stage.settle() == set(names)


def test_a_gang_that_another_leader_has_begun_takes_no_room_that_is_not_there() -> None:
    stage, names = half_released()
    stage.leader.writes.held.clear()
    stage.api.book = None
    stage.set_queue(2)
    stage.pods("", ["other"])
    stage.leader.begin_term()
    assert stage.settle() == {"g-001", "other"}
    stage.api.delete("other")
    stage.set_queue(3)
    assert stage.settle() == set(names)
