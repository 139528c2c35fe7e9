"""Every replica watches the pods with our label. A member without it, however it came to be, is found by the
leader before a stop of its queue is acknowledged: it is bound by nobody until the queue is resumed.

The tests take our webhooks on pods away for a time, so they have a cluster of their own.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from typing import Any

import pytest

from tests.support.e2e.api_requests import Api, Object
from tests.support.e2e.objects import (
    GATE,
    GROUPED_BY,
    NAMED_BY,
    condition,
    is_stopped,
    suspended_text,
    version,
    waits_for,
)
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.unregistered import unlabelled_pod, without_pod_webhooks
from tests.support.e2e.wait import until

NAME = "member-0"
POLICIES = "/apis/admissionregistration.k8s.io/v1"
ELSEWHERE = "somebody-elses"
MARKER = "sluice.dev/member"


@pytest.fixture
def sandbox(own_restored_sandbox: Sandbox) -> Sandbox:
    return own_restored_sandbox


def label_of(sandbox: Sandbox, name: str = NAME) -> str | None:
    label = (sandbox.read_pod(name)["metadata"].get("labels") or {}).get(GATE)
    return None if label is None else str(label)


def stop_holds(sandbox: Sandbox, queue: str, *names: str) -> None:
    """The queue is stopped, and these pods of it are known by then and bound by nobody; then it is resumed,
    and all are bound. Their last gate is the test's own, which goes once the stop is acknowledged.
    """
    acknowledged = version(sandbox.suspend(queue))
    at = f"?resourceVersion={acknowledged}&resourceVersionMatch=Exact"
    pods = {
        pod["metadata"]["name"]: pod for pod in sandbox.api.get(sandbox.pods_path + at).must().body["items"]
    }
    assert {name: pods[name]["metadata"]["labels"].get(GATE) for name in names} == dict.fromkeys(names, queue)
    sandbox.ungate(names)
    for name in names:
        if MARKER in json.dumps(pods[name]["spec"]):  # filter is called for it; the guard goes on then
            sandbox.reason_on(name, suspended_text(queue))
        else:
            sandbox.bind(name).must_refuse(queue)
    others = sandbox.pods("other", 3)
    sandbox.all_bound(others)  # kube-scheduler has tried those before them too, or waits for us
    assert sandbox.bound(names) == set()
    assert [bind.pod for bind in sandbox.binds() if bind.bound and bind.pod in names] == []
    sandbox.edit(queue, state="Open")
    sandbox.all_bound(names)


def test_a_pod_created_while_no_webhook_was_registered(sandbox: Sandbox) -> None:
    queue = sandbox.queue()
    with without_pod_webhooks(sandbox, queue):
        unlabelled_pod(sandbox, NAME, queue)
        unlabelled_pod(sandbox, "member-1", queue, schedulerName=ELSEWHERE)
    stop_holds_for_own_scheduler(sandbox, queue)


def stop_holds_for_own_scheduler(sandbox: Sandbox, queue: str) -> None:
    """Of the two pods one is of a scheduler that does not exist: nobody binds it but the test."""
    sandbox.suspend(queue)
    sandbox.ungate(["member-1"])
    sandbox.bind("member-1").must_refuse(queue)
    assert label_of(sandbox, "member-1") == queue
    sandbox.edit(queue, state="Open")
    stop_holds(sandbox, queue, NAME)


def test_a_stop_while_no_webhook_is_registered(sandbox: Sandbox) -> None:
    """It is not acknowledged. Pods that come during the stop are looked for all the same."""
    queue = sandbox.queue()
    with without_pod_webhooks(sandbox, queue):
        unlabelled_pod(sandbox, NAME, queue)
        sandbox.patch_queue(queue, state="Suspended").must()
        unlabelled_pod(sandbox, "member-late", queue)
        until(lambda: label_of(sandbox, "member-late") == queue, "the late pod to get its label")
        until(lambda: sandbox.bind(NAME, dry=True).status == 403, "the guard to be on")
        sandbox.ungate(["member-late"])
        sandbox.bind("member-late").must_refuse(queue)
        assert waits_for(sandbox.read_queue(queue)).startswith("NotAsked")
    sandbox.queue_that(queue, "be acknowledged", is_stopped)
    assert sandbox.bound(["member-late"]) == set()


def test_a_pod_created_while_the_server_was_away(sandbox: Sandbox) -> None:
    """As one that is older than the installation."""
    queue = sandbox.queue()
    with without_pod_webhooks(sandbox, queue):
        sandbox.cluster.stop_components("server")
        unlabelled_pod(sandbox, NAME, queue)
        unlabelled_pod(sandbox, "owned", schedulerName="volcano")
        sandbox.cluster.start_components("server")
        until(
            lambda: label_of(sandbox, "owned") == "default", "the pod of an owned scheduler to get its label"
        )
        stop_holds(sandbox, queue, NAME)


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {GATE: None}},
        {"labels": {GATE: None}, "annotations": {GATE: None, NAMED_BY: None}},
        {"labels": {GATE: "elsewhere"}},
        {"labels": {GATE: "elsewhere"}, "annotations": {GATE: "elsewhere"}},
        {"labels": {GATE: ""}, "annotations": {GATE: None, NAMED_BY: None}},
    ],
    ids=[
        "removed",
        "removed with all that names the queue",
        "changed",
        "changed with the annotation",
        "emptied",
    ],
)
def test_a_label_that_is_removed_or_changed_through_the_status(sandbox: Sandbox, metadata: Any) -> None:
    queue = sandbox.queue()
    sandbox.queue("elsewhere")
    if metadata["labels"][GATE]:
        named = sandbox.named("elsewhere")
        metadata = {place: {**keys, GATE: named} for place, keys in metadata.items()}
    sandbox.pod(NAME, queue, gated=True).must(201)
    with without_pod_webhooks(sandbox, queue):
        sandbox.api.patch(f"{sandbox.pods_path}/{NAME}/status", {"metadata": metadata}).must()
    stop_holds(sandbox, queue, NAME)
    sandbox.event(NAME, "QueueLabelRestored", queue)


def test_a_label_that_is_removed_while_the_queue_is_stopped(sandbox: Sandbox) -> None:
    """The stop is acknowledged already. The pod's gate of ours stays on it, and its label comes back."""
    queue = sandbox.queue()
    sandbox.suspend(queue)
    sandbox.pod(NAME, queue).must(201)
    with without_pod_webhooks(sandbox, queue):
        sandbox.api.patch(f"{sandbox.pods_path}/{NAME}/status", {"metadata": {"labels": {GATE: None}}}).must()
        until(lambda: label_of(sandbox) == queue, "its label to come back")
    assert sandbox.bound([NAME]) == set()
    sandbox.edit(queue, state="Open")
    sandbox.all_bound([NAME])


