"""How each cost grows: the pictures, the words, and the trees that are measured."""

from __future__ import annotations

import pytest

from benchmarks import scale
from benchmarks.growth import repetitions
from benchmarks.growth.costs import Cost, curve, note
from benchmarks.growth.trees import Shape, parents

COST = Cost(
    name="filter",
    title="One filter call",
    by="node names",
    unit="µs",
    seen={5_000: (500.0,), 100: (9.0, 10.0, 12.0), 1_000: (100.0,)},
)


def test_beside_what_was_seen_stands_what_was_fitted() -> None:
    drawn = curve(COST)
    assert drawn.name == "growth-filter"
    assert list(drawn.series) == ["seen", "n^1.00"]
    seen, fitted = drawn.series.values()
    assert [point.x for point in seen] == [point.x for point in fitted] == [100, 1_000, 5_000]
    assert [point.y.middle for point in fitted] == pytest.approx([10.0, 100.0, 500.0])


def test_the_fit_goes_through_the_medians() -> None:
    """One bad round of many changes nothing; but the picture shows it."""
    (seen, _) = curve(COST).series.values()
    assert (seen[0].y.least, seen[0].y.middle, seen[0].y.greatest) == (9.0, 10.0, 12.0)


def test_a_note_has_the_exponent_and_both_ends() -> None:
    assert note(COST) == "One filter call, by node names: **n^1.00**, 10.0 µs at 100 to 500 µs at 5,000"


@pytest.mark.parametrize("depth", [1, 4, 64])
def test_a_chain_is_as_deep_as_it_is_said_to_be(depth: int) -> None:
    """And each queue comes after the one it hangs on."""
    depths = {"root": 0}
    for name, parent in parents(Shape(64, depth)):
        depths[name] = depths[parent] + 1
    assert len(depths) == 65
    assert max(depths.values()) == depth


def test_a_size_that_has_taken_long_is_not_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """But once, whatever it takes."""
    assert list(repetitions.rounds(3)) == [1, 2, 3]
    monkeypatch.setattr(repetitions, "SIZE_SECONDS", -1.0)
    assert list(repetitions.rounds(3)) == [1]


def test_sizes_that_a_trial_makes_alike_are_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale, "SCALE", 0.03)
    assert repetitions.scaled((10, 100, 300, 1_000)) == [10, 30]
