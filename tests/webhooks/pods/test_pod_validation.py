"""`/validate/pods`: a pod's queue is not changed under it, and our gate stays while it has to."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.cache.label_changes import RECENT_SECONDS
from controller.pods.member_labels import NAMESPACE_SECONDS
from queues.managed_namespaces import read_selector
from queues.membership import MIRROR_ANNOTATION, MembershipSettings, label_value
from tests.support.http.asking import (
    OWN,
    Said,
    Server,
)
from tests.support.http.wire_objects import (
    GROUP,
    NAMED,
    Wire,
    member,
    namespace,
    pod,
    queue,
)

QUEUE = "sluice.dev/queue"
GATE, QUOTA = QUEUE, "sluice.dev/quota"


@pytest.fixture
def server() -> Server:
    return Server().has(queue("research"), queue("held", stopPolicy="Hold"))


def update(server: Server, before: Wire, after: Wire, **request: Any) -> Said:
    return server.ask("/validate/pods", after, old=before, operation="UPDATE", **request)


def changed(of: Wire, place: str, value: dict[str, str]) -> Wire:
    return {**of, "metadata": {**of["metadata"], place: value}}


@pytest.mark.parametrize("place", ["annotations", "labels"])
@pytest.mark.parametrize("value", [{QUEUE: "held"}, {QUEUE: ""}, {}], ids=["another", "empty", "none"])
def test_the_queue_written_down_stays(server: Server, place: str, value: dict[str, str]) -> None:
    before = member(queue="research")
    answer = update(server, before, changed(before, place, value))
    assert (answer.allowed, answer.code) == (False, 403)
    assert answer.message.startswith(f"metadata.{place}[sluice.dev/queue]: ")
    assert "delete the pod and create it in the other queue" in answer.message


@pytest.mark.parametrize("place", ["annotations", "labels"])
def test_a_pod_of_no_queue_is_not_put_into_one(server: Server, place: str) -> None:
    assert not update(server, pod(), changed(pod(), place, {QUEUE: "research"})).allowed


def test_a_pod_older_than_the_installation_is_not_moved_by_the_key_that_names_its_queue(
    server: Server,
) -> None:
    """Nothing was written down on it, so what its user wrote is the answer."""
    before = pod(annotations={NAMED: "held"})
    assert not update(server, before, pod(annotations={NAMED: "research"})).allowed


@pytest.mark.parametrize("after", [None, {}, {QUEUE: "research"}])
def test_the_empty_label_of_a_pod_that_waits_for_its_podgroup_stays(
    server: Server, after: dict[str, str] | None
) -> None:
    """Without it no replica would see the pod."""
    before = pod(annotations={GROUP: "gang"}, labels={QUEUE: ""}, gates=[QUEUE])
    answer = update(server, before, changed(before, "labels", after or {}))
    assert not answer.allowed
    assert "a pod's queue cannot be changed under it" in answer.message


def test_anything_else_may_change(server: Server) -> None:
    before = member(queue="held", gates=[QUEUE])
    after = changed(before, "annotations", {**before["metadata"]["annotations"], "a": "b"})
    assert update(server, before, {**after, "status": {"phase": "Failed"}}).allowed


def test_our_gate_stays_while_its_queue_does_not_schedule(server: Server) -> None:
    answer = update(server, member(queue="held", gates=[QUEUE, "x"]), member(queue="held", gates=["x"]))
    assert (answer.allowed, answer.code) == (False, 403)
    assert answer.message == (
        'spec.schedulingGates: "sluice.dev/queue" cannot be removed: queue "held" is stopped by '
        "stopPolicy Hold; an admin of queues can resume it"
    )


def test_our_gate_may_go_once_its_queue_schedules(server: Server) -> None:
    assert update(server, member(queue="research", gates=[QUEUE]), member(queue="research", gates=[])).allowed


@pytest.mark.parametrize("name", ["research", "limited", "stopped"])
def test_the_gate_of_quotas_goes_by_our_hand_alone(server: Server, name: str) -> None:
    """In any queue: what nobody counted could take it over its capability."""
    server.has(queue("limited", capability={"cpu": "1"}))
    for kept in ([], ["x"]):
        said = update(server, member(queue=name, gates=["x", QUOTA]), member(queue=name, gates=kept))
        assert (said.allowed, QUOTA in said.message) == (False, True)
    assert update(server, member(queue=name, gates=["x", QUOTA]), member(queue=name, gates=[QUOTA])).allowed
    assert update(server, member(queue=name, gates=[QUOTA]), member(queue=name, gates=[]), user=OWN).allowed


def test_that_a_pod_was_released_is_written_and_erased_by_our_hand_alone(server: Server) -> None:
    """Another pod's UID, which a template may bring, says nothing."""
    released = member(uid="a", labels={"sluice.dev/released": "a"})
    for before, after in ((member(uid="a"), released), (released, member(uid="a"))):
        said = update(server, before, after)
        assert (said.allowed, "sluice alone says" in said.message) == (False, True)
        assert update(server, before, after, user=OWN).allowed
    assert update(server, member(uid="a"), member(uid="a", labels={"sluice.dev/released": "b"})).allowed
    runs = {"uid": "a", "nodeName": "node-1"}
    assert update(server, member(**runs, labels={"sluice.dev/released": "a"}), member(**runs)).allowed


