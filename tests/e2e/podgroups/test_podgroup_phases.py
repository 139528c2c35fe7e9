"""PodGroups: their phases, conditions and counts are kept true, and `vcctl queue list` counts them."""

from __future__ import annotations

from pathlib import Path

import pytest

from localcluster.cluster import LocalCluster
from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import (
    COMPLETES,
    GROUPED_BY,
    NAMED_BY,
    suspended_text,
)
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until


@pytest.fixture
def queue(sandbox: Sandbox) -> str:
    return sandbox.queue()


def phase(sandbox: Sandbox, wanted: str, name: str = "gang") -> Object:
    """The group once it is in that phase."""

    def found() -> Object:
        group = sandbox.read_podgroup(name)
        return group if group.get("status", {}).get("phase") == wanted else {}

    return until(found, f"{name} to be {wanted}")


def counted(sandbox: Sandbox, queue: str, **wanted: int) -> None:
    """Returns once the queue counts so many groups of each phase, and none of another."""
    names = ("pending", "inqueue", "running", "unknown", "completed")
    sandbox.queue_that(
        queue,
        f"count {wanted}",
        lambda q: {n: q["status"].get(n, 0) for n in names} == {n: wanted.get(n, 0) for n in names},
    )


def scheduled(group: Object) -> Object:
    return next(each for each in group["status"]["conditions"] if each["type"] == "Scheduled")


def gang(sandbox: Sandbox, *names: str) -> None:
    for name in names:
        sandbox.pod(name, annotations={GROUPED_BY: "gang"}).must()


def test_a_group_of_an_open_queue_may_start(sandbox: Sandbox, queue: str) -> None:
    """Nothing but its pods is waited for."""
    sandbox.podgroup("gang", queue)
    phase(sandbox, "Inqueue")
    counted(sandbox, queue, inqueue=1)


def test_it_runs_when_enough_of_it_does_and_completes_when_all_of_it_has(
    sandbox: Sandbox, queue: str
) -> None:
    """Pods that run, and pods that ended."""
    sandbox.podgroup("gang", queue, minMember=2)
    gang(sandbox, "one")
    sandbox.all_bound(["one"])
    phase(sandbox, "Unknown")
    counted(sandbox, queue, unknown=1)
    gang(sandbox, "two")
    running = phase(sandbox, "Running")
    assert scheduled(running)["status"] == "True"
    counted(sandbox, queue, running=1)
    for name in ("one", "two"):
        sandbox.patch_pod(name, {"metadata": {"annotations": {COMPLETES: "0s"}}}).must()
    done = phase(sandbox, "Completed")
    assert (done["status"]["running"], done["status"]["succeeded"]) == (0, 2)
    counted(sandbox, queue, completed=1)


def test_a_stop_puts_it_back_to_pending(sandbox: Sandbox, queue: str) -> None:
    """What it had reserved is free; it says why, and comes back with its queue."""
    sandbox.podgroup("gang", queue)
    phase(sandbox, "Inqueue")
    sandbox.suspend(queue)
    held = scheduled(phase(sandbox, "Pending"))
    assert (held["status"], held["reason"], held["message"]) == ("False", "Suspended", suspended_text(queue))
    counted(sandbox, queue, pending=1)
    assert suspended_text(queue) in sandbox.event("gang", "QueueSuspended")
    sandbox.edit(queue, state="Open")
    phase(sandbox, "Inqueue")


def test_a_running_group_runs_on_while_its_queue_is_stopped(sandbox: Sandbox, queue: str) -> None:
    """A stop keeps what is new from starting; it ends nothing."""
    sandbox.podgroup("gang", queue)
    gang(sandbox, "one")
    phase(sandbox, "Running")
    sandbox.suspend(queue)
    counted(sandbox, queue, running=1)


def test_a_queue_is_kept_from_closed_until_the_groups_pods_are_gone(sandbox: Sandbox, queue: str) -> None:
    """A group whose pods have not come yet is live; one whose pods are all gone is not."""
    sandbox.podgroup("gang", queue)
    phase(sandbox, "Inqueue")
    sandbox.edit(queue, state="Closed")
    found = sandbox.in_state(queue, "Closing")
    assert any(
        f"podgroup {sandbox.namespace}/gang" in each["message"] for each in found["status"]["conditions"]
    )
    gang(sandbox, "one")
    sandbox.all_bound(["one"])
    sandbox.api.delete(f"{sandbox.pods_path}/one").must()
    sandbox.in_state(queue, "Closed")


def test_its_queue_cannot_be_changed_under_its_pods(sandbox: Sandbox, queue: str) -> None:
    """Without pods it can, to a queue that accepts."""
    other = sandbox.queue("other")
    sandbox.podgroup("gang", queue)
    sandbox.edit(other, state="Closed")
    sandbox.move_podgroup("gang", other).must_refuse(f'queue "{other}" is Closed and takes no new podgroups')
    sandbox.edit(other, state="Open")
    sandbox.move_podgroup("gang", other).must()
    gang(sandbox, "one")
    sandbox.all_bound(["one"])
    sandbox.move_podgroup("gang", queue).must_refuse("has pods, and their queue cannot be changed under them")


def test_its_namespace_names_its_queue(sandbox: Sandbox, queue: str) -> None:
    """Volcano gives every group a queue, `default` where nobody named one."""
    sandbox.api.patch(sandbox.home, {"metadata": {"annotations": {NAMED_BY: queue}}}).must()
    until(
        lambda: sandbox.make_podgroup("would-be", "", dry=True).must().body["spec"]["queue"] == queue,
        "the annotation to be known",
    )
    sandbox.podgroup("gang", "")
    assert sandbox.read_podgroup("gang")["spec"]["queue"] == queue


def test_one_that_is_nested_deeper_than_python_goes_keeps_nobody_from_being_seen(
    sandbox: Sandbox, queue: str, tmp_path: Path, restored_cluster: LocalCluster
) -> None:
    """Its fields are free, so that whoever may group pods can write it: in a watch, and in the next list.

    Python goes 1,000 levels deep by itself. The API server takes 10,000, and its time grows with their
    square: with 5,000 it computes for five seconds, and beside other tests it gave up after a minute.
    """
    sandbox.podgroup("deep", queue)
    phase(sandbox, "Inqueue", "deep")
    levels = 2_000
    patch = tmp_path / "patch.json"
    patch.write_text(f'{{"spec": {{"free": {"[" * levels}{"]" * levels}}}}}')
    told = ("--namespace", sandbox.namespace, "--output", "name")
    sandbox.cluster.kubectl("patch", "podgroup", "deep", "--type=merge", "--patch-file", str(patch), *told)
    sandbox.podgroup("seen", queue)
    phase(sandbox, "Inqueue", "seen")
    restored_cluster.restart_components("server")
    sandbox.podgroup("listed", queue)
    phase(sandbox, "Inqueue", "listed")
    sandbox.cluster.kubectl("delete", "podgroup", "deep", *told)
