"""A queue is closed, runs out, and may be deleted; not before."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.e2e.objects import (
    COMPLETES,
    condition,
    pod_body,
    state_of,
)
from tests.support.e2e.sandbox import QUEUES, Sandbox
from tests.support.e2e.wait import until


@pytest.fixture
def queue(sandbox: Sandbox) -> str:
    """A queue that was closed while two of its pods run, of which the server knows."""
    name = sandbox.queue()
    sandbox.all_bound(sandbox.pods("running", 2, name))
    sandbox.edit(name, state="Closed")
    sandbox.queue_that(
        name,
        "name a pod",
        lambda read: f"pod {sandbox.namespace}/running-" in condition(read, "Accepting")["message"],
    )
    return name


@pytest.fixture
def default_closed(sandbox: Sandbox) -> Iterator[None]:
    try:
        sandbox.patch_queue("default", state="Closed").must()
        sandbox.in_state("default", "Closed")
        yield
    finally:
        sandbox.edit("default", state="Open")


def end(sandbox: Sandbox, name: str) -> None:
    """Have a running pod complete."""
    sandbox.patch_pod(name, {"metadata": {"annotations": {COMPLETES: "0s"}}}).must()


def test_a_queue_with_live_pods_is_closing(sandbox: Sandbox, queue: str) -> None:
    """It takes nothing new, and its condition names what keeps it from being Closed."""
    found = sandbox.read_queue(queue)
    accepting = condition(found, "Accepting")
    assert (state_of(found), accepting["status"], accepting["reason"]) == ("Closing", "False", "Closed")
    assert f"pod {sandbox.namespace}/running-" in accepting["message"]


def test_a_closing_queue_refuses_new_pods_and_names_the_way_out(sandbox: Sandbox, queue: str) -> None:
    """The author of the pod reads what to do."""
    sandbox.pod("new", queue).must_refuse(
        f'queue "{queue}" is Closing and takes no new pods; reopen it with: kubectl queue open {queue}'
    )


def test_a_closing_queue_still_schedules_what_it_had_taken(sandbox: Sandbox) -> None:
    """Pods from before the close, on no node yet, are bound."""
    queue = sandbox.queue()
    names = sandbox.pods("early", 3, queue, gated=True)
    sandbox.edit(queue, state="Closed")
    sandbox.ungate(names)
    sandbox.all_bound(names)


def test_it_is_closed_when_its_last_pod_ends(sandbox: Sandbox, queue: str) -> None:
    """One completes, one is deleted."""
    end(sandbox, "running-0")
    sandbox.api.delete(f"{sandbox.pods_path}/running-1").must()
    sandbox.in_state(queue, "Closed")


def test_it_is_not_closed_while_one_pod_lives(sandbox: Sandbox, queue: str) -> None:
    """The end of the first pod is counted, and changes no state."""
    end(sandbox, "running-0")
    found = sandbox.queue_that(
        queue, "count a finished pod", lambda read: read["status"].get("pods", {}).get("succeeded") == 1
    )
    assert state_of(found) == "Closing"


def test_it_may_be_deleted_when_it_is_closed_and_not_before(sandbox: Sandbox, queue: str) -> None:
    """Open, Closing: refused. Closed: gone."""
    sandbox.api.delete(f"{QUEUES}/{queue}").must_refuse(
        f'queue "{queue}" is Closing and can be deleted once it is Closed'
    )
    end(sandbox, "running-0")
    end(sandbox, "running-1")
    sandbox.in_state(queue, "Closed")
    sandbox.api.delete(f"{QUEUES}/{queue}").must(200)
    until(lambda: sandbox.api.get(f"{QUEUES}/{queue}").status == 404, "the queue to go")


def test_an_open_queue_cannot_be_deleted(sandbox: Sandbox) -> None:
    """Not even an empty one: somebody may be about to submit."""
    queue = sandbox.queue()
    sandbox.api.delete(f"{QUEUES}/{queue}").must_refuse(f"kubectl queue close {queue}")


def test_a_closed_queue_takes_pods_again_once_it_is_open(sandbox: Sandbox, queue: str) -> None:
    """The way out that the refusal names."""
    sandbox.edit(queue, state="Open")
    sandbox.pod("new", queue).must(201)
    sandbox.all_bound(["new"])


def test_a_closed_queue_cannot_be_suspended(sandbox: Sandbox) -> None:
    """The table of actions holds for edits of spec.state too."""
    queue = sandbox.queue()
    sandbox.edit(queue, state="Closed")
    sandbox.in_state(queue, "Closed")
    sandbox.patch_queue(queue, state="Suspended").must_refuse("open it first", f"kubectl queue open {queue}")


def test_the_root_queue_can_be_neither_closed_nor_deleted(sandbox: Sandbox) -> None:
    """It is above all others."""
    sandbox.patch_queue("root", state="Closed").must_refuse('"root" cannot be Closed')
    sandbox.api.delete(f"{QUEUES}/root").must_refuse("`root` queue can not be deleted")


def test_the_default_queue_cannot_be_deleted(sandbox: Sandbox) -> None:
    """In Volcano's words, which tools match on."""
    sandbox.api.delete(f"{QUEUES}/default").must_refuse("`default` queue can not be deleted")


def test_the_default_queue_cannot_be_deleted_even_when_closed(sandbox: Sandbox, default_closed: None) -> None:
    """Closed is what makes any other queue deletable."""
    sandbox.api.delete(f"{QUEUES}/default").must_refuse("`default` queue can not be deleted")


def test_a_job_that_was_accepted_runs_to_its_end_while_its_queue_closes(sandbox: Sandbox) -> None:
    """The pods that a Job makes after the close are work that the queue had taken; then it is Closed.

    A pod completes only once the test has it do so: the second one is made after the close.
    """
    queue = sandbox.queue()
    body = pod_body("unused", queue, restartPolicy="Never")
    template = {"metadata": {"annotations": body["metadata"]["annotations"]}, "spec": body["spec"]}
    jobs = f"/apis/batch/v1/namespaces/{sandbox.namespace}/jobs"
    spec = {"parallelism": 1, "completions": 3, "template": template}
    sandbox.api.create(jobs, {"metadata": {"name": "accepted"}, "spec": spec}).must(201)
    until(lambda: len(sandbox.read_pods()) == 1, "the first pod of the Job")
    sandbox.edit(queue, state="Closed")

    def completed() -> bool:
        for name, pod in sandbox.read_pods().items():
            if COMPLETES not in pod["metadata"]["annotations"]:
                end(sandbox, name)
        return bool(sandbox.api.get(f"{jobs}/accepted").must().body["status"].get("succeeded") == 3)

    until(completed, "the Job to complete")
    sandbox.in_state(queue, "Closed")
