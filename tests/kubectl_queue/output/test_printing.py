"""Tables, trees and documents look as kubectl's, and nothing in them steers the terminal."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import termios
from typing import Any

import msgspec
import pytest

from kubectl_queue.cli.options import Output
from kubectl_queue.commands.history import table as history_table
from kubectl_queue.commands.tree import ASCII, draw
from kubectl_queue.commands.why import lines
from kubectl_queue.objects.fields import Object
from kubectl_queue.output.console import Console
from kubectl_queue.output.formats import dump_objects
from kubectl_queue.output.tables import Table, short_names
from kubectl_queue.views.history import with_given_back
from kubectl_queue.views.queue_tree import as_structure, tree_rows
from queues.quota.given_back import GivenBack
from queues.states import Desired, State, StopPolicy
from queues.status.changes import HistoryLine
from queues.why.explanation import ChainMember, Explanation, Fate, ObjectRef
from tests.support.cases import each_case
from tests.support.plugin.harness import (
    NOW,
    item,
    snapshot,
)

PODS = {"pods": {"pending": 2, "running": 10}}
QUEUES = [
    item(
        "root",
        status={
            "state": "Open",
            "pods": {"pending": 0, "running": 0},
            "conditions": [{"type": "Active", "status": "True"}],
        },
    ),
    item(
        "research", parent="root", stopPolicy="Hold", reason="quota\nline", status={"state": "Open", **PODS}
    ),
]


def test_the_table_has_kubectl_s_columns_and_spacing() -> None:
    assert Table().lines(QUEUES, now=NOW) == [
        "NAME       STATE   ACTIVE   STOP   PARENT   PENDING   RUNNING   AGE",
        "root       Open    True     None            0         0         5m",
        "research   Open             Hold   root     2         10        5m",
    ]


def test_wide_adds_reason_and_policy_and_shows_first_lines_alone() -> None:
    lines = Table(wide=True).lines(QUEUES, now=NOW)
    assert lines[0].endswith("AGE   REASON     POLICY   USED   LIMIT   WAITING")
    assert lines[2].rstrip().endswith("quota...")


def test_wide_shows_what_a_queue_uses_of_its_quota() -> None:
    quota = {"used": {"cpu": "3"}, "usedText": "cpu 3", "limitText": "cpu 4", "waiting": 2}
    lines = Table(wide=True).lines([item("lab", status={"quota": quota})], now=NOW)
    assert lines[1].endswith("cpu 3   cpu 4   2")


def test_rows_that_come_later_keep_the_widths() -> None:
    table = Table()
    table.lines(QUEUES, now=NOW)
    assert table.lines(QUEUES[:1], now=NOW) == [
        "root       Open    True     None            0         0         5m"
    ]


def test_what_the_controller_has_not_written_is_blank() -> None:
    (line,) = Table(headings=False).lines([item("b")], now=NOW)
    assert line.split() == ["b", "None", "5m"]


TIMED = item("timed", state="Suspended", resumeAt="2030-01-01T12:25:00Z", status={"state": "Suspended"})


@pytest.mark.parametrize("wide", [False, True])
def test_a_stop_that_ends_by_itself_says_when_in_a_last_column(*, wide: bool) -> None:
    """The column is there with such queues alone, so that all else is kubectl's to the letter."""
    head, *rows = Table(wide=wide).lines([TIMED, QUEUES[0]], now=NOW)
    assert head.split()[-1] == "RESUMES"
    assert rows[0].endswith("   2030-01-01T12:25:00Z (in 25m)")
    assert Table(wide=wide, headings=False).lines([QUEUES[0]], now=NOW)[0].split() == rows[1].split()


def test_a_time_that_is_past_is_due() -> None:
    """The controller has yet to write that it came."""
    late = item("late", state="Suspended", resumeAt="2030-01-01T11:00:00Z")
    (line,) = Table(headings=False).lines([late], now=NOW)
    assert line.endswith("2030-01-01T11:00:00Z (expired)")


def test_the_tree_counts_the_pods_of_a_branch() -> None:
    """A parent shows its own and those below it; what is not counted yet is no zero."""
    seen = snapshot(
        item("a", status={"state": "Open", "pods": {"pending": 1, "running": 0}}),
        item("b", parent="a", status={"state": "Open", **PODS}),
        item("c", status={"state": "Open"}),
    )
    rows = [line.split() for line in draw(tree_rows(seen), glyphs=ASCII, headings=False)]
    assert rows[1:3] == [
        ["|--", "a", "Open", "None", "3", "10"],
        ["|", "`--", "b", "Open", "None", "2", "10"],
    ]
    assert rows[3][1:4] == ["c", "Open", "None"]


