"""While some of our webhooks are not registered nobody asks us about queues, pods or workloads."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from tests.support.e2e.api_requests import Answer, Object
from tests.support.e2e.objects import GATE, OWN_GATE, pod_body, queue_body
from tests.support.e2e.sandbox import QUEUES, Sandbox
from tests.support.e2e.wait import until
from tests.support.e2e.workloads import JOB, work_body

REGISTRATIONS = tuple(
    f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/sluice"
    for kind in ("mutating", "validating")
)


@contextmanager
def without_pod_webhooks(sandbox: Sandbox, probe_queue: str) -> Iterator[None]:
    """No webhook of ours is called for a pod; binds meet the guard as ever."""
    with _without(sandbox, _is_on_pods, lambda: _labelled(sandbox, probe_queue)):
        yield


@contextmanager
def without_workload_webhooks(sandbox: Sandbox, probe_queue: str) -> Iterator[None]:
    """No webhook of ours is called for a workload; those on pods are."""
    with _without(sandbox, _is_on_workloads, lambda: _job_labelled(sandbox, probe_queue)):
        yield


@contextmanager
def without_queue_webhooks(sandbox: Sandbox) -> Iterator[None]:
    """No webhook of ours is called for a queue; for a server that is stopped, which they need."""

    def refused_without_server() -> bool:
        probe = queue_body(f"{sandbox.namespace}-probe")
        return sandbox.api.create(f"{QUEUES}?dryRun=All", probe).status != 201

    with _without(sandbox, _is_on_queues, refused_without_server):
        yield


@contextmanager
def _without(
    sandbox: Sandbox, is_taken_away: Callable[[Object], bool], labelled: Callable[[], bool | None]
) -> Iterator[None]:
    """`labelled`: whether an object of the probe queue gets the label; None while it is refused.

    The API server hears of both configurations apart: while one that validates is still called, it refuses an
    object that no mutating one has labelled.
    """
    registered = {path: sandbox.api.get(path).must().body["webhooks"] for path in REGISTRATIONS}
    left = {path: [hook for hook in hooks if not is_taken_away(hook)] for path, hooks in registered.items()}
    try:
        _register(sandbox, left)
        until(lambda: labelled() is False, "the webhooks to be gone")
        yield
    finally:
        _register(sandbox, registered)
        until(labelled, "the webhooks to be called", seconds=120)


def _register(sandbox: Sandbox, hooks_by_path: Mapping[str, list[Object]]) -> None:
    """Both, though one is refused."""
    with ExitStack() as steps:  # the last one first
        for path, hooks in reversed(list(hooks_by_path.items())):
            steps.callback(_patch, sandbox, path, hooks)


def _patch(sandbox: Sandbox, path: str, hooks: list[Object]) -> None:
    sandbox.api.patch(path, {"webhooks": hooks}).must()


def _is_on_pods(hook: Object) -> bool:
    return any(
        resource.split("/")[0] == "pods" for rule in hook["rules"] for resource in rule["resources"]
    ) and ("binding" not in json.dumps(hook["rules"]))


def _is_on_queues(hook: Object) -> bool:
    return any("queues" in rule["resources"] for rule in hook["rules"])


def _is_on_workloads(hook: Object) -> bool:
    return ".workloads." in hook["name"]


def _labelled(sandbox: Sandbox, queue: str) -> bool | None:
    """Whether a pod that is created now gets the label."""
    return _is_labelled(sandbox.api.create(f"{sandbox.pods_path}?dryRun=All", pod_body("probe", queue)))


def _job_labelled(sandbox: Sandbox, queue: str) -> bool | None:
    """Whether a Job that is created now gets the label."""
    path = f"{JOB.path(sandbox.namespace)}?dryRun=All"
    return _is_labelled(sandbox.api.create(path, work_body(JOB, "probe", queue)))


def _is_labelled(answer: Answer) -> bool | None:
    return GATE in (answer.body["metadata"].get("labels") or {}) if answer.status == 201 else None


def unlabelled_pod(sandbox: Sandbox, name: str, queue: str = "", **more: Any) -> None:
    """A pod that no webhook of ours saw; the test's own gate keeps it from being bound."""
    body = sandbox.pod(name, queue, gated=True, **more).must(201).body
    assert GATE not in (body["metadata"].get("labels") or {})
    assert [gate["name"] for gate in body["spec"]["schedulingGates"]] == [OWN_GATE]
