"""No user of one namespace holds up a drain: what is stuck is named, and gives its place back.

The server's limits are small here: a few hostile pods stand for the hundreds that fill the usual ones.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
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
    patch_with_deadline,
    running,
    wait_for_drain,
    wait_for_running,
)
from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import IGNORES_SIGTERM, pod_body
from tests.support.e2e.policies import Policies, policy
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until
from tests.support.e2e.workloads import JOB, work_body

pytestmark = pytest.mark.long

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
def sandbox(small_limits: LocalCluster) -> Iterator[Sandbox]:
    """Nothing of it is cleared: the cluster is of this module alone."""
    made = Sandbox(small_limits)
    yield made
    made.close()


@pytest.fixture
def queue(sandbox: Sandbox) -> str:
    return sandbox.queue()


def stubborn(sandbox: Sandbox, prefix: str, number: int, queue: str, **more: object) -> list[str]:
    """Pods that do not end when they are told to, and ask for years to do so."""
    marks = {IGNORES_SIGTERM: "true"}
    return sandbox.pods(prefix, number, queue, annotations=marks, terminationGracePeriodSeconds=YEARS, **more)


def blockers(queue: Object) -> list[Object]:
    return list((queue["status"].get("drain") or {}).get("blockers", ()))


def named(sandbox: Sandbox, queue: str, *words: str) -> Object:
    """The queue's first blocker that says all of this, once there is one."""

    def found() -> Object:
        held = blockers(sandbox.read_queue(queue))
        return next((one for one in held if all(word in str(one) for word in words)), {})

    return until(found, f"queue {queue} to name {words}")


def grace(sandbox: Sandbox, name: str) -> int:
    """The grace period that it was given to end."""
    return int(sandbox.read_pod(name)["metadata"]["deletionGracePeriodSeconds"])


def plugin(sandbox: Sandbox, *words: str) -> str:
    """What `kubectl queue` says."""
    kubeconfig = f"--kubeconfig={sandbox.cluster.client_kubeconfig}"
    command = [str(PLUGIN), *words, f"--namespace={sandbox.namespace}", kubeconfig]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


# Places in flight


def test_pods_that_ask_for_years_give_their_places_to_others_of_their_drain(
    sandbox: Sandbox, queue: str
) -> None:
    """They fill all of the limit; they are named, with the way out, in status, condition, event and `why`."""
    stubborn(sandbox, "stubborn", 2, queue)
    wait_for_running(sandbox, 2)
    sandbox.patch_queue(queue, stopPolicy=DRAIN, drain={"inFlight": 2}).must()
    until(lambda: len(leaving(sandbox)) == 2, "the stubborn to be asked")
    sandbox.patch_queue(queue, stopPolicy=NONE).must()
    sandbox.pods("honest", 3, queue)
    wait_for_running(sandbox, 3, "honest")
    sandbox.patch_queue(queue, stopPolicy=DRAIN, drain={"inFlight": 2}).must()
    until(lambda: not running(sandbox, "honest"), "the honest to go")
    blocker = named(sandbox, queue, "stubborn-0 and 1 more of its namespace", "gracePeriodSeconds")
    assert (blocker["pods"], blocker["never"]) == (2, False)
    found = wait_for_drain(sandbox, queue, "Blocked", left=2, leaving=2)
    assert "stubborn-0" in str(found["status"]["conditions"])
    sandbox.event(queue, "DrainBlocked", "stubborn-0", "has until", namespace="default")
    sandbox.event("stubborn-1", "EvictionDelayed", "has until")
    assert "stubborn-0 and 1 more of its namespace" in plugin(sandbox, "why", "pod/stubborn-1")


def test_pods_that_ask_for_years_keep_no_queue_from_what_it_deserves(
    sandbox: Sandbox, policies: Policies
) -> None:
    """Their owner deletes them: they count as going as long as a drain waits, then others give back."""
    policies.write(takes=policy("allocate, reclaim"))
    lab = sandbox.queue("lab", capability={"cpu": "2"}, schedulerPolicy="takes")
    own = sandbox.queue("own", parent=lab, deserved={"cpu": "1"})
    borrows = sandbox.queue("borrows", parent=lab)
    [stays] = stubborn(sandbox, "stays", 1, borrows, cpu="1")
    sandbox.pods("honest", 1, borrows, cpu="1")
    wait_for_running(sandbox, 2)
    sandbox.api.delete(f"{sandbox.pods_path}/{stays}").must()
    sandbox.pods("wanted", 1, own, cpu="1")
    wait_for_running(sandbox, 1, "wanted")
    assert not running(sandbox, "honest")


def test_a_drain_does_not_wait_for_the_stubborn_pods_of_another(sandbox: Sandbox, queue: str) -> None:
    """They have filled the server's limit before it begins, and have not lost their places yet."""
    other = sandbox.queue("other")
    stubborn(sandbox, "stubborn", IN_FLIGHT, queue)
    sandbox.pods("honest", 3, other)
    wait_for_running(sandbox, IN_FLIGHT + 3)
    # For them their drain says how long they count: for ever, as far as this test goes.
    sandbox.patch_queue(queue, stopPolicy=DRAIN, drain={"gracePeriodSeconds": YEARS}).must()
    until(lambda: len(leaving(sandbox)) == IN_FLIGHT, "the stubborn to be asked")
    drain(sandbox, other)
    assert not running(sandbox, "honest")
    assert len(leaving(sandbox)) == IN_FLIGHT


