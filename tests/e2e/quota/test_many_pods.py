"""A quota that is edited while thousands of pods are there: nothing is lost, and nobody else is held up."""

from __future__ import annotations

import os

import pytest

from tests.support.e2e.objects import condition, gates, pod_body
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until

pytestmark = pytest.mark.long

#: What a control plane takes in half a minute; WAITING=5000 takes two and a half.
WAITING = int(os.environ.get("WAITING") or 1500)
#: A hundred thousand are shown as a function: `tests/queues/quota/test_waiting_index.py`.
RUNNING = 999
QUOTA_GATE = "sluice.dev/quota"


def unreleased(sandbox: Sandbox) -> int:
    return sum(QUOTA_GATE in gates(read) for read in sandbox.read_pods().values())


def test_a_capability_that_goes_lets_thousands_go_while_others_are_released_beside_them(
    sandbox: Sandbox,
) -> None:
    """They have a gate of the test's own besides: their binds would be kube-scheduler's work."""
    queue = sandbox.queue("many", capability={"pods": "0"})
    other = sandbox.queue("other", capability={"pods": "1"})
    sandbox.pods("many", WAITING, queue, gated=True)
    sandbox.queue_that(queue, "count them", lambda read: read["status"]["quota"]["waiting"] == WAITING)
    [warning] = sandbox.patch_queue(queue, capability=None).must().warnings
    assert warning.startswith(f'no capability limits queue "{queue}" any more: ')
    assert str(WAITING) in warning
    sandbox.pod("passing", other).must(201)
    until(lambda: sandbox.read_pod("passing")["spec"].get("nodeName"), "the pod of another queue to go")
    assert unreleased(sandbox) > 0, "it has waited for all of them"
    until(lambda: unreleased(sandbox) == 0, "all to be let go")


def test_a_capability_of_root_below_what_runs_ends_nothing_and_says_so(sandbox: Sandbox) -> None:
    """Pods of no queue go on; those of queues wait until enough has ended."""
    queue = sandbox.queue()
    nodes = [each["metadata"]["name"] for each in sandbox.api.get("/api/v1/nodes").must().body["items"]]
    names = [f"runs-{number}" for number in range(RUNNING)]
    sandbox.flood(
        pod_body(name, queue, nodeName=nodes[number % len(nodes)]) for number, name in enumerate(names)
    )
    sandbox.queue_that(queue, "count them", lambda read: read["status"]["pods"]["running"] == RUNNING)
    try:
        [warning] = sandbox.patch_queue("root", capability={"pods": str(RUNNING - 1)}).must().warnings
        assert warning.startswith(f'queue "root" uses pods {RUNNING} of {RUNNING - 1}: nothing is evicted')
        # Before that a pod may be created without the gate, and filter does not name the queue.
        sandbox.queue_that(
            "root", "say so", lambda read: condition(read, "QuotaEnforced").get("reason") == "OverCapability"
        )
        sandbox.pod("waits", queue).must(201)
        sandbox.reason_on("waits", 'the capability of its ancestor "root" is used')
        sandbox.pod("of-no-queue").must(201)
        sandbox.all_bound(["of-no-queue"])
        assert sandbox.bound(names) == set(names)
        for name in names[:2]:
            sandbox.api.delete(f"{sandbox.pods_path}/{name}").must(200)
        sandbox.all_bound(["waits"])
    finally:
        sandbox.patch_queue("root", capability=None).must()
    sandbox.queue_that("root", "have no quota", lambda read: "quota" not in read["status"])
