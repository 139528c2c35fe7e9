"""`kubectl queue usage`: what queues use of their quotas: a table with bars or without, and a structure."""

from __future__ import annotations

import io
import json

import pytest

from kubectl_queue.access.client import WatchEvent
from kubectl_queue.objects.fields import Object
from kubectl_queue.output.console import Console
from kubectl_queue.output.usage import ASCII, BESIDE_COLUMNS, UNICODE, bar, usage_lines
from kubectl_queue.views.room import BESIDE_TEXTS
from kubectl_queue.views.usage import usage_rows
from queues.quota.report import BESIDE
from tests.kubectl_queue.commands.test_tree_watch import WatchedQueues
from tests.support.cases import each_case
from tests.support.plugin.harness import StoredQueues, item, run_command, snapshot


def quota(waiting: int = 0, **used: str) -> Object:
    return {"quota": {"used": {**used, "sluice.dev/more-resources": "7"}, "waiting": waiting}}


LAB = item(
    "lab",
    status=quota(3, cpu="7", memory="4Gi", pods="7"),
    capability={"cpu": "8", "memory": "8Gi"},
    deserved={"cpu": "4"},
)
VISION = item(
    "vision",
    parent="lab",
    status=quota(3, cpu="6", memory="0", pods="6"),
    deserved={"cpu": "2500m"},
    guarantee={"resource": {"cpu": "1"}},
)
SPEECH = item("speech", parent="lab", status=quota(0, cpu="1", memory="4Gi"), deserved={"cpu": "2"})
FREE = item("free", status={})
ALL = (item("root", status={}), LAB, VISION, SPEECH, FREE)


def test_at_a_terminal_the_tree_has_a_bar_for_each_limit() -> None:
    head, *lines = usage_lines(usage_rows(snapshot(*ALL)), bars=UNICODE)
    headings = "QUEUE RESOURCE USED LIMIT FULL DESERVED GUARANTEE LENT BORROWED WAITING"
    assert head.split() == headings.split()
    assert lines == [
        "lab        cpu        7      8       ████████░░ 87%   4                             3          3",
        "           memory     4Gi    8Gi     █████░░░░░ 50%",
        "  speech   cpu        1                               2                      1                 0",
        "           memory     4Gi",
        "  vision   cpu        6                               2500m      1                  3500m      3",
        "           memory     0",
    ]


def test_elsewhere_there_are_no_bars_and_each_line_names_its_queue() -> None:
    """Columns that say nothing of any queue are left out."""
    done = run_command(StoredQueues(item("root"), {**LAB, "spec": {"capability": {"cpu": "8"}}}), "usage")
    assert done.out.splitlines() == [
        "QUEUE   RESOURCE   USED   LIMIT   WAITING",
        "lab     cpu        7      8       3",
        "lab     memory     4Gi            3",
    ]


def test_what_was_deleted_by_force_has_a_column_while_there_is_any() -> None:
    status = {"quota": {"used": {"cpu": "7"}, "waiting": 0, "forceDeleted": {"cpu": "2", "pods": "2"}}}
    queues = StoredQueues(item("root"), item("lab", status=status, capability={"cpu": "8"}))
    assert [line.split() for line in run_command(queues, "usage").out.splitlines()] == [
        ["QUEUE", "RESOURCE", "USED", "LIMIT", "DELETED", "WAITING"],
        ["lab", "cpu", "7", "8", "2", "0"],
    ]
    [told] = json.loads(run_command(queues, "usage", "-ojson").out)["queues"]
    assert told["resources"]["cpu"] == {"used": "7", "limit": "8", "forceDeleted": "2"}


def test_what_counts_though_no_pod_uses_it_has_columns_while_there_is_any() -> None:
    beside = {"releasing": 1, "ungated": 2, "setAside": 3, "guaranteedBelow": 4, "claimed": 5}
    amounts = {name: {"cpu": str(amount)} for name, amount in beside.items()}
    status = {"quota": {"used": {"cpu": "7"}, "waiting": 0, **amounts}}
    queues = StoredQueues(item("root"), item("lab", status=status, capability={"cpu": "30"}))
    columns = ["RELEASING", "UNGATED", "SET-ASIDE", "PROMISED", "CLAIMED"]
    assert [line.split() for line in run_command(queues, "usage").out.splitlines()] == [
        ["QUEUE", "RESOURCE", "USED", "LIMIT", *columns, "WAITING"],
        ["lab", "cpu", "7", "30", "1", "2", "3", "4", "5", "0"],
    ]
    [told] = json.loads(run_command(queues, "usage", "-ojson").out)["queues"]
    shown = {name: str(amount) for name, amount in beside.items()}
    assert told["resources"]["cpu"] == {"used": "7", "limit": "30", **shown}


