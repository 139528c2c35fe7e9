"""Each task page by itself, on a new cluster: it needs nothing of another page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import NewCluster
from tests.e2e.plugin.test_task_pages import follow_alone
from tests.support.docs.task_pages import in_reading_order

pytestmark = pytest.mark.long


@pytest.mark.parametrize("page", in_reading_order())
def test_a_page_prints_what_it_says_on_a_new_cluster(
    page: str, new_cluster: NewCluster, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    follow_alone(page, new_cluster(), home)
