"""`/validate/queues`: the table of actions cell by cell, the tree, and deletion."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.cases import each_case
from tests.support.http.asking import Said, Server
from tests.support.http.wire_objects import (
    Wire,
    job,
    member,
    namespace,
    queue,
    review,
)
from webhooks.settings import AdmissionSettings

CLOSED = {"state": "Closed", "observedGeneration": 1}
LIVE = member("live", queue="research", nodeName="node-1")

#: Own state (the column of the design's table): how a queue comes to be in it.
STANDINGS: dict[str, tuple[Wire, list[Wire]]] = {
    "Open": (queue("research"), []),
    "Suspended": (queue("research", state="Suspended"), []),
    "Suspended, live": (queue("research", state="Suspended"), [LIVE]),
    "Closing": (queue("research", state="Closed"), [LIVE]),
    "Closed": (queue("research", state="Closed", status={"state": "Closed", "observedGeneration": 1}), []),
    "Unknown": (queue("research", parent="nobody"), []),
    "Closed, chain broken": (
        queue(
            "research", state="Closed", parent="nobody", status={"state": "Closed", "observedGeneration": 1}
        ),
        [],
    ),
    "resumed by time": (queue("research", state="Suspended", resumeAt="2029-12-31T00:00:00Z"), []),
}

#: What `spec.state` may be edited to; "nothing" is refused unless it is there already.
ALLOWED = {
    "Open": {"Open", "Suspended", "Closed"},
    "Suspended": {"Open", "Suspended", "Closed"},
    "Suspended, live": {"Open", "Suspended", "Closed"},
    "Closing": {"Open", "Suspended", "Closed"},
    "Closed": {"Open", "Closed"},
    "Unknown": {"Open", "Suspended", "Closed"},
    "Closed, chain broken": {"Open", "Closed"},
    "resumed by time": {"Open", "Suspended", "Closed"},
}


def edit(server: Server, before: Wire, after: Wire, **request: Any) -> Said:
    return server.ask("/validate/queues", after, old=before, operation="UPDATE", **request)


def create(server: Server, obj: Wire) -> Said:
    return server.ask("/validate/queues", obj, operation="CREATE")


def delete(server: Server, obj: Wire) -> Said:
    return server.ask("/validate/queues", None, old=obj, operation="DELETE")


def with_spec(of: Wire, **spec: object) -> Wire:
    return {**of, "spec": {**of["spec"], **spec}}


def refused(answer: Said, *, by: str, way_out: str) -> None:
    assert (answer.allowed, answer.code) == (False, 422)
    assert answer.message.startswith(by), answer.message
    assert way_out in answer.message


# Edits of spec.state


@each_case("standing", STANDINGS)
@each_case("state", ["Open", "Suspended", "Closed"])
def test_the_table_of_actions_holds_for_edits(standing: str, state: str) -> None:
    before, others = STANDINGS[standing]
    server = Server().has(before, *others)
    answer = edit(server, before, {**with_spec(before, state=state, resumeAt=None)})
    assert answer.allowed is (state in ALLOWED[standing]), answer.message
    if not answer.allowed:
        refused(answer, by='spec.state: queue "research" is Closed', way_out="kubectl queue open research")


def test_a_live_member_below_makes_it_closing() -> None:
    before = queue("labs", state="Closed")
    server = Server().has(before, queue("research", parent="labs"), LIVE)
    assert edit(server, before, with_spec(before, state="Suspended")).allowed


def test_a_live_job_makes_it_closing() -> None:
    before = queue("research", state="Closed", status=CLOSED)
    server = Server().has(before, job("train", queue="research"))
    assert edit(server, before, with_spec(before, state="Suspended")).allowed
    server.has(job("train", queue="research", done="Complete", version=2))
    assert not edit(server, before, with_spec(before, state="Suspended")).allowed


def test_the_state_before_is_the_reviews_and_not_what_the_store_may_still_hold() -> None:
    """Two edits may come before our watch has told us of the first."""
    server = Server().has(queue("research"))
    said = {"state": "Closed", "observedGeneration": 2}
    before = queue("research", state="Closed", version=2, generation=2, status=said)
    assert not edit(server, before, with_spec(before, state="Suspended")).allowed


def test_a_queue_that_is_not_in_the_store_yet_is_checked_by_the_review() -> None:
    before = queue("research", state="Closed", status=CLOSED)
    assert not edit(Server(), before, with_spec(before, state="Suspended")).allowed
    assert delete(Server(), before).allowed


def test_a_closed_queues_other_fields_may_be_edited() -> None:
    before = queue("research", state="Closed")
    server = Server().has(before, LIVE)
    assert edit(server, before, with_spec(before, capability={"cpu": "4"}, stopPolicy="Hold")).allowed


# What no edit and no new queue may ask for


def test_root_is_not_closed() -> None:
    server = Server()
    before = {**queue("root"), "spec": {"state": "Open"}}
    refused(
        edit(server, before, with_spec(before, state="Closed")),
        by="spec.state: ",
        way_out="kubectl queue suspend root",
    )
    assert edit(server, before, with_spec(before, state="Suspended")).allowed
    assert edit(server, before, with_spec(before, stopPolicy="HoldAndDrain")).allowed


@pytest.mark.parametrize("creating", [True, False])
def test_no_time_reopens_a_closed_queue(creating: bool) -> None:
    server, before = Server(), queue("research")
    after = queue("research", state="Closed", resumeAt="2031-01-01T00:00:00Z")
    answer = create(server, after) if creating else edit(server, before, after)
    refused(answer, by="spec.resumeAt: ", way_out="remove spec.resumeAt")


def test_a_move_and_a_drain_say_what_they_do_to_pods() -> None:
    server, before = Server(), queue("team")
    bound = {"nodeName": "node-1"}
    server.has(before, queue("below", parent="team"), queue("off", stopPolicy="HoldAndDrain"))
    server.has(member("a", "team", **bound), member("b", "below", **bound), member("c", "below"))
    drains = 'drains queue "team": the 2 pods that run will be evicted'
    move = edit(server, before, with_spec(before, parent="off"))
    assert [text.partition(drains)[1] for text in move.warnings] == [drains, ""]
    assert move.warnings[1].endswith("the pod that waits goes on waiting")
    assert drains in edit(server, before, with_spec(before, stopPolicy="HoldAndDrain")).warnings[0]
    keeping = with_spec(before, stopPolicy="HoldAndDrain", drain={"barePods": "Keep"})
    assert "up to 2 pods that run" in edit(server, before, keeping).warnings[0]
    assert edit(server, before, with_spec(before, stopPolicy="Hold")).warnings == []


STOPS = [{"state": "Suspended"}, {"stopPolicy": "Hold"}, {"stopPolicy": "HoldAndDrain"}]


@pytest.mark.parametrize("stop", STOPS, ids=str)
def test_any_other_stop_may_have_a_time_to_come(stop: Wire) -> None:
    assert create(Server(), queue("a", **stop, resumeAt="2031-01-01T00:00:00+05:30")).allowed


@pytest.mark.parametrize("stop", [*STOPS, {}], ids=str)
def test_a_time_in_the_past_is_refused_where_it_is_set(stop: Wire) -> None:
    """A manifest applied again after its stop has ended would stop nothing, and not say so."""
    server, past = Server(), "2020-01-01T00:00:00+05:30"
    refused(
        create(server, queue("a", **stop, resumeAt=past)), by="spec.resumeAt: ", way_out="set a time to come"
    )
    answer = edit(server, queue("a"), queue("a", **stop, resumeAt=past))
    refused(answer, by="spec.resumeAt: ", way_out="set a time to come")
    assert '"2019-12-31T18:30:00Z" is in the past' in answer.message


@pytest.mark.parametrize("stop", STOPS, ids=str)
def test_a_time_that_has_passed_since_may_stay_and_be_taken_away(stop: Wire) -> None:
    server, before = Server(), queue("a", **stop, resumeAt="2020-01-01T00:00:00Z")
    assert edit(server, before, with_spec(before, weight=2)).allowed
    assert edit(server, before, queue("a")).allowed
    other = {"stopPolicy": "None", "state": "Suspended"} if "stopPolicy" in stop else {"stopPolicy": "Hold"}
    refused(edit(server, before, with_spec(before, **other)), by="spec.resumeAt: ", way_out="remove")


@pytest.mark.parametrize("state", ["Open", "Suspended", "Closed"])
def test_a_new_queue_may_begin_in_any_state(state: str) -> None:
    assert create(Server(), queue("research", state=state)).allowed


# The drain

PAST, TO_COME = "2029-12-31T00:00:00Z", "2031-01-01T00:00:00Z"


@each_case("creating", [True, False])
@each_case(
    ("policy", "drain", "by", "fix"),
    [
        ("Drain", {}, 'spec.stopPolicy: "Drain" is not', "one of None, Hold, HoldAndDrain"),
        ("Hold", {"rate": 0}, "spec.drain.rate: 0 is not", "a number above 0 and up to 1000"),
        ("Hold", {"rate": -1}, "spec.drain.rate: -1 is not", "a number above 0 and up to 1000"),
        ("Hold", {"rate": 1e30}, "spec.drain.rate: 1e+30 is not", "a number above 0 and up to 1000"),
        ("Hold", {"inFlight": 0}, "spec.drain.inFlight: 0 is not", "a whole number from 1 to"),
        (
            "Hold",
            {"gracePeriodSeconds": -1},
            "spec.drain.gracePeriodSeconds: -1 is not",
            "a whole number from 0",
        ),
        (
            "Hold",
            {"keep": {"matchLabels": {"a b": "c"}}},
            'spec.drain.keep.matchLabels key: "a b" is not',
            "the key of a label, such as",
        ),
        (
            "Hold",
            {"keep": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}},
            "spec.drain.keep.matchExpressions[0].values: Exists takes none",
            "change them",
        ),
        ("Hold", {"deadline": PAST}, 'spec.drain.deadline: "2029-12-31', "set a time to come"),
        (
            "Hold",
            {"afterDeadline": "Delete"},
            "spec.drain.deadline: is missing, and afterDeadline is Delete",
            "set a time",
        ),
    ],
    ids=str,
)
def test_a_drain_that_cannot_be_is_refused_by_name(
    creating: bool, policy: str, drain: Wire, by: str, fix: str
) -> None:
    """The field, what was written, what it should be; whether the policy drains already or not."""
    server, before = Server().has(queue("research")), queue("research")
    after = with_spec(before, stopPolicy=policy, drain=drain)
    refused(create(server, after) if creating else edit(server, before, after), by=by, way_out=fix)


def test_a_deadline_is_past_by_the_clock_of_the_store() -> None:
    """Which is the API server's, by which the drain goes too."""
    server, before = Server(), queue("research")
    after = with_spec(before, drain={"deadline": TO_COME})
    assert edit(server, before, after).allowed
    server.clock.at = server.clock.at.replace(year=2031)
    refused(edit(server, before, after), by='spec.drain.deadline: "2031-01-01', way_out="or remove it")


