"""`/mutate/workloads` on CREATE: the queue is written down in the templates, or the workload is refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from queues.metadata.keys import PREEMPTABLE
from tests.support.cases import each_case, with_new
from tests.support.http.asking import Server
from tests.support.http.wire_objects import (
    GROUP,
    NAMED,
    WORKLOADS,
    Wire,
    namespace,
    owner,
    pod,
    podgroup,
    queue,
    resource_of,
    review,
    template,
    templates_of,
    with_value,
    workload,
)
from tests.support.webhooks.json_patch import applied
from tests.support.webhooks.workload_requests import (
    CAME,
    CONTROLLER,
    FROM,
    LABEL,
    QUEUE,
    admitted,
    annotated,
    ask,
    queues,
    refused,
    updated,
    with_our_label,
    with_templates,
    written,
)

#: The kinds whose templates may be several.
SEVERAL = ("jobs.batch.volcano.sh", "jobsets.jobset.x-k8s.io")
KINDS = each_case("resource", WORKLOADS)


@pytest.fixture
def server() -> Server:
    return queues()


def of(resource: str, name: str = "research", **more: Any) -> Wire:
    """A workload whose templates name a queue."""
    number = 3 if resource in SEVERAL else 1
    return workload(resource, "train", *(template({NAMED: name}) for _ in range(number)), **more)


def pod_of(made: Wire, number: int = 0) -> Wire:
    """A pod that a controller makes from a template, not owned by anybody that is known here."""
    meta = templates_of(made)[number]["metadata"]
    return pod(annotations=meta.get("annotations"), labels=meta.get("labels"))


def queue_of_pod(server: Server, made: Wire, number: int = 0) -> str:
    answer = server.ask("/mutate/pods", pod_of(made, number), user=CONTROLLER, uid="pod-1")
    assert answer.allowed, answer.message
    after = applied(answer.patch, pod_of(made, number))
    return str((after["metadata"].get("annotations") or {}).get(QUEUE, ""))


# The table of the module


@KINDS
@with_new(server=queues)
def test_the_queue_is_written_on_it_and_in_each_of_its_templates(server: Server, resource: str) -> None:
    before = of(resource)
    after, answer = admitted(server, before)
    assert after == written(with_templates(before, ours="research"), "research")
    assert answer.warnings == []
    assert {queue_of_pod(server, after, n) for n in range(len(templates_of(after)))} == {"research"}


@KINDS
@each_case("place", ["annotations", "labels"])
@with_new(server=queues)
def test_a_name_on_the_workload_alone_reaches_its_pods(server: Server, resource: str, place: str) -> None:
    key = NAMED if place == "annotations" else LABEL
    named: dict[str, Any] = {place: {key: "research"}}
    before = workload(resource, **named)
    after, _ = admitted(server, before)
    told = with_templates(before, ours="research", named="research", from_="workload")
    assert after == written(told, "research")
    assert queue_of_pod(server, after) == "research"


POLICY = "volcano.sh/scheduler-policy"


def policies_of(made: Wire) -> set[str]:
    return {one["metadata"]["annotations"].get(POLICY, "") for one in templates_of(made)}


@KINDS
@with_new(server=queues)
def test_the_scheduling_policy_of_a_workload_reaches_its_pods(server: Server, resource: str) -> None:
    after, _ = admitted(server, workload(resource, annotations={NAMED: "research", POLICY: "packed"}))
    assert policies_of(after) == {"packed"}
    own = workload(
        resource, "train", template({NAMED: "research", POLICY: "spread"}), annotations={POLICY: "packed"}
    )
    after, _ = admitted(server, own)
    assert policies_of(after) == {"spread"}
    after, _ = admitted(server, of(resource))
    assert policies_of(after) == {""}


@KINDS
@with_new(server=queues)
def test_whether_a_workload_is_preemptable_reaches_its_pods(server: Server, resource: str) -> None:
    """As annotation or label, read as Volcano does; what its templates say stays."""

    def said(of_template: Wire | None = None, **own: Any) -> set[str]:
        annotations = {NAMED: "research", **own.pop("annotations", {})}
        made = workload(
            resource, "train", template({NAMED: "research", **(of_template or {})}), annotations=annotations
        )
        made["metadata"].update(own)
        after, _ = admitted(server, made)
        return {one["metadata"]["annotations"].get(PREEMPTABLE, "") for one in templates_of(after)}

    assert said(annotations={PREEMPTABLE: "0"}) == {"false"}
    assert said(labels={PREEMPTABLE: "no"}) == {"false"}
    assert said(annotations={PREEMPTABLE: "T"}, labels={PREEMPTABLE: "false"}) == {"true"}
    assert said({PREEMPTABLE: "t"}, annotations={PREEMPTABLE: "false"}) == {"t"}
    assert said() == {""}


@KINDS
@with_new(server=queues)
def test_a_namespaces_queue_reaches_its_pods_and_stays_theirs(server: Server, resource: str) -> None:
    server.has(namespace("team", queue="research"))
    after, _ = admitted(server, workload(resource))
    assert after == written(
        with_templates(workload(resource), ours="research", named="research", from_="namespace"), "research"
    )
    server.has(namespace("team", queue="labs", version=2))
    assert queue_of_pod(server, after) == "research"


@KINDS
@with_new(server=queues)
def test_a_scheduler_that_we_own_makes_it_a_member_of_default(server: Server, resource: str) -> None:
    before = workload(resource, "train", template(schedulerName="volcano"))
    after, _ = admitted(server, before)
    told = with_templates(before, ours="default", named="default", from_="scheduler")
    assert after == written(told, "default")


def test_a_volcano_job_says_its_queue_and_its_scheduler_in_its_spec(server: Server) -> None:
    before = workload("jobs.batch.volcano.sh", queue="labs")
    after, _ = admitted(server, before)
    assert after == written(with_templates(before, ours="labs", named="labs", from_="workload"), "labs")
    after, _ = admitted(server, workload("jobs.batch.volcano.sh", schedulerName="volcano"))
    assert after["spec"]["queue"] == "default"


@each_case("resource", [one for one in WORKLOADS if one != "jobs.batch.volcano.sh"])
@with_new(server=queues)
def test_a_queue_in_the_spec_of_another_kind_says_nothing(server: Server, resource: str) -> None:
    assert ask(server, workload(resource, queue="research")).patch == []


@KINDS
@with_new(server=queues)
def test_of_no_queue_it_is_left_alone(server: Server, resource: str) -> None:
    answer = ask(server, workload(resource))
    assert (answer.allowed, answer.patch, answer.warnings) == (True, [], [])


@KINDS
@with_new(server=queues)
def test_from_a_workload_of_no_queue_only_our_own_keys_are_removed(server: Server, resource: str) -> None:
    plain = workload(
        resource, "train", template({"a": "b"}, {"c": "d"}), annotations={"e": "f"}, labels={"g": "h"}
    )
    forged = annotated(with_templates(plain, ours="research"), ours="labs", came="x")
    forged["metadata"]["labels"][QUEUE] = "labs"
    after, _ = admitted(server, forged)
    assert after == plain


@KINDS
@with_new(server=queues)
def test_a_name_that_the_webhook_wrote_does_not_count_in_a_copy(server: Server, resource: str) -> None:
    """A manifest read back from the cluster, and submitted where its namespace names no queue."""
    copied = with_templates(workload(resource), ours="research", named="research", from_="namespace")
    after, _ = admitted(server, annotated(copied, ours="research", came="old"))
    assert after == with_templates(annotated(workload(resource)))


@KINDS
@with_new(server=queues)
def test_what_users_put_into_our_keys_is_overwritten(server: Server, resource: str) -> None:
    forged = annotated(with_templates(of(resource), ours="labs", from_="namespace"), ours="labs", came="x")
    forged["metadata"]["labels"] = {QUEUE: "labs"}
    after, _ = admitted(server, with_templates(forged, volcano="research", named="labs"))
    assert after == written(
        with_templates(forged, volcano="research", named=None, ours="research", from_=None), "research"
    )


@KINDS
@with_new(server=queues)
def test_two_names_that_differ_are_refused_and_both_are_shown(server: Server, resource: str) -> None:
    answer = refused(server, of(resource, labels={LABEL: "labs"}))
    assert answer.code == 422
    assert answer.message == (
        'it is in two queues: annotation scheduling.volcano.sh/queue-name says "research", '
        'volcano.sh/queue-name says "labs"; name one queue'
    )


@KINDS
@each_case("where", ["on itself", "in a template"])
@with_new(server=queues)
def test_of_two_names_in_one_place_it_is_said_which_one_counts(
    server: Server, resource: str, where: str
) -> None:
    two: dict[str, Any] = {"annotations": {NAMED: "research"}, "labels": {LABEL: "labs"}}
    before = (
        workload(resource, **two)
        if where == "on itself"
        else workload(resource, "train", template(two["annotations"], labels=two["labels"]))
    )
    after, answer = admitted(server, before)
    assert after["metadata"]["labels"][QUEUE] == "research"
    assert answer.warnings == [
        'it names two queues; annotation scheduling.volcano.sh/queue-name counts: "research", not "labs"'
    ]
    assert updated(server, after, after)[1].warnings == [], "it is said once"
    assert admitted(server, before, user=CONTROLLER)[1].warnings == []


@each_case("resource", SEVERAL)
@with_new(server=queues)
def test_templates_that_differ_are_refused_and_those_that_say_nothing_follow(
    server: Server, resource: str
) -> None:
    first, second = template({NAMED: "research"}), template(labels={LABEL: "labs"})
    assert '"research"' in refused(server, workload(resource, "train", first, second)).message
    after, _ = admitted(server, workload(resource, "train", first, template()))
    assert [one["metadata"]["annotations"].get(FROM) for one in templates_of(after)] == [None, "workload"]
    assert queue_of_pod(server, after, 1) == "research"


def test_a_volcano_jobs_spec_is_one_of_its_names(server: Server) -> None:
    answer = refused(server, of("jobs.batch.volcano.sh", queue="labs"))
    assert 'spec.queue says "labs"' in answer.message
    after, _ = admitted(server, of("jobs.batch.volcano.sh", queue="research"))
    assert after["spec"]["queue"] == "research"


@each_case("named_by", ["its namespace", "its templates"])
@with_new(server=queues)
def test_default_in_a_volcano_jobs_spec_is_no_name_and_is_said(server: Server, named_by: str) -> None:
    """The definition writes it where none is given. Job and templates, and so PodGroup and pods, agree."""
    server.has(namespace("team", queue="labs" if named_by == "its namespace" else ""))
    templates = [template({NAMED: "labs"})] * 2 if named_by == "its templates" else []
    job = workload("jobs.batch.volcano.sh", "train", *templates, queue="default", schedulerName="volcano")
    after, answer = admitted(server, job)
    assert (after["spec"]["queue"], after["metadata"]["annotations"][QUEUE]) == ("labs", "labs")
    assert {each["metadata"]["annotations"][QUEUE] for each in templates_of(after)} == {"labs"}
    assert answer.warnings == [
        'spec.queue "default" counts as none: this is in queue "labs"',
        'no scheduler named "volcano" was seen here: if it does not run, the pods never start',
    ]
    server.has(after)
    replaced = {**after, "spec": {**after["spec"], "queue": "default"}}
    again, _ = updated(server, after, replaced)
    assert again["spec"]["queue"] == "labs"


def test_default_in_a_volcano_jobs_spec_counts_where_nothing_else_is_named(server: Server) -> None:
    server.has(queue("default"))
    after, answer = admitted(server, workload("jobs.batch.volcano.sh", "train", queue="default"))
    assert (after["spec"]["queue"], answer.warnings) == ("default", [])
    assert after["metadata"]["annotations"][QUEUE] == "default"


@KINDS
@each_case(
    ("name", "warning"),
    [
        ("stopped", 'queue "stopped" is Suspended (disks): this waits; an admin of queues can resume it'),
        ("held", 'queue "held" is stopped by stopPolicy Hold: this waits; an admin of queues can resume it'),
        (
            "absent",
            'queue "absent" does not exist: this waits; '
            "name another queue, or have an admin of queues create it",
        ),
    ],
)
@with_new(server=queues)
def test_a_queue_that_does_not_schedule_takes_it_with_a_warning(
    server: Server, resource: str, name: str, warning: str
) -> None:
    after, answer = admitted(server, of(resource, name))
    assert after == written(with_templates(of(resource, name), ours=name), name)
    assert answer.warnings == [warning]


@KINDS
@each_case(
    ("name", "text"),
    [
        (
            "closed",
            'queue "closed" is Closed and takes no new {}; reopen it with: kubectl queue open closed',
        ),
        (
            "below",
            'queue "below" is Closed, its ancestor "closed" is to be Closed, and takes no new {}; '
            "reopen it with: kubectl queue open closed",
        ),
        (
            "lost",
            'queue "lost" is Unknown: parent "nobody" of queue "lost" does not exist and takes no new {}; '
            "mend it with: kubectl edit queue lost",
        ),
    ],
)
@with_new(server=queues)
def test_a_queue_that_does_not_accept_refuses_it_by_the_name_of_its_kind(
    server: Server, resource: str, name: str, text: str
) -> None:
    answer = refused(server, of(resource, name))
    assert answer.code == 403
    assert answer.message == text.format(resource.partition(".")[0])


@KINDS
@with_new(server=queues)
def test_it_is_refused_as_closing_while_a_member_is_live(server: Server, resource: str) -> None:
    server.has(workload("jobs.batch", "old", template({NAMED: "closed"})))
    assert refused(server, of(resource, "closed")).message.startswith('queue "closed" is Closing and takes')


@KINDS
@with_new(server=queues)
def test_a_podgroup_that_is_not_there_leaves_it_unanswered_with_a_warning(
    server: Server, resource: str
) -> None:
    before = workload(resource, "train", template({GROUP: "gang"}))
    after, answer = admitted(server, before)
    waiting = with_our_label(before, "")
    assert after == waiting, "the server watches what has the label"
    assert answer.warnings == [
        'PodGroup "gang" does not exist: this waits; create it with: kubectl create -f PODGROUP'
    ]
    forged = annotated(with_templates(before, ours="labs"), ours="labs")
    assert admitted(server, forged)[0] == annotated(waiting)


@KINDS
@with_new(server=queues)
def test_a_podgroups_queue_is_its(server: Server, resource: str) -> None:
    server.has(podgroup("gang", queue="research"))
    before = workload(resource, "train", template({GROUP: "gang"}))
    after, _ = admitted(server, before)
    assert after == written(with_templates(before, ours="research"), "research")


#: The kinds whose own PodGroup reaches their pods. Volcano makes one for each of its Jobs.
GROUPED = each_case("resource", [each for each in WORKLOADS if each != "jobs.batch.volcano.sh"])


def podgroup_of_pod(server: Server, made: Wire) -> str:
    answer = server.ask("/mutate/pods", pod_of(made), user=CONTROLLER, uid="pod-1")
    return str(applied(answer.patch, pod_of(made))["metadata"]["annotations"].get(GROUP, ""))


@GROUPED
@with_new(server=queues)
def test_a_podgroup_that_the_workload_alone_names_is_its_pods(server: Server, resource: str) -> None:
    server.has(podgroup("gang", queue="research"))
    before = workload(resource, annotations={GROUP: "gang"})
    after, answer = admitted(server, before)
    assert after == written(
        with_templates(before, ours="research", group="gang", from_="podgroup"), "research"
    )
    assert answer.warnings == []
    assert (queue_of_pod(server, after), podgroup_of_pod(server, after)) == ("research", "gang")


@GROUPED
@with_new(server=queues)
def test_a_podgroup_that_the_workload_alone_names_is_its_pods_before_it_exists(
    server: Server, resource: str
) -> None:
    before = workload(resource, annotations={GROUP: "gang"})
    after, answer = admitted(server, before)
    assert after == with_our_label(with_templates(before, group="gang", from_="podgroup"), "")
    assert [text.partition(":")[0] for text in answer.warnings] == ['PodGroup "gang" does not exist']
    assert podgroup_of_pod(server, after) == "gang"
    assert admitted(server, after)[0] == after, "asked again"


def test_a_job_of_volcano_gets_the_podgroup_that_volcano_makes(server: Server) -> None:
    server.has(podgroup("gang", queue="research"))
    after, _ = admitted(server, workload("jobs.batch.volcano.sh", annotations={GROUP: "gang"}))
    assert {one["metadata"]["annotations"].get(GROUP) for one in templates_of(after)} == {None}


@GROUPED
@each_case("exists", [True, False])
@with_new(server=queues)
def test_who_names_a_podgroup_beside_a_template_that_names_its_queue_is_told(
    server: Server, resource: str, exists: bool
) -> None:
    """The template says enough of itself, and nothing of a PodGroup."""
    if exists:
        server.has(podgroup("gang", queue="research"))
    after, answer = admitted(server, of(resource, annotations={GROUP: "gang"}))
    assert {one["metadata"]["annotations"].get(GROUP) for one in templates_of(after)} == {None}
    assert answer.warnings == [
        "scheduling.k8s.io/group-name has no effect on a pod template that names a queue: write it there"
    ]


def test_a_job_that_a_controller_makes_for_a_podgroup_has_it_in_its_template(server: Server) -> None:
    """From the Job template of a CronJob."""
    before = workload("jobs.batch", annotations={GROUP: "gang"})
    after, _ = admitted(server, before, user=CONTROLLER)
    assert podgroup_of_pod(server, after) == "gang"


def test_a_podgroup_that_is_not_there_cannot_disagree_yet(server: Server) -> None:
    """One file may hold a Deployment that says its queue, and its PodGroup."""
    obj = workload("deployments.apps", "train", template({GROUP: "gang"}), labels={LABEL: "research"})
    after, answer = admitted(server, obj)
    assert after == with_our_label(obj, "")
    assert len(answer.warnings) == 1
    server.has(podgroup("gang", queue="labs"))
    assert refused(server, obj).code == 422


@KINDS
@each_case("name", ["Research", "a b", "../root", "x" * 254, "a\u202eb"], ids=lambda one: one[:8])
@with_new(server=queues)
def test_a_name_that_no_queue_can_have_is_refused(server: Server, resource: str, name: str) -> None:
    answer = refused(server, of(resource, name))
    assert answer.code == 422
    assert "is not a queue name" in answer.message
    assert "\u202e" not in answer.message


@KINDS
@with_new(server=queues)
def test_a_name_too_long_for_a_label_is_cut_there_and_whole_in_the_annotations(
    server: Server, resource: str
) -> None:
    name = ".".join(["q" * 60] * 4)
    after, _ = admitted(server, of(resource, name))
    assert after["metadata"]["annotations"][QUEUE] == name
    assert {one["metadata"]["annotations"][QUEUE] for one in templates_of(after)} == {name}
    assert len(after["metadata"]["labels"][QUEUE]) <= 63


@each_case("exempt", ["kube-system", "sluice-system"])
@KINDS
@with_new(server=queues)
def test_namespaces_that_never_hold_members(server: Server, resource: str, exempt: str) -> None:
    assert ask(server, of(resource, "closed", namespace=exempt), namespace=exempt).allowed


# Templates of every shape


@KINDS
@each_case("place", ["annotations", "labels"])
@each_case("value", [None, {}, {"a": "b"}, ...], ids=["null", "empty", "one", "absent"])
@with_new(server=queues)
def test_it_is_written_whatever_maps_are_there(server: Server, resource: str, place: str, value: Any) -> None:
    server.has(namespace("team", queue="research"))
    before = workload(resource)
    for meta in (before["metadata"], templates_of(before)[0]["metadata"]):
        if value is not ...:
            meta[place] = copy.deepcopy(value)
    after, _ = admitted(server, before)
    for meta in (after["metadata"], templates_of(after)[0]["metadata"]):
        assert meta["annotations"][QUEUE] == "research"
        assert (meta.get(place) or {}).items() >= ({} if value is ... else value or {}).items()


@KINDS
@each_case("value", [None, ...], ids=["null", "absent"])
@with_new(server=queues)
def test_a_template_without_metadata_gets_some(server: Server, resource: str, value: Any) -> None:
    before = workload(resource, annotations={NAMED: "research"})
    [one] = templates_of(before)
    one.pop("metadata")
    if value is not ...:
        one["metadata"] = value
    after, _ = admitted(server, before)
    assert templates_of(after)[0]["metadata"] == {
        "annotations": {QUEUE: "research", NAMED: "research", FROM: "workload"}
    }


@KINDS
@with_new(server=queues)
def test_a_template_without_metadata_of_no_queue_gets_none(server: Server, resource: str) -> None:
    before = workload(resource)
    templates_of(before)[0].pop("metadata")
    assert ask(server, before).patch == []


@each_case("spec", [{}, {"tasks": None}, {"tasks": []}, ...], ids=str)
@with_new(server=queues)
def test_a_volcano_job_without_tasks_is_left_to_its_own_webhook(server: Server, spec: Any) -> None:
    """No spec is made up where there is none: there would be nothing to write it into."""
    before = workload("jobs.batch.volcano.sh", annotations={NAMED: "research"})
    del before["spec"]
    if spec is not ...:
        before["spec"] = spec
    after, _ = admitted(server, before)
    assert after["metadata"]["annotations"][QUEUE] == "research"
    assert after.get("spec", ...) == spec


# Called again, and dry runs


@KINDS
@with_new(server=queues)
def test_a_second_call_for_the_same_request_changes_nothing(server: Server, resource: str) -> None:
    """The API server may ask again after another webhook changed the object, under another UID."""
    once, _ = admitted(server, of(resource), uid="call-1")
    twice, _ = admitted(server, once, uid="call-2")
    assert twice == once
    assert once["metadata"]["annotations"][CAME] == "call-1"
    assert server.store.admissions.any_open_in({"research"})
    server.has(twice)
    assert not server.store.admissions.any_open_in({"research"})


def test_a_second_call_after_which_it_is_in_another_queue_is_another_admission(server: Server) -> None:
    """Else nobody would know that something is on its way to the other queue."""
    once, _ = admitted(server, of("deployments.apps"), uid="call-1")
    twice, _ = admitted(server, with_templates(once, named="labs"), uid="call-2")
    assert twice["metadata"]["annotations"][CAME] == "call-2"
    assert server.store.admissions.any_open_in({"labs"})


def test_a_name_that_ran_out_is_not_kept(server: Server) -> None:
    once, _ = admitted(server, of("deployments.apps"), uid="call-1")
    server.clock.seconds += 61
    again, _ = admitted(server, once, uid="call-2")
    assert again["metadata"]["annotations"][CAME] == "call-2"
    assert server.store.admissions.any_open_in({"research"})


@KINDS
@with_new(server=queues)
def test_an_admission_is_open_until_it_arrives(server: Server, resource: str) -> None:
    after, _ = admitted(server, of(resource))
    assert server.store.admissions.queues() == {"research"}
    server.has(after)
    assert server.store.admissions.queues() == frozenset()


@KINDS
@with_new(server=queues)
def test_a_dry_run_and_a_refusal_are_on_their_way_nowhere(server: Server, resource: str) -> None:
    admitted(server, of(resource), dry_run=True)
    refused(server, of(resource, "closed"))
    refused(server, of(resource, "closed"), dry_run=True)
    assert server.store.admissions.queues() == frozenset()


# What another workload made

OWNED = [
    ("replicasets.apps", "deployments.apps"),
    ("jobs.batch", "cronjobs.batch"),
    ("jobs.batch", "jobsets.jobset.x-k8s.io"),
]


@each_case(("resource", "maker"), OWNED)
@with_new(server=queues)
def test_the_templates_of_what_another_workload_made_are_not_touched(
    server: Server, resource: str, maker: str
) -> None:
    """Its maker would not know it again; what was written into the maker's template is in this one."""
    parent, _ = admitted(server, workload(maker, "parent", labels={LABEL: "stopped"}))
    made = workload(resource, "child", templates_of(parent)[0], owner=owner(parent))
    after, answer = admitted(server, made, user=CONTROLLER)
    assert after == written(made, "stopped")
    assert answer.warnings == [], "its user was told when the parent came"


