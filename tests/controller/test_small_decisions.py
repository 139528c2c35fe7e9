"""Which Commands are dropped, and which a queue records as carried out."""

from __future__ import annotations

import json

import msgspec
import pytest

from cluster.objects import Command, QueueObject
from controller.commands import _why_dropped, recorded
from tests.support.http.wire_objects import (
    Wire,
    command,
    queue,
)

STAMPED = {"sluice.dev/author": "alice"}


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