def test_a_deadline_may_come_before_the_queue_resumes_by_itself() -> None:
    """What is left then is kept or deleted, and the queue is given back later."""
    drain = {"deadline": TO_COME, "afterDeadline": "Delete"}
    after = queue("research", stopPolicy="HoldAndDrain", resumeAt="2031-02-01T00:00:00Z", drain=drain)
    assert create(Server(), after).allowed


@each_case(
    "change",
    [
        {"weight": 2},
        {"stopPolicy": "None"},
        {"drain": {"deadline": PAST, "rate": 7}},
        {"drain": {"deadline": PAST, "afterDeadline": "Delete"}},
        {"drain": {"deadline": "2029-12-31T05:30:00+05:30"}},
        {"drain": {"deadline": TO_COME}},
        {"drain": {}},
        {"drain": None},
    ],
    ids=str,
)
def test_a_drain_whose_deadline_has_passed_can_be_edited(change: Wire) -> None:
    """Any field of it or of the queue, the deadline itself to a time to come."""
    before = queue("research", stopPolicy="HoldAndDrain", drain={"deadline": PAST})
    assert edit(Server().has(before), before, with_spec(before, **change)).allowed


@each_case("policy", ["None", "Hold", None])
@each_case("after", ["Keep", "Delete"])
def test_no_drain_begins_under_the_past_deadline_of_the_last_one(policy: str | None, after: str) -> None:
    """By whatever client: with Delete it would delete everybody at once, with Keep it would evict nobody."""
    drain = {"deadline": PAST, "afterDeadline": after}
    before = queue("research", stopPolicy=policy, drain=drain)
    server = Server().has(before)
    refused(
        edit(server, before, with_spec(before, stopPolicy="HoldAndDrain")),
        by="spec.drain.deadline",
        way_out="or remove it",
    )
    assert edit(server, before, with_spec(before, stopPolicy="HoldAndDrain", drain=None)).allowed


