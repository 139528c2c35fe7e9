"""Why a queue waits, from queues that were read before: a page has all, the command only the chain."""

from __future__ import annotations

from kubectl_queue.objects.fields import name_of
from kubectl_queue.views.why import explain_queue
from tests.support.plugin.harness import item, snapshot

CHAIN = (
    item("a", stopPolicy="HoldAndDrain", reason="new racks", status={"drain": {"left": 1}}),
    item("b", parent="a", state="Closed", status={"drain": {"left": 2}}),
)
OTHERS = (
    item("below", parent="b", status={"drain": {"left": 3}}),
    item("beside", parent="a", state="Suspended"),
)


def test_other_queues_change_the_drain_that_is_reported_and_nothing_else() -> None:
    from_chain, from_all = explain_queue("b", snapshot(*CHAIN)), explain_queue("b", snapshot(*CHAIN, *OTHERS))
    assert from_all.explanation == from_chain.explanation
    assert [stop.queue for stop in from_all.explanation.stops] == ["a"]
    assert [name_of(each) for each in from_chain.draining] == ["b"]
    assert [name_of(each) for each in from_all.draining] == ["b", "below"]
