"""What is kept of objects as large as the API server takes them: enough for the rules, and no more."""

from __future__ import annotations

import json

import msgspec

from cluster.objects import Condition, Metadata, PodGroup, PodGroupStatus
from cluster.trimming import (
    CONDITIONS,
    CONDITIONS_BYTES,
    LABELS_BYTES,
    RESOURCES,
    kept_finalizers,
    kept_group,
    kept_labels,
    kept_resources,
)
from tests.server.asking import Server
from tests.server.wire_objects import pod, podgroup

MEBI = 1024 * 1024


def test_labels_of_an_honest_pod_are_kept_whole() -> None:
    labels = {f"example.com/label-{number}": "v" * 63 for number in range(100)}
    assert kept_labels(labels) == labels
    assert kept_labels(None) == {}


def test_labels_without_end_are_kept_up_to_a_size() -> None:
    labels = {f"l{number}": "v" * 63 for number in range(20_000)}
    kept = kept_labels(labels)
    assert labels.items() >= kept.items()
    assert sum(len(key) + len(value) for key, value in kept.items()) <= LABELS_BYTES


def test_a_long_list_of_finalizers_is_cut() -> None:
    assert kept_finalizers(["a.b/c", "d.e/f"]) == ("a.b/c", "d.e/f")
    assert len(str(kept_finalizers(["x" * 100_000] * 1000))) < 6000


def test_the_resources_of_a_node_are_kept_before_any_others() -> None:
    asked = [(f"a.b/r{number}", 1) for number in range(1000)] + [("cpu", 2), ("memory", 3)]
    kept = kept_resources(asked)
    assert len(kept) == RESOURCES
    assert {("cpu", 2), ("memory", 3)} <= set(kept)
    assert list(kept) == sorted(kept)
    assert kept_resources([("b", 1), ("a", 1)]) == (("a", 1), ("b", 1))


def group(*conditions: Condition, **metadata: object) -> PodGroup:
    meta = msgspec.convert({"name": "g", "namespace": "team", **metadata}, Metadata)
    return PodGroup(metadata=meta, status=PodGroupStatus(conditions=list(conditions)))


def test_conditions_that_others_wrote_are_kept_whole_where_they_are_few() -> None:
    conditions = [Condition(type=f"Volcano-{number}", message="m" * 1000) for number in range(10)]
    assert kept_group(group(*conditions)).status.conditions == conditions


def test_conditions_without_end_are_cut_and_ours_stay() -> None:
    others = [Condition(type="x" * 10_000, message="m" * 10_000) for _ in range(200)]
    ours = Condition(type="Populated", status="False", message="all pods that it had are gone")
    kept = kept_group(group(*others, ours)).status.conditions or []
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
    meta = kept_group(made).metadata
    assert (meta.labels, meta.annotations) == (
        {"sluice.dev/queue": "research"},
        {"sluice.dev/admission": "request-1"},
    )
    assert [owner.uid for owner in meta.owner_references or ()] == ["u"]
    assert meta.finalizers is None


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
