"""Decisions of the controller that are functions of values: who was parked, which Commands are dropped."""

from __future__ import annotations

import json

import msgspec
import pytest

from cluster.cache.members import Member
from cluster.objects import Command, QueueObject
from controller.commands import _why_dropped, recorded
from controller.pods.ungating import refused_by_us
from tests.support.http.asking import Server
from tests.support.http.wire_objects import (
    GROUP,
    Wire,
    command,
    member,
    pod,
    queue,
)

STAMPED = {"sluice.dev/author": "alice"}


def parked(obj: Wire, *, message: str) -> Member:
    said = [{"type": "PodScheduled", "status": "False", "message": message}]
    server = Server().has({**obj, "status": {"phase": "Pending", "conditions": said}})
    found = server.store.members.get("team", "work")
    assert found is not None
    return found


REFUSED = (
    '0/3 nodes are available: 3 queue "held" is stopped by stopPolicy Hold; resume it with: '
    "kubectl queue resume held. no new claims to deallocate, preemption: 0/3 nodes are available."
)


def test_a_pod_whose_condition_bears_the_text_of_its_queue_was_refused_by_filter() -> None:
    assert refused_by_us(parked(member(queue="held"), message=REFUSED))


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (member(queue="held"), ""),
        (member(queue="held"), "0/3 nodes are available: 3 Insufficient cpu."),
        (member(queue="other"), REFUSED),
        (member(queue="held", gates=["sluice.dev/queue"]), REFUSED),
        (member(queue="held", nodeName="node-1"), REFUSED),
    ],
    ids=["nothing said", "another cause", "another queue", "gated", "bound"],
)
def test_any_other_pod_was_not(obj: Wire, message: str) -> None:
    assert not refused_by_us(parked(obj, message=message))


def test_a_pod_that_waited_for_its_podgroup_was() -> None:
    text = '3 PodGroup "gang" does not exist; create it with: kubectl create -f PODGROUP'
    assert refused_by_us(parked(pod(annotations={GROUP: "gang"}), message=text))


def dropped(of: Wire, queue_: Wire | None) -> str:
    read = msgspec.json.decode(json.dumps(of), type=Command)
    target = None if queue_ is None else msgspec.json.decode(json.dumps(queue_), type=QueueObject)
    return _why_dropped(read, target)


def test_a_stamped_command_for_the_queue_that_is_there_is_not_dropped() -> None:
    assert dropped(command(annotations=STAMPED), queue("research")) == ""


def test_without_a_target_uid_the_queue_of_that_name_is_meant() -> None:
    of = command(annotations=STAMPED)
    of["target"]["uid"] = ""
    assert dropped(of, queue("research")) == ""


@pytest.mark.parametrize(
    ("of", "there", "why"),
    [
        (command(annotations=STAMPED), None, 'queue "research" does not exist'),
        (command(), queue("research"), "it bears no author"),
        (command(annotations={"sluice.dev/author": ""}), queue("research"), "it bears no author"),
        (command(annotations=STAMPED, action="Abort"), queue("research"), 'action "Abort" is not known'),
    ],
    ids=["no queue", "no author", "empty author", "unknown action"],
)
def test_any_other_is_dropped_with_a_reason(of: Wire, there: Wire | None, why: str) -> None:
    assert dropped(of, there).startswith(why)


def test_a_command_for_a_queue_made_again_since_is_dropped() -> None:
    again = queue("research")
    again["metadata"]["uid"] = "another"
    assert "made again since" in dropped(command(annotations=STAMPED), again)


@pytest.mark.parametrize(("text", "uids"), [("", []), ("a", ["a"]), ("a,b", ["a", "b"]), (",a,,", ["a"])])
def test_the_commands_carried_out_are_read_off_the_queue(text: str, uids: list[str]) -> None:
    obj = queue("research", annotations={"sluice.dev/commands": text})
    assert recorded(msgspec.json.decode(json.dumps(obj), type=QueueObject)) == uids
