"""PodGroups as values: what is held of a queue equals a recount, always, and the past is refused."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from cluster.cache.changes import QueueChange
from cluster.cache.podgroups import PodGroupCounts, PodGroups
from cluster.objects import Pod, PodGroup
from queues.status.podgroup_phases import Phase
from queues.world.podgroups import is_live, phase_of, queue_of
from tests.support.cases import each_case
from tests.support.http.asking import Server
from tests.support.http.wire_objects import (
    GROUP,
    Wire,
    pod,
    podgroup,
)
from tests.support.rules.cases import MODEST

QUEUES = ("research", "labs", "default")
Key = tuple[str, str]


def read(obj: Wire) -> PodGroup:
    return msgspec.json.decode(json.dumps(obj), type=PodGroup)


class Held:
    """PodGroups, and what they told."""

    def __init__(self) -> None:
        self.came = 0
        self.changed: list[tuple[str, Key]] = []
        self.arrived: list[str] = []
        self.groups = PodGroups(
            on_queue_change=self._come, on_change=self._change, arrived=self.arrived.append
        )

    def _come(self) -> None:
        self.came += 1

    def _change(self, group: PodGroup) -> None:
        self.changed.append((queue_of(group), (group.metadata.namespace, group.metadata.name)))

    def tell(self, what: str, obj: Any) -> None:
        if what == "replace":
            self.groups.replace([read(one) for one in obj])
        else:
            getattr(self.groups, what)(read(obj))


class Oracle:
    """What there is, by namespace and name: one that was made again is another, whatever its version."""

    def __init__(self) -> None:
        self.held: dict[Key, Wire] = {}

    def tell(self, what: str, obj: Any) -> None:
        if what == "replace":
            self.held = {key: self.held[key] for key in map(key_of, obj) if key in self.held}
            for one in obj:
                self.tell("upsert", one)
            return
        held = self.held.get(key_of(obj))
        if what == "upsert" and not (held and uid(held) == uid(obj) and version(obj) < version(held)):
            self.held[key_of(obj)] = obj
        if what == "remove" and held and version(obj) >= version(held):
            del self.held[key_of(obj)]

    def of(self, queue: str) -> dict[Key, int]:
        return {
            key: version(obj)
            for key, obj in self.held.items()
            if (obj["spec"].get("queue") or "default") == queue
        }

    def live(self, queue: str) -> int:
        return sum(lives(self.held[key]) for key in self.of(queue))

    def live_by_namespace(self, queue: str) -> Counter[str]:
        return Counter(namespace for namespace, name in self.of(queue) if lives(self.held[namespace, name]))


def key_of(obj: Wire) -> Key:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def uid(obj: Wire) -> str:
    return str(obj["metadata"]["uid"])


def version(obj: Wire) -> int:
    return int(obj["metadata"]["resourceVersion"])


def lives(obj: Wire) -> bool:
    status = obj.get("status", {})
    gone = any((one["type"], one["status"]) == ("Populated", "False") for one in status.get("conditions", []))
    return status.get("phase") != "Completed" and not gone


CONDITIONS = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["Populated", "Scheduled"]), "status": st.sampled_from(["True", "False"])}
    ),
    max_size=2,
    unique_by=lambda one: one["type"],
)


@st.composite
def groups(draw: st.DrawFn) -> Wire:
    """Few names and UIDs, so that they meet; small versions, so that some are of the past."""
    namespace = draw(st.sampled_from(["team", "far"]))
    obj = podgroup(
        draw(st.sampled_from(["a", "b", "c"])),
        namespace=namespace,
        queue=draw(st.sampled_from([None, "", *QUEUES])),
        version=draw(st.integers(1, 9)),
        annotations={"sluice.dev/admission": draw(st.sampled_from(["r-1", "r-2"]))},
        status={
            "phase": draw(st.sampled_from(["", *Phase, "Nonsense"])),
            "conditions": draw(CONDITIONS),
        },
    )
    obj["metadata"]["uid"] = f"{namespace}/{obj['metadata']['name']}/{draw(st.sampled_from([1, 2]))}"
    return obj


EVENT = st.tuples(st.sampled_from(["upsert", "upsert", "upsert", "remove"]), groups())
WHOLE = st.tuples(st.just("replace"), st.lists(groups(), max_size=5, unique_by=key_of))
HISTORIES = st.lists(EVENT | EVENT | EVENT | WHOLE, min_size=1, max_size=25)


@MODEST
@given(history=HISTORIES)
def test_after_every_event_all_counts_equal_a_recount(history: list[tuple[str, Any]]) -> None:
    held, oracle = Held(), Oracle()
    for what, obj in history:
        held.tell(what, obj)
        oracle.tell(what, obj)
        found = held.groups
        assert len(found) == len(found.all()) == len(oracle.held)
        for queue in (*QUEUES, "", "absent"):
            of = {
                (one.metadata.namespace, one.metadata.name): one.metadata.version
                for one in found.in_queue(queue)
            }
            assert of == oracle.of(queue)
            assert found.live([queue]) == oracle.live(queue)
            assert found.counts(queue).live_by_namespace == oracle.live_by_namespace(queue)
        assert found.live(QUEUES) == sum(map(oracle.live, QUEUES))
        for key in [("team", "a"), ("far", "a"), ("team", "absent")]:
            expected = oracle.held.get(key)
            assert found.queue_of(*key) == (
                None if expected is None else expected["spec"].get("queue") or "default"
            )
            one = found.get(*key)
            assert (one and one.metadata.uid) == (uid(expected) if expected else None)


@MODEST
@given(history=HISTORIES)
def test_every_change_is_told_with_the_queues_it_concerns(history: list[tuple[str, Any]]) -> None:
    """Whoever listens and looks again at each is never wrong; and pods hear of a group that gives a queue."""
    held, oracle = Held(), Oracle()
    for what, obj in history:
        before = dict(oracle.held)
        held.changed.clear()
        held.came = 0
        held.tell(what, obj)
        oracle.tell(what, obj)
        queues = [
            {key: one["spec"].get("queue") or "default" for key, one in state.items()}
            for state in (before, oracle.held)
        ]
        for key in before.keys() | oracle.held.keys():
            if before.get(key) != oracle.held.get(key):
                concerned = {state[key] for state in queues if key in state}
                assert concerned <= {queue for queue, of in held.changed if of == key}
        new = [key for key in queues[1] if queues[0].get(key) != queues[1][key]]
        assert held.came >= len(new)


def test_a_group_that_changes_nothing_of_its_queue_calls_no_pods() -> None:
    held = Held()
    held.tell("upsert", podgroup("gang", queue="research"))
    assert held.came == 1
    held.tell("upsert", podgroup("gang", queue="research", version=2, status={"phase": "Running"}))
    held.tell("remove", podgroup("gang", queue="research", version=3))
    assert held.came == 1


def test_the_admission_of_a_group_arrives_with_it_and_not_with_its_past() -> None:
    held = Held()
    held.tell("upsert", podgroup("gang", version=2, annotations={"sluice.dev/admission": "r-1"}))
    held.tell("upsert", podgroup("gang", version=1, annotations={"sluice.dev/admission": "r-2"}))
    assert held.arrived == ["r-1"]


@each_case(("word", "phase"), [("", "Pending"), ("Nonsense", "Pending"), *((p, p) for p in Phase)])
def test_a_word_that_is_no_phase_counts_as_pending(word: str, phase: str) -> None:
    assert phase_of(read(podgroup("gang", status={"phase": word}))) == phase
    assert phase_of(read(podgroup("gang"))) == "Pending"


@each_case("phase", ["", *Phase])
@each_case("populated", [None, "True", "False", "Unknown"])
def test_a_group_is_live_unless_it_is_completed_or_all_its_pods_are_gone(
    phase: str, populated: str | None
) -> None:
    """None of its pods yet is not all of them gone."""
    conditions = [] if populated is None else [{"type": "Populated", "status": populated}]
    group = read(podgroup("gang", status={"phase": phase, "conditions": conditions}))
    assert is_live(group) is (phase != "Completed" and populated != "False")


def test_of_a_queue_that_no_group_names_nothing_is_kept() -> None:
    held = Held()
    for number in range(50):
        held.tell("upsert", podgroup("gang", queue=f"q-{number}", version=number + 1))
    assert list(vars(held.groups)["_by_queue"]) == ["q-49"]
    held.tell("remove", podgroup("gang", version=99))
    assert vars(held.groups)["_by_queue"] == {}


def test_what_a_gang_asks_for_is_read_once_for_each_change_of_its_spec() -> None:
    held = Held()
    held.tell("upsert", podgroup("gang", minMember=2, minResources={"cpu": "1500m"}))
    first = held.groups.gang("team", "gang")
    assert first is not None
    assert (first.least, first.resources) == (2, (("cpu", Fraction(3, 2)),))
    held.tell("upsert", podgroup("gang", version=2, minMember=2, minResources={"cpu": "1500m"}, status={}))
    assert held.groups.gang("team", "gang") is first
    held.tell("upsert", podgroup("gang", version=3, minMember=3, minTaskMember={"ps": 3}))
    second = held.groups.gang("team", "gang")
    assert second is not None
    assert (second.least, second.tasks) == (3, (("ps", 3),))


def test_a_podgroup_whose_pods_go_by_themselves_is_no_gang() -> None:
    held = Held()
    for version, least in enumerate([1, 2, 0, -3], start=1):
        held.tell("upsert", podgroup("gang", version=version, minMember=least))
        assert (held.groups.gang("team", "gang") is None) is (least != 2)
    held.tell("upsert", podgroup("gang", version=7, minMember=2))
    held.tell("remove", podgroup("gang", version=8))
    assert held.groups.gang("team", "gang") is None


@each_case("value", [7, "x", [1], {"a": {"b": 1}}, {"a": None}, {"a": [True]}])
def test_no_content_of_these_fields_makes_a_podgroup_unreadable(value: object) -> None:
    held = Held()
    held.tell("upsert", podgroup("gang", minMember=2, minTaskMember=value, minResources=value))
    gang = held.groups.gang("team", "gang")
    assert gang is not None
    assert gang.least == 2
    assert gang.fault == ('minResources "a" is no quantity' if isinstance(value, dict) else "")


def test_what_was_given_out_never_changes() -> None:
    held = Held()
    held.tell("upsert", podgroup("a", queue="research"))
    listed = held.groups.in_queue("research")
    held.tell("upsert", podgroup("b", queue="research"))
    assert len(listed) == 1


def test_a_group_that_comes_after_its_pods_gives_them_its_queue() -> None:
    """The store tells the pod reflector to list again."""
    server, asked = Server(), []
    server.store.add_listener(lambda queue, what: asked.append((queue, what)))
    server.has(pod(annotations={GROUP: "gang"}))
    assert server.store.members.counts("research").live == 0
    server.has(podgroup("gang", queue="research"))
    assert ("", QueueChange.MEMBERS) in asked
    server.store.members.replace([msgspec.convert(pod(annotations={GROUP: "gang"}), type=Pod)])
    assert server.store.members.counts("research").live == 1


def test_every_phase_is_counted_by_the_name_of_its_field() -> None:
    counts = PodGroupCounts(phases={Phase.PENDING: 2, Phase.UNKNOWN: 1})
    fields = {"pending": 2, "inqueue": 0, "running": 0, "unknown": 1, "completed": 0}
    assert counts.by_phase() == fields
    assert set(PodGroupCounts().by_phase().values()) == {0}