def test_an_annotation_that_does_not_fit_the_label_is_mended(sandbox: Sandbox) -> None:
    queue = sandbox.queue()
    sandbox.pod(NAME, queue, gated=True).must(201)
    with without_pod_webhooks(sandbox, queue):
        body = {"metadata": {"annotations": {GATE: "elsewhere"}}}
        sandbox.api.patch(f"{sandbox.pods_path}/{NAME}/status", body).must()
        until(
            lambda: sandbox.read_pod(NAME)["metadata"]["annotations"][GATE] == queue,
            "its annotation to be mended",
        )
    stop_holds(sandbox, queue, NAME)


def test_pods_of_a_namespace_that_names_a_queue_only_now(sandbox: Sandbox) -> None:
    queue = sandbox.queue()
    unlabelled_pod(sandbox, NAME)
    sandbox.api.patch(sandbox.home, {"metadata": {"annotations": {NAMED_BY: queue}}}).must()
    until(lambda: label_of(sandbox) == queue, "the pod to get its label")
    acknowledged = sandbox.suspend(queue)
    assert is_stopped(acknowledged)
    sandbox.ungate([NAME])
    sandbox.bind(NAME).must_refuse(queue)
    assert sandbox.bound([NAME]) == set()
    sandbox.edit(queue, state="Open")
    sandbox.all_bound([NAME])


def test_a_namespace_that_names_another_queue_all_the_time_holds_up_no_stop(sandbox: Sandbox) -> None:
    """Nor does any pod pass the stop by that. Who may annotate a namespace may not stop queues."""
    queue, others = sandbox.queue(), [sandbox.queue("red"), sandbox.queue("blue")]
    sandbox.pod("own", queue, schedulerName=ELSEWHERE).must(201)
    with renamed_all_the_time(sandbox, others) as named:
        for _ in range(2):
            del named[:]
            until(lambda: len(named) > 3, "the namespace to name other queues")
            sandbox.suspend(queue)
            sandbox.bind("own").must_refuse("is Suspended")
            sandbox.suspend(others[0])
            sandbox.edit(others[0], state="Open")
            sandbox.edit(queue, state="Open")


