"""`spec.namespaceSelector` at admission: nobody gets into a queue that does not select them, by any word.

The table of `queues.namespace_access`, for every kind and every way to name a queue.
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
    WORKLOADS,
    Wire,
    binding,
    command,
    job,
    member,
    namespace,
    owner,
    pod,
    podgroup,
    queue,
    template,
    workload,
)
from tests.support.webhooks.json_patch import applied
from tests.support.webhooks.naming_queues import ask, in_queue
from tests.support.webhooks.workload_requests import (
    CONTROLLER,
    QUEUE,
)

TEAM = {"matchLabels": {"team": "a"}}
OURS, THEIRS = "ours", "team"
#: The rest of each denial.
WAY_OUT = (
    "the namespaceSelector of the queue asks for team=a; use another queue, or change that with: "
    "kubectl label namespace team --overwrite team=a"
)
DENIAL = f'queue "vision" is not for namespace "team": {WAY_OUT}'
#: What a pod that is there says.
WAITS = f"{DENIAL.partition('; ')[0]}; use another queue, or have an admin of queues change that"


def new_server() -> Server:
    """Namespace `team` may use `research`, and neither `vision` nor what is below `labs`."""
    return Server().has(
        queue("research"),
        queue("vision", namespaceSelector=TEAM),
        queue("labs", namespaceSelector=TEAM),
        queue("lab", parent="labs"),
        queue("held", stopPolicy="Hold", namespaceSelector=TEAM),
        namespace(OURS, labels={"team": "a"}),
    )


@pytest.fixture
def server() -> Server:
    return new_server()


def stored(server: Server, obj: Wire, **request: Any) -> Wire:
    answer = ask(server, obj, **request)
    assert answer.allowed, answer.message
    after: Wire = applied(answer.patch, obj)
    server.has(after)
    return after


def relabelled(server: Server, labels: dict[str, str], *, version: int = 2) -> None:
    server.has(namespace(THEIRS, labels=labels, version=version))


WAYS = [
    pytest.param(kind, way, id=f"{kind}: {way}")
    for kind in ("pods", "podgroups", *WORKLOADS)
    for way, _ in in_queue(kind, "vision")
]


@each_case(("kind", "way"), WAYS)
@each_case(("name", "by"), [("vision", "the queue"), ("lab", 'its ancestor "labs"'), ("held", "the queue")])
@with_new(server=new_server)
def test_nothing_new_is_admitted_however_it_names_the_queue(
    server: Server, kind: str, way: str, name: str, by: str
) -> None:
    """The denial names what is missing and says what to do, also where the queue is held."""
    answer = ask(server, dict(in_queue(kind, name))[way])
    assert (answer.allowed, answer.code, answer.patch) == (False, 403, [])
    assert answer.message == DENIAL.replace('"vision"', f'"{name}"').replace("the queue", by, 1)
    assert server.store.admissions.queues() == frozenset(), "somebody would wait for it"


@each_case(("kind", "way"), WAYS)
@each_case("name", ["vision", "lab"])
@with_new(server=new_server)
def test_work_of_a_selected_namespace_is_admitted(server: Server, kind: str, way: str, name: str) -> None:
    answer = ask(server, dict(in_queue(kind, name, OURS))[way])
    assert answer.allowed, answer.message
    assert answer.warnings == []


@each_case(("kind", "way"), WAYS)
@with_new(server=new_server)
def test_without_a_selector_work_of_every_namespace_is_admitted(server: Server, kind: str, way: str) -> None:
    assert ask(server, dict(in_queue(kind, "research"))[way]).allowed


def test_the_queue_of_the_namespace_is_asked_too(server: Server) -> None:
    """Its annotation was there before the selector, or before its labels changed."""
    server.has(namespace(THEIRS, queue="vision", version=2))
    for obj in (pod(), podgroup("gang"), workload("deployments.apps")):
        assert ask(server, obj).message == DENIAL


def test_a_scheduler_of_ours_leads_to_default_which_may_have_a_selector_too(server: Server) -> None:
    server.has(queue("default", namespaceSelector=TEAM))
    answer = ask(server, pod(schedulerName="volcano"))
    assert answer.message == DENIAL.replace('"vision"', '"default"')


# Nobody gets around it


def test_a_stopped_namespace_queue_is_not_escaped_by_naming_another(server: Server) -> None:
    """What it is for: the own queue waits, and every other one says no."""
    server.has(queue("mine", state="Suspended"), namespace(THEIRS, queue="mine", version=2))
    server.has(queue("default", namespaceSelector=TEAM), queue("root", parent=None, namespaceSelector=None))
    assert ask(server, pod()).warnings
    for name in ("vision", "lab", "held", "default"):
        assert not ask(server, pod(annotations={NAMED: name})).allowed


def test_an_unaccepted_podgroup_makes_no_pod_accepted_work(server: Server) -> None:
    """It is refused itself; a pod that names it before it is there waits with a gate, unanswered."""
    assert not ask(server, podgroup("gang", queue="vision")).allowed
    after = applied(ask(server, pod(annotations={GROUP: "gang"})).patch, pod(annotations={GROUP: "gang"}))
    assert after["spec"]["schedulingGates"] == [{"name": QUEUE}]


def test_a_podgroup_is_not_moved_in(server: Server) -> None:
    before = stored(server, podgroup("gang", queue="research"))
    after = {**copy.deepcopy(before), "spec": {"queue": "vision"}}
    answer = ask(server, after, old=before, operation="UPDATE")
    assert (answer.allowed, answer.message) == (False, DENIAL)


@each_case("kind", sorted({*WORKLOADS} - {"jobs.batch", "jobs.batch.volcano.sh", "jobsets.jobset.x-k8s.io"}))
@with_new(server=new_server)
def test_a_workload_is_not_moved_in(server: Server, kind: str) -> None:
    """From another queue, or from none."""
    for was in (template({NAMED: "research"}), template()):
        before = stored(server, workload(kind, "x", was))
        after = copy.deepcopy(before)
        after["metadata"].setdefault("annotations", {})[NAMED] = "vision"
        after = {
            **after,
            "spec": {**after["spec"], **workload(kind, "x", template({NAMED: "vision"}))["spec"]},
        }
        answer = ask(server, after, old=before, operation="UPDATE")
        assert (answer.allowed, answer.message) == (False, DENIAL)
        server.lacks(before)


@each_case("kind", ["deployments.apps", "statefulsets.apps", "replicasets.apps"])
@with_new(server=new_server)
def test_a_workload_is_not_scaled_from_nothing_in_either_way(server: Server, kind: str) -> None:
    """It slept when the selector came: to want replicas again is new work."""
    before = workload(kind, "x", template({NAMED: "vision", QUEUE: "vision"}), replicas=0)
    server.has(before)
    after = copy.deepcopy(before)
    after["spec"]["replicas"] = 2
    revived = ask(server, after, old=before, operation="UPDATE")
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "x", "namespace": THEIRS}}
    scaled = server.ask(
        "/validate/scales",
        {**scale, "spec": {"replicas": 2}},
        old={**scale, "spec": {}},
        operation="UPDATE",
        resource=kind,
        sub_resource="scale",
        name="x",
    )
    for answer in (revived, scaled):
        assert (answer.allowed, answer.code) == (False, 403)
        assert answer.message.startswith("spec.replicas: a ")
        assert answer.message.endswith(f"that had no replicas is new work, and {DENIAL}")
    assert server.store.admissions.queues() == frozenset()


def test_a_pods_queue_is_not_changed_under_it(server: Server) -> None:
    """Nor by its gate: that stays while its namespace is not selected, whoever takes it off."""
    before = member(queue="research")
    server.has(before)
    moved = copy.deepcopy(before)
    moved["metadata"]["annotations"][QUEUE] = "vision"
    assert not server.ask("/validate/pods", moved, old=before, operation="UPDATE").allowed
    gated = member("waits", queue="vision", gates=[QUEUE])
    server.has(gated)
    free = {**gated, "spec": {**gated["spec"], "schedulingGates": []}}
    answer = server.ask("/validate/pods", free, old=gated, operation="UPDATE")
    assert answer.message == f'spec.schedulingGates: "{QUEUE}" cannot be removed: {WAITS}'
    relabelled(server, {"team": "a"})
    assert server.ask("/validate/pods", free, old=gated, operation="UPDATE").allowed


def test_a_command_moves_no_member(server: Server) -> None:
    """It edits a queue's state, for whoever may update the queue: nobody comes in by it."""
    answer = server.ask("/mutate/commands", command(target="vision"), resource="commands.bus.volcano.sh")
    assert answer.allowed


