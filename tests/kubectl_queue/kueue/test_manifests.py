"""Files with manifests: what is read of them, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubectl_queue.kueue.manifests import FILE_LIMIT, BadManifest, read_objects
from tests.support.cases import each_case

A, B = {"kind": "A"}, {"kind": "B"}


@each_case(
    ("text", "expected"),
    [
        ("kind: A", [A]),
        ("---\nkind: A\n---\n---\nkind: B\n", [A, B]),
        ("kind: List\nitems: [{kind: A}, {kind: B}]", [A, B]),
        ("- kind: A\n- kind: B", [A, B]),
        (json.dumps({"kind": "List", "items": [A, B]}), [A, B]),
        (json.dumps([A, B]), [A, B]),
        ("{kind: A}", [A]),
        ("text", ["text"]),
        (
            "apiVersion: v1\nkind: AList\nitems: [{x: 1}, {kind: B}]",
            [{"apiVersion": "v1", "kind": "A", "x": 1}, B],
        ),
    ],
)
def test_each_object_of_a_file_is_read(text: str, expected: list[Any]) -> None:
    assert read_objects(text) == expected


BAD = {
    "empty": ("", "there are no objects in it"),
    "an empty List": ("kind: List\nitems: []", "there are no objects in it"),
    "not YAML": ("kind: A\n  - b: [", "line 2: not YAML"),
    "a tab": ("kind:\n\t- a", "line 2: not YAML"),
    "a tag": ("!!python/object:os.system {}", "line 1: not YAML"),
    "deep YAML": ("a: " + "[" * 100_000, "line 1: values are nested deeper than 64"),
    "deep JSON": ('{"a":' * 100_000 + "1" + "}" * 100_000, "values are nested too deep"),
    "an anchor": ("a: &a [1]\nb: *a", "line 2: anchors are not read"),
    "long": ("#" * FILE_LIMIT, "it is longer than"),
    "a number that is none": ("a: 1\nb: !!float x", "not YAML"),
    "a NUL": ("a: \0", "not YAML"),
    "half a pair": ('{"a": "\\ud800', "line 1: not YAML"),
    "a long number": ('{"a": ' + "9" * 5000 + "}", "not YAML"),
    "an hour that is none": ("a: 2030-01-01T99:00:00Z", "not YAML"),
}


@each_case(("text", "reason"), BAD.values(), ids=BAD)
def test_what_cannot_be_read_is_said_with_its_line(text: str, reason: str) -> None:
    with pytest.raises(BadManifest) as caught:
        read_objects(text)
    assert str(caught.value).startswith(reason)
    assert len(str(caught.value)) < 300