def test_who_marks_a_pod_as_given_up_does_not_erase_that_it_was_released(server: Server) -> None:
    """What it counts ends by our hand alone."""
    released: Wire = {"uid": "a", "labels": {"sluice.dev/released": "a"}}
    marked: Wire = {"annotations": {"sluice.dev/untaken": "volcano"}}
    assert update(server, member(**released), member(**released, **marked)).allowed
    for after in (member(uid="a", **marked), member(uid="a")):
        for before in (member(**released), member(**released, **marked)):
            assert "sluice alone says" in update(server, before, after).message


def test_our_gate_stays_where_the_queue_has_a_quota(server: Server) -> None:
    server.has(queue("limited", capability={"cpu": "1"}))
    said = update(server, member(queue="limited", gates=[GATE]), member(queue="limited", gates=[]))
    assert (said.allowed, "capability" in said.message) == (False, True)


@pytest.mark.parametrize(
    ("name", "gates", "before", "after", "allowed"),
    [
        ("limited", [], {"cpu": "1"}, {"cpu": "2"}, False),
        ("below", [], {"cpu": "1"}, {"cpu": "1001m"}, False),
        ("limited", [], {"cpu": "2"}, {"cpu": "1"}, True),
        ("limited", [], {"memory": "1Gi"}, {"memory": "2Gi"}, True),
        ("limited", [QUOTA], {"cpu": "1"}, {"cpu": "2"}, True),
        ("research", [], {"cpu": "1"}, {"cpu": "2"}, True),
    ],
    ids=["larger", "an ancestor", "smaller", "no limit", "it waits", "no quota"],
)
def test_a_pod_that_was_released_is_not_made_larger_in_what_its_quota_limits(
    server: Server, name: str, gates: list[str], before: Wire, after: Wire, allowed: bool
) -> None:
    server.has(queue("limited", capability={"cpu": "4"}), queue("below", parent="limited"))
    old = member(queue=name, gates=gates, resources={"requests": before})
    new = member(queue=name, gates=gates, resources={"requests": after})
    said = server.ask("/validate/pods", new, old=old, operation="UPDATE", sub_resource="resize")
    assert said.allowed is allowed
    assert allowed or '"limited" has a capability of cpu' in said.message


def test_our_gate_stays_while_the_podgroup_is_not_there(server: Server) -> None:
    before, after = (pod(annotations={GROUP: "gang"}, gates=gates) for gates in ([QUEUE], None))
    answer = update(server, before, after)
    assert not answer.allowed
    assert 'PodGroup "gang" does not exist' in answer.message


def test_our_gate_may_go_from_a_pod_that_is_no_member_any_more(server: Server) -> None:
    assert update(server, pod(gates=[QUEUE]), pod()).allowed


def test_gates_of_others_are_left_alone(server: Server) -> None:
    before, after = (member(queue="held", gates=gates) for gates in (["x", QUEUE], [QUEUE]))
    assert update(server, before, after).allowed


def test_what_the_controller_writes_is_always_allowed(server: Server) -> None:
    assert update(server, member(queue="held", gates=[QUEUE]), pod(), user=OWN).allowed


def test_a_service_account_of_another_namespace_is_not_the_controller(server: Server) -> None:
    imposter = "system:serviceaccount:team:sluice"
    assert not update(
        server, member(queue="held", gates=[QUEUE]), member(queue="held"), user=imposter
    ).allowed


def test_a_pod_of_no_queue_does_not_name_one_later(server: Server) -> None:
    """It would be a member that was never asked about: of a queue that is stopped, or takes nothing new."""
    assert not update(server, pod(), pod(annotations={NAMED: "research"})).allowed


# On CREATE, after every mutating webhook.

LONG = "a" * 60 + ".research"


@pytest.mark.parametrize(
    "made",
    [
        pod(),
        pod(labels={"app": "web"}, gates=["example.com/gate"], nodeName="node-1"),
        member(queue="research"),
        member(queue="held", gates=[QUEUE]),
        pod(annotations={QUEUE: LONG}, labels={QUEUE: label_value(LONG)}),
        pod(annotations={GROUP: "gang"}, labels={QUEUE: ""}, gates=[QUEUE]),
        pod(annotations={MIRROR_ANNOTATION: "x", NAMED: "research"}, nodeName="node-1"),
    ],
    ids=str,
)
def test_a_pod_is_created_as_the_mutating_webhook_answered(server: Server, made: Wire) -> None:
    assert server.ask("/validate/pods", made).allowed