def test_an_owner_reference_of_a_user_makes_no_accepted_work(server: Server) -> None:
    """As with a queue that closes: controllers alone make what is owned."""
    work = workload("deployments.apps", "x", template({NAMED: "vision", QUEUE: "vision"}))
    server.has(work)
    claimed = pod(annotations={NAMED: "vision"}, owner=owner(work))
    assert not ask(server, claimed, user="eve").allowed
    assert ask(server, claimed, user=CONTROLLER).allowed


# What had been taken before


MAKERS = sorted({*WORKLOADS} - {"cronjobs.batch"})


@each_case("kind", MAKERS)
@with_new(server=new_server)
def test_the_pods_of_work_that_was_accepted_before_get_a_gate_and_wait(server: Server, kind: str) -> None:
    """They say why; and nobody waits for what may never come of them."""
    relabelled(server, {"team": "a"})
    work = stored(server, workload(kind, "x", template({NAMED: "vision"})))
    server.store.admissions.close("review-1")
    relabelled(server, {}, version=3)
    made = pod(annotations={NAMED: "vision"}, owner=owner(work))
    answer = ask(server, made, user=CONTROLLER, uid="later")
    assert answer.allowed, answer.message
    after = applied(answer.patch, made)
    assert after["spec"]["schedulingGates"] == [{"name": QUEUE}]
    assert after["metadata"]["annotations"][QUEUE] == "vision"
    assert len(answer.warnings) == 1
    assert server.store.admissions.queues() == frozenset()
    relabelled(server, {"team": "a"}, version=4)
    again = ask(server, made, user=CONTROLLER, uid="again")
    assert (again.allowed, again.warnings) == (True, [])


