"""One browser and one cluster for all tests here; each test has windows and queues of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

from localcluster.chromium import chromium
from localcluster.cluster import LocalCluster
from localcluster.exceptions import BuildFailed
from tests.support.e2e.sandbox import Sandbox
from tests.support.skipping import skip_unless_ci
from tests.support.ui.windows import Ui, Window

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    try:
        found = chromium(say=print)
    except BuildFailed as exc:
        skip_unless_ci(f"NO CHROMIUM, so the page is not tested: {exc}")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=found.path,
            args=["--no-sandbox", "--disable-gpu"],  # root has no sandbox; the pages are our own
            env={**os.environ, **found.environ},
        )
        yield started
        started.close()


@pytest.fixture
def sandbox(cluster: LocalCluster) -> Iterator[Sandbox]:
    """Queues of the test's own. They are opened in the end, and go with the cluster."""
    made = Sandbox(cluster)
    made.first_wishes()
    yield made
    with made.api:
        made.leave()


@pytest.fixture
def started(cluster: LocalCluster, browser: Browser) -> Iterator[Callable[..., Ui]]:
    """Starts the command, as the administrator of the cluster or by another kubeconfig."""
    running: list[Ui] = []

    def start(*words: str, kubeconfig: Path | None = None, **options: Any) -> Ui:
        running.append(Ui(browser, *words, kubeconfig=kubeconfig or cluster.client_kubeconfig, **options))
        return running[-1]

    yield start
    for each in running:
        each.close()


@pytest.fixture
def ui(started: Callable[..., Ui]) -> Ui:
    return started()


@pytest.fixture
def window(ui: Ui) -> Window:
    return ui.window()
