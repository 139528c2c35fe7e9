"""start, skip and extend of a window, from its line to the acknowledgement, with the viewer's rights."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from playwright.sync_api import Locator, Page, expect

from localcluster.cluster import LocalCluster
from queues.apimachinery.timestamps import rfc3339
from tests.support.e2e.sandbox import Sandbox
from tests.support.ui.acting import NIGHTLY, QUEUES, ask, do, grant, open_queue, preview
from tests.support.ui.windows import Ui, Window


def freeze(**more: Any) -> dict[str, Any]:
    """A window that is on."""
    now = datetime.now(UTC).replace(microsecond=0)
    times = {"from": now - timedelta(minutes=5), "until": now + timedelta(hours=3)}
    return {"name": "freeze", **{key: rfc3339(at) for key, at in times.items()}, "state": "Suspended", **more}


def line(page: Page, window: str) -> Locator:
    """The first line of a window on the screen of its queue."""
    return page.locator("#queue-windows tbody tr", has_text=window).first


def open_form(page: Page, window: str, word: str) -> None:
    line(page, window).get_by_role("link", name=f"{word} {window} of").click()


def change(page: Page, window: str, word: str, **fields: str) -> None:
    """From the line of the window to the button that does it, and no further."""
    open_form(page, window, word)
    preview(page, **fields)


def overrides(sandbox: Sandbox, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = sandbox.read_queue(name)["spec"].get("windowOverrides") or []
    return found


def test_a_window_that_is_on_is_left_out_and_begun_again(window: Window, sandbox: Sandbox) -> None:
    name = sandbox.queue("research", windows=[freeze()])
    window.expect_state(name, "Suspended")
    page = open_queue(window, name)
    expect(line(page, "freeze")).to_contain_text("On")
    change(page, "freeze", "Skip", reason="release week")
    expect(page.get_by_role("heading", name="Skip window freeze of ")).to_be_visible()
    expect(page.locator("#outcome")).to_contain_text("ended: the rest of window freeze")
    expect(page.locator(".preview code")).to_have_text(
        f"kubectl queue windows skip {name} freeze '--reason=release week'"
    )
    expect(do(page)).to_contain_text("Acknowledged: yes")
    [skipped] = overrides(sandbox, name)
    assert (skipped["window"], skipped["skip"], skipped["reason"]) == ("freeze", True, "release week")
    expect(page.locator("#queue-state")).to_contain_text("Open")
    expect(line(page, "freeze")).to_contain_text("Skipped")
    change(page, "freeze", "Start")
    expect(do(page)).to_contain_text("Acknowledged: yes")
    expect(page.locator("#queue-state")).to_contain_text("Suspended")
    assert overrides(sandbox, name) == []


def test_one_that_is_on_ends_later_and_one_that_comes_begins_now(window: Window, sandbox: Sandbox) -> None:
    name = sandbox.queue("research", windows=[freeze(), NIGHTLY])
    page = open_queue(window, name)
    change(page, "freeze", "Extend", **{"for": "30m"})
    expect(page.locator("#outcome")).to_contain_text("lasts until")
    expect(do(page)).to_contain_text("Acknowledged: yes")
    open_form(page, "nightly", "Start")
    ask(page, until="in an hour")
    expect(page.locator(".preview .fault")).to_contain_text('invalid argument "in an hour"')
    preview(page, until="", **{"for": "1h"})
    expect(page.locator("#outcome")).to_contain_text("begins now")
    expect(do(page)).to_contain_text("Acknowledged: yes")
    extended, begun = overrides(sandbox, name)
    assert (extended["window"], begun["window"]) == ("freeze", "nightly")
    assert begun["from"] < begun["until"]
    expect(line(page, "nightly")).to_contain_text("On")


def test_a_form_is_that_of_the_address_while_the_queue_is_asked(window: Window, sandbox: Sandbox) -> None:
    """What is typed at once is typed into the form that was asked for, however slow the answers are."""
    name = sandbox.queue("research", windows=[freeze(), NIGHTLY])
    page = open_queue(window, name)
    change(page, "freeze", "Extend", **{"for": "30m"})
    page.route(f"**/api/queues/{name}", lambda _: None)  # no answer as long as this holds
    open_form(page, "nightly", "Start")
    assert page.locator("#action-heading").inner_text().startswith("Start window nightly")
    assert page.get_by_role("heading", name="What it would do").count() == 0
    page.locator("#field-until").fill("in an hour")
    page.unroute(f"**/api/queues/{name}")
    ask(page)
    expect(page.locator(".preview .fault")).to_contain_text('invalid argument "in an hour"')


def test_who_may_only_look_sees_that_it_may_not_be_changed(
    cluster: LocalCluster, sandbox: Sandbox, started: Callable[..., Ui]
) -> None:
    name, viewer = sandbox.queue("research", windows=[NIGHTLY]), f"viewer-of-{sandbox.namespace}"
    grant(sandbox, viewer, {**QUEUES, "verbs": ["get", "list", "watch"]})
    window = started(kubeconfig=cluster.user(viewer)).window()
    window.row(name).get_by_role("link").click()
    page = window.page
    button = line(page, "nightly").get_by_role("button", name="Skip nightly of")
    expect(button).to_have_attribute("aria-disabled", "true")
    expect(button).to_have_attribute("aria-describedby", "no-rights")
    window.go(f"/queues/{name}/skip?window=nightly")
    preview(page)
    page.locator("button.do").click()
    expect(page.locator(".preview .fault")).to_contain_text(f'User "{viewer}" cannot')
    assert overrides(sandbox, name) == []
