"""Queues as they are declared, on the real API server: what is taken in which state, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from queues.fields.table import FIELDS
from tests.support.e2e.objects import queue_body
from tests.support.e2e.sandbox import QUEUES, Sandbox

AMOUNTS: list[Any] = [
    *[1, "all", [], {"cpu": {}}, {"cpu": "-1"}, {"cpu": "four"}, {"cpu": "NaN"}, {"cpu": "1e99"}],
    *[{"cpu": "1\x00"}, {"cpu": "9" * 100}, {"c p u": "1"}, {"cpu\x00": "1"}, {"x" * 400: "1"}],
]
#: Of each field, what it may not hold whatever the queue: other types, too much, and what no name is made of.
BAD_SPEC: dict[str, list[Any]] = {
    "state": [1, [], {}, "open", "Closing", "Open\x00", "x" * 100_000],
    "stopPolicy": [True, {}, "hold", "None\n"],
    "resumeAt": [5, [], {}, "tomorrow", "2030-01-31T18:00:00", "2030-01-31T18:00:00Z\x00", "9" * 100_000],
    "reason": [1, [], {}, "x" * 1025, "bell\x07", "\x1b[31m"],
    "parent": [1, [], {}, "Research!", "a_b", "a\x00b", "-a", "x" * 254, "x" * 100_000, "nobody-has-this"],
    "weight": [0, -1, 65536, 10**18, 10**30, 1.5, "1", True, [], {}],
    "priority": [-1, 2**31, 10**30, "1", [], {}],
    "reclaimable": [0, "true", [], {}],
    "dequeueStrategy": [1, [], {}, "lifo", "fifo\x00"],
    "type": [1, [], {}, "x" * 254, "a\x00b"],
    "affinity": [
        1,
        "big",
        [],
        {"nodeGroupAffinity": []},
        {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [1]}},
        {"nodeGroupAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": ["a b", "\x00"]}},
    ],
    "extendClusters": [
        1,
        "b",
        {},
        [1],
        [None],
        [{"name": 1}],
        [{"weight": -1}],
        [{"capacity": {"cpu": "-1"}}],
    ],
    "drain": [
        1,
        "fast",
        [],
        {"rate": 0},
        {"rate": -1},
        {"rate": "2"},
        {"rate": 10**30},
        {"inFlight": 0},
        {"inFlight": 1.5},
        {"gracePeriodSeconds": -1},
        {"gracePeriodSeconds": 2**31},
        {"gracePeriodSeconds": "30s"},
        {"barePods": "Delete"},
        {"brokenGangs": "Delete"},
        {"keep": "all"},
        {"keep": {"matchLabels": {"a b": "c"}}},
        {"keep": {"matchLabels": {"a": "\x00"}}},
        {"keep": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
        {"keep": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}},
        {"keep": {"matchExpressions": [{"key": "a", "operator": "Like"}]}},
        {"deadline": "soon"},
        {"deadline": "2020-01-31T18:00:00Z"},
        {"afterDeadline": "Delete"},
        {"afterDeadline": "Evict", "deadline": "2999-01-31T18:00:00Z"},
    ],
    "windows": [
        1,
        "nightly",
        {},
        ["nightly"],
        [
            {
                "name": "A b",
                "from": "2030-01-01T00:00:00Z",
                "until": "2030-01-02T00:00:00Z",
                "stopPolicy": "Hold",
            }
        ],
        [
            {
                "name": "a",
                "schedule": "@daily",
                "duration": "2h",
                "timeZone": "Europe/Berlin",
                "stopPolicy": "Hold",
            }
        ],
        [{"name": "a", "schedule": "x" * 100_000, "duration": "2h", "timeZone": "UTC", "stopPolicy": "Hold"}],
        [{"name": "a", "from": "2030-01-01T00:00:00Z", "until": "2030-01-02T00:00:00Z"}],
    ],
    "windowOverrides": [
        1,
        "nightly",
        {},
        [1],
        [{"window": "a", "start": "2030-01-01T00:00:00Z", "skip": True}],
    ],
    #: What is written there is left out, and said.
    "inWindow": [],
    "namespaceSelector": [
        1,
        "team=a",
        [],
        {"matchLabels": {"a b": "c"}},
        {"matchLabels": {"sluice.dev/queue": "q"}},
        {"matchExpressions": [{"key": "a", "operator": "Like"}]},
        {"matchExpressions": [{"operator": "Exists"}]},
    ],
    "parked": [1, True, [], {}, "", "keep", "Delete", "Recreate\x00"],
    "schedulerPolicy": [1, [], {}, "..", "a/b", "a\x00b", "x" * 254],
    "SchedulerPolicy": [1, [], {}, "a b"],
    "capability": AMOUNTS,
    "deserved": AMOUNTS,
    "guaranteeWhileStopped": ["Give", 1, {}],
    "guarantee": [1, "all", [], {"resource": []}, {"resource": {"cpu": "-1"}}],
}

BAD_METADATA: dict[str, list[Any]] = {
    "name": [1, [], {}, "Research!", "a_b", "a\x00b", "-a", "x" * 254, "x" * 100_000, None, ""],
    "generateName": [1, [], {}],
    "labels": [1, [], {"a": 1}, {"/": "b"}, {"a": "b\x00"}],
    "annotations": [1, [], {"a": 1}, {"/": "b"}, {"a": "x" * 300_000}],
    "ownerReferences": [1, {}, [{"kind": "Pod"}]],
}

CASES = [
    *[("spec", field, value) for field, values in BAD_SPEC.items() for value in values],
    *[("metadata", field, value) for field, values in BAD_METADATA.items() for value in values],
]

#: What every field can be edited to, from what the definition of a queue begins with.
EDITS: dict[str, Any] = {
    "weight": 7,
    "priority": 3,
    "reclaimable": False,
    "dequeueStrategy": "fifo",
    "type": "batch",
    "guarantee": {"resource": {"cpu": "1"}},
    "deserved": {"cpu": "2", "nvidia.com/gpu": 1},
    "capability": {"cpu": "2500m"},
    "affinity": {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["big"]}},
    "extendClusters": [{"name": "other", "weight": 1, "capacity": {"cpu": "1"}}],
    "drain": {
        "rate": 0.5,
        "inFlight": 4,
        "gracePeriodSeconds": 0,
        "keep": {"matchLabels": {"tier": "front"}},
        "deadline": "2999-01-31T18:00:00Z",
    },
    "schedulerPolicy": "packed",
    "reason": "disks",
    "stopPolicy": "Hold",
}


def kept(sandbox: Sandbox, queue: str) -> object:
    """All of a queue that a user wrote."""
    found = sandbox.read_queue(queue)
    meta = found["metadata"]
    return found["spec"], meta["generation"], meta.get("labels"), meta.get("annotations")


def test_bad_input_is_refused_field_by_field(sandbox: Sandbox) -> None:
    """In a new queue and in an edit: the answer is a refusal that names the field, and nothing is changed."""
    assert BAD_SPEC.keys() == {row.name for row in FIELDS}
    queue = sandbox.queue()
    before, queues = kept(sandbox, queue), sandbox.wishes().keys()
    for part, field, value in CASES:
        body = queue_body(sandbox.named("bad"))
        body.setdefault(part, {})[field] = value
        made = sandbox.api.create(QUEUES, body)
        assert 400 <= made.status < 500, (field, value, made.status, made.message)
        assert field in made.message or made.status == 400, (field, str(value)[:99], made.message[:300])
        if field not in ("name", "generateName"):
            edited = sandbox.api.patch(f"{QUEUES}/{queue}", {part: {field: value}})
            assert 400 <= edited.status < 500, (field, value, edited.status, edited.message)
    assert kept(sandbox, queue) == before
    assert sandbox.wishes().keys() == queues


def test_null_is_the_same_as_absent_or_refused(sandbox: Sandbox) -> None:
    """Never an error of the server."""
    for field in BAD_SPEC:
        body = queue_body(sandbox.named("null"))
        body["spec"] = {**body.get("spec", {}), field: None}
        made = sandbox.api.create(f"{QUEUES}?dryRun=All", body)
        assert made.status == 201 or 400 <= made.status < 500, (field, made.status, made.message)


@pytest.mark.parametrize("state", ["Open", "Suspended", "Closing", "Closed"])
def test_every_field_can_be_edited_in_every_state(sandbox: Sandbox, state: str) -> None:
    """Volcano refuses edits of a queue that is Closing; here the state stays and the field is changed."""
    queue = sandbox.queue()
    if state == "Closing":
        sandbox.all_bound(sandbox.pods("live", 1, queue))
    if state != "Open":
        sandbox.patch_queue(queue, state=state.replace("Closing", "Closed")).must()
    sandbox.in_state(queue, state)
    for field, value in EDITS.items():
        found = sandbox.patch_queue(queue, **{field: value}).must().body
        assert (
            {key: found["spec"][field][key] for key in value} == value
            if isinstance(value, dict)
            else (found["spec"][field] == value)
        )
    sandbox.in_state(queue, state)


def test_quota_holds_up_and_down_the_tree(sandbox: Sandbox) -> None:
    """The same edit is refused at the child and at the parent, in words that name the other."""
    parent = sandbox.queue("parent", deserved={"cpu": "10"}, capability={"memory": "8Gi"})
    sandbox.queue("a", parent=parent, deserved={"cpu": "6"}, capability={"memory": "4Gi"})
    second = queue_body(sandbox.named("b"), parent=parent, deserved={"cpu": "4500m"})
    sandbox.api.create(QUEUES, second).must_refuse("spec.deserved.cpu", '"4500m"', parent, 'set "4" at most')
    sandbox.patch_queue(parent, deserved={"cpu": "5"}).must_refuse(
        "spec.deserved.cpu", '"5"', sandbox.named("a")
    )
    sandbox.patch_queue(parent, capability={"memory": "1Gi"}).must_refuse("spec.capability.memory", '"4Gi"')
    sandbox.patch_queue(sandbox.named("a"), guarantee={"resource": {"cpu": "7"}}).must_refuse(
        "spec.guarantee"
    )
    sandbox.patch_queue(parent, deserved={"cpu": "6"}).must()


def test_a_queue_with_pods_gets_no_children_until_they_have_gone(sandbox: Sandbox) -> None:
    """The refusal says how to see them."""
    parent = sandbox.queue("parent")
    sandbox.all_bound(sandbox.pods("live", 2, parent))
    # Counted, so known: else the queue would seem to be empty before and after.
    sandbox.queue_that(
        parent, "count both", lambda found: found["status"].get("pods", {}).get("running") == 2
    )
    child = queue_body(sandbox.named("child"), parent=parent)
    sandbox.api.create(QUEUES, child).must_refuse("spec.parent", "2 pods", "kubectl get pods -A -l")
    sandbox.delete_pods()
    sandbox.queue_that(parent, "be empty", lambda found: not found["status"]["pods"].get("running"))
    sandbox.queue("child", parent=parent)


def test_one_file_may_hold_a_tree(sandbox: Sandbox) -> None:
    """A child is taken in the moment after its parent, which the watch has not told of yet."""
    names = [sandbox.named(f"level-{depth}") for depth in range(4)]
    for above, name in zip(["root", *names], names, strict=False):
        sandbox.api.create(QUEUES, queue_body(name, parent=above)).must(201)
    sandbox.answered(names[-1])
    for name in reversed(names):
        sandbox.remove_queue(name)
