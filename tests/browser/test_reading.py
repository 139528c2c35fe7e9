"""Whoever is on call sees the queues as they are, and how old that is."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from playwright.sync_api import expect

from localcluster.__main__ import page_command
from localcluster.cluster import LocalCluster
from tests.support.e2e.sandbox import Sandbox
from tests.support.ui.windows import Ui, Window


def test_the_page_says_which_cluster_as_whom_and_how_old_it_is(window: Window, cluster: LocalCluster) -> None:
    place = window.page.locator("#place")
    expect(place).to_have_text(f"Cluster local (https://127.0.0.1:{cluster.ports.apiserver}), as admin")
    expect(window.page.locator("#age")).to_have_text(re.compile(r"^Data is \ds old\.$"))


def test_a_change_is_shown_without_being_asked_for(window: Window, sandbox: Sandbox) -> None:
    name = sandbox.queue("research")
    window.expect_state(name, "Open")
    sandbox.suspend(name, reason="quota change")
    window.expect_state(name, "Suspended")
    expect(window.row(name).locator(".cause")).to_contain_text("suspended (quota change)")


def test_nothing_goes_wrong_in_the_browser_and_nobody_else_is_asked(window: Window, sandbox: Sandbox) -> None:
    """The content security policy refuses nothing that the page does."""
    name = sandbox.queue("research")
    window.expect_state(name, "Open")
    assert (window.said, window.elsewhere) == ([], [])
    assert window.page.context.cookies() == []


def test_the_address_works_once_and_leaves_no_key_in_it(ui: Ui) -> None:
    used = ui.address
    window = ui.window()
    assert window.page.url == f"{ui.origin}/"
    again = ui.bare_window(used)
    expect(again.page.get_by_role("heading", name="This window is not let in")).to_be_visible()
    assert again.page.locator("#tree tbody tr").count() == 0


def test_a_reload_shows_the_same_screen(window: Window) -> None:
    window.page.reload()
    window.expect_state("root", "Open")


def test_the_command_that_make_up_names_shows_the_page(cluster: LocalCluster, tmp_path: Path) -> None:
    command = page_command(cluster.layout)
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    with subprocess.Popen(
        ["/bin/sh", "-c", f"exec env {command} --no-browser"],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("http://127.0.0.1:")
        process.kill()
