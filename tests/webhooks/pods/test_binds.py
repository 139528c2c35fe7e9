"""`/validate/binds`: the guard that holds whatever bind was under way when a stop landed."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.inflight.binds import BindPasses
from queues.quota.usage import PODS
from queues.well_known import RELEASED, UNTAKEN
from tests.support.http.asking import Said, Server
from tests.support.http.wire_objects import (
    GROUP,
    Wire,
    binding,
    member,
    pod,
    queue,
)


@pytest.fixture
def server() -> Server:
    return Server().has(queue("research"), queue("held", stopPolicy="Hold"))


def bind(server: Server, name: str = "work", **request: Any) -> Said:
    answer = server.ask("/validate/binds", binding(name), **{"name": name, **request})
    assert answer.patch == []
    return answer


def test_the_controllers_probe_is_refused_whatever_is_stopped(server: Server) -> None:
    answer = bind(server, "sluice-guard-probe-1234", dry_run=True)
    assert (answer.allowed, answer.message) == (False, "sluice guards the binds of this namespace")


def test_a_pod_named_like_a_probe_is_a_pod_like_any(server: Server) -> None:
    """Only a dry run is a probe: nobody's pod can be made unschedulable by its name."""
    assert bind(server, "sluice-guard-probe-1234").allowed


def test_an_unknown_pod_is_bound(server: Server) -> None:
    assert bind(server).allowed
    assert len(server.store.bind_passes) == 0


@pytest.mark.parametrize("of", [None, pod(), member(queue="research")], ids=["unknown", "none", "scheduling"])
def test_nothing_is_bound_once_the_api_server_has_been_lost(server: Server, of: Wire | None) -> None:
    """Stops may have been acknowledged without us; only a refusal holds, for the policy is Ignore."""
    server.has(*([of] if of else []))
    server.readiness.synced = False
    server.readiness.cut_off = True
    answer = bind(server)
    assert not answer.allowed
    assert "lost the API server" in answer.message
    assert len(server.store.bind_passes) == 0


def test_a_pod_of_no_queue_is_bound(server: Server) -> None:
    server.has(pod())
    assert bind(server).allowed
    assert len(server.store.bind_passes) == 0


def test_a_pod_of_a_queue_that_schedules_is_bound_and_leaves_a_pass(server: Server) -> None:
    server.has(member(queue="research"))
    assert bind(server).allowed
    assert [one.name for one in server.store.bind_passes.open_passes_of({"research"})] == ["work"]


def test_a_pod_of_a_queue_that_does_not_schedule_is_not_bound(server: Server) -> None:
    server.has(member(queue="held"))
    answer = bind(server)
    assert (answer.allowed, answer.code) == (False, 403)
    assert answer.message == ('queue "held" is stopped by stopPolicy Hold; an admin of queues can resume it')
    assert len(server.store.bind_passes) == 0


def test_a_pod_that_was_given_up_is_not_bound_though_it_counts_still(server: Server) -> None:
    """Its scheduler has come back."""
    released: Wire = {"uid": "a", "queue": "limited", "labels": {RELEASED: "a"}}
    server.has(queue("limited", capability={"cpu": "1"}), member(**released))
    assert bind(server).allowed
    server.has(member(**released, version=2, annotations={UNTAKEN: "volcano"}))
    assert not bind(server).allowed
    assert server.store.quota_use("limited")[PODS] == 1


def test_a_member_that_waits_for_its_podgroup_is_not_bound(server: Server) -> None:
    """The guard is on for such members, filter refuses them, and so must the guard."""
    server.has(pod(annotations={GROUP: "gang"}))
    assert not bind(server).allowed


def test_a_pod_that_filter_saw_before_the_store_did_is_known(server: Server) -> None:
    """kube-scheduler may hear of a new pod sooner than we do."""
    asked = {"Pod": member(queue="research"), "NodeNames": ["node-1"]}
    assert server.post("/extender/filter", asked).get_json()["NodeNames"] == ["node-1"]
    server.has(queue("research", version=2, generation=2, state="Suspended"))
    assert not bind(server).allowed


