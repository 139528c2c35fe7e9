"""What is put side by side is measured in turns."""

from __future__ import annotations

import pytest

from benchmarks import sizes
from benchmarks.turns import in_turns


def test_each_way_has_its_turn_in_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "PAIRS", 2)
    order, said = [], []

    def way(name: str) -> int:
        order.append(name)
        return len(order)

    seen = in_turns(
        {"a": lambda: way("a"), "b": lambda: way("b")}, told=lambda one: f"{one}!", say=said.append
    )
    assert (order, seen) == (["a", "b", "a", "b"], {"a": [1, 3], "b": [2, 4]})
    assert said == ["pair 1: a: 1!", "pair 1: b: 2!", "pair 2: a: 3!", "pair 2: b: 4!"]
