"""`/mutate/namespaces`: a label mirrors that a namespace names a queue, whatever a user wrote there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.cases import each_case
from tests.support.http.asking import Server
from tests.support.http.wire_objects import (
    NAMED,
    Wire,
    namespace,
    queue,
)
from tests.support.webhooks.json_patch import applied

LABEL = "sluice.dev/member-namespace"


def mirrored(of: Wire, **request: Any) -> dict[str, str]:
    """The labels that will be stored."""
    answer = Server().ask("/mutate/namespaces", of, **request)
    assert answer.allowed, answer.message
    labels = applied(answer.patch, of)["metadata"].get("labels")
    return dict(labels or {})


def with_labels(of: Wire, labels: dict[str, str] | None) -> Wire:
    return {**of, "metadata": {**of["metadata"], "labels": labels}}


@each_case("held", [None, {}, {"a": "b"}, {LABEL: "true"}, {LABEL: "no", "a": "b"}], ids=str)
def test_a_namespace_that_names_a_queue_gets_the_label(held: dict[str, str] | None) -> None:
    of = with_labels(namespace("team", queue="research"), held)
    assert mirrored(of) == {**(held or {}), LABEL: "true"}
    assert mirrored(of, old=namespace("team"), operation="UPDATE") == {**(held or {}), LABEL: "true"}


@each_case("held", [None, {}, {"a": "b"}, {LABEL: "true", "a": "b"}, {LABEL: ""}], ids=str)
@each_case("annotations", [None, {}, {"x": "y"}, {NAMED: ""}], ids=str)
def test_any_other_does_not(held: dict[str, str] | None, annotations: dict[str, str] | None) -> None:
    of = with_labels(namespace("team"), held)
    of["metadata"]["annotations"] = annotations
    assert mirrored(of) == {key: value for key, value in (held or {}).items() if key != LABEL}


@pytest.mark.parametrize("name", ["kube-system", "sluice-system"])
def test_namespaces_that_never_hold_members_do_not(name: str) -> None:
    assert LABEL not in mirrored(namespace(name, queue="research"))


@each_case(
    ("name", "fault"),
    [
        ("Research", "'R' at position 1"),
        ("a b", "' ' at position 2"),
        ("x" * 254, "254 characters, and 253 are allowed"),
        ("a\u202eb", "U+202E at position 2"),
        ("../a", "'/' at position 3"),
    ],
    ids=lambda text: text[:9],
)
def test_a_name_that_no_queue_can_have_is_refused_with_what_is_wrong(name: str, fault: str) -> None:
    answer = Server().ask("/mutate/namespaces", namespace("team", queue=name))
    assert (answer.allowed, answer.code) == (False, 422)
    assert answer.message.startswith(f"metadata.annotations[{NAMED}]: ")
    assert f"is not a queue name: {fault}; names are made of lower case letters" in answer.message
    assert answer.message.isprintable()


def test_what_is_right_already_is_not_written() -> None:
    of = with_labels(namespace("team", queue="research"), {LABEL: "true"})
    assert Server().ask("/mutate/namespaces", of).patch == []


def test_a_namespace_that_comes_to_name_a_queue_that_does_not_exist_is_warned() -> None:
    server, named = Server(), namespace("team", queue="research")
    expected = [
        'queue "research" does not exist: pods of this namespace wait; '
        "name another queue, or have an admin of queues create it"
    ]
    assert server.ask("/mutate/namespaces", named).warnings == expected
    update = {"operation": "UPDATE", "old": namespace("team", queue="labs")}
    assert server.ask("/mutate/namespaces", named, **update).warnings == expected
    server.has(queue("research"))
    assert server.ask("/mutate/namespaces", named).warnings == []


def test_a_namespace_that_names_a_missing_queue_is_asked_whether_a_near_one_was_meant() -> None:
    server = Server().has(queue("research"))
    warnings = server.ask("/mutate/namespaces", namespace("team", queue="reasearch")).warnings
    assert warnings[1:] == ['did you mean queue "research"?']


def test_a_long_name_of_a_missing_queue_is_cut_and_the_way_out_stays() -> None:
    (warning,) = Server().ask("/mutate/namespaces", namespace("team", queue="r" * 60)).warnings
    assert len(warning) < 120
    assert warning.startswith(f'queue "{"r" * 7}')
    assert warning.endswith(": name another queue, or have an admin of queues create it")


def test_a_namespace_that_named_the_missing_queue_before_is_not_warned_again() -> None:
    """Whoever sets another label has nothing to do with it."""
    named = namespace("team", queue="research")
    answer = Server().ask("/mutate/namespaces", with_labels(named, {"a": "b"}), operation="UPDATE", old=named)
    assert (answer.allowed, answer.warnings) == (True, [])


@pytest.mark.parametrize("name", ["kube-system", "sluice-system"])
def test_a_namespace_that_never_holds_members_is_not_warned(name: str) -> None:
    assert Server().ask("/mutate/namespaces", namespace(name, queue="research")).warnings == []
