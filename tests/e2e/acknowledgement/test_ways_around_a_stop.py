"""Every way around a suspended queue that its users have, and none of them is one.

One queue for all of them: a stop waits two seconds where pods are pending that only others schedule.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from localcluster.cluster import LocalCluster
from tests.support.e2e.api_requests import STRATEGIC
from tests.support.e2e.objects import (
    GATE,
    GROUPED_BY,
    NAMED_BY,
    gates,
    on_a_node,
    suspended_text,
)
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import settled, until

OTHERS_SCHEDULER = "somebody-elses"
USER = "bob@example.com"
DELETE_GATE = {"spec": {"schedulingGates": [{"name": GATE, "$patch": "delete"}]}}


@pytest.fixture(scope="module")
def sandbox(cluster: LocalCluster) -> Iterator[Sandbox]:
    """A namespace for all tests here: each gives what it makes names of its own."""
    made = Sandbox(cluster)
    found = made.first_wishes()
    yield made
    made.clear()
    left = made.wishes()
    made.close()
    assert left == found


@pytest.fixture(scope="module")
def suspended(sandbox: Sandbox) -> str:
    """A queue with pods of it from before: `foreign`, and `early` and `unseen`, which have a gate of ours."""
    name = sandbox.queue()
    sandbox.pod("foreign", name, schedulerName=OTHERS_SCHEDULER).must(201)
    for early in ("early", "unseen"):
        sandbox.pod(early, name, gated=True).must(201)
    sandbox.suspend(name)
    sandbox.user(USER, "edit")
    sandbox.may(USER, "patch", "pods")
    return name


@pytest.fixture
def queue(sandbox: Sandbox, suspended: str) -> Iterator[str]:
    """Suspended, with pods of it from before and from after: `foreign`, `early`, and a `late` for each test.

    Whatever a test has tried with them, none of them is bound at the end.
    """
    sandbox.pod("late", suspended).must(201)
    yield suspended
    sandbox.ungate(["early"])
    sandbox.reason_on("early", suspended_text(suspended))
    assert sandbox.bound(["foreign", "early", "unseen", "late"]) == set()
    sandbox.api.delete(f"{sandbox.pods_path}/late?gracePeriodSeconds=0").must()


def test_a_pod_with_a_node_name_is_refused(sandbox: Sandbox, queue: str) -> None:
    """It would run at once, and the API allows no gate on it."""
    sandbox.pod("placed", queue, nodeName="node-0").must_refuse("spec.nodeName", suspended_text(queue))


def test_a_bind_by_hand_is_refused(sandbox: Sandbox, queue: str) -> None:
    """Also by the administrator: a right to bind is no right to pass."""
    sandbox.bind("foreign").must_refuse("binds.sluice.dev", suspended_text(queue))


def test_a_bind_by_the_old_endpoint_is_refused(sandbox: Sandbox, queue: str) -> None:
    """`bindings` is still served."""
    sandbox.bind("foreign", old=True).must_refuse("binds.sluice.dev", suspended_text(queue))


def test_a_bind_of_a_gated_pod_is_refused(sandbox: Sandbox, queue: str) -> None:
    """By whomever it meets first."""
    assert sandbox.bind("late").status in (403, 409)


def test_a_scheduler_of_another_name_is_refused_its_binds(sandbox: Sandbox, queue: str) -> None:
    """A pod of that scheduler, created while the queue is suspended, bears the gate, not the marker."""
    body = sandbox.pod("foreign-late", queue, schedulerName=OTHERS_SCHEDULER).must(201).body
    assert gates(body) == [GATE]
    assert sandbox.bind("foreign-late").status in (403, 409)


def test_a_gate_cannot_be_taken_off_by_the_pods_user(sandbox: Sandbox, queue: str) -> None:
    """Taking a gate off is an update of the pod, which its user has the right to."""
    sandbox.patch_pod("late", DELETE_GATE, kind=STRATEGIC, user=USER).must_refuse(
        "cannot be removed", suspended_text(queue)
    )


@pytest.mark.parametrize("where", ["annotations", "labels"])
@pytest.mark.parametrize("value", ["elsewhere", None])
def test_the_queue_of_a_pod_cannot_be_changed_under_it(
    sandbox: Sandbox, queue: str, where: str, value: str | None
) -> None:
    """Neither as annotation nor as label, neither changed nor removed."""
    sandbox.patch_pod("late", {"metadata": {where: {GATE: value}}}).must_refuse(
        "a pod's queue cannot be changed under it", queue
    )


@pytest.mark.parametrize("where", ["annotations", "labels"])
@pytest.mark.parametrize("value", ["elsewhere", None])
def test_the_queue_of_a_pod_comes_back_if_its_status_changes_it(
    sandbox: Sandbox, queue: str, where: str, value: str | None
) -> None:
    """No user may write a status. Who may lifts no gate by it."""
    sandbox.patch_pod("late/status", {"metadata": {where: {GATE: value}}}, user=USER).must(403)
    sandbox.patch_pod("late/status", {"metadata": {where: {GATE: value}}}).must()

    def named() -> str | None:
        return (sandbox.read_pod("late")["metadata"].get(where) or {}).get(GATE)

    until(lambda: named() == queue, f"the {where} to come back")
    assert gates(sandbox.read_pod("late")) == [GATE]


@pytest.mark.parametrize("value", ["elsewhere", None])
def test_the_name_that_a_user_wrote_means_nothing_afterwards(
    sandbox: Sandbox, queue: str, value: str | None
) -> None:
    """The annotation it came with may be refused or taken; the pod is where it was, and its gate stays."""
    sandbox.patch_pod("late", {"metadata": {"annotations": {NAMED_BY: value}}}, user=USER)
    sandbox.patch_pod("late", DELETE_GATE, kind=STRATEGIC, user=USER).must_refuse(suspended_text(queue))


def test_a_pending_pod_without_a_gate_cannot_leave_its_queue(sandbox: Sandbox, queue: str) -> None:
    """Its annotation is changed before it ever reaches filter."""
    open_queue = sandbox.queue("whither")
    sandbox.patch_pod("unseen", {"metadata": {"annotations": {NAMED_BY: open_queue}}}, user=USER)
    sandbox.patch_pod("unseen", {"metadata": {"annotations": {GATE: open_queue}}}, user=USER).must_refuse(
        queue
    )
    sandbox.ungate(["unseen"])
    sandbox.reason_on("unseen", suspended_text(queue))


def test_a_pod_that_waits_for_its_podgroup_cannot_be_given_to_another(sandbox: Sandbox, queue: str) -> None:
    """Its group comes in the suspended queue; its user points it at one in an open queue."""
    sandbox.podgroup("elsewhere", sandbox.queue("open"))
    sandbox.pod("grouped", annotations={GROUPED_BY: "mine"}).must(201)
    sandbox.patch_pod("grouped", {"metadata": {"annotations": {GROUPED_BY: "elsewhere"}}}, user=USER)
    sandbox.patch_pod("grouped", DELETE_GATE, kind=STRATEGIC, user=USER)
    sandbox.podgroup("mine", queue)
    sandbox.reason_on("grouped", suspended_text(queue))


def test_a_pod_that_waits_for_its_podgroup_cannot_leave_it(sandbox: Sandbox, queue: str) -> None:
    """Its user takes the group's name away and then the gate; no membership would be left."""
    sandbox.pod("leaver", annotations={GROUPED_BY: "to-come"}).must(201)
    sandbox.patch_pod("leaver", {"metadata": {"annotations": {GROUPED_BY: None}}}, user=USER)
    sandbox.patch_pod("leaver", DELETE_GATE, kind=STRATEGIC, user=USER)
    settled(lambda: on_a_node(sandbox.read_pod("leaver")), "the pod", seconds=1)
    assert not on_a_node(sandbox.read_pod("leaver"))


