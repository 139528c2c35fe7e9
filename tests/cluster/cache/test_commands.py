"""Commands as values: found by their queue, the past refused, nothing kept of what is gone."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from cluster.cache.commands import NO_TARGET, Commands
from cluster.objects import Command
from tests.support.cases import each_case
from tests.support.http.wire_objects import command
from tests.support.rules.cases import MODEST

QUEUES = ("a", "b")


def read(name: str, *, queue: str = "a", version: int = 1, kind: str = "Queue") -> Command:
    obj: dict[str, Any] = command(name, target=queue, version=version)
    obj["target"]["kind"] = kind
    return msgspec.json.decode(json.dumps(obj), type=Command)


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["upsert", "remove", "drop"]),
        st.sampled_from(["one", "two", "three"]),
        st.integers(1, 4),
    ),
    max_size=20,
)
#: Where each Command aims: that never changes.
AIMS = {"one": "a", "two": "b", "three": "a"}


@MODEST
@given(EVENTS)
def test_those_of_a_queue_are_those_held_that_aim_at_it(events: list[tuple[str, str, int]]) -> None:
    told: list[str] = []
    commands = Commands(on_change=told.append)
    held: dict[str, int] = {}
    for what, name, version in events:
        obj = read(name, queue=AIMS[name], version=version)
        if what == "drop":
            commands.drop(f"uid-{name}")
            held.pop(name, None)
        else:
            getattr(commands, what)(obj)
            if version >= held.get(name, 0):
                held.pop(name, None)
                held |= {name: version} if what == "upsert" else {}
        for queue in QUEUES:
            expected = {(n, v) for n, v in held.items() if AIMS[n] == queue}
            assert {(c.metadata.name, c.metadata.version) for c in commands.for_queue(queue)} == expected
        assert len(commands.all()) == len(held)
    assert set(told) <= set(QUEUES)
    assert set(commands.queues()) == {AIMS[name] for name in held}


def test_a_list_replaces_all() -> None:
    commands = Commands(on_change=lambda _queue: None)
    commands.upsert(read("old"))
    commands.replace([read("new", queue="b")])
    assert [one.metadata.name for one in commands.all()] == ["new"]
    assert (commands.for_queue("a"), len(commands.for_queue("b"))) == ([], 1)


@each_case(
    "target",
    [
        {"kind": "queue"},
        {"kind": ""},
        {"apiVersion": "batch/v1"},
        {"name": ""},
        {"name": "A b"},
        {"name": "?"},
        None,
    ],
    ids=str,
)
def test_one_that_names_no_queue_is_there_to_be_dropped(target: dict[str, str] | None) -> None:
    told: list[str] = []
    commands = Commands(on_change=told.append)
    obj: dict[str, Any] = command("odd", target="a")
    obj["target"] = {**obj["target"], **target} if target is not None else None
    commands.upsert(msgspec.json.decode(json.dumps(obj), type=Command))
    assert (told, len(commands.for_queue(NO_TARGET)), commands.for_queue("a")) == ([NO_TARGET], 1, [])
    commands.drop("uid-odd")
    assert commands.for_queue(NO_TARGET) == []


def test_one_for_another_kind_is_of_no_queue() -> None:
    told: list[str] = []
    commands = Commands(on_change=told.append)
    commands.upsert(read("other", kind="Job"))
    assert (commands.for_queue("a"), told, len(commands.all())) == ([], [], 1)
