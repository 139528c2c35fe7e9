"""Helpers of the e2e tests of drains: make budgets, drain queues, and wait for what comes of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import IGNORES_SIGTERM, condition
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until
from tests.support.faults.slow_webhook import SlowWebhook

HOLD, DRAIN, NONE = ("Hold", "HoldAndDrain", "None")
#: A finalizer of the test's own: the pod that bears it leaves only when the test takes it off.
SLOW = "tests.sluice.dev/slow"
#: Seconds. A pod with a finalizer and without grace loses its place in flight after ten.
LONG_GRACE = 300
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
BUDGETS = "/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"


def budget(sandbox: Sandbox, name: str, labels: dict[str, str], **spec: object) -> str:
    """A PodDisruptionBudget on pods with these labels, once its status is worked out."""
    path = BUDGETS.format(namespace=sandbox.namespace)
    body = {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, **spec}}
    sandbox.api.create(path, body).must(201)
    return f"{path}/{name}"


def wait_for_allowed(sandbox: Sandbox, path: str, number: int) -> None:
    """Returns once the budget allows so many to go."""

    def is_allowed() -> bool:
        status = sandbox.api.get(path).must().body.get("status", {})
        return bool(status.get("observedGeneration", 0) >= 1 and status.get("disruptionsAllowed") == number)

    until(is_allowed, f"{path} to allow {number}")


def drained_reason(queue: Object) -> tuple[str, str]:
    """Status and reason of condition Drained; empty where it has none."""
    drained = condition(queue, "Drained")
    return (drained["status"], drained["reason"]) if drained else ("", "")


def drain(sandbox: Sandbox, queue: str, reason: str = "Drained", **spec: object) -> Object:
    """Drain the queue; returns it once condition Drained has that reason."""
    sandbox.patch_queue(queue, stopPolicy=DRAIN, **spec).must()
    return wait_for_drain(sandbox, queue, reason)


def wait_for_drain(sandbox: Sandbox, queue: str, reason: str, **counts: int) -> Object:
    """Returns the queue once condition Drained has that reason, and `status.drain` these counts."""

    def is_reached(queue: Object) -> bool:
        generation = queue["metadata"]["generation"]
        drained = condition(queue, "Drained") or {}
        status = queue["status"].get("drain") or {}
        return (
            drained.get("reason") == reason
            and drained.get("observedGeneration") == generation
            and all(status.get(key) == value for key, value in counts.items())
        )

    return sandbox.queue_that(queue, f"be {reason} {counts or ''}", is_reached)


def patch_with_deadline(sandbox: Sandbox, queue: str, *, seconds: float, **drain: object) -> None:
    """Patch `spec.drain` with a deadline that passes in so many seconds or a little sooner.

    One that has passed before the API server has the patch is refused, and a new one is sent.
    """

    def is_taken() -> bool:
        deadline = _api_server_time(sandbox) + timedelta(seconds=seconds)
        wishes = {**drain, "deadline": f"{deadline:%Y-%m-%dT%H:%M:%SZ}"}
        answer = sandbox.patch_queue(queue, drain=wishes)
        if answer.status != 200:
            answer.must_refuse("spec.drain.deadline", "is in the past")
        return answer.status == 200

    until(is_taken, "a deadline that is still to come to be taken")


def _api_server_time(sandbox: Sandbox) -> datetime:
    """By the second, as it would be written on a pod."""
    made = sandbox.pod("would-be", dry=True).must(201).body
    return datetime.fromisoformat(made["metadata"]["creationTimestamp"])


def counts(queue: Object) -> dict[str, Any]:
    """`status.drain` without its time and texts."""
    status = queue["status"]["drain"]
    return {key: value for key, value in status.items() if key not in {"since", "blockers"} and value}


def running(sandbox: Sandbox, prefix: str = "") -> set[str]:
    """The running pods that are not being deleted, by name."""
    return {name for name, pod in sandbox.read_pods().items() if name.startswith(prefix) and _runs(pod)}


def _runs(pod: Object) -> bool:
    return bool(
        pod["spec"].get("nodeName")
        and pod["status"]["phase"] == "Running"
        and "deletionTimestamp" not in pod["metadata"]
    )


def wait_for_running(sandbox: Sandbox, number: int, prefix: str = "") -> set[str]:
    """Returns the pods once so many of them run and are ready."""

    def ready() -> set[str]:
        pods = sandbox.read_pods()
        names = {name for name, pod in pods.items() if name.startswith(prefix) and _runs(pod)}
        return names if len(names) == number and all(_is_ready(pods[name]) for name in names) else set()

    return until(ready, f"{number} pods {prefix} to run")


def wait_for_none_running(sandbox: Sandbox, prefix: str = "") -> None:
    until(lambda: not running(sandbox, prefix), f"no pod {prefix} to run")


def _is_ready(pod: Object) -> bool:
    return any(
        one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", ())
    )


def evictions(sandbox: Sandbox, names: Iterable[str]) -> list[str]:
    """The events `Evicted` on these pods."""
    events = []
    for name in names:
        with contextlib.suppress(AssertionError):
            events += [event for event in sandbox.events(name) if " Evicted: " in event]
    return events


def wait_for_eviction_webhook(sandbox: Sandbox, webhook: SlowWebhook) -> None:
    """Returns once the API server asks the webhook about the evictions of this namespace."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "would-be"}}
    path = f"{sandbox.pods_path}/would-be/eviction?dryRun=All"
    until(lambda: webhook.is_known(lambda: sandbox.api.create(path, body)), "the webhook to be known")


def leaving(sandbox: Sandbox) -> set[str]:
    """The pods that are being deleted, by name."""
    return {name for name, pod in sandbox.read_pods().items() if "deletionTimestamp" in pod["metadata"]}


def slow_pods(sandbox: Sandbox, prefix: str, number: int, queue: str) -> list[str]:
    """Pods that leave only when the test ends them (`end_pods`): minutes pass before a drain gives up their
    places in flight.
    """
    marks = {IGNORES_SIGTERM: "true"}
    return sandbox.pods(prefix, number, queue, annotations=marks, terminationGracePeriodSeconds=LONG_GRACE)


def end_pods(sandbox: Sandbox, *names: str) -> None:
    """Delete these pods at once, whatever their grace periods are."""
    for name in names:
        sandbox.api.delete(f"{sandbox.pods_path}/{name}?gracePeriodSeconds=0").must(200, 404)


def remove_finalizers(sandbox: Sandbox, *names: str) -> None:
    """Remove the finalizers of these pods: those that are being deleted go."""
    for name in names:
        sandbox.patch_pod(name, {"metadata": {"finalizers": None}}).must(200, 404)


def evicted_so_far(sandbox: Sandbox, how: str = '[^"]*') -> float:
    """Metrics `sluice_pod_evictions` (`how`: Evict, Delete) and `sluice_workload_suspensions`."""
    return sandbox.counted(rf'sluice_(?:pod_evictions|workload_suspensions)_total{{how="{how}",[^}}]*}}')


def priorities(sandbox: Sandbox, **values: int) -> dict[str, str]:
    """Makes priority classes of these values; returns their names once pods may use them."""
    bodies = {short: {"metadata": {"name": sandbox.named(short)}, "value": values[short]} for short in values}
    names = {short: sandbox.create(CLASSES, body)["metadata"]["name"] for short, body in bodies.items()}

    def is_known(name: str) -> bool:
        return sandbox.pod("would-be", priorityClassName=name, dry=True).status == 201

    for name in names.values():
        until(partial(is_known, name), f"priority class {name} to be known")
    return names
