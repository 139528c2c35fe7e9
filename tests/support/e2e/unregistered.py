"""The time while some of our webhooks are not registered: nobody asks us about pods, or about workloads."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import GATE, OWN_GATE, pod_body
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until
from tests.support.e2e.workloads import JOB, work_body

REGISTRATIONS = tuple(
    f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/sluice"
    for kind in ("mutating", "validating")
)


@contextmanager
def without_pod_webhooks(sandbox: Sandbox, probe_queue: str) -> Iterator[None]:
    """No webhook of ours is called for a pod; binds meet the guard as ever."""
    with _without(sandbox, _is_on_pods, lambda: _is_labelled(sandbox, probe_queue)):
        yield


@contextmanager
def without_workload_webhooks(sandbox: Sandbox, probe_queue: str) -> Iterator[None]:
    """No webhook of ours is called for a workload; those on pods are."""
    with _without(sandbox, _is_on_workloads, lambda: _is_job_labelled(sandbox, probe_queue)):
        yield


@contextmanager
def _without(
    sandbox: Sandbox, is_taken_away: Callable[[Object], bool], is_called: Callable[[], bool]
) -> Iterator[None]:
    registered = {path: sandbox.api.get(path).must().body["webhooks"] for path in REGISTRATIONS}
    _register(
        sandbox,
        {path: [hook for hook in hooks if not is_taken_away(hook)] for path, hooks in registered.items()},
    )
    until(lambda: not is_called(), "the webhooks to be gone")
    try:
        yield
    finally:
        _register(sandbox, registered)
        until(is_called, "the webhooks to be called", seconds=120)


def _register(sandbox: Sandbox, hooks_by_path: Mapping[str, list[Object]]) -> None:
    for path, hooks in hooks_by_path.items():
        sandbox.api.patch(path, {"webhooks": hooks}).must()


def _is_on_pods(hook: Object) -> bool:
    return any(
        resource.split("/")[0] == "pods" for rule in hook["rules"] for resource in rule["resources"]
    ) and ("binding" not in json.dumps(hook["rules"]))


def _is_on_workloads(hook: Object) -> bool:
    return ".workloads." in hook["name"]


def _is_labelled(sandbox: Sandbox, queue: str) -> bool:
    """Whether a pod that is created now gets the label."""
    answer = sandbox.api.create(f"{sandbox.pods_path}?dryRun=All", pod_body("probe", queue))
    return answer.status == 201 and GATE in (answer.body["metadata"].get("labels") or {})


def _is_job_labelled(sandbox: Sandbox, queue: str) -> bool:
    """Whether a Job that is created now gets the label."""
    path = f"{JOB.path(sandbox.namespace)}?dryRun=All"
    answer = sandbox.api.create(path, work_body(JOB, "probe", queue))
    return answer.status == 201 and GATE in (answer.body["metadata"].get("labels") or {})


def unlabelled_pod(sandbox: Sandbox, name: str, queue: str = "", **more: Any) -> None:
    """A pod that no webhook of ours saw; the test's own gate keeps it from being bound."""
    body = sandbox.pod(name, queue, gated=True, **more).must(201).body
    assert GATE not in (body["metadata"].get("labels") or {})
    assert [gate["name"] for gate in body["spec"]["schedulingGates"]] == [OWN_GATE]
