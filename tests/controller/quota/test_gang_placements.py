"""Gangs that are released and get no nodes, and PodGroups that ask for room before their pods exist."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from cluster.api.client import Client
from cluster.cache.podgroups import PodGroupKey
from cluster.exceptions import Conflict, NotFound, Refused
from cluster.metrics import Metrics
from cluster.objects import PodGroup
from controller.quota.gang_placements import RESERVED_SECONDS
from controller.quota.releases import QuotaReleases
from queues.quota.gang_life import GangPhase
from queues.status.podgroup_conditions import GangQuotaState, Lacking
from tests.controller.quota.test_gangs import Stage
from tests.support.http.wire_objects import NAMED, Wire, namespace, owner, queue, workload
from tests.support.quota.histories import ApiServer, Replica

JOB = "/apis/batch/v1/namespaces/team/jobs/train"
MARK = "/metadata/annotations/sluice.dev~1suspended"


class Api(ApiServer):
    """Grants evictions and deletions of the pods that are named, if they are as the preconditions say."""

    def __init__(self) -> None:
        super().__init__(random.Random(0))
        self.is_rough = False
        self.gone: list[tuple[str, str]] = []
        #: Pods that a budget keeps.
        self.kept: set[str] = set()
        self.job = workload("jobs.batch", annotations={"sluice.dev/queue": "team"})

    def client(self) -> Client:
        asked = {"get": self._get, "patch": self._patch, "create": self._create, "delete": self._delete}
        return cast(Client, SimpleNamespace(**asked))

    def _get(self, path: str) -> bytes:
        return json.dumps(self.job).encode() if path == JOB else super()._get(path)

    def _patch(self, path: str, body: Any, **more: object) -> bytes:
        if path != JOB:
            return super()._patch(path, body, **more)
        assert [each["path"] for each in body if each["op"] == "add"] == [MARK, "/spec/suspend"]
        self.gone.append(("job", "suspended"))
        return b"{}"

    def _create(self, path: str, body: Wire) -> bytes:
        if not path.endswith("/eviction"):
            return self._create_book(path, body)
        self._end(path.split("/")[-2], "evicted", body["deleteOptions"])
        return b"{}"

    def _delete(self, path: str, body: Wire) -> bytes:
        self._end(path.rpartition("/")[2], "deleted", body)
        return b"{}"

    def _end(self, name: str, how: str, options: Wire) -> None:
        if name not in self.pods:
            raise NotFound(404, "NotFound", name)
        if name in self.kept:
            raise Refused(429, "TooManyRequests", "Cannot evict pod")
        meta = self.pods[name]["metadata"]
        for key, value in options["preconditions"].items():
            if meta[key] != value:
                raise Conflict(409, "Conflict", key)
        self.gone.append((name, how))
        self.delete(name)
        if name in self.pods:  # its kubelet ends it
            self.delete(name)


class Placing(Stage):
    """A leader that may evict; the pods of gangs are of a ReplicaSet, unless they are `bare`."""

    def __init__(self, cpu: int) -> None:
        self.calls = self.api = Api()
        self.leader = Replica(self.api, QuotaReleases)
        self.events: list[tuple[str, str]] = []
        context = msgspec.structs.replace(
            self.leader.context,
            drain_writers=self.leader.writes,
            leading=lambda: True,
            recorder=cast(Any, SimpleNamespace(record=self._record)),
            metrics=Metrics(),
        )
        self.leader.context = context
        self.leader.releases = QuotaReleases(context, blocked=self.leader._say)
        self._version = 10
        self.set_queue(cpu)

    def step(self) -> None:
        super().step()
        self.leader.server.clock.at += timedelta(seconds=1)

    def _record(self, subject: Any, *, reason: str, message: str, **_: object) -> None:
        self.events.append((subject.name, reason))

    def until_sent(self, holds: Callable[[], bool]) -> None:
        """Step by step, each write answered at once."""
        for _ in range(600):
            self.settle(1)
            if holds():
                return
        raise AssertionError("it never holds")

    def set_tree(self, **queues: int | None) -> None:
        """Queues of "lab", of 20 cpu, each with so many; None: it has no capability of its own."""
        for name, cpu in {"lab": 20, **queues}.items():
            self._version += 1
            made = queue(
                name,
                parent="root" if name == "lab" else "lab",
                capability=None if cpu is None else {"cpu": str(cpu)},
                version=self._version,
                generation=self._version,
            )
            self.leader.server.has(made)

    def gang(
        self,
        name: str,
        least: int,
        *,
        of: str = "team",
        bare: bool = False,
        within: str = "",
        priority: int = 0,
        **spec: Any,
    ) -> list[str]:
        """The PodGroup, and so many pods, of this priority."""
        self.api.set_group(name, of, least, **spec)
        if within:
            self.annotate(name, within)
        names = [f"{name}-{number}" for number in range(least)]
        for each in names:
            self.api.create(each, of, 1, group=name, priority=priority)
        self.own(*() if bare else names)
        return names

    def own(self, *pods: str) -> None:
        for pod in pods:
            self._own(pod)

    def _own(self, pod: str) -> None:
        owner = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": "set",
            "uid": "set",
            "controller": True,
        }
        self.api.change(pod, lambda one: one["metadata"].update(ownerReferences=[owner]))

    def annotate(self, group: str, within: str) -> None:
        self.api.version += 1
        made = json.loads(json.dumps(self.api.groups[group]))
        made["metadata"]["annotations"] = {"sluice.dev/place-within": within}
        made["metadata"]["resourceVersion"] = str(self.api.version)
        self.api.groups[group] = made
        self.api._record("MODIFIED", made)

    def place(self, *names: str) -> None:
        for name in names:
            self.api.change(name, lambda one: one["spec"].update(nodeName="node"))

    def stands(self, name: str) -> GangQuotaState | None:
        return self.leader.releases.standing(msgspec.convert(self.api.groups[name], PodGroup))

    def lacks(self, name: str) -> Lacking | None:
        stands = self.stands(name)
        return stands.lacking if stands is not None else None

    def phase(self, name: str) -> GangPhase:
        uid: str = self.api.groups[name]["metadata"]["uid"]
        return self.leader.releases._placements.rules.phase(uid)

    def has_room(self, name: str) -> bool:
        stands = self.stands(name)
        return stands is not None and stands.has_room

    def is_kept(self, name: str) -> bool:
        """Whether something is kept for it."""
        state = self.leader.releases._waiting.gang_state("team", name)
        return state is not None and bool(state.kept)


# Room before there are pods


def test_a_podgroup_gets_room_for_what_it_asks_before_its_pods_exist() -> None:
    stage = Placing(4)
    stage.api.set_group("gang", "team", 2, minResources={"cpu": "3"})
    stage.settle()
    assert stage.has_room("gang")
    stage.pods("", ["b", "c"])
    assert stage.settle() == {"b"}, "3 of the 4 are kept"
    names = stage.pods("gang", ["g-0", "g-1"])
    assert stage.settle() == {"b", *names}, "its own pods use what is kept"


def test_it_waits_while_there_is_none_whatever_it_says_itself() -> None:
    stage = Placing(4)
    stage.pods("", ["b", "c"])
    stage.settle()
    stage.api.set_group("gang", "team", 2, minResources={"cpu": "3"})
    stage.api.groups["gang"]["status"] = {"phase": "Inqueue"}
    stage.settle()
    assert stage.stands("gang") == GangQuotaState(has_room=False, lacking=Lacking.ROOM)
    stage.place("b")
    stage.api.delete("c")
    stage.api.change("b", lambda one: one["status"].update(phase="Succeeded"))
    stage.settle()
    assert stage.has_room("gang")


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"minResources": {"cpu": "9"}}, "together they need more cpu than team may use"),
        ({"minResources": {"cpu": "lots"}}, 'minResources "cpu" is no quantity'),
    ],
)
def test_what_can_never_have_room_says_so_at_once(spec: dict[str, object], text: str) -> None:
    stage = Placing(4)
    stage.api.set_group("gang", "team", 2, **spec)
    stage.pods("", ["b"])
    assert stage.settle() == {"b"}
    assert stage.stands("gang") == GangQuotaState(has_room=False, lacking=Lacking.NEVER, detail=text)


def test_a_stop_cancels_what_is_kept_and_a_resume_asks_again() -> None:
    stage = Placing(4)
    stage.api.set_group("gang", "team", 2, minResources={"cpu": "3"})
    stage.settle()
    assert stage.is_kept("gang")
    stage.set_queue(4, state="Suspended")
    stage.settle()
    assert not stage.is_kept("gang")
    stage.set_queue(4)
    stage.settle()
    assert stage.is_kept("gang")


def test_time_cancels_it_and_it_waits_behind_others() -> None:
    stage = Placing(4)
    stage.api.set_group("gang", "team", 2, minResources={"cpu": "3"})
    stage.annotate("gang", "20s")
    stage.settle(5)
    stage.pods("", ["b", "c"])
    assert stage.settle(5) == {"b"}
    assert stage.settle(20) == {"b", "c"}
    assert stage.lacks("gang") is Lacking.NODES
    stage.settle(15)
    assert stage.stands("gang") == GangQuotaState(has_room=False, lacking=Lacking.ROOM)


def pass_time(stage: Placing, seconds: float) -> None:
    stage.leader.server.clock.seconds += seconds
    stage.leader.server.clock.at += timedelta(seconds=seconds)


@pytest.mark.parametrize("made", [0, 1])
def test_room_without_pods_is_kept_for_five_minutes_whatever_an_annotation_says(made: int) -> None:
    """Then it asks again in its turn, behind its equals. A part of its pods is not enough."""
    stage = Placing(4)
    stage.api.set_group("gang", "team", 2, minResources={"cpu": "3"})
    stage.annotate("gang", "24h")
    stage.pods("gang", [f"g-{number}" for number in range(made)])
    stage.settle()
    assert stage.is_kept("gang")
    assert stage.leader.releases.kept_below("team") == {PodGroupKey("team", "gang"): (("cpu", 3),)}
    stage.pods("", ["b", "c", "d", "e"])
    assert stage.settle() == {"b"}
    pass_time(stage, RESERVED_SECONDS - 40)
    assert stage.settle() == {"b"}
    pass_time(stage, 40)
    assert stage.settle() == {"b", "c", "d", "e"}, "they have waited longer than it"
    assert not stage.is_kept("gang")
    for name in ("b", "c", "d"):
        stage.api.delete(name)
    pass_time(stage, 15)
    stage.settle()
    assert stage.is_kept("gang"), "it has asked again"


def test_room_without_pods_counts_on_when_other_queues_change() -> None:
    """No pod of its queue is there."""
    stage = Placing(9)
    stage.set_tree(lab=4, a=None, b=None)
    stage.api.set_group("gang", "a", 2, minResources={"cpu": "3"})
    stage.settle()
    stage.set_queue(1, name="speech")
    stage.pods("", ["b", "c"], of="b")
    assert stage.settle() == {"b"}


def test_room_of_a_podgroup_that_goes_at_once_is_free() -> None:
    """It was deleted before it was read that room is kept for it."""
    stage = Placing(9)
    stage.set_tree(lab=4, a=None, b=None)
    stage.api.set_group("gang", "a", 2, minResources={"cpu": "3"})
    uid = stage.api.groups["gang"]["metadata"]["uid"]
    stage.until(lambda: stage.leader.releases._placements.is_reserved(uid))
    stage.api.delete_group("gang")
    stage.pods("", ["b", "c"], of="b")
    assert stage.settle() == {"b", "c"}
    assert stage.leader.releases.kept_below("lab") == {}


def test_room_is_kept_anew_where_all_that_was_released_is_gone_before_it_had_a_node() -> None:
    stage = Placing(3)
    [name] = stage.gang("gang", 1, minResources={"cpu": "3"})
    assert stage.settle() == {name}
    stage.api.delete(name)
    stage.settle(1)
    stage.settle()
    assert stage.is_kept("gang")
    waiting = stage.leader.releases._waiting
    assert not waiting.is_due(stage.leader.server.clock.monotonic()), "it is not chosen again and again"
    pass_time(stage, RESERVED_SECONDS + 12)
    stage.pods("", ["stranger"])
    assert stage.settle() == {"stranger"}


def test_the_time_of_its_pods_on_nodes_is_what_the_annotation_says() -> None:
    stage = Placing(4)
    stage.api.set_group("gang", "team", 2, minResources={"cpu": "3"})
    stage.annotate("gang", "1h")
    stage.settle()
    names = stage.pods("gang", ["g-0", "g-1"])
    assert stage.settle() == set(names)
    pass_time(stage, 2 * RESERVED_SECONDS)
    stage.settle()
    assert stage.calls.gone == []
    assert stage.is_kept("gang")


def test_no_gang_on_nodes_gives_back_for_room_without_pods() -> None:
    """It came first, and its time is over. It needs no node."""
    stage = Placing(6)
    stage.api.set_group("gang", "team", 2, minResources={"cpu": "3"})
    stage.settle()
    names = stage.gang("runs", 2, within="1h")
    stage.settle()
    stage.place(names[0])
    stage.settle()
    pass_time(stage, RESERVED_SECONDS)
    stage.settle()
    assert stage.calls.gone == []
    assert not stage.is_kept("gang"), "and it does not wait for that one"


def test_a_group_that_is_over_asks_for_nothing() -> None:
    stage = Placing(4)
    stage.api.set_group("gang", "team", 2, minResources={"cpu": "3"})
    stage.api.groups["gang"]["status"] = {"phase": "Completed"}
    stage.settle()
    assert stage.stands("gang") == GangQuotaState()
    assert not stage.is_kept("gang")


# Giving back


def test_a_gang_that_is_not_placed_in_time_gives_back_all_it_has() -> None:
    stage = Placing(4)
    names = stage.gang("gang", 3, within="20s")
    assert stage.settle(6) == set(names)
    uid = stage.api.groups["gang"]["metadata"]["uid"]
    assert stage.leader.releases._placements.until(uid) is not None
    stage.place("gang-0")
    stage.settle(10)
    assert stage.calls.gone == []
    stage.settle(50)
    assert sorted(stage.calls.gone) == [("gang-0", "evicted"), ("gang-1", "deleted"), ("gang-2", "deleted")]
    assert ("gang", "GangGaveBack") in stage.events


def test_it_has_a_pause_and_is_asked_for_again_behind_its_equals() -> None:
    stage = Placing(3)
    stage.gang("gang", 3, within="20s")
    stage.settle(30)
    assert [how for _, how in stage.calls.gone] == ["deleted"] * 3
    again = stage.pods("gang", [f"again-{number}" for number in range(3)])
    for name in again:
        stage.own(name)
    assert stage.settle(4) == set()
    assert stage.lacks("gang") is Lacking.NODES
    assert "has a pause until 2030-01-01T12:00:" in stage.said("again-0")
    later = stage.pods("", ["later"])
    assert stage.settle(20) == set(later), "it came while the gang had its pause"
    stage.place("later")
    stage.api.change("later", lambda one: one["status"].update(phase="Succeeded"))
    assert stage.settle(20) == {"later", *again}
    stage.place(*again)
    stage.settle(3)
    assert stage.leader.releases._placements.due == float("inf"), "it costs nothing any more"


def test_a_job_is_suspended_and_held_until_its_pods_are_gone() -> None:
    """Its pods would count as failed otherwise. Who resumes it are the drains, by the mark."""
    stage = Placing(3)
    stage.leader.server.has(stage.calls.job)
    uid = stage.calls.job["metadata"]["uid"]
    names = stage.gang("gang", 3, bare=True, within="20s")
    for name in names:
        stage.api.change(name, lambda one: one["metadata"].update(ownerReferences=[owner(stage.calls.job)]))
    stage.settle(6)
    stage.place("gang-0")
    stage.settle(25)
    assert stage.calls.gone == [("job", "suspended")]
    suspended = {**stage.calls.job, "spec": {**stage.calls.job["spec"], "suspend": True}}
    suspended["metadata"] = {**suspended["metadata"], "resourceVersion": "999"}
    stage.leader.server.has(suspended)
    stage.settle(3)
    assert stage.leader.releases.is_held(uid)
    for name in (*names, "gang-0"):
        stage.api.delete(name)
    stage.settle(3)
    assert not stage.leader.releases.is_held(uid)
    assert ("gang", "GangGaveBack") in stage.events


def test_a_job_of_another_queue_that_a_pod_names_as_its_owner_is_left_alone() -> None:
    """Users write owner references: the pod is evicted as others are."""
    stage = Placing(3)
    stage.calls.job = workload("jobs.batch", annotations={NAMED: "else"})
    stage.leader.server.has(namespace("team"), stage.calls.job)
    names = stage.gang("gang", 2, bare=True, within="20s")
    for name in names:
        stage.api.change(name, lambda one: one["metadata"].update(ownerReferences=[owner(stage.calls.job)]))
    stage.settle(6)
    stage.place("gang-0")
    stage.settle(70)
    assert sorted(stage.calls.gone) == [("gang-0", "evicted"), ("gang-1", "deleted")]


def test_a_gang_that_is_placed_in_time_is_left_alone() -> None:
    stage = Placing(3)
    names = stage.gang("gang", 3, within="20s")
    stage.settle(6)
    stage.place(*names)
    stage.settle(60)
    assert stage.calls.gone == []


def test_bare_pods_keep_what_they_have_and_say_so() -> None:
    stage = Placing(3)
    stage.gang("gang", 3, bare=True, within="20s")
    stage.settle(60)
    assert stage.calls.gone == []
    assert stage.events == [("gang", "GangKeepsQuota")]


def test_of_two_gangs_that_hold_each_others_nodes_the_later_one_gives_back() -> None:
    stage = Placing(6)
    for name in ("first", "second"):
        stage.gang(name, 3, within="20s")
    stage.settle(6)
    stage.place("first-0", "first-1", "second-0")
    stage.settle(25)
    assert {name.partition("-")[0] for name, _ in stage.calls.gone} == {"second"}
    stage.place("first-2")
    stage.settle(5)
    assert not any(name.startswith("first") for name, _ in stage.calls.gone)


def test_a_new_leader_begins_the_time_anew() -> None:
    stage = Placing(3)
    stage.gang("gang", 3, within="20s")
    stage.settle(15)
    stage.leader.begin_term()
    stage.settle(10)
    assert stage.calls.gone == []
    stage.settle(20)
    assert len(stage.calls.gone) == 3


def test_a_podgroup_that_is_deleted_meanwhile_is_forgotten() -> None:
    stage = Placing(3)
    stage.gang("gang", 3, within="20s")
    stage.settle(6)
    stage.api.delete_group("gang")
    stage.settle(60)
    assert stage.calls.gone == []
    assert stage.leader.releases._placements.due == float("inf")


# Stops


def test_what_runs_of_a_gang_goes_on_while_its_queue_is_stopped_and_its_time_begins_at_the_resume() -> None:
    stage = Placing(4)
    names = stage.gang("gang", 3, within="20s")
    stage.settle(6)
    stage.place("gang-0")
    stage.set_queue(4, state="Suspended")
    stage.settle(80)
    assert stage.calls.gone == []
    stage.set_queue(4)
    stage.settle(15)
    assert stage.calls.gone == []
    stage.place("gang-1", "gang-2")
    stage.settle(80)
    assert (stage.calls.gone, stage.released) == ([], set(names))


def test_what_has_no_node_keeps_its_room_in_a_stop_and_gives_back_after_it() -> None:
    stage = Placing(4)
    stage.gang("gang", 3, within="20s")
    stage.settle(6)
    stage.place("gang-0")
    stage.set_queue(4, state="Suspended")
    stage.pods("", ["b", "c"])
    stage.settle(60)
    stage.set_queue(4)
    assert "c" not in stage.settle(10)
    stage.settle(80)
    assert sorted(stage.calls.gone) == [("gang-0", "evicted"), ("gang-1", "deleted"), ("gang-2", "deleted")]
