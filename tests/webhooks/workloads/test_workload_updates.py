"""`/mutate/workloads` on UPDATE: a submission again where its queue changes, or it wants replicas anew."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.cases import each_case, with_new
from tests.support.http.asking import Server
from tests.support.http.wire_objects import (
    GROUP,
    NAMED,
    WORKLOADS,
    Wire,
    member,
    namespace,
    owner,
    podgroup,
    queue,
    review,
    template,
    templates_of,
    workload,
)
from tests.support.webhooks.workload_requests import (
    CAME,
    CONTROLLER,
    FROM,
    LABEL,
    QUEUE,
    REFUSING,
    admitted,
    annotated,
    ask,
    changed,
    not_updated,
    queues,
    stored,
    updated,
    with_our_label,
    with_templates,
    written,
)

KINDS = each_case("resource", WORKLOADS)
#: Those whose templates cannot change once they are there.
FIXED = ("jobs.batch", "jobs.batch.volcano.sh", "jobsets.jobset.x-k8s.io")
MOVABLE = each_case("resource", [one for one in WORKLOADS if one not in FIXED])
SCALING = each_case("resource", ["deployments.apps", "statefulsets.apps", "replicasets.apps"])


@pytest.fixture
def server() -> Server:
    return queues()


def labelled(obj: Wire, name: str | None) -> Wire:
    """A copy whose own label names this queue, or none."""
    result = changed(obj)
    labels = {key: value for key, value in (result["metadata"].get("labels") or {}).items() if key != LABEL}
    result["metadata"]["labels"] = labels if name is None else {**labels, LABEL: name}
    return result


def untouched(server: Server, before: Wire, after: Wire, **request: Any) -> None:
    answer = ask(server, after, old=before, operation="UPDATE", **request)
    assert (answer.allowed, answer.patch, answer.warnings) == (True, [], [])


# What changes nothing


@KINDS
@with_new(server=queues)
def test_an_update_that_has_nothing_to_do_with_its_queue_changes_nothing(
    server: Server, resource: str
) -> None:
    held = stored(server, workload(resource, labels={LABEL: "research"}))
    untouched(server, held, changed(held, paused=True))
    assert server.store.admissions.queues() == frozenset()


@KINDS
@with_new(server=queues)
def test_of_no_queue_it_is_left_alone(server: Server, resource: str) -> None:
    held = workload(resource)
    untouched(server, held, changed(held, paused=True))


@KINDS
@each_case("name", ["closed", "lost", "stopped", "absent"])
@with_new(server=queues)
def test_whatever_its_queue_does_what_is_there_can_be_changed(
    server: Server, resource: str, name: str
) -> None:
    held = written(workload(resource, "train", template({NAMED: name, QUEUE: name})), name)
    untouched(server, held, changed(held, paused=True))


@KINDS
@with_new(server=queues)
def test_what_is_older_than_the_webhook_keeps_its_templates_as_they_are(
    server: Server, resource: str
) -> None:
    """A template that changed would make a Deployment replace all of its pods."""
    held = workload(resource, "train", template({NAMED: "closed"}))
    after, _ = updated(server, held, changed(held, paused=True))
    assert templates_of(after) == templates_of(held)
    assert after["metadata"]["annotations"] == {QUEUE: "closed"}


@KINDS
@each_case("now", ["labs", "closed", "absent", ""])
@with_new(server=queues)
def test_a_namespace_that_names_another_queue_moves_no_member(
    server: Server, resource: str, now: str
) -> None:
    """What was written down is the answer: neither is it refused, nor are its pods replaced."""
    server.has(namespace("team", queue="research"))
    held = stored(server, workload(resource))
    server.has(namespace("team", queue=now, version=2))
    untouched(server, held, changed(held, paused=True))


@KINDS
@with_new(server=queues)
def test_a_podgroup_that_is_deleted_moves_no_member(server: Server, resource: str) -> None:
    gang = podgroup("gang", queue="research")
    server.has(gang)
    held = stored(server, workload(resource, "train", template({GROUP: "gang"})))
    server.lacks(gang)
    untouched(server, held, changed(held, paused=True))


@KINDS
@with_new(server=queues)
def test_one_whose_names_have_come_to_differ_can_be_changed_but_not_made_worse(
    server: Server, resource: str
) -> None:
    """A PodGroup came that names another queue: else not even a finalizer could be taken off."""
    held = stored(server, workload(resource, "train", template({GROUP: "gang"}), labels={LABEL: "research"}))
    server.has(podgroup("gang", queue="labs"))
    untouched(server, held, changed(held, paused=True))
    assert not_updated(server, held, labelled(held, "held")).code == 422


def test_what_was_written_into_one_whose_names_have_come_to_differ_is_put_back(server: Server) -> None:
    server.has(podgroup("gang", queue="research"))
    held = stored(server, workload("jobs.batch.volcano.sh", "train", template({GROUP: "gang"}), template()))
    server.has(podgroup("gang", queue="labs", version=2))
    bare = changed(
        held, tasks=[held["spec"]["tasks"][0], {**held["spec"]["tasks"][1], "template": template()}]
    )
    after, _ = updated(server, held, bare)
    assert after == held


@KINDS
@with_new(server=queues)
def test_what_is_being_deleted_is_let_go(server: Server, resource: str) -> None:
    """Whatever it says: the last update takes its finalizer off."""
    held = workload(resource, "train", template({NAMED: "research"}))
    gone = with_templates(held, named="NO NAME")
    gone["metadata"]["deletionTimestamp"] = "2030-01-01T12:00:00Z"
    untouched(server, held, gone)


@KINDS
@with_new(server=queues)
def test_an_update_of_its_status_is_allowed(server: Server, resource: str) -> None:
    held = workload(resource, "train", template({NAMED: "research"}))
    untouched(server, held, with_templates(held, named="closed"), sub_resource="status")


# What was written stays


@KINDS
@each_case(
    "change",
    [
        {"ours": None},
        {"ours": "labs"},
        {"ours": None, "from_": None, "named": None},
        {"from_": None, "ours": None},
        {"named": None},
        {"ours": "labs", "named": "labs"},
        {"from_": "namespace"},
    ],
    ids=str,
)
@with_new(server=queues)
def test_what_was_written_in_the_templates_is_put_back(
    server: Server, resource: str, change: dict[str, str | None]
) -> None:
    held = stored(server, workload(resource, labels={LABEL: "research"}))
    after, _ = updated(server, held, with_templates(held, **change))
    assert after == held


@KINDS
@with_new(server=queues)
def test_what_was_written_on_itself_is_put_back(server: Server, resource: str) -> None:
    held = stored(server, workload(resource, labels={LABEL: "research"}))
    bare = changed(held)
    bare["metadata"]["annotations"], bare["metadata"]["labels"] = {CAME: "review-1"}, {LABEL: "research"}
    assert updated(server, held, bare)[0] == held
    assert updated(server, held, annotated(held, ours="labs"))[0] == held


def test_the_spec_of_a_volcano_job_is_put_back(server: Server) -> None:
    held = stored(server, workload("jobs.batch.volcano.sh", labels={LABEL: "research"}))
    assert updated(server, held, changed(held, queue=None))[0] == held


@KINDS
@with_new(server=queues)
def test_the_manifest_as_it_was_submitted_may_be_submitted_again(server: Server, resource: str) -> None:
    """`kubectl replace`: all that was written is missing, the queue's present state does not matter."""
    manifest = workload(resource, labels={LABEL: "research"})
    held = stored(server, manifest)
    server.has(queue("research", state="Closed", version=2))
    after, _ = updated(server, held, manifest)
    assert after["spec"] == held["spec"]
    assert after["metadata"]["labels"] == held["metadata"]["labels"]