def test_the_tree_says_when_a_stop_ends_on_the_queue_that_has_it() -> None:
    """Those below show whose stop it is."""
    seen = snapshot(TIMED, item("below", parent="timed", status={"state": "Suspended"}))
    drawn = draw(tree_rows(seen, top="timed"), headings=False)
    assert drawn[0].endswith("suspended; resumes at 2030-01-01T12:25:00Z (in 25m)")
    assert drawn[1].endswith("suspended by timed")


def test_the_tree_draws_each_queue_below_its_parent_with_its_cause() -> None:
    seen = snapshot(
        item("root", status={"state": "Open"}),
        item("a", status={"state": "Suspended"}, state="Suspended", reason="quota"),
        item("b", parent="a", status={"state": "Suspended"}),
        item("c", parent="b", status={"state": "Open"}, stopPolicy="Hold"),
        item("d", status={"state": "Closed"}, state="Closed"),
        item("e", status={"state": "Open"}, stopPolicy="HoldAndDrain"),
    )
    assert draw(tree_rows(seen)) == [
        "NAME            STATE       STOP           ALL-PENDING   ALL-RUNNING   CAUSE",
        "root            Open        None",
        "├── a           Suspended   None                                       suspended (quota)",
        "│   └── b       Suspended   None                                       suspended by a (quota)",
        "│       └── c   Suspended   Hold                                       "
        "suspended by a (quota); status still says Open",
        "├── d           Closed      None                                       closed",
        "└── e           Open        HoldAndDrain                               stopPolicy HoldAndDrain",
    ]


def test_queues_whose_chain_is_broken_stand_at_the_edge_once() -> None:
    parents = {"x": "y", "y": "x", "o": "gone", "p": "o"}
    seen = snapshot(*(item(name, parent=parent) for name, parent in parents.items()))
    names = [line.split("  ")[0] for line in draw(tree_rows(seen), glyphs=ASCII, headings=False)]
    assert names == ["root", "o", "`-- p", "x", "`-- y"]


def test_a_subtree_begins_with_its_top() -> None:
    seen = snapshot(item("a"), item("b", parent="a"), item("c"))
    assert [line.split()[0] for line in draw(tree_rows(seen, top="a"), glyphs=ASCII, headings=False)] == [
        "a",
        "`--",
    ]


def test_yaml_is_sorted_and_quotes_what_would_be_read_as_something_else() -> None:
    found = item("b", reason="true", type="a: b", parent="a")
    found["metadata"]["managedFields"] = [{"manager": "x"}]
    text = dump_objects([found], output=Output.YAML, as_list=False)
    assert 'creationTimestamp: "2030-01-01T11:55:00Z"' in text
    assert 'reason: "true"' in text
    assert "stopPolicy: None" in text
    assert "managedFields" not in text
    assert text.index("apiVersion") < text.index("kind") < text.index("metadata")


def test_several_objects_are_a_list() -> None:
    text = dump_objects([item("a"), item("b")], output=Output.JSON, as_list=True)
    assert '\n    "kind": "List",\n    "metadata": {\n        "resourceVersion": ""\n    }\n}' in text


def test_a_reason_cannot_steer_the_terminal() -> None:
    out = io.StringIO()
    Console(out, io.StringIO()).say("a \x1b[2J \x9b31m \x07\tb\nc")
    assert out.getvalue() == "a ^[[2J \ufffd31m ^G\tb\nc\n"


def test_json_escapes_what_a_terminal_would_obey() -> None:
    assert "\\u009b" in dump_objects([item("b", reason="\x9b2J")], output=Output.JSON, as_list=False)


def test_a_warning_is_given_once() -> None:
    err = io.StringIO()
    console = Console(io.StringIO(), err)
    console.warn("w")
    console.warn("w")
    assert err.getvalue() == "Warning: w\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "written"),
    [
        (io.StringIO(), "3 left\n2 left\ndone\n"),
        (Terminal(), "\r3 left\x1b[K\r2 left\x1b[K\r\x1b[Kdone\n"),
    ],
)
def test_progress_is_a_live_line_on_a_terminal_and_lines_that_differ_elsewhere(
    stream: io.StringIO, written: str
) -> None:
    console = Console(io.StringIO(), stream)
    for text in ("3 left", "3 left", "2 left"):
        console.progress(text)
    console.note("done")
    assert stream.getvalue() == written


