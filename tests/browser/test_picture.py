"""The picture of the page in README: `make test-browser PICTURE=docs/pictures/page.png` makes it anew."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from localcluster.cluster import LocalCluster
from tests.support.e2e.objects import queue_body
from tests.support.e2e.sandbox import QUEUES, Sandbox
from tests.support.paths import ROOT
from tests.support.ui.windows import Ui

KEPT = ROOT / "docs" / "pictures" / "page.png"
SIZE = {"width": 1100, "height": 660}
#: Bytes: README is read over slow lines too.
LARGEST = 150_000

FARM: dict[str, dict[str, object]] = {
    "research": {"capability": {"cpu": "10"}},
    "vision": {"parent": "research"},
    "speech": {"parent": "research", "state": "Suspended", "reason": "quota change"},
    "serving": {},
    "batch": {},
}


@pytest.fixture
def queues(cluster: LocalCluster) -> Iterator[Sandbox]:
    """Queues of names that a reader understands, one of which drains and is blocked."""
    made = Sandbox(cluster)
    for name, spec in FARM.items():
        made.api.create(QUEUES, queue_body(name, **spec)).must(201)
        made.queue_names.append(name)
    made.pods("train", 6, "vision", cpu="2")
    made.pods("db", 2, "batch", labels={"app": "db"})
    made.all_bound([f"db-{number}" for number in range(2)])
    allows_none = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "db"}}}
    budgets = f"/apis/policy/v1/namespaces/{made.namespace}/poddisruptionbudgets"
    made.api.create(budgets, {"metadata": {"name": "db"}, "spec": allows_none}).must(201)
    made.patch_queue("batch", stopPolicy="HoldAndDrain", reason="new racks").must()
    yield made
    with made.api:
        made.leave()


def test_the_picture_shows_what_to_look_at_first_and_the_tree(
    queues: Sandbox, started: Callable[..., Ui], tmp_path: Path
) -> None:
    window = started().window(
        viewport=SIZE, color_scheme="light", timezone_id="Europe/Berlin", locale="en-GB"
    )
    window.expect_state("speech", "Suspended")
    expect(window.page.locator('#problems li[data-name="batch"]')).to_contain_text("drain blocked")
    expect(window.row("vision").locator("td").nth(3)).to_have_text("5")
    expect(window.row("research").locator(".quota")).to_have_text("cpu 10 of 10; 1 waits for room")
    expect(window.row("speech").locator(".cause")).to_contain_text("suspended (quota change)")
    made = Path(os.environ.get("PICTURE") or tmp_path / "page.png")
    window.page.screenshot(path=made)
    assert made.stat().st_size < LARGEST
    assert KEPT.read_bytes()[16:24] == made.read_bytes()[16:24], "of the same size as the one that is kept"