@each_case(("resource", "maker"), OWNED)
@with_new(server=queues)
def test_of_no_queue_the_templates_of_what_another_made_are_not_touched_either(
    server: Server, resource: str, maker: str
) -> None:
    parent = workload(maker, "parent")
    made = workload(resource, "child", template({QUEUE: "labs"}), owner=owner(parent))
    assert admitted(server, made, user=CONTROLLER)[0] == made


def test_an_owner_of_a_kind_that_makes_none_of_these_is_no_maker(server: Server) -> None:
    custom = {"apiVersion": "example.com/v1", "kind": "Workflow", "metadata": {"name": "w", "uid": "u"}}
    before = workload("jobs.batch", labels={LABEL: "research"}, owner=owner(custom))
    after, _ = admitted(server, before, user=CONTROLLER)
    assert templates_of(after)[0]["metadata"]["annotations"][QUEUE] == "research"


def test_a_job_that_a_user_makes_from_a_cronjob_is_in_its_queue(server: Server) -> None:
    """`kubectl create job --from=cronjob/nightly` copies the template, and names the CronJob as owner."""
    nightly, _ = admitted(server, workload("cronjobs.batch", "nightly", labels={LABEL: "research"}))
    copy_of = workload("jobs.batch", "by-hand", templates_of(nightly)[0], owner=owner(nightly))
    after, _ = admitted(server, copy_of)
    assert after == written(copy_of, "research")


