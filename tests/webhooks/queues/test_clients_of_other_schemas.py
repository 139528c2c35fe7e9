"""`/mutate/queues`: who writes a queue back without the fields that only our schema has.

What a review looks like was seen on a real API server: tests/e2e/queues/test_clients_of_other_schemas.py.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.cases import each_case, with_new
from tests.support.http.asking import OWN, Said, Server
from tests.support.http.wire_objects import Wire, queue
from tests.support.webhooks.json_patch import applied

STATUS = {"state": "Suspended", "conditions": [], "observedGeneration": 1}
TYPED: Wire = {"state": "Suspended", "reservation": {}, "allocated": None}
WINDOW = {"name": "w", "from": "2090-01-01T00:00:00Z", "until": "2090-01-02T00:00:00Z", "stopPolicy": "Hold"}
STOP: dict[str, Any] = {"state": "Suspended", "reason": "disks", "windows": [WINDOW]}


@pytest.fixture
def server() -> Server:
    return Server()


def ask(server: Server, before: Wire, after: Wire, *, manager: str = "", **request: Any) -> Said:
    options = {"apiVersion": "meta.k8s.io/v1", "kind": "UpdateOptions", "fieldManager": manager}
    return server.ask("/mutate/queues", after, old=before, operation="UPDATE", options=options, **request)


def sent(status: Wire | None = None, *, managed: list[Wire] | None = None, **spec: Any) -> Wire:
    """As a client sends it that knows Volcano's fields alone."""
    found = queue("q", weight=5, stopPolicy="None", status=status, **spec)
    del found["spec"]["state"]
    if managed is not None:
        found["metadata"]["managedFields"] = managed
    return found


def stored(managed: list[Wire] | None = None) -> Wire:
    found = queue("q", status=STATUS, weight=2, stopPolicy="None", **STOP)
    if managed is not None:
        found["metadata"]["managedFields"] = managed
    return found


def ours(answer: Said, after: Wire) -> Wire:
    assert answer.allowed, answer.message
    spec = applied(answer.patch, after)["spec"]
    return {key: spec[key] for key in STOP if key in spec}


def test_a_client_of_volcanos_types_leaves_the_stop(server: Server) -> None:
    answer = ask(server, stored(), sent(TYPED))
    assert ours(answer, sent(TYPED)) == STOP
    assert [text.partition(":")[0] for text in answer.warnings] == [
        'queue "q" keeps spec.state, reason and windows'
    ]


def test_nothing_of_the_stop_is_in_the_history(server: Server) -> None:
    """No end of it was recorded, and the weight that the client changes is."""
    after = applied(ask(server, stored(), sent(TYPED)).patch, sent(TYPED))
    lines = json.loads(after["metadata"]["annotations"]["sluice.dev/changes"])
    assert [line["field"] for line in lines] == ["weight"]


def test_a_patch_of_the_whole_is_what_it_says(server: Server) -> None:
    assert ours(ask(server, stored(), sent(STATUS)), sent(STATUS)) == {"state": "Open"}


def test_the_server_itself_is_taken_at_its_word(server: Server) -> None:
    answer = ask(server, stored(), sent(TYPED), user=OWN)
    assert (ours(answer, sent(TYPED)), answer.warnings) == ({"state": "Open"}, [])


def managed(manager: str, *fields: str, time: str = "2030-01-01T00:00:00Z", **more: Any) -> Wire:
    owned: Wire = {"f:spec": {f"f:{field}": {} for field in fields}}
    return {"manager": manager, "operation": "Update", "time": time, "fieldsV1": owned, **more}


LATER = "2030-01-01T00:00:05Z"


@each_case(
    ("manager", "before", "after", "kept"),
    [
        ("helm", [managed("helm", "windows")], [managed("helm", "weight")], {"state", "reason"}),
        ("helm", [managed("argo", "windows", "state")], [managed("helm", "weight")], {*STOP}),
        ("", [managed("curl", "windows")], [managed("curl", "weight", time=LATER)], {"state", "reason"}),
        ("", [managed("curl", "windows")], [managed("curl")], {*STOP}),
        ("", [managed("curl", "windows")], [managed("other", "weight", time=LATER)], {*STOP}),
        ("helm", [managed("helm", "windows", subresource="status")], [], {*STOP}),
        ("helm", [{"manager": "helm", "fieldsV1": {"f:spec": []}}], [], {*STOP}),
        ("helm", [{"manager": 5}], [], {*STOP}),
        ("helm", None, None, {*STOP}),
    ],
    ids=[
        "what it set",
        "what another set",
        "by its new time",
        "no entry has a new time",
        "another's entry has",
        "of the status",
        "odd",
        "unreadable",
        "none",
    ],
)
@with_new(server=Server)
def test_a_manifest_removes_what_its_field_manager_had_set(
    server: Server, manager: str, before: list[Wire] | None, after: list[Wire] | None, kept: set[str]
) -> None:
    manifest = sent(managed=after)
    found = ours(ask(server, stored(before), manifest, manager=manager), manifest)
    assert {key for key in STOP if found.get(key) == STOP[key]} == kept


def test_a_queue_without_a_spec_is_given_all_of_it(server: Server) -> None:
    after = {**sent(TYPED), "spec": None}
    answer = ask(server, stored(), after)
    assert applied(answer.patch, after)["spec"] == {"parent": "root", **STOP}
