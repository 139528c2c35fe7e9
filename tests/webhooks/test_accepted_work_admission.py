"""What a queue that does not accept still takes through admission: the pods of work that it had accepted.

The rows of the table of `queues.admission.accepted_work`, for pods and for what controllers make, and those
who only claim to be such work.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.support.cases import each_case, with_new
from tests.support.http.asking import Server
from tests.support.http.wire_objects import (
    GROUP,
    NAMED,
    Wire,
    owner,
    pod,
    podgroup,
    queue,
    template,
    workload,
)
from tests.support.webhooks.workload_requests import (
    AFTER,
    BEFORE,
    CONTROLLER,
    LABEL,
    REFUSING,
    SAME,
    ask,
    queues,
    stored,
)
from webhooks.settings import AdmissionSettings

#: The server's own user.
OWN = AdmissionSettings().own_user
TIMES = each_case(("created", "taken"), [(BEFORE, True), (SAME, True), (AFTER, False)])
#: The kinds that answer for what they make.
MAKERS = each_case(
    "maker",
    [
        "jobs.batch",
        "deployments.apps",
        "statefulsets.apps",
        "replicasets.apps",
        "daemonsets.apps",
        "jobs.batch.volcano.sh",
        "jobsets.jobset.x-k8s.io",
    ],
)


@pytest.fixture
def server() -> Server:
    return queues()


def accepted(maker: str, name: str = "train", *, in_queue: str = "closed", **more: Any) -> Wire:
    """Work that its queue accepted, unless told otherwise."""
    return workload(maker, name, template({NAMED: in_queue}), **{"created": BEFORE, **more})


def pod_of(work: Wire, *, in_queue: str = "closed", **reference: Any) -> Wire:
    return pod(annotations={NAMED: in_queue}, owner={**owner(work), **reference})


def taken_from(server: Server, obj: Wire, user: str = CONTROLLER, **request: Any) -> bool:
    if obj["kind"] == "Pod":
        return server.ask("/mutate/pods", obj, user=user, **request).allowed
    return ask(server, obj, user=user, **request).allowed


# Each row of the table


@MAKERS
@TIMES
@with_new(server=queues)
def test_the_pods_of_accepted_work_are_admitted(
    server: Server, maker: str, created: str, taken: bool
) -> None:
    work = accepted(maker, created=created)
    server.has(work)
    assert taken_from(server, pod_of(work)) is taken


@MAKERS
@with_new(server=queues)
def test_a_pod_of_an_owner_of_another_queue_or_of_none_is_refused(server: Server, maker: str) -> None:
    for name in ("research", ""):
        work = accepted(maker, in_queue=name)
        server.has(work)
        assert not taken_from(server, pod_of(work))
        server.lacks(work)


def test_a_pod_without_an_owner_is_refused(server: Server) -> None:
    assert not taken_from(server, pod(annotations={NAMED: "closed"}))


@each_case(
    ("maker", "ended"),
    [
        ("jobs.batch", {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}),
        ("jobs.batch", {"status": {"conditions": [{"type": "Failed", "status": "True"}]}}),
        ("jobsets.jobset.x-k8s.io", {"status": {"conditions": [{"type": "Completed", "status": "True"}]}}),
        ("jobsets.jobset.x-k8s.io", {"status": {"terminalState": "Failed"}}),
        ("jobs.batch.volcano.sh", {"status": {"state": {"phase": "Terminated"}}}),
        ("deployments.apps", {"replicas": 0}),
        ("statefulsets.apps", {"replicas": 0}),
        ("replicasets.apps", {"replicas": 0}),
    ],
    ids=str,
)
@with_new(server=queues)
def test_a_pod_of_an_owner_that_is_finished_is_refused(server: Server, maker: str, ended: Wire) -> None:
    work = accepted(maker, **ended)
    server.has(work)
    assert not taken_from(server, pod_of(work))


@MAKERS
@with_new(server=queues)
def test_an_owner_that_a_user_claims_counts_for_nothing(server: Server, maker: str) -> None:
    """The UID is right, the owner is live and was accepted; but users do not make what is owned."""
    work = accepted(maker)
    server.has(work)
    assert not taken_from(server, pod_of(work), user="alice")
    assert not taken_from(server, pod_of(work), user="system:serviceaccount:team:kube-system")
    assert taken_from(server, pod_of(work), user="system:kube-controller-manager")


@MAKERS
@with_new(server=queues)
def test_once_the_queue_is_closed_nothing_is_taken(server: Server, maker: str) -> None:
    work = accepted(maker)
    server.has(work, queue("closed", state="Closed", status={**REFUSING, "state": "Closed"}, version=2))
    assert not taken_from(server, pod_of(work))


@MAKERS
@each_case("created", [BEFORE, AFTER])
@with_new(server=queues)
def test_before_the_turn_is_written_whatever_owner_is_there_came_before(
    server: Server, maker: str, created: str
) -> None:
    work = accepted(maker, in_queue="fresh", created=created)
    server.has(queue("fresh", state="Closed"), work)
    assert taken_from(server, pod_of(work, in_queue="fresh"))


# What controllers make of accepted work, and the pods of that


@TIMES
@with_new(server=queues)
def test_a_replicaset_of_an_accepted_deployment_and_its_pods(
    server: Server, created: str, taken: bool
) -> None:
    """A one-replica Deployment whose pod dies, or a roll-out that goes on, while its queue is Closing."""
    work = accepted("deployments.apps", created=created)
    made = accepted("replicasets.apps", "train-1", owner=owner(work), created=AFTER)
    server.has(work)
    assert taken_from(server, made) is taken
    server.has(made)
    assert taken_from(server, pod_of(made)) is taken


@TIMES
@with_new(server=queues)
def test_a_job_of_an_accepted_jobset_and_its_pods(server: Server, created: str, taken: bool) -> None:
    work = accepted("jobsets.jobset.x-k8s.io", created=created)
    made = accepted("jobs.batch", "train-0", owner=owner(work), created=AFTER)
    server.has(work)
    assert taken_from(server, made) is taken
    server.has(made)
    assert taken_from(server, pod_of(made)) is taken


def test_a_job_that_a_cronjob_makes_is_new_work_however_old_the_cronjob_is(server: Server) -> None:
    nightly = accepted("cronjobs.batch", "nightly")
    made = accepted("jobs.batch", "nightly-1", owner=owner(nightly), created=AFTER)
    server.has(nightly)
    assert not taken_from(server, made)
    server.has(made)
    assert not taken_from(server, pod_of(made))
    assert not taken_from(server, pod_of(nightly)), "a CronJob makes no pods itself"


def test_a_job_that_a_cronjob_made_before_still_gets_its_pods(server: Server) -> None:
    nightly = accepted("cronjobs.batch", "nightly")
    made = accepted("jobs.batch", "nightly-1", owner=owner(nightly))
    server.has(nightly, made)
    assert taken_from(server, pod_of(made))


def test_the_topmost_owner_decides(server: Server) -> None:
    """A revision from before, of a Deployment that is gone to nought, makes nothing more."""
    work = accepted("deployments.apps", replicas=0)
    made = accepted("replicasets.apps", "train-1", owner=owner(work))
    server.has(work, made)
    assert not taken_from(server, pod_of(made))


def test_an_owner_that_we_do_not_watch_ends_the_chain(server: Server) -> None:
    custom = {"apiVersion": "x/v1", "kind": "Workflow", "metadata": {"name": "w", "uid": "uid-w"}}
    made = accepted("jobs.batch", owner=owner(custom))
    server.has(made)
    assert taken_from(server, pod_of(made))
    assert not taken_from(server, accepted("jobs.batch", "more", owner=owner(custom)))


@each_case("replicas", [0, 1])
@with_new(server=queues)
def test_a_first_revision_without_replicas_is_admitted_only_from_its_controller(
    server: Server, replicas: int
) -> None:
    """A Deployment that is not live still has its revisions made; a user's claim is looked at like any."""
    work = accepted("deployments.apps", replicas=0)
    made = accepted("replicasets.apps", "train-1", owner=owner(work), created=AFTER, replicas=replicas)
    server.has(work)
    assert taken_from(server, made) is (replicas == 0)
    assert not taken_from(server, made, user="alice")


