"""The checks before a queue is Closed: what the API server lists, and how long an answer holds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from cluster.api.client import Client
from controller.status.closing import (
    PODGROUPS,
    Close,
    ClosingChecks,
    closing_status,
    occupied_by_unlabelled,
    occupied_labels,
)
from controller.workqueue import WorkQueue
from queues.managed_namespaces import read_selector
from queues.membership import MembershipSettings, label_value
from queues.status.closing import ClosingStatus
from tests.support.controller.contexts import context_with
from tests.support.http.asking import Server, SetClock
from tests.support.http.wire_objects import Wire, job, member, namespace, podgroup, queue, workload

QUEUE = "sluice.dev/queue"


def occupied(*groups: Wire) -> list[str]:
    """The labels with a live member, where these PodGroups are all objects."""

    def request(_method: str, path: str, **_: Any) -> bytes:
        found = list(groups) if path == PODGROUPS else []
        return msgspec.json.encode({"metadata": {"resourceVersion": "1"}, "items": found})

    client = cast(Client, SimpleNamespace(request=request))
    return list(occupied_labels(client, ["labs", "research"]))


def group(name: str, queue: str, **status: object) -> Wire:
    made = podgroup(name, queue=queue)
    made["metadata"]["labels"] = {QUEUE: queue}
    return {**made, "status": status}


def test_an_object_that_cannot_be_read_keeps_its_own_queue_and_no_other() -> None:
    """It may be live. The other queue of the same question gets its answer."""
    odd = group("odd", "labs", conditions=[{"type": "x", "lastTransitionTime": "2024-01-01T00:00:00x5Z"}])
    assert occupied(odd, group("gang", "research")) == ["labs", "research"]
    assert occupied(odd, group("done", "research", phase="Completed")) == ["labs"]


# What is said to keep a queue from Closed


def kept(spec: Wire, *objects: Wire) -> ClosingStatus | None:
    """What keeps queue `labs`, or one below it, of which these objects are live members."""
    store = Server().has(queue("labs", **spec), queue("below", parent="labs"), *objects).store
    return closing_status(store, store.snapshot.verdict("labs", live=bool(objects)))


def test_a_live_member_is_named_with_its_queue_and_how_many_others_there_are() -> None:
    """Rather what a user made than its pods; first of the queue that comes first by name."""
    pod, work = member("x", "labs"), job("train", queue="labs")
    closed: Wire = {"state": "Closed"}
    assert kept(closed, pod, work) == ClosingStatus(
        kind="Job", namespace="team", name="train", queue="labs", others=1
    )
    below = kept(closed, pod, podgroup("gang", queue="below"))
    assert below == ClosingStatus(kind="PodGroup", namespace="team", name="gang", queue="below")
    suspended = kept({"state": "Closed", "stopPolicy": "Hold"}, pod)
    assert suspended == ClosingStatus(kind="Pod", namespace="team", name="x", queue="labs")


def test_nothing_keeps_a_queue_that_is_closed_or_is_not_to_be() -> None:
    """A broken chain takes no new work either, and no queue of it is to be Closed."""
    assert kept({"state": "Closed"}) is None
    assert kept({}, member("x", "labs")) is None
    assert kept({"parent": "ghost"}, member("x", "labs")) is None


# How long an answer holds, with a clock that the test moves


class Checks:
    """The checks of closes, and an API server whose answer the test gives."""

    def __init__(self) -> None:
        self.clock = SetClock()
        self.questions = 0
        self._work_queue = WorkQueue(self.clock.monotonic)
        self.checks = ClosingChecks(
            context_with(
                store=SimpleNamespace(clock=self.clock, selects=lambda _queue, _namespace: True),
                writers=SimpleNamespace(submit=self._submit),
                work_queue=self._work_queue,
            )
        )

    def _submit(self, *_: object, **__: object) -> bool:
        self.questions += 1
        return True

    def ask(self, *closes: Close) -> None:
        for close in closes:
            self.checks.request(close)
        self.checks.step()

    def answer(self, *closes: Close, occupied: set[str] | None) -> None:
        """The answer to a question about these closes: the queues with a live member; None if it failed."""
        labels = None if occupied is None else frozenset(map(label_value, occupied))
        self.checks._receive(list(closes), labels)


@pytest.fixture
def checks() -> Checks:
    return Checks()


def close(queue: str = "labs", *below: str, revision: str = "1", uid: str = "") -> Close:
    return Close(queue, uid or f"uid-{queue}", revision, frozenset({queue, *below}))


def test_a_close_is_empty_only_by_the_answer_of_the_api_server(checks: Checks) -> None:
    assert checks.checks.is_empty(close()) is None
    checks.ask(close())
    assert checks.checks.is_empty(close()) is None
    checks.answer(close(), occupied=set())
    assert checks.checks.is_empty(close()) is True


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (close(), True),
        (close(revision="2"), None),
        (close("labs", "vision"), None),
        (close(uid="another"), None),
    ],
    ids=["the same", "another spec", "another queue below", "created again"],
)
def test_an_answer_holds_for_one_close(checks: Checks, other: Close, expected: bool | None) -> None:
    checks.ask(close())
    checks.answer(close(), occupied=set())
    assert checks.checks.is_empty(other) is expected


def test_a_member_below_keeps_a_queue_from_closed(checks: Checks) -> None:
    checks.ask(close("labs", "vision"), close("research"))
    checks.answer(close("labs", "vision"), close("research"), occupied={"vision"})
    assert checks.checks.is_empty(close("labs", "vision")) is False
    assert checks.checks.is_empty(close("research")) is True


def test_all_closes_are_one_question(checks: Checks) -> None:
    checks.ask(close("a"), close("b"), close("c"))
    checks.checks.step()
    assert checks.questions == 1, "and without a request there is none"


def test_a_question_that_failed_leaves_the_answer_open(checks: Checks) -> None:
    checks.ask(close())
    checks.answer(close(), occupied=None)
    assert checks.checks.is_empty(close()) is None
    assert checks.checks.seconds_left(close()) == 0.5


def test_a_queue_that_stays_occupied_is_asked_about_with_a_growing_back_off(checks: Checks) -> None:
    waits = []
    for _ in range(9):
        checks.ask(close())
        checks.answer(close(), occupied={"labs"})
        waits.append(checks.checks.seconds_left(close()))
        checks.clock.seconds += waits[-1]
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]


def test_while_it_backs_off_no_question_is_asked(checks: Checks) -> None:
    """A new close of the queue waits for no longer than the first back-off."""
    for _ in range(4):
        checks.ask(close())
        checks.answer(close(), occupied={"labs"})
        checks.clock.seconds += checks.checks.seconds_left(close())
    checks.ask(close())
    checks.answer(close(), occupied={"labs"})
    asked = checks.questions
    checks.clock.seconds += 0.5
    checks.ask(close())
    assert checks.questions == asked
    checks.ask(close(revision="2"))
    assert checks.questions == asked + 1


def test_an_answer_for_a_former_close_is_dropped(checks: Checks) -> None:
    """The queue was opened and closed again while the question was under way."""
    checks.ask(close())
    checks.clock.seconds += 0.5
    checks.ask(close(revision="2"))
    checks.answer(close(), occupied=set())
    assert checks.checks.is_empty(close(revision="2")) is None
    checks.answer(close(revision="2"), occupied={"labs"})
    assert checks.checks.is_empty(close(revision="2")) is False


def test_a_queue_that_accepts_again_is_forgotten(checks: Checks) -> None:
    checks.ask(close())
    checks.checks.forget("labs")
    checks.answer(close(), occupied=set())
    assert checks.checks.is_empty(close()) is None
    assert checks.checks.seconds_left(close()) == 0.0


# Workloads without the label


def unlabelled(*objects: Wire, rules: MembershipSettings | None = None) -> set[str]:
    """The queues among research and labs with a live workload that has no label."""

    def request(_method: str, path: str, *, query: dict[str, Any], **_: Any) -> bytes:
        assert query["labelSelector"] == f"!{QUEUE}"
        found = [obj for obj in objects if path == f"/apis/{obj['apiVersion']}/{obj['kind'].lower()}s"]
        return msgspec.json.encode({"metadata": {"resourceVersion": "1"}, "items": found})

    client = cast(Client, SimpleNamespace(request=request))
    server = Server(rules=rules) if rules else Server()
    store = server.has(queue("research"), queue("labs"), namespace("named", queue="labs")).store
    context = context_with(store=store, list_client=client)
    return set(occupied_by_unlabelled(context, frozenset({"research", "labs"})))


def test_a_live_workload_without_the_label_keeps_its_queue_from_closed() -> None:
    """By its own words, or by its namespace's; one that has finished or is in another queue does not."""
    assert unlabelled(job("train", queue="research")) == {"research"}
    assert unlabelled(workload("deployments.apps", "web", namespace="named")) == {"labs"}
    assert unlabelled(job("done", queue="research", done="Complete"), job("others", queue="other")) == set()
    assert unlabelled(job("stranger")) == set()


def test_a_workload_of_a_namespace_that_is_not_managed_keeps_no_queue_from_closed() -> None:
    rules = MembershipSettings(managed_namespaces=read_selector("sluice.dev/managed=true"))
    named = workload("deployments.apps", "web", namespace="named")
    named["metadata"]["annotations"] = {"sluice.dev/queue": "labs"}
    assert unlabelled(named) == {"labs"}
    assert unlabelled(named, rules=rules) == set()