@KINDS
@with_new(server=queues)
def test_our_keys_that_a_user_writes_without_a_queue_are_removed(server: Server, resource: str) -> None:
    held = workload(resource)
    after, _ = updated(server, held, annotated(with_templates(held, ours="labs"), ours="labs"))
    assert after == annotated(with_templates(held))


@KINDS
@with_new(server=queues)
def test_on_what_names_two_queues_our_keys_cannot_be_forged_either(server: Server, resource: str) -> None:
    held = workload(resource, "train", template({NAMED: "research"}), labels={LABEL: "labs"})
    after, _ = updated(server, held, with_templates(held, ours="closed"))
    assert after == held


# Moved to another queue


@MOVABLE
@each_case("place", ["label", "template", "over what was written"])
@with_new(server=queues)
def test_it_can_be_moved_and_its_new_pods_with_it(server: Server, resource: str, place: str) -> None:
    if place == "template":
        held = stored(server, workload(resource, "train", template({NAMED: "research"})))
        wanted = with_templates(held, named="labs")
        told = with_templates(wanted, ours="labs")
    else:
        held = stored(server, workload(resource, labels={LABEL: "research"} if place == "label" else None))
        wanted = labelled(held, "labs")
        told = with_templates(wanted, ours="labs", named="labs", from_="workload")
    after, _ = updated(server, held, wanted, uid="move-1")
    assert after == written(told, "labs", came="move-1")


