"""`/validate/queues`: names of resources in a quota that nothing counts, or that nothing here has."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.cache.node_totals import NodeCapacity, SizedNode
from cluster.objects import Metadata
from tests.support.cases import each_case, with_new
from tests.support.http.asking import Said, Server
from tests.support.http.wire_objects import member, queue


@pytest.fixture
def server() -> Server:
    """With nodes that have GPUs, and a queue with a quota."""
    made = Server()
    made.has(queue("root", parent=""), queue("lab", capability={"cpu": "1"}))
    allocatable: Any = {"cpu": "4", "nvidia.com/gpu": "8"}
    made.store.node_totals.replace([SizedNode(Metadata(name="a"), NodeCapacity(allocatable))])
    return made


def edit(server: Server, before: dict[str, Any], after: dict[str, Any]) -> Said:
    was, wanted = queue("q", **before), queue("q", **after)
    server.has(was)
    return server.ask("/validate/queues", wanted, old=was, operation="UPDATE")


@each_case("field", ["capability", "deserved", "guarantee"])
@each_case("name", ["requests.cpu", "limits.memory", "CPU", "Memory", "requests.nvidia.com/gpu"])
@with_new(server=Server)
def test_a_mistake_is_refused(server: Server, field: str, name: str) -> None:
    amounts: dict[str, Any] = {name: "1"}
    spec: dict[str, Any] = {field: {"resource": amounts} if field == "guarantee" else amounts}
    answer = server.ask("/validate/queues", queue("q", **spec))
    assert (answer.allowed, answer.code) == (False, 422)
    assert f'"{name}": nothing counts that, since no pod can request it; did you mean' in answer.message


def test_a_mistake_that_is_stored_stays_editable_around_and_can_be_removed(server: Server) -> None:
    stored = {"capability": {"CPU": "1"}}
    assert edit(server, stored, {**stored, "weight": 3}).allowed
    assert edit(server, stored, {"capability": {"CPU": "2", "cpu": "2"}}).allowed
    assert edit(server, stored, {"capability": {"cpu": "2"}}).allowed
    assert not edit(server, stored, {"capability": {"CPU": "1", "Memory": "1"}}).allowed
    assert not edit(server, stored, {**stored, "deserved": {"CPU": "1"}}).allowed


def test_what_no_node_has_is_warned_of_with_what_was_meant(server: Server) -> None:
    answer = edit(server, {}, {"capability": {"nvidia.com/gpus": 4, "example.com/later": 1, "cpu": 1}})
    assert answer.warnings == [
        "spec.capability names what no node has and no pod of a queue uses yet: nvidia.com/gpus (did you "
        "mean nvidia.com/gpu?), example.com/later"
    ]


def test_what_a_member_uses_is_known(server: Server) -> None:
    resources = {"requests": {"example.com/x": "1"}}
    server.has(member("runs", "lab", resources=resources, nodeName="a", status={"phase": "Running"}))
    assert edit(server, {}, {"capability": {"example.com/x": 4}}).warnings == []


def test_without_nodes_nothing_is_held_against_a_name_with_a_domain() -> None:
    server = Server()
    assert edit(server, {}, {"capability": {"nvidia.com/gpus": 4}}).warnings == []
    [text] = edit(server, {}, {"capability": {"gpu": 4}}).warnings
    assert text.endswith("gpu (did you mean nvidia.com/gpu?)")


def test_two_hundred_names_that_nothing_has_are_one_warning(server: Server) -> None:
    amounts = {f"example.com/x{number}": 1 for number in range(256)}
    [text] = edit(server, {}, {"capability": amounts}).warnings
    assert text.endswith(" and 253 more")
