"""What a client of another schema drops of a Queue: whether it is put back, and what its user is told."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from queues.admission.dropped_fields import (
    OUR_STATUS,
    OURS,
    ClientType,
    DroppedFields,
    SentQueue,
    client_of,
    dropped_fields,
)
from queues.admission.stop_edits import LENGTH
from tests.support.cases import each_case
from tests.support.paths import ROOT

#: As the controller has it.
STATUS = {"state": "Suspended", "allocated": {}, "conditions": [{"type": "Active"}], "observedGeneration": 3}
#: As the Go types of Volcano's API write it.
TYPED: Mapping[str, Any] = {"state": "Suspended", "reservation": {}, "allocated": None}
#: As the definition defaults an object in which the fields are not.
DEFAULTS = {"weight": 1, "reclaimable": True, "stopPolicy": "None", "dequeueStrategy": "traverse"}
STOPPED: Mapping[str, Any] = {
    **DEFAULTS,
    "parent": "research",
    "state": "Suspended",
    "reason": "disks",
    "windows": [{"name": "nightly"}],
    "namespaceSelector": {"matchLabels": {"team": "a"}},
    "schedulerPolicy": "batch",
}
#: What of it Volcano's types have.
VOLCANOS: Mapping[str, Any] = {**DEFAULTS, "parent": "research", "guarantee": {}, "weight": 5}


def edit(
    spec: Mapping[str, Any],
    *,
    stored: Mapping[str, Any] = STOPPED,
    status: Mapping[str, Any] | None = None,
    manager: str = "",
    owned: tuple[str, ...] = (),
    was: Mapping[str, Any] = STATUS,
) -> DroppedFields:
    return dropped_fields(
        "lab",
        SentQueue(spec=stored, status=was),
        SentQueue(spec=spec, status=was if status is None else status),
        manager=manager,
        owned=lambda: owned,
    )


def test_what_the_types_of_volcano_lack_is_put_back_and_told() -> None:
    found = edit(VOLCANOS, status=TYPED)
    assert found.kept == {key: STOPPED[key] for key in OURS if key in STOPPED and STOPPED[key] != "None"}
    assert found.warnings == (
        'queue "lab" keeps spec.state, reason, windows, namespaceSelector and schedulerPolicy: this client '
        "sent none of them, as one that does not know them does; to end its stop: kubectl queue resume lab",
    )


def test_a_queue_that_nothing_stops_says_nothing_to_a_client_of_volcanos_types() -> None:
    """Its operator writes it every few seconds."""
    open_queue = {**DEFAULTS, "parent": "root", "state": "Open"}
    assert edit({**DEFAULTS, "parent": "root"}, stored=open_queue, status=TYPED) == DroppedFields()


def test_a_closed_queue_is_opened_by_another_command() -> None:
    [text] = edit(VOLCANOS, stored={**VOLCANOS, "state": "Closed"}, status=TYPED).warnings
    assert text.endswith("to end its stop: kubectl queue open lab")


def test_what_stops_nothing_is_changed_by_a_client_that_knows_it() -> None:
    [text] = edit(VOLCANOS, stored={**VOLCANOS, "state": "Open", "parked": "Keep"}, status=TYPED).warnings
    assert text.endswith("does; change them with kubectl queue, kubectl edit or a patch")
    assert "keeps spec.parked:" in text


@each_case(
    ("before", "sent", "client"),
    [
        (STATUS, STATUS, ClientType.WHOLE),
        (STATUS, {**STATUS, "pending": 1}, ClientType.WHOLE),
        (STATUS, TYPED, ClientType.TYPED),
        (STATUS, {**TYPED, "conditions": []}, ClientType.TYPED),
        (STATUS, {}, ClientType.MANIFEST),
        ({}, {}, ClientType.UNKNOWN),
        ({}, TYPED, ClientType.TYPED),
        (TYPED, TYPED, ClientType.UNKNOWN),
        (TYPED, {**TYPED, "pending": 1}, ClientType.TYPED),
    ],
)
def test_the_status_that_was_sent_shows_the_client(
    before: Mapping[str, Any], sent: Mapping[str, Any], client: ClientType
) -> None:
    assert client_of(SentQueue(spec={}, status=before), SentQueue(spec={}, status=sent)) is client


def test_a_patch_removes_what_it_names() -> None:
    """By `null`; the object has its status as it is stored."""
    patched = {key: value for key, value in STOPPED.items() if key != "windows"}
    assert edit(patched) == DroppedFields()


def test_a_patch_may_resume_a_queue_by_removing_its_state() -> None:
    stored = {**VOLCANOS, "state": "Suspended"}
    assert edit(VOLCANOS, stored=stored) == DroppedFields()


def test_whoever_removes_all_of_several_is_told_which() -> None:
    """The reason goes with the stop, and is told with it."""
    found = edit(VOLCANOS)
    assert found.kept == {}
    assert found.warnings == (
        "this edit removes spec.state, windows, namespaceSelector and schedulerPolicy of queue "
        '"lab": to keep them, send them too, or patch single fields',
    )


@each_case("status", [{}, TYPED])
def test_kubectl_replace_is_meant_as_it_is_and_told_what_goes(status: Mapping[str, Any]) -> None:
    found = edit(VOLCANOS, status=status, manager="kubectl-replace")
    assert found.kept == {}
    assert [text.partition(":")[0] for text in found.warnings] == [
        'this edit removes spec.state, windows, namespaceSelector and schedulerPolicy of queue "lab"'
    ]


def test_kubectl_replace_is_told_of_one_field_too() -> None:
    replaced = {key: value for key, value in STOPPED.items() if key != "reason"}
    found = edit(replaced, status={}, manager="kubectl-replace")
    assert found.warnings == (
        'this edit removes spec.reason of queue "lab": to keep it, send it too, or patch single fields',
    )


def test_a_manifest_that_is_put_removes_what_its_own_manager_had_set_and_keeps_the_rest() -> None:
    """Such as Helm with --force: somebody has suspended a queue of its chart since."""
    found = edit(VOLCANOS, status={}, manager="helm", owned=("windows", "parent", "weight"))
    assert found.kept.keys() == {"state", "reason", "namespaceSelector", "schedulerPolicy"}
    kept, removed = found.warnings
    assert "keeps spec.state, reason, namespaceSelector and schedulerPolicy" in kept
    assert removed.startswith('this edit removes spec.windows of queue "lab"')


@each_case("status", [{}, TYPED])
def test_where_the_stored_status_shows_nothing_the_stop_stays(status: Mapping[str, Any]) -> None:
    """Volcano's scheduler writes statuses beside ours: then a client of its types sends what is stored."""
    found = edit(VOLCANOS, was=status)
    assert found.kept.keys() == {"state", "reason", "windows", "namespaceSelector", "schedulerPolicy"}
    assert edit(VOLCANOS, was=status, manager="kubectl-patch").kept == {}
    assert "state" not in edit(VOLCANOS, was=status, manager="argo", owned=("state",)).kept