def groups() -> Server:
    return queues().has(podgroup("gang", queue="research"), podgroup("other", queue="research"))


def groups_of(obj: Wire) -> set[tuple[str | None, ...]]:
    """What its templates say: the PodGroup, the queue's name, and who named it."""
    keys = (GROUP, NAMED, FROM)
    return {
        tuple((one["metadata"].get("annotations") or {}).get(key) for key in keys)
        for one in templates_of(obj)
    }


@MOVABLE
@with_new(server=groups)
def test_a_podgroup_that_it_names_later_reaches_its_new_pods(server: Server, resource: str) -> None:
    held = stored(server, workload(resource, annotations={NAMED: "research"}))
    assert groups_of(held) == {(None, "research", "workload")}
    grouped, _ = updated(server, held, annotated(held, group="gang"))
    assert groups_of(grouped) == {("gang", None, "podgroup")}
    other, _ = updated(server, grouped, annotated(grouped, group="other"))
    assert groups_of(other) == {("other", None, "podgroup")}
    alone, _ = updated(server, other, annotated(other, group=None))
    assert groups_of(alone) == {(None, "research", "workload")}


@MOVABLE
@with_new(server=groups)
def test_a_podgroup_in_a_template_may_be_overwritten(server: Server, resource: str) -> None:
    held = stored(server, workload(resource, annotations={GROUP: "gang"}))
    after, _ = updated(server, held, with_templates(held, group="other"))
    assert groups_of(after) == {("other", None, None)}


@MOVABLE
@with_new(server=groups)
def test_a_podgroup_in_a_template_is_put_back_where_a_client_drops_it(server: Server, resource: str) -> None:
    submitted = workload(resource, annotations={GROUP: "gang"})
    held = stored(server, submitted)
    after, _ = updated(server, held, annotated(submitted))
    assert groups_of(after) == {("gang", None, "podgroup")}


@MOVABLE
@with_new(server=groups)
def test_a_podgroup_that_does_not_exist_stays_in_its_templates(server: Server, resource: str) -> None:
    held = stored(server, workload(resource, annotations={GROUP: "later"}))
    after, _ = updated(server, held, annotated(workload(resource, annotations={GROUP: "later"})))
    assert groups_of(after) == {("later", None, "podgroup")}
    untouched(server, held, held)


@MOVABLE
@with_new(server=groups)
def test_a_roll_back_brings_the_podgroup_of_then(server: Server, resource: str) -> None:
    """With the annotations of the workload, as `kubectl rollout undo` does."""
    first = stored(server, workload(resource, annotations={GROUP: "gang"}))
    second, _ = updated(server, first, annotated(first, group="other"))
    back, _ = updated(server, second, first)
    assert groups_of(back) == {("gang", None, "podgroup")}


