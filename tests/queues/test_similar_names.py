"""Names near one that does not exist: found where one letter differs, and cheap among thousands of queues."""

from __future__ import annotations

import difflib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.similar_names import did_you_mean, similar_names
from queues.snapshot import QueueSnapshot
from tests.support.cases import each_case
from tests.support.rules.cases import MODEST, NOW, queue, tree

THOUSANDS = [f"team-{number:04}" for number in range(5000)]
NAMES = st.text("abcdefghij-", min_size=6, max_size=30)


@MODEST
@given(NAMES, st.data())
def test_a_name_with_one_fault_in_it_is_near(name: str, data: st.DataObject) -> None:
    """A letter that is missing, added, another, or in the place of its neighbour."""
    at = data.draw(st.integers(0, len(name) - 2))
    faulty = data.draw(
        st.sampled_from(
            [
                name[:at] + name[at + 1 :],
                f"{name[:at]}x{name[at:]}",
                f"{name[:at]}x{name[at + 1 :]}",
                name[:at] + name[at + 1] + name[at] + name[at + 2 :],
            ]
        )
    )
    is_near = difflib.SequenceMatcher(None, name, faulty).ratio() >= 0.8  # a, by two letters of six, is not
    assert similar_names(faulty, ["other", name, "another"]) == ((name,) if is_near else ())


@each_case("name", ["", "a", "ab", "completely-different", "x" * 100_000])
def test_what_is_near_nothing_gets_no_name(name: str) -> None:
    assert similar_names(name, ["research", "vision"]) == ()
    assert did_you_mean(()) == ""


@pytest.mark.parametrize("name", ["team-00011", "taem-0001", "team-000x", "team", "team-team", "teams-0001"])
def test_few_names_are_compared_letter_by_letter(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[Any] = []
    plain = difflib.get_close_matches

    def counted(word: str, among: list[str], **more: Any) -> list[str]:
        compared.extend(among)
        return plain(word, among, **more)

    monkeypatch.setattr(difflib, "get_close_matches", counted)
    similar_names(name, THOUSANDS)
    assert len(compared) <= 64


def test_a_snapshot_looks_once_for_each_name_and_keeps_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Users choose the names: a flood of them fills no memory."""
    snapshot = QueueSnapshot(tree(queue("research")), now=NOW)
    assert snapshot.similar_names("reserch") == ("research",)
    looked: list[str] = []

    def look(name: str, _among: object) -> tuple[str, ...]:
        looked.append(name)
        return ()

    monkeypatch.setattr("queues.snapshot.similar_names", look)
    assert snapshot.similar_names("reserch") == ("research",)
    assert looked == []
    for number in range(1000):
        snapshot.similar_names(f"name-{number}")
    assert len(snapshot._similar) == 256
    changed = QueueSnapshot.updated(snapshot, tree(queue("vision")), changed=["vision"], now=NOW)
    assert changed._similar == {}
