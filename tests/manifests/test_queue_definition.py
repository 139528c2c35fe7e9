"""The definition of a Queue and the code's own rules are about the same fields."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
import yaml

from cluster.objects import PodCounts, QueueStatus, QuotaStatus, StopStatus
from queues.apimachinery.label_selectors import Operator
from queues.drain.model import _DrainFields, parse_drain_spec
from queues.drain.progress import (
    MAX_BLOCKERS,
    Blocker,
    DrainCounts,
    QueueProgress,
    drain_status,
)
from queues.fields.checks import BadField
from queues.fields.drain import DRAIN_FIELDS
from queues.fields.table import BY_NAME, FIELDS
from queues.namespace_selectors import EXPRESSIONS_LIMIT, LABELS_LIMIT, VALUES_LIMIT
from queues.status.changes import HistoryLine
from queues.status.closing import ClosingStatus
from tests.support.paths import ROOT

PATH = ROOT / "manifests" / "crds" / "queues.yaml"


def of(part: str) -> dict[str, Any]:
    """The properties of `spec`, or of `status`."""
    definition = yaml.load(PATH.read_text(), Loader=yaml.CSafeLoader)
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    properties: dict[str, Any] = schema["properties"][part]["properties"]
    return properties


@pytest.fixture(scope="module")
def spec() -> dict[str, Any]:
    return of("spec")


@pytest.mark.parametrize("name", BY_NAME)
def test_each_field_of_the_table_is_described_in_its_words(spec: dict[str, Any], name: str) -> None:
    """`kubectl explain` shows them."""
    schema = schema_of(spec, name)
    assert schema is not None, f"manifests/crds/queues.yaml lacks spec.{name}"
    assert schema["description"] == BY_NAME[name].description


def test_the_definition_has_no_field_that_is_not_in_the_table(spec: dict[str, Any]) -> None:
    assert spec.keys() - {row.name for row in FIELDS} == set()
    for row in FIELDS:
        if row.fields:
            assert spec[row.name]["properties"].keys() - {part.name for part in row.fields} == set()


@pytest.mark.parametrize("name", BY_NAME)
def test_the_definition_takes_what_the_check_takes(spec: dict[str, Any], name: str) -> None:
    """Words, numbers and lengths: what the definition just takes and just does not, so does the check."""
    schema = schema_of(spec, name) or {}
    for value, taken in edges(schema):
        assert is_taken(name, value) is taken, (name, value)


def schema_of(spec: dict[str, Any], name: str) -> dict[str, Any] | None:
    """Of a field by its name in the table: `drain.rate` is in the object `drain`."""
    above, _, last = name.rpartition(".")
    schema: dict[str, Any] | None = (spec[above]["properties"] if above else spec).get(last)
    return schema


def is_taken(name: str, value: object) -> bool:
    try:
        BY_NAME[name].check(f"spec.{name}", value, None)
    except BadField:
        return False
    return True


def edges(schema: dict[str, Any]) -> Iterator[tuple[object, bool]]:
    """Values at the edges of what a schema takes, and whether it takes them."""
    words: list[str] = schema.get("enum", [])
    yield from ((word, True) for word in words)
    if words:
        yield "NoSuchWord", False
    elif schema.get("maxLength") and "pattern" not in schema:
        yield "x" * schema["maxLength"], True
        yield "x" * (schema["maxLength"] + 1), False
    if "minimum" in schema:
        exclusive = schema.get("exclusiveMinimum", False)
        yield schema["minimum"], not exclusive
        yield schema["minimum"] - (0 if exclusive else 1), False
    if "maximum" in schema:
        yield schema["maximum"], True
        yield schema["maximum"] + 1, False
    wrong: dict[str, object] = {"string": 1, "integer": "1", "number": "1", "boolean": 1, "array": {}}
    yield wrong.get(schema.get("type", ""), "x"), False
    if "default" in schema:
        yield schema["default"], True


def test_the_recorded_fields_are_named_where_changes_are_described(spec: dict[str, Any]) -> None:
    recorded = [row.name for row in FIELDS if row.history]
    described = of("status")["changes"]["description"]
    assert described == f"The last changes of {', '.join(recorded[:-1])} and {recorded[-1]}, oldest first."


def test_the_sizes_of_a_namespace_selector_are_the_codes(spec: dict[str, Any]) -> None:
    """So that neither refuses for its size what the other takes."""
    said = spec["namespaceSelector"]["properties"]
    values = said["matchExpressions"]["items"]["properties"]["values"]
    sizes = (said["matchLabels"]["maxProperties"], said["matchExpressions"]["maxItems"], values["maxItems"])
    assert sizes == (LABELS_LIMIT, EXPRESSIONS_LIMIT, VALUES_LIMIT)
    operators = said["matchExpressions"]["items"]["properties"]["operator"]["enum"]
    assert operators == list(Operator)


def test_each_wish_of_a_drain_is_read() -> None:
    """One that the table has and the drain does not read would be granted to nobody."""
    assert {row.name for row in DRAIN_FIELDS} == {
        field.encode_name for field in msgspec.structs.fields(_DrainFields)
    }


def test_rules_and_ends_are_worded_as_they_are_read(spec: dict[str, Any]) -> None:
    """Keep keeps, Scale scales and Delete deletes; the default changes nothing."""
    said = spec["drain"]["properties"]
    read = {word: parse_drain_spec({"barePods": word}).keep_bare for word in said["barePods"]["enum"]}
    assert read == {"Evict": False, "Keep": True}
    gangs = {
        word: parse_drain_spec({"brokenGangs": word}).evict_broken_gangs
        for word in said["brokenGangs"]["enum"]
    }
    assert gangs == {"Evict": True, "Keep": False}
    ends = {word: parse_drain_spec({"afterDeadline": word}) for word in said["afterDeadline"]["enum"]}
    assert {word: (end.delete_after_deadline, end.scale_after_deadline) for word, end in ends.items()} == {
        "Keep": (False, False),
        "Scale": (True, True),
        "Delete": (True, False),
    }
    defaults = {name: schema["default"] for name, schema in said.items() if "default" in schema}
    assert parse_drain_spec(defaults) == parse_drain_spec(None)


#: Fields of Volcano's status that Sluice does not write. The tools of Volcano show what is there.
VOLCANOS = {"reservation"}


def test_the_status_has_the_fields_that_the_controller_reads_back_and_no_others() -> None:
    """A field that is missing here is dropped by the API server, and would be written again for ever."""
    status = of("status")
    assert status.keys() - VOLCANOS == set(QueueStatus.__struct_encode_fields__)
    parts = {"pods": PodCounts, "stop": StopStatus, "closing": ClosingStatus, "quota": QuotaStatus}
    for name, part in parts.items():
        assert status[name]["properties"].keys() == set(part.__struct_encode_fields__)
    assert status["changes"]["items"]["properties"].keys() == set(HistoryLine.__struct_encode_fields__)


def test_all_that_is_told_of_a_drain_has_its_place() -> None:
    """The status that the controller writes, and no field that it does not."""
    blocker = Blocker(name="b", pods=1, never=False, message="m")
    told = drain_status(DrainCounts(since=datetime.now(UTC)), QueueProgress(blockers=(blocker,)), since="now")
    drain = of("status")["drain"]["properties"]
    assert drain.keys() == told.keys()
    assert drain["blockers"]["items"]["properties"].keys() == told["blockers"][0].keys()
    assert drain["blockers"]["maxItems"] == MAX_BLOCKERS
