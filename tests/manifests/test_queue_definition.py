"""The definition of a Queue and the code's own rules are about the same fields."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from queues.fields import CHECKS, REASON_LENGTH
from queues.states import Desired, StopPolicy

PATH = Path(__file__).parents[2] / "manifests" / "crds" / "queues.yaml"
#: What is kept for later versions: nothing in a description may sound as if it happened today.
LATER = {
    *("weight", "capability", "deserved", "guarantee", "reclaimable", "priority", "dequeueStrategy"),
    *("affinity", "extendClusters", "drain", "schedulerPolicy"),
}


@pytest.fixture(scope="module")
def spec() -> dict[str, Any]:
    """The properties of `spec`."""
    definition = yaml.safe_load(PATH.read_text())
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    properties: dict[str, Any] = schema["properties"]["spec"]["properties"]
    return properties


def test_each_field_is_checked_and_each_check_is_of_a_field(spec: dict[str, Any]) -> None:
    """A field that is added to one of them is missed in the other."""
    assert spec.keys() == CHECKS.keys()


def test_words_and_lengths_are_the_codes(spec: dict[str, Any]) -> None:
    """The API server and the webhook take the same."""
    assert spec["state"]["enum"] == list(Desired)
    assert spec["stopPolicy"]["enum"] == list(StopPolicy)
    assert spec["reason"]["maxLength"] == REASON_LENGTH


@pytest.mark.parametrize("field", sorted(LATER))
def test_what_is_only_kept_says_so(spec: dict[str, Any], field: str) -> None:
    """A description promises nothing that this version does not do."""
    text = spec[field]["description"]
    assert any(words in text for words in ("yet", "nothing is sent")), text
