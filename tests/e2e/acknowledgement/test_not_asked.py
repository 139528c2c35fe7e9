"""While the API server does not ask us about all pods nothing is promised, and what was promised is
withdrawn. Once it asks again, what was made meanwhile is found, counted and labelled before that.

The tests take our webhooks and policies away for a time, so they have a cluster of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any

import pytest

from localcluster.ports import LOOPBACK
from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import GATE, condition, is_stopped, on_a_node, waits_for
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.unregistered import REGISTRATIONS
from tests.support.e2e.wait import PATIENCE, settled, until
from tests.support.plugin.harness import plugin_in_process

API = "/apis/admissionregistration.k8s.io/v1"
MUTATING, VALIDATING = REGISTRATIONS
BINDING = f"{API}/validatingadmissionpolicybindings/sluice-namespaces"
NOT_ASKED = "NotAsked"
Change = Callable[[Sandbox], object]


@pytest.fixture
def sandbox(own_restored_sandbox: Sandbox) -> Sandbox:
    return own_restored_sandbox


@contextmanager
def changed(sandbox: Sandbox, *paths: str) -> Iterator[None]:
    """The objects at these paths are the test's to change; afterwards they are as they were."""
    before = {path: sandbox.api.get(path).must().body for path in paths}
    try:
        yield
    finally:
        for path, body in before.items():
            restore(sandbox, path, body)


def restore(sandbox: Sandbox, path: str, body: Object) -> None:
    kept = {key: body["metadata"].get(key) for key in ("name", "labels", "annotations")}
    fresh = {**body, "metadata": {key: value for key, value in kept.items() if value}}
    if sandbox.api.get(path).status == 404:
        sandbox.api.create(path.rpartition("/")[0], fresh).must(201)
    else:
        content = "webhooks" if "webhooks" in body else "spec"
        sandbox.api.patch(path, {content: body[content]}).must()


def is_withdrawn(queue: Object) -> bool:
    return condition(queue, "Active").get("reason") == NOT_ASKED and waits_for(queue).startswith(NOT_ASKED)


def of_pods(webhooks: list[Object], **changes: Any) -> list[Object]:
    return [{**each, **changes} if each["name"] == "members.pods.sluice.dev" else each for each in webhooks]


def patched(path: str, change: Callable[[list[Object]], list[Object]]) -> Change:
    def patch(sandbox: Sandbox) -> None:
        webhooks = sandbox.api.get(path).must().body["webhooks"]
        sandbox.api.patch(path, {"webhooks": change(webhooks)}).must()

    return patch


def excluding(webhooks: list[Object]) -> list[Object]:
    names = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "team"]}
    return of_pods(webhooks, namespaceSelector={"matchExpressions": [names]})


def never(webhooks: list[Object]) -> list[Object]:
    return of_pods(webhooks, matchConditions=[{"name": "never", "expression": "false"}])


CHANGES: dict[str, tuple[str, Change]] = {
    "no entries": (VALIDATING, patched(VALIDATING, lambda _: [])),
    "a condition": (MUTATING, patched(MUTATING, never)),
    "failurePolicy": (MUTATING, patched(MUTATING, lambda each: of_pods(each, failurePolicy="Ignore"))),
    "a namespace": (MUTATING, patched(MUTATING, excluding)),
    "a binding gone": (BINDING, lambda sandbox: sandbox.api.delete(BINDING).must()),
    "a binding that audits": (
        BINDING,
        lambda sandbox: sandbox.api.patch(BINDING, {"spec": {"validationActions": ["Audit"]}}).must(),
    ),
}


def status(sandbox: Sandbox) -> str:
    return plugin_in_process("status", kubeconfig=sandbox.cluster.layout.kubeconfig).stdout


def readiness(sandbox: Sandbox) -> str:
    connection = HTTPConnection(LOOPBACK, sandbox.cluster.ports.health, timeout=PATIENCE)
    try:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        assert answer.status == 200
        return answer.read().decode()
    finally:
        connection.close()


def test_what_was_made_while_both_configurations_were_gone_is_known_before_anything_is_promised(
    sandbox: Sandbox,
) -> None:
    stopped, running = sandbox.queue("stopped"), sandbox.queue("running", capability={"pods": "2"})
    sandbox.queue_that(running, "have its quota", lambda found: enforced(found) == "Enforced")
    sandbox.suspend(stopped)
    with changed(sandbox, *REGISTRATIONS):
        for path in REGISTRATIONS:
            sandbox.api.delete(path).must()
        withdrawn = sandbox.queue_that(stopped, "be withdrawn", is_withdrawn)
        assert "MutatingWebhookConfiguration sluice is not there" in waits_for(withdrawn)
        sandbox.queue_that(running, "withdraw its quota", lambda found: enforced(found) == NOT_ASKED)
        sandbox.event("root", NOT_ASKED, namespace="default")
        lacking = "ValidatingWebhookConfiguration sluice is not there"
        until(lambda: lacking in status(sandbox), "the plugin to say it")
        assert lacking in readiness(sandbox)
        sandbox.patch_queue(stopped, resumeAt="2999-01-01T00:00:00Z").must()  # another stop, in effect
        unseen = [
            *sandbox.pods("into-stopped", 2, stopped),
            *sandbox.pods("into-running", 4, running),
        ]
        until(lambda: sandbox.bound(unseen) == set(unseen), "what nobody held to be bound")
        assert is_withdrawn(sandbox.read_queue(stopped))
    sandbox.queue_that(stopped, "be acknowledged", is_stopped)
    labels = {name: sandbox.read_pod(name)["metadata"].get("labels", {}).get(GATE) for name in unseen}
    assert labels == {name: stopped if name.startswith("into-stopped") else running for name in unseen}
    late = sandbox.pods("late", 2, running)
    sandbox.queue_that(running, "count them", lambda found: found["status"]["quota"]["used"] == {"pods": "4"})
    assert (
        settled(lambda: [name for name in late if on_a_node(sandbox.read_pod(name))], "the late pods") == []
    )
    sandbox.event("root", "AskedAgain", namespace="default")


def enforced(queue: Object) -> str:
    return str(condition(queue, "QuotaEnforced").get("reason"))


def test_whatever_narrows_what_the_api_server_asks_withdraws_a_stop(sandbox: Sandbox) -> None:
    queue = sandbox.queue()
    sandbox.suspend(queue)
    for name, (path, change) in CHANGES.items():
        with changed(sandbox, path):
            change(sandbox)
            sandbox.queue_that(queue, f"be withdrawn: {name}", is_withdrawn)
        sandbox.queue_that(queue, f"be acknowledged after: {name}", is_stopped)
