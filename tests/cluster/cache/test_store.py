"""The store: snapshots are published once a change, the past is refused, and who is concerned hears of it."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.cache import queues
from cluster.cache.changes import PodChange, PodGroupChange, QueueChange, StoreChange
from cluster.cache.live_members import LiveMembers
from cluster.cache.namespaces import MAX_EARLY_NAMESPACES, Namespaces
from cluster.cache.podgroups import PodGroupKey
from cluster.cache.queues import QueueCache, queue_from_object
from cluster.cache.store import Store
from cluster.coordination.replica_report import stopped_queues_with_passes
from cluster.informers.event_handlers import NamespaceEventHandler, QueueEventHandler
from cluster.objects import Command, Namespace, Pod, PodGroup, QueueObject
from queues.membership import MembershipSettings
from queues.snapshot import QueueSnapshot
from queues.states import Desired, StopPolicy
from queues.well_known import CONTACT
from tests.support.cases import each_case
from tests.support.http.asking import SetClock
from tests.support.http.wire_objects import (
    GROUP,
    Wire,
    command,
    job,
    member,
    namespace,
    pod,
    podgroup,
    queue,
)
from tests.support.rules.cases import MODEST

from tests.support.http.asking import Server  # isort: skip

SPEC, RESYNC, STATUS = QueueChange.SPEC, QueueChange.RESYNC, QueueChange.STATUS


class Watched(Store):
    """Remembers each snapshot that was published and who was told."""

    def __init__(self) -> None:
        self.snapshots: list[QueueSnapshot] = []
        self.told: list[tuple[str, StoreChange]] = []
        super().__init__(membership_settings=MembershipSettings(), clock=SetClock())
        self.queue_cache = self.make_cache()
        self.add_listener(lambda name, what: self.told.append((name, what)))

    def make_cache(self) -> QueueCache:
        return RecordingCache(self.snapshots)


class RecordingCache(QueueCache):
    """Remembers each snapshot that was published."""

    def __init__(self, snapshots: list[QueueSnapshot]) -> None:
        super().__init__(now=SetClock().now)
        self._snapshots = snapshots

    def publish(self, changed: Collection[str] | None = None) -> None:
        super().publish(changed)
        self._snapshots.append(self.snapshot)


def read_queue(obj: Wire) -> QueueObject:
    return msgspec.json.decode(json.dumps(obj), type=QueueObject)


def read(obj: Wire, kind: type[Any]) -> Any:
    return msgspec.json.decode(json.dumps(obj), type=kind)


@pytest.fixture
def store() -> Watched:
    return Watched()


@pytest.fixture
def sink(store: Watched) -> QueueEventHandler:
    return QueueEventHandler(store)


# Snapshots


def test_a_list_publishes_one_snapshot(store: Watched, sink: QueueEventHandler) -> None:
    sink.replace([read_queue(queue(name)) for name in ("a", "b", "c")])
    assert len(store.snapshots) == 1
    assert set(store.snapshot.tree) == {"root", "a", "b", "c"}


def test_a_list_in_which_queues_are_gone_and_others_moved_publishes_one_snapshot(
    store: Watched, sink: QueueEventHandler
) -> None:
    """A snapshot in between would be of no moment of the cluster: here `c` would be without a parent."""
    sink.replace([read_queue(obj) for obj in (queue("a"), queue("b"), queue("c", parent="a"))])
    store.snapshots.clear()
    sink.replace([read_queue(queue("c", parent="root", version=2, generation=2))])
    assert all(snapshot.decision("c").schedules for snapshot in store.snapshots)
    assert len(store.snapshots) == 1


def test_a_change_of_wishes_publishes_one_snapshot(store: Watched, sink: QueueEventHandler) -> None:
    sink.upsert(read_queue(queue("a")))
    store.snapshots.clear()
    sink.upsert(read_queue(queue("a", version=2, generation=2, state="Suspended")))
    assert len(store.snapshots) == 1
    assert not store.snapshot.decision("a").schedules


@pytest.mark.parametrize(
    "after",
    [
        queue("a"),
        queue("a", version=2, status={"state": "Open", "running": 3}),
        queue("a", version=2, annotations={"x": "y"}),
    ],
    ids=["the same again", "status", "annotations"],
)
def test_anything_else_publishes_none(store: Watched, sink: QueueEventHandler, after: Wire) -> None:
    sink.upsert(read_queue(queue("a")))
    store.snapshots.clear()
    sink.upsert(read_queue(after))
    sink.replace([read_queue(after)])
    assert store.snapshots == []
    assert store.queues["a"] == read_queue(after)


def test_a_pod_is_refused_in_the_words_of_the_status_for_the_same_specs_alone(
    store: Watched, sink: QueueEventHandler
) -> None:
    """Replicas of two versions say the same; what is stored for other specs, or by hand, decides nothing."""
    sink.upsert(read_queue(queue("a", state="Suspended")))
    decision = store.snapshot.decision("a")
    for version, (revision, refusal, said) in enumerate(
        [
            (decision.revision, "as an older version says it", "as an older version says it"),
            (decision.revision, "", decision.text),
            ("another", "of former specs", decision.text),
        ],
        start=2,
    ):
        status = {"stop": {"revision": revision, "refusal": refusal}}
        sink.upsert(read_queue(queue("a", version=version, status=status, state="Suspended")))
        assert store.queue_cache.refusal_text(store.snapshot.decision("a")) == said
        assert not store.snapshot.decision("a").schedules


def test_the_text_names_another_contact_at_once_and_the_words_of_the_status_count_again_once_they_do(
    store: Watched, sink: QueueEventHandler
) -> None:
    """An annotation makes no generation: the revision stays, and so do stops that are acknowledged."""
    before = queue("a", state="Suspended", status={})
    sink.upsert(read_queue(before))
    revision = store.snapshot.decision("a").revision
    told = {"revision": revision, "refusal": "as an older version says it"}
    contact = {CONTACT: "Ann"}
    for version, (written, stop, said) in enumerate(
        [
            ({}, told, "as an older version says it"),
            (contact, told, 'queue "a" is Suspended; Ann can resume it'),
            (contact, {**told, "contact": "Ann"}, "as an older version says it"),
            ({}, {**told, "contact": "Ann"}, 'queue "a" is Suspended; an admin of queues can resume it'),
        ],
        start=2,
    ):
        sink.upsert(
            read_queue(
                queue("a", version=version, state="Suspended", status={"stop": stop}, annotations=written)
            )
        )
        decision = store.snapshot.decision("a")
        assert store.queue_cache.refusal_text(decision) == said
        assert decision.revision == revision


def test_another_contact_concerns_all_queues_below_and_that_of_root_those_that_are_not_there_too(
    store: Watched, sink: QueueEventHandler
) -> None:
    sink.replace(
        [
            read_queue(obj)
            for obj in (queue("root"), queue("a"), queue("b", parent="a"), queue("lost", parent="x"))
        ]
    )
    store.members.upsert(read(member("work", queue="missing"), Pod))
    told: list[tuple[str, StoreChange]] = []
    store.add_listener(lambda name, change: told.append((name, change)))
    sink.upsert(read_queue(queue("a", version=2, annotations={CONTACT: "Ann"})))
    assert set(told) == {("a", QueueChange.SPEC), ("b", QueueChange.SPEC)}
    told.clear()
    sink.upsert(read_queue(queue("root", version=3, annotations={CONTACT: "Bob"})))
    assert {name for name, change in told if change is QueueChange.SPEC} == {
        "root",
        "a",
        "b",
        "lost",
        "missing",
    }
    told.clear()
    sink.upsert(read_queue(queue("a", version=4, annotations={CONTACT: "Ann", "other": "x"})))
    assert set(told) == {("a", QueueChange.STATUS)}


def test_a_queue_that_is_gone_publishes_one(store: Watched, sink: QueueEventHandler) -> None:
    sink.upsert(read_queue(queue("a")))
    store.snapshots.clear()
    sink.remove(read_queue(queue("a", version=2)))
    sink.remove(read_queue(queue("a", version=2)))
    assert len(store.snapshots) == 1
    assert "a" not in store.snapshot.tree


def test_whoever_finds_a_generation_finds_a_snapshot_that_has_it(
    store: Watched, sink: QueueEventHandler
) -> None:
    def heard(name: str, _: StoreChange) -> None:
        held = store.queues.get(name)
        if held is not None:
            value = store.snapshot.tree.get(name)
            assert value is not None
            assert value.generation >= held.metadata.generation
            assert store.snapshot.resource_version >= held.metadata.version or not held.metadata.generation

    store.add_listener(heard)
    for number in range(1, 6):
        state = "Open" if number % 2 else "Suspended"
        sink.upsert(read_queue(queue("a", version=number, generation=number, state=state)))
    assert store.snapshot_version == 5


def test_what_was_seen_is_never_ahead_of_the_snapshot(store: Watched, sink: QueueEventHandler) -> None:
    class Ahead(RecordingCache):
        def publish(self, changed: Collection[str] | None = None) -> None:
            assert self.version < self._next_version, "said to be seen before it was published"
            super().publish(changed)

    class AheadStore(Watched):
        def make_cache(self) -> QueueCache:
            return Ahead(self.snapshots)

    ahead = AheadStore()
    QueueEventHandler(ahead).upsert(read_queue(queue("a", version=7)))
    assert (ahead.snapshot_version, ahead.snapshot.resource_version) == (7, 7)
    QueueEventHandler(ahead).remove(read_queue(queue("a", version=9)))
    assert (ahead.snapshot_version, ahead.snapshot.resource_version) == (9, 9)


def test_a_request_sees_one_moment(store: Watched, sink: QueueEventHandler) -> None:
    sink.upsert(read_queue(queue("a")))
    before = store.snapshot
    sink.upsert(read_queue(queue("a", version=2, generation=2, state="Suspended")))
    assert before.decision("a").schedules
    assert not store.snapshot.decision("a").schedules


# The past


def test_the_past_of_a_queue_is_refused(store: Watched, sink: QueueEventHandler) -> None:
    sink.upsert(read_queue(queue("a", version=5, generation=5, state="Suspended")))
    store.told.clear()
    sink.upsert(read_queue(queue("a", version=4, generation=4)))
    sink.remove(read_queue(queue("a", version=4)))
    sink.replace([read_queue(queue("a", version=3))])
    assert not store.snapshot.decision("a").schedules
    assert store.queues["a"].metadata.version == 5
    assert store.snapshot_version == 5


def test_a_queue_made_again_is_another_whatever_its_version(store: Watched, sink: QueueEventHandler) -> None:
    sink.upsert(read_queue(queue("a", version=5, state="Suspended")))
    again = queue("a", version=4)
    again["metadata"]["uid"] = "another"
    sink.upsert(read_queue(again))
    assert store.snapshot.decision("a").schedules


@pytest.mark.parametrize("way", ["upsert", "remove"])
@pytest.mark.parametrize(
    ("kind", "sink_of", "old", "new"),
    [
        (
            PodGroup,
            lambda store: store.podgroups,
            podgroup("g", queue="b", version=4),
            podgroup("g", queue="a", version=5),
        ),
        (
            Namespace,
            NamespaceEventHandler,
            namespace("n", queue="b", version=4),
            namespace("n", queue="a", version=5),
        ),
        (Command, lambda store: store.commands, command(version=4, action="OpenQueue"), command(version=5)),
    ],
    ids=["podgroups", "namespaces", "commands"],
)
def test_the_past_of_any_kind_is_refused(
    store: Watched, way: str, kind: type[Any], sink_of: Any, old: Wire, new: Wire
) -> None:
    of = sink_of(store)
    of.upsert(read(new, kind))
    getattr(of, way)(read(old, kind))
    held = [*store.podgroups.all(), *store.namespaces.objects.values(), *store.commands.all()]
    assert held == [read(new, kind)]


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["upsert", "upsert", "remove"]),
        st.sampled_from(["a", "b", "c"]),
        st.integers(1, 8),
        st.sampled_from(["root", "a", "b"]),
        st.sampled_from(["Open", "Suspended", "Closed"]),
    ),
    max_size=20,
)


@MODEST
@given(events=EVENTS)
def test_the_snapshot_always_is_that_of_the_queues_held(events: list[tuple[str, str, int, str, str]]) -> None:
    store = Watched()
    sink = QueueEventHandler(store)
    for what, name, version, parent, state in events:
        snapshots, held = len(store.snapshots), dict(store.queues)
        obj = read_queue(queue(name, version=version, generation=version, parent=parent, state=state))
        getattr(sink, what)(obj)
        assert len(store.snapshots) - snapshots <= 1
        known = {one: store.snapshot.tree.queues[one] for one in store.queues}
        assert {one: msgspec.structs.replace(each, placed=None) for one, each in known.items()} == {
            one: queue_from_object(each) for one, each in store.queues.items()
        }
        assert set(store.snapshot.tree) == {"root", *store.queues}
        assert store.snapshot.resource_version <= store.snapshot_version
        if store.queues == held:
            assert len(store.snapshots) == snapshots


# Who hears


def test_a_change_of_wishes_is_told_to_all_below(store: Watched, sink: QueueEventHandler) -> None:
    sink.replace([read_queue(obj) for obj in (queue("a"), queue("b", parent="a"), queue("c"))])
    store.told.clear()
    sink.upsert(read_queue(queue("a", version=2, generation=2, stopPolicy="Hold")))
    assert sorted(store.told) == [("a", SPEC), ("b", SPEC)]


def test_a_change_of_status_is_told_to_that_queue_alone(store: Watched, sink: QueueEventHandler) -> None:
    sink.replace([read_queue(obj) for obj in (queue("a"), queue("b", parent="a"))])
    store.told.clear()
    sink.upsert(read_queue(queue("a", version=2, status={"state": "Open"})))
    assert store.told == [("a", STATUS)]


def test_a_queue_that_is_gone_is_told_to_all_that_were_below(store: Watched, sink: QueueEventHandler) -> None:
    sink.replace([read_queue(obj) for obj in (queue("a"), queue("b", parent="a"))])
    store.told.clear()
    sink.remove(read_queue(queue("a", version=2)))
    assert sorted(store.told) == [("a", SPEC), ("b", SPEC)]


def test_a_queue_that_a_list_does_not_have_any_more_is_told_too(
    store: Watched, sink: QueueEventHandler
) -> None:
    sink.replace([read_queue(obj) for obj in (queue("a"), queue("b"))])
    store.told.clear()
    sink.replace([read_queue(queue("b"))])
    assert ("a", SPEC) in store.told


def test_a_member_is_told_to_its_queue_and_to_the_one_it_leaves() -> None:
    server, told = Server(), []
    server.store.add_listener(lambda name, what: told.append((name, what)))
    server.has(member(queue="a"), member(queue="b", version=2))
    work = PodChange("uid-work")
    assert told == [("a", work), ("a", work), ("b", work)]


def test_a_command_is_told_to_its_queue() -> None:
    server, told = Server(), []
    server.store.add_listener(lambda name, what: told.append((name, what)))
    server.has(command(target="a"), {**command("other"), "target": {"kind": "Job", "name": "b"}})
    assert told == [("a", QueueChange.COMMANDS)]


def test_a_podgroup_that_comes_or_moves_is_told_to_the_pods_without_a_queue() -> None:
    server, told = Server(), []
    server.store.add_listener(lambda name, what: told.append((name, what)))
    server.has(podgroup("g"), podgroup("g", queue="a", version=2), podgroup("g", queue="a", version=3))
    assert [each for each in told if not each[0]] == [("", QueueChange.MEMBERS)] * 2


def test_a_podgroup_that_changes_is_told_to_its_queue() -> None:
    server, told = Server(), []
    server.store.add_listener(lambda name, what: told.append((name, what)))
    server.has(podgroup("g", queue="a"), podgroup("g", queue="a", version=2))
    assert [each for each in told if each[0]] == [("a", PodGroupChange(PodGroupKey("team", "g")))] * 3


# Membership that depends on other kinds


def test_a_namespace_whose_annotation_changes_has_the_pods_listed_again() -> None:
    server = Server().has(namespace("team"))
    asked = server.count_relists()
    server.has(namespace("team", version=2))
    assert asked == []
    server.has(namespace("team", version=3, queue="a"))
    assert asked == [1]


def test_a_namespace_heard_of_after_its_pods_has_them_listed_again() -> None:
    """Two watches: the pod of a namespace just made may come before the namespace does."""
    server = Server()
    asked = server.count_relists()
    server.has(pod())
    assert len(server.store.members) == 0
    server.has(namespace("team", queue="a"))
    assert asked == [1]


def test_the_first_list_of_namespaces_asks_for_nothing() -> None:
    """It is read before the pods are."""
    server = Server().lacks(namespace("team"))
    asked = server.count_relists()
    NamespaceEventHandler(server.store).replace([read(namespace("team", queue="a"), Namespace)])
    assert asked == []
    NamespaceEventHandler(server.store).replace([read(namespace("team", queue="b", version=2), Namespace)])
    assert asked == [1]


def test_the_first_list_of_namespaces_has_pods_that_were_read_before_it_listed_again() -> None:
    """The namespaces could not be read for longer than the pods had the patience to wait."""
    server = Server().lacks(namespace("team"))
    asked = server.count_relists()
    server.has(pod())
    NamespaceEventHandler(server.store).replace([read(namespace("team", queue="a"), Namespace)])
    assert asked == [1]
    NamespaceEventHandler(server.store).replace([read(namespace("team", queue="a"), Namespace)])
    assert asked == [1]


def test_workloads_that_were_read_before_their_namespace_are_listed_again() -> None:
    server = Server().lacks(namespace("team"))
    asked = server.count_relists()
    server.has(job("j"))
    server.has(namespace("team", queue="a"))
    assert asked == [1]


@pytest.mark.parametrize(
    ("held", "annotations"), [("a", None), ("", {"sluice.dev/queue": "b"}), ("a", {"sluice.dev/queue": "b"})]
)
def test_a_new_namespace_that_changes_nothing_has_nothing_listed(
    held: str, annotations: dict[str, str] | None
) -> None:
    """Nothing was judged before it, or by what was written into it, or it names no queue."""
    server = Server().lacks(namespace("team"))
    asked = server.count_relists()
    if annotations is not None:
        server.has(pod(annotations=annotations))
    server.has(namespace("team", queue=held))
    assert asked == []


def test_a_namespace_that_names_no_queue_has_nothing_listed_though_pods_came_before_it() -> None:
    server = Server().lacks(namespace("team"))
    asked = server.count_relists()
    server.has(pod(), namespace("team"))
    assert asked == []
    server.has(namespace("team", version=2, queue="a"))
    assert asked == [1]


def test_a_list_of_namespaces_with_a_new_one_has_nothing_listed() -> None:
    server = Server()
    asked = server.count_relists()
    both = [read(namespace(name, queue=queue), Namespace) for name, queue in (("team", ""), ("new", "a"))]
    NamespaceEventHandler(server.store).replace(both)
    assert asked == []


def test_names_of_namespaces_that_never_come_are_not_kept_for_ever() -> None:
    server = Server()
    asked = server.count_relists()
    for number in range(MAX_EARLY_NAMESPACES + 1):
        server.has(pod(namespace=f"never-{number}", uid=f"u{number}"))
    assert asked == [1]
    assert not server.store.namespaces.take_early("never-0")
    assert server.store.namespaces.take_early(f"never-{MAX_EARLY_NAMESPACES}")


def test_a_pod_is_found_by_name_where_it_is_held_and_else_where_it_was_let_through() -> None:
    server = Server()
    store = server.store
    assert store.settling_binds.queue_of("team", "work") is None
    store.bind_passes.record_filter_pass(namespace="team", name="work", queue="a")
    assert store.settling_binds.queue_of("team", "work") == "a"
    server.has(member(queue="b"))
    assert store.settling_binds.queue_of("team", "work") == "b"


def test_the_stopped_queues_that_have_passes_open_are_named() -> None:
    server = Server().has(queue("a"), queue("b", parent="a"), queue("c"))
    for name in ("b", "c"):
        server.store.bind_passes.record_filter_pass(namespace="team", name=name, queue=name)
    assert stopped_queues_with_passes(server.store) == ()
    server.has(queue("a", version=2, generation=2, stopPolicy="Hold"))
    assert stopped_queues_with_passes(server.store) == ("b",)


def test_each_member_that_could_be_bound_and_is_asked_about_is_assumed_to_have_been_let_through() -> None:
    marked = {"requests": {"sluice.dev/member": "1"}}
    server = Server().has(
        queue("a"),
        member("waiting", queue="a", resources=marked),
        member("unmarked", queue="a"),
        member("gated", queue="a", resources=marked, gates=["sluice.dev/queue"]),
        member("bound", queue="a", resources=marked, nodeName="node-1"),
        member("done", queue="a", resources=marked, status={"phase": "Failed"}),
    )
    server.store.settling_binds.assume(binds=False)
    assert [(one.name, one.queue, one.bind) for one in server.store.bind_passes.open_passes()] == [
        ("waiting", "a", False)
    ]


def test_a_bind_is_assumed_of_each_member_that_could_be_bound_and_that_no_scheduler_calls_filter_for() -> (
    None
):
    server = Server().has(
        queue("a"),
        queue("b"),
        member("marked", queue="a", resources={"requests": {"sluice.dev/member": "1"}}),
        member("unmarked", queue="a"),
        member("sure", queue="b"),
        member("gated", queue="a", gates=["sluice.dev/queue"]),
        member("bound", queue="a", nodeName="node-1"),
        member("done", queue="a", status={"phase": "Failed"}),
    )
    server.store.settling_binds.assume(lambda name: name == "b")
    assert sorted((one.name, one.queue, one.bind) for one in server.store.bind_passes.open_passes()) == [
        ("marked", "a", False),
        ("unmarked", "a", True),
    ]


@pytest.mark.parametrize(
    ("its_pod", "assumed", "expected"),
    [
        (member("work", queue="a"), False, True),
        (member("work", queue="a"), True, False),
        (member("work", queue="a", resources={"requests": {"sluice.dev/member": "1"}}), False, False),
        (member("other", queue="a"), False, True),
    ],
    ids=["unmarked", "assumed", "marked", "unknown"],
)
def test_an_open_bind_of_a_pod_that_no_scheduler_calls_filter_for_is_known_here_alone(
    its_pod: Wire, assumed: bool, expected: bool
) -> None:
    """Of the others each replica assumes a pass, once this one is gone."""
    server = Server().has(queue("a"), its_pod)
    passes = server.store.bind_passes
    if assumed:
        passes.assume_bind(namespace="team", name="work", queue="a")
    else:
        passes.record_filter_pass(namespace="team", name="work", queue="a")
        passes.record_bind_pass(request="r", namespace="team", name="work", queue="a", by_scheduler=True)
    assert server.store.settling_binds.has_unfiltered() is expected


def test_a_pod_that_waits_for_its_group_is_a_member_of_none_until_it_comes() -> None:
    server = Server().has(pod(annotations={GROUP: "g"}))
    assert [one.name for one in server.store.members.in_queue("")] == ["work"]


# A stored queue as the rules see it


@each_case(
    ("spec", "expected"),
    [
        ({}, {"desired": Desired.OPEN, "stop_policy": StopPolicy.NONE}),
        ({"state": "Suspended"}, {"desired": Desired.SUSPENDED}),
        (
            {"state": "Closed", "stopPolicy": "Hold"},
            {"desired": Desired.CLOSED, "stop_policy": StopPolicy.HOLD},
        ),
        ({"state": "Nonsense"}, {"desired": Desired.SUSPENDED}),
        ({"stopPolicy": "Nonsense"}, {"stop_policy": StopPolicy.HOLD}),
        ({"state": None, "stopPolicy": None, "reason": None}, {"desired": Desired.OPEN, "reason": ""}),
        ({"parent": ""}, {"parent": "root"}),
        ({"parent": None}, {"parent": "root"}),
    ],
    ids=str,
)
def test_an_unknown_word_stops_and_nothing_said_is_the_default(spec: Wire, expected: dict[str, Any]) -> None:
    value = queue_from_object(read_queue(queue("a", **spec)))
    assert {key: getattr(value, key) for key in expected} == expected


def test_root_has_no_parent_whatever_is_written() -> None:
    assert queue_from_object(read_queue(queue("root", parent="a"))).parent is None


def test_a_resume_time_without_a_zone_stops_no_reflector(store: Watched, sink: QueueEventHandler) -> None:
    """The CRD's date-time lets none in; if one is there all the same, the other queues go on."""
    sink.replace(
        [read_queue(queue("a", state="Suspended", resumeAt="2030-01-01T00:00:00")), read_queue(queue("b"))]
    )
    assert "b" in store.snapshot.tree


