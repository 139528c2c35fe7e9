"""The definition of a Queue and the code's own rules are about the same fields."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
import yaml

from queues.admission.field_validation import (
    CHECKS,
    REASON_LENGTH,
    field_refusal,
)
from queues.apimachinery.label_selectors import Operator
from queues.drain.model import _DrainFields, parse_drain_spec
from queues.drain.progress import (
    MAX_BLOCKERS,
    Blocker,
    DrainCounts,
    QueueProgress,
    drain_status,
)
from queues.namespace_selectors import EXPRESSIONS_LIMIT, LABELS_LIMIT, VALUES_LIMIT
from queues.states import Desired, StopPolicy
from tests.support.paths import ROOT

PATH = ROOT / "manifests" / "crds" / "queues.yaml"
#: What is kept for later versions: nothing in a description may sound as if it happened today.
LATER = {
    *("weight", "capability", "deserved", "guarantee", "reclaimable", "priority", "dequeueStrategy"),
    *("affinity", "extendClusters"),
}


def of(part: str) -> dict[str, Any]:
    """The properties of `spec`, or of `status`."""
    definition = yaml.safe_load(PATH.read_text())
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    properties: dict[str, Any] = schema["properties"][part]["properties"]
    return properties


@pytest.fixture(scope="module")
def spec() -> dict[str, Any]:
    return of("spec")


def test_each_field_is_checked_and_each_check_is_of_a_field(spec: dict[str, Any]) -> None:
    """A field that is added to one of them is missed in the other."""
    assert spec.keys() == CHECKS.keys()


def test_words_and_lengths_are_the_codes(spec: dict[str, Any]) -> None:
    """The API server and the webhook take the same."""
    assert spec["state"]["enum"] == list(Desired)
    assert spec["stopPolicy"]["enum"] == list(StopPolicy)
    assert spec["reason"]["maxLength"] == REASON_LENGTH


def test_the_sizes_of_a_namespace_selector_are_the_codes(spec: dict[str, Any]) -> None:
    """So that neither refuses for its size what the other takes."""
    said = spec["namespaceSelector"]["properties"]
    values = said["matchExpressions"]["items"]["properties"]["values"]
    sizes = (said["matchLabels"]["maxProperties"], said["matchExpressions"]["maxItems"], values["maxItems"])
    assert sizes == (LABELS_LIMIT, EXPRESSIONS_LIMIT, VALUES_LIMIT)
    operators = said["matchExpressions"]["items"]["properties"]["operator"]["enum"]
    assert operators == list(Operator)


def test_each_wish_of_a_drain_is_described_checked_and_read(spec: dict[str, Any]) -> None:
    """One that the definition has and the drain does not read would be granted to nobody."""
    said = spec["drain"]["properties"]
    assert said.keys() == {field.encode_name for field in msgspec.structs.fields(_DrainFields)}
    for name, schema in said.items():
        least = schema.get("minimum", 1) - 1
        bad = least if schema["type"] in ("integer", "number") else "of no sort"
        assert f"spec.drain.{name}: " in str(field_refusal({}, {"drain": {name: bad}}))


def test_rules_and_ends_are_worded_as_they_are_read(spec: dict[str, Any]) -> None:
    """Keep keeps and Delete deletes; the other word is the default, which changes nothing."""
    said = spec["drain"]["properties"]
    read = {word: parse_drain_spec({"barePods": word}).keep_bare for word in said["barePods"]["enum"]}
    assert read == {"Evict": False, "Keep": True}
    read = {
        word: parse_drain_spec({"afterDeadline": word}).delete_after_deadline
        for word in said["afterDeadline"]["enum"]
    }
    assert read == {"Keep": False, "Delete": True}
    defaults = {name: schema["default"] for name, schema in said.items() if "default" in schema}
    assert parse_drain_spec(defaults) == parse_drain_spec(None)


def test_all_that_is_told_of_a_drain_has_its_place() -> None:
    """The status that the controller writes, and no field that it does not."""
    blocker = Blocker(name="b", pods=1, never=False, message="m")
    told = drain_status(DrainCounts(since=datetime.now(UTC)), QueueProgress(blockers=(blocker,)), since="now")
    drain = of("status")["drain"]["properties"]
    assert drain.keys() == told.keys()
    assert drain["blockers"]["items"]["properties"].keys() == told["blockers"][0].keys()
    assert drain["blockers"]["maxItems"] == MAX_BLOCKERS


@pytest.mark.parametrize("field", sorted(LATER))
def test_what_is_only_kept_says_so(spec: dict[str, Any], field: str) -> None:
    """A description promises nothing that this version does not do."""
    text = spec[field]["description"]
    assert any(words in text for words in ("yet", "nothing is sent")), text
