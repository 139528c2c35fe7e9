"""Curves as small SVG files. Pure: values in, text out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from benchmarks.figures import Curve, Point

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 150, 40, 48
COLOURS = ("#1b6ca8", "#d1495b", "#66a182", "#edae49", "#8d6a9f")
STEPS = 5
#: So many values across have a label each, and points of their own; more are a course over time.
LABELS = 24
FONT = 'font-family="sans-serif" font-size="12"'


class Scale:
    """From values to pixels; across, each value has its place by its logarithm where they span decades."""

    def __init__(self, points: Sequence[Point]) -> None:
        xs = [point.x for point in points]
        self.logarithmic = min(xs) > 0 and max(xs) / min(xs) >= 20
        self._least, self._most = self._placed(min(xs)), self._placed(max(xs))
        self.top = nice(max(point.y.greatest for point in points))

    def x(self, value: float) -> float:
        width = (self._most - self._least) or 1
        return LEFT + (self._placed(value) - self._least) / width * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - value / self.top * (HEIGHT - TOP - BOTTOM)

    def _placed(self, value: float) -> float:
        return math.log10(value) if self.logarithmic else value


def render(curve: Curve) -> str:
    """The picture; a bar at each point goes from the least to the greatest seen."""
    points = [point for each in curve.series.values() for point in each]
    scale = Scale(points)
    body = [*_frame(curve, scale, sorted({point.x for point in points}))]
    for number, (name, series) in enumerate(curve.series.items()):
        body += _series(name, series, scale, number=number)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {FONT}>'
    return "\n".join([head, f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>', *body, "</svg>", ""])


def nice(value: float) -> float:
    """The next round number: 1, 2 or 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if value <= step * power * (1 + 1e-9))


def _labels(xs: Sequence[float]) -> Sequence[float]:
    """The values across that are named."""
    if len(xs) <= LABELS:
        return xs
    step = nice((xs[-1] - xs[0]) / LABELS * 2)
    first, last = math.ceil(xs[0] / step), math.floor(xs[-1] / step)
    return [number * step for number in range(first, last + 1)]


def _frame(curve: Curve, scale: Scale, xs: Sequence[float]) -> Iterator[str]:
    yield _text(WIDTH / 2, 20, curve.title, anchor="middle", more=' font-weight="bold"')
    yield _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, curve.across, anchor="middle")
    yield _text(LEFT, TOP - 8, curve.up, anchor="middle")
    for step in range(STEPS + 1):
        value = scale.top * step / STEPS
        yield _path([(LEFT, scale.y(value)), (WIDTH - RIGHT, scale.y(value))], colour="#dddddd")
        yield _text(LEFT - 6, scale.y(value) + 4, f"{value:g}", anchor="end")
    for x in _labels(xs):
        yield _text(scale.x(x), HEIGHT - BOTTOM + 18, f"{x:,g}", anchor="middle")


def _series(name: str, series: Sequence[Point], scale: Scale, *, number: int) -> Iterator[str]:
    colour = COLOURS[number % len(COLOURS)]
    yield _path([(scale.x(point.x), scale.y(point.y.middle)) for point in series], colour=colour, width=2)
    for point in series if len(series) <= LABELS else ():
        x = scale.x(point.x)
        yield _path([(x, scale.y(point.y.least)), (x, scale.y(point.y.greatest))], colour=colour)
        yield f'<circle cx="{x:.1f}" cy="{scale.y(point.y.middle):.1f}" r="3" fill="{colour}"/>'
    yield _text(WIDTH - RIGHT + 12, TOP + 16 * (number + 1), name, more=f' fill="{colour}"')


def _path(points: Sequence[tuple[float, float]], *, colour: str, width: int = 1) -> str:
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="{width}"/>'


def _text(x: float, y: float, text: str, *, anchor: str = "start", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(text)}</text>'