@each_case("resource", ["daemonsets.apps", "cronjobs.batch"])
@with_new(server=queues)
def test_a_kind_without_replicas_is_not_one_of_no_replicas(server: Server, resource: str) -> None:
    work = accepted("deployments.apps", created=AFTER)
    server.has(work)
    assert not taken_from(server, accepted(resource, "more", owner=owner(work)))


# Forged references


@MAKERS
@each_case(
    "reference",
    [
        {"uid": "uid-of-nobody"},
        {"uid": ""},
        {"uid": "uid-other"},
        {"uid": "uid-far"},
        {"controller": False},
        {"controller": None},
    ],
    ids=str,
)
@with_new(server=queues)
def test_a_reference_that_is_not_quite_right_counts_for_nothing(
    server: Server, maker: str, reference: Wire
) -> None:
    """`other` is of another queue, `far` in another namespace."""
    work = accepted(maker)
    server.has(work, accepted(maker, "other", in_queue="research"), accepted(maker, "far", namespace="far"))
    assert not taken_from(server, pod_of(work, **reference))
    assert taken_from(server, pod_of(work))


@MAKERS
@with_new(server=queues)
def test_of_several_references_the_one_that_controls_counts(server: Server, maker: str) -> None:
    work, other = accepted(maker), accepted(maker, "other", created=AFTER)
    server.has(work, other)
    for first, second, taken in ((work, other, True), (other, work, False)):
        obj = pod_of(first)
        obj["metadata"]["ownerReferences"].insert(0, owner(second, controller=False))
        assert taken_from(server, obj) is taken


