"""`/mutate/workloads`: the mark on what a drain suspended is ours, whoever writes the object."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.support.cases import each_case, with_new
from tests.support.http.asking import OWN, Server
from tests.support.http.wire_objects import (
    WORKLOADS,
    Wire,
    job,
    owner,
    workload,
)
from tests.support.webhooks.workload_requests import (
    CONTROLLER,
    LABEL,
    QUEUE,
    admitted,
    ask,
    not_updated,
    queues,
    stored,
    updated,
    written,
)

MARK = "sluice.dev/suspended"
#: Of what had three replicas.
RECORD = "research/3"
PAUSING = each_case("resource", ["jobs.batch", "jobsets.jobset.x-k8s.io"])
KINDS = each_case("resource", WORKLOADS)
SCALED = ("deployments.apps", "statefulsets.apps", "replicasets.apps")
SCALING = each_case("resource", SCALED)
#: Who is not us: a user, the one who made it, an administrator.
OTHERS = each_case("user", ["alice", CONTROLLER, "admin"])


@pytest.fixture
def server() -> Server:
    return queues()


def marked(obj: Wire, mark: str | None = "research", **spec: object) -> Wire:
    """A copy with this mark, or without one, and other fields in its spec."""
    result = copy.deepcopy(obj)
    held = dict(result["metadata"].get("annotations") or {})
    held.pop(MARK, None)
    result["metadata"]["annotations"] = held if mark is None else {**held, MARK: mark}
    result["spec"].update(spec)
    return result


def member(server: Server, resource: str) -> Wire:
    return stored(server, workload(resource, labels={LABEL: "research"}))


def drained(server: Server, resource: str) -> Wire:
    """A member as our controller has suspended it, or brought it to zero."""
    result = marked(member(server, resource), suspend=True)
    if resource in SCALED:
        result["spec"]["replicas"] = 0
    return result


def mark_of(obj: Wire) -> str | None:
    mark: str | None = (obj["metadata"].get("annotations") or {}).get(MARK)
    return mark


def untouched(server: Server, before: Wire, after: Wire, **request: Any) -> None:
    answer = ask(server, after, old=before, operation="UPDATE", **request)
    assert (answer.allowed, answer.patch, answer.warnings) == (True, [], [])


# What others write


@KINDS
@OTHERS
@with_new(server=queues)
def test_nothing_is_created_with_the_mark(server: Server, resource: str, user: str) -> None:
    """A copy of what was suspended is its author's own, of whichever queue; its suspension stays."""
    for suspend in (None, False, True):
        obj = marked(workload(resource, labels={LABEL: "research"}), suspend=suspend)
        after, _ = admitted(server, obj, user=user)
        assert (mark_of(after), after["spec"]["suspend"]) == (None, suspend)
        assert after["metadata"]["annotations"][QUEUE] == "research"


@KINDS
@with_new(server=queues)
def test_what_is_of_no_queue_is_not_created_with_it_either(server: Server, resource: str) -> None:
    after, _ = admitted(server, marked(workload(resource)))
    assert mark_of(after) is None


@KINDS
@OTHERS
@with_new(server=queues)
def test_no_user_sets_the_mark(server: Server, resource: str, user: str) -> None:
    """Else what its user had suspended would be resumed."""
    before = marked(member(server, resource), None, suspend=True)
    for mark in ("research", "labs", ""):
        after, _ = updated(server, before, marked(before, mark), user=user)
        assert after == before, mark


@KINDS
@OTHERS
@each_case("mark", [None, "labs", ""])
@with_new(server=queues)
def test_no_user_changes_or_removes_the_mark(
    server: Server, resource: str, user: str, mark: str | None
) -> None:
    """Else what we suspended would stay so, or be given back by another queue."""
    held = drained(server, resource)
    after, _ = updated(server, held, marked(held, mark, priority=7), user=user)
    assert after == marked(held, priority=7)


@KINDS
@with_new(server=queues)
def test_the_mark_is_restored_if_all_annotations_are_dropped(server: Server, resource: str) -> None:
    """A replace by a file that has none: our other keys come back beside it."""
    held = drained(server, resource)
    bare = copy.deepcopy(held)
    del bare["metadata"]["annotations"]
    after, _ = updated(server, held, bare)
    assert (mark_of(after), after["metadata"]["annotations"][QUEUE]) == ("research", "research")


@each_case("resource", ["jobs.batch", "cronjobs.batch", "jobsets.jobset.x-k8s.io"])
@OTHERS
@each_case("resumed", [False, None])
@each_case("mark", ["research", "labs", None])
@with_new(server=queues)
def test_the_mark_is_removed_if_a_user_ends_the_suspension(
    server: Server, resource: str, user: str, resumed: bool | None, mark: str | None
) -> None:
    """Said or left out, and whatever is written in the mark's place in the same update."""
    held = drained(server, resource)
    after, _ = updated(server, held, marked(held, mark, suspend=resumed), user=user)
    assert after == marked(held, None, suspend=resumed)


@PAUSING
@with_new(server=queues)
def test_a_suspension_after_that_is_its_users(server: Server, resource: str) -> None:
    """So it is not given back when the queue is; whoever wants to keep our suspension does both."""
    held = drained(server, resource)
    resumed, _ = updated(server, held, marked(held, suspend=False))
    again, _ = updated(server, resumed, marked(resumed, None, suspend=True))
    assert (mark_of(again), again["spec"]["suspend"]) == (None, True)


