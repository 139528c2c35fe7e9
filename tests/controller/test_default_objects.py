"""The default queues, and the label of namespaces that name a queue."""

from __future__ import annotations

import pytest

from cluster.objects import Metadata, Namespace
from controller.default_objects import default_queue, missing_label
from queues.membership import VOLCANO_ANNOTATION
from queues.well_known import MEMBER_NAMESPACE
from tests.support.controller.controller_harness import ControllerHarness
from tests.support.http import wire_objects


@pytest.mark.parametrize(
    ("name", "parent", "reclaimable"), [("root", None, False), ("default", "root", True)]
)
def test_a_default_queue_is_open(name: str, parent: str | None, reclaimable: bool) -> None:
    """Only `root` has no parent, and nothing is reclaimed from it."""
    obj = default_queue(name)
    expected = {"weight": 1, "reclaimable": reclaimable, "state": "Open"}
    assert obj["spec"] == expected | ({"parent": parent} if parent else {})
    assert (obj["kind"], obj["metadata"]) == ("Queue", {"name": name})


@pytest.mark.parametrize(
    ("annotation", "label", "expected"),
    [
        ("research", "true", None),
        ("research", "", True),
        ("", "", None),
        ("", "true", False),
        (None, "true", False),
    ],
    ids=["both", "no label", "neither", "empty annotation", "no annotation"],
)
@pytest.mark.parametrize("exempt", [frozenset[str](), {"another"}], ids=["none exempt", "another exempt"])
def test_a_namespace_has_the_label_just_while_it_names_a_queue(
    annotation: str | None, label: str, expected: bool | None, exempt: frozenset[str]
) -> None:
    assert missing_label(namespace(annotation, label), exempt=exempt) is expected


@pytest.mark.parametrize(("label", "expected"), [("true", False), ("", None)])
def test_a_namespace_that_is_exempt_has_no_label(label: str, expected: bool | None) -> None:
    assert missing_label(namespace("research", label), exempt={"team"}) is expected


def test_a_namespace_that_comes_to_name_a_queue_is_labelled_in_the_next_sync() -> None:
    harness = ControllerHarness()
    harness.receive_events(wire_objects.namespace("team"))
    harness.sync()
    harness.receive_events(wire_objects.namespace("team", queue="research", version=2), event="MODIFIED")
    harness.sync()
    assert harness.bodies("/api/v1/namespaces/team") == [{"metadata": {"labels": {MEMBER_NAMESPACE: "true"}}}]


def namespace(annotation: str | None, label: str) -> Namespace:
    annotations = {} if annotation is None else {VOLCANO_ANNOTATION: annotation}
    labels = {MEMBER_NAMESPACE: label} if label else {}
    return Namespace(metadata=Metadata(name="team", annotations=annotations, labels=labels))
