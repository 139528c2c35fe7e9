"""`/mutate/namespaces`: a label mirrors that a namespace names a queue, whatever a user wrote there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.http.asking import Server
from tests.support.http.wire_objects import (
    NAMED,
    Wire,
    namespace,
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


@pytest.mark.parametrize("held", [None, {}, {"a": "b"}, {LABEL: "true"}, {LABEL: "no", "a": "b"}], ids=str)
def test_a_namespace_that_names_a_queue_bears_the_label(held: dict[str, str] | None) -> None:
    of = with_labels(namespace("team", queue="research"), held)
    assert mirrored(of) == {**(held or {}), LABEL: "true"}
    assert mirrored(of, old=namespace("team"), operation="UPDATE") == {**(held or {}), LABEL: "true"}


@pytest.mark.parametrize("held", [None, {}, {"a": "b"}, {LABEL: "true", "a": "b"}, {LABEL: ""}], ids=str)
@pytest.mark.parametrize("annotations", [None, {}, {"x": "y"}, {NAMED: ""}], ids=str)
def test_any_other_does_not(held: dict[str, str] | None, annotations: dict[str, str] | None) -> None:
    of = with_labels(namespace("team"), held)
    of["metadata"]["annotations"] = annotations
    assert mirrored(of) == {key: value for key, value in (held or {}).items() if key != LABEL}


@pytest.mark.parametrize("name", ["kube-system", "sluice-system"])
def test_namespaces_that_never_hold_members_do_not(name: str) -> None:
    assert LABEL not in mirrored(namespace(name, queue="research"))


@pytest.mark.parametrize(
    "name", ["Research", "a b", "x" * 254, "a\u202eb", "../a"], ids=lambda name: name[:9]
)
def test_a_name_that_no_queue_can_bear_is_refused(name: str) -> None:
    answer = Server().ask("/mutate/namespaces", namespace("team", queue=name))
    assert (answer.allowed, answer.code) == (False, 422)
    assert answer.message.startswith(f"metadata.annotations[{NAMED}]: ")
    assert "use lower case letters" in answer.message
    assert answer.message.isprintable()


def test_what_is_right_already_is_not_written() -> None:
    of = with_labels(namespace("team", queue="research"), {LABEL: "true"})
    assert Server().ask("/mutate/namespaces", of).patch == []
