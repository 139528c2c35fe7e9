"""What Kueue's own tests assert of stop policies, as outcomes, of a Queue and its child.

K1 to K12 and K16 number those tests; K13 to K15 are about the plugin. Kueue's ClusterQueue is the parent
here, its LocalQueue the child; pending is parked; a Workload is a pod, a Job or a PodGroup. Quotas are not
enforced yet: where a case is about them, its docstring says what is left out.
"""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest

from tests.support.drain.draining import (
    DRAIN,
    HOLD,
    NONE,
    evicted_so_far,
    priorities,
    running,
    wait_for_drain,
    wait_for_none_running,
    wait_for_running,
)
from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import (
    COMPLETES,
    GROUPED_BY,
    condition,
    is_active,
    is_stopped,
    why,
)
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.ungating_order import assert_ungated_in_order, pods_version
from tests.support.e2e.wait import until
from tests.support.e2e.workloads import (
    DEPLOYMENT,
    JOB,
    WorkloadKind,
    work_body,
)

#: More than any node has.
TOO_MUCH = "100"
PARENT, CHILD = "the parent", "the child"


class Tree(NamedTuple):
    """A parent, its two children, and which of parent and first child is the one to be stopped."""

    parent: str
    child: str
    sibling: str
    stopped: str

    @property
    def text(self) -> str:
        """What a held pod of the child says."""
        of = f' of its ancestor "{self.parent}"' if self.stopped == self.parent else ""
        return f'queue "{self.child}" is stopped by stopPolicy {{}}{of}; an admin of queues can resume '


@pytest.fixture(params=[PARENT, CHILD])
def tree(sandbox: Sandbox, request: pytest.FixtureRequest) -> Tree:
    return planted(sandbox, stopped=request.param)


def planted(sandbox: Sandbox, *, stopped: str = PARENT) -> Tree:
    parent = sandbox.queue("cluster")
    child, sibling = (sandbox.queue(name, parent=parent) for name in ("local", "other"))
    return Tree(parent, child, sibling, parent if stopped == PARENT else child)


def held(tree: Tree, policy: str = HOLD) -> str:
    return tree.text.format(policy)


def pods_of(queue: Object) -> dict[str, int]:
    """Its counted pods that wait, and those of them that the stop keeps."""
    counted = queue["status"]["pods"]
    return {key: counted[key] for key in ("pending", "parked")}


def counts(sandbox: Sandbox, queue: str, **pods: int) -> None:
    sandbox.queue_that(queue, f"count {pods}", lambda found: pods_of(found) == pods)


@pytest.mark.parametrize(
    ("stopped", "made"), [(PARENT, DEPLOYMENT), (CHILD, JOB)], ids=["K1, a Deployment", "K2, a Job"]
)
def test_a_workload_is_evicted_once_and_runs_again(
    sandbox: Sandbox, stopped: str, made: WorkloadKind
) -> None:
    """K1 (the parent is stopped), K2 (the child): once by event and by metric; both run after None.

    How pods of each kind go does not depend on who asks for it: `tests/controller/drain`.
    """
    tree = planted(sandbox, stopped=stopped)
    sandbox.make(made, work_body(made, "first", tree.child)).must(201)
    (pod,) = wait_for_running(sandbox, 1)
    before = evicted_so_far(sandbox)
    sandbox.edit(tree.stopped, stopPolicy=DRAIN)
    sandbox.queue_that(tree.child, "be inactive", is_stopped)
    assert sandbox.make(made, work_body(made, "second", tree.child)).must(201).warnings
    wait_for_drain(sandbox, tree.stopped, "Drained")
    wait_for_none_running(sandbox)
    subject, reason = ("first", "SuspendedByQueue") if made is JOB else (pod, "Evicted")
    sandbox.event(subject, reason, held(tree, DRAIN))
    until(lambda: len(sandbox.waiting()) == (1 if made is JOB else 2), "both to wait")
    assert len([event for event in sandbox.events(subject) if reason in event]) == 1
    sandbox.edit(tree.stopped, stopPolicy=NONE)
    wait_for_running(sandbox, 2)
    counts(sandbox, tree.child, pending=0, parked=0)
    assert evicted_so_far(sandbox) - before == 1


