"""What the API server refuses by itself, with or without our server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.manifests.bare_api import (
    REGISTRATIONS,
    SERVER,
    Api,
    command,
    commands,
    eventually,
    namespaces,
    queue,
)

pytestmark = pytest.mark.cluster

RBAC = "/apis/rbac.authorization.k8s.io/v1"
COMMANDER = {
    "apiGroups": ["bus.volcano.sh"],
    "resources": ["commands"],
    "verbs": ["create", "update", "patch"],
}
OWNER = {
    "apiGroups": ["scheduling.volcano.sh"],
    "resources": ["queues"],
    "resourceNames": ["hers"],
    "verbs": ["update"],
}
TENANT = {
    "apiGroups": ["scheduling.volcano.sh"],
    "resources": ["queues"],
    "resourceNames": ["team", "moved"],
    "verbs": ["create", "update", "patch", "delete"],
}
LANDLORD = {
    "apiGroups": [""],
    "resources": ["namespaces", "namespaces/status"],
    "verbs": ["create", "update", "patch"],
}
LABEL = "sluice.dev/member-namespace"
GUARD = "sluice.dev/guard"
NAMES_A_QUEUE = {"scheduling.volcano.sh/queue-name": "research"}


def grant(api: Api, user: str, *rules: dict[str, list[str]]) -> None:
    role = {"kind": "ClusterRole", "metadata": {"name": user}, "rules": rules}
    subject = {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user}
    binding = {"metadata": {"name": user}, "roleRef": reference, "subjects": [subject]}
    assert api.create(f"{RBAC}/clusterroles", role).status == 201
    assert api.create(f"{RBAC}/clusterrolebindings", {"kind": "ClusterRoleBinding", **binding}).status == 201


@pytest.fixture(scope="module", autouse=True)
def users(api: Api) -> None:
    """`writer` may write Commands, `owner` may also update queue hers; `landlord` may edit namespaces."""
    grant(api, "writer", COMMANDER)
    grant(api, "owner", COMMANDER, OWNER)
    grant(api, "landlord", LANDLORD)
    grant(api, "tenant", TENANT)
    grant(api, "parents", TENANT, {**TENANT, "resourceNames": ["labs"]})
    grant(api, "creator", {**TENANT, "resourceNames": [], "verbs": ["create"]})
    eventually(lambda: api.may("landlord", "patch", "/namespaces"))
    eventually(lambda: policies_work(api))


def policies_work(api: Api) -> bool:
    body = {"kind": "Namespace", "metadata": {"name": "probe", "labels": {GUARD: "true"}}}
    refused = api.create(commands("default"), command("probe", "hers"), user="writer", dry=True).status == 403
    return refused and api.create(namespaces(), body, dry=True).status == 403


@pytest.mark.parametrize("kind", ["sluice-commands", "sluice-namespaces", "sluice-queues"])
def test_the_expressions_fit_the_types(api: Api, kind: str) -> None:
    path = f"{REGISTRATIONS}/validatingadmissionpolicies/{kind}"
    eventually(lambda: "typeChecking" in api.get(path).body.get("status", {}))
    assert api.get(path).body["status"]["typeChecking"] == {}


def test_whoever_may_not_update_the_queue_may_not_command_it(api: Api) -> None:
    reply = api.create(commands("default"), command("a", "hers"), user="writer", dry=True)
    assert reply.status == 403
    assert 'user "writer" may not act on queue "hers"' in reply.message
    assert "sluice-queue-admin" in reply.message


@pytest.mark.parametrize(("queue", "status"), [("hers", 201), ("his", 403)])
def test_a_right_over_one_queue_is_a_right_to_command_that_one(api: Api, queue: str, status: int) -> None:
    assert api.create(commands("default"), command("a", queue), user="owner", dry=True).status == status


def test_a_queue_of_no_name_takes_a_right_over_all(api: Api) -> None:
    assert api.create(commands("default"), command("a", ""), user="owner", dry=True).status == 403
    assert api.create(commands("default"), command("a", ""), dry=True).status == 201


def test_commands_for_other_kinds_are_none_of_our_business(api: Api) -> None:
    made = api.create(commands("default"), command("a", "train", kind="Job"), user="writer", dry=True)
    assert made.status == 201


def test_a_command_without_a_target_is_none_of_our_business(api: Api) -> None:
    aimless = {"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "metadata": {"name": "a"}}
    assert api.create(commands("default"), aimless, user="writer", dry=True).status == 201


@pytest.fixture
def written(api: Api) -> Iterator[str]:
    """The path of a stamped Command for a queue."""
    body = command("written", "hers")
    body["metadata"]["annotations"] = {"sluice.dev/author": "owner", "note": "x"}
    assert api.create(commands("default"), body).status == 201
    yield commands("default", "written")
    api.delete(commands("default", "written"))


@pytest.mark.parametrize(
    "change",
    [
        {"action": "CloseQueue"},
        {"target": {"name": "his"}},
        {"target": {"kind": "Job"}},
        {"target": None},
        {"reason": "another"},
        {"message": "another"},
        {"metadata": {"annotations": {"sluice.dev/author": "someone"}}},
        {"metadata": {"annotations": {"sluice.dev/author": None}}},
        {"metadata": {"annotations": {"sluice.dev/new": "x"}}},
    ],
    ids=str,
)
def test_nobody_changes_a_command_once_it_is_written(api: Api, written: str, change: dict[str, Any]) -> None:
    assert api.patch(written, change, dry=True).status == 403


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"finalizers": ["example.com/wait"]}},
        {"metadata": {"labels": {"app": "x"}}},
        {"metadata": {"annotations": {"note": None}}},
        {"metadata": {"ownerReferences": []}},
    ],
    ids=str,
)
def test_what_the_cluster_keeps_in_metadata_may_change(
    api: Api, written: str, change: dict[str, Any]
) -> None:
    assert api.patch(written, change, dry=True).status == 200


def test_a_command_for_a_job_cannot_be_turned_on_a_queue(api: Api) -> None:
    assert api.create(commands("default"), command("turned", "train", kind="Job")).status == 201
    turned = api.patch(commands("default", "turned"), {"target": {"kind": "Queue"}}, dry=True)
    api.delete(commands("default", "turned"))
    assert turned.status == 403


@pytest.fixture
def namespace(api: Api) -> Iterator[str]:
    """A namespace that names a queue and bears both labels."""
    metadata = {"name": "labelled", "labels": {LABEL: "true"}, "annotations": NAMES_A_QUEUE}
    made = api.create(namespaces(), {"kind": "Namespace", "metadata": metadata})
    assert made.status in (201, 409), made.message
    assert (
        api.patch(namespaces("labelled"), {"metadata": {"labels": {GUARD: "1"}}}, user=SERVER).status == 200
    )
    yield namespaces("labelled")


@pytest.mark.parametrize(
    "change",
    [
        {"labels": {GUARD: None}},
        {"labels": {GUARD: "2"}},
        {"annotations": {GUARD: "x"}},
        {"labels": {LABEL: None}},
        {"labels": {LABEL: "2"}},
        {"labels": {LABEL: None, GUARD: None}, "annotations": {"scheduling.volcano.sh/queue-name": None}},
    ],
    ids=str,
)
@pytest.mark.parametrize("user", ["landlord", None], ids=["landlord", "administrator"])
@pytest.mark.parametrize("part", ["", "/status"])
def test_nobody_else_writes_our_labels(
    api: Api, namespace: str, change: dict[str, Any], user: str | None, part: str
) -> None:
    reply = api.patch(namespace + part, {"metadata": change}, user=user, dry=True)
    assert (reply.status, "written by sluice alone" in reply.message) == (403, True)


@pytest.mark.parametrize(
    "change",
    [
        {"labels": {"app": "x"}},
        {"annotations": {"app": "x"}},
        {"annotations": {"scheduling.volcano.sh/queue-name": "other"}},
        {"annotations": {"scheduling.volcano.sh/queue-name": None}, "labels": {LABEL: None}},
    ],
    ids=str,
)
def test_everything_else_of_a_namespace_is_its_owners(
    api: Api, namespace: str, change: dict[str, Any]
) -> None:
    reply = api.patch(namespace, {"metadata": change}, user="landlord", dry=True)
    assert reply.status == 200, reply.message


@pytest.mark.parametrize(
    ("metadata", "status"),
    [
        ({}, 201),
        ({"annotations": NAMES_A_QUEUE}, 201),
        ({"annotations": NAMES_A_QUEUE, "labels": {LABEL: "true"}}, 201),
        ({"labels": {LABEL: "true"}}, 403),
        ({"labels": {GUARD: "true"}}, 403),
    ],
    ids=str,
)
def test_a_new_namespace_is_held_to_the_same(api: Api, metadata: dict[str, Any], status: int) -> None:
    body = {"kind": "Namespace", "metadata": {"name": "newer", **metadata}}
    assert api.create(namespaces(), body, user="landlord", dry=True).status == status


def test_the_server_writes_both_labels(api: Api, namespace: str) -> None:
    change = {"metadata": {"labels": {GUARD: None, LABEL: "other"}}}
    assert api.patch(namespace, change, user=SERVER, dry=True).status == 200


QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
FREEZE = {"name": "freeze", "from": "2020-01-01T00:00Z", "until": "2100-01-01T00:00Z", "stopPolicy": "Hold"}
ON = {"name": "freeze", "start": "2020-01-01T00:00:00Z", "until": "2100-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("spec", "user", "allowed"),
    [
        ({"inWindow": None}, None, False),
        ({"inWindow": [{**ON, "until": "2021-01-01T00:00:00Z"}]}, None, False),
        ({"weight": 2}, None, True),
        ({"inWindow": None}, SERVER, True),
        (
            {"inWindow": None, "windows": None},
            None,
            True,
        ),  # as the webhook has it with an edit of the windows
        (
            {
                "inWindow": None,
                "windowOverrides": [{"window": "freeze", "start": FREEZE["from"], "skip": True}],
            },
            None,
            True,
        ),
    ],
)
def test_nobody_but_the_server_begins_or_ends_a_window(
    api: Api, spec: dict[str, Any], user: str | None, allowed: bool
) -> None:
    """Where the webhook is not asked, or an older replica is, which does not know the field."""
    assert api.create(QUEUES, queue("timed", windows=[FREEZE], inWindow=[ON])).status in {201, 409}
    reply = api.patch(f"{QUEUES}/timed", {"spec": spec}, user=user, dry=True)
    assert (reply.status == 200) is allowed, reply.message
    assert allowed or "spec.inWindow: the server writes it" in reply.message


# A right over one queue

APIVERSION = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
#: What the queue has beside its siblings. Volcano's definition writes weight and reclaimable.
HELD = {
    "guarantee": {"resource": {"cpu": "1", "memory": "1Gi"}},
    "deserved": {"cpu": "2", "nvidia.com/gpu": 1},
    "capability": {"cpu": 4},
    "priority": 5,
}


@pytest.fixture(scope="module")
def team(api: Api) -> str:
    """The path of queue `team`, below `labs`."""
    assert api.create(QUEUES, queue("labs")).status == 201
    assert api.create(QUEUES, queue("team", parent="labs", **HELD)).status == 201
    eventually(lambda: api.may("creator", "create", "scheduling.volcano.sh/queues"))
    eventually(lambda: api.may("parents", "update", "scheduling.volcano.sh/queues", name="labs"))
    return f"{QUEUES}/team"


@pytest.mark.parametrize(
    ("field", "more"),
    [
        ("guarantee", {"guarantee": {"resource": {"cpu": "1100m"}}}),
        ("guarantee", {"guarantee": {"resource": {"memory": "1025Mi"}}}),
        ("guarantee", {"guarantee": {"resource": {"nvidia.com/gpu": 1}}}),
        ("deserved", {"deserved": {"cpu": 3}}),
        ("deserved", {"deserved": {"memory": "1Gi"}}),
        ("deserved", {"deserved": {"nvidia.com/gpu": None}}),
        ("deserved", {"deserved": {"cpu": None}}),
        ("deserved", {"deserved": None}),
        ("capability", {"capability": {"cpu": "4001m"}}),
        ("capability", {"capability": {"cpu": None}}),
        ("capability", {"capability": None}),
        ("priority", {"priority": 6}),
        ("affinity", {"affinity": {}}),
        (
            "affinity",
            {"affinity": {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["a"]}}},
        ),
        ("guarantee", {"state": "Suspended", "guarantee": {"resource": {"cpu": 2}}}),
    ],
    ids=str,
)
def test_what_a_queue_has_beside_its_siblings_is_its_parents_to_raise(
    api: Api, team: str, field: str, more: dict[str, Any]
) -> None:
    reply = api.patch(team, {"spec": more}, user="tenant", dry=True)
    assert reply.status == 403, reply.message
    assert f"spec.{field}: to raise what this queue has beside its siblings" in reply.message
    assert "update its parent, queue labs" in reply.message
    assert api.patch(team, {"spec": more}, user="parents", dry=True).status == 200
    assert api.patch(team, {"spec": more}, dry=True).status == 200


@pytest.mark.parametrize(
    "edit",
    [
        {"guarantee": None},
        {"guarantee": {"resource": {"cpu": "1000m", "memory": "1024Mi"}}},
        {"guarantee": {"resource": {"cpu": 0}}},
        {"deserved": {"cpu": 1}},
        {"capability": {"cpu": "3", "memory": "1Gi"}},
        {"priority": None},
        {"reclaimable": True},
        {"weight": 9},
        {"state": "Suspended", "reason": "disks", "windows": [FREEZE]},
        {"stopPolicy": "HoldAndDrain", "drain": {"rate": 5}},
        {"namespaceSelector": {"matchLabels": {"team": "a"}}, "dequeueStrategy": "fifo"},
        {"guaranteeWhileStopped": "Lend", "schedulerPolicy": "other", "parked": "Recreate", "type": "x"},
    ],
    ids=str,
)
def test_what_concerns_the_queue_alone_is_its_owners(api: Api, team: str, edit: dict[str, Any]) -> None:
    """So is what it gives back; weight too, while it has no quota."""
    reply = api.patch(team, {"spec": edit}, user="tenant", dry=True)
    assert reply.status == 200, reply.message


@pytest.mark.parametrize(
    ("before", "change", "allowed"),
    [
        ({}, {"deserved": None}, True),
        ({}, {"deserved": {"cpu": None, "memory": None}}, True),
        ({}, {"deserved": {"cpu": None}}, False),
        ({"guarantee": {"resource": {"memory": 1}}}, {"deserved": None}, False),
    ],
    ids=str,
)
def test_what_deserved_names_no_more_is_kept_beside_what_it_names(
    api: Api, team: str, before: dict[str, Any], change: dict[str, Any], allowed: bool
) -> None:
    """Without any of it the queue lends all that it uses."""
    path, spec = f"{QUEUES}/moved", {"deserved": {"cpu": 2, "memory": 2}, **before}
    assert api.create(QUEUES, queue("moved", parent="labs", **spec)).status == 201
    reply = api.patch(path, {"spec": change}, user="tenant", dry=True)
    assert api.delete(path).status == 200
    assert (reply.status == 200) is allowed, reply.message


@pytest.mark.parametrize("user", ["tenant", "parents"])
def test_what_lends_nothing_whatever_it_is_below_is_for_who_may_update_root(
    api: Api, team: str, user: str
) -> None:
    """By an edit, by a move and by creation: a child of a queue would keep what that queue borrows."""
    said = "spec.reclaimable: a queue that is not reclaimable keeps"
    keeps = {"spec": {"reclaimable": False}}
    child = {"parent": "labs" if user == "parents" else "team", "reclaimable": False}
    reply = api.patch(team, keeps, user=user, dry=True)
    assert (reply.status, said in reply.message) == (403, True), reply.message
    reply = api.apply(f"{QUEUES}/moved", queue("moved", **child), user=user, dry=True)
    assert (reply.status, said in reply.message) == (403, True), reply.message
    assert api.patch(team, keeps, dry=True).status == 200
    assert api.create(QUEUES, queue("moved", parent="team", reclaimable=False)).status == 201
    move = {"spec": {"parent": "labs"}}
    statuses = [
        api.patch(f"{QUEUES}/moved", spec, user="parents", dry=True).status
        for spec in ({"spec": {"weight": 2}}, move, {"spec": {**move["spec"], "reclaimable": True}})
    ]
    assert api.delete(f"{QUEUES}/moved").status == 200
    assert statuses == [200, 403, 200]


def test_the_weight_is_the_parents_to_raise_once_there_is_a_quota(api: Api, team: str) -> None:
    status = {"status": {"quota": {"waiting": 0}}}
    assert api.patch(f"{team}/status", status).status == 200
    reply = api.patch(team, {"spec": {"weight": 9}}, user="tenant", dry=True)
    assert (reply.status, "spec.weight: to raise" in reply.message) == (403, True)
    assert api.patch(f"{team}/status", {"status": {"quota": None}}).status == 200


@pytest.mark.parametrize(
    ("user", "spec", "allowed"),
    [
        ("tenant", {}, False),
        ("tenant", {"parent": ""}, False),
        ("tenant", {"parent": "root"}, False),
        ("tenant", {"parent": "labs"}, False),
        ("tenant", {"parent": "team"}, True),
        ("parents", {"parent": "labs", "guarantee": {"resource": {"cpu": 1}}}, True),
        ("parents", {"parent": "root"}, False),
    ],
    ids=str,
)
def test_who_puts_a_queue_below_another_may_update_that(
    api: Api, team: str, user: str, spec: dict[str, Any], allowed: bool
) -> None:
    """By a server-side apply: for that a right over one name is enough."""
    reply = api.apply(f"{QUEUES}/moved", {**queue("moved", **spec)}, user=user, dry=True)
    assert (reply.status == 201) is allowed, reply.message
    above = spec.get("parent") or "root"
    assert allowed or f"to create a queue below queue {above} you need the right to update" in reply.message


@pytest.mark.parametrize("metadata", [{"name": "any"}, {"generateName": "any-"}], ids=str)
def test_a_right_to_create_queues_is_none_over_those_above(
    api: Api, team: str, metadata: dict[str, str]
) -> None:
    body = {**APIVERSION, "metadata": metadata, "spec": {"parent": "labs"}}
    reply = api.create(QUEUES, body, user="creator", dry=True)
    assert (reply.status, "below queue labs" in reply.message) == (403, True)
    assert api.create(QUEUES, body, dry=True).status == 201


def test_the_server_creates_what_is_always_there(api: Api) -> None:
    assert api.create(QUEUES, queue("default", parent="root"), user=SERVER, dry=True).status == 201


@pytest.mark.parametrize(
    ("spec", "name", "status"),
    [
        ({"parent": "root"}, "default", 409),
        ({}, "default", 409),
        ({}, "root", 409),
        ({"parent": "labs"}, "default", 403),
        ({"parent": "root"}, "any", 403),
    ],
    ids=str,
)
def test_who_makes_sure_of_what_is_always_there_is_told_that_it_is(
    api: Api, team: str, spec: dict[str, Any], name: str, status: int
) -> None:
    """As Volcano's scheduler does at its start, which takes no other answer."""
    for built_in in ("root", "default"):
        assert api.create(QUEUES, queue(built_in), user=SERVER).status in {201, 409}
    reply = api.create(QUEUES, {**APIVERSION, "metadata": {"name": name}, "spec": spec}, user="creator")
    assert reply.status == status, reply.message


@pytest.mark.parametrize("parent", ["", "root", None])
def test_an_empty_parent_is_root(api: Api, team: str, parent: str | None) -> None:
    """The webhook, which would write it, is not asked here."""
    reply = api.patch(team, {"spec": {"parent": parent}}, user="parents", dry=True)
    assert (reply.status, "queue labs and queue root" in reply.message) == (403, True)


def test_what_is_being_deleted_is_not_opened(api: Api, team: str) -> None:
    path, kept = f"{QUEUES}/leaving", {"metadata": {"finalizers": ["example.com/wait"]}}
    assert api.create(QUEUES, queue("leaving", state="Closed")).status == 201
    assert api.patch(path, kept).status == 200
    assert api.delete(path).status == 200
    for state in ("Open", None):
        reply = api.patch(path, {"spec": {"state": state}}, dry=True)
        assert (reply.status, 'queue "leaving" is being deleted' in reply.message) == (403, True)
    assert api.patch(path, {"spec": {"state": "Suspended"}}, dry=True).status == 200
    assert api.patch(path, {"metadata": {"finalizers": None}}).status == 200