def test_a_job_that_needs_all_of_the_limit_does_not_wait_for_stubborn_pods(
    sandbox: Sandbox, queue: str
) -> None:
    """It is larger than the limit, so that it goes when nobody else is in flight."""
    other = sandbox.queue("other")
    stubborn(sandbox, "stubborn", 1, other)
    number = IN_FLIGHT + 2
    sandbox.make(JOB, work_body(JOB, "large", queue, parallelism=number, completions=number)).must(201)
    wait_for_running(sandbox, number + 1)
    sandbox.patch_queue(other, stopPolicy=DRAIN, drain={"gracePeriodSeconds": YEARS}).must()
    until(lambda: len(leaving(sandbox)) == 1, "the stubborn one to be asked")
    drain(sandbox, queue)
    assert not running(sandbox, "large")


# Grace periods


def test_a_deadline_that_deletes_cuts_the_grace_of_pods_that_are_terminating(
    sandbox: Sandbox, queue: str
) -> None:
    """Those that the drain has evicted and those that their user had deleted; never to nothing."""
    stubborn(sandbox, "evicted", 1, queue)
    stubborn(sandbox, "deleted", 1, queue)
    wait_for_running(sandbox, 2)
    sandbox.api.delete(f"{sandbox.pods_path}/deleted-0").must()
    sandbox.patch_queue(queue, stopPolicy=DRAIN).must()
    until(lambda: len(leaving(sandbox)) == 2, "both to be on their way")
    assert {grace(sandbox, "evicted-0"), grace(sandbox, "deleted-0")} == {YEARS}
    patch_with_deadline(sandbox, queue, seconds=3, afterDeadline="Delete")
    for name in ("evicted-0", "deleted-0"):
        sandbox.event(name, "GracePeriodCut", "was cut to")
    wait_for_drain(sandbox, queue, "Drained", left=0)


def test_pods_that_are_left_at_the_deadline_are_not_given_years(sandbox: Sandbox, queue: str) -> None:
    """A budget has kept them; they are deleted with no more than the longest grace period."""
    stubborn(sandbox, "kept", 2, queue, labels={"app": "kept"})
    wait_for_running(sandbox, 2)
    budget(sandbox, "kept", {"app": "kept"}, minAvailable=2)
    drain(sandbox, queue, "Blocked")
    patch_with_deadline(sandbox, queue, seconds=3, afterDeadline="Delete")
    wait_for_drain(sandbox, queue, "Drained", left=0, deleted=2)


def test_the_grace_period_of_a_drain_reaches_pods_that_their_user_has_deleted(
    sandbox: Sandbox, queue: str
) -> None:
    """With years to end, an hour before the drain began; 0 is not taken at its word."""
    stubborn(sandbox, "deleted", 1, queue)
    wait_for_running(sandbox, 1)
    sandbox.api.delete(f"{sandbox.pods_path}/deleted-0").must()
    sandbox.patch_queue(queue, stopPolicy=DRAIN, drain={"gracePeriodSeconds": 0}).must()
    sandbox.event("deleted-0", "GracePeriodCut", "was cut to 1 s")
    wait_for_drain(sandbox, queue, "Drained", left=0)


# Budgets


def test_hundreds_of_budgets_of_one_namespace_stop_no_drain_of_another(sandbox: Sandbox, queue: str) -> None:
    """Nor one with a selector that is longer than a request may be."""
    hostile = Sandbox(sandbox.cluster)
    for number in range(MANY_BUDGETS):
        hostile_budget(hostile, f"budget-{number}", "In", ["hostile", f"other-{number}"])
    hostile_budget(hostile, "long", "NotIn", [f"{number:06d}-{'x' * 50}" for number in range(20_000)])
    hostile.pods("hostile", 3, queue, labels={"app": "hostile"})
    wait_for_running(hostile, 3)
    other = sandbox.queue("other")
    sandbox.pods("honest", 3, other, labels={"app": "honest"})
    wait_for_running(sandbox, 3)
    budget(sandbox, "honest", {"app": "honest"}, minAvailable=0)
    sandbox.patch_queue(queue, stopPolicy=DRAIN).must()
    drain(sandbox, other)
    wait_for_drain(sandbox, queue, "Blocked", left=3)
    hostile.close()


def hostile_budget(sandbox: Sandbox, name: str, operator: str, values: list[str]) -> None:
    """One that lets no pod of app=hostile go."""
    selector = {"matchExpressions": [{"key": "app", "operator": operator, "values": values}]}
    body = {"metadata": {"name": name}, "spec": {"minAvailable": "100%", "selector": selector}}
    sandbox.api.create(BUDGETS.format(namespace=sandbox.namespace), body).must(201)


# Jobs


def test_a_job_that_another_controller_acts_on_is_not_suspended_but_its_pods_go(
    sandbox: Sandbox, queue: str
) -> None:
    """`spec.managedBy`: to suspend it would end none of its pods."""
    body = work_body(JOB, "foreign", queue, managedBy="example.com/nobody")
    sandbox.make(JOB, body).must(201)
    uid = sandbox.api.get(f"{JOB.path(sandbox.namespace)}/foreign").must().body["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "foreign", "uid": uid, "controller": True}
    pod = pod_body("part", queue)
    pod["metadata"]["ownerReferences"] = [owner]
    sandbox.api.create(sandbox.pods_path, pod).must(201)
    wait_for_running(sandbox, 1)
    drain(sandbox, queue)
    wait_for_drain(sandbox, queue, "Drained", evicted=1, suspended=0)
    found = sandbox.api.get(f"{JOB.path(sandbox.namespace)}/foreign").must().body
    assert not found["spec"].get("suspend")
