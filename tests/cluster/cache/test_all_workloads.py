"""Workloads of every kind: what is live, whose queue they are in, and who is on top of whom."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from cluster.cache.workloads import Workload
from cluster.objects import OwnerReference, WorkloadObject
from queues.workload_kinds import KINDS, MAX_OWNERS
from queues.world.workloads import is_live, pod_templates, recorded_queue
from tests.support.cases import each_case
from tests.support.http.asking import Server
from tests.support.http.wire_objects import (
    NAMED,
    WORKLOADS,
    Wire,
    member,
    namespace,
    owner,
    podgroup,
    queue,
    template,
    templates_of,
    workload,
)

QUEUE = "sluice.dev/queue"
EACH = pytest.mark.parametrize("resource", WORKLOADS)
#: The keys of the table, by resource and group.
KEYS = {f"{kind.resource}.{kind.group}": kind for kind in KINDS.values()}


def read(obj: Wire) -> WorkloadObject:
    return msgspec.json.decode(json.dumps(obj), type=WorkloadObject)


def condition(kind: str, status: str = "True") -> Wire:
    return {"conditions": [{"type": kind, "status": status}]}


# Live, by each row of the table of `queues.workload_kinds`

JOB, SET, VOLCANO = "jobs.batch", "jobsets.jobset.x-k8s.io", "jobs.batch.volcano.sh"
LIVE: list[tuple[str, Wire, bool]] = [
    (JOB, {}, True),
    (JOB, {"status": condition("Suspended")}, True),
    (JOB, {"status": condition("Complete", "False")}, True),
    (JOB, {"status": condition("SuccessCriteriaMet")}, True),
    (JOB, {"status": condition("Complete")}, False),
    (JOB, {"status": condition("Failed")}, False),
    (JOB, {"status": condition("Completed")}, True),
    (SET, {}, True),
    (SET, {"status": condition("Completed")}, False),
    (SET, {"status": condition("Failed")}, False),
    (SET, {"status": condition("Suspended")}, True),
    (SET, {"status": {"terminalState": "Completed"}}, False),
    (VOLCANO, {}, True),
    *(
        (VOLCANO, {"status": {"state": {"phase": phase}}}, phase not in {"Completed", "Failed", "Terminated"})
        for phase in [
            *("Pending", "Running", "Restarting", "Completing", "Completed"),
            *("Aborting", "Aborted", "Terminating", "Terminated", "Failed"),
        ]
    ),
    *(
        (f"{kind}.apps", spec, live)
        for kind in ("deployments", "statefulsets", "replicasets")
        for spec, live in (
            ({}, True),
            ({"replicas": None}, True),
            ({"replicas": 1}, True),
            ({"replicas": 0}, False),
        )
    ),
    ("cronjobs.batch", {}, False),
    ("daemonsets.apps", {}, False),
]


@each_case(("resource", "more", "live"), LIVE, ids=str)
def test_what_is_live(resource: str, more: Wire, live: bool) -> None:
    obj = workload(resource, **more)
    assert is_live(KEYS[resource], read(obj)) is live
    server = Server().has(queue("research"), workload(resource, "x", template({NAMED: "research"}), **more))
    assert server.store.live_members.below("research") == live
    assert [one.name for one in server.store.workloads.live_in("research")] == ["x"] * live


# Templates


@EACH
def test_its_templates_are_found_where_its_kind_has_them(resource: str) -> None:
    """The keys lead to the very template."""
    several = resource in {VOLCANO, SET}
    obj = workload(resource, "x", *(template({"n": str(n)}) for n in range(3 if several else 1)))
    found = pod_templates(read(obj))
    assert len(found) == len(templates_of(obj))
    for (keys, one), expected in zip(found, templates_of(obj), strict=True):
        held: Any = obj
        for key in keys:
            held = held[key]
        assert held == expected
        assert one.metadata is not None
        assert one.metadata.annotations == expected["metadata"]["annotations"]


@each_case(
    "spec",
    [
        {},
        {"template": None},
        {"jobTemplate": None},
        {"jobTemplate": {}},
        {"jobTemplate": {"spec": {"template": None}}},
        {"tasks": None},
        {"tasks": [{"template": None}, {}]},
        {"replicatedJobs": None},
        {"replicatedJobs": [{}, {"template": {}}]},
    ],
    ids=str,
)
def test_what_has_no_template_has_none(spec: Wire) -> None:
    assert pod_templates(read({"metadata": {}, "spec": spec})) == []


# Whose queue


@EACH
def test_what_was_written_down_is_its_queue(resource: str) -> None:
    obj = workload(resource, "x", template({NAMED: "research", QUEUE: "labs"}))
    server = Server().has(obj)
    assert found(server, "x").queue == "labs"
    assert recorded_queue(read(obj)) == "labs"


@EACH
def test_of_what_we_were_not_asked_about_the_rules_first_word_is(resource: str) -> None:
    differing = workload(resource, "x", template({NAMED: "research"}), annotations={NAMED: "labs"})
    assert found(Server().has(differing), "x").queue == "research"
    assert found(Server().has(workload(resource, "x")), "x").queue == ""
    server = Server().has(namespace("team", queue="labs"), workload(resource, "x"))
    assert found(server, "x").queue == "labs"


@EACH
@pytest.mark.parametrize("exempt", ["kube-system", "sluice-system"])
def test_an_exempt_namespace_has_none_whatever_was_written(resource: str, exempt: str) -> None:
    server = Server().has(workload(resource, "x", template({NAMED: "q", QUEUE: "q"}), namespace=exempt))
    assert found(server, "x").queue == ""


@EACH
def test_it_is_found_by_its_uid_and_by_its_name_among_its_kind(resource: str) -> None:
    server = Server().has(workload(resource, "x"), workload(resource, "y"))
    held = server.store.workloads.of_kind[KEYS[resource].key]
    one = held.by_name("team", "x")
    assert one is not None
    assert server.store.workloads.by_uid("uid-x") == one
    assert held.by_name("far", "x") is None
    assert held.by_name("team", "z") is None
    assert str(one) == f"{KEYS[resource].kind.lower()} team/x"
    server.lacks(workload(resource, "x"))
    assert server.store.workloads.by_uid("uid-x") is None


def test_those_of_every_kind_are_counted_together() -> None:
    server = Server().has(
        queue("labs"),
        queue("research", parent="labs"),
        *(workload(resource, resource, template({NAMED: "research"})) for resource in WORKLOADS),
        podgroup("gang", queue="labs"),
        podgroup("done", queue="labs", status={"phase": "Completed"}),
        member("a", queue="labs"),
    )
    assert server.store.workloads.live(["research"]) == len(WORKLOADS) - 2, "a CronJob and a DaemonSet never"
    assert server.store.live_members.below("research") == len(WORKLOADS) - 2
    assert server.store.live_members.below("labs") == len(WORKLOADS)


# Owners


def found(server: Server, name: str) -> Workload:
    one = server.store.workloads.by_uid(f"uid-{name}")
    assert one is not None
    return one


def top(server: Server, references: list[Wire] | None, where: str = "team") -> str | None:
    read_ones = None if references is None else [msgspec.convert(one, OwnerReference) for one in references]
    one = server.store.workloads.topmost(read_ones, namespace=where)
    return one.name if one else None


def chain(*resources: str) -> list[Wire]:
    """Workloads, each owned by the one before."""
    made: list[Wire] = []
    for number, resource in enumerate(resources):
        above = owner(made[-1]) if made else None
        made.append(workload(resource, f"w{number}", owner=above))
    return made


@each_case(
    ("resources", "name"),
    [
        ((JOB,), "w0"),
        (("deployments.apps", "replicasets.apps"), "w0"),
        ((SET, JOB), "w0"),
        (("cronjobs.batch", JOB), "w1"),
        (("cronjobs.batch",), None),
        ((JOB, "cronjobs.batch", JOB), "w2"),
    ],
    ids=str,
)
def test_the_topmost_is_the_last_that_answers_for_what_it_makes(
    resources: tuple[str, ...], name: str | None
) -> None:
    made = chain(*resources)
    assert top(Server().has(*made), [owner(made[-1])]) == name


def test_one_that_is_not_there_ends_the_chain() -> None:
    above, below = chain("deployments.apps", "replicasets.apps")
    assert top(Server().has(below), [owner(below)]) == "w1"
    assert top(Server().has(above), [owner(below)]) is None
    assert top(Server(), None) is None
    assert top(Server(), []) is None


def test_only_controllers_count_and_only_in_their_namespace() -> None:
    [one] = chain(JOB)
    server = Server().has(one)
    assert top(server, [owner(one)]) == "w0"
    assert top(server, [owner(one, controller=False)]) is None
    assert top(server, [owner(one, controller=None)]) is None
    assert top(server, [owner(one)], where="far") is None
    assert top(server, [{**owner(one), "uid": ""}]) is None


def test_a_chain_that_leaves_its_namespace_ends_there() -> None:
    above = workload("deployments.apps", "above", namespace="far")
    below = workload("replicasets.apps", "below", owner=owner(above))
    assert top(Server().has(above, below), [owner(below)]) == "below"


def test_owners_in_a_ring_come_to_an_end() -> None:
    first = workload(JOB, "first")
    second = workload(JOB, "second", owner=owner(first))
    first["metadata"]["ownerReferences"] = [owner(second)]
    alone = workload(JOB, "alone")
    alone["metadata"]["ownerReferences"] = [owner(alone)]
    server = Server().has(first, second, alone)
    assert top(server, [owner(first)]) in {"first", "second"}
    assert top(server, [owner(alone)]) == "alone"


def test_a_chain_is_followed_only_so_far() -> None:
    made = chain(*[JOB] * (MAX_OWNERS + 3))
    assert top(Server().has(*made), [owner(made[-1])]) == "w3"
