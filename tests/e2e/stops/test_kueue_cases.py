"""What Kueue's own tests assert of stop policies, as outcomes, of a Queue and its child.

K1 to K12 and K16 number those tests; K13 to K15 are about the plugin. Kueue's ClusterQueue is the parent
here, its LocalQueue the child; pending is parked; a Workload is a pod, a Job or a PodGroup. Quotas are not
enforced yet: where a case is about them, its docstring says what is left out.
"""

from __future__ import annotations

import json
from collections.abc import Collection
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
from tests.support.e2e.calling import Object
from tests.support.e2e.shapes import (
    COMPLETES,
    GROUPED_BY,
    condition,
    is_active,
    is_stopped,
    why,
)
from tests.support.e2e.stage import Stage
from tests.support.e2e.waiting_for import until
from tests.support.e2e.work import (
    DEPLOYMENT,
    JOB,
    Made,
    work_body,
)

#: Threads that let parked pods go, each at its own pace: so many pods may be out of their turn.
WRITERS = 4
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
        return f'queue "{self.child}" is stopped by stopPolicy {{}}{of}; resume it with: '


@pytest.fixture(params=[PARENT, CHILD])
def tree(stage: Stage, request: pytest.FixtureRequest) -> Tree:
    return planted(stage, stopped=request.param)


def planted(stage: Stage, *, stopped: str = PARENT) -> Tree:
    parent = stage.queue("cluster")
    child, sibling = (stage.queue(name, parent=parent) for name in ("local", "other"))
    return Tree(parent, child, sibling, parent if stopped == PARENT else child)


def held(tree: Tree, policy: str = HOLD) -> str:
    return tree.text.format(policy)


def pods_of(queue: Object) -> dict[str, int]:
    """Its counted pods that wait, and those of them that the stop keeps."""
    counted = queue["status"]["pods"]
    return {key: counted[key] for key in ("pending", "parked")}


def counts(stage: Stage, queue: str, **pods: int) -> None:
    stage.queue_that(queue, f"count {pods}", lambda found: pods_of(found) == pods)


@pytest.mark.parametrize("made", [DEPLOYMENT, JOB], ids=["Deployment", "Job"])
def test_a_workload_is_evicted_once_and_runs_again(stage: Stage, tree: Tree, made: Made) -> None:
    """K1 (the parent is stopped), K2 (the child): once by event and by metric; both run after None."""
    stage.make(made, work_body(made, "first", tree.child)).must(201)
    (pod,) = wait_for_running(stage, 1)
    before = evicted_so_far(stage)
    stage.edit(tree.stopped, stopPolicy=DRAIN)
    stage.queue_that(tree.child, "be inactive", is_stopped)
    assert stage.make(made, work_body(made, "second", tree.child)).must(201).warnings
    wait_for_drain(stage, tree.stopped, "Drained")
    wait_for_none_running(stage)
    subject, reason = ("first", "SuspendedByQueue") if made is JOB else (pod, "Evicted")
    stage.event(subject, reason, held(tree, DRAIN))
    until(lambda: len(stage.waiting()) == (1 if made is JOB else 2), "both to wait")
    assert len([event for event in stage.events(subject) if reason in event]) == 1
    stage.edit(tree.stopped, stopPolicy=NONE)
    wait_for_running(stage, 2)
    counts(stage, tree.child, pending=0, parked=0)
    assert evicted_so_far(stage) - before == 1


def test_the_highest_priorities_go_first(stage: Stage, tree: Tree) -> None:
    """K3 (the parent is held), K4 (the child): five Jobs of three priorities. Their quota is left out."""
    stage.edit(tree.stopped, stopPolicy=HOLD)
    stage.queue_that(tree.child, "be inactive", is_stopped)
    classes = priorities(stage, low=10, middle=20, high=30)
    for name in ("low-0", "middle-0", "high-0", "middle-1", "high-1"):
        body = work_body(JOB, name, tree.child, parallelism=8)
        body["spec"]["template"]["spec"]["priorityClassName"] = classes[name.partition("-")[0]]
        stage.make(JOB, body).must(201)
    counts(stage, tree.child, pending=40, parked=40)
    assert running(stage) == set()
    stage.edit(tree.stopped, stopPolicy=NONE)
    pods = wait_for_running(stage, 40)
    go_in_this_order(
        stage, *({pod for pod in pods if pod.startswith(one)} for one in ("high", "middle", "low"))
    )