def test_the_pass_is_recorded_before_the_snapshot_is_read(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = BindPasses.record_bind_pass

    def then_the_queue_is_stopped(passes: BindPasses, **of: Any) -> None:
        recorded(passes, **of)
        assert passes.open_passes_of({"research"})
        server.has(queue("research", version=2, generation=2, state="Suspended"))

    monkeypatch.setattr(BindPasses, "record_bind_pass", then_the_queue_is_stopped)
    server.has(member(queue="research"))
    assert not bind(server).allowed


SCHEDULER = "system:kube-scheduler"


def stopped_after_filter(server: Server) -> None:
    """A pod went through filter, and then its queue was stopped."""
    server.has(member(queue="research"))
    server.post("/extender/filter", {"Pod": member(queue="research"), "NodeNames": ["node-1"]})
    server.has(queue("research", version=2, generation=2, state="Suspended"))
    assert len(server.store.bind_passes) == 1


def bind_of(server: Server, uid: str) -> Said:
    """kube-scheduler names the pod's UID in the bind."""
    body = binding()
    body["metadata"]["uid"] = uid
    return server.ask("/validate/binds", body, name="work", user=SCHEDULER)


def test_a_refusal_of_the_schedulers_bind_closes_the_pass_that_filter_opened(server: Server) -> None:
    stopped_after_filter(server)
    assert not bind_of(server, "uid-work").allowed
    assert len(server.store.bind_passes) == 0


@pytest.mark.parametrize("uid", ["", "uid-of-another"])
def test_a_refused_bind_that_does_not_name_the_pods_uid_closes_nothing(server: Server, uid: str) -> None:
    """It is of another pod of that name, or of nobody's scheduler."""
    stopped_after_filter(server)
    assert not bind_of(server, uid).allowed
    assert [one.bind for one in server.store.bind_passes.open_passes()] == [False]


def test_a_refusal_of_anybody_elses_bind_says_nothing_of_the_schedulers(server: Server) -> None:
    stopped_after_filter(server)
    bind(server, user="mallory")
    assert [one.bind for one in server.store.bind_passes.open_passes()] == [False]


def test_a_refused_bind_hides_no_other_bind_of_the_same_pod(server: Server) -> None:
    server.has(member(queue="research"))
    assert bind(server, user="mallory", uid="first").allowed
    server.has(queue("research", version=2, generation=2, state="Suspended"))
    assert not bind(server, user=SCHEDULER, uid="second").allowed
    assert not bind(server, user="mallory", uid="third").allowed
    assert [one.by_scheduler for one in server.store.bind_passes.open_passes_of({"research"})] == [False]


def test_a_dry_run_bind_leaves_no_pass(server: Server) -> None:
    server.has(member(queue="research"), member("other", queue="held"))
    assert bind(server, dry_run=True).allowed
    assert not bind(server, "other", dry_run=True).allowed
    assert len(server.store.bind_passes) == 0


@pytest.mark.parametrize("where", ["request", "object"])
def test_the_pod_is_named_by_the_request_or_by_the_binding(server: Server, where: str) -> None:
    """`pods/binding` says the name in the request; the old `bindings` only in the object."""
    server.has(member(queue="held"))
    named = {"name": "work", "namespace": "team"} if where == "request" else {"name": "", "namespace": ""}
    obj = {"metadata": {}} if where == "request" else binding()
    assert not server.ask("/validate/binds", obj, **named).allowed


def test_the_guard_reads_the_queue_of_the_pod_in_that_namespace(server: Server) -> None:
    server.has(member("work", queue="held"), member("work", uid="u2", queue="research", namespace="other"))
    assert bind(server, namespace="other").allowed
    assert not bind(server, namespace="team").allowed


@pytest.mark.parametrize(
    ("of", "allowed"),
    [
        (member(queue="limited"), False),
        (member(queue="limited", uid="a", labels={"sluice.dev/released": "a"}), True),
        (member(queue="limited", uid="a", labels={"sluice.dev/released": "b"}), False),
        (member(queue="research"), True),
    ],
    ids=["not asked", "released", "with another pod's words", "no quota"],
)
def test_a_pod_that_its_quota_was_not_asked_about_is_not_bound(
    server: Server, of: Wire, allowed: bool
) -> None:
    server.has(queue("limited", capability={"cpu": "2"}), of)
    answer = bind(server)
    assert (answer.allowed, "has no room for this pod now" in answer.message) == (allowed, not allowed)