def test_of_one_queue_those_above_that_bound_it_are_shown_and_its_siblings_are_not() -> None:
    done = run_command(StoredQueues(*ALL), "usage", "vision", "--no-headers")
    assert [line.split()[0] for line in done.out.splitlines()] == ["lab", "lab", "vision", "vision"]


def test_the_structure_has_what_is_known() -> None:
    told = json.loads(run_command(StoredQueues(*ALL), "usage", "-ojson").out)
    assert [each["name"] for each in told["queues"]] == ["lab", "speech", "vision"]
    assert told["queues"][2] == {
        "name": "vision",
        "parent": "lab",
        "waiting": 3,
        "resources": {
            "cpu": {
                "used": "6",
                "deserved": "2500m",
                "guarantee": "1",
                "lent": "0",
                "borrowed": "3500m",
            },
            "memory": {"used": "0"},
        },
    }


def test_a_capability_that_does_not_hold_yet_is_named() -> None:
    enforced = {"type": "QuotaEnforced", "status": "False", "message": 'queue "lab" uses more'}
    late = {**LAB, "status": {**LAB["status"], "conditions": [enforced]}}
    done = run_command(StoredQueues(late), "usage")
    assert done.err == 'queue "lab" uses more\n'
    told = json.loads(run_command(StoredQueues(late), "usage", "-ojson").out)
    assert told["queues"][0]["notEnforced"] == 'queue "lab" uses more'


def test_what_the_controller_has_not_written_is_no_zero() -> None:
    done = run_command(StoredQueues(item("lab", capability={"pods": "8"})), "usage")
    assert done.out.splitlines()[1].split() == ["lab", "pods", "8"]
    assert 'queue "lab" has a quota and no status.quota yet' in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [((), "no queue has a quota"), (("free",), 'queue "free" has no quota')],
    ids=["all", "one"],
)
def test_where_no_queue_has_a_quota_it_says_so(words: tuple[str, ...], said: str) -> None:
    done = run_command(StoredQueues(item("root"), FREE), "usage", *words)
    assert (done.code, done.out, said in done.err) == (0, "", True)


def test_a_name_that_is_none_is_an_error() -> None:
    with pytest.raises(Exception, match='"labb" not found'):
        run_command(StoredQueues(*ALL), "usage", "labb")


@each_case(
    ("part", "drawn"),
    [
        (0.0, ".......... 0%"),
        (0.01, "#......... 1%"),
        (0.999, "#########. 99%"),
        (1.0, "########## 100%"),
        (2.5, "########## 250%"),
        (None, ""),
    ],
)
def test_only_what_is_full_looks_full_and_only_what_is_empty_looks_empty(
    part: float | None, drawn: str
) -> None:
    assert bar(part, ASCII) == drawn


def test_bars_are_for_terminals() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert Console(Terminal(), io.StringIO()).at_terminal
    assert not Console(io.StringIO(), Terminal()).at_terminal


def test_it_is_shown_again_where_it_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    monkeypatch.setattr("kubectl_queue.output.console.Console.say", lambda _self, text: texts.append(text))
    after = {**LAB, "status": quota(2, cpu="8", memory="4Gi")}
    same, changed = WatchEvent("MODIFIED", LAB), WatchEvent("MODIFIED", after)
    with pytest.raises(ConnectionError):
        run_command(WatchedQueues(*ALL, events=[same, changed, changed]), "usage", "lab", "-w")
    assert len(texts) == 2
    assert [line.split()[2] for line in texts[1].strip().splitlines()[1:3]] == ["8", "4Gi"]


def test_all_that_counts_has_its_column_and_its_text() -> None:
    """A new amount in the status would be shown nowhere otherwise."""
    assert set(BESIDE_COLUMNS.values()) == BESIDE_TEXTS.keys() == set(BESIDE)
