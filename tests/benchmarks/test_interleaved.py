"""What is put side by side is measured in turns."""

from __future__ import annotations

import pytest

from benchmarks import scale
from benchmarks.interleaved import in_turns


def test_each_way_has_its_turn_in_every_round_and_is_first_in_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale, "PAIRS", 2)
    order: list[str] = []
    said: list[str] = []

    def way(name: str) -> int:
        order.append(name)
        return len(order)

    seen = in_turns(
        {"a": lambda: way("a"), "b": lambda: way("b")}, told=lambda one: f"{one}!", say=said.append
    )
    assert (order, seen) == (["a", "b", "b", "a"], {"a": [1, 4], "b": [2, 3]})
    assert said == ["pair 1: a: 1!", "pair 1: b: 2!", "pair 2: b: 3!", "pair 2: a: 4!"]


@pytest.mark.parametrize(("pairs", "rounds"), [(5, 7), (10, 14), (2, 2), (1, 1)])
def test_a_row_has_more_rounds_than_usual_in_proportion(
    monkeypatch: pytest.MonkeyPatch, pairs: int, rounds: int
) -> None:
    monkeypatch.setattr(scale, "PAIRS", pairs)
    assert list(scale.rounds(7)) == list(range(1, rounds + 1))


def test_a_row_with_few_rounds_has_one_in_any_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale, "PAIRS", 1)
    assert list(scale.rounds(3)) == [1]