def test_a_pod_of_such_work_that_names_its_node_is_refused(server: Server) -> None:
    """It would run at once: the API forbids a gate on it."""
    work = workload("daemonsets.apps", "x", template({NAMED: "vision", QUEUE: "vision"}))
    server.has(work)
    made = pod(annotations={NAMED: "vision"}, owner=owner(work), nodeName="node-1")
    answer = ask(server, made, user=CONTROLLER)
    assert answer.message == f"a pod with spec.nodeName would run at once: {WAITS}"
    assert server.store.admissions.queues() == frozenset()


def test_the_pods_of_a_podgroup_that_was_accepted_before_wait(server: Server) -> None:
    server.has(podgroup("gang", queue="vision"))
    answer = ask(server, pod(annotations={GROUP: "gang"}))
    assert answer.allowed
    assert {"op": "add", "path": "/spec/schedulingGates", "value": [{"name": QUEUE}]} in answer.patch


def test_each_job_of_a_cronjob_is_new_work(server: Server) -> None:
    cron = workload("cronjobs.batch", "nightly", template({NAMED: "vision", QUEUE: "vision"}))
    server.has(cron)
    made = workload("jobs.batch", "nightly-1", template({NAMED: "vision"}), owner=owner(cron))
    assert not ask(server, made, user=CONTROLLER).allowed


