"""`/validate/queues`: fields and quota, in every state; and pods, which children may not join."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.cases import each_case
from tests.support.http.asking import Server
from tests.support.http.wire_objects import (
    Wire,
    member,
    queue,
)
from tests.support.webhooks.json_patch import applied
from tests.webhooks.queues.test_queue_edits import (
    STANDINGS,
    create,
    delete,
    edit,
    refused,
    with_spec,
)

#: A value that each field may be edited to, from nothing.
EDITS: dict[str, Any] = {
    "weight": 7,
    "priority": 3,
    "reclaimable": False,
    "dequeueStrategy": "fifo",
    "type": "batch",
    "guarantee": {"resource": {"cpu": "1"}},
    "deserved": {"cpu": "2"},
    "capability": {"cpu": "3"},
    "affinity": {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["big"]}},
    "extendClusters": [{"name": "other", "weight": 1}],
    "drain": {"rate": 2, "inFlight": 4},
    "schedulerPolicy": "packed",
    "reason": "disks",
    "parent": "labs",
    "stopPolicy": "Hold",
}


@each_case("standing", STANDINGS)
def test_every_field_can_be_edited_in_every_state(standing: str) -> None:
    """Volcano refuses edits of a queue that is Closing."""
    before, others = STANDINGS[standing]
    for field, value in EDITS.items():
        server = Server().has(queue("labs"), before, *others)
        after = with_spec(before, **{field: value})
        mutation = server.ask("/mutate/queues", after, old=before, operation="UPDATE")
        answer = edit(server, before, applied(mutation.patch, after))
        assert answer.allowed, (field, answer.message)


@each_case(
    ("field", "value"),
    [
        ("weight", 0),
        ("capability", {"cpu": "-1"}),
        ("deserved", {"memory": "much"}),
        ("guarantee", {"resource": {"cpu": "1e40"}}),
        ("drain", {"rate": 0}),
        ("reason", "a\x00b"),
        ("parent", "Labs!"),
        ("schedulerPolicy", "../etc"),
    ],
)
@each_case("creating", [True, False])
def test_a_bad_field_is_refused_by_name(field: str, value: object, creating: bool) -> None:
    """Whether the queue is new or edited; and what is stored already is no reason to refuse an edit."""
    server, before = Server().has(queue("q")), queue("q")
    after = with_spec(before, **{field: value})
    answer = create(server, after) if creating else edit(server, before, after)
    assert (answer.allowed, answer.code) == (False, 422)
    assert answer.message.startswith(f"spec.{field}"), answer.message
    if field != "parent":
        assert edit(server, after, with_spec(after, priority=1)).allowed


def test_a_queue_is_mended_whatever_is_stored() -> None:
    """Wrong types in the stored object keep nobody from editing it."""
    before = {**queue("q"), "spec": {"parent": 7, "state": [], "capability": "all"}}
    assert edit(Server(), before, queue("q")).allowed


@pytest.mark.parametrize(("name", "state"), [("root", "Closed"), ("q", "Closed")])
def test_a_wish_that_should_not_be_stored_stands_in_no_other_edits_way(name: str, state: str) -> None:
    """`root` that is Closed, and a Closed queue with a `resumeAt`."""
    before = queue(name, state=state, resumeAt="2031-01-01T00:00:00Z")
    server = Server().has(before)
    assert edit(server, before, with_spec(before, weight=9)).allowed
    assert edit(server, before, with_spec(before, state="Open")).allowed


# Quota


LABS = queue("labs", deserved={"cpu": "10"}, capability={"cpu": "20"})


def lab(name: str, cpu: str, **more: Any) -> Wire:
    return queue(name, parent="labs", deserved={"cpu": cpu}, **more)


def test_within_a_queue_guarantee_deserved_and_capability_go_up() -> None:
    after = queue("q", deserved={"cpu": "1500m"}, capability={"cpu": "1"})
    refused(create(Server(), after), by='spec.deserved.cpu: "1500m" is more than', way_out="raise the other")


def test_siblings_share_what_their_parent_has() -> None:
    server = Server().has(LABS, lab("a", "4"), lab("b", "4"))
    refused(create(server, lab("c", "3")), by='spec.deserved.cpu: "3" makes "11"', way_out='set "2" at most')
    assert create(server, lab("c", "2")).allowed
    refused(edit(server, lab("b", "4"), lab("b", "7")), by="spec.deserved.cpu", way_out='set "4" at most')


def test_a_queue_that_moves_brings_its_quota_along() -> None:
    server = Server().has(LABS, lab("a", "4"))
    loner = queue("loner", deserved={"cpu": "7"}, version=3)
    server.has(loner)
    refused(edit(server, loner, with_spec(loner, parent="labs")), by="spec.deserved.cpu", way_out="labs")


def test_a_parent_may_not_shrink_below_its_children() -> None:
    server = Server().has(LABS, lab("a", "4"), lab("b", "4", capability={"cpu": "15"}))
    smaller = with_spec(LABS, deserved={"cpu": "7"})
    refused(edit(server, LABS, smaller), by='spec.deserved.cpu: "7" is less', way_out='"a" "4", "b" "4"')
    lower = with_spec(LABS, capability={"cpu": "12"})
    refused(edit(server, LABS, lower), by='spec.capability.cpu: "12" is less', way_out='"b" "15"')
    assert edit(server, LABS, with_spec(LABS, deserved={"cpu": "8"})).allowed


def test_a_closing_parents_quota_may_be_edited() -> None:
    """Volcano refuses it; the rules of quota hold as ever."""
    closing = with_spec(LABS, state="Closed")
    server = Server().has(closing, lab("a", "4"), member("live", queue="a", nodeName="node-1"))
    assert edit(server, closing, with_spec(closing, deserved={"cpu": "5"})).allowed
    assert not edit(server, closing, with_spec(closing, deserved={"cpu": "3"})).allowed


def test_two_that_ask_at_once_do_not_share_the_same_rest() -> None:
    """The second is judged by the first, though the watch has not told of it."""
    server = Server().has(LABS)
    assert create(server, lab("a", "6")).allowed
    refused(create(server, lab("b", "6")), by="spec.deserved.cpu", way_out='set "4" at most')


# Pods


def test_a_queue_with_pods_gets_no_children() -> None:
    """Neither a new one nor one that moves; the refusal says how many pods and how to see them."""
    server = Server().has(queue("labs"), queue("q"), member("one", queue="labs"), member("two", queue="labs"))
    for answer in (create(server, queue("new", parent="labs")), edit(server, queue("q"), lab("q", "1"))):
        refused(answer, by='spec.parent: queue "labs" has 2 pods', way_out="-l sluice.dev/queue=labs")


def test_pods_that_have_ended_keep_no_child_away() -> None:
    done = member("done", queue="labs", status={"phase": "Succeeded"})
    assert create(Server().has(queue("labs"), done), queue("new", parent="labs")).allowed


def test_root_takes_children_whatever_is_in_it() -> None:
    """It is the parent of whoever names none: pods in it would keep every queue from being made."""
    server = Server().has(queue("root"), member("one", queue="root"))
    assert create(server, queue("new")).allowed


def test_default_is_a_queue_like_any_other() -> None:
    server = Server().has(queue("default"), member("one", queue="default"))
    refused(create(server, queue("new", parent="default")), by="spec.parent: ", way_out="another parent")


def test_a_child_of_a_queue_that_got_pods_since_may_be_edited_and_deleted() -> None:
    """Only the edit that puts it there is judged."""
    child = queue("child", parent="labs", state="Closed", status={"state": "Closed", "observedGeneration": 1})
    labs = queue("labs", status={"observedGeneration": 1})
    server = Server().has(labs, child, member("one", queue="labs"))
    assert edit(server, child, with_spec(child, weight=2)).allowed
    assert edit(server, child, with_spec(child, parent="root")).allowed
    assert delete(server, child).allowed is True