def test_the_highest_priorities_go_first(sandbox: Sandbox, tree: Tree) -> None:
    """K3 (the parent is held), K4 (the child): five Jobs of three priorities. Their quota is left out."""
    sandbox.edit(tree.stopped, stopPolicy=HOLD)
    sandbox.queue_that(tree.child, "be inactive", is_stopped)
    classes = priorities(sandbox, low=10, middle=20, high=30)
    pods_each = 8 if tree.stopped == tree.parent else 2  # many are tried once
    for name in ("low-0", "middle-0", "high-0", "middle-1", "high-1"):
        body = work_body(JOB, name, tree.child, parallelism=pods_each)
        body["spec"]["template"]["spec"]["priorityClassName"] = classes[name.partition("-")[0]]
        sandbox.make(JOB, body).must(201)
    counts(sandbox, tree.child, pending=5 * pods_each, parked=5 * pods_each)
    assert running(sandbox) == set()
    pods, since = sandbox.read_pods(), pods_version(sandbox)
    sandbox.edit(tree.stopped, stopPolicy=NONE)
    by_class = ({pod for pod in pods if pod.startswith(each)} for each in ("high", "middle", "low"))
    assert_ungated_in_order(sandbox, since, *by_class)
    wait_for_running(sandbox, 5 * pods_each)


def complete(sandbox: Sandbox, names: set[str]) -> None:
    for name in names:
        sandbox.patch_pod(name, {"metadata": {"annotations": {COMPLETES: "0s"}}}).must()
    until(lambda: not names & running(sandbox), f"{names} to end")


def test_what_came_while_it_was_held_goes_by_age_and_others_go_on_meanwhile(sandbox: Sandbox) -> None:
    """K5: who shares with a held queue is not held. That they borrow its share is left out: it is quota."""
    tree = planted(sandbox, stopped=CHILD)
    sandbox.edit(tree.child, stopPolicy=HOLD)
    old = sandbox.pods("old", 20, tree.child)
    last = max(pod["metadata"]["creationTimestamp"] for pod in sandbox.read_pods().values())
    until(lambda: time_now(sandbox) > last, "the next second")
    young = sandbox.pods("young", 20, tree.child)
    sandbox.all_bound(sandbox.pods("other", 5, tree.sibling))
    counts(sandbox, tree.child, pending=40, parked=40)
    since = pods_version(sandbox)
    sandbox.edit(tree.child, stopPolicy=NONE)
    assert_ungated_in_order(sandbox, since, old, young)


def time_now(sandbox: Sandbox) -> str:
    """The API server's, as it would be written on a pod."""
    return str(sandbox.pod("would-be", dry=True).must(201).body["metadata"]["creationTimestamp"])


def test_the_children_of_a_parent_go_by_priority_together(sandbox: Sandbox) -> None:
    """K10: neither child waits for the other. Shares of a quota are left out: priority decides, then age."""
    tree = planted(sandbox)
    sandbox.edit(tree.parent, stopPolicy=HOLD)
    classes = priorities(sandbox, low=10, high=30)
    low, high = (
        [
            name
            for short, queue in (("a", tree.child), ("b", tree.sibling))
            for name in sandbox.pods(f"{priority}-{short}", 8, queue, priorityClassName=classes[priority])
        ]
        for priority in ("low", "high")
    )
    for queue in (tree.child, tree.sibling):
        counts(sandbox, queue, pending=16, parked=16)
    since = pods_version(sandbox)
    sandbox.edit(tree.parent, stopPolicy=NONE)
    assert_ungated_in_order(sandbox, since, high, low)


def test_a_workload_that_waits_says_for_whom_and_reserves_nothing(sandbox: Sandbox, tree: Tree) -> None:
    """K6 (the child is held), K7 (the parent): on the pod and on its PodGroup, which is back to Pending."""
    sandbox.edit(tree.stopped, stopPolicy=HOLD)
    sandbox.queue_that(tree.child, "be inactive", is_stopped)
    sandbox.podgroup("gang", tree.child)
    sandbox.pod("member", annotations={GROUPED_BY: "gang"}).must(201)
    pod = sandbox.reason_on("member", held(tree))
    assert "nominatedNodeName" not in pod["status"]

    def says() -> bool:
        status = sandbox.read_podgroup("gang").get("status", {})
        wait_for_drain = condition({"status": status}, "Scheduled")
        return (
            status.get("phase") == "Pending"
            and (wait_for_drain.get("status"), wait_for_drain.get("reason")) == ("False", "Stopped")
            and held(tree) in wait_for_drain["message"]
        )

    until(says, "the PodGroup to say so")