# Namespaces that a queue does not select


TEAM = {"matchLabels": {"team": "a"}}


@pytest.fixture
def selective() -> Server:
    """A queue for namespaces of a team, one below it, and one for everybody; `team` has no label."""
    return Server().has(
        queue("vision", namespaceSelector=TEAM),
        queue("lab", parent="vision"),
        queue("free"),
        namespace("far"),
    )


def heard(server: Server) -> list[tuple[str, StoreChange]]:
    """What is told from here on."""
    told: list[tuple[str, StoreChange]] = []
    server.store.add_listener(lambda name, what: told.append((name, what)))
    return told


def test_a_change_of_labels_is_told_of_the_queues_that_it_concerns_and_no_other(selective: Server) -> None:
    """Those where something of the namespace is live, and that select it now, or did; with all that waits."""
    selective.has(
        member(queue="lab"), member("free", queue="free"), member("other", queue="vision", namespace="far")
    )
    told = heard(selective)
    selective.has(namespace("team", labels={"team": "a"}, version=2))
    assert {one for one in told if one[0]} == {("lab", RESYNC)}
    told.clear()
    selective.has(namespace("team", labels={"team": "a", "x": "y"}, version=3))
    assert [one for one in told if one[0]] == []
    selective.has(namespace("team", version=4))
    assert {one for one in told if one[0]} == {("lab", RESYNC)}


