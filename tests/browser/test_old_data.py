"""The API server goes away and comes back, forgets, and refuses: the page says so, and how old it is."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import expect

from localcluster import apiserver
from localcluster.cluster import LocalCluster
from tests.support import yaml_texts
from tests.support.e2e.sandbox import Sandbox
from tests.support.faults.faulty_proxy import FaultyProxy, expired_event, status
from tests.support.ui.windows import Ui, Window


def in_a_thread(make: Callable[[], FaultyProxy]) -> FaultyProxy:
    """Playwright's event loop runs in the main one, and the proxy starts its own."""
    made: list[FaultyProxy] = []
    thread = threading.Thread(target=lambda: made.append(make()))
    thread.start()
    thread.join()
    return made[0]


@pytest.fixture
def proxy(cluster: LocalCluster) -> Iterator[FaultyProxy]:
    made = in_a_thread(lambda: FaultyProxy(cluster.ports.apiserver, apiserver.context(cluster.layout)))
    yield made
    made.close()


@pytest.fixture
def window(proxy: FaultyProxy, cluster: LocalCluster, started: Callable[..., Ui], tmp_path: Path) -> Window:
    """Of a command that reaches the API server through the proxy."""
    config = yaml_texts.load(cluster.client_kubeconfig.read_bytes())
    config["clusters"][0]["cluster"] = {"server": proxy.url}
    config["users"][0]["user"] = {}
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(config))
    return started(kubeconfig=path).window()


def test_an_api_server_that_is_away_is_said_until_it_is_back(
    window: Window, proxy: FaultyProxy, sandbox: Sandbox
) -> None:
    name = sandbox.queue("research")
    window.expect_state(name, "Open")
    proxy.go_away()
    expect(window.page.locator("#fault")).to_be_visible()
    expect(window.page.locator("#age")).to_have_text(re.compile(r"^OLD\. Data is \d+s old\.$"))
    window.expect_state(name, "Open")
    sandbox.suspend(name)
    proxy.come_back()
    window.expect_state(name, "Suspended")
    expect(window.page.locator("#fault")).to_be_hidden()
    expect(window.page.locator("#age")).to_have_text(re.compile(r"^Data is \ds old\.$"))


def test_a_resource_version_that_is_too_old_is_no_fault(
    window: Window, proxy: FaultyProxy, sandbox: Sandbox
) -> None:
    """The API server says 410 once the watch is cut."""
    name = sandbox.queue("research")
    window.expect_state(name, "Open")
    proxy.order(expired_event(), when=lambda asked: asked.watch)
    proxy.cut(when=lambda asked: asked.watch)
    sandbox.suspend(name)
    window.expect_state(name, "Suspended")
    expect(window.page.locator("#fault")).to_be_hidden()


def test_a_right_that_is_taken_away_is_said_in_the_api_servers_words(
    window: Window, proxy: FaultyProxy
) -> None:
    refused = status(403, reason="Forbidden", message='User "x" cannot list resource "queues"')
    proxy.order(refused, when=lambda asked: asked.lists, times=1000)
    expect(window.page.locator("#fault")).to_contain_text('User "x" cannot list resource "queues"')
    proxy.relent()
    expect(window.page.locator("#fault")).to_be_hidden()


def test_a_command_that_has_ended_is_said(started: Callable[..., Ui]) -> None:
    ui = started()
    window = ui.window()
    ui.process.kill()
    expect(window.page.locator("#fault")).to_contain_text("the command may have ended")
    expect(window.page.locator("#age")).to_contain_text("OLD")


def test_a_server_that_is_killed_is_said_and_what_it_wrote_is_called_old(
    started: Callable[..., Ui], cluster: LocalCluster, sandbox: Sandbox
) -> None:
    """The API server answers, so the data itself is new; nobody says whether a stop waits."""
    name = sandbox.queue("research")
    window = started().window()
    window.expect_state(name, "Open")
    cluster.signal_component("server", signal.SIGKILL)
    try:
        expect(window.page.locator("#fault")).to_contain_text(
            "no replica of Sluice answers since ", timeout=30_000
        )
        expect(window.page.locator("#age")).to_have_text("OLD. No server writes what is shown.")
        expect(window.page.locator("#no-problems")).to_contain_text("is not known")
    finally:
        cluster.start_components("server")
    expect(window.page.locator("#fault")).to_be_hidden(timeout=30_000)
    expect(window.page.locator("#no-problems")).to_contain_text("No stop waits")
