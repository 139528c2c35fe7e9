"""A bound namespace at admission: every kind, in every way to name a queue (`queues.namespace_binding`)."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from queues.membership import MembershipSettings
from queues.namespace_binding import binding_refusal
from tests.support.http.asking import Said, Server
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
    template,
    workload,
)
from tests.support.webhooks.json_patch import applied
from tests.support.webhooks.naming_queues import ask, in_queue
from tests.support.webhooks.workload_requests import CONTROLLER, QUEUE

BINDING = "sluice.dev/binding"
WAYS = [
    pytest.param(kind, way, id=f"{kind}: {way}")
    for kind in ("pods", "podgroups", *WORKLOADS)
    for way, _ in in_queue(kind, "other")
]


def team(binding: str | None = "true", *, names: str = "research", version: int = 2) -> Wire:
    made = namespace("team", queue=names, version=version)
    if binding is not None:
        made["metadata"].setdefault("annotations", {})[BINDING] = binding
    return made


def refusal(name: str) -> str:
    return binding_refusal(name, bound_to="research", namespace="team")


def test_a_roll_out_of_what_was_there_says_that_stops_of_the_namespaces_queue_miss_it(
    unbound: Server,
) -> None:
    def warnings(name: str) -> list[str]:
        before = workload("deployments.apps", "x", template({NAMED: name, QUEUE: name}), labels={QUEUE: name})
        after = copy.deepcopy(before)
        after["spec"]["template"]["metadata"]["annotations"]["restarted"] = "now"
        unbound.has(before)
        answer = unbound.ask(
            "/validate/rollouts", after, old=before, operation="UPDATE", resource="deployments.apps", name="x"
        )
        assert answer.allowed
        return answer.warnings

    assert warnings("other") == []
    unbound.has(team(version=3))
    told = 'this stays in queue "other": stops of queue "research", which binds its namespace, miss it'
    assert warnings("other") == [told]
    assert warnings("labs") == []


@pytest.fixture
def unbound() -> Server:
    """Namespace `team` names `research`; `other` is another queue."""
    return Server().has(
        queue("research"), queue("labs", parent="research"), queue("other"), queue("default"), team(None)
    )


def test_a_volcano_job_whose_definition_fills_in_default_is_in_the_queue_of_the_namespace(
    server: Server,
) -> None:
    """`default` is no name there: it is not refused."""
    job = workload("jobs.batch.volcano.sh", "x", queue="default")
    answer = server.ask("/mutate/workloads", job, resource="jobs.batch.volcano.sh")
    assert answer.allowed, answer.message
    assert applied(answer.patch, job)["spec"]["queue"] == "research"


@pytest.fixture
def server(unbound: Server) -> Server:
    return unbound.has(team(version=3))


@pytest.mark.parametrize(("kind", "way"), WAYS)
@pytest.mark.parametrize("name", ["other", "root", "missing"])
def test_nothing_new_is_admitted_to_another_queue_however_it_names_it(
    server: Server, kind: str, way: str, name: str
) -> None:
    answer = ask(server, dict(in_queue(kind, name))[way])
    assert (answer.allowed, answer.code, answer.message) == (False, 403, refusal(name))
    assert server.store.admissions.queues() == frozenset(), "somebody would wait for it"


@pytest.mark.parametrize(("kind", "way"), WAYS)
def test_the_queue_itself_and_those_below_may_be_named(server: Server, kind: str, way: str) -> None:
    for name in ("research", "labs"):
        assert ask(server, dict(in_queue(kind, name))[way]).allowed


@pytest.mark.parametrize(("kind", "way"), WAYS)
def test_without_a_binding_any_queue_may_be_named(unbound: Server, kind: str, way: str) -> None:
    assert ask(unbound, dict(in_queue(kind, "other"))[way]).allowed


def test_default_is_no_exception_while_the_namespace_queue_is_stopped(server: Server) -> None:
    """What it is for: with `edit` a pod named `default` and ran."""
    server.has(queue("research", state="Suspended", version=9))
    assert ask(server, pod(annotations={NAMED: "default"})).message == refusal("default")
    assert ask(server, workload("deployments.apps", "x", template({NAMED: "default"}))).message == refusal(
        "default"
    )
    answer = ask(server, pod(schedulerName="volcano"))
    assert answer.allowed
    assert answer.warnings, "it is in the queue of the namespace, and waits"


def test_a_podgroup_in_default_gets_the_queue_of_the_namespace(server: Server) -> None:
    asked = podgroup("gang", queue="default")
    assert applied(ask(server, asked).patch, asked)["spec"]["queue"] == "research"


def test_a_podgroup_that_comes_later_leads_nowhere(server: Server) -> None:
    early = pod(annotations={GROUP: "gang"})
    after = applied(ask(server, early).patch, early)
    assert after["spec"]["schedulingGates"] == [{"name": QUEUE}]
    assert ask(server, podgroup("gang", queue="other")).message == refusal("other")


def test_a_podgroup_that_was_there_brings_no_pods_of_its_user(unbound: Server) -> None:
    group = podgroup("gang", queue="other", annotations={"sluice.dev/admission": "a"})
    unbound.has(group)
    made = pod(annotations={GROUP: "gang"})
    assert ask(unbound, made).allowed
    unbound.has(team(version=3))
    assert ask(unbound, made).message == refusal("other")


def stored(server: Server, obj: Wire) -> Wire:
    after: Wire = applied(ask(server, obj).patch, obj)
    server.has(after)
    return after


def scaled(obj: Wire, replicas: int) -> Wire:
    after = copy.deepcopy(obj)
    after["spec"]["replicas"] = replicas
    return after


def scale(server: Server, kind: str, before: int, after: int) -> Said:
    body = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web", "namespace": "team"}}
    old, new = ({**body, "spec": {"replicas": replicas}} for replicas in (before, after))
    return server.ask(
        "/validate/scales", new, old=old, operation="UPDATE", resource=kind, sub_resource="scale", name="web"
    )


def test_a_workload_that_was_there_goes_on_and_does_not_grow(unbound: Server) -> None:
    """Its controller makes pods; nobody gives it more of them."""
    web = stored(unbound, workload("deployments.apps", "web", template({NAMED: "other"}), replicas=2))
    unbound.has(team(version=3))
    made = pod(annotations={NAMED: "other"}, owner=owner(web))
    assert ask(unbound, made, user=CONTROLLER).allowed
    assert not ask(unbound, made, user="ann").allowed, "only controllers make what has an owner"
    rolled = copy.deepcopy(web)
    rolled["spec"]["template"]["spec"]["priority"] = 1
    assert ask(unbound, rolled, old=web, operation="UPDATE").allowed
    beyond = f"spec.replicas: replicas beyond the 2 that this Deployment has are new: {refusal('other')}"
    assert ask(unbound, scaled(web, 3), old=web, operation="UPDATE").message == beyond
    assert scale(unbound, "deployments.apps", 2, 3).message == beyond
    assert scale(unbound, "deployments.apps", 2, 1).allowed


def test_a_workload_without_replicas_stays_so(unbound: Server) -> None:
    web = stored(unbound, workload("deployments.apps", "web", template({NAMED: "other"}), replicas=0))
    unbound.has(team(version=3))
    assert ask(unbound, scaled(web, 1), old=web, operation="UPDATE").message == refusal("other")
    first = f"spec.replicas: a Deployment that had no replicas is new work, and {refusal('other')}"
    assert scale(unbound, "deployments.apps", 0, 1).message == first
    assert unbound.store.admissions.queues() == frozenset()


def test_a_job_of_a_cronjob_that_was_there_is_new_work(unbound: Server) -> None:
    cron = stored(unbound, workload("cronjobs.batch", "nightly", template({NAMED: "other"})))
    unbound.has(team(version=3))
    job = workload("jobs.batch", "nightly-1", template({NAMED: "other"}), owner=owner(cron))
    assert ask(unbound, job, user=CONTROLLER).message == refusal("other")


def test_nothing_is_moved_out(server: Server) -> None:
    web = stored(server, workload("deployments.apps", "web", template({NAMED: "labs"})))
    moved = copy.deepcopy(web)
    moved["metadata"]["annotations"][NAMED] = "other"
    moved["spec"]["template"] = template({NAMED: "other"})
    assert ask(server, moved, old=web, operation="UPDATE").message == refusal("other")
    gang = stored(server, podgroup("gang", queue="labs"))
    after = {**gang, "spec": {"queue": "other"}}
    assert ask(server, after, old=gang, operation="UPDATE").message == refusal("other")


# The namespace


def annotated(server: Server, after: Wire, before: Wire | None, **request: Any) -> Said:
    edit = {"old": before, "operation": "UPDATE"} if before else {}
    return server.ask("/mutate/namespaces", after, namespace="", **edit, **request)


def test_a_word_that_says_neither_is_refused(server: Server) -> None:
    answer = annotated(server, team("yes"), team(None))
    assert (answer.allowed, answer.code) == (False, 422)
    assert answer.message.endswith('"yes" is not known; use one of "true", "false"')


def test_who_binds_is_told_once_how_many_pods_of_other_queues_stay(unbound: Server) -> None:
    for name, queue_name in (("in", "labs"), ("out", "other"), ("out-too", "other")):
        unbound.has(pod(name, uid=name, annotations={QUEUE: queue_name}, labels={QUEUE: queue_name}))
    (warning,) = annotated(unbound, team(version=3), team(None)).warnings
    assert warning.startswith('2 pods stay in queue "other"')
    unbound.has(team(version=3))
    assert annotated(unbound, team(version=4), team(version=3)).warnings == []


def test_a_namespace_that_names_no_queue_is_told_that_nothing_is_bound(unbound: Server) -> None:
    (warning,) = annotated(unbound, team(names="", version=3), team(None, names="")).warnings
    assert warning == "annotation sluice.dev/binding has no effect: this namespace names no queue"
    unbound.has(team(names="", version=3))
    assert ask(unbound, pod(annotations={NAMED: "other"})).allowed


# Before the watch shows it


def test_the_replica_that_admits_a_binding_knows_it_at_once(unbound: Server) -> None:
    assert annotated(unbound, team(version=2), team(None, version=2)).allowed
    assert ask(unbound, pod(annotations={NAMED: "other"})).message == refusal("other")


def test_an_end_of_the_binding_counts_once_it_is_stored(server: Server) -> None:
    """Another webhook may refuse it."""
    assert annotated(server, team("false", version=3), team(version=3)).allowed
    assert not ask(server, pod(annotations={NAMED: "other"})).allowed
    server.has(team("false", version=4))
    assert ask(server, pod(annotations={NAMED: "other"})).allowed


def test_what_names_no_queue_is_admitted_while_a_namespace_comes_to_name_another(server: Server) -> None:
    """It may still be put into the queue that was named before."""
    assert annotated(server, team(names="other", version=3), team(version=3)).allowed
    for obj in (pod(), podgroup("gang"), workload("deployments.apps")):
        assert ask(server, obj).allowed


# The setting


@pytest.fixture
def bound_by_setting() -> Server:
    rules = MembershipSettings(binding_namespaces=True)
    return Server(rules=rules).has(queue("research"), queue("other"), team(None))


def test_the_setting_binds_every_namespace_that_names_a_queue(bound_by_setting: Server) -> None:
    named = pod(annotations={NAMED: "other"})
    assert ask(bound_by_setting, named).message == refusal("other")
    bound_by_setting.has(team("false", version=3))
    assert ask(bound_by_setting, named).allowed
    bound_by_setting.has(namespace("free"))
    assert ask(bound_by_setting, pod(namespace="free", annotations={NAMED: "other"})).allowed


def test_in_a_namespace_that_is_not_known_what_names_a_queue_is_asked_for_again(
    bound_by_setting: Server,
) -> None:
    """It may name one, and is then bound."""
    for obj in (
        pod(namespace="new", annotations={NAMED: "other"}),
        podgroup("gang", queue="other", namespace="new"),
    ):
        answer = ask(bound_by_setting, obj)
        assert (answer.code, answer.message) == (
            503,
            'namespace "new" is new and not known to sluice yet; try again',
        )
    assert annotated(bound_by_setting, namespace("new", queue="other", version=1), None).allowed
    assert ask(bound_by_setting, pod(namespace="new", annotations={NAMED: "other"})).allowed
