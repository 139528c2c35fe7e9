"""A tree of hundreds of queues on ten levels: a stop of the top shows on all, with one write each."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from localcluster import apiserver
from localcluster.cluster import LocalCluster
from tests.support.e2e.api_requests import metric
from tests.support.e2e.objects import (
    condition,
    is_answered,
    queue_body,
    state_of,
)
from tests.support.e2e.sandbox import QUEUES, Sandbox
from tests.support.e2e.wait import until

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
        module_cluster.restart_components("server")
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
    until(lambda: writes(sandbox) >= after, f"so many writes that all are {state}", seconds=60)
    until(lambda: states(sandbox) == {state}, f"all to be {state}", seconds=60)


def listed(sandbox: Sandbox) -> list[dict[str, object]]:
    return list(sandbox.api.get(QUEUES).must().body["items"])


def states(sandbox: Sandbox) -> set[str]:
    """The states of the queues, of those that have been answered and of those that have not."""
    return {state_of(each) if is_answered(each) else "" for each in listed(sandbox)}


def writes(sandbox: Sandbox) -> float:
    """Statuses that the server has written."""
    context = apiserver.caller_context(sandbox.cluster.layout)
    return metric(sandbox.cluster.ports.server, context, WRITES)


def test_suspending_root_shows_on_all_with_hardly_more_than_one_write_each(forest: Sandbox) -> None:
    """And so does its resume."""
    number = len(listed(forest))
    assert number == LEVELS * WIDTH + 2
    for state in ("Suspended", "Open"):
        before, started = writes(forest), time.monotonic()
        forest.patch_queue("root", state=state).must()
        all_said(forest, state, after=before + number)
        print(f"{number} queues {state} after {time.monotonic() - started:.2f} s")
        # A busy machine writes some before the stop is acknowledged, and those once more.
        assert number <= writes(forest) - before <= 1.25 * number


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
