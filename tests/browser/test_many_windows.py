"""Sixteen windows of one browser, which opens six connections to a host in all of them together."""

from __future__ import annotations

from playwright.sync_api import expect

from kubectl_queue.ui.backend import STREAMS
from tests.support.e2e.sandbox import Sandbox
from tests.support.ui.windows import Ui


def test_as_many_windows_of_one_profile_as_are_promised_are_live_and_one_more_says_why_not(
    ui: Ui, sandbox: Sandbox
) -> None:
    """Each shows what changes, and asks questions of its own; the place of one that is closed is free."""
    queue = sandbox.queue()
    windows = [ui.window()]
    windows += [ui.window(beside=windows[0]) for _ in range(STREAMS - 1)]
    sandbox.patch_queue(queue, state="Suspended")
    for each in windows:
        each.expect_state(queue, "Suspended")
    windows[-1].row(queue).get_by_role("link").first.click()
    expect(windows[-1].page.locator("#queue-screen")).to_be_visible()
    refused = ui.window(beside=windows[0], is_refused=True)
    expect(refused.page.locator("#fault")).to_have_text(f"{STREAMS} windows are open already")
    windows[0].page.close()
    expect(refused.row(queue)).to_be_visible()
    assert not [text for each in windows for text in each.said]