def test_a_drain_that_should_not_be_stored_can_be_mended_field_by_field() -> None:
    """Whatever it holds, its other fields and all else stay editable."""
    bad = {"rate": -1, "deadline": "soon", "keep": "all", "afterDeadline": "Delete", "inFlight": 3}
    before = queue("research", drain=bad)
    server = Server().has(before)
    for drain in (bad, {**bad, "rate": 2}, {**bad, "deadline": TO_COME}, {**bad, "keep": {}}, {}):
        assert edit(server, before, with_spec(before, drain=drain, weight=3)).allowed, drain
    refused(
        edit(server, before, with_spec(before, drain={**bad, "deadline": PAST})),
        by="spec.drain.deadline: ",
        way_out="set a time to come",
    )


# The tree


@each_case("creating", [True, False])
@each_case(
    ("parent", "by", "way_out"),
    [
        ("a", "spec.parent: queue a cannot use itself as parent", ""),
        ("nobody", 'spec.parent: queue "nobody" does not exist', "kubectl queue create nobody"),
        ("c", "spec.parent: ", "choose a parent"),
    ],
    ids=["itself", "missing", "cycle"],
)
def test_where_a_queue_may_not_stand(creating: bool, parent: str, by: str, way_out: str) -> None:
    """`c` stands under `b`, which stands under `a`."""
    server = Server().has(queue("a"), queue("b", parent="a"), queue("c", parent="b"))
    after = queue("a", parent=parent)
    refused(
        create(server, after) if creating else edit(server, queue("a"), after),
        by=by,
        way_out=way_out,
    )


