"""Pods for which their scheduling policy has no action: they say so, and are tried again at once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.e2e.objects import on_a_node, why
from tests.support.e2e.policies import Policies, policy
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import PATIENCE, until

SMALL, LARGE = policy("enqueue, backfill"), policy("enqueue, allocate")

Change = Callable[[Sandbox, Policies, str], object]


def waits(sandbox: Sandbox, name: str, queue: str, text: str, *, cpu: str = "") -> None:
    """Create the pod; returns once it says why it waits, as its event does."""
    assert sandbox.pod(name, queue, cpu=cpu).status == 201
    sandbox.reason_on(name, text)
    sandbox.event(name, text)


def goes(sandbox: Sandbox, name: str) -> None:
    """kube-scheduler retries pods that an extender refused only after five minutes, where nothing else
    changes: so what is bound within `PATIENCE` was retried for the change.
    """
    until(lambda: on_a_node(sandbox.read_pod(name)), f"{name} to be bound", seconds=PATIENCE)


CHANGES: dict[str, Change] = {
    "the policy gets the action": lambda _sandbox, policies, _queue: policies.write(
        small=policy("allocate, backfill")
    ),
    "the policy is gone": lambda _sandbox, policies, _queue: policies.write(),
    "the ConfigMap is gone": lambda _sandbox, policies, _queue: policies.remove(),
    "the queue names another one": lambda sandbox, _policies, queue: sandbox.edit(
        queue, schedulerPolicy="large"
    ),
    "the queue moves to another parent": lambda sandbox, _policies, queue: sandbox.edit(
        queue, schedulerPolicy=None, parent=sandbox.named("open")
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_refused_pod_goes_at_once_when_its_policy_lets_it(
    sandbox: Sandbox, policies: Policies, change: Change
) -> None:
    policies.write(small=SMALL, large=LARGE)
    sandbox.queue("open")
    above = sandbox.queue("above", schedulerPolicy="small")
    queue = sandbox.queue(parent=above)
    text = (
        f'queue "{queue}" schedules no pods with resource requests: policy "small" of its ancestor "{above}" '
        "has no action allocate; add the action to the policy, or name another policy"
    )
    waits(sandbox, "large", queue, text, cpu="1")
    assert sandbox.pod("empty", queue).status == 201
    goes(sandbox, "empty")
    assert not on_a_node(sandbox.read_pod("large"))
    change(sandbox, policies, queue)
    goes(sandbox, "large")


def test_a_pod_without_requests_needs_backfill_unless_its_job_names_another_policy(
    sandbox: Sandbox, policies: Policies
) -> None:
    """Also where the policy is the global one. Our own markers are no requests."""
    queue = sandbox.queue()
    policies.write(LARGE, both=policy("allocate, backfill"))
    waits(
        sandbox,
        "empty",
        queue,
        f'queue "{queue}" schedules no pods without resource requests: the global policy '
        '"volcano-scheduler.conf" has no action backfill',
    )
    assert sandbox.pod("large", queue, cpu="1").status == 201
    assert sandbox.pod("own", queue, annotations={"volcano.sh/scheduler-policy": "both"}).status == 201
    assert sandbox.pod("stray").status == 201
    for name in ("large", "own", "stray"):
        goes(sandbox, name)
    assert "has no action backfill" in why(sandbox.read_pod("empty"))