def test_who_names_another_podgroup_on_a_job_is_told_that_its_pods_stay(server: Server) -> None:
    server.has(podgroup("gang", queue="research"))
    held = stored(server, workload("jobs.batch", annotations={NAMED: "research"}))
    after, answer = updated(server, held, annotated(held, group="gang"))
    assert groups_of(after) == {(None, "research", "workload")}
    assert answer.warnings == [
        "scheduling.k8s.io/group-name is read when this is created: its pods stay as they are"
    ]


@MOVABLE
@with_new(server=queues)
def test_the_name_from_the_namespace_in_a_template_may_be_overwritten(server: Server, resource: str) -> None:
    """`kubectl edit`, where the queue stands that the webhook wrote: what the user wrote there counts."""
    server.has(namespace("team", queue="research"))
    held = stored(server, workload(resource))
    after, _ = updated(server, held, with_templates(held, named="labs"))
    assert after == written(with_templates(held, named="labs", ours="labs", from_=None), "labs")


@MOVABLE
@each_case("place", ["label", "over what was written"])
@each_case("name", ["labs", "closed"])
@with_new(server=queues)
def test_it_can_be_moved_to_what_its_namespace_names_by_now(
    server: Server, resource: str, place: str, name: str
) -> None:
    """It stayed when the namespace went there; then its user says so too: a move like any other."""
    server.has(namespace("team", queue="research"))
    held = stored(server, workload(resource))
    server.has(namespace("team", queue=name, version=2))
    wanted = labelled(held, name) if place == "label" else with_templates(held, named=name)
    if name == "closed":
        assert not_updated(server, held, wanted).code == 403
        return
    after, _ = updated(server, held, wanted, uid="move-1")
    assert after["metadata"]["annotations"] == {QUEUE: "labs", CAME: "move-1"}
    assert [one["metadata"]["annotations"][NAMED] for one in templates_of(after)] == ["labs"]
    assert [one["metadata"]["annotations"][QUEUE] for one in templates_of(after)] == ["labs"]


@KINDS
@with_new(server=queues)
def test_an_overwritten_name_that_differs_from_its_own_is_refused(server: Server, resource: str) -> None:
    held = stored(server, workload(resource, labels={LABEL: "research"}))
    answer = not_updated(server, held, with_templates(held, named="labs"))
    assert answer.code == 422
    assert '"labs"' in answer.message
    assert '"research"' in answer.message


@MOVABLE
@each_case("name", ["closed", "below", "lost"])
@with_new(server=queues)
def test_the_new_queue_must_accept(server: Server, resource: str, name: str) -> None:
    held = stored(server, workload(resource, labels={LABEL: "research"}))
    answer = not_updated(server, held, labelled(held, name))
    assert answer.code == 403
    assert answer.message.startswith(f'queue "{name}" is ')
    assert f"takes no new {resource.partition('.')[0]}; " in answer.message
    assert server.store.admissions.queues() == frozenset()


@MOVABLE
@each_case("name", ["stopped", "held", "absent"])
@with_new(server=queues)
def test_a_move_to_a_stopped_queue_is_admitted_with_a_warning(
    server: Server, resource: str, name: str
) -> None:
    held = stored(server, workload(resource, labels={LABEL: "research"}))
    _, answer = updated(server, held, labelled(held, name))
    assert [warning.startswith(f'queue "{name}" ') for warning in answer.warnings] == [True]


@MOVABLE
@with_new(server=queues)
def test_out_of_a_queue_that_is_closed_it_can_be_moved(server: Server, resource: str) -> None:
    held = written(workload(resource, labels={LABEL: "closed"}), "closed")
    after, _ = updated(server, held, labelled(held, "labs"))
    assert templates_of(after)[0]["metadata"]["annotations"][QUEUE] == "labs"


