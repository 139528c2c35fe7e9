"""Edits from the page: previewed in the plugin's text, and written only as they were previewed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from werkzeug.test import TestResponse

from kubectl_queue.cli.options import DryRun
from kubectl_queue.errors import ConflictError, ForbiddenError
from kubectl_queue.objects.fields import Object
from kubectl_queue.ui.rows import first_frame
from tests.support.plugin.harness import StoredQueues, item, run_command, snapshot
from tests.support.ui.pages import PageOnValues

QUEUES = (item("root"), item("a"), item("b"), item("held", state="Suspended", reason="audit"))


@pytest.fixture
def page() -> PageOnValues:
    return PageOnValues(*QUEUES)


def preview(page: PageOnValues, name: str, verb: str, **values: str) -> Any:
    answer = page.ask("POST", f"/api/queues/{name}/preview", {"verb": verb, "values": values})
    assert answer.status_code == 200, answer.data
    return answer.get_json()


def act(page: PageOnValues, name: str, verb: str, shown: Mapping[str, Any], **more: Any) -> TestResponse:
    body = {"verb": verb, **{key: shown[key] for key in ("values", "uid", "generation")}, **more}
    return page.ask("POST", f"/api/queues/{name}/edits", body)


@pytest.mark.parametrize(
    ("verb", "values", "outcome"),
    [
        ("suspend", {"reason": "x"}, "suspended"),
        ("suspend", {"for": "2h"}, "suspended until 2030-01-01T14:00:00Z"),
        ("hold", {}, "held"),
        ("drain", {"rate": "5"}, "draining"),
        ("close", {}, "closing"),
        ("open", {}, "unchanged (it is Open already)"),
        ("resume", {}, "unchanged (it is not stopped itself)"),
        ("move", {"parent": "b"}, 'moved under "b"'),
    ],
)
def test_a_preview_is_the_plugins_dry_run(
    page: PageOnValues, verb: str, values: dict[str, str], outcome: str
) -> None:
    shown = preview(page, "a", verb, **values)
    words = [f"--{flag}={value}" for flag, value in values.items()]
    dry = run_command(StoredQueues(*QUEUES), verb, "a", "--dry-run=client", *words)
    assert shown["outcome"] == outcome
    assert outcome in dry.out
    assert all(f"Warning: {text}" in dry.err for text in shown["warnings"])
    assert shown["command"] == " ".join(["kubectl queue", verb, "a", *words])
    assert page.api.patches == []


@pytest.mark.parametrize("verb", ["suspend", "hold", "drain", "resume", "close", "open", "move"])
def test_each_action_writes_what_the_command_writes(page: PageOnValues, verb: str) -> None:
    name, values = ("held" if verb in {"resume", "open"} else "a"), {"parent": "b"} if verb == "move" else {}
    shown = preview(page, name, verb, **values)
    assert act(page, name, verb, shown).status_code == 200
    stored = StoredQueues(*QUEUES)
    run_command(stored, verb, name, *(f"--{flag}={value}" for flag, value in values.items()))
    assert page.api.patches == stored.patches


def test_a_span_is_written_as_the_time_that_was_previewed(page: PageOnValues) -> None:
    shown = preview(page, "a", "drain", **{"for": "2h", "deadline": "1h"})
    assert shown["values"] == {"until": "2030-01-01T14:00:00Z", "deadline": "2030-01-01T13:00:00Z"}
    assert act(page, "a", "drain", shown).status_code == 200
    [(_, patch)] = page.api.patches
    assert patch["spec"]["resumeAt"] == "2030-01-01T14:00:00Z"
    assert patch["metadata"] == {"resourceVersion": "7"}


@pytest.mark.parametrize(
    ("verb", "values", "said"),
    [
        ("suspend", {"for": "2"}, "needs a unit"),
        ("suspend", {"for": "2h", "until": "18:30"}, "exclude each other"),
        ("suspend", {"until": "2001-01-01T00:00:00Z"}, "not in the future"),
        ("suspend", {"all": "true"}, "unknown flag"),
        ("drain", {"keep": "a in (b"}, "keep"),
        ("move", {}, "--parent is required"),
        ("delete", {}, "no edit"),
    ],
)
def test_what_the_command_line_refuses_the_page_refuses(
    page: PageOnValues, verb: str, values: dict[str, str], said: str
) -> None:
    answer = page.ask("POST", "/api/queues/a/preview", {"verb": verb, "values": values})
    assert answer.status_code == 400, answer.data
    assert said in answer.get_json()["error"]


def test_a_spec_that_changed_meanwhile_is_not_overwritten_and_the_answer_says_who_did(
    page: PageOnValues,
) -> None:
    shown = preview(page, "a", "close")
    change = {"by": "ben", "field": "state", "from": "Open", "to": "Suspended", "at": "2030-01-01T11:59:00Z"}
    page.api._items["a"] = item(
        "a", state="Suspended", generation=2, status={"changes": [change], "observedGeneration": 2}
    )
    answer = act(page, "a", "close", shown)
    assert (answer.status_code, answer.get_json()["isConflict"]) == (409, True)
    assert "changed meanwhile by ben: state from Open to Suspended" in answer.get_json()["error"]
    assert page.api.patches == []


def test_a_queue_that_was_made_again_meanwhile_is_another_one(page: PageOnValues) -> None:
    shown = preview(page, "a", "suspend")
    page.api._items["a"]["metadata"]["uid"] = "another"
    assert "made again" in act(page, "a", "suspend", shown).get_json()["error"]


class Conflicting(StoredQueues):
    """A status is written between each read and the first writes."""

    conflicts = 2

    def patch(self, name: str, patch: Mapping[str, Any], *, dry_run: DryRun) -> Object:
        if self.conflicts:
            self.conflicts -= 1
            raise ConflictError("the object has been modified", code=409)
        return super().patch(name, patch, dry_run=dry_run)


def test_a_status_that_was_written_meanwhile_keeps_no_edit_from_being_made(page: PageOnValues) -> None:
    page.api = Conflicting(*QUEUES)
    assert act(page, "a", "suspend", preview(page, "a", "suspend")).status_code == 200
    assert len(page.api.patches) == 1


def test_the_api_servers_refusal_is_passed_on(page: PageOnValues, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ForbiddenError("queues is forbidden", code=403)

    monkeypatch.setattr(page.api, "patch", refuse)
    answer = act(page, "a", "suspend", preview(page, "a", "suspend"))
    assert (answer.status_code, answer.get_json()["error"]) == (403, "queues is forbidden")


@pytest.mark.parametrize("typed", ["", "Root", "a"])
def test_roots_name_has_to_be_typed(page: PageOnValues, typed: str) -> None:
    shown = preview(page, "root", "suspend")
    assert shown["typesName"] is True
    assert act(page, "root", "suspend", shown, typed=typed).status_code == 400
    assert page.api.patches == []
    assert act(page, "root", "suspend", shown, typed="root").status_code == 200


def test_what_the_plugin_would_ask_has_to_be_agreed_to(page: PageOnValues) -> None:
    held = item("held", stopPolicy="Hold")
    page.api = StoredQueues(item("root"), held)
    page.board.publish(first_frame(snapshot(item("root"), held), number=2))
    shown = preview(page, "held", "close")
    assert shown["asked"]
    assert act(page, "held", "close", shown).status_code == 400
    assert page.api.patches == []
    assert act(page, "held", "close", shown, agreed=True).status_code == 200


def test_the_way_of_an_edit_is_said_step_by_step(page: PageOnValues) -> None:
    def steps(verb: str, status: Object, **spec: Any) -> list[tuple[str, bool]]:
        queue = item("a", generation=2, status=status, **spec)
        page.board.publish(first_frame(snapshot(item("root"), queue), number=3))
        answer = page.ask("GET", f"/api/queues/a/progress?verb={verb}&since=2").get_json()
        return [(step["name"], step["done"]) for step in answer["steps"]]

    drain = {"stopPolicy": "HoldAndDrain"}
    stopped = {"type": "Active", "status": "False", "observedGeneration": 2}
    seen = {"observedGeneration": 2, "state": "Suspended", "conditions": [stopped]}
    assert steps("drain", {"observedGeneration": 1}, **drain) == [
        ("Written", True),
        ("Seen", False),
        ("Acknowledged", False),
        ("Drained", False),
    ]
    assert [done for _, done in steps("drain", seen, **drain)] == [True, True, True, False]
    drained = {"type": "Drained", "status": "True", "reason": "Drained", "observedGeneration": 2}
    ended = {**seen, "conditions": [stopped, drained]}
    assert [done for _, done in steps("drain", ended, **drain)] == [True, True, True, True]
    assert [name for name, _ in steps("close", seen, state="Closed")][-1] == "Closed"
    assert len(steps("suspend", seen, state="Suspended")) == 3
