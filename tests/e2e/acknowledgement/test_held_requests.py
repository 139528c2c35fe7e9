"""A request of the leader that gets no answer delays no acknowledgement of another queue's stop.

A proxy in front of the API server holds one request. The stop of another queue is acknowledged before the
client gives that request up, so it does not wait for it. This holds with the smallest allowed setting of
`writers` as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from cluster.api.client import READ_SECONDS
from controller.status.status_writer import COUNTS_LANES
from localcluster.cluster import LocalCluster
from localcluster.components import NAMESPACE
from queues.apimachinery.timestamps import rfc3339
from server.runtime import LEASE_READ_SECONDS, STATUS_THREADS
from server.settings import Settings, SettingsError
from tests.support.e2e.fleet import Fleet
from tests.support.e2e.sandbox import QUEUES, Sandbox
from tests.support.e2e.wait import until
from tests.support.faults.faults import Silence
from tests.support.faults.intercepting import Asked, Interceptor, When

pytestmark = pytest.mark.long

ANN = "ann@example.com"
COMMANDS = "/apis/bus.volcano.sh/v1alpha1/namespaces/"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
#: The smallest allowed setting of `writers`.
FEWEST = 1
TRIES = 5


@pytest.fixture(scope="module")
def way(module_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Interceptor]:
    """The way of the one server to the API server."""
    fleet = Fleet(module_cluster, tmp_path_factory.mktemp("held"))
    try:
        fleet.join("server-1", intercepted=True, prefix=("/usr/bin/env", f"SLUICE_WRITERS={FEWEST}"))
        yield fleet.interceptors["server-1"]
    finally:
        fleet.close()


def edits_queue(queue: str) -> When:
    return lambda asked: (asked.method, asked.path) == ("PATCH", f"{QUEUES}/{queue}")


def reads_queue(queue: str) -> When:
    return lambda asked: (asked.method, asked.path) == ("GET", f"{QUEUES}/{queue}")


def writes_status(queue: str) -> When:
    return lambda asked: (asked.method, asked.path) == ("PATCH", f"{QUEUES}/{queue}/status")


def deletes_command(_queue: str) -> When:
    return lambda asked: asked.method == "DELETE" and asked.path.startswith(COMMANDS)


def stop_by_command(own_sandbox: Sandbox, queue: str) -> None:
    own_sandbox.user(ANN, "sluice-queue-admin")
    own_sandbox.may(ANN, "update", "queues", "scheduling.volcano.sh")
    own_sandbox.may(ANN, "create", "commands", "bus.volcano.sh")
    own_sandbox.command(queue, "SuspendQueue", user=ANN).must(201)


def stop_by_edit(own_sandbox: Sandbox, queue: str) -> None:
    own_sandbox.patch_queue(queue, state="Suspended").must()


def stop_for_a_moment(own_sandbox: Sandbox, queue: str) -> None:
    at = datetime.now(UTC) + timedelta(seconds=3)
    own_sandbox.edit(queue, state="Suspended", resumeAt=rfc3339(at))


@pytest.mark.parametrize("answered", [False, True], ids=["not sent", "not answered"])
@pytest.mark.parametrize(
    ("holds", "begin", "state"),
    [
        (reads_queue, stop_by_command, "Suspended"),
        (edits_queue, stop_by_command, "Suspended"),
        (deletes_command, stop_by_command, "Suspended"),
        (edits_queue, stop_for_a_moment, "Open"),
        (writes_status, stop_by_edit, "Suspended"),
    ],
    ids=["a Command's queue", "a Command's edit", "a Command's deletion", "resumeAt", "a status"],
)
def test_an_edit_that_hangs_delays_no_other_stop(
    way: Interceptor,
    own_sandbox: Sandbox,
    holds: Callable[[str], When],
    begin: Callable[[Sandbox, str], None],
    state: str,
    *,
    answered: bool,
) -> None:
    """And it takes effect once it is let through."""
    slow, other = own_sandbox.queue("slow"), own_sandbox.queue("other")
    kept = way.keep(holds(slow), answered=answered)
    begin(own_sandbox, slow)
    until(kept.reached.is_set, "the request")
    own_sandbox.suspend(other)
    assert time.monotonic() < kept.requests[0].at + READ_SECONDS, "acknowledged once it was given up"
    way.free(kept)
    own_sandbox.queue_that(slow, f"be {state}", lambda found: found["spec"]["state"] == state)
    until(lambda: not own_sandbox.commands(), "the Command to go")


def test_counts_that_hang_delay_no_stop(way: Interceptor, own_sandbox: Sandbox) -> None:
    """Neither of another queue, nor of one whose own counts wait behind those."""
    queues = [own_sandbox.queue(f"busy-{number}") for number in range(3 * STATUS_THREADS)]
    hung = list[Asked]()

    def writes_counts(asked: Asked) -> bool:
        return any(writes_status(queue)(asked) for queue in queues) and b"conditions" not in asked.body

    def hangs(asked: Asked) -> bool:
        found = writes_counts(asked)
        hung.extend([asked] if found else [])
        return found

    way.order(Silence(), when=hangs, times=len(queues))
    try:
        for queue in queues:
            own_sandbox.pod(f"pod-{queue}", queue, gated=True).must(201)
        until(lambda: len(hung) >= COUNTS_LANES, "counts to be written")
        own_sandbox.suspend(own_sandbox.queue("other"))
        behind = next(queue for queue in queues if not any(writes_status(queue)(each) for each in hung))
        own_sandbox.suspend(behind)
        assert time.monotonic() < hung[0].at + READ_SECONDS, "acknowledged once they were given up"
    finally:
        way.relent()
        way.cut(when=writes_counts)
    for queue in queues:
        own_sandbox.queue_that(queue, "count its pod", lambda found: found["status"]["pods"]["pending"] == 1)


def test_fewer_writers_are_not_allowed() -> None:
    Settings(writers=FEWEST)
    with pytest.raises(SettingsError, match="writers"):
        Settings(writers=FEWEST - 1)


@pytest.mark.parametrize("answered", [False, True], ids=["not sent", "not answered"])
def test_a_list_of_leases_that_hangs_delays_no_stop(
    way: Interceptor, own_sandbox: Sandbox, *, answered: bool
) -> None:
    """The Leases are listed again beside it. A stop that waited for the first list would be acknowledged only
    once the client has given that up; a busy machine gets more than one try to be faster than that.
    """

    def lists_leases(asked: Asked) -> bool:
        """The leader's; a watch begins with a list in pages."""
        return asked.path == LEASES and asked.lists and "limit" not in asked.query

    def seconds_of_a_stop(number: int) -> float:
        """From the request that hangs until another queue's stop is acknowledged."""
        first, other = own_sandbox.queue(f"first-{number}"), own_sandbox.queue(f"other-{number}")
        kept = way.keep(lists_leases, answered=answered)
        own_sandbox.patch_queue(first, state="Suspended").must()
        until(kept.reached.is_set, "the list of Leases")
        own_sandbox.suspend(other)
        acknowledged_at = time.monotonic()
        way.free(kept)
        own_sandbox.answered(first)
        return acknowledged_at - kept.requests[0].at

    assert any(seconds_of_a_stop(number) < LEASE_READ_SECONDS for number in range(TRIES))
