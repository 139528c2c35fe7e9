"""No pod is ever in a queue that was Closed: what was admitted before is waited for, however late."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support.e2e.api_requests import Answer, Api
from tests.support.e2e.objects import (
    condition,
    pod_body,
    state_of,
)
from tests.support.e2e.sandbox import QUEUES, Sandbox
from tests.support.e2e.wait import settled, until
from tests.support.faults.slow_webhook import SlowWebhook

#: As long as the API server waits for a webhook, less than a bit.
SECONDS = 25.0
LATE = "late"


def test_a_pod_that_is_on_its_way_keeps_the_queue_from_closed(sandbox: Sandbox, tmp_path: Path) -> None:
    """A webhook behind ours holds it up; the queue has no member that anybody could list, and waits."""
    queue = sandbox.queue()
    with (
        SlowWebhook(sandbox, tmp_path, seconds=SECONDS, resources=["pods"]) as webhook,
        ThreadPoolExecutor(1) as pool,
    ):
        until(lambda: _asked(sandbox, webhook), "the webhook to be known")
        before = webhook.asked
        coming = pool.submit(_created, sandbox, queue)
        until(lambda: webhook.asked > before, "the pod to be held up")
        sandbox.edit(queue, state="Closed")
        sandbox.queue_that(
            queue,
            "wait for what was admitted",
            lambda found: "what was admitted before may still come" in _message(found),
        )
        settled(lambda: state_of(sandbox.read_queue(queue)), "the queue", seconds=2.0)
        assert state_of(sandbox.read_queue(queue)) == "Closing"
        sandbox.api.delete(f"{QUEUES}/{queue}").must_refuse(f'queue "{queue}" is being closed')
        webhook.let_go()
        coming.result().must(201)
        sandbox.queue_that(queue, "know of the pod", lambda found: "pod " in _message(found))
    sandbox.delete_pods()
    sandbox.in_state(queue, "Closed")


def test_a_queue_that_is_opened_and_closed_again_is_asked_about_again(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    """It was Closed once, and a pod came between: what was said before says nothing of now."""
    queue = sandbox.queue()
    sandbox.edit(queue, state="Closed")
    sandbox.in_state(queue, "Closed")
    with (
        SlowWebhook(sandbox, tmp_path, seconds=SECONDS, resources=["pods"]) as webhook,
        ThreadPoolExecutor(1) as pool,
    ):
        until(lambda: _asked(sandbox, webhook), "the webhook to be known")
        before = webhook.asked
        sandbox.patch_queue(queue, state="Open").must()
        until(lambda: sandbox.pod("would-be", queue, dry=True).status == 201, "the queue to accept")
        coming = pool.submit(_created, sandbox, queue)
        until(lambda: webhook.asked > before, "the pod to be held up")
        sandbox.patch_queue(queue, state="Closed").must()
        sandbox.api.delete(f"{QUEUES}/{queue}").must_refuse(f'queue "{queue}" is being closed')
        found = sandbox.answered(queue)
        assert state_of(found) == "Closing"
        sandbox.api.delete(f"{QUEUES}/{queue}").must_refuse(f'queue "{queue}" is being closed')
        webhook.let_go()
        coming.result().must(201)
        sandbox.queue_that(queue, "know of the pod", lambda found: "pod " in _message(found))
    sandbox.delete_pods()
    sandbox.in_state(queue, "Closed")


def _message(queue: dict[str, object]) -> str:
    return str(condition(queue, "Accepting")["message"])


def _created(sandbox: Sandbox, queue: str) -> Answer:
    with Api(sandbox.cluster) as api:
        return api.create(sandbox.pods_path, pod_body(LATE, queue))


def _asked(sandbox: Sandbox, webhook: SlowWebhook) -> bool:
    """Whether a pod of no queue was seen by it."""
    sandbox.pod("would-be", dry=True).must()
    return webhook.seen > 0
