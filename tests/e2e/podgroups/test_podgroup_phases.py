"""PodGroups: their phases, conditions and counts are kept true, and `vcctl queue list` counts them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.e2e.calling import Object
from tests.support.e2e.shapes import (
    COMPLETES,
    GROUPED_BY,
    NAMED_BY,
    suspended_text,
)
from tests.support.e2e.stage import Stage
from tests.support.e2e.waiting_for import until


@pytest.fixture
def queue(stage: Stage) -> str:
    return stage.queue()


def phase(stage: Stage, wanted: str, name: str = "gang") -> Object:
    """The group once it is in that phase."""

    def found() -> Object:
        group = stage.read_podgroup(name)
        return group if group.get("status", {}).get("phase") == wanted else {}

    return until(found, f"{name} to be {wanted}")


def counted(stage: Stage, queue: str, **wanted: int) -> None:
    """Returns once the queue counts so many groups of each phase, and none of another."""
    names = ("pending", "inqueue", "running", "unknown", "completed")
    stage.queue_that(
        queue,
        f"count {wanted}",
        lambda q: {n: q["status"].get(n, 0) for n in names} == {n: wanted.get(n, 0) for n in names},
    )


def scheduled(group: Object) -> Object:
    return next(each for each in group["status"]["conditions"] if each["type"] == "Scheduled")


def gang(stage: Stage, *names: str) -> None:
    for name in names:
        stage.pod(name, annotations={GROUPED_BY: "gang"}).must()


def test_a_group_of_an_open_queue_may_start(stage: Stage, queue: str) -> None:
    """Nothing but its pods is waited for."""
    stage.podgroup("gang", queue)
    phase(stage, "Inqueue")
    counted(stage, queue, inqueue=1)


def test_it_runs_when_enough_of_it_does_and_completes_when_all_of_it_has(stage: Stage, queue: str) -> None:
    """Pods that run, and pods that ended."""
    stage.podgroup("gang", queue, minMember=2)
    gang(stage, "one")
    stage.all_bound(["one"])
    phase(stage, "Unknown")
    counted(stage, queue, unknown=1)
    gang(stage, "two")
    running = phase(stage, "Running")
    assert scheduled(running)["status"] == "True"
    counted(stage, queue, running=1)
    for name in ("one", "two"):
        stage.patch_pod(name, {"metadata": {"annotations": {COMPLETES: "0s"}}}).must()
    done = phase(stage, "Completed")
    assert (done["status"]["running"], done["status"]["succeeded"]) == (0, 2)
    counted(stage, queue, completed=1)


def test_a_stop_puts_it_back_to_pending(stage: Stage, queue: str) -> None:
    """What it had reserved is free; it says why, and comes back with its queue."""
    stage.podgroup("gang", queue)
    phase(stage, "Inqueue")
    stage.suspend(queue)
    held = scheduled(phase(stage, "Pending"))
    assert (held["status"], held["reason"], held["message"]) == ("False", "Suspended", suspended_text(queue))
    counted(stage, queue, pending=1)
    assert suspended_text(queue) in stage.event("gang", "QueueSuspended")
    stage.edit(queue, state="Open")
    phase(stage, "Inqueue")


def test_a_running_group_runs_on_while_its_queue_is_stopped(stage: Stage, queue: str) -> None:
    """A stop keeps what is new from starting; it ends nothing."""
    stage.podgroup("gang", queue)
    gang(stage, "one")
    phase(stage, "Running")
    stage.suspend(queue)
    counted(stage, queue, running=1)


def test_a_queue_is_kept_from_closed_until_the_groups_pods_are_gone(stage: Stage, queue: str) -> None:
    """A group whose pods have not come yet is live; one whose pods are all gone is not."""
    stage.podgroup("gang", queue)
    phase(stage, "Inqueue")
    stage.edit(queue, state="Closed")
    found = stage.in_state(queue, "Closing")
    assert any(
        f"podgroup {stage.namespace}/gang" in each["message"] for each in found["status"]["conditions"]
    )
    gang(stage, "one")
    stage.all_bound(["one"])
    stage.api.delete(f"{stage.pods_path}/one").must()
    stage.in_state(queue, "Closed")


def test_its_queue_cannot_be_changed_under_its_pods(stage: Stage, queue: str) -> None:
    """Without pods it can, to a queue that accepts."""
    other = stage.queue("other")
    stage.podgroup("gang", queue)
    stage.edit(other, state="Closed")
    stage.move_podgroup("gang", other).must_refuse(f'queue "{other}" is Closed and takes no new podgroups')
    stage.edit(other, state="Open")
    stage.move_podgroup("gang", other).must()
    gang(stage, "one")
    stage.all_bound(["one"])
    stage.move_podgroup("gang", queue).must_refuse("has pods, and their queue cannot be changed under them")


def test_its_namespace_names_its_queue(stage: Stage, queue: str) -> None:
    """Volcano gives every group a queue, `default` where nobody named one."""
    stage.api.patch(stage.home, {"metadata": {"annotations": {NAMED_BY: queue}}}).must()
    until(
        lambda: stage.make_podgroup("would-be", "", dry=True).must().body["spec"]["queue"] == queue,
        "the annotation to be known",
    )
    stage.podgroup("gang", "")
    assert stage.read_podgroup("gang")["spec"]["queue"] == queue


def test_one_that_is_nested_as_deep_as_may_be_keeps_nobody_from_being_seen(
    stage: Stage, queue: str, tmp_path: Path
) -> None:
    """Its fields are free, so that whoever may group pods can write it: in a watch, and in the next list."""
    stage.podgroup("deep", queue)
    phase(stage, "Inqueue", "deep")
    levels = 5_000
    patch = tmp_path / "patch.json"
    patch.write_text(f'{{"spec": {{"free": {"[" * levels}{"]" * levels}}}}}')
    told = ("--namespace", stage.namespace, "--output", "name")
    stage.cluster.kubectl("patch", "podgroup", "deep", "--type=merge", "--patch-file", str(patch), *told)
    stage.podgroup("seen", queue)
    phase(stage, "Inqueue", "seen")
    stage.cluster.restart_components("server")
    stage.podgroup("listed", queue)
    phase(stage, "Inqueue", "listed")
    stage.cluster.kubectl("delete", "podgroup", "deep", *told)
