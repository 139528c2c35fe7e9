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