@MOVABLE
@with_new(server=queues)
def test_a_move_out_of_all_queues_takes_off_what_was_written(server: Server, resource: str) -> None:
    held = stored(server, workload(resource, labels={LABEL: "research"}))
    after, _ = updated(server, held, labelled(held, None))
    assert after == with_templates(annotated({**workload(resource), "metadata": after["metadata"]}))
    assert after["metadata"]["annotations"] == after["metadata"]["labels"] == {}


@MOVABLE
@with_new(server=queues)
def test_a_move_to_a_podgroup_that_is_not_there_waits_for_it(server: Server, resource: str) -> None:
    held = stored(server, workload(resource, "train", template({NAMED: "research"})))
    wanted = changed(held)
    templates_of(wanted)[0]["metadata"]["annotations"] = {GROUP: "gang"}
    after, answer = updated(server, held, wanted)
    assert templates_of(after)[0]["metadata"]["annotations"] == {GROUP: "gang"}
    assert QUEUE not in after["metadata"]["annotations"]
    assert len(answer.warnings) == 1


@MOVABLE
@with_new(server=queues)
def test_a_move_to_a_name_that_no_queue_can_have_is_refused(server: Server, resource: str) -> None:
    held = stored(server, workload(resource, labels={LABEL: "research"}))
    answer = not_updated(server, held, labelled(held, "NO"))
    assert answer.code == 422
    assert "is not a queue name" in answer.message


@each_case("resource", FIXED)
@each_case("name", ["labs", "closed", None])
@with_new(server=queues)
def test_jobs_cannot_be_moved(server: Server, resource: str, name: str | None) -> None:
    held = stored(server, workload(resource, labels={LABEL: "research"}))
    wanted = labelled(held, name)
    if resource == "jobs.batch.volcano.sh":
        wanted["spec"]["queue"] = name
    answer = not_updated(server, held, wanted)
    assert answer.code == 422
    assert answer.message.startswith("metadata: the queue of a Job")
    assert '(it is "research"); delete it and create it in the other queue' in answer.message


@KINDS
@with_new(server=queues)
def test_what_was_of_no_queue_and_names_one_now_is_submitted_or_refused(
    server: Server, resource: str
) -> None:
    held = workload(resource)
    if resource in FIXED:
        assert not_updated(server, held, labelled(held, "labs")).code == 422
    else:
        after, _ = updated(server, held, labelled(held, "labs"))
        assert templates_of(after)[0]["metadata"]["annotations"][QUEUE] == "labs"
        assert not_updated(server, held, labelled(held, "closed")).code == 403


@MOVABLE
@with_new(server=queues)
def test_a_move_is_on_its_way_until_it_is_seen(server: Server, resource: str) -> None:
    """A queue is not said to be Closed while something that was let into it may still come."""
    held = stored(server, workload(resource, labels={LABEL: "research"}))
    updated(server, held, labelled(held, "labs"), dry_run=True, uid="dry")
    assert server.store.admissions.queues() == frozenset()
    after, _ = updated(server, held, labelled(held, "labs"), uid="move-1")
    again, _ = updated(server, held, after, uid="move-2")
    assert again == after
    assert server.store.admissions.queues() == {"labs"}
    server.has(after)
    assert server.store.admissions.queues() == frozenset()


@MOVABLE
@with_new(server=queues)
def test_a_roll_back_to_before_a_move_stays_in_the_queue_it_was_moved_to(
    server: Server, resource: str
) -> None:
    """The old template comes back whole, with what was written into it then."""
    first = stored(server, workload(resource, labels={LABEL: "research"}))
    moved, _ = updated(server, first, labelled(first, "labs"))
    assert updated(server, moved, {**moved, "spec": first["spec"]})[0] == moved


@MOVABLE
@with_new(server=queues)
def test_our_keys_that_a_user_wrote_in_a_template_are_removed_and_never_followed(
    server: Server, resource: str
) -> None:
    held = workload(resource)
    forged = with_templates(held, named="closed", ours="closed", from_="workload")
    assert updated(server, held, forged)[0]["spec"] == with_templates(held)["spec"]
    named = stored(server, workload(resource, "train", template({NAMED: "research"})))
    assert updated(server, named, with_templates(named, from_="workload"))[0] == named


