"""With setting `managed_namespaces`: who is a member in a namespace that is managed, is not, or is unknown.

The tables of `queues.managed_namespaces`, as the store holds to them.
"""

from __future__ import annotations

from typing import Any

import pytest

from queues.managed_namespaces import read_selector
from queues.membership import MembershipSettings
from tests.support.cases import each_case
from tests.support.http.asking import Server
from tests.support.http.wire_objects import NAMED, Wire, member, namespace, pod, podgroup, queue, workload

LABEL = "sluice.dev/queue"
RULES = MembershipSettings(managed_namespaces=read_selector("sluice.dev/managed=true"))


def team(*, managed: bool, version: int = 1, queue: str = "") -> Wire:
    """Namespace `team`."""
    made = namespace("team", queue=queue) if queue else namespace("team")
    labels = {"sluice.dev/managed": "true"} if managed else {"sluice.dev/managed": "no"}
    return {**made, "metadata": {**made["metadata"], "labels": labels, "resourceVersion": str(version)}}


def labelled(of: Wire, **annotations: str) -> Wire:
    meta = of["metadata"]
    return {
        **of,
        "metadata": {
            **meta,
            "labels": {**(meta.get("labels") or {}), LABEL: "research"},
            "annotations": {**(meta.get("annotations") or {}), **annotations},
        },
    }


def server(*, managed: bool | None) -> Server:
    """With namespace `team`; None: it is not known."""
    made = Server(rules=RULES).lacks(namespace("team")).has(queue("research"))
    return made if managed is None else made.has(team(managed=managed, version=2))


def pods_of(server: Server) -> int:
    return server.store.members.counts("research").live


@pytest.mark.parametrize("managed", [True, False, None])
def test_a_pod_with_our_label_is_a_member_wherever_it_is(managed: bool | None) -> None:
    assert pods_of(server(managed=managed).has(member("a", "research"))) == 1


@each_case("annotation", [NAMED, LABEL])
@each_case(("managed", "pods"), [(True, 1), (False, 0), (None, 0)])
def test_one_without_it_is_a_member_in_a_managed_namespace_alone(
    managed: bool | None, pods: int, annotation: str
) -> None:
    assert pods_of(server(managed=managed).has(pod("a", annotations={annotation: "research"}))) == pods


def test_a_pod_that_waits_for_its_podgroup_stays_one() -> None:
    waiting = pod("a", labels={LABEL: ""}, annotations={"scheduling.k8s.io/group-name": "gang"})
    assert server(managed=False).has(waiting).store.members.counts("").live == 1


@each_case(
    ("managed", "has_label", "live"),
    [
        (True, False, 1),
        (True, True, 1),
        (False, False, 0),
        (False, True, 1),
        (None, False, 0),
        (None, True, 1),
    ],
)
def test_a_podgroup_counts_by_its_namespace_or_its_label(
    managed: bool | None, has_label: bool, live: int
) -> None:
    group = podgroup("gang", queue="research")
    told = server(managed=managed).has(labelled(group) if has_label else group)
    assert told.store.podgroups.counts("research").live == live


def recorded(**annotations: str) -> Wire:
    """A Job as admission leaves it."""
    made = labelled(workload("jobs.batch"), **annotations)
    made["spec"]["template"].setdefault("metadata", {})["annotations"] = {LABEL: "research"}
    return made


@pytest.mark.parametrize(("managed", "live"), [(True, 1), (False, 0), (None, 1)])
def test_a_workload_is_a_member_in_a_managed_namespace_alone(managed: bool | None, live: int) -> None:
    """One that was admitted counts while nothing is known: a close does not miss it."""
    assert server(managed=managed).has(recorded()).store.workloads.live(["research"]) == live


def test_what_a_drain_suspended_is_resumed_but_keeps_no_queue_from_closed() -> None:
    store = server(managed=False).has(recorded(**{"sluice.dev/suspended": "research"})).store
    assert len(list(store.workloads.suspended_by_drain("research"))) == 1
    assert store.workloads.live(["research"]) == 0


@pytest.mark.parametrize(("before", "after"), [(True, False), (False, True)])
def test_a_change_has_members_judged_again_and_the_leader_look_for_pods(before: bool, after: bool) -> None:
    told = server(managed=before)
    told.store.label_changes.take()
    relists = told.count_relists()
    told.has(team(managed=after, version=3))
    assert len(relists) == 1
    assert told.store.label_changes.take().namespaces == {"team": 3}
    told.has({**team(managed=after, version=4), "spec": {"finalizers": ["kubernetes"]}})
    assert len(relists) == 1, "what concerns nobody has nobody judged again"


@pytest.mark.parametrize("managed", [True, False])
def test_what_was_judged_before_its_namespace_was_known_is_judged_again(managed: bool) -> None:
    told = server(managed=None).has(podgroup("gang", queue="research"))
    relists = told.count_relists()
    told.has(team(managed=managed, version=2))
    assert len(relists) == 1


def test_a_podgroup_goes_when_its_namespace_is_managed_no_more_and_comes_back() -> None:
    """Its reflector lists it anew."""
    group, told = podgroup("gang", queue="research"), server(managed=True)
    assert told.has(group).store.podgroups.counts("research").live == 1
    told.has(team(managed=False, version=3), group)
    assert told.store.podgroups.counts("research").live == 0
    told.has(team(managed=True, version=4), group)
    assert told.store.podgroups.counts("research").live == 1


def test_admission_answers_for_what_it_is_asked_about() -> None:
    """The API server has the labels first: a pod of a namespace that it selects is a member at once."""
    made = pod("a", annotations={NAMED: "research"})
    answer = server(managed=False).ask("/mutate/pods", made)
    assert any(step["path"] == "/metadata/labels" for step in answer.patch)


# What is said


def asked(told: Server, path: str, after: Wire, before: Wire | None = None) -> Any:
    update = {"operation": "UPDATE", "old": before} if before else {}
    return told.ask(path, after, resource="namespaces", namespace="", name="team", **update)


def test_who_names_a_queue_in_a_namespace_that_is_not_managed_is_warned() -> None:
    told = server(managed=False)
    said = asked(told, "/mutate/namespaces", team(managed=False, queue="research"), team(managed=False))
    assert said.allowed
    assert said.warnings == [
        'namespace "team" is not managed by sluice (no sluice.dev/managed=true): its queue has no effect'
    ]
    said = asked(told, "/mutate/namespaces", team(managed=True, queue="research"), team(managed=False))
    assert said.warnings == []


def test_who_takes_a_namespace_out_is_told_which_members_stay() -> None:
    told = server(managed=True).has(member("a", "research"), member("b", "research"))
    said = asked(told, "/validate/namespaces", team(managed=False), team(managed=True))
    assert said.allowed
    assert said.warnings == [
        'namespace "team" is no longer managed by sluice: its new pods are in no queue',
        '2 pods stay in queue "research" until gone; stops hold for them, and them alone',
    ]


@pytest.mark.parametrize(("before", "after"), [(True, True), (False, False), (False, True)])
def test_any_other_change_of_its_labels_says_nothing(before: bool, after: bool) -> None:
    said = asked(server(managed=before), "/validate/namespaces", team(managed=after), team(managed=before))
    assert (said.allowed, said.warnings) == (True, [])