@pytest.mark.parametrize(("columns", "shown"), [(20, "0123456789012345678"), (0, "0123456789" * 3)])
def test_progress_is_cut_to_what_fits_on_a_line(columns: int, shown: str) -> None:
    """One that wrapped could not be drawn over; a terminal of no size is one of unknown size."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with os.fdopen(theirs, "w") as terminal, os.fdopen(ours, "rb", buffering=0) as seen:
        Console(io.StringIO(), terminal).progress("0123456789" * 3)
        assert seen.read(100).decode() == f"\r{shown}\x1b[K"


def test_a_stream_that_cannot_write_a_letter_gets_another() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    Console(stream, io.StringIO()).say("ü")
    assert raw.getvalue() == b"?\n"


TEAM = {"matchExpressions": [{"key": "team", "operator": "In", "values": ["a", "b"]}]}


def test_wide_shows_whose_namespaces_a_queue_selects_where_one_does() -> None:
    """In a column of its own before what is still to go; all else is kubectl's to the letter."""
    head, *rows = Table(wide=True).lines([item("q", namespaceSelector=TEAM), QUEUES[0]], now=NOW)
    assert head.split()[-1] == "NAMESPACES"
    assert rows[0].endswith("team in (a,b)")
    assert rows[1].rstrip().endswith("5m")
    assert "NAMESPACES" not in Table().lines([item("q", namespaceSelector=TEAM)], now=NOW)[0]
    selectors: tuple[Any, ...] = (None, {}, {"matchLabels": {}})
    for everybody in selectors:
        lines = Table(wide=True).lines([item("q", namespaceSelector=everybody)], now=NOW)
        assert "NAMESPACES" not in lines[0]


def test_wide_shows_what_becomes_of_pods_without_a_gate_where_a_queue_says_so() -> None:
    head, *rows = Table(wide=True).lines([item("q", parked="Recreate"), QUEUES[0]], now=NOW)
    assert head.split()[-1] == "PARKED"
    assert rows[0].endswith("Recreate")
    assert "PARKED" not in Table().lines([item("q", parked="Recreate")], now=NOW)[0]
    assert "PARKED" not in Table(wide=True).lines([item("q")], now=NOW)[0]


def waits(**pods: int) -> Object:
    return item("q", parked="Recreate", status={"pods": pods})


@each_case(
    ("queue", "headings", "cells"),
    [
        (waits(pending=40, gated=12, parked=40), ["GATED", "UNGATED"], ["12", "28"]),
        (
            waits(pending=40, gated=12, parked=40, recreating=25),
            ["GATED", "UNGATED", "RECREATING"],
            ["12", "28", "25"],
        ),
        (waits(pending=40, gated=40, parked=40), ["GATED", "UNGATED"], ["40", "0"]),
        (waits(pending=40), [], []),
        (waits(), [], []),
        (item("q", parked="Recreate"), [], []),
    ],
    ids=["parked", "some are created again", "all have the gate", "not parked", "none", "not counted yet"],
)
def test_wide_shows_how_many_parked_pods_have_the_gate(
    queue: Object, headings: list[str], cells: list[str]
) -> None:
    head, row, _ = Table(wide=True).lines([queue, QUEUES[0]], now=NOW)
    assert head.split("PARKED")[-1].split() == headings
    assert row.split("Recreate")[-1].split() == cells
    assert "GATED" not in Table().lines([queue], now=NOW)[0]


def test_the_tree_says_whose_namespaces_a_queue_selects() -> None:
    """On the queue that says so; what it cannot read selects none, and steers no terminal."""
    seen = snapshot(
        item("a", namespaceSelector=TEAM, status={"state": "Open"}),
        item("b", parent="a", status={"state": "Open"}),
        item("c", namespaceSelector="\x1b[2J", status={"state": "Open"}),
    )
    drawn = draw(tree_rows(seen), glyphs=ASCII, headings=False)
    assert drawn[1].endswith("for namespaces with team in (a,b)")
    assert "namespaces" not in drawn[2]
    assert drawn[3].endswith("for namespaces with unreadable")
    assert all(line.isprintable() for line in drawn)


def long_name(middle: str) -> str:
    return f"research-vision-{middle}-{'x' * 40}-training"


def test_a_long_name_is_cut_in_the_middle_and_still_told_from_the_others() -> None:
    """By a longer cut where the usual one fits two; a name of 48 letters is whole."""
    alone, exact = f"a{'-b' * 60}", "c" * 48
    shown = short_names([alone, exact, long_name("a" * 10), long_name("b" * 10)])
    assert [len(shown[alone]), shown[exact]] == [48, exact]
    assert "..." in shown[alone]
    assert len(set(shown.values())) == 4
    for name, cut in shown.items():
        head, _, tail = cut.partition("...")
        assert [each for each in shown if each.startswith(head) and each.endswith(tail)] == [name]