# More replicas in a stopped queue


@SCALING
@with_new(server=queues)
def test_more_replicas_in_a_stopped_queue_bring_a_warning(server: Server, resource: str) -> None:
    before = stored(server, workload(resource, "train", template({NAMED: "stopped"}), replicas=2))
    after, answer = updated(server, before, changed(before, replicas=3))
    assert after == changed(before, replicas=3)
    assert answer.warnings == [
        'queue "stopped" is Suspended (disks): new pods wait; an admin of queues can resume it'
    ]


@SCALING
@with_new(server=queues)
def test_fewer_replicas_or_as_many_bring_no_warning(server: Server, resource: str) -> None:
    before = stored(server, workload(resource, "train", template({NAMED: "stopped"}), replicas=2))
    for replicas in (1, 2):
        _, answer = updated(server, before, changed(before, replicas=replicas))
        assert answer.warnings == []


@SCALING
@with_new(server=queues)
def test_more_replicas_where_the_queue_schedules_bring_no_warning(server: Server, resource: str) -> None:
    before = stored(server, workload(resource, "train", template({NAMED: "research"}), replicas=2))
    _, answer = updated(server, before, changed(before, replicas=3))
    assert answer.warnings == []


# From no replicas to some


@SCALING
@each_case(
    ("was", "now", "taken"), [(0, 1, False), (0, None, False), (3, 0, True), (3, 9, False), (9, 3, True)]
)
@with_new(server=queues)
def test_a_queue_that_does_not_accept_refuses_the_first_replicas_and_more(
    server: Server, resource: str, was: int, now: int | None, taken: bool
) -> None:
    held = written(
        workload(resource, "train", template({NAMED: "closed", QUEUE: "closed"}), replicas=was), "closed"
    )
    if taken:
        untouched(server, held, changed(held, replicas=now))
        return
    answer = not_updated(server, held, changed(held, replicas=now))
    assert answer.code == 403
    kind = held["kind"]
    what = f"replicas beyond the 3 that this {kind} has are" if was else f"a {kind} that had no replicas is"
    assert answer.message == (
        f'spec.replicas: queue "closed" takes no new work, and {what} new; '
        "reopen it with: kubectl queue open closed"
    )
    assert server.store.admissions.queues() == frozenset()


@SCALING
@with_new(server=queues)
def test_the_way_out_is_that_of_the_queue_that_refuses(server: Server, resource: str) -> None:
    for name, way_out in (("below", "kubectl queue open closed"), ("lost", "kubectl edit queue lost")):
        held = written(workload(resource, "train", template({NAMED: name}), replicas=0), name)
        assert not_updated(server, held, changed(held, replicas=1)).message.endswith(way_out)


@SCALING
@with_new(server=queues)
def test_where_its_queue_accepts_it_wakes_and_is_on_its_way(server: Server, resource: str) -> None:
    held = stored(server, workload(resource, "train", template({NAMED: "stopped"}), replicas=0))
    after, answer = updated(server, held, changed(held, replicas=2), uid="wake-1")
    assert after == annotated(changed(held, replicas=2), came="wake-1")
    assert len(answer.warnings) == 1
    assert server.store.admissions.queues() == {"stopped"}
    server.has(after)
    assert server.store.admissions.queues() == frozenset()


@SCALING
@with_new(server=queues)
def test_a_workload_scaled_up_before_it_is_stored_is_pending_by_itself(server: Server, resource: str) -> None:
    """It came without replicas, and that is seen first: what is awaited then is the second."""
    held, _ = admitted(server, workload(resource, labels={LABEL: "research"}, replicas=0), uid="made-1")
    after, _ = updated(server, held, changed(held, replicas=1), uid="wake-1")
    assert after["metadata"]["annotations"][CAME] == "wake-1"
    server.has(held)
    assert server.store.admissions.queues() == {"research"}
    server.has(after)
    assert server.store.admissions.queues() == frozenset()


