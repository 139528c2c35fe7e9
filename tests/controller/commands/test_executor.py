"""Which Commands are dropped and why, and which a queue records as carried out."""

from __future__ import annotations

import json

import msgspec
import pytest

from cluster.objects import Command, QueueObject
from controller.commands.executor import (
    MAX_RECORDED,
    REASON_LIMIT,
    command_reason,
    drop_reason,
    recorded_commands,
    with_command,
)
from tests.support.cases import each_case
from tests.support.http.wire_objects import Wire, command, queue

STAMPED = {"sluice.dev/author": "alice"}


def dropped(obj: Wire, its_queue: Wire | None) -> str:
    """The reason, by what the API server has stored."""
    target = None if its_queue is None else msgspec.json.decode(json.dumps(its_queue), type=QueueObject)
    return drop_reason(msgspec.json.decode(json.dumps(obj), type=Command), target)


def recreated() -> Wire:
    obj = queue("research")
    obj["metadata"]["uid"] = "another"
    return obj


def without_uid() -> Wire:
    obj = command(annotations=STAMPED)
    obj["target"]["uid"] = ""
    return obj


@pytest.mark.parametrize(
    ("obj", "its_queue"),
    [
        (command(annotations=STAMPED), queue("research")),
        (without_uid(), queue("research")),
        (without_uid(), recreated()),
    ],
    ids=["the UID of the queue", "no UID", "no UID, the queue was recreated"],
)
def test_a_command_with_an_author_for_an_existing_queue_is_not_dropped(obj: Wire, its_queue: Wire) -> None:
    """A target without a UID means the queue of that name."""
    assert dropped(obj, its_queue) == ""


@each_case(
    ("obj", "its_queue", "reason"),
    [
        (command(annotations=STAMPED), None, 'queue "research" does not exist'),
        (command(annotations=STAMPED), recreated(), 'queue "research" was deleted and made again since'),
        (command(), queue("research"), "it bears no author"),
        (command(annotations={"sluice.dev/author": ""}), queue("research"), "it bears no author"),
        (command(annotations=STAMPED, action="Abort"), queue("research"), 'action "Abort" is not known'),
    ],
    ids=["no queue", "the queue was recreated", "no author", "empty author", "unknown action"],
)
def test_any_other_command_is_dropped_with_a_reason(obj: Wire, its_queue: Wire | None, reason: str) -> None:
    assert dropped(obj, its_queue).startswith(reason)


@pytest.mark.parametrize(("text", "uids"), [("", []), ("a", ["a"]), ("a,b", ["a", "b"]), (",a,,", ["a"])])
def test_the_record_is_read_from_the_annotation_of_the_queue(text: str, uids: list[str]) -> None:
    obj = queue("research", annotations={"sluice.dev/commands": text})
    assert recorded_commands(msgspec.json.decode(json.dumps(obj), type=QueueObject)) == uids


FULL = [f"uid-{number}" for number in range(MAX_RECORDED)]


@each_case(
    ("recorded", "existing", "expected"),
    [
        ([], set(), ["new"]),
        (["a", "b"], set(), ["a", "b", "new"]),
        (FULL, set(), [*FULL[1:], "new"]),
        (FULL, {"uid-0"}, [*FULL, "new"]),
        (["gone", *FULL], {"uid-0"}, [*FULL, "new"]),
        (["old", *FULL], {"old"}, ["old", *FULL[1:], "new"]),
    ],
    ids=[
        "first",
        "few",
        "full",
        "full, the oldest exists",
        "longer, the oldest is gone",
        "longer, it exists",
    ],
)
def test_the_record_holds_the_last_uids_and_older_ones_whose_command_exists(
    recorded: list[str], existing: set[str], expected: list[str]
) -> None:
    """Otherwise a Command that cannot be deleted would be carried out a second time."""
    assert with_command(recorded, "new", existing=existing) == expected


def test_the_record_is_bounded() -> None:
    many = [f"uid-{number}" for number in range(10 * MAX_RECORDED)]
    assert len(with_command(many, "new", existing=set(many))) == 2 * MAX_RECORDED


@each_case(
    ("fields", "expected"),
    [
        ({"message": "for the\nupgrade"}, "for the upgrade"),
        ({"reason": "Upgrade"}, "Upgrade"),
        ({"message": "first", "reason": "Second"}, "first"),
        ({"message": "x" * (REASON_LIMIT + 1)}, "x" * (REASON_LIMIT - 1) + "…"),
        ({}, ""),
    ],
    ids=["two lines", "no message", "both", "too long", "neither"],
)
def test_the_reason_of_a_command_fits_into_the_spec(fields: dict[str, str], expected: str) -> None:
    obj = {**command(annotations=STAMPED), "message": "", "reason": "", **fields}
    assert command_reason(msgspec.json.decode(json.dumps(obj), type=Command)) == expected
