"""Filter calls that no scheduler made: an anonymous caller delays no stop, and hides no pod from a stop.

The caller reaches the port and shows no credentials. What it says of a pod counts only while the pod is not
in the cache, and no longer than it would take to be there.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.e2e.api_requests import Object
from tests.support.e2e.filter_calls import FilterCaller
from tests.support.e2e.objects import (
    is_stopped,
    on_a_node,
    version,
)
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.stop import stop_undelayed
from tests.support.e2e.wait import until
from tests.support.faults.slow_webhook import SlowWebhook

KEPT_SECONDS = 28.0
HUNDREDS = 200
WRITTEN = "sluice.dev/queue"
NODES = ["node-0", "node-1", "node-2"]


@pytest.fixture
def queue(sandbox: Sandbox) -> str:
    return sandbox.queue()


@pytest.fixture
def stranger(sandbox: Sandbox) -> Iterator[FilterCaller]:
    with FilterCaller(sandbox) as caller:
        yield caller


def some_uid() -> str:
    return f"00000000-0000-4000-8000-{secrets.token_hex(6)}"


def test_calls_for_hundreds_of_pods_that_do_not_exist_delay_no_stop(
    sandbox: Sandbox, queue: str, stranger: FilterCaller
) -> None:
    """They were let through, for what is not known may come."""
    for number in range(HUNDREDS):
        stranger.filter(f"nobody-{number}", queue, uid=some_uid())
    stop_undelayed(sandbox, queue, state="Suspended")


@pytest.mark.parametrize("uid", ["another's", "none"])
def test_a_call_for_a_pod_by_its_name_alone_delays_no_stop(
    sandbox: Sandbox, queue: str, stranger: FilterCaller, uid: str
) -> None:
    """The pod is bound, or fits nowhere. A caller that names it does not make it one that was let through."""
    sandbox.pod("bound", queue).must(201)
    sandbox.all_bound(["bound"])
    sandbox.pod("large", queue, cpu="1000000").must(201)
    sandbox.reason_on("large", "Insufficient cpu")
    sandbox.queue_that(queue, "count both, which the server so knows", counts_both)
    other = sandbox.queue("other")
    for name in ("bound", "large"):
        for named in (queue, other):
            answer = stranger.filter(name, named, uid=some_uid() if uid == "another's" else "")
            assert answer["Error"], answer
            assert not answer["NodeNames"]
    stop_undelayed(sandbox, queue, state="Suspended")
    stop_undelayed(sandbox, other, state="Suspended")


def counts_both(queue: Object) -> bool:
    """One pod of it runs, and one is pending."""
    pods = queue["status"].get("pods", {})
    return (pods.get("running"), pods.get("pending")) == (1, 1)


@pytest.mark.parametrize("uid", ["another's", "none"])
@pytest.mark.parametrize("named", ["own", "another", "stopped"])
def test_a_call_does_not_make_the_pass_of_a_pod_forgotten(
    sandbox: Sandbox, queue: str, stranger: FilterCaller, tmp_path: Path, uid: str, named: str
) -> None:
    """The pod's bind is kept in a webhook. Whatever queue the call names, the stop waits for the bind."""
    queues = {"own": queue, "another": sandbox.queue("another"), "stopped": sandbox.queue("stopped")}
    sandbox.suspend(queues["stopped"])
    with SlowWebhook(sandbox, tmp_path, seconds=KEPT_SECONDS) as slow:
        sandbox.pod("member-0", queue).must(201)
        until(lambda: slow.held, "the bind to be under way", share=0)
        told = some_uid() if uid == "another's" else ""
        stranger.filter("member-0", queues[named], uid=told)
        sandbox.patch_queue(queue, state="Suspended").must()
        stop = sandbox.queue_that(
            queue,
            "be acknowledged, or say what it waits for",
            lambda held: is_stopped(held) or held["status"].get("stop", {}).get("waitingFor", ""),
        )
        assert slow.held and not is_stopped(stop), "acknowledged while a bind is under way"
        slow.let_go()
        acknowledged = sandbox.queue_that(queue, "be acknowledged", is_stopped)
    path = f"{sandbox.pods_path}?resourceVersion={version(acknowledged)}&resourceVersionMatch=Exact"
    assert all(on_a_node(pod) for pod in sandbox.api.get(path).must().body["items"])