@SCALING
@with_new(server=queues)
def test_one_that_names_two_queues_cannot_wake(server: Server, resource: str) -> None:
    held = workload(resource, "train", template({NAMED: "research"}), labels={LABEL: "labs"}, replicas=0)
    assert not_updated(server, held, changed(held, replicas=1)).code == 422


# What another workload made


def revision(replicas: int, **more: Any) -> Wire:
    """A ReplicaSet of a Deployment in the closed queue."""
    parent = workload("deployments.apps", "parent")
    return workload(
        "replicasets.apps",
        "parent-1",
        template({NAMED: "closed", QUEUE: "closed"}),
        owner=owner(parent),
        replicas=replicas,
        **more,
    )


def test_a_deployment_may_grow_and_shrink_its_replicasets_in_a_queue_that_closes(server: Server) -> None:
    """It was accepted; its roll-out ends."""
    server.has(member("old", queue="closed"))
    untouched(server, revision(0), revision(3), user=CONTROLLER)
    untouched(server, revision(3), revision(0), user=CONTROLLER)


def test_a_user_does_not_wake_it(server: Server) -> None:
    assert not_updated(server, revision(0), revision(3)).code == 403


def test_a_user_does_not_move_it(server: Server) -> None:
    held = revision(1)
    for wanted in (with_templates(held, named="labs"), with_templates(held, named="labs", ours="labs")):
        answer = not_updated(server, held, wanted)
        assert answer.code == 422
        assert answer.message.endswith("change the workload that made it")


def test_what_a_user_touches_in_its_templates_is_put_back_as_it_was(server: Server) -> None:
    """And nothing more is written: its maker would take it for one that it does not know."""
    held = written(revision(1), "closed")
    assert updated(server, held, with_templates(held, ours="labs", from_="x"))[0] == held
    old = written(workload("replicasets.apps", "r", template({NAMED: "closed"}), owner=owner(held)), "closed")
    assert updated(server, old, with_templates(old, ours="labs"))[0] == old


@MOVABLE
@with_new(server=queues)
def test_naming_an_owner_brings_no_pod_into_a_closed_queue(server: Server, resource: str) -> None:
    """The owner is real, live, and was accepted; but it did not make this."""
    real = workload("deployments.apps", "real", template({NAMED: "closed"}))
    server.has(queue("closed", state="Closed", status=REFUSING), real)
    held = stored(server, workload(resource, labels={LABEL: "research"}))
    wanted = labelled(held, "closed")
    wanted["metadata"]["ownerReferences"] = [owner(real)]
    assert not_updated(server, held, wanted).code == 403
    claimed = changed(held)
    claimed["metadata"]["ownerReferences"] = [owner(real)]
    updated(server, held, claimed)
    after, _ = updated(server, claimed, labelled(claimed, "closed"))
    assert after["spec"] == held["spec"]
    assert after["metadata"]["annotations"][QUEUE] == "research"
    assert not_updated(server, claimed, with_templates(claimed, named="closed")).code == 422


# Bad input


@KINDS
@each_case("old", [None, [], "x", 1])
@with_new(server=queues)
def test_an_update_without_what_it_was_is_a_bad_request(server: Server, resource: str, old: Any) -> None:
    body = review(workload(resource), old=old, operation="UPDATE", resource=resource)
    reply = server.post("/mutate/workloads", body)
    assert reply.status_code == 400
    assert "request.oldObject" in reply.get_json()["message"]


def test_a_label_written_on_a_workload_that_is_older_than_the_installation_changes_its_metadata_alone(
    server: Server,
) -> None:
    """The value is corrected, and no template changes: that would replace its pods."""
    before = workload("deployments.apps", "web", template({NAMED: "research"}))
    after, _ = updated(server, before, with_our_label(before, "anything"))
    assert after["metadata"]["labels"][QUEUE] == "research"
    assert after["spec"] == before["spec"]
