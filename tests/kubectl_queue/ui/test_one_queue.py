"""The screen of one queue: what commands say of it, its pods by label, and the viewer's rights."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubectl_queue.access.responses import ApiRequest
from kubectl_queue.errors import ForbiddenError
from kubectl_queue.objects.fields import Object
from kubectl_queue.views.drain_status import lines as drain_lines
from queues.contacts import CONTACT_LIMIT
from queues.membership import label_value
from queues.well_known import CONTACT
from tests.support.plugin.harness import NOW, StoredObjects, item, run_command
from tests.support.ui.pages import PageOnValues

CHANGE = {"by": "ann", "field": "state", "from": "Open", "to": "Suspended", "at": "2030-01-01T11:00:00Z"}
BLOCKER = {"name": "PDB team/db", "pods": 2, "never": True, "message": "it allows none"}
DRAIN = {"left": 2, "blocked": 2, "blockers": [BLOCKER]}


class Answers(StoredObjects):
    """The API server, by the end of the path; keeps what it was asked."""

    def __init__(self, **answers: Any) -> None:
        super().__init__({})
        self.answers = answers
        self.asked: list[ApiRequest] = []

    def send(self, request: ApiRequest, *, kind: str = "") -> Object:
        self.asked.append(request)
        answer = self.answers[request.path.rpartition("/")[2]]
        if isinstance(answer, Exception):
            raise answer
        found: Object = answer
        return found


def page(*items: Object, **answers: Any) -> tuple[PageOnValues, Answers]:
    made, api = PageOnValues(*items), Answers(**answers)
    made.objects = api
    return made, api


def opened(made: PageOnValues, name: str) -> Any:
    answer = made.ask("GET", f"/api/queues/{name}")
    assert answer.status_code == 200, answer.data
    return answer.get_json()


def test_it_says_what_why_says_and_what_history_says() -> None:
    held = item("a", state="Suspended", reason="audit", status={"changes": [CHANGE], "observedGeneration": 1})
    made, api = page(item("root"), held)
    shown = opened(made, "a")
    first, *_ = run_command(made.api, "why", "a").out.splitlines()
    assert shown["summary"] == first
    assert {"heading": "Let go by", "lines": ["kubectl queue resume a"], "chain": []} in shown["sections"]
    assert [line["by"] for line in shown["history"]] == ["ann"]
    assert api.asked == [], "the board has it all"


def test_whom_to_ask_is_shown_as_text() -> None:
    held = item("a", state="Suspended", status={"observedGeneration": 1})
    held["metadata"]["annotations"] = {CONTACT: "<b>us</b>\n[x](https://example.com)" + "x" * 10_000}
    made, _ = page(item("root"), held)
    [section] = [each for each in opened(made, "a")["sections"] if each["heading"] == "Contact"]
    assert section["lines"][0].startswith("<b>us</b> [x](https://example.com)xxx")
    assert len(section["lines"][0]) == CONTACT_LIMIT


def test_a_drain_is_shown_with_its_blockers() -> None:
    draining = item("a", stopPolicy="HoldAndDrain", status={"drain": DRAIN, "observedGeneration": 1})
    made, _ = page(item("root"), draining)
    assert opened(made, "a")["drain"] == drain_lines([draining], now=NOW)
    assert any("PDB team/db" in line for line in opened(made, "a")["drain"])


def test_windows_are_those_of_the_command_of_the_queue_and_of_those_above_it() -> None:
    window = {
        "name": "nightly",
        "schedule": "0 2 * * *",
        "duration": "2h",
        "timeZone": "UTC",
        "state": "Suspended",
    }
    made, _ = page(item("root"), item("a", windows=[window]), item("b", parent="a"), item("c"))
    shown = opened(made, "b")["windows"]
    first, *others = shown["rows"]
    assert (first["queue"], first["start"], len(others)) == ("a", "2030-01-02T02:00:00Z", 4)
    assert opened(made, "c")["windows"]["rows"] == []
    told = run_command(made.api, "windows", "--next=1", "-ojson").out
    [first, *_] = made.ask("GET", "/api/windows").get_json()["rows"]
    assert first == json.loads(told)["windows"][0]


@pytest.mark.parametrize("value", [7, "x", {"a": 1}, [None, 7, "x", {"a": [1]}]])
def test_windows_that_make_no_sense_hurt_nothing(value: object) -> None:
    made, _ = page(item("root"), item("a", windows=value, inWindow=value))
    assert opened(made, "a")["row"]["name"] == "a"
    assert made.ask("GET", "/api/windows").status_code == 200


def test_a_queue_that_is_not_there_brings_names_that_are_near() -> None:
    made, api = page(item("root"), item("research"))
    for path in ("", "/waiting", "/rights", "/progress"):
        answer = made.ask("GET", f"/api/queues/reserch{path}")
        assert answer.status_code == 404
        assert "research" in answer.get_json()["error"]
    assert api.asked == []


def test_pods_are_listed_by_the_label_of_the_queue_in_pages() -> None:
    name = "q" * 70
    pod = {
        "metadata": {"name": "p", "namespace": "team", "annotations": {"sluice.dev/queue": name}},
        "status": {"conditions": [{"type": "PodScheduled", "message": "it waits"}]},
    }
    others = {"metadata": {"name": "x", "namespace": "team", "annotations": {"sluice.dev/queue": "q"}}}
    listed = {"items": [pod, others], "metadata": {"continue": "further"}}
    made, api = page(item("root"), item(name), pods=listed)
    answer = made.ask("GET", f"/api/queues/{name}/waiting?after=here").get_json()
    assert answer == {
        "pods": [{"namespace": "team", "name": "p", "since": "", "message": "it waits"}],
        "next": "further",
        "refused": "",
    }
    [asked] = api.asked
    assert asked.query == {
        "labelSelector": f"sluice.dev/queue={label_value(name)}",
        "fieldSelector": "spec.nodeName=",
        "limit": "500",
        "continue": "here",
    }


def test_pods_that_may_not_be_read_are_no_error_of_the_page() -> None:
    made, _ = page(item("root"), pods=ForbiddenError("pods is forbidden", code=403))
    assert made.ask("GET", "/api/queues/root/waiting").get_json()["refused"] == "pods is forbidden"


@pytest.mark.parametrize(
    ("status", "allowed", "reason"),
    [
        ({"allowed": True}, True, ""),
        ({"allowed": False}, False, 'you may not patch queue "root": no role gives that right'),
        ({"allowed": False, "reason": "by policy"}, False, 'you may not patch queue "root": by policy'),
        ({}, False, 'you may not patch queue "root": no role gives that right'),
    ],
)
def test_rights_are_the_api_servers_word_with_its_reason(status: Object, allowed: bool, reason: str) -> None:
    made, api = page(item("root"), selfsubjectaccessreviews={"status": status})
    assert made.ask("GET", "/api/queues/root/rights").get_json() == {"allowed": allowed, "reason": reason}
    assert b'"name": "root"' in (api.asked[0].body or b"")


def test_hostile_texts_go_out_as_they_are_for_the_page_shows_them_as_texts() -> None:
    """10 KB of them: what is long is cut as everywhere."""
    hostile = "<script>alert(1)</script>\u202e" + "x" * 10_000
    made, _ = page(item("root"), item("a", state="Suspended", reason=hostile))
    shown = opened(made, "a")
    assert "<script>" in shown["summary"]
    assert len(shown["summary"]) < 400
    assert made.ask("GET", "/api/queues/a").mimetype == "application/json"