def test_a_parent_whose_chain_is_broken_is_no_place() -> None:
    server = Server().has(queue("lost", parent="nobody"))
    refused(create(server, queue("a", parent="lost")), by="spec.parent: ", way_out="reaches root")


def test_a_queue_on_a_broken_chain_may_still_be_edited_where_it_stands() -> None:
    before = queue("lost", parent="nobody")
    server = Server().has(before)
    assert edit(server, before, with_spec(before, stopPolicy="Hold")).allowed
    assert edit(server, before, with_spec(before, parent="root")).allowed


def test_the_tree_is_as_deep_as_the_setting_says() -> None:
    server = Server(terms=AdmissionSettings(depth_limit=2)).has(queue("a"), queue("b", parent="a"))
    refused(create(server, queue("c", parent="b")), by="spec.parent: ", way_out="nearer to root")
    assert create(server, queue("c", parent="a")).allowed


def test_what_stands_below_moves_along_and_counts() -> None:
    server = Server(terms=AdmissionSettings(depth_limit=2)).has(
        queue("a"), queue("b", parent="a"), queue("c")
    )
    refused(edit(server, queue("a"), queue("a", parent="c")), by="spec.parent: ", way_out="nearer to root")


# Deletion


def test_only_a_closed_queue_may_be_deleted() -> None:
    for standing, (obj, others) in STANDINGS.items():
        answer = delete(Server().has(obj, *others), obj)
        assert answer.allowed is standing.startswith("Closed"), standing
        if not answer.allowed:
            assert answer.code == 403
            assert "kubectl " in answer.message, "the way out"


def root(**spec: object) -> Wire:
    return {**queue("root"), "spec": spec}


@pytest.mark.parametrize("parent", ["root", "a", "ghost"])
def test_root_is_given_no_parent(parent: str) -> None:
    server = Server().has(queue("a"), root())
    for answer in (create(server, root(parent=parent)), edit(server, root(), root(parent=parent))):
        refused(answer, by="spec.parent: ", way_out="leave the field out")


