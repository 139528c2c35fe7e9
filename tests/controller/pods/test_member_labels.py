"""Members without their label: how they are found and written, and what waits for it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cluster.api.client import Client
from cluster.exceptions import ClusterError, Conflict, NotFound, Refused, Unreachable
from cluster.write_ranks import WriteRank
from controller.pods import member_labels
from controller.pods.label_writes import MAX_WRITES
from controller.pods.member_labels import (
    BYPASS_SECONDS,
    DEPARTURE_SECONDS,
    NAMESPACE_SECONDS,
    STOPPED_SECONDS,
    MemberLabels,
)
from controller.pods.unlabelled_lists import FULL_SECONDS, FULL_WAIT_SECONDS
from controller.pods.unlabelled_members import UnlabelledMembers
from queues.membership import label_value
from queues.status.acknowledgement import unlabelled_texts
from queues.well_known import QUEUE
from tests.support.controller.contexts import context_with
from tests.support.http.asking import Server
from tests.support.http.wire_objects import GROUP, NAMED, Wire, namespace, pod, podgroup, queue

PODS = "/api/v1/pods"
RESEARCH = frozenset({"research"})


class Api:
    """Answers lists of pods without the label, and writes of labels."""

    def __init__(self) -> None:
        self.version = 100
        self.waiting: list[Wire] = []
        self.others: list[Wire] = []
        self.queries: list[tuple[str, Mapping[str, Any]]] = []
        self.patches: list[tuple[str, Wire]] = []
        self.fails: Callable[[str], ClusterError | None] = lambda _path: None

    def request(self, method: str, path: str, *, query: Mapping[str, Any], **_: object) -> bytes:
        assert (method, query["labelSelector"]) == ("GET", f"!{QUEUE}")
        self.queries.append((path, query))
        if (error := self.fails(path)) is not None:
            raise error
        fields = query["fieldSelector"]
        pods = self.waiting if "spec.nodeName=," in fields else [*self.waiting, *self.others]
        by_scheduler = "spec.schedulerName=volcano" in fields
        items = [obj for obj in pods if not by_scheduler or obj["spec"].get("schedulerName") == "volcano"]
        if path != PODS:
            items = [obj for obj in items if f"/{obj['metadata']['namespace']}/" in path]
        listed = [{"metadata": obj["metadata"]} for obj in items]
        return json.dumps({"metadata": {"resourceVersion": str(self.version)}, "items": listed}).encode()

    def get(self, path: str) -> bytes:
        raise NotFound(404, "NotFound", path)

    def patch(self, path: str, body: Wire) -> bytes:
        if (error := self.fails(path)) is not None:
            raise error
        self.patches.append((path, body["metadata"]))
        self.version += 1
        answer = {"metadata": {"uid": body["metadata"]["uid"], "resourceVersion": str(self.version)}}
        return json.dumps(answer).encode()


class Writes:
    """Sends each write when the test lets it; one that fails is given up."""

    def __init__(self) -> None:
        self.held: list[tuple[Callable[[], object], Callable[[bool], object]]] = []
        self.submitted: list[tuple[str, tuple[int, ...]]] = []

    def submit(
        self,
        key: tuple[str, str],
        write: Callable[[], object],
        *,
        done: Callable[[bool], object],
        rank: WriteRank,
        order: tuple[int, ...] = (),
        **_: object,
    ) -> bool:
        self.held.append((write, done))
        self.submitted.append((key[1], (rank, *order)))
        return True

    def send(self) -> None:
        held, self.held = self.held, []
        for write, done in held:
            try:
                write()
            except ClusterError:
                done(False)
            else:
                done(True)

    def wait(self, _key: object) -> float:
        return 0.0


class Leader:
    """The leader's member labels, a cache whose watch has every version, and an API server."""

    def __init__(self) -> None:
        self.server = Server().has(queue("root"), queue("research"), queue("other"), queue("default"))
        self.store = self.server.store
        self.api, self.lists, self.writes = Api(), Writes(), Writes()
        self.watched = SimpleNamespace(applied=100)
        self.store.watch_progress.attach("pods", cast(Any, self.watched))
        self.watched_namespaces = SimpleNamespace(applied=1000)
        self.store.watch_progress.attach("namespaces", cast(Any, self.watched_namespaces))
        self.events: list[str] = []
        self.context = context_with(
            store=self.store,
            client=cast(Client, self.api),
            list_client=cast(Client, self.api),
            writers=self.writes,
            pod_listers=self.lists,
            leading=lambda: True,
            term=lambda: 1,
            recorder=SimpleNamespace(
                record=lambda _subject, *, reason, message, **_: self.events.append(f"{reason}: {message}")
            ),
        )
        self.changes = 0
        self.member_labels = MemberLabels(self.context, changed=self._count_change)

    def _count_change(self) -> None:
        self.changes += 1

    def wait(self, seconds: float) -> Leader:
        self.server.clock.seconds += seconds
        return self

    def sync(self, rounds: int = 8) -> Leader:
        for _ in range(rounds):
            self.member_labels.step()
            self.deliver()
        return self

    def settle(self) -> Leader:
        """Both lists have been read."""
        self.sync(20)
        self.member_labels.look_for(RESEARCH, since=100)
        return self.sync(1)

    def deliver(self) -> None:
        self.lists.send()
        self.writes.send()
        self.context.work_queue.get([0.0], at_once=True)

    def obstacle(self, since: int = 100) -> str | None:
        self.member_labels.settle(RESEARCH)
        return self.waits_for(since=since)

    def waits_for(
        self, queues: frozenset[str] = RESEARCH, *, since: int = 100, until: float = math.inf
    ) -> str | None:
        """The same without the labels that the watch shows by now."""
        unlabelled = self.member_labels.look_for(queues, since=since, departures_until=until)
        return next(unlabelled_texts(unlabelled, departures_until=until), None)

    def labels(self) -> dict[str, str]:
        """The labels that were written, by pod."""
        return {path.rpartition("/")[2]: meta["labels"][QUEUE] for path, meta in self.api.patches}

    def watch_shows_written(self) -> None:
        """The watch brings each pod that was written, with its label."""
        for path, meta in self.api.patches:
            name = path.rpartition("/")[2]
            self.server.has(
                unbound(name, labels=meta["labels"], annotations=meta.get("annotations"), version=900)
            )
        self.watched.applied = self.api.version


