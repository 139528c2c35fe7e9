"""What is put side by side is measured in turns."""

from __future__ import annotations

import pytest

from benchmarks import sizes
from benchmarks.turns import in_turns


def test_each_way_has_its_turn_in_every_round_and_is_first_in_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "PAIRS", 2)
    order, said = [], []

    def way(name: str) -> int:
        order.append(name)
        return len(order)

    seen = in_turns(
        {"a": lambda: way("a"), "b": lambda: way("b")}, told=lambda one: f"{one}!", say=said.append
    )
    assert (order, seen) == (["a", "b", "b", "a"], {"a": [1, 4], "b": [2, 3]})
    assert said == ["pair 1: a: 1!", "pair 1: b: 2!", "pair 2: b: 3!", "pair 2: a: 4!"]


@pytest.mark.parametrize(("trial", "rounds"), [(False, 7), (True, 5)])
def test_more_rounds_than_usual_are_for_what_is_kept(
    monkeypatch: pytest.MonkeyPatch, trial: bool, rounds: int
) -> None:
    monkeypatch.setattr(sizes, "PAIRS", 5)
    monkeypatch.setattr(sizes, "TRIAL", trial)
    seen = in_turns({"a": lambda: 1}, told=str, say=lambda _: None, pairs=7)
    assert seen == {"a": [1] * rounds}
