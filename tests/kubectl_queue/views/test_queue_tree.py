"""What the rows of the tree say beside the words that `kubectl queue tree` prints of them."""

from __future__ import annotations

from typing import Any

import pytest

from kubectl_queue.output.tables import Table
from kubectl_queue.views.queue_tree import tree_rows
from kubectl_queue.views.why import CHAIN, explain_queue, sections
from tests.support.plugin.harness import NOW, item, snapshot

BLOCKED = {"conditions": [{"type": "Drained", "status": "False", "reason": "Blocked"}]}


@pytest.mark.parametrize(
    ("policy", "status", "pending", "drained"),
    [
        ("Hold", {"stop": {"waitingFor": "PassOpen: pod ns/p"}}, True, ""),
        ("Hold", {}, False, ""),
        ("None", {"stop": {"waitingFor": "PassOpen: pod ns/p"}, **BLOCKED}, False, ""),
        ("HoldAndDrain", BLOCKED, False, "Blocked"),
    ],
    ids=["pending", "the server does not say", "it has ended", "blocked"],
)
def test_stops_that_are_pending_and_drains_that_are_blocked_are_told_without_reading_words(
    policy: str, status: dict[str, Any], *, pending: bool, drained: str
) -> None:
    (row,) = tree_rows(snapshot(item("b", stopPolicy=policy, status=status)), top="b")
    assert (row.stop_pending, row.drained) == (pending, drained)


@pytest.mark.parametrize(
    ("capability", "quota", "said"),
    [
        ({"cpu": "4"}, {"used": {"cpu": "1500m", "pods": "2"}, "waiting": 0}, "cpu 1500m of 4"),
        ({"cpu": "4"}, {"used": {"cpu": "4", "pods": "4"}, "waiting": 1}, "cpu 4 of 4; 1 waits for room"),
        (None, {"used": {"cpu": "4"}, "waiting": 12}, "12 wait for room"),
        (None, {"used": {"cpu": "4"}, "waiting": 0}, ""),
        ({"cpu": "4"}, None, ""),
        ({"cpu": "4"}, {"used": "everything", "waiting": 0}, "cpu 0 of 4"),
    ],
    ids=["room", "none left", "of a queue above", "nothing of its own", "not counted yet", "spoilt"],
)
def test_a_row_says_what_is_used_of_the_queues_own_capability(
    capability: Any, quota: Any, *, said: str
) -> None:
    (row,) = tree_rows(snapshot(item("b", capability=capability, status={"quota": quota})), top="b")
    assert row.quota == said


def test_queues_of_a_cycle_and_those_without_a_parent_have_one_row_each() -> None:
    queues = snapshot(item("a", parent="b"), item("b", parent="a"), item("c", parent="none"), item("d"))
    assert [(row.name, row.parent) for row in tree_rows(queues)] == [
        ("root", ""),
        ("d", "root"),
        ("c", ""),
        ("a", ""),
        ("b", "a"),
    ]


NIGHTLY = {
    "name": "nightly",
    "schedule": "0 2 * * *",
    "duration": "2h",
    "timeZone": "Europe/Berlin",
    "stopPolicy": "Hold",
    "reason": "backups",
}
IN_NIGHTLY: dict[str, Any] = {
    "windows": [NIGHTLY],
    "inWindow": [{"name": "nightly", "start": "2030-01-01T11:00:00Z", "until": "2030-01-01T13:00:00Z"}],
}


def test_a_window_is_named_with_its_queue_and_its_end_on_its_own_clock() -> None:
    queues = snapshot(item("a", **IN_NIGHTLY), item("b", parent="a"))
    own, below = tree_rows(queues, top="a")
    assert own.cause.startswith("Hold until 14:00 CET, window nightly (backups)")
    assert below.cause.startswith("Hold until 14:00 CET, window nightly of a (backups)")


def test_a_table_says_which_window_is_on_where_it_says_when_a_stop_ends() -> None:
    head, row, _ = Table().lines([item("a", **IN_NIGHTLY), item("b", windows=[NIGHTLY])], now=NOW)
    assert head.split()[-1] == "RESUMES"
    assert row.endswith("   Hold until 14:00 CET, window nightly")


def test_why_says_which_window_who_wrote_it_and_when_it_ends() -> None:
    line = {
        "by": "sluice: window nightly",
        "field": "inWindow",
        "to": "nightly Hold until 2030-01-01T13:00:00Z",
        "at": "2030-01-01T11:00:00Z",
    }
    queues = snapshot(item("a", status={"changes": [line]}, **IN_NIGHTLY))
    answer = explain_queue("a", queues)
    shown = {each.heading: each for each in sections(answer.explanation, now=NOW)}
    assert answer.explanation.stops[0].window == "nightly"
    [stopped] = shown["Stopped by"].lines
    assert stopped.startswith("sluice: window nightly, 2030-01-01T11:00:00Z (60m ago): inWindow of queue")
    assert shown["Let go by"].lines == (
        "kubectl queue resume a",
        "itself at 2030-01-01T13:00:00Z (in 60m)",
    )
    [row] = [row for row in shown[CHAIN].chain if row.queue == "a"]
    assert row.marks == ("window nightly Hold until 2030-01-01T13:00:00Z", "stops it")