def test_what_a_user_claims_to_be_owned_is_written_to_like_any(server: Server) -> None:
    """Else its pods would be counted in whatever queue the user wrote into our keys."""
    parent = workload("deployments.apps", "parent")
    forged = workload(
        "replicasets.apps", "x", template({NAMED: "research", QUEUE: "labs"}), owner=owner(parent)
    )
    after, _ = admitted(server, forged)
    assert templates_of(after)[0]["metadata"]["annotations"] == {NAMED: "research", QUEUE: "research"}


# Bad input beyond what is tried on every endpoint


@each_case("resource", ["pods", "nodes", "", "jobs.example.com", "deployments", "deployments.apps.x"])
@with_new(server=queues)
def test_a_resource_that_is_no_workload_is_a_bad_request(server: Server, resource: str) -> None:
    reply = server.post("/mutate/workloads", review(workload("jobs.batch"), resource=resource))
    assert reply.status_code == 400
    assert "is no workload" in reply.get_json()["message"]


@KINDS
@each_case(
    ("place", "wrong"),
    [
        (("spec",), None),
        (("spec",), []),
        (("spec", "replicas"), "3"),
        (("spec", "template"), "x"),
        (("spec", "jobTemplate"), {"spec": {"template": {"metadata": []}}}),
        (("spec", "tasks"), [None]),
        (("spec", "tasks"), {"a": 1}),
        (("spec", "replicatedJobs"), [{"template": {"spec": None}}]),
        (("metadata", "annotations"), {"a": None}),
        (("metadata", "labels"), {"a": 1}),
        (("metadata", "ownerReferences"), [{"controller": "yes"}]),
        (("metadata",), None),
    ],
    ids=str,
)
@with_new(server=queues)
def test_the_wrong_type_is_refused_with_its_place(
    server: Server, resource: str, place: tuple[str, ...], wrong: Any
) -> None:
    answer = ask(server, with_value(of(resource), place, wrong))
    assert (answer.allowed, answer.code) == (False, 422)
    assert answer.message.startswith(".".join(place)), answer.message


def test_a_workload_of_ten_thousand_templates_is_answered_in_full(server: Server) -> None:
    tasks = [template() for _ in range(10_000)]
    after, _ = admitted(server, workload("jobs.batch.volcano.sh", "huge", *tasks, queue="research"))
    assert all(one["metadata"]["annotations"][QUEUE] == "research" for one in templates_of(after))
    assert resource_of(after) == "jobs.batch.volcano.sh"