def go_in_this_order(stage: Stage, *groups: Collection[str]) -> None:
    """All of the first group were bound first, then all of the next, but for a few at each end."""
    wanted = {pod for group in groups for pod in group}
    went = [bind.pod for bind in stage.binds() if bind.bound and bind.pod in wanted]
    due: set[str] = set()
    for group in groups:
        due |= set(group)
        assert len(set(went[: len(due)]) - due) <= WRITERS, went


def complete(stage: Stage, names: set[str]) -> None:
    for name in names:
        stage.patch_pod(name, {"metadata": {"annotations": {COMPLETES: "0s"}}}).must()
    until(lambda: not names & running(stage), f"{names} to end")


def test_what_came_while_it_was_held_goes_by_age_and_others_go_on_meanwhile(stage: Stage) -> None:
    """K5: who shares with a held queue is not held. That they borrow its share is left out: it is quota."""
    tree = planted(stage, stopped=CHILD)
    stage.edit(tree.child, stopPolicy=HOLD)
    old = stage.pods("old", 20, tree.child)
    last = max(pod["metadata"]["creationTimestamp"] for pod in stage.read_pods().values())
    until(lambda: time_now(stage) > last, "the next second")
    young = stage.pods("young", 20, tree.child)
    stage.all_bound(stage.pods("other", 5, tree.sibling))
    counts(stage, tree.child, pending=40, parked=40)
    stage.edit(tree.child, stopPolicy=NONE)
    stage.all_bound([*old, *young])
    go_in_this_order(stage, old, young)


def time_now(stage: Stage) -> str:
    """The API server's, as it would be written on a pod."""
    return str(stage.pod("would-be", dry=True).must(201).body["metadata"]["creationTimestamp"])


def test_the_children_of_a_parent_go_by_priority_together(stage: Stage) -> None:
    """K10: neither child waits for the other. Shares of a quota are left out: priority decides, then age."""
    tree = planted(stage)
    stage.edit(tree.parent, stopPolicy=HOLD)
    classes = priorities(stage, low=10, high=30)
    low, high = (
        [
            name
            for short, queue in (("a", tree.child), ("b", tree.sibling))
            for name in stage.pods(f"{priority}-{short}", 8, queue, priorityClassName=classes[priority])
        ]
        for priority in ("low", "high")
    )
    for queue in (tree.child, tree.sibling):
        counts(stage, queue, pending=16, parked=16)
    stage.edit(tree.parent, stopPolicy=NONE)
    stage.all_bound([*low, *high])
    go_in_this_order(stage, high, low)


def test_a_workload_that_waits_says_for_whom_and_reserves_nothing(stage: Stage, tree: Tree) -> None:
    """K6 (the child is held), K7 (the parent): on the pod and on its PodGroup, which is back to Pending."""
    stage.edit(tree.stopped, stopPolicy=HOLD)
    stage.queue_that(tree.child, "be inactive", is_stopped)
    stage.podgroup("gang", tree.child)
    stage.pod("member", annotations={GROUPED_BY: "gang"}).must(201)
    pod = stage.reason_on("member", held(tree))
    assert "nominatedNodeName" not in pod["status"]

    def says() -> bool:
        status = stage.read_podgroup("gang").get("status", {})
        wait_for_drain = condition({"status": status}, "Scheduled")
        return (
            status.get("phase") == "Pending"
            and (wait_for_drain.get("status"), wait_for_drain.get("reason")) == ("False", "Stopped")
            and held(tree) in wait_for_drain["message"]
        )

    until(says, "the PodGroup to say so")