@pytest.mark.parametrize(
    ("wide", "headings", "is_cut"), [(False, True, True), (True, True, False), (False, False, False)]
)
def test_names_are_whole_in_wide_tables_and_in_those_for_programs(
    *, wide: bool, headings: bool, is_cut: bool
) -> None:
    name = "n" * 100
    items = [item(name), item("below", parent=name)]
    lines = Table(wide=wide, headings=headings).lines(items, now=NOW)
    assert [name in line for line in lines[-2:]] == [not is_cut] * 2


def test_the_tree_cuts_long_names_too() -> None:
    name = "n" * 100
    lines = draw(tree_rows(snapshot(item(name), item("below", parent=name, state="Suspended"))), glyphs=ASCII)
    assert not any(name in line for line in lines)
    assert any(name in line for line in draw(tree_rows(snapshot(item(name))), glyphs=ASCII, headings=False))


def test_the_history_has_a_line_for_what_was_given_back() -> None:
    edit = HistoryLine(by="ann", field="state", from_="Open", to="Suspended", at="2030-01-01T10:00:00Z")
    changes = [edit, msgspec.structs.replace(edit, at="2030-01-01T10:05:00Z")]
    line = GivenBack(
        from_="speech",
        to="vision",
        action="reclaim",
        pods=3,
        at="2030-01-01T10:02:00Z",
        until="2030-01-01T10:02:40Z",
    )
    lines = history_table(with_given_back(changes, [line]), now=NOW, wide=False, headings=False)
    assert [each.split()[0] for each in lines] == sorted(each.split()[0] for each in lines)
    *given_back, reason = lines[1].split(maxsplit=6)
    assert given_back == ["2030-01-01T10:02:00Z", "sluice", "pods", "speech", "vision", "<none>"]
    assert reason.startswith("3 pods evicted by action reclaim, the last at 2030-01-01T10")


@pytest.mark.parametrize(("wide", "headings"), [(True, True), (False, False)])
def test_the_history_cuts_long_names_but_in_wide_tables_and_in_those_for_programs(
    *, wide: bool, headings: bool
) -> None:
    name = "n" * 100
    changes = [HistoryLine(by="ann", field="parent", from_="root", to=name, at="2030-01-01T11:55:00Z")]
    assert not any(name in line for line in history_table(changes, now=NOW, wide=False, headings=True))
    assert any(name in line for line in history_table(changes, now=NOW, wide=wide, headings=headings))


def _open(name: str) -> ChainMember:
    return ChainMember(queue=name, state=State.OPEN, desired=Desired.OPEN, stop_policy=StopPolicy.NONE)


def test_the_chain_of_why_cuts_long_names() -> None:
    chain = tuple(_open(name) for name in ("b", "n" * 100, "root"))
    answer = Explanation(
        object=ObjectRef(kind="Queue", name="b"),
        outcome=Fate.FREE,
        summary="nothing stops it",
        chain=chain,
    )
    _, first, second, _ = lines(answer, now=NOW)
    assert first == f"Chain:       b{' ' * 50}Open"
    assert len(second) == len(first)


def test_labels_get_a_column_each_before_the_end_of_a_stop() -> None:
    labelled = item("q", state="Suspended", resumeAt="2030-01-01T12:25:00Z")
    labelled["metadata"]["labels"] = {"team": "a", "example.com/tier": "gold"}
    head, first, second = Table(labels=["team", "example.com/tier"]).lines([labelled, QUEUES[0]], now=NOW)
    assert head.split()[-3:] == ["TEAM", "TIER", "RESUMES"]
    assert first.split()[-5:] == ["a", "gold", "2030-01-01T12:25:00Z", "(in", "25m)"]
    assert second.split()[-1] == "5m"


def test_the_tree_as_a_structure_has_the_queues_and_the_causes_of_the_drawing() -> None:
    seen = snapshot(
        item("a", status={"state": "Suspended", **PODS}, state="Suspended", reason="quota"),
        item("b", parent="a", status={"state": "Suspended"}),
        item("o", parent="gone"),
    )
    root, orphan = as_structure(tree_rows(seen))
    assert (root["name"], root["cause"], orphan["name"]) == ("root", "not there yet", "o")
    (above,) = root["children"]
    assert above == {
        "name": "a",
        "state": "Suspended",
        "stopPolicy": "None",
        "pods": {"pending": 2, "running": 10},
        "cause": "suspended (quota)",
        "children": [
            {
                "name": "b",
                "state": "Suspended",
                "stopPolicy": "None",
                "pods": {},
                "cause": "suspended by a (quota)",
                "children": [],
            }
        ],
    }
    assert as_structure(tree_rows(seen, top="b")) == above["children"]
