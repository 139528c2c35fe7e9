"""No user of one namespace holds up a drain: what is stuck is named, and gives its place back.

The server's limits are small here: a few hostile pods stand for the hundreds that fill the usual ones.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from localcluster.cluster import LocalCluster
from tests.conftest import end_abandoned, folder_name, start
from tests.support.drain.draining import (
    BUDGETS,
    DRAIN,
    NONE,
    budget,
    drain,
    leaving,
    running,
    wait_for_drain,
    wait_for_running,
)
from tests.support.e2e.calling import Object
from tests.support.e2e.shapes import IGNORES_SIGTERM, pod_body
from tests.support.e2e.stage import Stage
from tests.support.e2e.waiting_for import until
from tests.support.e2e.work import JOB, work_body

#: The server's limits: pods in flight, and seconds that one counts as that.
IN_FLIGHT, GRACE_LIMIT = 4, 2
#: What a pod may ask for: thirty years.
YEARS = 1_000_000_000
MANY_BUDGETS = 300
PLUGIN = Path(sys.executable).with_name("kubectl-queue")


@pytest.fixture(scope="module")
def small_limits(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    end_abandoned()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLUICE_DRAIN_IN_FLIGHT", str(IN_FLIGHT))
        patch.setenv("SLUICE_DRAIN_GRACE_LIMIT", str(GRACE_LIMIT))
        started = start(tmp_path_factory.mktemp(folder_name(), numbered=True))
    yield started
    started.stop()


@pytest.fixture
def stage(small_limits: LocalCluster) -> Iterator[Stage]:
    """Nothing of it is cleared: the cluster is of this module alone."""
    made = Stage(small_limits)
    yield made
    made.close()


@pytest.fixture
def queue(stage: Stage) -> str:
    return stage.queue()


def stubborn(stage: Stage, prefix: str, number: int, queue: str, **more: object) -> list[str]:
    """Pods that do not end when they are told to, and ask for years to do so."""
    marks = {IGNORES_SIGTERM: "true"}
    return stage.pods(prefix, number, queue, annotations=marks, terminationGracePeriodSeconds=YEARS, **more)


def blockers(queue: Object) -> list[Object]:
    return list((queue["status"].get("drain") or {}).get("blockers", ()))


def named(stage: Stage, queue: str, *words: str) -> Object:
    """The queue's first blocker that says all of this, once there is one."""

    def found() -> Object:
        held = blockers(stage.read_queue(queue))
        return next((one for one in held if all(word in str(one) for word in words)), {})

    return until(found, f"queue {queue} to name {words}")


def grace(stage: Stage, name: str) -> int:
    """The grace period that it was given to end."""
    return int(stage.read_pod(name)["metadata"]["deletionGracePeriodSeconds"])


def plugin(stage: Stage, *words: str) -> str:
    """What `kubectl queue` says."""
    kubeconfig = f"--kubeconfig={stage.cluster.client_kubeconfig}"
    command = [str(PLUGIN), *words, f"--namespace={stage.namespace}", kubeconfig]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def soon(stage: Stage) -> str:
    """A time that is to come, and does in a moment, by the API server's clock."""
    made = stage.pod("would-be", dry=True).must(201).body["metadata"]["creationTimestamp"]
    return f"{datetime.fromisoformat(made) + timedelta(seconds=3):%Y-%m-%dT%H:%M:%SZ}"


# Places in flight


def test_pods_that_ask_for_years_give_their_places_to_others_of_their_drain(stage: Stage, queue: str) -> None:
    """They fill all of the limit; they are named, with the way out, in status, condition, event and `why`."""
    stubborn(stage, "stubborn", 2, queue)
    wait_for_running(stage, 2)
    stage.patch_queue(queue, stopPolicy=DRAIN, drain={"inFlight": 2}).must()
    until(lambda: len(leaving(stage)) == 2, "the stubborn to be asked")
    stage.patch_queue(queue, stopPolicy=NONE).must()
    stage.pods("honest", 3, queue)
    wait_for_running(stage, 3, "honest")
    stage.patch_queue(queue, stopPolicy=DRAIN, drain={"inFlight": 2}).must()
    until(lambda: not running(stage, "honest"), "the honest to go")
    blocker = named(stage, queue, "stubborn-0 and 1 more of its namespace", "gracePeriodSeconds")
    assert (blocker["pods"], blocker["never"]) == (2, False)
    found = wait_for_drain(stage, queue, "Blocked", left=2, leaving=2)
    assert "stubborn-0" in str(found["status"]["conditions"])
    stage.event(queue, "DrainBlocked", "stubborn-0", "has until", namespace="default")
    stage.event("stubborn-1", "EvictionDelayed", "has until")
    assert "stubborn-0 and 1 more of its namespace" in plugin(stage, "why", "pod/stubborn-1")


def test_a_drain_does_not_wait_for_the_stubborn_pods_of_another(stage: Stage, queue: str) -> None:
    """They have filled the server's limit before it begins, and have not lost their places yet."""
    other = stage.queue("other")
    stubborn(stage, "stubborn", IN_FLIGHT, queue)
    stage.pods("honest", 3, other)
    wait_for_running(stage, IN_FLIGHT + 3)
    # For them their drain says how long they count: for ever, as far as this test goes.
    stage.patch_queue(queue, stopPolicy=DRAIN, drain={"gracePeriodSeconds": YEARS}).must()
    until(lambda: len(leaving(stage)) == IN_FLIGHT, "the stubborn to be asked")
    drain(stage, other)
    assert not running(stage, "honest")
    assert len(leaving(stage)) == IN_FLIGHT