def unbound(name: str = "work", *, version: int = 1, **more: Any) -> Wire:
    more.setdefault("annotations", {NAMED: "research"})
    return pod(name, version=version, **more)


def labelled(name: str = "work", queue: str = "research", **more: Any) -> Wire:
    return unbound(name, labels={QUEUE: queue}, annotations={QUEUE: queue, NAMED: queue}, **more)


@pytest.fixture
def leader() -> Leader:
    return Leader()


# What a stop waits for


def test_a_stop_waits_for_a_list_as_new_as_it_needs(leader: Leader) -> None:
    leader.sync()
    leader.api.queries.clear()
    assert leader.obstacle(since=101) == "pods without a label are looked for"
    leader.deliver()
    assert "looked for" in (leader.obstacle(since=101) or ""), "the answer is older than what was asked for"
    leader.api.version = 101
    leader.wait(1.0).sync()
    assert leader.obstacle(since=101) is None
    queries = [query for _, query in leader.api.queries if "resourceVersion" in query]
    assert {query["resourceVersion"] for query in queries} == {101}
    assert {query["resourceVersionMatch"] for query in queries} == {"NotOlderThan"}
    assert all(query["fieldSelector"].startswith("spec.nodeName=,") for query in queries)


NAMESPACES_LATE = "what namespaces name is known as of before the stop"


def test_a_stop_waits_for_what_namespaces_named_then(leader: Leader) -> None:
    """A pod without the label may be a member by its namespace, and nobody has heard of that yet."""
    leader.api.waiting = [unbound(annotations={})]
    leader.settle()
    leader.watched_namespaces.applied = 99
    assert leader.obstacle() == NAMESPACES_LATE
    leader.server.has(namespace("team", version=50))
    leader.server.has(namespace("team", queue="research", version=100))
    leader.watched_namespaces.applied = 100
    assert leader.obstacle() == "pods without a label are looked for", "a list that is judged by it"
    leader.deliver()
    assert "pod team/work had no label" in (leader.obstacle() or "")


def test_a_namespace_that_names_a_queue_after_the_stop_is_not_waited_for(leader: Leader) -> None:
    leader.api.waiting = [unbound(annotations={})]
    leader.settle()
    leader.watched_namespaces.applied = 100
    assert leader.obstacle(since=100) is None


def test_without_pods_that_lack_the_label_no_stop_waits_for_namespaces(leader: Leader) -> None:
    leader.settle()
    leader.watched_namespaces.applied = 99
    assert leader.obstacle() is None
    leader.api.waiting, leader.api.version = [unbound(annotations={})], 101
    leader.obstacle(since=101)
    leader.deliver()
    assert leader.obstacle(since=101) == NAMESPACES_LATE


def test_namespaces_that_come_while_they_are_demanded_are_taken_in_another_sync(leader: Leader) -> None:
    """Their changes were taken before, so that they may be missing; and no listener is called any more."""
    leader.api.waiting = [unbound(annotations={})]
    leader.settle()
    versions, before = iter([99, 100, 100]), leader.changes

    class Watch:
        @property
        def applied(self) -> int:
            return next(versions)

    leader.store.watch_progress.attach("namespaces", cast(Any, Watch()))
    assert leader.obstacle() == NAMESPACES_LATE
    assert leader.changes == before + 1


def test_a_stop_says_why_the_pods_cannot_be_listed(leader: Leader) -> None:
    leader.api.fails = lambda _path: Refused(403, "Forbidden", "pods is forbidden")
    leader.obstacle()
    leader.deliver()
    assert "pods is forbidden" in (leader.obstacle() or "")


def test_a_list_without_an_answer_is_requested_once_more(leader: Leader) -> None:
    leader.obstacle()
    assert len(leader.lists.held) == 1
    leader.obstacle()
    assert len(leader.lists.held) == 1
    leader.wait(1.0).obstacle()
    assert len(leader.lists.held) == 2
    leader.wait(10.0).obstacle()
    assert len(leader.lists.held) == 2, "no more than two at a time"


