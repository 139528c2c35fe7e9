"""--wait waits for the acknowledgement of the generation that was written, and says what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from kubectl_queue.cli.flags import parse
from kubectl_queue.commands.verbs import load
from kubectl_queue.edit.wait import PollTimer, wait
from kubectl_queue.edit.window_lines import window_operation_of
from kubectl_queue.errors import SilentError, WaitTimeout
from kubectl_queue.objects.fields import Object
from kubectl_queue.views.acknowledgement import AcknowledgementWait, acknowledgement_wait, live_members
from queues.states import Action, State
from tests.support.cases import each_case
from tests.support.plugin.harness import item, snapshot

STOPPED = AcknowledgementWait(condition="Active", wanted=False)
CLOSED = AcknowledgementWait(condition="Accepting", wanted=False, state=State.CLOSED)


def seen(generation: int, *, condition: int, active: str, **status: Any) -> dict[str, Any]:
    conditions = [{"type": "Active", "status": active, "observedGeneration": condition, "message": "because"}]
    return {"observedGeneration": generation, "conditions": conditions, **status}


@each_case(
    ("status", "missing"),
    [
        ({}, "not acknowledged yet"),
        (seen(3, condition=3, active="False"), "not acknowledged yet"),
        (seen(4, condition=3, active="False"), "Active is not False yet"),
        (seen(4, condition=4, active="True"), "Active is not False yet"),
        (seen(4, condition=4, active="False"), ""),
        (seen(5, condition=5, active="False"), ""),
    ],
)
def test_the_status_and_the_condition_must_both_be_of_the_generation(
    status: dict[str, Any], missing: str
) -> None:
    assert STOPPED.missing(item("b", status=status, generation=4), since=4) == missing


def test_wait_for_closed_waits_longer_than_for_the_acknowledgement() -> None:
    conditions = [{"type": "Accepting", "status": "False", "observedGeneration": 1}]
    status = {"observedGeneration": 1, "conditions": conditions, "state": "Closing"}
    assert CLOSED.missing(item("b", status=status), since=1) == "not Closed yet"


@pytest.mark.parametrize(
    ("action", "wanted"), [(Action.OPEN, True), (Action.RESUME, False), (Action.SUSPEND, False)]
)
def test_the_wanted_status_follows_from_the_rules_ancestors_included(action: Action, *, wanted: bool) -> None:
    verdict = snapshot(item("a", state="Suspended"), item("b", parent="a")).decisions.verdict("b", live=True)
    assert acknowledgement_wait(action, verdict).wanted is wanted


def reader(*answers: Object | Exception) -> Any:
    waiting = list(answers)

    def read() -> Sequence[Object]:
        answer = waiting.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return [answer]

    return read


def test_wait_reads_until_the_condition_holds_and_survives_an_unreachable_server() -> None:
    said: list[str] = []
    there = item("b", status=seen(1, condition=1, active="False"))
    found = wait(
        STOPPED,
        items=[item("b")],
        read=reader(SilentError("no answer"), there),
        say=said.append,
        timer=PollTimer(timedelta(seconds=60)),
    )
    assert found == [there]
    assert said[:2] == [
        'queue "b": not acknowledged yet; live pods are not counted yet',
        'queue "b": no answer',
    ]


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({}, "the status is that of generation 0 and not yet of 1: is Sluice's controller running?"),
        (seen(1, condition=1, active="True"), "; because"),
    ],
)
def test_the_time_out_names_what_is_missing(status: dict[str, Any], said: str) -> None:
    with pytest.raises(WaitTimeout) as error:
        wait(
            STOPPED,
            items=[item("b", status=status)],
            read=reader(),
            say=lambda _: None,
            timer=PollTimer(timedelta(microseconds=1)),
        )
    assert str(error.value).startswith("error: timed out after ")
    assert str(error.value).endswith(said)


def test_members_of_the_queues_below_are_counted_too() -> None:
    statuses: list[dict[str, Any]] = [
        {"pods": {"running": 2, "pending": 1}, "inqueue": 1},
        {"pods": {"running": 1}},
    ]
    items = [item("b", status=status) for status in statuses]
    assert live_members(items, closing=True) == "4 live pods left (3 running, 1 pending), 1 PodGroup left"


def test_what_keeps_a_queue_from_closed_is_named_though_it_has_no_pods() -> None:
    """A suspended Job."""
    kept = {"kind": "Job", "namespace": "team", "name": "train", "queue": "b"}
    items = [item("b", status={"pods": {"running": 0, "pending": 0}, "closing": kept})]
    pods = "0 live pods left (0 running, 0 pending)"
    said = f"{pods}; kept from Closed by job team/train of queue b"
    assert live_members(items, closing=True) == said
    assert live_members(items, closing=False) == pods.replace(" left", "")


def test_the_beginning_of_a_window_is_waited_for_though_the_queue_is_not_stopped_yet() -> None:
    """Else a server whose clock is a little behind would end the wait with "acknowledged: Open"."""
    verdict = snapshot(item("a")).decisions.verdict("a", live=True)
    assert verdict.schedules
    for word, stops in (("start", True), ("skip", False)):
        operation = window_operation_of(
            word,
            "nightly",
            parse(["start", "a", "nightly"], load("windows").flags, command="kubectl queue windows"),
            queue="a",
            queues=snapshot(item("a")),
            simulates=False,
        )
        condition = operation.wait_condition(verdict)
        assert isinstance(condition, AcknowledgementWait)
        assert condition.stopping is stops
