"""`--wait`, `why` and `tree` take a stop as acknowledged only for the specs of its chain as they are read."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any, cast

import pytest

from kubectl_queue.access.client import Queues
from kubectl_queue.access.queue_reader import read_chain, read_generations
from kubectl_queue.commands.tree import draw
from kubectl_queue.edit.wait import PollTimer, progress_now, wait
from kubectl_queue.errors import ForbiddenError, NotFoundError, SilentError, WaitTimeout
from kubectl_queue.objects.explained import observed_chain
from kubectl_queue.objects.fields import Object
from kubectl_queue.objects.queues import QueueObjects, stop_acknowledgement
from kubectl_queue.views.acknowledgement import AcknowledgementWait, WaitCondition
from kubectl_queue.views.drain_status import DrainWait
from kubectl_queue.views.queue_tree import tree_rows
from queues.status.stop_status import (
    Acknowledgement,
    ObservedChain,
    QueueGeneration,
)
from queues.why.explain import explain
from queues.why.explanation import (
    ExplainedMembership,
    ObjectRef,
    ObservedObject,
)
from tests.support.cases import each_case
from tests.support.plugin.harness import (
    NOW,
    item,
    snapshot,
)

STOPPED = AcknowledgementWait(condition="Active", wanted=False)
ROOT = item("root", generation=1)
WAITS = "PassOpen: pod ns/p was let through by replica-1 and may still be bound"
PENDING_NOTE = "the stop of its queue is not acknowledged yet: some of its pods may still be bound"
OUTDATED_NOTE = "the controller has not acknowledged its queue as it is now; is it running?"


def stopped(
    *, generation: int = 4, active: str = "False", parent: int = 7, kind: str = "Active", **stop: Any
) -> Object:
    """Queue b below a, which is suspended; its status is of generation 4, `parent` of its parent."""
    chain = [("b", 4), ("a", parent), ("root", 1)]
    condition = {"type": kind, "status": active, "observedGeneration": 4, "reason": "Drained"}
    status = {
        "state": "Suspended",
        "observedGeneration": 4 if active == "False" else 3,
        "conditions": [condition],
        "stop": {"chain": [{"name": name, "generation": number} for name, number in chain], **stop},
    }
    return item("b", generation=generation, parent="a", status=status)


PARENT = item("a", generation=7, state="Suspended")


class ReadQueues:
    """Answers from values, and counts what it is asked."""

    now = NOW

    def __init__(self, *items: Object | Exception, **failing: Exception) -> None:
        self._items = {each["metadata"]["name"]: each for each in items if isinstance(each, dict)}
        self._failing = failing
        self.asked: list[str] = []

    def get(self, name: str) -> Object:
        self.asked.append(name)
        if name in self._failing:
            raise self._failing[name]
        if name not in self._items:
            raise NotFoundError(f"{name} not found", code=404)
        return self._items[name]


def chain_of(queues_read: ReadQueues, queue: Object) -> ObservedChain:
    return read_generations(cast("Queues", queues_read), queue)


def missing_now(condition: WaitCondition, queue: Object, queues_read: ReadQueues) -> str:
    return progress_now(condition, [queue], since=4, chain=partial(chain_of, queues_read)).missing


@each_case(
    ("queue", "missing"),
    [
        (stopped(scope="s"), ""),
        (stopped(), "not acknowledged yet"),
        (stopped(waitingFor=WAITS), f"not acknowledged yet ({WAITS})"),
        (stopped(active="True", waitingFor=WAITS), f"not acknowledged yet ({WAITS})"),
        (stopped(active="Unknown", waitingFor=WAITS), f"not acknowledged yet ({WAITS})"),
        (stopped(scope="s", parent=6), "not acknowledged yet"),
        (stopped(scope="s", generation=5), "not acknowledged yet"),
    ],
)
def test_wait_goes_on_until_the_stop_is_acknowledged_for_the_chain(queue: Object, missing: str) -> None:
    queues_read = ReadQueues(PARENT, ROOT)
    assert missing_now(STOPPED, queue, queues_read) == missing


def test_what_an_older_spec_waits_for_is_not_shown() -> None:
    queue = stopped(generation=5, active="True", waitingFor=WAITS)
    assert STOPPED.missing(queue, since=5) == "not acknowledged yet"


def test_ancestors_are_read_only_after_the_queue_itself_is_acknowledged() -> None:
    queues_read = ReadQueues(PARENT, ROOT)
    assert missing_now(STOPPED, stopped(), queues_read)
    assert queues_read.asked == []
    assert not missing_now(STOPPED, stopped(scope="s"), queues_read)
    assert queues_read.asked == ["a", "root"]


@pytest.mark.parametrize(("parent", "missing"), [(7, ""), (6, "not acknowledged yet")])
def test_a_drain_has_ended_only_while_its_stop_is_acknowledged(parent: int, missing: str) -> None:
    queue = stopped(scope="s", parent=parent)
    queue["spec"]["stopPolicy"] = "HoldAndDrain"
    drained = {**queue["status"]["conditions"][0], "type": "Drained", "status": "True"}
    queue["status"]["conditions"].append(drained)
    queues_read = ReadQueues(PARENT, ROOT)
    assert missing_now(DrainWait(), queue, queues_read) == missing


@each_case(
    ("queues_read", "read"),
    [
        (
            ReadQueues(PARENT, ROOT),
            ObservedChain(
                (QueueGeneration("b", 4), QueueGeneration("a", 7), QueueGeneration("root", 1)), whole=True
            ),
        ),
        (
            ReadQueues(PARENT),
            ObservedChain(
                (QueueGeneration("b", 4), QueueGeneration("a", 7), QueueGeneration("root", 0)), whole=True
            ),
        ),
        (ReadQueues(ROOT), ObservedChain((QueueGeneration("b", 4),), whole=True)),
        (
            ReadQueues(PARENT, root=ForbiddenError("no", code=403)),
            ObservedChain((QueueGeneration("b", 4), QueueGeneration("a", 7))),
        ),
        (ReadQueues(a=ForbiddenError("no", code=403)), ObservedChain((QueueGeneration("b", 4),))),
    ],
)
def test_the_chain_is_read_as_far_as_the_user_may(queues_read: ReadQueues, read: ObservedChain) -> None:
    assert chain_of(queues_read, stopped()) == read


def test_a_chain_that_cannot_be_read_for_a_moment_is_read_again() -> None:
    said: list[str] = []
    answers: list[Object] = [stopped(scope="s")]
    failing = [SilentError("no answer")]

    def chain(queue: Object) -> ObservedChain:
        if failing:
            raise failing.pop()
        return chain_of(ReadQueues(PARENT, ROOT), queue)

    wait(
        STOPPED,
        items=answers,
        read=lambda: answers,
        say=said.append,
        timer=PollTimer(timedelta(seconds=60)),
        chain=chain,
    )
    assert said == ['queue "b": no answer; live pods are not counted yet']


def test_the_time_out_names_what_the_acknowledgement_waits_for() -> None:
    """And does not ask whether the controller runs, which has just said so."""
    queue = stopped(active="True", waitingFor=WAITS)
    with pytest.raises(WaitTimeout) as error:
        wait(
            STOPPED,
            items=[queue],
            read=lambda: [queue],
            say=lambda _: None,
            timer=PollTimer(timedelta(microseconds=1)),
        )
    assert f'queue "b": not acknowledged yet ({WAITS})' in str(error.value)
    assert "running?" not in str(error.value)


def test_what_was_acknowledged_before_is_waited_for_while_the_server_is_away() -> None:
    """A replica that comes back ends the wait; a time-out says since when there is none."""
    queue = stopped(scope="s", parent=7)
    chain = partial(chain_of, ReadQueues(PARENT, ROOT))
    lost, said = ["nobody since noon", ""], list[str]()
    wait(
        STOPPED,
        items=[queue],
        read=lambda: [queue],
        say=said.append,
        timer=PollTimer(timedelta(seconds=60)),
        chain=chain,
        lost=lambda: lost.pop(0),
    )
    before = "it was acknowledged before the server was lost: nobody since noon"
    assert [text.partition("; ")[0] for text in said] == [f'queue "b": {before}']
    with pytest.raises(WaitTimeout, match=before):
        wait(
            STOPPED,
            items=[queue],
            read=lambda: [queue],
            say=said.append,
            timer=PollTimer(timedelta(microseconds=1)),
            chain=chain,
            lost=lambda: "nobody since noon",
        )


def test_an_acknowledgement_of_before_says_since_when() -> None:
    queue = stopped(scope="s")
    queue["status"]["conditions"][0]["lastTransitionTime"] = "2030-01-01T11:00:00Z"
    old = AcknowledgementWait(condition="Active", wanted=False, is_old=True)
    assert old.done([queue]).startswith("acknowledged since 2030-01-01T11:00:00Z: Suspended, ")
    assert STOPPED.done([queue]).startswith("acknowledged: Suspended, ")


def why(queue: Object, *others: Object) -> tuple[str, ...]:
    queues_read = ReadQueues(queue, *others)
    chain = read_chain(cast("Queues", queues_read), "b")
    subject = ObservedObject(ref=ObjectRef("Job", "d", "ns"))
    return explain(subject, ExplainedMembership(queue="b"), queues=observed_chain("b", chain)).notes


@each_case(
    ("queue", "notes"),
    [
        (stopped(scope="s"), ()),
        (stopped(), (PENDING_NOTE,)),
        (stopped(waitingFor=WAITS), (f"{PENDING_NOTE}; it waits for {WAITS}",)),
        (stopped(active="Unknown", waitingFor=WAITS), (f"{PENDING_NOTE}; it waits for {WAITS}",)),
        (stopped(scope="s", parent=6), (OUTDATED_NOTE,)),
        (stopped(scope="s", generation=5), (OUTDATED_NOTE,)),
    ],
)
def test_why_says_that_a_stop_is_not_acknowledged(queue: Object, notes: tuple[str, ...]) -> None:
    assert why(queue, PARENT, ROOT) == notes


def test_why_does_not_mention_a_stop_that_has_ended() -> None:
    queue = stopped(parent=7)
    assert not any("acknowledged" in note for note in why(queue, item("a", generation=8), ROOT))


@pytest.mark.parametrize(
    ("queue", "cause"),
    [
        (stopped(scope="s"), "suspended by a"),
        (stopped(), "suspended by a; not acknowledged yet"),
        (stopped(waitingFor=WAITS), f"suspended by a; not acknowledged yet ({WAITS})"),
        (stopped(scope="s", parent=6), "suspended by a; not acknowledged yet"),
    ],
)
def test_the_tree_says_that_a_stop_is_not_acknowledged(queue: Object, cause: str) -> None:
    line = draw(tree_rows(snapshot(PARENT, queue, ROOT), top="b"), headings=False)[0]
    assert line.endswith(f"   {cause}")


def test_only_the_part_of_the_chain_that_was_read_is_compared() -> None:
    some = QueueObjects([stopped(scope="s")], now=NOW, complete=False)
    assert some.chain("b") == ObservedChain((QueueGeneration("b", 4),))
    found = stop_acknowledgement(stopped(scope="s"), chain=some.chain("b"))
    assert found is Acknowledgement.ACKNOWLEDGED