def test_where_it_shows_nothing_a_single_field_may_be_removed() -> None:
    patched = {key: value for key, value in STOPPED.items() if key != "windows"}
    assert edit(patched, was={}) == DroppedFields()


def test_a_manifest_that_says_it_opens_the_queue() -> None:
    found = edit({**VOLCANOS, "state": "Open"}, status={}, manager="helm")
    assert "state" not in found.kept


@each_case("spec", [{**VOLCANOS, "windows": []}, {**VOLCANOS, "windows": [{"name": "other"}]}])
def test_what_was_sent_is_never_changed(spec: Mapping[str, Any]) -> None:
    assert "windows" not in edit(spec, status={}).kept


@each_case(
    ("spec", "kept", "told"),
    [
        ({"weight": 5}, {"parent", "deserved", "priority", "dequeueStrategy", "affinity", "type"}, set()),
        ({"type": "x"}, {"parent", "deserved", "priority", "dequeueStrategy"}, {"affinity"}),
        ({"parent": "research"}, set(), {"deserved", "priority", "dequeueStrategy", "affinity", "type"}),
        ({"parent": "research", "deserved": {"cpu": "1"}}, set(), {"priority", "dequeueStrategy"}),
    ],
    ids=["1.6", "1.7", "1.9 or newer", "all but two"],
)
def test_newer_fields_of_volcano_stay_where_its_client_is_older(
    spec: Mapping[str, Any], kept: set[str], told: set[str]
) -> None:
    newer = {
        "parent": "research",
        "deserved": {"cpu": "2"},
        "priority": 3,
        "dequeueStrategy": "fifo",
        "affinity": {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["a"]}},
        "type": "x",
    }
    stored = {**DEFAULTS, "state": "Open", **newer}
    found = edit({**DEFAULTS, **spec}, stored=stored, status=TYPED)
    assert found.kept == {key: newer[key] for key in kept}
    assert all(any(key in text and "removes" in text for text in found.warnings) for key in told)


def test_the_names_are_bounded_whatever_the_queue_is_called() -> None:
    long = "q" * 250
    sent = SentQueue(spec={}, status=TYPED)
    stored = SentQueue(spec=dict.fromkeys(OURS, "x"), status=STATUS)
    found = dropped_fields(long, stored, sent, manager="", owned=lambda: ())
    assert all(len(text) <= LENGTH for text in found.warnings)
    assert "and 6 more" in found.warnings[0]


def test_the_server_writes_which_windows_are_on_and_it_goes_with_them() -> None:
    """It is put back beside them, and is not told."""
    stored = {**VOLCANOS, "windows": [{"name": "a"}], "inWindow": [{"name": "a"}]}
    found = edit(VOLCANOS, stored=stored, status=TYPED)
    assert found.kept.keys() == {"windows", "inWindow"}
    assert "inWindow" not in found.warnings[0]


@pytest.fixture(scope="module")
def definition() -> Mapping[str, Any]:
    """The properties of the object by the definition of Queues."""
    [version] = yaml.safe_load(Path(ROOT, "manifests/crds/queues.yaml").read_text())["spec"]["versions"]
    found: Mapping[str, Any] = version["schema"]["openAPIV3Schema"]["properties"]
    return found


def test_the_fields_of_the_status_that_volcano_lacks_are_in_the_definition(
    definition: Mapping[str, Any],
) -> None:
    volcanos = {"state", "unknown", "pending", "running", "inqueue", "completed", "reservation", "allocated"}
    assert definition["status"]["properties"].keys() == OUR_STATUS | volcanos


def test_what_the_definition_writes_by_itself_is_no_sign_that_a_client_knows_a_field(
    definition: Mapping[str, Any],
) -> None:
    """Else a field with a default would be taken for sent."""
    written = {
        name: field["default"]
        for name, field in definition["spec"]["properties"].items()
        if "default" in field
    }
    assert written == DEFAULTS
