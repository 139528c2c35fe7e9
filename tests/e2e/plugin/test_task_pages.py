"""The task pages and README's tour, followed one after the other on one cluster: each prints what it says.

What one page leaves behind is in the way of no other: a newcomer may follow any of them in any order.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, time
from pathlib import Path

import pytest

from localcluster.cluster import LocalCluster
from tests.support.docs.console import steps
from tests.support.docs.task_pages import FIRST, in_reading_order, text_of_page
from tests.support.e2e.page_reader import follow
from tests.support.paths import ROOT

#: What the pages print is that of a new one.
KEEPS_CLUSTER = True
#: Their example is on by the clock then, which they do not show.
WINDOWS = ("docs/tasks/stop-by-the-calendar.md", "docs/tasks/see-and-move-windows.md")
SUNDAY_NIGHT = (time(0, 0), time(4, 0))


def is_on_by_the_clock(now: datetime) -> bool:
    return now.weekday() == 6 and SUNDAY_NIGHT[0] <= now.time() < SUNDAY_NIGHT[1]


def pages() -> Iterator[str]:
    """The one that prints all queues of the cluster first."""
    yield FIRST
    yield "README.md"
    yield from (page for page in in_reading_order() if page != FIRST)


@pytest.mark.parametrize("page", list(pages()))
def test_a_page_prints_what_it_says_after_those_before_it(
    page: str, served_cluster: LocalCluster, tmp_path: Path
) -> None:
    follow_alone(page, served_cluster, tmp_path)


def follow_alone(page: str, cluster: LocalCluster, home: Path) -> None:
    """In a checkout, where the page uses its files; else where nothing is."""
    if page in WINDOWS and is_on_by_the_clock(datetime.now(UTC)):
        pytest.skip("its window is on")
    text = text_of_page(page)
    folder = ROOT if "manifests/" in text else home
    assert follow(text, cluster, folder, home=home) == number_of_steps(text)


def number_of_steps(text: str) -> int:
    return sum(not step.command.startswith("export ") for step in steps(text))
