"""windows: the table, the documents, and what the words for one occurrence write."""

from __future__ import annotations

import json
from typing import Any

import icalendar
import pytest

from kubectl_queue.cli.options import DryRun
from kubectl_queue.errors import ConflictError, QueueError, UsageError
from kubectl_queue.objects.fields import Object
from tests.kubectl_queue.views.test_windows import NIGHTLY, NOON, SKIP_NOON
from tests.support.cases import each_case
from tests.support.plugin.harness import CommandResult, StoredQueues, item, run_command

ON = {"name": "noon", "start": "2030-01-01T11:00:00Z", "until": "2030-01-01T15:00:00Z"}


def stored(**spec: Any) -> StoredQueues:
    return StoredQueues(
        item("root"),
        item("research", parent="root", windows=[NIGHTLY, NOON], **spec),
        item("start", parent="root"),
    )


def windows(*words: str, **spec: Any) -> CommandResult:
    return run_command(stored(**spec), "windows", *words)


def test_the_table_shows_what_is_on_and_what_comes() -> None:
    done = windows("research", "--next", "2", inWindow=[ON])
    assert done.out == (
        "QUEUE      WINDOW    STARTS                ENDS        FOR   SETS           STATE   REASON\n"
        "research   noon      Tue 1 Jan 11:00 UTC   15:00 UTC   4h    HoldAndDrain   On      backup\n"
        "research   nightly   Wed 2 Jan 02:00 CET   04:00 CET   2h    HoldAndDrain   Next    backup\n"
        "research   noon      Wed 2 Jan 11:00 UTC   15:00 UTC   4h    HoldAndDrain   Next    backup\n"
    )


def test_documents_and_the_calendar_have_the_same_rows() -> None:
    listed = json.loads(windows("-o", "json", "--next", "30").out)["windows"]
    text = windows("-o", "ics", "--next", "30").out
    events = icalendar.Calendar.from_ical(text).walk("VEVENT")
    assert len(listed) == len(events) == 31  # the one that is due comes beside
    assert text.count("\r\n") == text.count("\n")


def test_without_windows_that_is_said_and_a_queue_of_that_name_can_be_named() -> None:
    done = windows("queue/start")
    assert (done.code, done.out) == (0, "")
    assert done.err == 'neither queue "start" nor one above it has a window that is on or comes\n'


def test_windows_that_cannot_be_read_are_warned_of() -> None:
    done = run_command(StoredQueues(item("root", windows=[{"name": "x"}])), "windows")
    assert 'Warning: queue "root" has windows that cannot be read: spec.windows[0] of window "x"' in done.err


@each_case(
    ("words", "spec", "patch", "says"),
    [
        (
            ("skip", "research", "noon", "--reason", "release"),
            {},
            [{**SKIP_NOON, "reason": "release"}],
            "edited (ended: the rest of window noon of Tue 1 Jan 11:00 UTC is left out)",
        ),
        (
            ("start", "queue/research", "noon"),
            {"windowOverrides": [SKIP_NOON]},
            None,
            "edited (window noon of Tue 1 Jan 11:00 UTC is not left out any more)",
        ),
        (
            ("extend", "research", "noon", "--for", "30m"),
            {},
            [{"window": "noon", "start": "2030-01-01T11:00:00Z", "until": "2030-01-01T15:30:00Z"}],
            "edited (window noon of Tue 1 Jan 11:00 UTC lasts until 15:30 UTC)",
        ),
        (
            ("start", "research", "nightly", "--for", "1h"),
            {},
            [
                {
                    "window": "nightly",
                    "start": "2030-01-02T01:00:00Z",
                    "from": "2030-01-01T12:00:00Z",
                    "until": "2030-01-01T13:00:00Z",
                }
            ],
            "edited (window nightly begins now, until 14:00 CET, in place of window nightly of Wed 2 Jan "
            "02:00 CET)",
        ),
        (
            ("skip", "research", "nightly", "--at", "2030-01-04T01:00:00Z"),
            {},
            [{"window": "nightly", "start": "2030-01-04T01:00:00Z", "skip": True}],
            "edited (window nightly of Fri 4 Jan 02:00 CET is left out)",
        ),
    ],
)
def test_one_occurrence_is_overridden_and_nothing_else_is_written(
    words: tuple[str, ...], spec: dict[str, Any], patch: object, says: str
) -> None:
    api = stored(**spec)
    done = run_command(api, "windows", *words)
    assert done.out == f"queue.scheduling.volcano.sh/research {says}\n"
    assert api.patches == [
        ("research", {"metadata": {"resourceVersion": "7"}, "spec": {"windowOverrides": patch}})
    ]


def test_after_a_conflict_it_is_decided_on_what_there_is_then_and_an_extension_is_made_once() -> None:
    class Busy(StoredQueues):
        conflicts = 1

        def patch(self, name: str, patch: Any, *, dry_run: DryRun) -> Object:
            if self.conflicts:
                self.conflicts -= 1
                raise ConflictError("somebody was faster", code=409)
            return super().patch(name, patch, dry_run=dry_run)

    api = Busy(item("research", windows=[NOON]))
    run_command(api, "windows", "extend", "research", "noon", "--for", "30m")
    [(_, patch)] = api.patches
    assert patch["spec"]["windowOverrides"][0]["until"] == "2030-01-01T15:30:00Z"


def test_a_dry_run_shows_what_the_server_would_write_and_sends_nothing() -> None:
    api = stored(inWindow=[ON])
    done = run_command(api, "windows", "skip", "research", "noon", "--dry-run=client", "-o", "json")
    shown = json.loads(done.out)
    assert shown["spec"]["windowOverrides"] == [SKIP_NOON]
    assert "inWindow" not in shown["spec"]
    assert not api.patches


@each_case(
    ("words", "says"),
    [
        (("skip", "research"), "QUEUE and WINDOW are required"),
        (("extend", "research", "noon"), "say until when"),
        (("skip", "research", "noon", "--for", "1h"), "skip leaves out all of it"),
        (("start", "research", "noon", "--for", "1h", "--until", "18:30"), "exclude each other"),
        (("start", "research", "noon", "--until", "2020-01-01T00:00:00Z"), "is not in the future"),
        (("start", "research", "noon", "-o", "ics"), "allowed formats are"),
        (("start", "research", "noon", "--next", "3"), "--next is for the table"),
        (("research", "-o", "name"), "allowed formats are"),
        (("research", "--reason", "x"), "--reason is for"),
        (("research", "other"), "one NAME at most"),
        (("--next", "0"), "--next is from 1 to 1000"),
        (("skip", "research", "A B"), "invalid resource name"),
    ],
)
def test_a_wrong_command_line_is_refused(words: tuple[str, ...], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        windows(*words)


def test_names_that_do_not_exist_are_said() -> None:
    with pytest.raises(QueueError, match="not found"):
        windows("nobody")
    with pytest.raises(QueueError, match="not found"):
        windows("extend", "nobody", "noon", "--for", "1h")
    done = windows("skip", "research", "other")
    assert done.code == 1
    assert 'queue "research": it has no window "other"; its own: "nightly" or "noon"' in done.err
