"""What is kept of objects as large as the API server takes them: enough for the rules, and no more."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from cluster.objects import Condition, Metadata, Pod, PodGroup, PodGroupStatus, WorkloadObject
from queues.apimachinery.pod_requests import RESOURCES, limited
from queues.world.trimming import (
    CONDITIONS,
    CONDITIONS_BYTES,
    LABELS_BYTES,
    trim,
    trim_finalizers,
    trim_labels,
    trim_podgroup,
)
from queues.world.workloads import pod_templates, template_names
from tests.support.cases import each_case
from tests.support.http.asking import Server
from tests.support.http.wire_objects import (
    WORKLOADS,
    Wire,
    pod,
    podgroup,
    template,
    workload,
)

MEBI = 1024 * 1024


def test_labels_of_an_honest_pod_are_kept_whole() -> None:
    labels = {f"example.com/label-{number}": "v" * 63 for number in range(100)}
    assert trim_labels(labels) == labels
    assert trim_labels(None) == {}


def test_labels_without_end_are_kept_up_to_a_size() -> None:
    labels = {f"l{number}": "v" * 63 for number in range(20_000)}
    kept = trim_labels(labels)
    assert labels.items() >= kept.items()
    assert sum(len(key) + len(value) for key, value in kept.items()) <= LABELS_BYTES


def test_a_long_list_of_finalizers_is_cut() -> None:
    assert trim_finalizers(["a.b/c", "d.e/f"]) == ("a.b/c", "d.e/f")
    assert len(str(trim_finalizers(["x" * 100_000] * 1000))) < 6000


def test_the_resources_of_a_node_are_kept_before_any_others() -> None:
    asked = [(f"a.b/r{number}", 1) for number in range(1000)] + [("cpu", 2), ("memory", 3)]
    kept = limited(asked)
    assert len(kept) == RESOURCES
    assert {("cpu", 2), ("memory", 3)} <= set(kept)
    assert list(kept) == sorted(kept)
    assert limited([("b", 1), ("a", 1)]) == (("a", 1), ("b", 1))


def group(*conditions: Condition, **metadata: object) -> PodGroup:
    meta = msgspec.convert({"name": "g", "namespace": "team", **metadata}, Metadata)
    return PodGroup(metadata=meta, status=PodGroupStatus(conditions=list(conditions)))


def test_conditions_that_others_wrote_are_kept_whole_where_they_are_few() -> None:
    conditions = [Condition(type=f"Volcano-{number}", message="m" * 1000) for number in range(10)]
    assert trim_podgroup(group(*conditions)).status.conditions == conditions


def test_conditions_without_end_are_cut_and_ours_stay() -> None:
    others = [Condition(type="x" * 10_000, message="m" * 10_000) for _ in range(200)]
    ours = Condition(type="Populated", status="False", message="all pods that it had are gone")
    kept = trim_podgroup(group(*others, ours)).status.conditions or []
    assert len(kept) <= CONDITIONS
    assert kept[-1] == ours
    assert len(msgspec.json.encode(kept)) < 2 * CONDITIONS_BYTES


def test_of_a_podgroups_metadata_only_what_is_read_is_kept() -> None:
    owners = [{"kind": "Job", "name": "a"}] * 500 + [{"kind": "Job", "uid": "u", "controller": True}]
    made = group(
        labels={"app": "x" * 60, "sluice.dev/queue": "research"},
        annotations={"note": "x" * MEBI, "sluice.dev/admission": "request-1"},
        finalizers=["a.b/c"] * 1000,
        ownerReferences=owners,
    )
    meta = trim_podgroup(made).metadata
    assert (meta.labels, meta.annotations) == (
        {"sluice.dev/queue": "research"},
        {"sluice.dev/admission": "request-1"},
    )
    assert [owner.uid for owner in meta.owner_references or ()] == ["u"]
    assert meta.finalizers is None


@pytest.mark.parametrize(
    ("field", "value"), [("minTaskMember", 1), ("minTaskMember", "x" * MEBI), ("minResources", "9" * MEBI)]
)
def test_of_what_a_gang_asks_for_no_more_is_kept_than_may_be_asked(field: str, value: object) -> None:
    """It is still too much, or no number, so that the gang says so."""
    huge = podgroup("g", minMember=2)
    huge["spec"][field] = {f"{number:05}" + "x" * 1000: value if number < 2 else 1 for number in range(1000)}
    server = Server().has(huge)
    assert len(msgspec.json.encode(server.store.podgroups.get("team", "g"))) < 110_000
    gang = server.store.podgroups.gang("team", "g")
    assert gang is not None
    assert gang.fault == f"{field} has more than 128 {'tasks' if 'Task' in field else 'resources'}"


def test_the_store_holds_little_of_the_largest_objects() -> None:
    labels = {f"l{number:06}": "v" * 63 for number in range(18_000)}
    huge = podgroup("g", annotations={"x": "y" * MEBI}, labels=labels)
    huge["status"] = {"conditions": [{"type": "x", "message": "m" * MEBI}]}
    written = {"sluice.dev/queue": "research"}
    asked = {"requests": {f"a.b/{number}": "1" for number in range(10_000)}}
    server = Server().has(huge, pod("p", annotations=written, labels=labels, resources=asked))
    held = server.store.members.get("team", "p")
    assert held is not None
    assert len(json.dumps(held.labels)) + len(repr(held.requests)) < 40_000
    assert len(msgspec.json.encode(server.store.podgroups.get("team", "g"))) < 10_000


GROUP, NAMED, LABELLED = (
    "scheduling.k8s.io/group-name",
    "scheduling.volcano.sh/queue-name",
    "volcano.sh/queue-name",
)
SAID = {NAMED: "research", GROUP: "gang", "sluice.dev/queue": "research", "sluice.dev/queue-from": "workload"}
MANY = {f"l{number:06}": "v" * 63 for number in range(18_000)}


def read(obj: Wire, shape: type[Any]) -> Any:
    return msgspec.json.decode(json.dumps(obj), type=shape)


def test_a_trimmed_pod_says_its_queue_as_it_did() -> None:
    huge = pod("p", annotations={**SAID, "note": "x" * MEBI}, labels={**MANY, LABELLED: "research"})
    kept = trim(read(huge, Pod))
    assert kept.metadata.annotations == SAID
    assert kept.metadata.label(LABELLED) == "research"
    assert len(msgspec.json.encode(kept)) < 40_000


@each_case("resource", WORKLOADS)
def test_a_trimmed_workload_says_its_queue_as_it_did(resource: str) -> None:
    one = template({**SAID, "note": "x" * MEBI})
    one["metadata"]["labels"] = {**MANY, LABELLED: "research"}
    huge = workload(resource, "w", one, annotations={**SAID, "note": "x" * MEBI}, labels=MANY)
    small_one = template(SAID)
    small_one["metadata"]["labels"] = {LABELLED: "research"}
    small = workload(resource, "w", small_one, annotations=SAID)
    kept, plain = trim(read(huge, WorkloadObject)), read(small, WorkloadObject)
    assert len(msgspec.json.encode(kept)) < 80_000
    assert [template_names(each).annotations for _, each in pod_templates(kept)] == [
        template_names(each).annotations for _, each in pod_templates(plain)
    ]
    assert all(template_names(each).labels[LABELLED] == "research" for _, each in pod_templates(kept))
    assert kept.metadata.annotations == plain.metadata.annotations


def test_the_end_of_a_workload_is_seen_among_conditions_without_end() -> None:
    others = [{"type": f"x-{number}", "message": "m" * 10_000} for number in range(100)]
    ended = {"type": "Complete", "status": "True"}
    job = workload("jobs.batch", "w", status={"conditions": [*others, ended]})
    kept = trim(read(job, WorkloadObject)).status.conditions
    assert [one.type for one in kept if one.status == "True"] == ["Complete"]


def test_what_is_no_users_stays_as_it_is() -> None:
    meta = Metadata(annotations={"a": "x" * MEBI})
    assert trim(meta) is meta