def test_a_job_that_needs_all_of_the_limit_does_not_wait_for_stubborn_pods(stage: Stage, queue: str) -> None:
    """It is larger than the limit, so that it goes when nobody else is in flight."""
    other = stage.queue("other")
    stubborn(stage, "stubborn", 1, other)
    number = IN_FLIGHT + 2
    stage.make(JOB, work_body(JOB, "large", queue, parallelism=number, completions=number)).must(201)
    wait_for_running(stage, number + 1)
    stage.patch_queue(other, stopPolicy=DRAIN, drain={"gracePeriodSeconds": YEARS}).must()
    until(lambda: len(leaving(stage)) == 1, "the stubborn one to be asked")
    drain(stage, queue)
    assert not running(stage, "large")


# Grace periods


def test_a_deadline_that_deletes_cuts_the_grace_of_pods_that_are_terminating(
    stage: Stage, queue: str
) -> None:
    """Those that the drain has evicted and those that their user had deleted; never to nothing."""
    stubborn(stage, "evicted", 1, queue)
    stubborn(stage, "deleted", 1, queue)
    wait_for_running(stage, 2)
    stage.api.delete(f"{stage.pods_path}/deleted-0").must()
    stage.patch_queue(queue, stopPolicy=DRAIN).must()
    until(lambda: len(leaving(stage)) == 2, "both to be on their way")
    assert {grace(stage, "evicted-0"), grace(stage, "deleted-0")} == {YEARS}
    stage.patch_queue(queue, drain={"deadline": soon(stage), "afterDeadline": "Delete"}).must()
    for name in ("evicted-0", "deleted-0"):
        stage.event(name, "GracePeriodCut", "was cut to")
    wait_for_drain(stage, queue, "Drained", left=0)


def test_pods_that_are_left_at_the_deadline_are_not_given_years(stage: Stage, queue: str) -> None:
    """A budget has kept them; they are deleted with no more than the longest grace period."""
    stubborn(stage, "kept", 2, queue, labels={"app": "kept"})
    wait_for_running(stage, 2)
    budget(stage, "kept", {"app": "kept"}, minAvailable=2)
    drain(stage, queue, "Blocked")
    stage.patch_queue(queue, drain={"deadline": soon(stage), "afterDeadline": "Delete"}).must()
    wait_for_drain(stage, queue, "Drained", left=0, deleted=2)


def test_the_grace_period_of_a_drain_reaches_pods_that_their_user_has_deleted(
    stage: Stage, queue: str
) -> None:
    """With years to end, an hour before the drain began; 0 is not taken at its word."""
    stubborn(stage, "deleted", 1, queue)
    wait_for_running(stage, 1)
    stage.api.delete(f"{stage.pods_path}/deleted-0").must()
    stage.patch_queue(queue, stopPolicy=DRAIN, drain={"gracePeriodSeconds": 0}).must()
    stage.event("deleted-0", "GracePeriodCut", "was cut to 1 s")
    wait_for_drain(stage, queue, "Drained", left=0)


# Budgets


def test_hundreds_of_budgets_of_one_namespace_stop_no_drain_of_another(stage: Stage, queue: str) -> None:
    """Nor one with a selector that is longer than a request may be."""
    hostile = Stage(stage.cluster)
    for number in range(MANY_BUDGETS):
        hostile_budget(hostile, f"budget-{number}", "In", ["hostile", f"other-{number}"])
    hostile_budget(hostile, "long", "NotIn", [f"{number:06d}-{'x' * 50}" for number in range(20_000)])
    hostile.pods("hostile", 3, queue, labels={"app": "hostile"})
    wait_for_running(hostile, 3)
    other = stage.queue("other")
    stage.pods("honest", 3, other, labels={"app": "honest"})
    wait_for_running(stage, 3)
    budget(stage, "honest", {"app": "honest"}, minAvailable=0)
    stage.patch_queue(queue, stopPolicy=DRAIN).must()
    drain(stage, other)
    wait_for_drain(stage, queue, "Blocked", left=3)
    hostile.close()


def hostile_budget(stage: Stage, name: str, operator: str, values: list[str]) -> None:
    """One that lets no pod of app=hostile go."""
    selector = {"matchExpressions": [{"key": "app", "operator": operator, "values": values}]}
    body = {"metadata": {"name": name}, "spec": {"minAvailable": "100%", "selector": selector}}
    stage.api.create(BUDGETS.format(namespace=stage.namespace), body).must(201)


# Jobs


def test_a_job_that_another_controller_acts_on_is_not_suspended_but_its_pods_go(
    stage: Stage, queue: str
) -> None:
    """`spec.managedBy`: to suspend it would end none of its pods."""
    body = work_body(JOB, "foreign", queue, managedBy="example.com/nobody")
    stage.make(JOB, body).must(201)
    uid = stage.api.get(f"{JOB.path(stage.namespace)}/foreign").must().body["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "foreign", "uid": uid, "controller": True}
    pod = pod_body("part", queue)
    pod["metadata"]["ownerReferences"] = [owner]
    stage.api.create(stage.pods_path, pod).must(201)
    wait_for_running(stage, 1)
    drain(stage, queue)
    wait_for_drain(stage, queue, "Drained", evicted=1, suspended=0)
    found = stage.api.get(f"{JOB.path(stage.namespace)}/foreign").must().body
    assert not found["spec"].get("suspend")
