"""Which pods hold a reservation that a stop takes from them."""

from __future__ import annotations

import pytest

from controller.pods.nominations import holds_reservation
from tests.support.http.asking import Server
from tests.support.http.wire_objects import Wire, member

NOMINATED = {"phase": "Pending", "nominatedNodeName": "node-1"}


def deleted() -> Wire:
    obj = member(status=NOMINATED)
    obj["metadata"] |= {"deletionTimestamp": "2030-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    return obj


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (member(status=NOMINATED), True),
        (member(), False),
        (member(status=NOMINATED, nodeName="node-1"), False),
        (member(status={**NOMINATED, "phase": "Failed"}), False),
        (deleted(), False),
    ],
    ids=["nominated", "not nominated", "bound", "finished", "being deleted"],
)
def test_a_waiting_pod_that_is_nominated_holds_a_reservation(obj: Wire, expected: bool) -> None:
    stored = Server().has(obj).store.members.get("team", "work")
    assert stored is not None
    assert holds_reservation(stored) is expected