@each_case("resource", ["replicasets.apps", "jobs.batch", "statefulsets.apps", "deployments.apps"])
@with_new(server=queues)
def test_a_workload_that_claims_an_accepted_owner_is_new_work(server: Server, resource: str) -> None:
    """Neither does it come in, nor do pods through it, nor does it come in small and grow."""
    real = accepted("deployments.apps", "real")
    server.has(real)
    for replicas in (0, 1):
        forged = accepted(resource, "forged", owner=owner(real), replicas=replicas)
        assert not taken_from(server, forged, user="alice")


def podgroup_of(work: Wire) -> Wire:
    """As the leader makes it for a workload that asks for a gang."""
    made = podgroup("podgroup-uid-train", queue="closed", minMember=3, created=AFTER)
    made["metadata"]["ownerReferences"] = [owner(work)]
    return made


@each_case(
    ("user", "created", "taken"),
    [
        (OWN, BEFORE, True),
        (OWN, SAME, True),
        (OWN, AFTER, False),
        (CONTROLLER, BEFORE, True),
        ("ann", BEFORE, False),
        (f"{OWN}-2", BEFORE, False),
        ("system:serviceaccount:elsewhere:sluice", BEFORE, False),
    ],
)
@with_new(server=queues)
def test_a_close_between_pods_and_their_podgroup_keeps_out_what_is_new_alone(
    server: Server, user: str, created: str, taken: bool
) -> None:
    """The queue was closed after the workload and its pods came, and before the leader made the PodGroup that
    these wait for: the server's own user brings it. Nobody else writes an owner into accepted work.
    """
    work = accepted("jobs.batch", created=created)
    server.has(work)
    said = server.ask("/mutate/podgroups", podgroup_of(work), user=user)
    assert said.allowed is taken
    if not taken:
        assert said.message.startswith('queue "closed" is Closing and takes no new podgroups')


def test_what_the_servers_own_user_brings_without_accepted_work_is_refused() -> None:
    server = queues()
    assert not server.ask("/mutate/podgroups", podgroup("gang", queue="closed"), user=OWN).allowed
    elsewhere = podgroup_of(accepted("jobs.batch", in_queue="research"))
    server.has(accepted("jobs.batch", in_queue="research"))
    assert not server.ask("/mutate/podgroups", elsewhere, user=OWN).allowed


def test_pods_of_an_accepted_podgroup_are_admitted_from_any_user(server: Server) -> None:
    server.has(podgroup("gang", queue="closed", created=BEFORE))
    assert taken_from(server, pod(annotations={GROUP: "gang"}), user="alice")
    late = workload("jobs.batch", "late", template({GROUP: "gang"}))
    assert taken_from(server, late, user="alice"), "its pods are the group's"


@each_case(
    "status",
    [{"phase": "Completed"}, {"phase": "Running", "conditions": [{"type": "Populated", "status": "False"}]}],
    ids=["completed", "all its pods are gone"],
)
@with_new(server=queues)
def test_a_podgroup_that_is_finished_takes_no_pods(server: Server, status: Wire) -> None:
    server.has(podgroup("gang", queue="closed", created=BEFORE, status=status))
    assert not taken_from(server, pod(annotations={GROUP: "gang"}), user="alice")


# From the first to the last


def test_accepted_work_continues_and_new_work_is_refused(server: Server) -> None:
    """A Deployment is admitted, its queue is closed, and its revision and its pods still come."""
    server.has(queue("q"))
    work = stored(server, workload("deployments.apps", "web", created=BEFORE, labels={LABEL: "q"}))
    server.has(queue("q", state="Closed", status=REFUSING, version=2))
    made = workload("replicasets.apps", "web-1", work["spec"]["template"], owner=owner(work), created=AFTER)
    made = stored(server, made, user=CONTROLLER, uid="rs-1")
    obj = copy.deepcopy(made["spec"]["template"]["metadata"])
    of_it = pod(annotations=obj["annotations"], owner=owner(made))
    assert taken_from(server, of_it, uid="pod-1")
    assert not taken_from(server, of_it, user="alice")
    assert not taken_from(server, workload("deployments.apps", "more", labels={LABEL: "q"}), user="alice")
    assert not taken_from(server, pod(annotations=obj["annotations"]))