def test_a_stop_waits_until_a_member_that_could_be_bound_has_its_label_everywhere(leader: Leader) -> None:
    leader.api.waiting = [unbound()]
    leader.obstacle()
    leader.deliver()
    assert (
        leader.obstacle() == "pod team/work had no label, and what was let through before that is waited for"
    )
    leader.sync(1)
    assert leader.labels() == {"work": "research"}
    assert leader.member_labels.version_since(RESEARCH, 100) == 101, "all watches must have the label"
    assert leader.member_labels.version_since(frozenset({"other"}), 100) == 100
    assert leader.obstacle() is not None, "our own watch does not have it"
    leader.api.waiting = []
    leader.watch_shows_written()
    assert leader.obstacle() is not None, "no filter is called for it: a bind may be under way"
    assert leader.waits_for(frozenset({"other"})) is None
    leader.wait(BYPASS_SECONDS)
    assert leader.obstacle() is None


def test_a_pass_is_assumed_for_a_pod_that_filter_was_called_for(leader: Leader) -> None:
    leader.api.waiting = [unbound()]
    leader.obstacle()
    leader.deliver()
    leader.sync(1)
    marked = {"requests": {"sluice.dev/member": "1"}}
    leader.server.has(labelled(resources=marked, version=900))
    leader.watched.applied = leader.api.version
    assert leader.obstacle() is None
    (assumed,) = leader.store.bind_passes.open_passes()
    assert (assumed.name, assumed.queue, assumed.assumed) == ("work", "research", True)


def test_no_pass_is_assumed_after_the_passes_were_gathered(leader: Leader) -> None:
    leader.api.waiting = [unbound()]
    leader.obstacle()
    leader.deliver()
    leader.sync(1)
    leader.server.has(labelled(resources={"requests": {"sluice.dev/member": "1"}}, version=900))
    leader.watched.applied = leader.api.version
    assert leader.waits_for() is not None
    assert not list(leader.store.bind_passes.open_passes())
    assert leader.member_labels.passes_assumed == 0
    leader.member_labels.settle(RESEARCH)
    assert leader.member_labels.passes_assumed == 1


def test_a_pod_that_cannot_be_labelled_holds_up_its_own_queue_alone_until_it_is_gone(leader: Leader) -> None:
    leader.api.waiting = [unbound()]
    leader.api.fails = lambda path: Refused(422, "Invalid", "frozen by a policy") if path != PODS else None
    leader.settle()
    assert leader.obstacle() == "pod team/work cannot be given its label: 422 Invalid: frozen by a policy"
    assert leader.waits_for(frozenset({"other"})) is None
    leader.api.waiting = []
    leader.api.version = 300
    leader.obstacle(since=300)
    leader.deliver()
    assert leader.obstacle(since=300) is None, "it is gone, or on a node"


@pytest.mark.parametrize("error", [NotFound(404, "NotFound", "gone"), Conflict(409, "Conflict", "other UID")])
def test_a_pod_that_is_gone_is_waited_for_no_more(leader: Leader, error: ClusterError) -> None:
    leader.api.waiting = [unbound()]
    leader.obstacle()
    leader.deliver()
    leader.api.fails = lambda path: error if path != PODS else None
    leader.api.waiting = []
    leader.sync()
    assert leader.obstacle() is None
    assert leader.member_labels.look_for_all(RESEARCH) == ""


def test_what_is_not_a_member_is_left_alone(leader: Leader) -> None:
    leader.api.waiting = [
        unbound("stray", annotations={}),
        unbound("dns", namespace="kube-system"),
        unbound("mirror", annotations={NAMED: "research", "kubernetes.io/config.mirror": "x"}),
    ]
    leader.settle()
    assert leader.labels() == {}
    assert leader.obstacle() is None


def test_a_pod_that_waits_for_its_podgroup_gets_an_empty_label(leader: Leader) -> None:
    leader.api.waiting = [unbound(annotations={GROUP: "gang"})]
    leader.sync()
    assert leader.api.patches[0][1]["labels"] == {QUEUE: ""}
    assert "annotations" not in leader.api.patches[0][1]


def test_the_label_of_a_long_name_is_its_digest(leader: Leader) -> None:
    name = "q" * 80
    leader.api.waiting = [unbound(annotations={NAMED: name})]
    leader.sync()
    meta = leader.api.patches[0][1]
    assert (meta["labels"][QUEUE], meta["annotations"][QUEUE]) == (label_value(name), name)


def test_a_pod_of_an_owned_scheduler_is_found_though_lists_of_metadata_do_not_name_it(leader: Leader) -> None:
    leader.api.others = [unbound("owned", annotations={}, schedulerName="volcano", nodeName="node-1")]
    leader.sync(20)
    assert leader.labels() == {"owned": "default"}


