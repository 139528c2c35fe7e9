"""The steps we write, applied: the map has what is wanted, and nothing else has changed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.support.rules.cases import MODEST
from tests.support.webhooks.json_patch import applied
from webhooks.json_patch import json_pointer, patch_map

KEYS = st.sampled_from(["a", "a/b", "a~b", "~1", "~0/", "", "sluice.dev/queue", "ключ"])
WANTED = st.dictionaries(KEYS, st.none() | st.sampled_from(["x", "y", ""]))
HELD = st.none() | st.dictionaries(KEYS, st.sampled_from(["x", "y", ""]))


@MODEST
@given(held=HELD, wanted=WANTED, there=st.booleans())
def test_the_map_has_the_wanted_entries_and_keeps_the_others(
    held: dict[str, str] | None, wanted: dict[str, str | None], there: bool
) -> None:
    """`there`: whether a map that is absent is null or not in its object at all."""
    obj = {"metadata": {"name": "n"} if held is None and not there else {"name": "n", "labels": held}}
    after = applied(patch_map("/metadata/labels", held, wanted), obj)["metadata"]
    expected = {**(held or {}), **{key: value for key, value in wanted.items() if value is not None}}
    for key in [key for key, value in wanted.items() if value is None]:
        expected.pop(key, None)
    assert (after.get("labels") or {}) == expected
    assert after["name"] == "n"


def test_what_is_there_already_is_not_written() -> None:
    assert patch_map("/m", {"a": "x"}, {"a": "x", "b": None}) == []
    assert patch_map("/m", None, {"b": None}) == []


def test_slashes_and_tildes_in_a_key_are_escaped() -> None:
    assert json_pointer("a/b", "c~d", 0) == "/a~1b/c~0d/0"
