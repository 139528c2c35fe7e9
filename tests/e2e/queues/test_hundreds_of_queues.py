"""A tree of hundreds of queues on ten levels: a stop of the top shows on all, with one write each."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing

import pytest

from localcluster import apiserver
from localcluster.cluster import LocalCluster
from tests.support.e2e.api_requests import Object, metric, watched
from tests.support.e2e.objects import (
    condition,
    is_active,
    is_answered,
    is_stopped,
    queue_body,
    state_of,
    waits_for,
)
from tests.support.e2e.sandbox import QUEUES, Sandbox
from tests.support.e2e.wait import until

pytestmark = pytest.mark.long

LEVELS, WIDTH = 10, 30
#: The children of a queue that has some.
CHILDREN = 3

#: Of counts alone, or of what is essential, with or without counts.
WRITES = r'sluice_writes_total{outcome="done",what="(?:status|counts)"}'


@pytest.fixture(scope="module")
def forest(module_cluster: LocalCluster) -> Iterator[Sandbox]:
    """The cluster with the depth setting raised, and the queues."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLUICE_DEPTH_LIMIT", str(LEVELS))
        module_cluster.start_components("server")
    sandbox = Sandbox(module_cluster)
    started = time.monotonic()
    for level in range(LEVELS):
        sandbox.make_queues(
            queue_body(name(level, number), parent=parent(level, number)) for number in range(WIDTH)
        )
    print(f"{LEVELS * WIDTH} queues made in {time.monotonic() - started:.1f} s")
    all_said(sandbox, "Open", after=LEVELS * WIDTH)
    yield sandbox
    sandbox.close()


def name(level: int, number: int) -> str:
    return f"level-{level}-{number}"


def parent(level: int, number: int) -> str:
    """Ten of each level have children, so the tree is uneven."""
    return name(level - 1, number // CHILDREN) if level else "root"


def all_said(sandbox: Sandbox, state: str, *, after: float) -> None:
    """Returns once every queue is said to be in it, with this many writes of a status or more."""
    # The writes are counted, which costs little, before hundreds of queues are read again and again.
    until(lambda: writes(sandbox) >= after, f"so many writes that all are {state}", seconds=120)
    until(lambda: all(is_said(each, state) for each in listed(sandbox)), f"all to be {state}", seconds=120)


def listed(sandbox: Sandbox) -> list[Object]:
    return list(sandbox.api.get(QUEUES).must().body["items"])


def writes(sandbox: Sandbox) -> float:
    """Statuses that the server has written."""
    context = apiserver.caller_context(sandbox.cluster.layout)
    return metric(sandbox.cluster.ports.server, context, WRITES)


def test_suspending_root_shows_on_all_with_one_write_each(forest: Sandbox) -> None:
    """And so does its resume. Where the stop is not acknowledged at once, one more write says Suspended
    before; and others only where that takes so long that the status says what it waits for."""
    number = len(listed(forest))
    assert number == LEVELS * WIDTH + 2
    for state in ("Suspended", "Open"):
        before, started = writes(forest), time.monotonic()
        asked = forest.patch_queue("root", state=state).must().body
        all_said(forest, state, after=before + number)
        print(f"{number} queues {state} after {time.monotonic() - started:.2f} s")
        written = statuses_since(forest, asked)
        assert len(written) == number
        assert {
            queue: statuses for queue, statuses in written.items() if not is_said_once(statuses, state)
        } == {}


def statuses_since(sandbox: Sandbox, asked: Object) -> dict[str, list[Object]]:
    """By queue: each state of it that a write has made since then, but for one at the end by the test."""
    mark = sandbox.api.patch(
        f"{QUEUES}/root", {"metadata": {"annotations": {"tests.sluice.dev/mark": asked_at(asked)}}}
    )
    end = mark.must().body["metadata"]["resourceVersion"]
    written = defaultdict[str, list[Object]](list)
    with closing(watched(sandbox.cluster, QUEUES, since=asked_at(asked))) as changes:
        for queue in changes:
            if queue["metadata"]["resourceVersion"] == end:
                return written
            written[queue["metadata"]["name"]].append(queue)
    raise AssertionError(f"no event of version {end}")


def asked_at(queue: Object) -> str:
    return str(queue["metadata"]["resourceVersion"])


def is_said_once(statuses: list[Object], state: str) -> bool:
    """Whether the last status alone says it all, and at most one before says it without an acknowledgement,
    beside those that say what the stop waits for.
    """
    *before, last = statuses
    early = [queue for queue in before if not waits_for(queue)]
    return is_said(last, state) and len(early) <= 1 and not any(is_said(queue, state) for queue in before)


def is_said(queue: Object, state: str) -> bool:
    is_acknowledged = is_stopped(queue) if state == "Suspended" else is_active(queue)
    return state_of(queue) == state and is_acknowledged and is_answered(queue)


def test_each_names_the_ancestor(forest: Sandbox) -> None:
    """The deepest too."""
    forest.suspend("level-0-0", reason="new disks")
    found = forest.in_state(name(LEVELS - 1, 0), "Suspended")
    assert 'by its ancestor "level-0-0" (new disks)' in condition(found, "Active")["message"]
    assert state_of(forest.read_queue(name(0, WIDTH // 2))) == "Open"
    forest.edit("level-0-0", state="Open")
    forest.in_state(name(LEVELS - 1, 0), "Open")


def test_a_branch_that_is_moved_under_a_stopped_queue_is_stopped(forest: Sandbox) -> None:
    """And goes on when it is moved away."""
    forest.suspend("level-0-1")
    forest.patch_queue("level-1-0", parent="level-0-1").must()
    forest.in_state("level-1-0", "Suspended")
    forest.in_state(name(LEVELS - 1, 0), "Suspended")
    forest.patch_queue("level-1-0", parent="level-0-0").must()
    forest.in_state(name(LEVELS - 1, 0), "Open")
    forest.edit("level-0-1", state="Open")


def test_a_queue_with_children_is_not_deleted(forest: Sandbox) -> None:
    """Closed though it is, until they are gone."""
    forest.edit("level-8-9", state="Closed")
    forest.in_state("level-8-9", "Closed")
    refused = forest.api.delete(f"{QUEUES}/level-8-9")
    assert refused.status == 403
    assert "child queue" in refused.body["message"]
