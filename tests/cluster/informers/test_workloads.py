"""Workloads: which of a list are kept, what the next watch selects, and what is looked up."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import msgspec
import pytest

from cluster.api.client import Client
from cluster.exceptions import ClusterError, NotFound, Unreachable
from cluster.informers.workloads import METADATA, WorkloadEventHandler, WorkloadLookups
from cluster.objects import WorkloadObject
from queues.well_known import QUEUE, SUSPENDED
from queues.workload_kinds import KINDS
from tests.support.http.asking import Server
from tests.support.http.wire_objects import GROUP, NAMED, Wire, member, namespace, queue, template, workload

DEPLOYMENTS, JOBS, DAEMON_SETS = "deployments.apps", "jobs.batch", "daemonsets.apps"
FINISHED = {"conditions": [{"type": "Complete", "status": "True"}]}


class Api:
    """Answers lists of one name from these objects."""

    def __init__(self) -> None:
        self.objects: list[Wire] = []
        self.error: ClusterError | None = None
        self.queries: list[str] = []

    def request(self, method: str, path: str, *, query: Mapping[str, Any], accept: str) -> bytes:
        assert (method, accept) == ("GET", METADATA)
        self.queries.append(f"{path}?{query['fieldSelector']}")
        if self.error is not None:
            raise self.error
        name = query["fieldSelector"].removeprefix("metadata.name=")
        items = [
            {"metadata": obj["metadata"]}
            for obj in self.objects
            if (obj["metadata"]["name"], path)
            == (name, f"/apis/{obj['apiVersion']}/namespaces/team/{obj['kind'].lower()}s")
        ]
        return json.dumps({"metadata": {"resourceVersion": "7"}, "items": items}).encode()


class ListedReflector:
    def __init__(self) -> None:
        self.completed = self.wanted = 1

    def relist(self) -> int:
        self.wanted = self.completed + 1
        return self.wanted


class Replica:
    """The handlers of all kinds, and what they ask for."""

    def __init__(self) -> None:
        self.server = Server().has(queue("root", parent=None), queue("research"))
        self.store = self.server.store
        self.api = Api()
        self.lookups = WorkloadLookups(self.store, cast(Client, self.api))
        self.reflectors = {key: ListedReflector() for key in KINDS}
        self.lookups.attach(self.reflectors)
        self.relists: list[str] = []
        self._handlers = {
            key: WorkloadEventHandler(kind, self.store, find=self.lookups.find, relist=self.relists.append)
            for key, kind in KINDS.items()
        }

    def handler(self, resource: str) -> WorkloadEventHandler:
        kind = next(key for key, row in KINDS.items() if f"{row.resource}.{row.group}".startswith(resource))
        return self._handlers[kind]

    def list(self, resource: str, *objects: Wire) -> str:
        """A list has these objects; returns what the next watch selects."""
        handler = self.handler(resource)
        is_kept = handler.new_filter()
        handler.replace([obj for obj in map(read, objects) if is_kept(obj)])
        return handler.watch_labels

    def kept(self) -> set[str]:
        caches = self.store.workloads.of_kind.values()
        return {work.name for cache in caches for work in list(cache._by_uid.values())}

    def listed(self) -> set[str]:
        """The kinds that are listed after what is missing was looked up."""
        before = {key: reflector.wanted for key, reflector in self.reflectors.items()}
        is_done = self.lookups.look_up()
        listed = {key for key, reflector in self.reflectors.items() if reflector.wanted != before[key]}
        assert is_done() is not bool(listed)
        for reflector in self.reflectors.values():
            reflector.completed = reflector.wanted
        assert is_done()
        return listed


def read(obj: Wire) -> WorkloadObject:
    return msgspec.convert(obj, WorkloadObject, strict=False)


def named(resource: str, name: str, *, labelled: bool, **more: Any) -> Wire:
    """A workload of the queue research."""
    labels = {QUEUE: "research"} if labelled else {}
    return workload(resource, name, template({NAMED: "research"}), labels=labels, **more)


def owner(obj: Wire) -> Wire:
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
        "controller": True,
    }


@pytest.fixture
def replica() -> Replica:
    return Replica()


def test_where_every_member_has_the_label_members_alone_are_kept_and_watched(replica: Replica) -> None:
    found = replica.list(
        DEPLOYMENTS, named(DEPLOYMENTS, "ours", labelled=True), workload(DEPLOYMENTS, "others")
    )
    assert found == QUEUE
    assert replica.kept() == {"ours"}


@pytest.mark.parametrize(
    "unlabelled",
    [
        named(DEPLOYMENTS, "old", labelled=False),
        named(DEPLOYMENTS, "old", labelled=False, replicas=0),
        workload(DEPLOYMENTS, "old", namespace="named"),
        workload(DEPLOYMENTS, "old", template({GROUP: "gang"})),
    ],
    ids=[
        "named",
        "without replicas",
        "of a namespace that names a queue",
        "of a PodGroup that does not exist",
    ],
)
def test_while_a_member_lacks_the_label_all_of_its_kind_are_watched(
    replica: Replica, unlabelled: Wire
) -> None:
    replica.server.has(namespace("named", queue="research"))
    assert replica.list(DEPLOYMENTS, unlabelled, workload(DEPLOYMENTS, "others")) == ""
    assert replica.kept() == {"old"}
    assert replica.list(JOBS, named(JOBS, "train", labelled=True)) == QUEUE, "each kind by itself"
    unlabelled["metadata"].setdefault("labels", {})[QUEUE] = "research"
    assert replica.list(DEPLOYMENTS, unlabelled) == QUEUE


def test_a_job_that_has_finished_needs_no_label(replica: Replica) -> None:
    assert replica.list(JOBS, named(JOBS, "done", labelled=False, status=FINISHED)) == QUEUE


def test_an_owner_of_a_member_is_kept_and_watched_though_it_is_in_no_queue(replica: Replica) -> None:
    """Another webhook made its pods members."""
    made = workload(DAEMON_SETS, "agents")
    replica.server.has(member("agent", owner=owner(made)))
    assert replica.list(DAEMON_SETS, made) == ""
    assert replica.kept() == {"agents"}


def test_one_that_a_drain_suspended_is_kept_though_it_is_in_no_queue_any_more(replica: Replica) -> None:
    """It is resumed."""
    left = workload(JOBS, "train", annotations={SUSPENDED: "research"}, suspend=True)
    assert replica.list(JOBS, left) == ""
    assert replica.kept() == {"train"}


# Workloads that leave the watch


def leaves(replica: Replica, resource: str, obj: Wire) -> None:
    replica.handler(resource).remove(read(obj))


@pytest.mark.parametrize(
    ("resource", "more"), [(JOBS, {}), (DEPLOYMENTS, {"replicas": 0}), (DAEMON_SETS, {})]
)
def test_one_that_lost_its_label_stays_and_its_kind_is_listed(
    replica: Replica, resource: str, more: Wire
) -> None:
    obj = named(resource, "ours", labelled=True, **more)
    replica.list(resource, obj)
    replica.api.objects = [named(resource, "ours", labelled=False, **more)]
    leaves(replica, resource, obj)
    assert replica.kept() == {"ours"}
    assert len(replica.relists) == 1
    assert replica.list(resource, *replica.api.objects) == "", "from then on it is watched without a label"


def test_one_that_was_deleted_goes_at_once(replica: Replica) -> None:
    obj = named(JOBS, "train", labelled=True)
    replica.list(JOBS, obj)
    leaves(replica, JOBS, obj)
    assert (replica.kept(), replica.relists) == (set(), [])
    replica.list(JOBS, obj)
    again = named(JOBS, "train", labelled=True)
    again["metadata"]["uid"] = "uid-again"
    replica.api.objects = [again]
    leaves(replica, JOBS, obj)
    assert (replica.kept(), replica.relists) == (set(), []), "another one of its name was created"


def test_one_that_has_finished_is_not_looked_up(replica: Replica) -> None:
    """Most that go have."""
    obj = named(JOBS, "train", labelled=True, status=FINISHED)
    replica.list(JOBS, obj)
    leaves(replica, JOBS, obj)
    assert (replica.kept(), replica.api.queries) == (set(), [])


def test_one_that_cannot_be_looked_up_stays_until_its_kind_was_listed(replica: Replica) -> None:
    obj = named(JOBS, "train", labelled=True)
    replica.list(JOBS, obj)
    replica.api.error = Unreachable("cut")
    leaves(replica, JOBS, obj)
    assert (replica.kept(), replica.relists) == ({"train"}, ["jobs"])
    replica.list(JOBS)
    assert replica.kept() == set()


def test_when_very_many_leave_their_kind_is_listed_in_place_of_a_look_at_each(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.informers.workloads.MAX_LOOKUPS", 1)
    objects = [named(JOBS, f"train-{number}", labelled=True) for number in range(3)]
    replica.list(JOBS, *objects)
    for obj in objects:
        leaves(replica, JOBS, obj)
    assert len(replica.api.queries) == 1
    assert replica.kept() == {"train-1", "train-2"}
    assert set(replica.relists) == {"jobs"}


def test_in_a_watch_of_all_one_that_is_gone_is_gone(replica: Replica) -> None:
    obj = named(JOBS, "train", labelled=False)
    replica.list(JOBS, obj)
    leaves(replica, JOBS, obj)
    assert (replica.kept(), replica.api.queries) == (set(), [])


# Owners of members that the cache does not have


def test_an_owner_without_the_label_is_looked_up_and_its_kind_listed(replica: Replica) -> None:
    """It was created while no webhook was registered, after the last list."""
    train = named(JOBS, "train", labelled=False)
    replica.list(JOBS)
    replica.api.objects = [train]
    replica.server.has(member("part-0", owner=owner(train)), member("part-1", owner=owner(train)))
    assert train["metadata"]["uid"] in replica.store.missing_owners
    assert replica.listed() == {"jobs"}
    assert len(replica.api.queries) == 1, "once for all of its pods"
    assert train["metadata"]["uid"] not in replica.store.missing_owners
    assert replica.list(JOBS, train) == ""
    assert replica.kept() == {"train"}


def test_an_owner_that_does_not_exist_is_looked_up_once(replica: Replica) -> None:
    """Users can write owner references."""
    replica.server.has(member("part", owner=owner(named(JOBS, "nobody", labelled=True))))
    assert replica.listed() == set()
    assert replica.store.missing_owners.pending() == []
    assert [query.rpartition("?")[2] for query in replica.api.queries] == ["metadata.name=nobody"] * 2


def test_an_owner_whose_label_the_watch_has_yet_to_show_causes_no_list(replica: Replica) -> None:
    train = named(JOBS, "train", labelled=True)
    replica.api.objects = [train]
    replica.server.has(member("part", owner=owner(train)))
    assert replica.listed() == set()
    other = named(JOBS, "other", labelled=True)
    replica.server.has(member("other", owner=owner(other)), other)
    replica.api.queries.clear()
    assert replica.listed() == set()
    assert replica.api.queries == [], "it has come by now"


def test_an_owner_that_cannot_be_looked_up_is_looked_up_again(replica: Replica) -> None:
    train = named(JOBS, "train", labelled=False)
    replica.server.has(member("part", owner=owner(train)))
    replica.api.error = Unreachable("cut")
    assert replica.listed() == set()
    assert train["metadata"]["uid"] in replica.store.missing_owners
    assert replica.store.missing_owners.lookups.pending
    replica.api.error, replica.api.objects = NotFound(404, "NotFound", "no such kind"), [train]
    assert replica.listed() == set()
    assert train["metadata"]["uid"] not in replica.store.missing_owners


def test_owners_too_many_to_keep_have_every_kind_listed(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.cache.missing_owners.MAX_OWNERS", 1)
    for name in ("a", "b"):
        replica.server.has(member(f"pod-{name}", owner=owner(named(JOBS, name, labelled=True))))
    assert replica.listed() == set(KINDS)


def test_the_owner_of_a_workload_is_looked_up_as_well(replica: Replica) -> None:
    nightly = workload("cronjobs.batch", "nightly")
    train = named(JOBS, "train", labelled=True, owner=owner(nightly))
    replica.handler(JOBS).upsert(read(train))
    replica.api.objects = [nightly]
    assert replica.listed() == {"cronjobs"}
    assert replica.list("cronjobs.batch", nightly) == ""
