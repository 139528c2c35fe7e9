"""Each action from its form to its end, with the viewer's rights, and beside another viewer."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from localcluster.cluster import LocalCluster
from tests.support.e2e.objects import state_of
from tests.support.e2e.sandbox import Sandbox
from tests.support.ui.acting import QUEUES, act, do, grant, open_queue
from tests.support.ui.windows import Ui, Window


def test_a_stop_is_previewed_written_and_followed_to_its_acknowledgement(
    window: Window, sandbox: Sandbox
) -> None:
    name = sandbox.queue("research")
    page = open_queue(window, name)
    act(page, "Suspend", reason="quota change", **{"for": "2h"})
    expect(page.locator("#outcome")).to_contain_text("suspended until")
    expect(page.locator(".preview code")).to_have_text(
        f"kubectl queue suspend {name} '--reason=quota change' --for=2h"
    )
    assert state_of(sandbox.read_queue(name)) == "Open"
    steps = do(page)
    expect(steps).to_contain_text("Acknowledged: yes")
    found = sandbox.read_queue(name)
    assert (found["spec"]["state"], found["spec"]["reason"]) == ("Suspended", "quota change")
    assert found["spec"]["resumeAt"]
    act(page, "Resume")
    expect(do(page)).to_contain_text("Acknowledged: yes")
    expect(page.locator("#queue-state")).to_contain_text("Open")


def test_a_drain_is_followed_until_no_pod_is_left(window: Window, sandbox: Sandbox) -> None:
    name = sandbox.queue("research")
    sandbox.pod("runs", name).must(201)
    sandbox.all_bound(["runs"])
    page = open_queue(window, name)
    act(page, "Drain")
    page.get_by_role("button", name="Which pods would go?").click()
    expect(page.locator(".pods")).to_contain_text(f"{sandbox.namespace}/runs")
    expect(do(page)).to_contain_text("Drained: yes")
    act(page, "Resume")
    expect(do(page)).to_contain_text("Acknowledged: yes")


@pytest.mark.parametrize(
    ("word", "fields", "wanted"),
    [
        ("Hold", {}, {"stopPolicy": "Hold"}),
        ("Close", {"reason": "moved"}, {"state": "Closed", "reason": "moved"}),
        ("Move", {"parent": "default"}, {"parent": "default"}),
    ],
)
def test_the_other_actions_write_what_they_say(
    window: Window, sandbox: Sandbox, word: str, fields: dict[str, str], wanted: dict[str, str]
) -> None:
    name = sandbox.queue("research")
    page = open_queue(window, name)
    act(page, word, **fields)
    expect(do(page)).to_contain_text("Acknowledged: yes")
    spec = sandbox.read_queue(name)["spec"]
    assert {key: spec.get(key) for key in wanted} == wanted
    if word == "Close":
        act(page, "Open")
        expect(do(page)).to_contain_text("Acknowledged: yes")


def test_the_second_of_two_viewers_is_told_what_the_first_did(ui: Ui, sandbox: Sandbox) -> None:
    name = sandbox.queue("research")
    first, second = open_queue(ui.window(), name), open_queue(ui.window(), name)
    act(first, "Suspend", reason="first")
    act(second, "Hold", reason="second")
    expect(do(first)).to_contain_text("Acknowledged: yes")
    second.locator("button.do").click()
    expect(second.locator(".preview")).to_contain_text(
        "was changed meanwhile by admin: state from Open to Suspended"
    )
    assert sandbox.read_queue(name)["spec"]["reason"] == "first"
    second.get_by_role("button", name="Preview again").click()
    expect(second.locator("#outcome")).to_have_text("held")


def test_who_may_only_look_sees_each_action_as_not_allowed_and_why(
    cluster: LocalCluster, sandbox: Sandbox, started: Callable[..., Ui]
) -> None:
    name, viewer = sandbox.queue("research"), f"viewer-of-{sandbox.namespace}"
    grant(sandbox, viewer, {**QUEUES, "verbs": ["get", "list", "watch"]})
    window = started(kubeconfig=cluster.user(viewer)).window()
    window.row(name).get_by_role("link").click()
    page = window.page
    expect(page.locator("#no-rights")).to_have_text(
        f'Not allowed: you may not patch queue "{name}": no role gives that right'
    )
    button = page.get_by_role("button", name="Suspend")
    expect(button).to_have_attribute("aria-disabled", "true")
    expect(button).to_have_attribute("aria-describedby", "no-rights")
    expect(page.locator("#queue-waiting")).to_contain_text("cannot list resource")
    window.go(f"/queues/{name}/suspend")
    page.get_by_role("button", name="Preview", exact=True).click()
    page.locator("button.do").click()
    expect(page.locator(".preview .fault")).to_contain_text(f'User "{viewer}" cannot')
    assert state_of(sandbox.read_queue(name)) == "Open"


def test_who_may_edit_one_queue_may_act_on_that_one(
    cluster: LocalCluster, sandbox: Sandbox, started: Callable[..., Ui]
) -> None:
    mine, other = sandbox.queue("mine"), sandbox.queue("other")
    owner = f"owner-of-{sandbox.namespace}"
    grant(
        *(sandbox, owner),
        {**QUEUES, "verbs": ["get", "list", "watch"]},
        {**QUEUES, "verbs": ["patch", "update"], "resourceNames": [mine]},
    )
    window = started(kubeconfig=cluster.user(owner)).window()
    open_queue(window, mine)
    window.go(f"/queues/{other}")
    expect(window.page.locator("#no-rights")).to_contain_text(other)


def test_as_whom_the_command_acts_is_shown(started: Callable[..., Ui], sandbox: Sandbox) -> None:
    window = started("--as=ann", "--as-group=system:masters").window()
    expect(window.page.locator("#place")).to_contain_text("as ann impersonated with --as")


def test_roots_name_has_to_be_typed(window: Window) -> None:
    page = open_queue(window, "root")
    act(page, "Hold")
    expect(page.locator("button.do")).to_have_attribute("aria-disabled", "true")
    page.locator("#typed").fill("root")
    expect(page.locator("button.do")).to_have_attribute("aria-disabled", "false")


def test_an_edit_that_the_command_line_refuses_is_refused_in_its_words(
    window: Window, sandbox: Sandbox
) -> None:
    name = sandbox.queue("research")
    page = open_queue(window, name)
    page.get_by_role("link", name="Suspend", exact=True).click()
    page.locator("#field-for").fill("2")
    page.get_by_role("button", name="Preview", exact=True).click()
    expect(page.locator(".preview .fault")).to_contain_text("it needs a unit")