@pytest.mark.parametrize("kind", ["pod", "job", "podgroup"])
def test_whatever_is_live_there_makes_a_change_of_labels_matter(selective: Server, kind: str) -> None:
    made = {"pod": member(queue="vision"), "job": _job("vision"), "podgroup": podgroup("g", queue="vision")}
    selective.has(made[kind])
    told = heard(selective)
    selective.has(namespace("team", labels={"team": "a"}, version=2))
    assert ("vision", RESYNC) in told


def _job(name: str) -> Wire:
    return job("train", queue=name)


def test_a_namespace_that_is_heard_of_late_is_told_of(selective: Server) -> None:
    """Its pods were admitted through another replica, which knew it."""
    selective.has(member(queue="vision", namespace="new"))
    assert not selective.store.decisions.selects("vision", "new")
    told = heard(selective)
    selective.has(namespace("new", labels={"team": "a"}))
    assert ("vision", RESYNC) in told
    assert selective.store.decisions.selects("vision", "new")


def test_a_list_of_namespaces_tells_of_those_that_differ(selective: Server) -> None:
    selective.has(member(queue="vision"))
    sink, told = NamespaceEventHandler(selective.store), heard(selective)
    sink.replace([read(namespace("team", labels={"team": "a"}, version=2), Namespace)])
    assert ("vision", RESYNC) in told
    told.clear()
    sink.replace([read(namespace("team", labels={"team": "a"}, version=2), Namespace)])
    assert [one for one in told if one[0]] == []