def test_members_that_stops_wait_for_get_their_label_first_and_in_turns(leader: Leader) -> None:
    """Those of a queue that schedules are not urgent: resumes go before them."""
    leader.settle()
    leader.server.has(
        queue("research", version=2, state="Suspended"), queue("default", version=2, state="Suspended")
    )
    many = 3 * MAX_WRITES
    leader.api.waiting = [
        *(unbound(f"other-{number}", annotations={NAMED: "other"}) for number in range(many)),
        *(unbound(f"default-{number}", annotations={NAMED: "default"}) for number in range(many)),
        unbound("research-0"),
    ]
    leader.member_labels.step()  # stops begin
    leader.wait(STOPPED_SECONDS).member_labels.step()
    leader.lists.send()
    leader.context.work_queue.get([0.0], at_once=True)
    ranks = dict(leader.writes.submitted)
    assert len(ranks) == 2 * MAX_WRITES
    assert ranks["uid-research-0"] == (WriteRank.EVIDENCE, 0)
    assert not any(uid.startswith("uid-other") for uid in ranks)
    leader.sync()
    assert len(leader.labels()) == 2 * many + 1
    assert {rank for uid, rank in leader.writes.submitted if uid.startswith("uid-other")} == {
        (WriteRank.LABEL,)
    }


@pytest.mark.parametrize("refused", [False, True])
def test_no_further_page_is_read_while_many_labels_are_to_be_written(
    leader: Leader, monkeypatch: pytest.MonkeyPatch, *, refused: bool
) -> None:
    """Unless they are refused: they would keep Closed of all queues from being known."""
    monkeypatch.setattr(member_labels, "MAX_OPEN", 10)
    leader.api.others = [unbound(f"work-{number}", nodeName="node-1") for number in range(20)]
    if refused:
        leader.api.fails = lambda path: Refused(422, "Invalid", "frozen") if path != PODS else None
    for _ in range(4):
        leader.member_labels.step()
        leader.lists.send()
        leader.context.work_queue.get([0.0], at_once=True)
        leader.wait(FULL_WAIT_SECONDS)
    assert len(leader.api.queries) == 1, "the second list, by scheduler, waits"
    leader.writes.send()
    leader.context.work_queue.get([0.0], at_once=True)
    for _ in range(10):
        leader.wait(FULL_WAIT_SECONDS).sync(1)
    assert len(leader.api.queries) == 2


def test_the_results_of_many_writes_are_settled_together(leader: Leader) -> None:
    class Watched:
        reads = 0

        @property
        def applied(self) -> int:
            self.reads += 1
            return 10_000

    watched = Watched()
    leader.store.watch_progress.attach("pods", cast(Any, watched))
    leader.api.others = [unbound(f"work-{number}", nodeName="node-1") for number in range(MAX_WRITES)]
    leader.sync(20)
    assert len(leader.labels()) == MAX_WRITES
    assert watched.reads < MAX_WRITES, "once for each sync, not for each result"
    assert leader.member_labels.look_for_all(RESEARCH) == ""


# All pods


def test_all_pods_are_listed_when_a_term_begins_and_every_ten_minutes(leader: Leader) -> None:
    def lists() -> int:
        return sum("spec.nodeName" not in query["fieldSelector"] for _, query in leader.api.queries)

    assert leader.member_labels.look_for_all(RESEARCH) == "the pods without a label have not been listed yet"
    leader.api.others = [unbound("running", nodeName="node-1")]
    leader.settle()
    assert lists() == 2, "one by scheduler"
    assert leader.labels() == {"running": "research"}
    assert leader.member_labels.look_for_all(RESEARCH) != "", "it has no label in our watch yet"
    assert leader.obstacle() is None, "it is bound already"
    leader.api.others = []
    leader.server.has(labelled("running", nodeName="node-1", version=900))
    leader.watched.applied = leader.api.version
    assert leader.member_labels.look_for_all(RESEARCH) == ""
    leader.wait(FULL_SECONDS - 1).sync(20)
    assert lists() == 2
    leader.wait(2.0).sync(1).wait(1.0).sync(1).wait(1.0).sync(1)
    assert lists() == 4
    leader.member_labels.begin_term()
    assert leader.member_labels.look_for_all(RESEARCH) != ""


def test_a_close_waits_for_a_list_of_all_pods_that_was_begun_after_it(leader: Leader) -> None:
    """A member may have been created and bound while the webhook was away, before the close."""
    leader.settle()
    leader.api.others = [unbound("running", nodeName="node-1")]
    closed_at = leader.wait(300.0).server.clock.seconds
    leader.wait(0.1)
    assert (
        leader.member_labels.look_for_all(RESEARCH, since=closed_at) == "pods without a label are looked for"
    )
    leader.sync(10)
    assert leader.labels() == {"running": "research"}
    assert "pod team/running had no label" in leader.member_labels.look_for_all(RESEARCH, since=closed_at)
    leader.api.others = []
    leader.watch_shows_written()
    leader.server.lacks(labelled("running", version=901))
    queries = len(leader.api.queries)
    other = frozenset({"other"})
    assert leader.member_labels.look_for_all(other, since=closed_at) == "", (
        "one list serves all closes of that time"
    )
    assert len(leader.api.queries) == queries