@pytest.mark.parametrize(
    ("made", "place", "what"),
    [
        (member(nodeName="node-1"), "spec.nodeName", "put this pod on a node"),
        (pod(annotations={NAMED: "research"}), NAMED, "made this pod a member"),
        (pod(labels={"volcano.sh/queue-name": "research"}), "volcano.sh", "made this pod a member"),
        (pod(annotations={NAMED: "research"}, gates=[QUEUE]), NAMED, "made this pod a member"),
        (pod(schedulerName="volcano"), "schedulerName", "made this pod a member"),
        (pod(annotations={QUEUE: "research"}), "metadata.labels", "removed this label"),
        (pod(annotations={QUEUE: "held"}, gates=[QUEUE]), "metadata.labels", "removed this label"),
        (pod(gates=[QUEUE]), "spec.schedulingGates", 'put "sluice.dev/queue" on this pod'),
        (pod(labels={QUEUE: "research"}), "metadata[sluice.dev/queue]", "another queue"),
        (pod(annotations={QUEUE: "held"}, labels={QUEUE: "research"}), "metadata", "another queue"),
        (pod(annotations={QUEUE: LONG}, labels={QUEUE: "research"}), "metadata", "another queue"),
        (pod(annotations={QUEUE: "held"}, labels={QUEUE: ""}, gates=[QUEUE]), "metadata", "another queue"),
        (pod(annotations={GROUP: "gang"}, labels={QUEUE: ""}), "spec.schedulingGates", "removed"),
    ],
    ids=str,
)
def test_a_pod_that_another_webhook_changed_afterwards_is_refused(
    server: Server, made: Wire, place: str, what: str
) -> None:
    answer = server.ask("/validate/pods", made)
    assert (answer.allowed, answer.code) == (False, 403)
    assert place in answer.message.split(": another webhook")[0]
    assert what in answer.message
    assert "have that webhook's configuration come before" in answer.message


def test_of_a_namespace_that_names_a_queue_every_pod_has_the_label(server: Server) -> None:
    """Nothing on the pod need say that it was a member."""
    server.has(namespace("team", queue="research"))
    server.clock.seconds += RECENT_SECONDS
    answer = server.ask("/validate/pods", pod())
    assert not answer.allowed
    assert answer.message.startswith("namespace: another webhook made this pod a member")
    assert server.ask("/validate/pods", member(queue="research")).allowed


@pytest.mark.parametrize(
    ("made", "allowed"),
    [(pod(), True), (pod(annotations={NAMED: "research"}), False), (pod(gates=[QUEUE]), False)],
    ids=str,
)
def test_a_namespace_that_has_just_come_to_name_a_queue_denies_nothing_by_that(
    server: Server, made: Wire, *, allowed: bool
) -> None:
    """The mutating webhook may not have known it yet, and the leader labels the pods of the namespace."""
    server.has(namespace("team", version=100), namespace("team", version=101, queue="research"))
    assert server.ask("/validate/pods", made).allowed is allowed


@pytest.mark.parametrize("fields", [{"stopPolicy": "Hold"}, {"state": "Closed"}], ids=str)
def test_a_namespace_that_has_just_come_to_name_a_stopped_queue_denies_what_is_no_member_yet(
    server: Server, fields: dict[str, Any]
) -> None:
    """The pod could be bound before the leader has found it."""
    server.has(queue("stopped", version=90, **fields))
    server.has(namespace("team", version=100), namespace("team", version=101, queue="stopped"))
    answer = server.ask("/validate/unlabelled", pod())
    assert (answer.allowed, answer.code) == (False, 503)


def test_a_replica_that_knows_no_queue_of_a_namespace_is_late_and_lets_no_pod_of_it_pass(
    server: Server,
) -> None:
    """The API server says by the path that the namespace names one."""
    assert server.ask("/validate/pods", pod()).allowed
    answer = server.ask("/validate/unlabelled", pod())
    assert (answer.allowed, answer.code) == (False, 503)
    assert answer.message == (
        'the queue that namespace "team" names is not known to all of sluice yet; try again'
    )
    server.has(namespace("team", version=101, queue="research"))
    assert server.ask("/validate/unlabelled", pod()).allowed


@pytest.mark.parametrize(
    "rules",
    [
        MembershipSettings(exempt_namespaces=frozenset({"team"})),
        MembershipSettings(managed_namespaces=read_selector("sluice.dev/managed=true")),
    ],
    ids=["exempt", "unmanaged"],
)
def test_where_no_queue_of_a_namespace_counts_none_is_waited_for(rules: MembershipSettings) -> None:
    assert Server(rules=rules).ask("/validate/unlabelled", pod()).allowed


def test_the_leader_lists_a_namespace_again_after_all_replicas_have_heard_of_it() -> None:
    assert 2 * RECENT_SECONDS <= NAMESPACE_SECONDS
