"""A queue's capability on a control plane: what has no room waits and says why, and goes when others end."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from queues.apimachinery.timestamps import rfc3339
from queues.well_known import FORCE_DELETED_ENDED
from tests.support.e2e.api_requests import Answer, Object
from tests.support.e2e.modes import make_room, wait_for_room
from tests.support.e2e.objects import condition, gates, on_a_node, suspended_text
from tests.support.e2e.sandbox import QUEUES, Sandbox
from tests.support.e2e.wait import settled, until
from tests.support.quota.capability_watch import CapabilityWatch

QUOTA_GATE = "sluice.dev/quota"


def running(sandbox: Sandbox, names: list[str]) -> list[str]:
    return [name for name in names if on_a_node(sandbox.read_pod(name))]


def test_two_of_five_pods_run_and_the_next_goes_when_one_ends(sandbox: Sandbox) -> None:
    queue = sandbox.queue(capability={"cpu": "2"})
    names = sandbox.pods("work", 5, queue, cpu="1")
    until(lambda: len(running(sandbox, names)) == 2, "two pods to run")
    waiting = [name for name in names if name not in running(sandbox, names)]
    text = (
        f'queue "{queue}" has no room for this pod now: its capability is used; '
        "it goes when others end, or an admin of queues raises it"
    )
    for name in waiting:
        assert gates(sandbox.reason_on(name, text)) == [QUOTA_GATE]
    sandbox.api.delete(f"{sandbox.pods_path}/{running(sandbox, names)[0]}").must(200)
    until(lambda: len(running(sandbox, waiting)) == 1, "the next pod to run")
    assert settled(lambda: len(running(sandbox, waiting)), "the pods") == 1


def test_a_pod_that_is_deleted_by_force_counts_on_for_its_grace_period(sandbox: Sandbox) -> None:
    queue = sandbox.queue(capability={"pods": "1"})
    sandbox.pod("first", queue, terminationGracePeriodSeconds=4).must(201)
    until(lambda: running(sandbox, ["first"]), "the first pod to run")
    sandbox.pod("next", queue).must(201)
    sandbox.reason_on("next", "room for this pod")
    began = time.monotonic()
    sandbox.api.delete(f"{sandbox.pods_path}/first?gracePeriodSeconds=0").must(200)
    sandbox.api.get(f"{sandbox.pods_path}/first").must(404)
    until(
        lambda: sandbox.read_queue(queue)["status"]["quota"].get("forceDeleted") == {"pods": "1"},
        "the status to say that it counts",
    )
    until(lambda: running(sandbox, ["next"]), "the next pod to run")
    assert time.monotonic() - began >= 4
    until(
        lambda: "forceDeleted" not in sandbox.read_queue(queue)["status"]["quota"],
        "the status to say that it counts no longer",
    )


def test_an_admin_says_that_what_was_deleted_by_force_has_ended(sandbox: Sandbox) -> None:
    queue = sandbox.queue(capability={"pods": "1"})
    sandbox.pod("first", queue, terminationGracePeriodSeconds=3600).must(201)
    until(lambda: running(sandbox, ["first"]), "the first pod to run")
    sandbox.pod("next", queue).must(201)
    sandbox.api.delete(f"{sandbox.pods_path}/first?gracePeriodSeconds=0").must(200)
    until(
        lambda: sandbox.read_queue(queue)["status"]["quota"].get("forceDeleted") == {"pods": "1"},
        "the status to say that it counts",
    )
    annotate = {"metadata": {"annotations": {FORCE_DELETED_ENDED: "soon"}}}
    [warning] = sandbox.api.patch(f"{QUEUES}/{queue}", annotate).must().warnings
    assert "is no time" in warning
    annotate = {"metadata": {"annotations": {FORCE_DELETED_ENDED: rfc3339(datetime.now(UTC))}}}
    assert not sandbox.api.patch(f"{QUEUES}/{queue}", annotate).must().warnings
    until(lambda: running(sandbox, ["next"]), "the next pod to run")
    until(
        lambda: "forceDeleted" not in sandbox.read_queue(queue)["status"]["quota"],
        "the status to say that it counts no longer",
    )


def test_a_raised_capability_lets_pods_go_and_one_that_is_gone_lets_all_go(sandbox: Sandbox) -> None:
    queue = sandbox.queue(capability={"pods": "1"})
    names = sandbox.pods("work", 4, queue)
    until(lambda: len(running(sandbox, names)) == 1, "a pod to run")
    sandbox.edit(queue, capability={"pods": "3"})
    until(lambda: len(running(sandbox, names)) == 3, "three pods to run")
    [lowered] = sandbox.patch_queue(queue, capability={"pods": "2"}).must().warnings
    assert lowered.startswith(f'queue "{queue}" uses pods 3 of 2: nothing is evicted for that')
    ran = running(sandbox, names)
    sandbox.api.delete(f"{sandbox.pods_path}/{ran[0]}").must(200)
    assert settled(lambda: sandbox.bound(names), "the pods", seconds=1.0) == {*ran[1:]}
    [gone] = sandbox.patch_queue(queue, capability=None).must().warnings
    assert gone == f'no capability limits queue "{queue}" any more: the pod that waits for room goes'
    until(lambda: len(sandbox.bound(names)) == 3, "all that are left to run")


def test_the_capability_of_a_queue_above_bounds_all_below_it(sandbox: Sandbox) -> None:
    top = sandbox.queue("lab", capability={"cpu": "2"})
    below = [sandbox.queue(name, parent=top) for name in ("one", "two")]
    names = [name for queue in below for name in sandbox.pods(queue, 2, queue, cpu="1")]
    until(lambda: len(running(sandbox, names)) == 2, "two pods to run")
    waiting = next(name for name in names if not on_a_node(sandbox.read_pod(name)))
    sandbox.reason_on(waiting, f'the capability of its ancestor "{top}" is used')


def test_a_pod_without_room_says_the_stop_while_there_is_one(sandbox: Sandbox) -> None:
    queue = sandbox.queue(capability={"pods": "0"})
    sandbox.pod("work", queue).must(201)
    sandbox.reason_on("work", "room for this pod")
    sandbox.suspend(queue)
    sandbox.reason_on("work", suspended_text(queue))
    sandbox.edit(queue, state="Open")
    sandbox.reason_on("work", "room for this pod")


def test_a_stopped_queue_releases_nothing_and_a_resumed_one_as_much_as_has_room(sandbox: Sandbox) -> None:
    queue = sandbox.queue(capability={"cpu": "2"})
    sandbox.suspend(queue)
    names = sandbox.pods("work", 3, queue, cpu="1")
    assert settled(lambda: running(sandbox, names), "the pods") == []
    sandbox.edit(queue, state="Open")
    until(lambda: len(running(sandbox, names)) == 2, "two pods to run")


def test_a_pod_that_never_fits_says_so(sandbox: Sandbox) -> None:
    queue = sandbox.queue(capability={"cpu": "2"})
    answer = sandbox.pod("large", queue, cpu="3").must(201)
    assert answer.warnings == (f'this waits: it requests cpu 3, more than capability 2 of queue "{queue}"',)
    sandbox.reason_on("large", f'queue "{queue}" never has room for this pod')


def test_what_never_fits_closes_no_fifo_queue(sandbox: Sandbox) -> None:
    queue = sandbox.queue(capability={"cpu": "2"}, dequeueStrategy="fifo")
    sandbox.pod("huge", queue, cpu="3").must(201)
    sandbox.reason_on("huge", f'queue "{queue}" never has room for this pod')
    names = sandbox.pods("work", 3, queue, cpu="1")
    until(lambda: len(running(sandbox, names)) == 2, "those behind it to run")
    left = next(name for name in names if name not in running(sandbox, names))
    sandbox.reason_on(left, f'queue "{queue}" has no room for this pod now: its capability is used')


def test_a_pod_that_was_released_is_not_made_larger_in_place(sandbox: Sandbox) -> None:
    """It is on no node: these nodes cannot resize, so the API server itself would refuse."""
    queue = sandbox.queue(capability={"cpu": "3"})
    sandbox.pod("work", queue, cpu="2", nodeSelector={"no": "node"}).must(201)
    until(lambda: not gates(sandbox.read_pod("work")), "the pod to be released")

    def resized(cpu: str) -> Answer:
        body = {"spec": {"containers": [{"name": "work", "resources": {"requests": {"cpu": cpu}}}]}}
        path = f"{sandbox.pods_path}/work/resize"
        return sandbox.api.patch(path, body, kind="strategic-merge")

    refused = resized("3")
    assert (refused.status, "not made larger in place" in str(refused.body)) == (403, True), refused.body[
        "message"
    ]
    resized("1").must(200)


@pytest.mark.parametrize("kept", [[], ["example.com/other"]], ids=["all", "ours"])
def test_nobody_takes_the_gate_off_a_pod(sandbox: Sandbox, kept: list[str]) -> None:
    queue = sandbox.queue(capability={"pods": "0"})
    sandbox.pod("work", queue).must(201)
    body = {"spec": {"schedulingGates": [{"name": name} for name in kept] or None}}
    answer = sandbox.api.patch(f"{sandbox.pods_path}/work", body)
    assert answer.status in (403, 422), answer.body
    assert gates(sandbox.read_pod("work")) == [QUOTA_GATE]


def holds_capability(queue: Object) -> bool:
    return condition(queue, "QuotaEnforced").get("status") == "True"


def test_pods_that_pend_since_before_the_capability_go_as_it_has_room(sandbox: Sandbox) -> None:
    """Filter refuses them, though none has a gate; a new pod waits behind them with its gate."""
    queue = sandbox.queue()
    names = wait_for_room(sandbox, "work", 8, queue, cpu="1")
    limits: dict[str, dict[str, int | None]] = {queue: {queue: 2}}
    watch = CapabilityWatch(sandbox.cluster, sandbox.pods_path, limits=limits)
    sandbox.edit(queue, capability={"cpu": "2"})
    sandbox.pod("later", queue, cpu="1").must(201)
    # Before that, filter may have let through what the server did not know to have a quota.
    sandbox.queue_that(queue, "hold its capability", holds_capability)
    make_room(sandbox)
    until(lambda: len(running(sandbox, names)) == 2, "two pods to run")
    waiting = [name for name in names if name not in running(sandbox, names)]
    for name in waiting:
        assert gates(sandbox.reason_on(name, f'queue "{queue}" has no room for this pod now')) == []
    assert settled(lambda: len(running(sandbox, [*names, "later"])), "the pods") == 2
    sandbox.api.delete(f"{sandbox.pods_path}/{running(sandbox, names)[0]}").must(200)
    until(lambda: len(running(sandbox, waiting)) == 1, "the next pod to run")
    watch.end()
    assert watch.overruns == []
    sandbox.edit(queue, capability=None)
    until(lambda: len(running(sandbox, [*waiting, "later"])) == len(waiting) + 1, "all to run")


def test_what_a_queue_is_guaranteed_stays_free_until_it_lends_it(sandbox: Sandbox) -> None:
    two = {"resource": {"cpu": "2"}}
    top = sandbox.queue("lab", capability={"cpu": "3"}, guarantee=two)
    kept = sandbox.queue("kept", parent=top, guarantee=two)
    other = sandbox.queue("other", parent=top)
    names = sandbox.pods("other", 3, other, cpu="1")
    until(lambda: len(running(sandbox, names)) == 1, "a pod to run")
    waiting = [name for name in names if not on_a_node(sandbox.read_pod(name))]
    for name in waiting:
        sandbox.reason_on(name, f'what is left of the capability of its ancestor "{top}" is kept for')
    sandbox.pod("own", kept, cpu="1").must(201)
    until(lambda: running(sandbox, ["own"]), "the pod of the queue that is guaranteed it")
    sandbox.edit(kept, guaranteeWhileStopped="Lend")
    sandbox.suspend(kept)
    until(lambda: len(running(sandbox, names)) == 2, "what was lent")
    assert settled(lambda: len(running(sandbox, names)), "the pods") == 2, "one runs on in the stopped queue"


def test_pods_with_claims_count_by_their_number_alone(sandbox: Sandbox) -> None:
    """Where no devices of a class are limited; `test_devices` limits some."""
    counted = sandbox.queue("counted", capability={"count/resourceclaims.resource.k8s.io": "1"})
    claims = [{"name": "gpu", "resourceClaimName": "absent"}]
    sandbox.pod("first", counted, resourceClaims=claims).must(201)
    until(lambda: not gates(sandbox.read_pod("first")), "the first to be released")
    sandbox.pod("second", counted, resourceClaims=claims).must(201)  # of one second, the UID would decide
    sandbox.reason_on("second", f'queue "{counted}" has no room for this pod now: its capability is used')