def test_a_list_under_way_is_too_old_for_a_close_that_comes_later(leader: Leader) -> None:
    leader.settle()
    leader.wait(FULL_SECONDS).member_labels.step()
    leader.wait(0.1)
    closed_at = leader.server.clock.seconds
    assert leader.member_labels.look_for_all(RESEARCH, since=closed_at) != ""
    leader.api.others = [unbound("running", nodeName="node-1")]
    leader.wait(0.1).sync(2)
    assert (
        leader.member_labels.look_for_all(RESEARCH, since=closed_at) == "pods without a label are looked for"
    )
    leader.sync(20)
    assert leader.labels() == {"running": "research"}


def test_a_member_that_finished_without_its_label_is_waited_for_no_more(leader: Leader) -> None:
    leader.api.others = [unbound("running", nodeName="node-1")]
    leader.api.fails = lambda path: Refused(422, "Invalid", "frozen") if path != PODS else None
    leader.settle()
    assert "cannot be given its label" in leader.member_labels.look_for_all(RESEARCH)
    leader.api.others = []  # it has finished, and the list leaves such pods out
    leader.wait(FULL_SECONDS)
    for _ in range(20):
        leader.wait(0.06).sync(1)
    assert leader.member_labels.look_for_all(RESEARCH) == ""
    queries = [query["fieldSelector"] for _, query in leader.api.queries]
    assert all("status.phase!=Succeeded,status.phase!=Failed" in fields for fields in queries)


def test_a_list_that_fails_is_begun_again(leader: Leader) -> None:
    leader.api.fails = lambda _path: Unreachable("cut")
    leader.sync(3)
    leader.api.fails = lambda _path: None
    leader.wait(30.0).sync(20)
    assert leader.member_labels.look_for_all(RESEARCH) == ""


def test_a_namespace_that_names_a_queue_is_listed_at_once_and_again(leader: Leader) -> None:
    leader.sync(20)
    leader.api.others = [unbound("early", annotations={}, nodeName="node-1")]
    leader.server.has(namespace("team", queue="research"))
    leader.api.queries.clear()
    leader.sync(6)
    assert leader.labels() == {"early": "research"}
    assert "in namespace team" in leader.member_labels.look_for_all(RESEARCH)
    leader.api.others = [unbound("late", annotations={}, nodeName="node-1")]
    leader.wait(NAMESPACE_SECONDS).sync(6)
    assert leader.labels() == {"early": "research", "late": "research"}
    paths = [path for path, query in leader.api.queries if "spec.nodeName" not in query["fieldSelector"]]
    assert set(paths) == {"/api/v1/namespaces/team/pods"}


def test_a_stop_waits_for_the_pods_of_namespaces_that_changed_before_it_alone(leader: Leader) -> None:
    """Else who may annotate a namespace could put off any stop."""
    leader.settle()
    assert leader.obstacle(since=100) is None
    leader.server.has(namespace("team", queue="research", version=100))
    assert leader.obstacle(since=99) is None
    assert leader.obstacle(since=100) == "pods without a label are looked for"
    leader.server.has(namespace("team", queue="other", version=101))
    leader.deliver()
    assert leader.obstacle(since=100) is None, "the list was begun after the first change"


def test_a_list_that_was_begun_before_a_namespace_changed_does_not_show_its_pods(leader: Leader) -> None:
    leader.settle()
    leader.member_labels.begin_list(101)
    leader.api.version = 101
    leader.server.has(namespace("team", queue="research", version=100))
    assert leader.obstacle(since=101) is not None
    leader.api.waiting = [unbound("early", annotations={})]
    leader.lists.held, late = leader.lists.held[:1], leader.lists.held[1:]
    leader.deliver()
    assert leader.obstacle(since=101) is not None
    leader.lists.held = [*late, *leader.lists.held]
    leader.deliver()
    assert "pod team/early" in (leader.obstacle(since=101) or "")


def test_while_a_queue_is_stopped_waiting_pods_are_looked_for_again_and_again(leader: Leader) -> None:
    leader.settle()
    leader.server.has(queue("research", version=2, state="Suspended"))
    leader.wait(STOPPED_SECONDS).sync()
    leader.api.waiting = [unbound("late")]
    leader.wait(STOPPED_SECONDS - 1).sync()
    assert leader.labels() == {}
    leader.wait(1.0).sync()
    assert leader.labels() == {"late": "research"}


# Labels that somebody changed


def test_a_member_that_lost_its_label_gets_it_again(leader: Leader) -> None:
    """Whatever else was removed: the queue that it had counts."""
    leader.settle()
    leader.server.has(labelled())
    leader.server.lacks(labelled(version=150))
    leader.watched.applied = leader.api.version = 150
    assert leader.obstacle() == "pod team/work left the watch, and may still exist"
    leader.api.waiting = [unbound(annotations={})]
    leader.deliver()
    leader.sync()
    assert leader.labels() == {"work": "research"}
    assert leader.events == [
        'QueueLabelRestored: label sluice.dev/queue was removed; it names queue "research" again'
    ]


