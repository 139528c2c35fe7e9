"""Workloads as values: `live` counts those held, always, and the past is refused."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given

from cluster.cache.workloads import Workloads
from cluster.objects import WorkloadObject
from queues.workload_kinds import KINDS, WorkloadKind
from tests.support.cases import each_case
from tests.support.cluster.recounting import (
    QUEUES,
    Oracle,
    histories,
    jobs,
    read_job,
)
from tests.support.http.asking import Server
from tests.support.http.wire_objects import (
    NAMED,
    Wire,
    job,
    member,
    namespace,
    owner,
    podgroup,
    queue,
    workload,
)
from tests.support.rules.cases import MODEST


def named_queue(_kind: WorkloadKind, obj: WorkloadObject) -> str:
    meta = obj.spec.template.metadata if obj.spec.template else None
    return meta.annotation(NAMED) if meta else ""


class Held:
    """Workloads, and the queues that were told of a change."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.jobs = Workloads(KINDS["jobs"], queue_of=named_queue, on_change=self.told.append)

    def tell(self, what: str, obj: Any) -> None:
        if what == "replace":
            self.jobs.replace([read_job(one) for one in obj])
        else:
            getattr(self.jobs, what)(read_job(obj))


def is_live(obj: Wire) -> bool:
    conditions = obj["status"].get("conditions", [])
    return not any(one["type"] in {"Complete", "Failed"} for one in conditions)


def queue_of(obj: Wire) -> str:
    annotations: dict[str, str] = obj["spec"]["template"]["metadata"]["annotations"]
    return annotations.get(NAMED, "")


@MODEST
@given(history=histories(jobs()))
def test_after_every_event_the_live_ones_equal_a_recount(history: list[tuple[str, Any]]) -> None:
    held, oracle = Held(), Oracle()
    for what, obj in history:
        before = {q: held.jobs.live(q) for q in QUEUES}
        held.told.clear()
        held.tell(what, obj)
        oracle.tell(what, obj)
        for name in QUEUES:
            live = [one for one in oracle.held.values() if queue_of(one) == name and is_live(one)]
            assert held.jobs.live(name) == len(live)
            assert held.jobs.live_by_namespace(name) == Counter(one["metadata"]["namespace"] for one in live)
            assert {one.uid for one in held.jobs.live_in(name)} == {one["metadata"]["uid"] for one in live}
            assert name in held.told or before[name] == held.jobs.live(name), "a change that nobody heard of"
        for uid, version in oracle.versions().items():
            one = held.jobs.by_uid(uid)
            assert one is not None
            assert one.version == version
        assert "" not in held.told


def test_one_of_no_queue_is_kept_and_told_to_nobody() -> None:
    held = Held()
    held.tell("upsert", job("train"))
    found = held.jobs.by_uid("uid-train")
    assert found is not None
    assert found.queue == ""
    assert held.told == []


def test_a_status_that_changes_nothing_is_told_to_nobody() -> None:
    held = Held()
    held.tell("upsert", job("train", queue="research"))
    held.told.clear()
    held.tell("upsert", job("train", queue="research", version=2))
    assert held.told == []


def test_a_move_is_told_to_both_queues() -> None:
    held = Held()
    held.tell("upsert", job("train", queue="research"))
    held.told.clear()
    held.tell("upsert", job("train", queue="labs", version=2))
    assert sorted(held.told) == ["labs", "research"]


# What a drain keeps at zero


@each_case(
    ("mark", "replicas", "has_owner", "live", "kept"),
    [
        ("", 0, False, False, 0),
        ("research/3", 0, False, True, 3),
        ("research/3", 0, True, False, 0),
        ("research/3", 2, False, True, 0),
        ("research", 0, False, False, 0),
    ],
)
def test_what_a_drain_keeps_at_zero_is_live_and_makes_no_pods(
    mark: str, replicas: int, has_owner: bool, live: bool, kept: int
) -> None:
    """On what a Deployment controls the mark is a copy, of its controller."""
    server = Server().has(queue("research"))
    made_by = owner(workload("deployments.apps", "web")) if has_owner else None
    names = {NAMED: "research", "sluice.dev/suspended": mark}
    server.has(workload("replicasets.apps", "web-1", annotations=names, replicas=replicas, owner=made_by))
    found = server.store.workloads.by_uid("uid-web-1")
    assert found is not None
    assert (found.live, found.paused, found.kept_at_zero) == (live, kept > 0, kept)
    assert server.store.live_members.below("research") == live


# Whose queue a workload is in


def judged(server: Server, **places: Any) -> str:
    obj = job("train")
    obj["metadata"].update(places.get("own", {}))
    obj["spec"]["template"]["metadata"] = places.get("template", {})
    server.has(obj)
    found = server.store.workloads.by_uid("uid-train")
    assert found is not None
    return found.queue


def test_its_pod_template_decides() -> None:
    template, own = {"annotations": {NAMED: "research"}}, {"annotations": {NAMED: "labs"}}
    assert judged(Server(), template=template, own=own) == "research"


def test_then_its_own_annotations_and_labels_do() -> None:
    assert judged(Server(), own={"annotations": {NAMED: "labs"}}) == "labs"
    assert judged(Server(), own={"labels": {"volcano.sh/queue-name": "labs"}}) == "labs"


def test_its_podgroup_does() -> None:
    server = Server().has(podgroup("gang", queue="held"))
    assert judged(server, template={"annotations": {"scheduling.k8s.io/group-name": "gang"}}) == "held"


def test_its_namespace_does() -> None:
    assert judged(Server().has(namespace("team", queue="research"))) == "research"


def test_the_live_members_of_a_queue_are_pods_and_jobs_here_and_below() -> None:
    server = Server().has(
        queue("labs"),
        queue("research", parent="labs"),
        member("a", queue="research"),
        member("b", queue="labs", status={"phase": "Failed"}),
        job("train", queue="labs"),
        job("old", queue="labs", done="Complete"),
    )
    assert server.store.live_members.below("labs") == 2
    assert server.store.live_members.below("research") == 1
    assert server.store.live_members.below("root") == 2
    assert server.store.live_members.below("absent") == 0