def test_the_reason_follows_what_stops_it(stage: Stage) -> None:
    """K8: held, stopped from above, switched off by its user and on again, held, free; each is shown.

    "No quota" is left out: there is none to lack. (Who found no room on the nodes says that, held or not.)
    """
    of_child = planted(stage, stopped=CHILD)
    of_parent = of_child._replace(stopped=of_child.parent)
    stage.edit(of_child.child, stopPolicy=HOLD)
    path = f"{JOB.path(stage.namespace)}/switched"
    stage.make(JOB, work_body(JOB, "switched", of_child.child)).must(201)
    says(stage, held(of_child))
    stage.edit(of_parent.parent, stopPolicy=DRAIN)
    says(stage, held(of_parent, DRAIN))
    stage.api.patch(path, {"spec": {"suspend": True}}).must()
    counts(stage, of_child.child, pending=0, parked=0)
    stage.api.patch(path, {"spec": {"suspend": False}}).must()
    says(stage, held(of_parent, DRAIN))
    stage.edit(of_parent.parent, stopPolicy=NONE)
    says(stage, held(of_child))
    stage.edit(of_child.child, stopPolicy=NONE)
    wait_for_running(stage, 1)


def says(stage: Stage, text: str) -> None:
    """Returns once the only pod says that it waits for this."""
    until(
        lambda: [text in why(pod) for pod in stage.read_pods().values()] == [True], f"the pod to say {text}"
    )


def test_who_waits_for_the_queue_is_told_apart_from_who_waits_for_room(stage: Stage) -> None:
    """K9: by the counts, which are right again after None. Room stands for the quota, which is left out."""
    queue = stage.queue()
    stage.pod("large", queue, cpu=TOO_MUCH).must(201)
    counts(stage, queue, pending=1, parked=0)
    stage.edit(queue, stopPolicy=HOLD)
    small = stage.pods("small", 2, queue)
    counts(stage, queue, pending=3, parked=3)
    stage.edit(queue, stopPolicy=NONE)
    stage.all_bound(small)
    counts(stage, queue, pending=1, parked=0)


def test_a_job_is_suspended_and_the_same_job_runs_on(stage: Stage) -> None:
    """K11: no second object, and nothing of its spec, labels or annotations lost."""
    queue = stage.queue()
    spec: Object = {
        "parallelism": 2,
        "completions": 4,
        "completionMode": "Indexed",
        "backoffLimitPerIndex": 0,
        "activeDeadlineSeconds": 3600,
        "ttlSecondsAfterFinished": 60,
    }
    stage.make(JOB, work_body(JOB, "train", queue, **spec)).must(201)
    complete(stage, set(list(wait_for_running(stage, 2))[:1]))
    wait_for_running(stage, 2)
    (before,) = jobs(stage)
    stage.edit(queue, stopPolicy=DRAIN)
    wait_for_drain(stage, queue, "Drained")
    (during,) = jobs(stage)
    assert during["spec"] == {**before["spec"], "suspend": True}
    stage.edit(queue, stopPolicy=NONE)
    wait_for_running(stage, 2)
    (after,) = jobs(stage)
    assert identity(after) == identity(before)
    assert after["spec"] == before["spec"]
    assert (after["status"]["succeeded"], after["status"].get("failed", 0)) == (1, 0)


def jobs(stage: Stage) -> list[Object]:
    return list(stage.api.get(JOB.path(stage.namespace)).must().body["items"])


def identity(job: Object) -> dict[str, object]:
    meta = job["metadata"]
    return {key: meta.get(key) for key in ("uid", "name", "labels", "annotations", "creationTimestamp")}


def test_a_queue_has_the_policy_none_from_the_start(stage: Stage) -> None:
    """K12: where nobody named one."""
    assert stage.read_queue(stage.queue())["spec"]["stopPolicy"] == NONE


@pytest.mark.parametrize("policy", [HOLD, DRAIN, NONE])
def test_a_policy_patched_by_kubectl_shows_at_once(stage: Stage, policy: str) -> None:
    """K16: in the very next `kubectl get`, and in the condition without a further change."""
    queue = stage.queue(stopPolicy=HOLD if policy == NONE else NONE)
    patch = json.dumps({"spec": {"stopPolicy": policy}})
    assert stage.kubectl("patch", "queue", queue, "--type", "merge", "--patch", patch).returncode == 0
    header, row = (line.split() for line in stage.kubectl("get", "queue", queue).stdout.splitlines())
    assert row[header.index("STOP")] == policy
    stage.queue_that(queue, f"follow {policy}", is_active if policy == NONE else is_stopped)
