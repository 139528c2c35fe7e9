"""What a viewer does on the page to change a queue, and what it may do by the rights of the cluster."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

from tests.support.e2e.sandbox import RBAC, Sandbox
from tests.support.ui.windows import Window

QUEUES = {"apiGroups": ["scheduling.volcano.sh"], "resources": ["queues"]}
#: A window that hardly begins while a test runs: in one night of the year.
NIGHTLY = {
    "name": "nightly",
    "schedule": "0 2 28 2 *",
    "duration": "2h",
    "timeZone": "UTC",
    "stopPolicy": "Hold",
}


def act(page: Page, word: str, **fields: str) -> None:
    """From the queue's screen to the button that does it, and no further."""
    page.get_by_role("link", name=word, exact=True).click()
    preview(page, **fields)


def ask(page: Page, **fields: str) -> None:
    """For the preview, by the form that is open."""
    for flag, value in fields.items():
        page.locator(f"#field-{flag}").fill(value)
    page.get_by_role("button", name="Preview", exact=True).click()


def preview(page: Page, **fields: str) -> None:
    """The same, until it is there."""
    ask(page, **fields)
    expect(page.get_by_role("heading", name="What it would do")).to_be_visible()


def do(page: Page) -> Locator:
    page.locator("button.do").click()
    return page.locator("#steps")


def open_queue(window: Window, name: str) -> Page:
    window.row(name).get_by_role("link").click()
    expect(window.page.get_by_role("link", name="Suspend", exact=True)).to_be_visible()
    return window.page


def grant(sandbox: Sandbox, user: str, *rules: dict[str, object]) -> None:
    role = {"metadata": {"name": user}, "rules": list(rules)}
    binding = {
        "metadata": {"name": user},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }
    sandbox.create(f"{RBAC}/clusterroles", role)
    sandbox.create(f"{RBAC}/clusterrolebindings", binding)
