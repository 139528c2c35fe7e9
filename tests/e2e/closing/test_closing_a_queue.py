"""A queue is closed, runs out, and may be deleted; not before."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.e2e.shapes import (
    COMPLETES,
    condition,
    pod_body,
    state_of,
)
from tests.support.e2e.stage import QUEUES, Stage
from tests.support.e2e.waiting_for import until


@pytest.fixture
def queue(stage: Stage) -> str:
    """A queue that was closed while two of its pods run."""
    name = stage.queue()
    stage.all_bound(stage.pods("running", 2, name))
    stage.edit(name, state="Closed")
    return name


@pytest.fixture
def default_closed(stage: Stage) -> Iterator[None]:
    stage.patch_queue("default", state="Closed").must()
    stage.in_state("default", "Closed")
    yield
    stage.edit("default", state="Open")


def end(stage: Stage, name: str) -> None:
    """Have a running pod complete."""
    stage.patch_pod(name, {"metadata": {"annotations": {COMPLETES: "0s"}}}).must()


def test_a_queue_with_live_pods_is_closing(stage: Stage, queue: str) -> None:
    """It takes nothing new, and its condition names what keeps it from being Closed."""
    found = stage.read_queue(queue)
    accepting = condition(found, "Accepting")
    assert (state_of(found), accepting["status"], accepting["reason"]) == ("Closing", "False", "Closed")
    assert f"pod {stage.namespace}/running-" in accepting["message"]


def test_a_closing_queue_refuses_new_pods_and_names_the_way_out(stage: Stage, queue: str) -> None:
    """The author of the pod reads what to do."""
    stage.pod("new", queue).must_refuse(
        f'queue "{queue}" is Closing and takes no new pods; reopen it with: kubectl queue open {queue}'
    )


def test_a_closing_queue_still_schedules_what_it_had_taken(stage: Stage) -> None:
    """Pods from before the close, on no node yet, are bound."""
    queue = stage.queue()
    names = stage.pods("early", 3, queue, gated=True)
    stage.edit(queue, state="Closed")
    stage.ungate(names)
    stage.all_bound(names)


def test_it_is_closed_when_its_last_pod_ends(stage: Stage, queue: str) -> None:
    """One completes, one is deleted."""
    end(stage, "running-0")
    stage.api.delete(f"{stage.pods_path}/running-1").must()
    stage.in_state(queue, "Closed")


def test_it_is_not_closed_while_one_pod_lives(stage: Stage, queue: str) -> None:
    """The end of the first pod is counted, and changes no state."""
    end(stage, "running-0")
    found = stage.queue_that(
        queue, "count a finished pod", lambda read: read["status"].get("pods", {}).get("succeeded") == 1
    )
    assert state_of(found) == "Closing"


def test_it_may_be_deleted_when_it_is_closed_and_not_before(stage: Stage, queue: str) -> None:
    """Open, Closing: refused. Closed: gone."""
    stage.api.delete(f"{QUEUES}/{queue}").must_refuse(
        f'queue "{queue}" is Closing and can be deleted once it is Closed'
    )
    end(stage, "running-0")
    end(stage, "running-1")
    stage.in_state(queue, "Closed")
    stage.api.delete(f"{QUEUES}/{queue}").must(200)
    until(lambda: stage.api.get(f"{QUEUES}/{queue}").status == 404, "the queue to go")


def test_an_open_queue_cannot_be_deleted(stage: Stage) -> None:
    """Not even an empty one: somebody may be about to submit."""
    queue = stage.queue()
    stage.api.delete(f"{QUEUES}/{queue}").must_refuse(f"kubectl queue close {queue}")


def test_a_closed_queue_takes_pods_again_once_it_is_open(stage: Stage, queue: str) -> None:
    """The way out that the refusal names."""
    stage.edit(queue, state="Open")
    stage.pod("new", queue).must(201)
    stage.all_bound(["new"])


def test_a_closed_queue_cannot_be_suspended(stage: Stage) -> None:
    """The table of actions holds for edits of spec.state too."""
    queue = stage.queue()
    stage.edit(queue, state="Closed")
    stage.in_state(queue, "Closed")
    stage.patch_queue(queue, state="Suspended").must_refuse("open it first", f"kubectl queue open {queue}")


def test_the_root_queue_can_be_neither_closed_nor_deleted(stage: Stage) -> None:
    """It is above all others."""
    stage.patch_queue("root", state="Closed").must_refuse('"root" cannot be Closed')
    stage.api.delete(f"{QUEUES}/root").must_refuse("`root` queue can not be deleted")


def test_the_default_queue_cannot_be_deleted(stage: Stage) -> None:
    """In Volcano's words, which tools match on."""
    stage.api.delete(f"{QUEUES}/default").must_refuse("`default` queue can not be deleted")


def test_the_default_queue_cannot_be_deleted_even_when_closed(stage: Stage, default_closed: None) -> None:
    """Closed is what makes any other queue deletable."""
    stage.api.delete(f"{QUEUES}/default").must_refuse("`default` queue can not be deleted")


def test_a_job_that_was_accepted_runs_to_its_end_while_its_queue_closes(stage: Stage) -> None:
    """The pods that a Job makes after the close are work that the queue had taken; then it is Closed."""
    queue = stage.queue()
    body = pod_body("unused", queue, annotations={COMPLETES: "500ms"}, restartPolicy="Never")
    template = {"metadata": {"annotations": body["metadata"]["annotations"]}, "spec": body["spec"]}
    jobs = f"/apis/batch/v1/namespaces/{stage.namespace}/jobs"
    spec = {"parallelism": 1, "completions": 3, "template": template}
    stage.api.create(jobs, {"metadata": {"name": "accepted"}, "spec": spec}).must(201)
    until(lambda: len(stage.read_pods()) == 1, "the first pod of the Job")
    stage.edit(queue, state="Closed")
    until(
        lambda: stage.api.get(f"{jobs}/accepted").body["status"].get("succeeded") == 3,
        "the Job to complete",
    )
    stage.in_state(queue, "Closed")
