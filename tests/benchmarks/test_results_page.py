"""The page that is made of what is kept."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import result_files, results_page
from benchmarks.figures import Curve, Line, Point, RowResult, at_least, spread

FOUND = RowResult(
    title="Members",
    about="Some members.",
    lines=(
        Line(
            what="binds/s",
            beside="nothing",
            unit="/s",
            ours=(80.0, 70.0),
            theirs=(100.0, 100.0),
            goal=at_least(0.8),
        ),
        Line(what="first bind", beside="nothing", unit="s", ours=(0.5,), theirs=(1.0,)),
    ),
    notes=("The extender takes it.",),
    curves=(
        Curve(
            name="members",
            title="Members",
            across="nodes",
            up="ratio",
            series={"ours": (Point(100, spread((1.0,))),)},
        ),
    ),
)


def test_a_line_has_its_figures_its_ratio_and_whether_the_goal_is_reached() -> None:
    row = "| binds/s | nothing | 75.0 /s | 100 /s | 0.75 (0.70 to 0.80) | at least 0.80 | **no** | 2 |"
    assert row in results_page.section("members", FOUND)


def test_a_line_without_a_goal_says_nothing_of_one() -> None:
    row = "| first bind | nothing | 0.500 s | 1.00 s | 0.50 (0.50 to 0.50) |  |  | 1 |"
    assert row in results_page.section("members", FOUND)


def test_where_nothing_is_compared_there_is_no_table() -> None:
    said = results_page.section("growth", RowResult(title="Growth", about="Alone.", lines=(), notes=("n^1",)))
    assert "|" not in said
    assert "\n\nAlone.\n\n- n^1\n\n" in said


def test_what_is_not_reached_stands_at_the_top() -> None:
    rendered = results_page.render(
        {"members": FOUND}, reasons={"members": "It asks.", "others": "It does not."}
    )
    before, _, _ = rendered.partition("## Members")
    missed = "- binds/s, beside nothing: 0.75 (0.70 to 0.80), wanted at least 0.80"
    assert f"**members**\n\n{missed}\n\nWhy: It asks.\n" in before
    assert "It does not." not in rendered
    assert "Goals reached: 0; not reached: 1." in before


def test_what_is_kept_comes_back_as_it_was(tmp_path: Path) -> None:
    result_files.save("members", FOUND, folder=tmp_path)
    assert result_files.load(["others", "members"], folder=tmp_path) == {"members": FOUND}


def test_a_row_measured_again_leaves_the_others_on_the_page(tmp_path: Path) -> None:
    for name in ("members", "others"):
        result_files.save(name, FOUND, folder=tmp_path)
    result_files.save("others", FOUND, folder=tmp_path)
    result_files.write_page(["others", "members"], folder=tmp_path)
    written = (tmp_path / "RESULTS.md").read_text()
    assert re.findall(r"ROW=(\w+)`\.$", written, re.MULTILINE) == ["others", "members"]


def test_each_picture_that_the_page_shows_is_written(tmp_path: Path) -> None:
    result_files.save("members", FOUND, folder=tmp_path)
    result_files.write_page(["members"], folder=tmp_path)
    shown = re.findall(r"!\[.*\]\((.*)\)", (tmp_path / "RESULTS.md").read_text())
    assert shown == ["results/members.svg"]
    assert (tmp_path / shown[0]).read_text().startswith("<svg")


@pytest.mark.parametrize(
    ("value", "text"),
    [(1234.5, "1,234 s"), (12.345, "12.3 s"), (1.2345, "1.23 s"), (0.12345, "0.123 s")],
)
def test_a_figure_has_three_digits_that_count(value: float, text: str) -> None:
    assert results_page.figure(value, "s") == text