def test_work_that_a_closed_queue_had_accepted_needs_both(server: Server) -> None:
    """Of a queue that has become Closed since, nothing is taken, selected or not."""
    server.has(
        queue(
            "gone",
            state="Closed",
            namespaceSelector=TEAM,
            status={
                "state": "Closed",
                "conditions": [
                    {"type": "Accepting", "status": "False", "lastTransitionTime": "2030-01-01T10:00:00Z"}
                ],
            },
        )
    )
    work = workload("jobs.batch", "x", template({NAMED: "gone", QUEUE: "gone"}))
    server.has(work)
    assert not ask(server, pod(annotations={NAMED: "gone"}, owner=owner(work)), user=CONTROLLER).allowed


# Namespaces


def naming(labels: dict[str, str] | None = None, name: str = "vision") -> Wire:
    return namespace(THEIRS, queue=name, labels=labels)


def test_a_namespace_does_not_come_to_name_a_queue_that_does_not_select_it(server: Server) -> None:
    for old in ({}, {"old": namespace(THEIRS), "operation": "UPDATE"}):
        answer = ask(server, naming(), **old)
        assert (answer.allowed, answer.code) == (False, 403)
        assert answer.message == f"metadata.annotations[{NAMED}]: {DENIAL}"
    moved = ask(server, naming(), old=naming(name="research"), operation="UPDATE")
    assert not moved.allowed


def test_the_labels_that_come_with_the_annotation_count(server: Server) -> None:
    """Whoever may write them may choose them: the right to update namespaces is theirs."""
    assert ask(server, naming({"team": "a"})).allowed
    assert ask(server, naming({"team": "a"}), old=namespace(THEIRS), operation="UPDATE").allowed


@each_case("labels", [{"team": "b"}, None])
@with_new(server=new_server)
def test_a_namespace_that_named_it_before_keeps_its_annotation(server: Server, labels: Any) -> None:
    """Its labels change, and any other edit of it goes through: what it submits is answered by itself."""
    answer = ask(server, naming(labels), old=naming({"team": "a"}), operation="UPDATE")
    assert answer.allowed


def test_names_of_namespaces_are_known_before_their_labels(server: Server) -> None:
    """The API server sets that label itself; where it has not yet, the name is what it will be."""
    server.has(queue("mine", namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": THEIRS}}))
    assert ask(server, naming(name="mine")).allowed
    assert not ask(server, namespace("other", queue="mine")).allowed


# Labels that are not known yet


@each_case(("kind", "way"), WAYS)
@with_new(server=new_server)
def test_from_a_namespace_that_is_too_new_everything_is_admitted_and_waits(
    server: Server, kind: str, way: str
) -> None:
    """One file may hold a namespace and its work; pods get a gate until its labels are known."""
    obj = dict(in_queue(kind, "vision", "new"))[way]
    answer = ask(server, obj)
    assert (answer.allowed, answer.warnings) == (True, [])
    after = applied(answer.patch, obj)
    if kind == "pods":
        assert after["spec"]["schedulingGates"] == [{"name": QUEUE}]
    assert server.store.admissions.queues() == {"vision"}, "it may be selected, and its queue waits for it"


def test_of_a_namespace_that_is_too_new_no_pod_is_let_past_its_gate(server: Server) -> None:
    """It would run at once; nor is one of it bound, nor its gate taken off."""
    placed = pod(namespace="new", annotations={NAMED: "vision"}, nodeName="node-1")
    answer = ask(server, placed)
    assert (answer.allowed, answer.code) == (False, 503)
    assert answer.message.endswith("try again")
    assert server.store.admissions.queues() == frozenset()
    server.has(member(queue="vision", namespace="new"))
    assert not server.ask("/validate/binds", binding(namespace="new"), name="work", namespace="new").allowed


def test_a_queue_that_takes_nothing_takes_nothing_of_a_new_namespace(server: Server) -> None:
    """In the words of its close: what it would say to anybody."""
    server.has(queue("gone", state="Closed", namespaceSelector=TEAM))
    answer = ask(server, pod(namespace="new", annotations={NAMED: "gone"}))
    assert (answer.allowed, answer.message.endswith("kubectl queue open gone")) == (False, True)
    assert server.store.admissions.queues() == frozenset()


def test_a_selector_by_name_decides_of_a_new_namespace_too(server: Server) -> None:
    """Its name is known: nothing has to wait."""
    server.has(queue("mine", namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "new"}}))
    own = ask(server, pod(namespace="new", annotations={NAMED: "mine"}))
    assert (own.allowed, any("schedulingGates" in step["path"] for step in own.patch)) == (True, False)
    assert not ask(server, pod(namespace="newer", annotations={NAMED: "mine"})).allowed


