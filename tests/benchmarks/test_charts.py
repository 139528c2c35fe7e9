"""Curves as SVG."""

from __future__ import annotations

import re
from xml.etree import ElementTree as Xml

import pytest

from benchmarks.charts import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    nice,
    render,
)
from benchmarks.figures import Curve, Point, spread
from tests.support.cases import each_case


def curve(*points: Point, name: str = "ours") -> Curve:
    return Curve(name="c", title="Calls < 5 ms", across="nodes", up="ms", series={name: points})


THREE = curve(*(Point(x, spread((x / 100, x / 50))) for x in (100, 1_000, 5_000)))


def places(svg: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', svg)]


def test_a_picture_is_well_formed_whatever_its_words() -> None:
    Xml.fromstring(render(curve(Point(1, spread((1.0,))), name="<&>")))  # noqa: S314 - our own text


def test_every_point_lies_in_the_frame() -> None:
    for x, y in places(render(THREE)):
        assert LEFT <= x <= WIDTH - RIGHT
        assert TOP <= y <= HEIGHT - BOTTOM


def test_more_is_higher_and_further_right() -> None:
    found = places(render(THREE))
    assert found == sorted(found)
    assert [y for _, y in found] == sorted((y for _, y in found), reverse=True)


def test_values_that_span_decades_are_told_apart() -> None:
    """By their logarithms: a tenth lies where a tenth should."""
    (least, _), (middle, _), (most, _) = places(render(THREE))
    assert (middle - least) / (most - least) == pytest.approx(0.59, abs=0.01)


def test_a_single_point_is_a_picture_too() -> None:
    assert len(places(render(curve(Point(0, spread((0.0,))))))) == 1


def test_a_course_over_time_has_a_line_and_few_labels() -> None:
    svg = render(curve(*(Point(x / 2, spread((1.0,))) for x in range(131))))
    assert places(svg) == []
    labels = re.findall(rf'y="{HEIGHT - BOTTOM + 18}.0" text-anchor="middle">(\d+)<', svg)
    assert labels == [str(second) for second in range(0, 66, 10)]


@each_case(("value", "top"), [(0.7, 1), (1.0, 1), (1.2, 2), (3, 5), (7, 10), (130, 200), (0, 1)])
def test_an_axis_ends_at_a_round_number(value: float, top: float) -> None:
    assert nice(value) == top