def test_a_member_that_was_deleted_is_forgotten_once_a_list_does_not_have_it(leader: Leader) -> None:
    leader.settle()
    leader.server.has(labelled())
    leader.server.lacks(labelled(version=150))
    leader.api.version = 140
    leader.obstacle()
    leader.deliver()
    assert leader.obstacle() is not None, "the list is older than its departure"
    leader.api.version = 160
    leader.wait(2.0)
    leader.sync()
    assert leader.obstacle() is None
    assert "left the watch" in leader.member_labels.look_for_all(RESEARCH), "it may be on a node"
    leader.wait(DEPARTURE_SECONDS).sync(20)
    assert leader.member_labels.look_for_all(RESEARCH) == ""
    assert leader.labels() == {}


@pytest.mark.parametrize(
    "gone",
    [
        {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
        {"status": {"phase": "Succeeded"}},
    ],
    ids=["deleted", "finished"],
)
def test_a_member_that_ended_is_not_looked_for(leader: Leader, gone: Wire) -> None:
    leader.settle()
    last = labelled(version=2)
    last = {**last, **gone, "metadata": {**last["metadata"], **gone.get("metadata", {})}}
    leader.server.has(labelled(), last)
    leader.server.lacks(last)
    assert leader.obstacle() is None
    assert leader.member_labels.look_for_all(RESEARCH) == ""


@pytest.mark.parametrize("is_answered", [True, False], ids=["after the answer", "before the answer"])
def test_a_label_that_is_removed_just_after_our_write_is_written_again(
    leader: Leader, is_answered: bool
) -> None:
    """The watch shows our write and the removal together."""
    leader.settle()
    leader.api.waiting = [unbound()]
    leader.sync(1)
    leader.api.version = 200
    leader.obstacle(since=200)
    leader.lists.send()
    leader.context.work_queue.get([0.0], at_once=True)  # the label's write is under way now
    if is_answered:
        leader.deliver()
    leader.server.has(labelled(version=201))
    leader.server.lacks(labelled(version=202))
    leader.watched.applied = 202
    assert leader.obstacle(since=200) is not None
    leader.deliver()
    leader.api.version = max(leader.api.version, 202)
    leader.sync(2)
    assert len(leader.api.patches) == 2
    assert any("was removed" in event for event in leader.events)
    leader.server.has(labelled(version=leader.api.version))
    leader.watched.applied = leader.api.version
    assert leader.obstacle(since=200) is not None, "a bind may be under way"
    leader.wait(BYPASS_SECONDS)
    assert leader.obstacle(since=200) is None


def test_a_list_begun_before_a_label_was_removed_again_does_not_show_that_the_pod_is_gone(
    leader: Leader,
) -> None:
    leader.api.others = [unbound(nodeName="node-1")]
    leader.settle()
    leader.api.others = []
    leader.wait(FULL_SECONDS)
    leader.member_labels.step()  # a list of all is begun, and does not show the pod, which has its label
    leader.wait(0.1)
    version = leader.api.version
    leader.server.has(labelled(nodeName="node-1", version=version))
    leader.server.lacks(labelled(nodeName="node-1", version=version + 1))
    leader.watched.applied = version + 1
    leader.api.fails = lambda path: Refused(422, "Invalid", "frozen") if path != PODS else None
    leader.member_labels.settle(RESEARCH)
    leader.deliver()
    for _ in range(4):
        leader.wait(0.06).sync(1)
    assert leader.member_labels.look_for_all(RESEARCH) != ""


def test_a_member_that_is_deleted_just_after_our_write_is_waited_for_no_more(leader: Leader) -> None:
    leader.settle()
    leader.api.waiting = [unbound()]
    leader.api.version = 200
    leader.obstacle(since=200)
    leader.sync(2)
    leader.server.has(labelled(version=201))
    leader.server.lacks(labelled(version=202))
    leader.api.waiting, leader.watched.applied = [], 202
    leader.api.fails = lambda path: NotFound(404, "NotFound", "gone") if path != PODS else None
    assert leader.obstacle(since=200) is not None
    leader.sync(2)
    assert leader.obstacle(since=200) is None
    assert leader.member_labels.look_for_all(RESEARCH) == ""


@pytest.mark.parametrize("label", ["other", ""])
def test_a_member_that_got_another_label_gets_its_own_again(leader: Leader, label: str) -> None:
    leader.settle()
    leader.server.has(labelled(), unbound(labels={QUEUE: label}, annotations={QUEUE: label}, version=150))
    assert leader.obstacle() is not None
    assert leader.member_labels.is_restoring("uid-work"), "no gate of it is lifted for the other queue"
    leader.sync()
    assert leader.labels() == {"work": "research"}
    assert 'label sluice.dev/queue was changed; it names queue "research" again' in leader.events[0]
    leader.server.has(labelled(version=leader.api.version))
    leader.watched.applied = leader.api.version
    leader.sync()
    assert len(leader.api.patches) == 1, "our own write is not taken for somebody else's"
    leader.wait(BYPASS_SECONDS)
    assert leader.obstacle() is None


def test_a_war_over_a_label_does_not_run_hot(leader: Leader) -> None:
    leader.settle()
    leader.server.has(labelled())
    for turn in range(10):
        leader.server.has(labelled(queue="other", version=1000 + 10 * turn))
        leader.sync(2)
        leader.server.has(labelled(version=1005 + 10 * turn))
        leader.watched.applied = 1005 + 10 * turn
        leader.sync(2).wait(0.1)
    assert len(leader.api.patches) <= 4


def test_a_war_over_the_labels_of_more_pods_than_are_remembered_does_not_run_hot(
    leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.pods.label_backoff.MAX_RESTORED", 8)
    leader.settle()
    pods = [f"work-{number}" for number in range(9)]
    leader.server.has(*map(labelled, pods))
    for turn in range(10):
        leader.server.has(*(labelled(name, queue="other", version=1000 + 10 * turn) for name in pods))
        leader.sync(2)
        leader.server.has(*(labelled(name, version=1005 + 10 * turn) for name in pods))
        leader.watched.applied = 1005 + 10 * turn
        leader.sync(2).wait(0.1)
    assert len(leader.api.patches) <= 4 * 7 + 2 * 10


@pytest.mark.parametrize("annotation", ["other", None])
def test_an_annotation_that_does_not_fit_the_label_is_mended(leader: Leader, annotation: str | None) -> None:
    leader.settle()
    annotations = {NAMED: "research", **({QUEUE: annotation} if annotation else {})}
    leader.server.has(unbound(labels={QUEUE: "research"}, annotations=annotations))
    assert leader.obstacle() is None, "the label is the truth"
    leader.sync()
    assert leader.api.patches[0][1]["annotations"] == {QUEUE: "research"}


def test_the_annotation_of_a_queue_that_exists_only_now_is_mended_then(leader: Leader) -> None:
    name = "q" * 80
    leader.settle()
    leader.server.has(unbound(labels={QUEUE: label_value(name)}, annotations={}))
    leader.member_labels.mend_all()
    leader.sync()
    assert leader.api.patches == [], "no queue has this label yet"
    leader.server.has(queue(name))
    leader.member_labels.mend_all()
    leader.sync()
    assert leader.api.patches[0][1]["annotations"] == {QUEUE: name}


def test_a_pod_whose_podgroup_exists_by_now_gets_its_queue(leader: Leader) -> None:
    """Its watch event came after the PodGroup's: nobody else writes its queue."""
    leader.settle()
    leader.server.has(
        podgroup("gang", queue="research"), unbound(labels={QUEUE: ""}, annotations={GROUP: "gang"})
    )
    leader.sync()
    assert leader.labels() == {"work": "research"}
    assert leader.events == [], "nobody has changed anything"


def test_a_list_that_was_begun_before_a_member_left_does_not_show_that_it_is_gone(leader: Leader) -> None:
    leader.settle()
    running = labelled(nodeName="node-1")
    leader.server.has(running)
    leader.wait(FULL_SECONDS)
    leader.member_labels.step()  # the list is begun, and shows no unlabelled pod
    leader.wait(0.1)
    leader.server.lacks(labelled(version=150, nodeName="node-1"))
    leader.api.version = 150
    leader.sync(2)
    leader.api.others = [unbound(annotations={}, nodeName="node-1")]
    leader.wait(DEPARTURE_SECONDS).sync(20)
    assert leader.labels() == {"work": "research"}


def test_a_stop_waits_for_a_list_that_shows_the_changes_that_were_too_many(
    leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.cache.label_changes.MAX_CHANGES", 1)
    leader.settle()
    leader.server.has(labelled("kept"), labelled("dropped"))
    assert leader.obstacle() is None
    leader.server.lacks(labelled("kept", version=150), labelled("dropped", version=151))
    leader.api.version = 160
    leader.api.waiting = [unbound("dropped", annotations={NAMED: "research"})]
    obstacle = leader.waits_for(frozenset({"other"}))
    assert obstacle is not None, "nobody knows whose members were not kept"
    leader.deliver()
    assert leader.waits_for(frozenset({"other"})) is None
    assert leader.obstacle() is not None
    leader.sync()
    assert leader.labels() == {"dropped": "research"}


@pytest.mark.parametrize("failing", ["record_moved", "record_left", "record_unfitting"])
def test_no_change_is_forgotten_where_one_cannot_be_recorded(
    leader: Leader, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    leader.settle()
    leader.server.has(labelled("moved"), labelled("left"), labelled("unfitting"))
    assert leader.obstacle() is None
    leader.server.has(labelled("moved", queue="other", version=150))
    leader.server.has(unbound("unfitting", labels={QUEUE: "research"}, version=151))
    leader.server.lacks(labelled("left", version=152))
    with monkeypatch.context() as patch:
        patch.setattr(UnlabelledMembers, failing, broken)
        with pytest.raises(LookupError):
            leader.waits_for()
    leader.api.version, leader.api.waiting = 160, [unbound("left", annotations={})]
    assert leader.waits_for() is not None
    leader.wait(1.0).sync(20)  # what was begun counts as a restoration: the next one waits
    assert leader.labels() == {"moved": "research", "unfitting": "research", "left": "research"}


def broken(*_args: object, **_named: object) -> None:
    raise LookupError


def test_members_moved_while_nobody_looks_get_their_queue_again_however_many(
    leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No list shows them: each has a label."""
    monkeypatch.setattr("cluster.cache.label_changes.MAX_CHANGES", 1)
    leader.settle()
    names = [f"work-{number}" for number in range(4)]
    leader.server.has(*(labelled(name) for name in names))
    assert leader.obstacle() is None
    leader.server.has(*(labelled(name, queue="other", version=150) for name in names))
    assert leader.obstacle() is not None
    leader.sync()
    assert leader.labels() == dict.fromkeys(names, "research")


def test_no_list_is_begun_for_a_member_that_a_stop_does_not_wait_for(leader: Leader) -> None:
    leader.settle()
    leader.server.has(labelled())
    waited_for = leader.member_labels.look_for(RESEARCH, since=100).at
    leader.wait(0.1)
    leader.server.lacks(labelled(version=150))
    leader.member_labels.look_for(RESEARCH, since=100, departures_until=waited_for)
    assert leader.lists.held == []
    leader.member_labels.look_for(RESEARCH, since=100)
    assert leader.lists.held != []


def test_the_watches_must_have_the_labels_that_a_former_leader_wrote(leader: Leader) -> None:
    """It wrote one after the Leases were read, and before our first list, which does not have the pod."""
    assert leader.member_labels.version_since(RESEARCH, 90) == 90
    leader.obstacle(since=90)
    leader.deliver()
    assert leader.member_labels.version_since(RESEARCH, 90) == 100
    leader.api.version = 120
    leader.obstacle(since=120)
    leader.deliver()
    assert leader.member_labels.version_since(RESEARCH, 90) == 100, "the first list of the term counts"
    leader.member_labels.begin_term()
    assert leader.member_labels.version_since(RESEARCH, 90) == 90


def test_what_was_not_mended_by_a_former_leader_is_mended_by_us(leader: Leader) -> None:
    leader.server.has(unbound(labels={QUEUE: "research"}))
    leader.member_labels.begin_term()
    leader.settle()
    assert leader.labels() == {}
    leader.member_labels.mend_all()
    leader.sync()
    assert leader.api.patches[0][1]["annotations"] == {QUEUE: "research"}


def test_an_older_list_that_comes_later_does_not_show_that_a_pod_is_gone(leader: Leader) -> None:
    """Two lists were requested, since the first had no answer; the pod was created between them."""
    leader.sync(20)
    leader.obstacle(since=101)
    leader.wait(1.0).obstacle(since=101)
    first, second = leader.lists.held
    leader.lists.held = [second]
    leader.api.waiting, leader.api.version = [unbound()], 110
    leader.deliver()
    leader.lists.held = [first]
    leader.api.waiting, leader.api.version = [], 105
    leader.api.fails = lambda path: Refused(422, "Invalid", "frozen") if path != PODS else None
    leader.deliver()
    assert "cannot be given its label" in (leader.obstacle(since=101) or "")


def test_a_member_that_left_before_the_last_list_is_looked_for_in_another_one(leader: Leader) -> None:
    """The watch may be behind the list, which was read before the departure was known."""
    leader.server.has(labelled())
    leader.api.version = 200
    leader.settle()
    leader.server.lacks(labelled(version=150))
    leader.api.waiting = [unbound(annotations={})]
    leader.sync(2).wait(DEPARTURE_SECONDS).sync(6)
    assert leader.labels() == {"work": "research"}


def test_a_member_that_leaves_after_a_stop_waited_for_nothing_else_is_not_waited_for(leader: Leader) -> None:
    leader.settle()
    leader.server.has(labelled("first"), labelled("second"), labelled("third"))
    leader.server.lacks(labelled("first", version=150))
    assert leader.obstacle() is not None
    leader.server.lacks(labelled("second", version=151))
    seen = leader.member_labels.look_for(RESEARCH, since=100)
    assert seen.at == leader.server.clock.seconds, "the second left before this call, and counts too"
    leader.wait(0.1)
    leader.server.lacks(labelled("third", version=153))
    leader.api.version = 152
    assert leader.waits_for(since=152, until=seen.at) is not None, "a list is waited for"
    leader.deliver()
    assert leader.waits_for(since=152) == "pod team/third left the watch, and may still exist"
    assert leader.waits_for(since=152, until=seen.at) is None
    leader.api.version, leader.api.waiting = 160, [unbound("third", annotations={})]
    leader.obstacle(since=160)
    leader.lists.send()
    leader.context.work_queue.get([0.0], at_once=True)
    assert leader.waits_for(since=160, until=seen.at) is not None, "it exists"


def test_members_that_leave_all_the_time_are_looked_for_all_the_same(leader: Leader) -> None:
    leader.settle()
    leader.server.has(*(labelled(f"work-{number}") for number in range(10)))
    leader.api.waiting, leader.api.version = [unbound("work-0", annotations={})], 150
    for number in range(10):
        leader.server.lacks(labelled(f"work-{number}", version=150))
        leader.sync(2).wait(0.1)
    assert leader.labels() == {"work-0": "research"}
