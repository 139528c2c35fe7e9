"""Whether a definition serves what we need is decided from its schema alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
import pytest

from cluster.exceptions import NotFound
from cluster.informers.crd_fields import (
    REQUIRED,
    Definition,
    DefinitionEventHandler,
    Definitions,
    definition_fault,
    needed_fields,
    read_queue,
)
from queues.fields.row import FieldEffect
from queues.fields.table import FIELDS
from tests.support import yaml_texts
from tests.support.cases import each_case
from tests.support.paths import ROOT

CRDS = ROOT / "manifests" / "crds"
QUEUES = "queues.scheduling.volcano.sh"
Object = dict[str, Any]


@cache
def stored(name: str) -> str:
    return json.dumps(yaml_texts.load((CRDS / f"{name.partition('.')[0]}.yaml").read_text()))


def ours(name: str) -> Object:
    document: Object = json.loads(stored(name))  # by way of JSON no object is in two places
    return document


def schema(document: Object) -> Object:
    found: Object = document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    return found


def read(document: Object, *, version: int = 1) -> Definition:
    document["metadata"] |= {"uid": "u", "resourceVersion": str(version)}
    found: Definition = msgspec.convert(document, Definition)
    return found


def without(*path: str) -> Object:
    """Our definition of queues without one field; `*` stands for the items of a list."""
    document = ours(QUEUES)
    at = {"properties": schema(document)}
    for name in path[:-1]:
        at = at["items"] if name == "*" else at["properties"][name]
    del at["properties"][path[-1]]
    return document


@pytest.mark.parametrize("name", REQUIRED)
def test_our_own_definitions_serve_all_that_our_structs_read(name: str) -> None:
    """What is applied with the server is what the server asks for."""
    assert definition_fault(name, read(ours(name))) == ""


@each_case(
    "path",
    [
        ("spec", "state"),
        ("spec", "stopPolicy"),
        ("spec", "resumeAt"),
        ("spec", "reason"),
        ("status", "conditions"),
        ("status", "changes", "*", "by"),
        ("status", "pods", "parked"),
        ("spec", "drain", "gracePeriodSeconds"),
        ("status", "drain", "blockers", "*", "never"),
    ],
    ids=".".join,
)
def test_a_field_that_is_missing_is_named_with_the_way_out(path: tuple[str, ...]) -> None:
    """At whatever depth, inside the items of lists too."""
    fault = definition_fault(QUEUES, read(without(*path)))
    assert f"{QUEUES} lacks {'.'.join(path)}" in fault
    assert fault.endswith("kubectl apply --server-side --force-conflicts -k manifests/crds")


#: Volcano's, which the server only keeps; and another spelling of a field of ours.
NOT_NEEDED = {row.name for row in FIELDS if row.effect is FieldEffect.NONE} | {"SchedulerPolicy"}


def test_each_field_that_is_ours_is_required() -> None:
    """So that a definition of an earlier version is named whichever of our fields it lacks."""
    shown = set(fields_of(schema(ours(QUEUES))))
    needed = set(needed_fields(REQUIRED[QUEUES]))
    rest = {
        path
        for path in shown - needed
        if path[:1] != ("metadata",)
        and path[:2] != ("status", "conditions")
        and path[1:2] != ("reservation",)
    }
    within = {
        ("spec", "namespaceSelector"),
        ("spec", "drain", "keep"),
        ("spec", "windows", "*", "drain", "keep"),
        ("spec", "affinity"),
    }
    assert {path for path in rest if not any(path[: len(each)] == each for each in within)} == {
        ("apiVersion",),
        ("kind",),
        ("spec", "guarantee", "resource"),
        *(path for path in shown if path[0] == "spec" and path[1:2] and path[1] in NOT_NEEDED),
    }


def fields_of(properties: Object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, below in properties.items():
        yield (*path, name)
        yield from fields_of(below.get("properties", {}), (*path, name))
        yield from fields_of(below.get("items", {}).get("properties", {}), (*path, name, "*"))


def test_a_schema_that_keeps_whatever_comes_lacks_nothing() -> None:
    """`x-kubernetes-preserve-unknown-fields` is enough."""
    document = ours(QUEUES)
    for part in ("spec", "status"):
        schema(document)[part] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    assert definition_fault(QUEUES, read(document)) == ""


def test_a_definition_that_is_not_there_or_not_served_is_a_fault() -> None:
    """As is one without a status that is written apart."""
    unserved, bare, other = ours(QUEUES), ours(QUEUES), ours(QUEUES)
    unserved["spec"]["versions"][0]["served"] = False
    del bare["spec"]["versions"][0]["subresources"]
    other["spec"]["versions"][0]["name"] = "v9"
    assert "is not there" in definition_fault(QUEUES, None)
    assert "does not serve v1beta1" in definition_fault(QUEUES, read(unserved))
    assert "does not serve v1beta1" in definition_fault(QUEUES, read(other))
    assert "has no status subresource" in definition_fault(QUEUES, read(bare))


def test_conditions_may_look_different() -> None:
    """There have to be some; Volcano's own shape of those of a PodGroup does."""
    name = "podgroups.scheduling.volcano.sh"
    document = ours(name)
    schema(document)["status"]["properties"]["conditions"] = {"type": "array", "items": {"type": "object"}}
    assert definition_fault(name, read(document)) == ""
    schema(document)["spec"] = {"type": "object"}
    assert "lacks spec.queue" in definition_fault(name, read(document))


def test_a_fault_lasts_until_its_definition_is_mended_and_that_is_told_once() -> None:
    """With two faults, once the second is mended too."""
    mended: list[str] = []
    faults: dict[str, str] = {}
    definitions = Definitions(lambda: mended.append("now"), faults=faults)
    sinks = {name: DefinitionEventHandler(name, definitions) for name in REQUIRED}
    for name, sink in sinks.items():
        sink.replace([read(ours(name))])
    assert (faults, mended) == ({}, [])
    sinks[QUEUES].upsert(read(without("spec", "state"), version=2))
    sinks["commands.bus.volcano.sh"].remove(read(ours("commands.bus.volcano.sh"), version=2))
    assert ["lacks spec.state" in faults[name] for name in sorted(faults)] == [False, True]
    sinks[QUEUES].upsert(read(ours(QUEUES), version=3))
    assert (len(faults), mended) == (1, [])
    sinks["commands.bus.volcano.sh"].replace([read(ours("commands.bus.volcano.sh"), version=4)])
    assert (faults, mended) == ({}, ["now"])


def test_a_former_state_of_a_definition_changes_nothing() -> None:
    """The past is refused."""
    faults: dict[str, str] = {}
    definitions = Definitions(faults=faults)
    sink = DefinitionEventHandler(QUEUES, definitions)
    sink.replace([read(without("spec", "state"), version=7)])
    sink.upsert(read(ours(QUEUES), version=6))
    sink.remove(read(ours(QUEUES), version=6))
    assert "lacks spec.state" in faults[QUEUES]


def test_a_queue_that_a_foreign_definition_served_is_not_believed() -> None:
    """Ours fills spec.stopPolicy in; where it is missing, the other fields may be missing as well."""
    whole = b'{"metadata":{"name":"a"},"spec":{"stopPolicy":"None"}}'
    assert read_queue(whole).metadata.name == "a"
    with pytest.raises(NotFound, match=r"queue a came without spec\.stopPolicy"):
        read_queue(b'{"metadata":{"name":"a"},"spec":{"weight":1}}')