def test_what_a_new_namespace_came_with_is_known_at_once(server: Server) -> None:
    """One file may hold a namespace that names a queue and what goes into it."""
    assert ask(server, namespace("new", queue="vision", labels={"team": "a"}), name="new").allowed
    assert ask(server, pod(namespace="new")).allowed


# Binds


def test_the_guard_refuses_the_bind_of_a_pod_whose_namespace_is_not_selected(server: Server) -> None:
    """It may have passed filter before the labels changed."""
    server.has(member(queue="vision"))
    answer = server.ask("/validate/binds", binding(), name="work")
    assert (answer.allowed, answer.message) == (False, WAITS)
    assert len(server.store.bind_passes) == 0
    relabelled(server, {"team": "a"})
    assert server.ask("/validate/binds", binding(), name="work").allowed


# Strangers keep the queue from nothing


@each_case(
    "stranger",
    [
        member(queue="vision", nodeName="node-1", status={"phase": "Running"}),
        member(queue="vision"),
        job("train", queue="vision"),
        podgroup("gang", queue="vision"),
    ],
    ids=["running", "waiting", "job", "podgroup"],
)
@with_new(server=new_server)
def test_what_is_not_selected_is_not_live_in_its_queue(server: Server, stranger: Wire) -> None:
    """So the queue becomes Closed, is deleted and gets children as if it were empty; also those above."""
    server.has(stranger)
    assert [server.store.live_members.below(name) for name in ("vision", "root")] == [0, 0]
    relabelled(server, {"team": "a"})
    assert [server.store.live_members.below(name) for name in ("vision", "root")] == [1, 1]


def test_pods_of_strangers_keep_no_queue_from_children(server: Server) -> None:
    child = queue("child", parent="vision")
    server.has(member(queue="vision", nodeName="node-1", status={"phase": "Running"}))
    answer = server.ask("/validate/queues", child, resource="queues.scheduling.volcano.sh")
    assert answer.allowed, answer.message
    relabelled(server, {"team": "a"})
    answer = server.ask("/validate/queues", child, resource="queues.scheduling.volcano.sh")
    assert "has 1 pod of its own" in answer.message


def test_strangers_keep_no_queue_from_being_deleted(server: Server) -> None:
    old = queue(
        "old", state="Closed", namespaceSelector=TEAM, status={"state": "Closed", "observedGeneration": 1}
    )
    server.has(old, member(queue="old", nodeName="node-1", status={"phase": "Running"}))
    answer = server.ask("/validate/queues", None, old=old, operation="DELETE", resource="queues")
    assert answer.allowed, answer.message


# The selector itself


@each_case(
    ("selector", "says"),
    [
        ("team=a", 'spec.namespaceSelector: "team=a" is not an object'),
        (
            {"matchLabels": {"a b": "c"}},
            'spec.namespaceSelector.matchLabels key: "a b" is not the key of a label',
        ),
        ({"matchLabels": {"sluice.dev/guard": "on"}}, "is written by sluice itself; select by another label"),
        ({"matchExpressions": [{"key": "a", "operator": "In"}]}, "In takes one or more; change them"),
        ({"matchLabels": {f"l{n}": "v" for n in range(17)}}, "has 17 labels, and 16 are allowed; use fewer"),
    ],
)
@with_new(server=new_server)
def test_a_selector_that_is_none_is_refused_with_its_field(server: Server, selector: Any, says: str) -> None:
    answer = server.ask("/validate/queues", queue("new", namespaceSelector=selector), resource="queues")
    assert (answer.allowed, answer.code) == (False, 422)
    assert says in answer.message
