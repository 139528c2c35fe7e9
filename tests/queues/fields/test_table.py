"""The table of a Queue's fields: what it says of each is what the code does."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cluster.cache.queues import NO_LENDING, decoded_fields, lending_from_object, queue_from_object
from cluster.objects import Metadata, QueueObject, QueueSpec
from queues.apimachinery.conversion import Converter
from queues.fields.reading import READ, read_queue
from queues.fields.row import FieldEffect
from queues.fields.table import BY_NAME, FIELDS
from queues.queue import Queue
from tests.support.cases import each_case

_convert = Converter[QueueObject](QueueObject)
#: Of each field that something follows from, a value that is not its default.
EXAMPLES: dict[str, Any] = {
    "state": "Suspended",
    "stopPolicy": "Hold",
    "parked": "Recreate",
    "resumeAt": "2030-01-31T18:00:00Z",
    "reason": "disks",
    "drain": {"rate": 1},
    "windows": [
        {
            "name": "nightly",
            "schedule": "0 2 * * SUN",
            "duration": "2h",
            "timeZone": "Europe/Berlin",
            "stopPolicy": "Hold",
        }
    ],
    "windowOverrides": [{"window": "nightly", "start": "2026-10-04T02:00", "skip": True}],
    "inWindow": [{"name": "nightly", "start": "2026-10-04T00:00:00Z", "until": "2026-10-04T02:00:00Z"}],
    "parent": "lab",
    "namespaceSelector": {"matchLabels": {"team": "a"}},
    "SchedulerPolicy": "packed",
    "schedulerPolicy": "packed",
    "priority": 1,
    "reclaimable": False,
    "deserved": {"cpu": "1"},
    "guarantee": {"resource": {"cpu": "1"}},
    "guaranteeWhileStopped": "Lend",
    "capability": {"cpu": "1"},
    "weight": 2,
    "dequeueStrategy": "fifo",
    "affinity": {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["big"]}},
}
#: Admission copies it to the other spelling, which is read.
COPIED = "SchedulerPolicy"
LENDING = (FieldEffect.RECLAIM, FieldEffect.ALSO_RECLAIM)
IDLE = [row.name for row in FIELDS if row.effect is FieldEffect.NONE]


def with_fields(**spec: Any) -> QueueObject:
    return _convert({"metadata": {"name": "q"}, "spec": spec})


def test_the_cache_keeps_the_fields_that_something_follows_from_and_no_others() -> None:
    """What nothing follows from takes no memory on the server; its definition need not serve it."""
    kept = {field.encode_name for field in msgspec.structs.fields(QueueSpec)}
    assert kept == {row.name for row in FIELDS} - {*IDLE, COPIED}


def test_a_field_that_is_read_and_not_decoded_fails_by_its_name() -> None:
    """At the import of the cache, before any test: so the text says where the field is missing."""
    with pytest.raises(TypeError, match=r"reads contact, which cluster\.objects\.QueueSpec lacks"):
        decoded_fields([*READ, "contact"], spec=QueueSpec)
    assert decoded_fields(["stopPolicy"], spec=QueueSpec) == ("stop_policy",)


def test_each_example_is_of_a_field_that_something_follows_from() -> None:
    assert EXAMPLES.keys() == {row.name for row in FIELDS} - {*IDLE}
    for name, value in EXAMPLES.items():
        BY_NAME[name].check(f"spec.{name}", value, None)


@each_case("row", [row for row in FIELDS if row.reading], ids=lambda row: row.name)
def test_a_field_is_read_as_its_row_says(row: Any) -> None:
    """By the server and by the plugin, into that field of `Queue` and no other."""
    spec = {row.name: EXAMPLES[row.name]}
    by_server = queue_from_object(with_fields(**spec))
    assert read_queue("q", uid="", generation=0, values=map(spec.get, READ)) == by_server
    plain = Queue(name="q")
    assert row.reading.read(None) == getattr(plain, row.reading.attribute)  # which is not asked
    assert {
        field for field in Queue.__struct_fields__ if getattr(by_server, field) != getattr(plain, field)
    } == {row.reading.attribute}


def test_each_field_of_a_queue_has_a_row() -> None:
    """But for what is of its metadata, and of its history."""
    read = {row.reading.attribute for row in FIELDS if row.reading}
    metadata = {"name", "uid", "generation", "terminating", "contact"}
    assert set(Queue.__struct_fields__) - read == {*metadata, "placed"}
    assert queue_from_object(QueueObject(metadata=Metadata(name="q"))) == Queue(name="q")


@each_case("name", EXAMPLES)
def test_pods_may_be_evicted_by_the_fields_that_say_so(name: str) -> None:
    """No other field says which pods of a queue others may evict, where a policy has `reclaim`."""
    lends = lending_from_object(with_fields(**{name: EXAMPLES[name]})) != NO_LENDING
    assert lends is (BY_NAME[name].effect in LENDING)


@each_case("row", FIELDS, ids=lambda row: row.name)
def test_the_help_says_what_nothing_follows_from_yet(row: Any) -> None:
    """A description promises nothing that this version does not do, nor hides what it does."""
    assert ("othing acts on it" in row.help) is (row.effect is FieldEffect.NONE)
    assert ("action reclaim" in row.help) is (row.effect in LENDING)
    assert row.help.endswith(".") and "\n" not in row.description