@contextmanager
def renamed_all_the_time(sandbox: Sandbox, queues: list[str]) -> Iterator[list[str]]:
    """The namespace names these in turns, ten times a second. Yields those that it has named."""
    ended, named = threading.Event(), list[str]()

    def name(api: Api, queue: str | None) -> None:
        api.patch(sandbox.home, {"metadata": {"annotations": {NAMED_BY: queue}}}).must()

    def rename() -> None:
        with Api(sandbox.cluster) as api:
            for queue in cycle(queues):
                name(api, queue)
                named.append(queue)
                if ended.wait(0.1):
                    break
            name(api, None)

    thread = threading.Thread(target=rename, name="renaming")
    thread.start()
    try:
        yield named
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize("asked", [True, False], ids=["webhooks registered", "no webhook registered"])
def test_a_pod_whose_podgroup_is_created_late(sandbox: Sandbox, asked: bool) -> None:
    """Until then it has an empty label, and is bound by nobody."""
    queue = sandbox.queue()
    if asked:
        sandbox.pod(NAME, gated=True, annotations={GROUPED_BY: "gang"}).must(201)
        assert label_of(sandbox) == ""
    else:
        with without_pod_webhooks(sandbox, queue):
            unlabelled_pod(sandbox, NAME, annotations={GROUPED_BY: "gang"})
        sandbox.suspend(queue)  # that has the pods without a label looked for
        sandbox.edit(queue, state="Open")
        until(lambda: label_of(sandbox) == "", "the pod to get an empty label")
    sandbox.podgroup("gang", queue)
    until(lambda: label_of(sandbox) == queue, "the pod to get its queue")
    stop_holds(sandbox, queue, NAME)


def test_a_pod_that_cannot_be_labelled_holds_up_the_stops_of_its_own_queue_alone(sandbox: Sandbox) -> None:
    queue, other = sandbox.queue(), sandbox.queue("other")
    refuse_updates(sandbox)
    with without_pod_webhooks(sandbox, queue):
        unlabelled_pod(sandbox, NAME, queue)
    sandbox.suspend(other)
    sandbox.patch_queue(queue, state="Suspended").must()
    unlabelled = f"Unlabelled: pod {sandbox.namespace}/{NAME} cannot be given its label"
    waits = sandbox.queue_that(
        queue, "say what its stop waits for", lambda found: waits_for(found).startswith(unlabelled)
    )
    assert not is_stopped(waits)
    sandbox.api.delete(f"{sandbox.pods_path}/{NAME}?gracePeriodSeconds=0").must()
    sandbox.queue_that(queue, "be acknowledged", is_stopped)


def refuse_updates(sandbox: Sandbox) -> None:
    """A policy of somebody else: nobody may update a pod of this namespace. Returns once it is in effect."""
    name, frozen = sandbox.named("frozen"), "frozen"
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["UPDATE"]}]
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": rules},
        "validations": [{"expression": f"request.namespace != '{sandbox.namespace}'"}],
    }
    sandbox.pod(frozen, gated=True).must(201)
    sandbox.create(f"{POLICIES}/validatingadmissionpolicies", {"metadata": {"name": name}, "spec": spec})
    bound = {"policyName": name, "validationActions": ["Deny"]}
    sandbox.create(
        f"{POLICIES}/validatingadmissionpolicybindings", {"metadata": {"name": name}, "spec": bound}
    )
    body: Object = {"metadata": {"labels": {"a": "b"}}}
    until(lambda: sandbox.patch_pod(frozen, body).status == 422, "updates to be refused")


def test_a_running_member_without_its_label_keeps_its_queue_from_closed(sandbox: Sandbox) -> None:
    queue = sandbox.queue()
    with without_pod_webhooks(sandbox, sandbox.queue("other")):
        sandbox.cluster.stop_components("server")
        sandbox.pod(NAME, queue).must(201)
        sandbox.all_bound([NAME])
        sandbox.cluster.start_components("server")
        sandbox.patch_queue(queue, state="Closed").must()
        closing = sandbox.queue_that(
            queue, "say that it closes", lambda found: condition(found, "Accepting").get("status") == "False"
        )
        assert closing["status"]["state"] == "Closing"
        until(lambda: label_of(sandbox) == queue, "the pod to get its label")
        assert sandbox.read_queue(queue)["status"]["state"] == "Closing"
        sandbox.api.delete(f"{sandbox.pods_path}/{NAME}?gracePeriodSeconds=0").must()
        sandbox.queue_that(queue, "be Closed", lambda found: found["status"]["state"] == "Closed")