def test_the_guard_cannot_be_switched_off_by_a_label(sandbox: Sandbox, queue: str) -> None:
    """Only the server may change the label of a namespace."""
    body = {"metadata": {"labels": {"sluice.dev/guard": None}}}
    sandbox.api.patch(sandbox.home, body).must_refuse("written by sluice alone")


def test_a_namesake_of_a_written_queue_is_overwritten(sandbox: Sandbox, queue: str) -> None:
    """A pod that claims an open queue by our own annotation is in the queue that it names by the rules."""
    claimed = {GATE: sandbox.queue("claimed")}
    body = sandbox.pod("claiming", queue, annotations=claimed, labels=claimed).must(201).body
    assert gates(body) == [GATE]
    assert body["metadata"]["annotations"][GATE] == body["metadata"]["labels"][GATE] == queue


def test_a_pod_of_no_queue_cannot_bear_our_gate(sandbox: Sandbox, queue: str) -> None:
    """No component would ever remove it."""
    sandbox.pod("stranger", schedulingGates=[{"name": GATE}]).must_refuse("is put on by sluice alone")


def test_the_way_is_free_after_a_resume(sandbox: Sandbox) -> None:
    """What a suspended queue refuses is allowed once it is open."""
    queue = sandbox.queue("resumed")
    sandbox.pod("freed", queue, schedulerName=OTHERS_SCHEDULER).must(201)
    sandbox.suspend(queue)
    sandbox.edit(queue, state="Open")
    sandbox.bind("freed").must(201)
    sandbox.pod("put", queue, nodeName="node-0").must(201)
    until(lambda: sandbox.bound(["freed", "put"]) == {"freed", "put"}, "both to be on a node")