@PAUSING
@with_new(server=queues)
def test_the_mark_of_a_drain_stays_where_the_suspension_is_written_again(
    server: Server, resource: str
) -> None:
    """A file that says `suspend: true` is applied: nothing tells that from the object as it is."""
    held = drained(server, resource)
    untouched(server, held, marked(held, suspend=True, priority=7))


@PAUSING
@with_new(server=queues)
def test_it_is_kept_where_something_else_is_refused(server: Server, resource: str) -> None:
    """A refusal comes without a patch."""
    held = drained(server, resource)
    moved = marked(held, None)
    moved["metadata"]["labels"][LABEL] = "labs"
    not_updated(server, held, moved)


def test_of_a_job_that_volcanos_controller_pauses_the_mark_stays(server: Server) -> None:
    """It has no suspension in its spec: what ends it is a Command."""
    held = marked(member(server, "jobs.batch.volcano.sh"))
    untouched(server, held, marked(held, minAvailable=2))


def test_what_an_owner_does_to_its_own_is_checked_too(server: Server) -> None:
    """A Job that a controller made and resumes, which is let pass otherwise."""
    cron = workload("cronjobs.batch", "nightly", labels={LABEL: "research"})
    held = drained(server, "jobs.batch")
    held["metadata"]["ownerReferences"] = [owner(cron)]
    after, _ = updated(server, held, marked(held, "labs", suspend=False), user=CONTROLLER)
    assert after == marked(held, None, suspend=False)
    after, _ = updated(server, held, marked(held, None), user=CONTROLLER)
    assert after == held


# What a drain brought to zero


def kept_at_zero(server: Server, resource: str, queue: str = "research") -> Wire:
    """As our controller has brought it from 3 to zero."""
    return marked(stored(server, workload(resource, labels={LABEL: queue}, replicas=3)), RECORD, replicas=0)


@SCALING
@OTHERS
@with_new(server=queues)
def test_whoever_writes_replicas_has_taken_the_scale_over(server: Server, resource: str, user: str) -> None:
    """To fewer, as many or more; and to zero again once a scale has set another number."""
    held = kept_at_zero(server, resource)
    for replicas in (1, 3, 9, None):
        scaled = marked(held, RECORD, replicas=replicas)
        after, _ = updated(server, held, scaled, user=user)
        assert after == marked(scaled, None)
        after, _ = updated(server, scaled, held, user=user)
        assert after == marked(held, None)


@SCALING
@OTHERS
@with_new(server=queues)
def test_no_user_changes_what_is_put_back(server: Server, resource: str, user: str) -> None:
    held = kept_at_zero(server, resource)
    for mark in ("research/2000", "labs/3", "research", None):
        after, _ = updated(server, held, marked(held, mark), user=user)
        assert after == held, mark


@SCALING
@with_new(server=queues)
def test_what_is_put_back_is_no_growth_where_nothing_new_is_taken(server: Server, resource: str) -> None:
    """We put it back, or a user does, up to what it had; beyond that it is new."""
    held = marked(written(workload(resource, labels={LABEL: "closed"}), "closed"), RECORD, replicas=0)
    untouched(server, held, marked(held, None, replicas=3), user=OWN)
    after, _ = updated(server, held, marked(held, RECORD, replicas=3))
    assert mark_of(after) is None
    answer = not_updated(server, held, marked(held, RECORD, replicas=4))
    assert "replicas beyond the 3 that this" in answer.message


@SCALING
@with_new(server=queues)
def test_a_forged_record_lets_nothing_grow_where_nothing_new_is_taken(server: Server, resource: str) -> None:
    """It is taken off in the same request, and counts neither then nor later."""
    held = written(workload(resource, labels={LABEL: "closed"}, replicas=0), "closed")
    after, _ = updated(server, held, marked(held, "closed/9"))
    assert mark_of(after) is None
    not_updated(server, held, marked(held, "closed/9", replicas=1))


# What costs nothing


@KINDS
@OTHERS
@with_new(server=queues)
def test_an_update_of_another_kind_leaves_it_alone(server: Server, resource: str, user: str) -> None:
    held = drained(server, resource)
    untouched(server, held, marked(held, priority=7), user=user)


@KINDS
@with_new(server=queues)
def test_we_set_it_and_take_it_off(server: Server, resource: str) -> None:
    """In one write with the suspension each."""
    held = member(server, resource)
    ours = marked(held, suspend=True)
    untouched(server, held, ours, user=OWN)
    untouched(server, ours, marked(ours, None, suspend=False), user=OWN)


def test_the_own_user_of_the_settings_may_write_the_mark(server: Server) -> None:
    """The service account of our namespace, and nobody with a name like it."""
    held = member(server, "jobs.batch")
    after, _ = updated(server, held, marked(held, suspend=True), user=f"{OWN}-2")
    assert mark_of(after) is None


@PAUSING
@with_new(server=queues)
def test_its_answer_is_the_same_when_it_is_asked_again(server: Server, resource: str) -> None:
    """The API server asks again where another webhook came after us."""
    held = drained(server, resource)
    once, _ = updated(server, held, marked(held, "labs"))
    untouched(server, held, once)
    made, _ = admitted(server, marked(workload(resource, labels={LABEL: "research"})))
    assert ask(server, made).patch == []


def test_a_job_of_no_shape_is_refused_and_nothing_else(server: Server) -> None:
    """`suspend` is true, false or nothing."""
    answer = ask(server, {**job("odd"), "spec": {"suspend": "yes"}})
    assert not answer.allowed
    assert "suspend" in answer.message
