"""`/mutate/commands`: known actions only, and the author stamped over what was written."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.cases import each_case, with_new
from tests.support.http.asking import Said, Server
from tests.support.http.wire_objects import (
    Wire,
    command,
    queue,
)
from tests.support.webhooks.json_patch import applied

AUTHOR = "sluice.dev/author"


def new_server() -> Server:
    return Server().has(queue("research"))


@pytest.fixture
def server() -> Server:
    return new_server()


def stamped(server: Server, of: Wire, **request: Any) -> tuple[Wire, Said]:
    answer = server.ask("/mutate/commands", of, **request)
    assert answer.allowed, answer.message
    assert all(len(warning) < 120 for warning in answer.warnings)
    return applied(answer.patch, of), answer


@each_case("action", ["OpenQueue", "CloseQueue", "SuspendQueue", "ResumeQueue"])
@with_new(server=new_server)
def test_each_action_is_stamped_with_who_sent_it(server: Server, action: str) -> None:
    after, answer = stamped(server, command(action=action), user="alice")
    assert after["metadata"]["annotations"] == {AUTHOR: "alice"}
    assert answer.warnings == []


def test_no_command_opens_a_queue_that_is_being_deleted() -> None:
    """A stop of it may still be commanded, and undone where that opens nothing."""
    for state, action, allowed in (
        ("Closed", "OpenQueue", False),
        ("Suspended", "OpenQueue", False),
        ("Suspended", "ResumeQueue", False),
        ("Closed", "ResumeQueue", True),
        ("Closed", "SuspendQueue", True),
        ("Suspended", "CloseQueue", True),
    ):
        leaving = queue("research", state=state)
        leaving["metadata"]["deletionTimestamp"] = "2029-12-31T00:00:00Z"
        answer = Server().has(leaving).ask("/mutate/commands", command(action=action))
        assert answer.allowed is allowed, (state, action)
        assert allowed or 'queue "research" is being deleted and cannot be opened' in answer.message


@each_case("held", [{AUTHOR: "root"}, {AUTHOR: "", "a": "b"}, {}, None])
@with_new(server=new_server)
def test_the_author_is_the_requests_whatever_was_written(server: Server, held: dict[str, str] | None) -> None:
    after, _ = stamped(server, command(annotations=held), user="mallory")
    assert after["metadata"]["annotations"] == {**(held or {}), AUTHOR: "mallory"}


@each_case("action", ["", "openqueue", "OpenQueue ", "AbortJob", "Nonsense\n\x00"])
@with_new(server=new_server)
def test_an_unknown_action_is_refused_by_name_with_those_that_there_are(server: Server, action: str) -> None:
    answer = server.ask("/mutate/commands", command(action=action))
    assert (answer.allowed, answer.code) == (False, 422)
    assert answer.message.startswith("action: ")
    assert answer.message.endswith("use one of OpenQueue, CloseQueue, SuspendQueue, ResumeQueue")
    assert answer.message.isprintable()


@each_case("target", ["", "Research", "a/b", "x" * 300])
@with_new(server=new_server)
def test_a_target_that_is_no_queues_name_is_refused(server: Server, target: str) -> None:
    answer = server.ask("/mutate/commands", command(target=target))
    assert (answer.allowed, answer.code) == (False, 422)
    assert answer.message.startswith("target.name: ")


def test_root_cannot_be_closed_and_the_refusal_says_what_can_be_done(server: Server) -> None:
    answer = server.ask("/mutate/commands", command(action="CloseQueue", target="root"))
    assert not answer.allowed
    assert answer.message.endswith("kubectl queue suspend root")
    assert server.ask("/mutate/commands", command(action="SuspendQueue", target="root")).allowed


def aimed(**target: object) -> Wire:
    """A Command whose target differs in these fields; without those that are `...`."""
    made = command()
    fields = {**made["target"], **target}
    return {**made, "target": {key: value for key, value in fields.items() if value is not ...}}


BATCH = "batch.volcano.sh/v1alpha1"


@each_case(
    "target",
    [
        {"apiVersion": BATCH, "kind": "Job", "name": "train"},
        {"kind": "Job", "name": "x"},
        {"kind": "PodGroup"},
    ],
    ids=["job", "bare", "group"],
)
@with_new(server=new_server)
def test_commands_for_other_kinds_are_left_alone(server: Server, target: Wire) -> None:
    other = {**command(action="AbortJob"), "target": target}
    assert server.ask("/mutate/commands", other).patch == []


@each_case("kind", ["queue", "QUEUE", "queues", "Queues", "q"])
@with_new(server=new_server)
def test_a_target_that_means_a_queue_by_another_kind_is_refused(server: Server, kind: str) -> None:
    """Nobody would ever act on it, and it would stay for ever."""
    answer = server.ask("/mutate/commands", aimed(kind=kind))
    assert (answer.allowed, answer.code) == (False, 422)
    assert answer.message.startswith("target.kind: ")
    assert answer.message.endswith("use kind: Queue, apiVersion: scheduling.volcano.sh/v1beta1")
    assert len(answer.message) < 300


@each_case("version", ["", "v1", "batch/v1", BATCH, "scheduling.volcano.sh.x/v1", "x" * 5000])
@with_new(server=new_server)
def test_a_queue_of_another_group_is_refused(server: Server, version: str) -> None:
    answer = server.ask("/mutate/commands", aimed(apiVersion=version))
    assert (answer.allowed, answer.code) == (False, 422)
    assert answer.message.startswith("target.apiVersion: ")
    assert len(answer.message) < 300


def test_a_queue_of_an_older_version_is_a_queue(server: Server) -> None:
    assert server.ask("/mutate/commands", aimed(apiVersion="scheduling.volcano.sh/v1alpha1")).allowed


@each_case("target", [None, {}, {"kind": ""}, {"kind": "", "name": "research"}], ids=str)
@with_new(server=new_server)
def test_a_command_for_nothing_is_refused(server: Server, target: Wire | None) -> None:
    answer = server.ask("/mutate/commands", {**command(), "target": target})
    assert (answer.allowed, answer.code) == (False, 422)
    assert answer.message.startswith("target: names no kind; ")


@each_case("name", ["absent", ".".join(["q" * 60] * 4)], ids=["short", "long"])
@with_new(server=new_server)
def test_a_queue_that_is_not_there_gets_a_warning_that_clients_show_whole(server: Server, name: str) -> None:
    _, answer = stamped(server, command(target=name))
    [warning] = answer.warnings
    assert warning.startswith(f'queue "{name}"'[:60])