def test_the_reason_follows_what_stops_it(sandbox: Sandbox) -> None:
    """K8: held, stopped from above, switched off by its user and on again, held, free; each is shown.

    "No quota" is left out: there is none to lack. (Who found no room on the nodes says that, held or not.)
    """
    of_child = planted(sandbox, stopped=CHILD)
    of_parent = of_child._replace(stopped=of_child.parent)
    sandbox.edit(of_child.child, stopPolicy=HOLD)
    path = f"{JOB.path(sandbox.namespace)}/switched"
    sandbox.make(JOB, work_body(JOB, "switched", of_child.child)).must(201)
    says(sandbox, held(of_child))
    sandbox.edit(of_parent.parent, stopPolicy=DRAIN)
    says(sandbox, held(of_parent, DRAIN))
    sandbox.api.patch(path, {"spec": {"suspend": True}}).must()
    counts(sandbox, of_child.child, pending=0, parked=0)
    sandbox.api.patch(path, {"spec": {"suspend": False}}).must()
    says(sandbox, held(of_parent, DRAIN))
    sandbox.edit(of_parent.parent, stopPolicy=NONE)
    says(sandbox, held(of_child))
    sandbox.edit(of_child.child, stopPolicy=NONE)
    wait_for_running(sandbox, 1)


def says(sandbox: Sandbox, text: str) -> None:
    """Returns once the only pod says that it waits for this."""
    until(
        lambda: [text in why(pod) for pod in sandbox.read_pods().values()] == [True], f"the pod to say {text}"
    )


def test_who_waits_for_the_queue_is_told_apart_from_who_waits_for_room(sandbox: Sandbox) -> None:
    """K9: by the counts, which are right again after None. Room stands for the quota, which is left out."""
    queue = sandbox.queue()
    sandbox.pod("large", queue, cpu=TOO_MUCH).must(201)
    counts(sandbox, queue, pending=1, parked=0)
    sandbox.edit(queue, stopPolicy=HOLD)
    small = sandbox.pods("small", 2, queue)
    counts(sandbox, queue, pending=3, parked=3)
    sandbox.edit(queue, stopPolicy=NONE)
    sandbox.all_bound(small)
    counts(sandbox, queue, pending=1, parked=0)


def test_a_job_is_suspended_and_the_same_job_runs_on(sandbox: Sandbox) -> None:
    """K11: no second object, and nothing of its spec, labels or annotations lost."""
    queue = sandbox.queue()
    spec: Object = {
        "parallelism": 2,
        "completions": 4,
        "completionMode": "Indexed",
        "backoffLimitPerIndex": 0,
        "activeDeadlineSeconds": 3600,
        "ttlSecondsAfterFinished": 60,
    }
    sandbox.make(JOB, work_body(JOB, "train", queue, **spec)).must(201)
    complete(sandbox, set(list(wait_for_running(sandbox, 2))[:1]))
    wait_for_running(sandbox, 2)
    (before,) = jobs(sandbox)
    sandbox.edit(queue, stopPolicy=DRAIN)
    wait_for_drain(sandbox, queue, "Drained")
    (during,) = jobs(sandbox)
    assert during["spec"] == {**before["spec"], "suspend": True}
    sandbox.edit(queue, stopPolicy=NONE)
    wait_for_running(sandbox, 2)
    (after,) = jobs(sandbox)
    assert identity(after) == identity(before)
    assert after["spec"] == before["spec"]
    assert (after["status"]["succeeded"], after["status"].get("failed", 0)) == (1, 0)


def jobs(sandbox: Sandbox) -> list[Object]:
    return list(sandbox.api.get(JOB.path(sandbox.namespace)).must().body["items"])


def identity(job: Object) -> dict[str, object]:
    meta = job["metadata"]
    return {key: meta.get(key) for key in ("uid", "name", "labels", "annotations", "creationTimestamp")}


def test_a_queue_has_the_policy_none_from_the_start(sandbox: Sandbox) -> None:
    """K12: a queue whose spec names no policy."""
    assert sandbox.read_queue(sandbox.queue())["spec"]["stopPolicy"] == NONE


@pytest.mark.parametrize("policy", [HOLD, DRAIN, NONE])
def test_a_policy_patched_by_kubectl_shows_at_once(sandbox: Sandbox, policy: str) -> None:
    """K16: in the very next `kubectl get`, and in the condition without a further change."""
    queue = sandbox.queue(stopPolicy=HOLD if policy == NONE else NONE)
    patch = json.dumps({"spec": {"stopPolicy": policy}})
    assert sandbox.kubectl("patch", "queue", queue, "--type", "merge", "--patch", patch).returncode == 0
    header, row = (line.split() for line in sandbox.kubectl("get", "queue", queue).stdout.splitlines())
    assert row[header.index("STOP")] == policy
    sandbox.queue_that(queue, f"follow {policy}", is_active if policy == NONE else is_stopped)