def test_a_parent_that_root_has_already_can_stay_and_be_removed() -> None:
    """The definition lets it in where no webhook is asked."""
    server = Server().has(queue("a"), root(parent="a"))
    assert edit(server, root(parent="a"), root(parent="a", weight=2)).allowed
    assert edit(server, root(parent="a"), root()).allowed
    assert edit(server, root(parent="a"), root(parent="")).allowed
    refused(edit(server, root(parent="a"), root(parent="b")), by="spec.parent: ", way_out="out")


@pytest.mark.parametrize("name", ["root", "default"])
def test_root_and_default_are_never_deleted(name: str) -> None:
    answer = delete(Server(), queue(name, state="Closed"))
    assert not answer.allowed
    assert answer.message.startswith(f"`{name}` queue can not be deleted; to ")


def test_the_deletion_of_a_queue_that_namespaces_name_says_that_work_there_waits() -> None:
    obj = queue("labs", state="Closed", status={"state": "Closed", "observedGeneration": 1})
    other = namespace("z", queue="other")
    server = Server().has(obj, *(namespace(name, queue="labs") for name in "dcba"), other)
    answer = delete(server, obj)
    assert answer.allowed
    assert answer.warnings == [
        'namespaces "a", "b", "c" and 1 more still name queue "labs": new work there waits until a queue of '
        "this name is created, or another one is named"
    ]
    assert delete(Server().has(obj, other), obj).warnings == []


def test_a_queue_with_children_is_not_deleted() -> None:
    obj = queue("labs", state="Closed")
    server = Server().has(obj, *(queue(name, parent="labs", state="Closed") for name in "abcd"))
    answer = delete(server, obj)
    assert not answer.allowed
    assert "it has 4 child queues (a, b, c, ...)" in answer.message
    assert "delete or move them first" in answer.message


def test_a_deletion_needs_both_the_verdict_and_the_status_to_be_closed() -> None:
    """The status may be older than a pod, and says for all replicas that nothing more can come."""
    obj = queue("research", state="Closed", status=CLOSED)
    assert delete(Server().has(obj), obj).allowed
    assert not delete(Server().has(obj, LIVE), obj).allowed
    early = queue("research", state="Closed", status={"state": "Closing"})
    answer = delete(Server().has(early), early)
    assert not answer.allowed
    assert "what was admitted to it before may still come; delete it once it shows Closed" in answer.message


LEAVING = {"deletionTimestamp": "2029-12-31T00:00:00Z", "finalizers": ["example.com/wait"]}


def leaving(*, finalizers: Any = ("example.com/wait",), **spec: Any) -> Wire:
    """A queue that is being deleted."""
    obj = queue("research", **{"state": "Closed", "status": CLOSED, **spec})
    obj["metadata"] |= {**LEAVING, "finalizers": list(finalizers)}
    return obj


@each_case("state", ["Closed", "Suspended"])
def test_a_queue_that_is_being_deleted_is_not_opened(state: str) -> None:
    before = leaving(state=state)
    for spec in ({"state": "Open"}, {"state": "Open", "stopPolicy": "Hold"}):
        answer = edit(Server().has(before), before, with_spec(before, **spec), dry_run=True)
        refused(answer, by="spec.state: ", way_out="kubectl queue create research")
    for spec in ({"state": "Closed"}, {"reason": "moved"}, {"stopPolicy": "HoldAndDrain"}):
        assert edit(Server().has(before), before, with_spec(before, **spec)).allowed, spec


def test_the_last_finalizer_goes_as_the_queue_itself_would() -> None:
    """The API server asks about no DELETE then."""
    before, between, after = leaving(finalizers=("a/b", "c/d")), leaving(), leaving(finalizers=())
    occupied = Server().has(before, LIVE)
    assert edit(occupied, before, between).allowed
    answer = edit(occupied, between, after)
    assert (answer.allowed, answer.code) == (False, 403)
    assert 'queue "research" is Closing and can be deleted once it is Closed' in answer.message
    assert edit(Server().has(before), between, after).allowed
    parent = Server().has(before, queue("below", parent="research"))
    assert "it has 1 child queue (below)" in edit(parent, between, after).message


