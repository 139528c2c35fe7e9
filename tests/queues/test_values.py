"""The values that the rules pass around: frozen, so that any thread may hold any of them."""

from __future__ import annotations

import msgspec
import pytest

from queues.admission.accepted_work import WorkOwner
from queues.causes import Cause, CauseKind
from queues.membership import Membership, MembershipSettings, PodFacts, Source
from queues.queue import IMPLIED_ROOT, Queue
from queues.snapshot import QueueSnapshot
from queues.status.conditions import active_condition
from queues.tree import ChainBreak
from tests.support.cases import each_case
from tests.support.rules.cases import (
    NOW,
    asked,
    queue,
    tree,
)

WOOD = tree(queue("q", "ghost"))
VALUES = {
    type(value).__name__: value
    for value in (
        queue("q"),
        WOOD.chain("q"),
        ChainBreak("q", "ghost"),
        asked(WOOD, "q"),
        Cause(kind=CauseKind.SUSPENDED, queue="q", by="q"),
        QueueSnapshot(WOOD, now=NOW).decision("q"),
        active_condition(asked(WOOD, "q")),
        Membership("q", Source.PODGROUP),
        MembershipSettings(),
        PodFacts(namespace="n", labels={}, annotations={}, scheduler="s"),
        WorkOwner(kind="Job", name="j", queue="q", created=NOW),
    )
}


@each_case("value", VALUES.values(), ids=VALUES)
def test_a_value_cannot_be_changed(value: msgspec.Struct) -> None:
    """Writing to a field fails, for the owner of the value as for everyone."""
    name = value.__struct_fields__[0]
    with pytest.raises(AttributeError):
        setattr(value, name, getattr(value, name))


def test_a_queue_that_says_nothing_hangs_under_root_and_is_of_no_edit() -> None:
    """The defaults of a queue are those of an object that was never stored."""
    unasked = Queue(name="q")
    assert (unasked.parent, unasked.uid, unasked.generation, unasked.resume_at, unasked.reason) == (
        "root",
        "",
        0,
        None,
        "",
    )


def test_the_implied_root_is_open_and_on_top() -> None:
    """Until it is made `root` is a queue without a parent and without a wish."""
    assert Queue(name="root", parent=None) == IMPLIED_ROOT
