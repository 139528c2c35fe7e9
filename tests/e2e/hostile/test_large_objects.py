"""Objects as large as kube-apiserver and etcd take them, of a character that Go writes as six bytes of JSON.

They reach the server as reviews of up to 18 MiB and filter calls of up to 9 MiB.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from localcluster.cluster import LocalCluster
from tests.support.e2e.api_requests import Answer, Object
from tests.support.e2e.objects import NAMED_BY, pod_body
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until
from tests.support.e2e.workloads import (
    DEPLOYMENT,
    template_of,
    work_body,
)

pytestmark = pytest.mark.long

MEBI = 1024 * 1024
#: Of what one object may have: etcd takes 1.5 MiB.
LARGEST = 14 * MEBI // 10


def filled(container: Object, size: int) -> None:
    """In pieces, since a process takes no longer argument."""
    container["args"] = ["<" * (size // 8)] * 8


def is_given_up(answer: Answer) -> bool:
    """Whether the API server waited no longer: for our webhook, which has 5 s, or at the end of its request
    timeout. On a busy machine a review of 18 MiB can take that long.
    """
    return answer.status == 504 or (answer.status == 500 and "deadline exceeded" in answer.message)


def answer_to(request: Callable[[], Answer], what: str) -> Answer:
    """The answer of the webhooks and of etcd to the request, which is sent again where it was given up."""

    def answer() -> Answer | None:
        found = request()
        return None if is_given_up(found) else found

    return until(answer, what)


def patched(sandbox: Sandbox, name: str, body: Object) -> Answer:
    """The answer to a patch of a Deployment of one replica, once its controllers no longer write to it.

    After each write of another client in between, the API server repeats the patch and its reviews: seconds
    each on a busy machine. At the end of its request timeout it replies 504, or closes the connection if it
    has begun a reply. Neither says what the webhooks answered, so the patch is sent again.
    """
    path = f"{DEPLOYMENT.path(sandbox.namespace)}/{name}"
    until(
        lambda: sandbox.api.get(path).must().body["status"].get("availableReplicas") == 1,
        f"{name} to be available",
    )
    return answer_to(lambda: sandbox.api.patch(path, body), f"an answer to the patch of {name}")


def made(sandbox: Sandbox, body: Object) -> Answer:
    """The answer to the creation of a Deployment."""
    return answer_to(lambda: sandbox.make(DEPLOYMENT, body), "an answer to the creation")


@pytest.fixture
def queue(sandbox: Sandbox) -> str:
    return sandbox.queue()


def test_a_large_deployment_is_taken_and_can_be_edited_and_its_pods_run(sandbox: Sandbox, queue: str) -> None:
    body = work_body(DEPLOYMENT, "large", queue, replicas=1)
    filled(template_of(body)["spec"]["containers"][0], LARGEST)
    made(sandbox, body).must(201)
    edited = patched(
        sandbox, "large", {"metadata": {"annotations": {"a": "b"}}, "spec": {"replicas": 2}}
    ).must()
    assert edited.body["metadata"]["labels"]["sluice.dev/queue"] == queue
    pods = until(lambda: len(found := sandbox.read_pods()) == 2 and list(found), "its pods")
    sandbox.all_bound(pods)
    note = {"metadata": {"annotations": {"a": "b"}}}
    for name in pods:
        answer_to(partial(sandbox.patch_pod, name, note), f"an answer to the patch of {name}").must()


def test_a_stop_holds_for_large_pods(sandbox: Sandbox, queue: str) -> None:
    sandbox.suspend(queue)
    body = pod_body("large", queue)
    filled(body["spec"]["containers"][0], LARGEST)
    answer = answer_to(lambda: sandbox.api.create(sandbox.pods_path, body), "an answer to the creation")
    assert answer.must(201).warnings
    sandbox.edit(queue, state="Open")
    sandbox.all_bound(["large"])


def most_memory(pid: int) -> int:
    """The most that a process or one of its children ever had, in bytes."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    status = [Path(f"/proc/{one}/status").read_text() for one in (pid, *children)]
    return max(int(re.findall(r"VmHWM:\s+(\d+) kB", text)[0]) for text in status) * 1024


def test_a_server_that_starts_reads_them_a_few_at_a_time(
    sandbox: Sandbox, restored_cluster: LocalCluster
) -> None:
    """Twelve are 100 MB of JSON, and fewer than a page usually has."""
    bodies = [pod_body(f"large-{number}", gated=True) for number in range(12)]
    for body in bodies:
        filled(body["spec"]["containers"][0], LARGEST)
    sandbox.flood(bodies)
    restored_cluster.restart_components("server")
    # Of that it has 75 MiB without them; they alone would be 100 if they were read at once.
    assert most_memory(restored_cluster.pids["server"]) < 140 * MEBI
    sandbox.suspend(sandbox.queue("after"))


def test_what_etcd_does_not_take_is_refused_by_etcd_and_not_by_a_webhook(
    sandbox: Sandbox, queue: str
) -> None:
    """As much as kube-apiserver reads of a request."""
    body = work_body(DEPLOYMENT, "huge", queue)
    filled(template_of(body)["spec"]["containers"][0], 28 * MEBI // 10)
    answer = made(sandbox, body)
    assert answer.status >= 400
    assert "webhook" not in answer.message
    assert "large" in answer.message


def test_a_review_that_is_too_long_is_refused_with_the_limit(sandbox: Sandbox, queue: str) -> None:
    """A patch that makes of a stored object one of three times its size, which could not be stored either."""
    body = work_body(DEPLOYMENT, "growing", queue)
    filled(template_of(body)["spec"]["containers"][0], LARGEST)
    made(sandbox, body).must(201)
    more = {"metadata": {"annotations": {"more": "<" * (28 * MEBI // 10), NAMED_BY: queue}}}
    answer = patched(sandbox, "growing", more)
    assert answer.status >= 400
    assert "the body may have 29360128 bytes" in answer.message, answer.message
    patched(sandbox, "growing", {"metadata": {"annotations": {"a": "b"}}}).must()
