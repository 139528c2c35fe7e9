"""The default queues, and the label of namespaces that name a queue."""

from __future__ import annotations

import pytest

from cluster.exceptions import Refused
from cluster.objects import Metadata, Namespace
from controller.controller import RESYNC_SECONDS
from controller.default_objects import default_queue, missing_label
from queues.membership import VOLCANO_ANNOTATION
from queues.well_known import MEMBER_NAMESPACE
from tests.support.cases import each_case
from tests.support.controller.controller_harness import Boundary, ControllerHarness
from tests.support.http import wire_objects

TEAM = "/api/v1/namespaces/team"


@pytest.mark.parametrize(
    ("name", "parent", "reclaimable"), [("root", None, False), ("default", "root", True)]
)
def test_a_default_queue_is_open(name: str, parent: str | None, reclaimable: bool) -> None:
    """Only `root` has no parent, and nothing is reclaimed from it."""
    obj = default_queue(name)
    expected = {"weight": 1, "reclaimable": reclaimable, "state": "Open"}
    assert obj["spec"] == expected | ({"parent": parent} if parent else {})
    assert (obj["kind"], obj["metadata"]) == ("Queue", {"name": name})


@each_case(
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
@each_case("exempt", [frozenset[str](), {"another"}], ids=["none exempt", "another exempt"])
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
    assert harness.bodies(TEAM) == [{"metadata": {"labels": {MEMBER_NAMESPACE: "true"}}}]


class Refusing(Boundary):
    """Refuses the first label of a namespace."""

    def _write(self, method: str, path: str, body: object) -> bytes:
        answer = super()._write(method, path, body)
        if path == TEAM and sum(sent.path == TEAM for sent in self.sent) == 1:
            raise Refused(403, "Forbidden", "namespaces is forbidden")
        return answer


def test_a_label_of_a_namespace_that_is_refused_is_written_again_after_its_back_off() -> None:
    """Not only once something changes a namespace, or at the resync."""
    harness = ControllerHarness(Refusing())
    started = harness.clock.seconds
    harness.receive_events(wire_objects.namespace("team", queue="research"))
    harness.sync()
    assert harness.bodies(TEAM)[:2] == [{"metadata": {"labels": {MEMBER_NAMESPACE: "true"}}}] * 2
    assert harness.clock.seconds < started + RESYNC_SECONDS


def namespace(annotation: str | None, label: str) -> Namespace:
    annotations = {} if annotation is None else {VOLCANO_ANNOTATION: annotation}
    labels = {MEMBER_NAMESPACE: label} if label else {}
    return Namespace(metadata=Metadata(name="team", annotations=annotations, labels=labels))
