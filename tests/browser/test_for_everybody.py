"""The page by keys, by ear, without colours, dark, light and narrow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.support.e2e.sandbox import Sandbox
from tests.support.ui.acting import NIGHTLY
from tests.support.ui.windows import Ui, Window

#: What each screen is tried on.
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "narrow": {"viewport": {"width": 320, "height": 640}},
}


def focused(window: Window) -> str:
    found: str = window.page.evaluate("document.activeElement.dataset.name ?? document.activeElement.id")
    return found


@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_nothing_on_any_screen(ui: Ui, sandbox: Sandbox, look: str) -> None:
    """The policy is bypassed for axe alone, which is a script of others."""
    name = sandbox.queue("research", windows=[NIGHTLY])
    sandbox.suspend(name, reason="audit")
    window = ui.window(bypass_csp=True, **LOOKS[look])
    page = window.page
    for path, ready in (
        ("/", f'#tree tbody tr[data-name="{name}"]'),
        (f"/queues/{name}", "#queue-windows a.button"),
        (f"/queues/{name}/drain", "#field-reason"),
        (f"/queues/{name}/extend?window=nightly", "#field-until"),
        ("/windows", "#windows-heading"),
    ):
        window.go(path)
        expect(page.locator(ready).first).to_be_visible()
        found = Axe().run(page)
        assert found.response["violations"] == [], (path, found.generate_report())
        sideways = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        assert page.evaluate(sideways) is False, path


def test_a_row_keeps_the_focus_and_its_place_while_rows_change(window: Window, sandbox: Sandbox) -> None:
    name, other = sandbox.queue("b"), sandbox.queue("c")
    window.expect_state(other, "Open")
    window.row(name).focus()
    before = window.page.locator("#tree tbody tr").evaluate_all("rows => rows.map(row => row.dataset.name)")
    sandbox.suspend(other)
    window.expect_state(other, "Suspended")
    new = sandbox.queue("a")
    window.expect_state(new, "Open")
    after = window.page.locator("#tree tbody tr").evaluate_all("rows => rows.map(row => row.dataset.name)")
    assert focused(window) == name
    assert [each for each in after if each != new] == before


def test_the_focus_of_a_row_that_goes_is_its_neighbours(window: Window, sandbox: Sandbox) -> None:
    name = sandbox.queue("gone")
    window.expect_state(name, "Open")
    window.row(name).focus()
    names = window.page.locator("#tree tbody tr").evaluate_all("rows => rows.map(row => row.dataset.name)")
    at = names.index(name)
    near = (names[at + 1 :] or names[at - 1 :])[0]
    sandbox.remove_queue(name)
    expect(window.row(name)).to_have_count(0)
    assert focused(window) == near


def test_arrows_walk_the_tree_and_enter_opens_a_queue(window: Window, sandbox: Sandbox) -> None:
    top = sandbox.queue("top")
    below = sandbox.queue("below", parent=top)
    window.expect_state(below, "Open")
    press = window.page.keyboard.press
    window.row(top).focus()
    expect(window.row(top)).to_have_attribute("aria-expanded", "true")
    press("ArrowRight")
    assert focused(window) == below
    press("ArrowLeft")
    press("ArrowLeft")
    expect(window.row(below)).to_be_hidden()
    expect(window.row(top)).to_have_attribute("aria-expanded", "false")
    press("ArrowRight")
    expect(window.row(below)).to_be_visible()
    expect(window.row(below)).to_have_attribute("aria-level", "3")
    press("ArrowDown")
    assert focused(window) == below
    press("Home")
    assert focused(window) == "root"
    press("/")
    window.page.keyboard.type(below)
    expect(window.row("default")).to_be_hidden()
    press("Enter")
    assert focused(window) == below
    press("Enter")
    expect(window.page).to_have_url(f"{window.origin}/queues/{below}")


def test_one_row_is_in_the_order_of_tab(window: Window) -> None:
    assert window.page.locator('#tree tbody tr[tabindex="0"]').count() == 1
    assert window.page.locator('#tree tbody a:not([tabindex="-1"])').count() == 0


def test_a_question_mark_shows_the_keys_and_escape_hides_them(window: Window) -> None:
    window.page.keyboard.press("?")
    expect(window.page.get_by_role("dialog", name="Keys")).to_be_visible()
    window.page.keyboard.press("Escape")
    expect(window.page.get_by_role("dialog", name="Keys")).to_be_hidden()


def test_stops_are_announced_and_nothing_else_is(window: Window, sandbox: Sandbox) -> None:
    name = sandbox.queue("research")
    window.expect_state(name, "Open")
    announcer = window.page.locator("#announcer")
    expect(announcer).to_be_empty()
    sandbox.suspend(name)
    expect(announcer).to_contain_text(f"{name}: Suspended")
    assert window.page.locator("[aria-live]:not(#announcer)").count() == 0


@pytest.mark.parametrize(
    ("spec", "sign", "word"),
    [({"state": "Suspended"}, "‖", "Suspended"), ({"state": "Closed"}, "■", "Closed")],
)
def test_a_sign_and_a_word_stand_beside_each_colour(
    window: Window, sandbox: Sandbox, spec: dict[str, str], sign: str, word: str
) -> None:
    name = sandbox.queue("research")
    sandbox.edit(name, **spec)
    window.expect_state(name, word)
    state = window.row(name).locator("td").first
    expect(state.locator(".sign")).to_have_text(sign)
    expect(state.locator(".sign")).to_have_attribute("aria-hidden", "true")


def test_times_are_said_in_the_viewers_zone_in_utc_and_as_a_distance(
    started: Callable[..., Ui], sandbox: Sandbox
) -> None:
    name = sandbox.queue("research")
    window = started().window(timezone_id="Asia/Tokyo")
    sandbox.suspend(name, resumeAt="2040-01-31T18:30:00Z")
    expect(window.row(name).locator("time").first).to_be_visible()
    text = window.row(name).locator("time").first.inner_text()
    assert text.startswith("1 Feb 2040, 03:30 GMT+9, 31 Jan 2040, 18:30 UTC (in ")
