"""start, skip and extend of a window from the page: previewed as by the command, and written as previewed."""

from __future__ import annotations

import shlex
from datetime import timedelta
from typing import Any

import pytest
from werkzeug.test import TestResponse

from tests.kubectl_queue.views.test_windows import NIGHTLY, NOON, SKIP_NOON
from tests.support.cases import each_case
from tests.support.plugin.harness import NOW, StoredQueues, item, run_command
from tests.support.ui.pages import PageOnValues

ON = {"name": "noon", "start": "2030-01-01T11:00:00Z", "until": "2030-01-01T15:00:00Z"}
#: When the next noon begins by its schedule.
NEXT_NOON = "2030-01-02T11:00:00Z"


def queues(**spec: Any) -> tuple[Any, ...]:
    return item("root"), item("a", windows=[NIGHTLY, NOON], **spec), item("b", parent="a")


def preview(page: PageOnValues, word: str, window: str = "noon", **values: str) -> TestResponse:
    wanted = {"verb": word, "window": window, "values": values}
    return page.ask("POST", "/api/queues/a/preview", wanted)


def act(page: PageOnValues, word: str, shown: Any, window: str = "noon") -> TestResponse:
    seen = {key: shown[key] for key in ("values", "uid", "generation", "outcome")}
    return page.ask("POST", "/api/queues/a/edits", {"verb": word, "window": window, "agreed": True, **seen})


@each_case(
    ("word", "values", "spec", "said"),
    [
        ("skip", {"reason": "release week"}, {"inWindow": [ON]}, "edited (ended: the rest of window noon"),
        (
            "skip",
            {"at": NEXT_NOON},
            {"inWindow": [ON]},
            "edited (window noon of Wed 2 Jan 11:00 UTC is left out)",
        ),
        ("start", {"at": ON["start"]}, {"windowOverrides": [SKIP_NOON]}, "is not left out any more"),
        ("extend", {"for": "30m"}, {"inWindow": [ON]}, "lasts until 15:30 UTC"),
        ("extend", {"until": "2030-01-01T18:00:00Z", "reason": "x"}, {}, "lasts until 18:00 UTC"),
        ("start", {"at": NEXT_NOON}, {"inWindow": [ON]}, "unchanged"),
    ],
)
def test_a_preview_is_the_commands_dry_run_and_what_is_written_is_what_it_writes(
    word: str, values: dict[str, str], spec: dict[str, Any], said: str
) -> None:
    page = PageOnValues(*queues(**spec))
    words = [word, "a", "noon", *(f"--{flag}={value}" for flag, value in values.items())]
    shown = preview(page, word, **values).get_json()
    dry = run_command(StoredQueues(*queues(**spec)), "windows", *words, "--dry-run=client")
    assert said in shown["outcome"]
    assert shown["outcome"] in dry.out
    assert {f"Warning: {text}" for text in shown["warnings"]} <= set(dry.err.splitlines())
    assert sorted(shlex.split(shown["command"])) == sorted(["kubectl", "queue", "windows", *words])
    assert page.api.patches == []
    answer = act(page, word, shown)
    assert answer.status_code == 200, answer.data
    stored = StoredQueues(*queues(**spec))
    run_command(stored, "windows", *words)
    assert page.api.patches == stored.patches


def test_one_that_begins_now_is_written_with_the_end_that_was_previewed() -> None:
    page = PageOnValues(*queues())
    shown = preview(page, "start", "nightly").get_json()
    assert "begins now" in shown["outcome"]
    assert shown["values"] == {"until": "2030-01-01T14:00:00Z"}
    page.api.now = NOW + timedelta(seconds=40)
    assert act(page, "start", shown, "nightly").status_code == 200
    [(_, patch)] = page.api.patches
    [override] = patch["spec"]["windowOverrides"]
    assert override["until"] == "2030-01-01T14:00:00Z"


def test_an_end_that_another_override_has_is_not_taken_for_the_new_one() -> None:
    longer = {"window": "nightly", "start": "2030-01-02T01:00:00Z", "until": "2030-01-02T09:00:00Z"}
    page = PageOnValues(*queues(windowOverrides=[SKIP_NOON, longer]))
    shown = preview(page, "start", at=str(SKIP_NOON["start"])).get_json()
    assert shown["values"] == {"at": SKIP_NOON["start"]}
    assert act(page, "start", shown).status_code == 200
    [(_, patch)] = page.api.patches
    assert patch["spec"]["windowOverrides"] == [longer]


def test_one_that_drains_offers_to_list_the_pods() -> None:
    assert preview(PageOnValues(*queues()), "start", "nightly").get_json()["pods"] is True
    assert preview(PageOnValues(*queues(inWindow=[ON])), "skip").get_json()["pods"] is False
    assert (
        preview(PageOnValues(*queues(inWindow=[ON])), "extend", **{"for": "1h"}).get_json()["pods"] is False
    )


def test_where_time_has_made_it_another_occurrence_nothing_is_written() -> None:
    """The window of the preview was on, and has ended meanwhile: the next one is not meant."""
    page = PageOnValues(*queues(inWindow=[ON]))
    shown = preview(page, "skip").get_json()
    page.now = page.api.now = NOW + timedelta(hours=4)
    answer = act(page, "skip", shown)
    assert (answer.status_code, answer.get_json()["isConflict"]) == (409, True)
    assert (
        "nothing was changed: by now it would be edited (window noon of Wed 2 Jan"
        in answer.get_json()["error"]
    )
    assert page.api.patches == []


@each_case(
    ("word", "window", "values", "said"),
    [
        ("skip", "weekly", {}, "it has no window"),
        ("skip", "", {}, "name"),
        ("skip", "noon", {"for": "2h"}, "skip leaves out all of it"),
        ("skip", "noon", {"at": "2030-01-02T11:30:00Z"}, "does not begin at"),
        ("extend", "noon", {}, "say until when"),
        ("extend", "noon", {"for": "2h", "until": "18:30"}, "exclude each other"),
        ("extend", "noon", {"until": "2001-01-01T00:00:00Z"}, "not in the future"),
        ("extend", "noon", {"wait": "true"}, "unknown flag"),
        ("start", "noon", {"until": "soon"}, "See 'kubectl queue windows --help'"),
    ],
)
def test_what_the_command_line_refuses_the_page_refuses(
    word: str, window: str, values: dict[str, str], said: str
) -> None:
    answer = preview(PageOnValues(*queues()), word, window, **values)
    assert answer.status_code == 400, answer.data
    assert said in answer.get_json()["error"]


@pytest.mark.parametrize("word", ["start", "skip", "extend"])
def test_the_way_of_it_ends_with_the_acknowledgement(word: str) -> None:
    page = PageOnValues(*queues())
    steps = page.ask("GET", f"/api/queues/a/progress?verb={word}&since=1").get_json()["steps"]
    assert [step["name"] for step in steps] == ["Written", "Seen", "Acknowledged"]
