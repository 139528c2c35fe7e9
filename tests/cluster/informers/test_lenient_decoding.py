"""Of an object that cannot be read as a whole, all is read that can be."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from cluster.objects import Pod, PodGroup, WorkloadObject
from queues.apimachinery.lenient import LenientReader, fault_text
from queues.world.podgroups import is_live, queue_of
from tests.support.http.wire_objects import (
    Wire,
    member,
    podgroup,
    template,
    workload,
)

_groups, _pods, _workloads = LenientReader(PodGroup), LenientReader(Pod), LenientReader(WorkloadObject)


def raw(obj: Any) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(obj).encode())


def group(**status: object) -> Wire:
    return podgroup("odd", queue="labs", status=status)


def test_what_can_be_read_as_a_whole_has_no_faults() -> None:
    obj = group(phase="Running", running=2)
    assert _groups(raw(obj)) == (msgspec.convert(obj, PodGroup), [])


def test_a_field_that_cannot_be_read_has_its_default_and_all_others_are_read() -> None:
    obj, faults = _groups(raw(group(phase="Completed", running="2", conditions=[{"type": 5}, {"type": "x"}])))
    assert faults == ["status.running", "status.conditions[0].type"]
    assert (queue_of(obj), obj.status.phase, obj.status.running) == ("labs", "Completed", 0)
    assert [one.type for one in obj.status.conditions or ()] == ["", "x"]
    assert not is_live(obj)


@pytest.mark.parametrize("spec", ["x", None, [], 5])
def test_a_part_that_is_none_has_its_defaults(spec: object) -> None:
    obj, faults = _groups(raw({**group(phase="Completed"), "spec": spec}))
    assert (faults, queue_of(obj), is_live(obj)) == (["spec"], "default", False)


def test_inside_of_lists_it_is_the_same() -> None:
    tasks = [{"template": template({"a": "b"})}, {"template": 5}, 7]
    made = workload("jobs.batch.volcano.sh", "train", queue="labs", replicas="many")
    made["spec"]["tasks"] = tasks
    obj, faults = _workloads(raw(made))
    assert set(faults) == {"spec.replicas", "spec.tasks[1].template", "spec.tasks[2]"}
    assert (obj.spec.queue, len(obj.spec.tasks or ())) == ("labs", 2)


def test_an_object_without_metadata_is_none() -> None:
    unreadable: tuple[Any, ...] = ({"spec": {}}, {"metadata": 5}, 5, [])
    for bad in unreadable:
        with pytest.raises(msgspec.DecodeError):
            _pods(raw(bad))


def test_a_member_stays_a_member() -> None:
    """Else it would be one that no stop holds."""
    obj, faults = _pods(raw({**member("odd", "labs"), "status": {"phase": "Pending", "conditions": 5}}))
    assert (faults, obj.metadata.annotation("sluice.dev/queue")) == (["status.conditions"], "labs")


def test_no_more_than_three_places_are_named() -> None:
    assert fault_text(["a", "b"]) == "a, b"
    assert fault_text(list("abcde")) == "a, b, c and 2 more"
    assert len(fault_text(["x" * 900] * 9)) < 200