@each_case("name", ["root", "default"])
@each_case("live", [False, True])
def test_the_deletion_of_what_is_always_there_can_end(name: str, live: bool) -> None:
    """It came past us. The controller makes it anew, whatever is in it and below it."""
    before, after = (queue(name, status=CLOSED) for _ in range(2))
    before["metadata"] |= LEAVING
    after["metadata"] |= {**LEAVING, "finalizers": []}
    server = Server().has(before, queue("below", parent=name), *([member("a", queue=name)] if live else []))
    assert edit(server, before, after).allowed
    assert not delete(Server().has(before), before).allowed


def test_the_status_of_before_the_deletion_is_enough_for_the_last_finalizer() -> None:
    """What was Closed as its deletion was admitted has taken nothing since: nobody has to wait."""
    before, after = leaving(), leaving(finalizers=())
    before["metadata"]["generation"] = after["metadata"]["generation"] = 2
    assert edit(Server().has(before), before, after).allowed
    for each in (before, after):
        each["status"] = {**CLOSED, "state": "Closing"}
    answer = edit(Server().has(before), before, after)
    assert "what was admitted to it before may still come" in answer.message


def test_a_finalizer_of_a_queue_that_stays_is_nothing_to_us() -> None:
    before = queue("research")
    before["metadata"]["finalizers"] = ["example.com/wait"]
    assert edit(Server().has(before, LIVE), before, queue("research")).allowed


NOT_SELECTED = {"state": "Closed", "namespaceSelector": {"matchLabels": {"team": "other"}}}


@each_case(
    ("labs", "allowed"),
    [({"capability": {"cpu": "2"}}, False), ({}, True)],
)
@each_case("by", ["DELETE", "finalizer"])
def test_what_counts_above_a_queue_keeps_it(labs: Wire, allowed: bool, by: str) -> None:
    """Pods of namespaces that it does not select keep no queue from Closed, and count on in a quota above."""
    above = queue("labs", **labs, status={"observedGeneration": 1})
    obj = leaving(parent="labs", **NOT_SELECTED)
    server = Server().has(above, obj, namespace("team"), LIVE)
    answer = (
        delete(server, obj)
        if by == "DELETE"
        else edit(server, obj, leaving(finalizers=(), parent="labs", **NOT_SELECTED))
    )
    assert answer.allowed is allowed
    assert allowed or "pods of it use pods 1 of a quota above it" in answer.message


def test_a_queue_closed_by_its_ancestor_may_be_deleted() -> None:
    obj = queue("research", parent="labs", status=CLOSED)
    assert delete(Server().has(queue("labs", state="Closed", status=CLOSED), obj), obj).allowed


def test_a_finished_member_keeps_no_queue() -> None:
    obj = queue("research", state="Closed", status=CLOSED)
    done = member("done", queue="research", nodeName="node-1", status={"phase": "Succeeded"})
    assert delete(Server().has(obj, done), obj).allowed


@each_case("path", ["/mutate/queues", "/validate/queues"])
@each_case("operation", ["CREATE", "UPDATE", "DELETE"])
def test_a_resume_time_without_a_zone_is_no_failure_of_ours(path: str, operation: str) -> None:
    """The CRD's date-time asks for a zone; a review may hold anything."""
    old = queue("research", state="Suspended", resumeAt="2029-12-31T00:00:00")
    server = Server().has(queue("research"))
    reply = server.post(path, review(with_spec(old, state="Open"), old=old, operation=operation))
    assert reply.status_code in {200, 400}, reply.text


def test_a_status_of_an_earlier_close_does_not_count() -> None:
    """Opened and closed again: nothing is known yet of this close, the queue's own or an ancestor's."""
    again = queue("research", state="Closed", generation=3, status=CLOSED)
    assert not delete(Server().has(again), again).allowed
    below = queue("below", parent="research", status=CLOSED)
    assert not delete(Server().has(again, below), below).allowed
    answered = queue("research", state="Closed", generation=3, status={**CLOSED, "observedGeneration": 3})
    assert delete(Server().has(answered, below), below).allowed
