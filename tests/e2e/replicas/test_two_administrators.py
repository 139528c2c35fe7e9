"""Two administrators edit a parent and its children at once, without asking each other."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster.cache.queues import queue_from_object
from cluster.objects import QueueObject
from queues.tree import Tree
from queues.verdict import verdict
from tests.support.e2e.api_requests import Api, Object
from tests.support.e2e.objects import (
    condition,
    is_answered,
    state_of,
)
from tests.support.e2e.sandbox import QUEUES, Sandbox
from tests.support.e2e.wait import until

#: The parent, a child where a pod runs, and one that is empty.
SHORT = ("parent", "busy", "empty")
#: With a live member of their own or below.
LIVE = frozenset({"parent", "busy"})


class Edit(NamedTuple):
    short: str
    field: str
    value: str


class Shown(NamedTuple):
    """What a queue's status says."""

    state: str
    accepting: str
    active: str


states = st.builds(
    Edit, st.sampled_from(SHORT), st.just("state"), st.sampled_from(("Open", "Suspended", "Closed"))
)
policies = st.builds(Edit, st.sampled_from(SHORT), st.just("stopPolicy"), st.sampled_from(("None", "Hold")))
toggles = st.lists(states | states | policies, min_size=1, max_size=8)


@pytest.fixture
def tree(sandbox: Sandbox) -> Sandbox:
    parent = sandbox.queue("parent")
    sandbox.all_bound(sandbox.pods("running", 1, sandbox.queue("busy", parent=parent)))
    sandbox.queue("empty", parent=parent)
    return sandbox


@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(ann=toggles, bob=toggles)
def test_what_is_shown_follows_from_what_both_have_left(
    tree: Sandbox, ann: list[Edit], bob: list[Edit]
) -> None:
    """Whatever came first and whatever was refused: state, Accepting and Active of all three are those of
    the verdict over their specs. (Each run goes on from where the one before ended.)"""
    with ThreadPoolExecutor(2) as pool:
        codes = [*pool.map(lambda edits: toggled(tree, edits), (ann, bob))]
    assert {code for each in codes for code in each} <= {200, 409, 422}
    found: list[Object] = []

    def settled() -> bool:
        found[:] = [tree.read_queue(tree.named(short)) for short in SHORT]
        return all(map(is_answered, found)) and shown(found) == wanted(tree, found)

    until(settled, "the status to follow from the specs")


def toggled(sandbox: Sandbox, edits: Sequence[Edit]) -> list[int]:
    """One administrator's edits, one after the other; what they were answered."""
    with Api(sandbox.cluster) as api:
        return [
            api.patch(f"{QUEUES}/{sandbox.named(edit.short)}", {"spec": {edit.field: edit.value}}).status
            for edit in edits
        ]


def shown(found: Sequence[Object]) -> list[Shown]:
    return [
        Shown(state_of(one), condition(one, "Accepting")["status"], condition(one, "Active")["status"])
        for one in found
    ]


def wanted(sandbox: Sandbox, found: Sequence[Object]) -> list[Shown]:
    """What the rules make of these specs."""
    queues = [queue_from_object(msgspec.convert(one, QueueObject)) for one in found]
    tree = Tree({queue.name: queue for queue in queues})
    verdicts = [
        verdict(sandbox.named(short), tree=tree, live=short in LIVE, now=datetime.now(UTC)) for short in SHORT
    ]
    return [Shown(one.state, str(one.accepts), str(one.schedules)) for one in verdicts]
