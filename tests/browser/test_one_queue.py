"""The screen of one queue: what commands say of it, what waits, and texts that are meant to do harm."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from playwright.sync_api import expect

from localcluster.cluster import LocalCluster
from queues.apimachinery.timestamps import rfc3339
from tests.support.e2e.sandbox import Sandbox
from tests.support.plugin.harness import plugin_in_process
from tests.support.ui.windows import Window

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> \u202egnp.exe\u202c \u2066{{7*7}}"


def test_it_says_what_why_says_and_follows_what_happens(
    window: Window, sandbox: Sandbox, cluster: LocalCluster
) -> None:
    name = sandbox.queue("research")
    sandbox.pod("waits", name, cpu="9999")
    window.row(name).get_by_role("link").click()
    page = window.page
    expect(page).to_have_url(f"{window.origin}/queues/{name}")
    expect(page.locator("#queue-state")).to_contain_text("Open")
    expect(page.locator("#queue-waiting")).to_contain_text(f"{sandbox.namespace}/waits")
    sandbox.suspend(name, reason="quota change")
    expect(page.locator("#queue-state")).to_contain_text("Suspended")
    expect(page.locator("#queue-history tbody tr").first).to_contain_text("quota change")
    said = plugin_in_process("why", name, kubeconfig=cluster.client_kubeconfig).stdout
    expect(page.locator("#queue-why .summary")).to_have_text(said.splitlines()[0])
    expect(page.locator("#queue-why")).to_contain_text(f"kubectl queue resume {name}")


def test_a_drain_is_shown_with_what_blocks_it(window: Window, sandbox: Sandbox) -> None:
    name = sandbox.queue("research")
    sandbox.pod("stays", name, labels={"app": "db"}).must(201)
    sandbox.all_bound(["stays"])
    budget = {
        "metadata": {"name": "db"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "db"}}},
    }
    sandbox.api.create(f"/apis/policy/v1/namespaces/{sandbox.namespace}/poddisruptionbudgets", budget).must(
        201
    )
    sandbox.patch_queue(name, stopPolicy="HoldAndDrain").must()
    problem = window.page.locator(f'#problems li[data-name="{name}"]')
    expect(problem).to_contain_text("drain blocked")
    problem.get_by_role("link").click()
    expect(window.page.locator("#queue-drain")).to_contain_text("PodDisruptionBudget")
    expect(window.page.locator("#queue-drain")).to_contain_text("1 blocked")


def test_hostile_reasons_are_texts_whose_marks_are_shown(window: Window, sandbox: Sandbox) -> None:
    name = sandbox.queue("research")
    sandbox.patch_queue(name, state="Suspended", reason=HOSTILE).must()
    window.expect_state(name, "Suspended")
    expect(window.row(name).locator(".cause")).to_contain_text("<script>alert(1)</script>")
    window.row(name).get_by_role("link").click()
    expect(window.page.locator("#queue-why .summary")).to_contain_text("<img src=x onerror=alert(2)>")
    expect(window.page.locator("#queue-history")).to_contain_text("{{7*7}}")
    assert window.page.locator("#queue-screen img, #queue-screen script").count() == 0
    text = window.page.locator("body").inner_text()
    assert not set("\u202e\u202c\u2066") & set(text)
    assert (window.said, window.elsewhere) == ([], [])


def test_a_reason_of_ten_kilobytes_leaves_the_page_readable(window: Window, sandbox: Sandbox) -> None:
    name = sandbox.queue("research")
    long = "long" * 2500
    if sandbox.patch_queue(name, state="Suspended", reason=long).status == 200:
        window.expect_state(name, "Suspended")
        assert len(window.cells(name)[-1]) < 400
    window.row(name).get_by_role("link").click()
    expect(window.page.locator("#queue-state")).to_be_visible()
    sideways = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert window.page.evaluate(sideways) is False


def test_a_queue_that_is_deleted_is_said_to_be_gone(window: Window, sandbox: Sandbox) -> None:
    name = sandbox.queue("research")
    window.row(name).get_by_role("link").click()
    expect(window.page.locator("#queue-state")).to_contain_text("Open")
    sandbox.remove_queue(name)
    expect(window.page.locator("#queue-state")).to_contain_text(f'"{name}" not found')


def test_a_change_window_that_is_on_is_shown_with_the_next_ones(window: Window, sandbox: Sandbox) -> None:
    """On the screen of windows, at the top of all queues, and on the queue's own screen."""
    now = datetime.now(UTC).replace(microsecond=0)
    times = {"from": now - timedelta(minutes=5), "until": now + timedelta(hours=1)}
    freeze = {"name": "freeze", **{key: rfc3339(at) for key, at in times.items()}, "state": "Suspended"}
    daily = {"schedule": "0 2 * * *", "duration": "2h", "timeZone": "UTC"}
    nightly = {"name": "nightly", **daily, "stopPolicy": "Hold"}
    name = sandbox.queue("research", windows=[freeze, nightly])
    page = window.page
    page.get_by_role("link", name="Windows").click()
    row = page.locator("#windows-screen tr", has_text=name).filter(has_text="freeze")
    expect(row).to_contain_text("On")
    expect(row.locator("time")).to_have_count(2)
    rows = page.locator("#windows-screen tr", has_text=name)
    expect(rows.filter(has_text="nightly").first).to_contain_text("Next")
    page.get_by_role("link", name="Queues").click()
    expect(page.locator("#next-window")).to_contain_text("freeze of")
    window.expect_state(name, "Suspended")
    window.row(name).get_by_role("link").click()
    expect(page.locator("#queue-windows")).to_contain_text("freeze of")
    sandbox.patch_queue(name, windows=[]).must()