def test_the_labels_that_the_server_writes_are_none_that_matter(
    selective: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each stop gives many namespaces the guard's label and takes it away: no queue is looked at."""
    selective.has(member(queue="vision"))
    monkeypatch.setattr(LiveMembers, "are_in", None)
    told = heard(selective)
    selective.has(
        namespace("team", labels={"sluice.dev/guard": "on"}, version=2), namespace("team", version=3)
    )
    assert [one for one in told if one[0]] == []


def test_a_change_of_the_selector_is_told_of_all_below(selective: Server) -> None:
    told = heard(selective)
    selective.has(queue("vision", version=2, generation=2))
    assert {("vision", SPEC), ("lab", SPEC)} <= set(told)


def test_what_is_decided_for_a_namespace_is_worked_out_once(selective: Server) -> None:
    """Until the queue's chain changes, or the namespace's labels do."""
    store = selective.store
    first = store.decisions.of_queue("lab", namespace="team")
    assert store.decisions.of_queue("lab", namespace="team") is first
    selective.has(queue("free", version=2, generation=2, weight=2))
    assert store.decisions.of_queue("lab", namespace="team") is first
    selective.has(namespace("team", labels={"x": "y"}, version=2))
    assert store.decisions.of_queue("lab", namespace="team") is not first
    selective.has(namespace("team", labels={"team": "a"}, version=3))
    assert store.decisions.of_queue("lab", namespace="team").selected
    selective.has(queue("vision", version=2, generation=2, namespaceSelector={"matchLabels": {"team": "b"}}))
    assert not store.decisions.of_queue("lab", namespace="team").selected


def test_where_no_selector_is_set_nobody_is_asked_for_labels(
    selective: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request costs what it did before there were selectors: the queue's own decision and a comparison."""
    monkeypatch.setattr(Namespaces, "labels_of", None)
    store = selective.store
    assert store.decisions.of_queue("free", namespace="team") is store.snapshot.decision("free")
    assert store.decisions.of_queue("absent", namespace="team").selected
    assert store.live_members.of("free") == 0


def test_the_pods_that_are_not_selected_are_counted(selective: Server) -> None:
    """Live ones alone, of the queue's own."""
    selective.has(
        member("a", queue="vision"),
        member("b", queue="vision", status={"phase": "Succeeded"}),
        member("c", queue="lab"),
        member("d", queue="free"),
    )
    live = selective.store.live_members
    assert [live.pods_not_selected_of(name) for name in ("vision", "lab", "free", "root")] == [1, 1, 0, 0]
    assert [live.pods_of(name) for name in ("vision", "lab", "free")] == [0, 0, 1]


def test_what_is_remembered_of_namespaces_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many come and go."""
    monkeypatch.setattr(queues, "MAX_DECISIONS", 3)
    server = Server().has(queue("vision", namespaceSelector=TEAM))
    for number in range(10):
        server.store.decisions.of_queue("vision", namespace=f"n{number}")
    assert len(server.store.decisions._by_namespace._remembered) <= 3
