"""2,000 queues and a queue of many pods on a cluster of their own: the page has them all, and stays small."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Browser, expect

from localcluster.cluster import LocalCluster
from queues import well_known
from tests.support.e2e.objects import pod_body, queue_body
from tests.support.e2e.sandbox import Sandbox
from tests.support.http.worker_process import memory
from tests.support.ui.windows import Ui

TEAMS, EACH = 40, 49
#: With `root`, `default` and the one that has the pods.
QUEUES = TEAMS * (1 + EACH) + 3
PODS = 1000
#: Of the opened queue's pods, which are listed in pages.
PAGE = 500
#: Bytes: the most that the command itself may take.
MEMORY = 150 * 2**20


def test_all_are_there_an_edit_is_shown_and_the_command_stays_small(
    new_cluster: Callable[..., LocalCluster], browser: Browser
) -> None:
    """They are there before the server, which makes its statuses meanwhile: admitted one by one, ten a second
    came to be on a busy machine of two cores.
    """
    cluster = new_cluster(nodes=1, server=False)
    sandbox = Sandbox(cluster)
    full, *leaves = _make_queues(sandbox)
    marks = {well_known.QUEUE: full}
    sandbox.flood(
        pod_body(f"waits-{number}", full, gated=True, labels=marks, annotations=marks)
        for number in range(PODS)
    )
    cluster.start_components("server")
    ui = Ui(browser, kubeconfig=cluster.client_kubeconfig)
    try:
        window = ui.window()
        rows = window.page.locator("#tree tbody tr")
        expect(rows).to_have_count(QUEUES)
        expect(window.page.locator("#count")).to_have_text(f"{QUEUES} queues")
        window.page.reload()
        expect(rows).to_have_count(QUEUES)
        sandbox.patch_queue(leaves[-1], state="Suspended", reason="quota change").must()
        window.expect_state(leaves[-1], "Suspended")
        expect(window.row(leaves[-1]).locator(".cause")).to_contain_text("suspended (quota change)")
        window.go(f"/queues/{full}")
        pods = window.page.locator("#queue-waiting tbody tr")
        expect(pods).to_have_count(PAGE)
        window.page.get_by_role("button", name="More").click()
        expect(pods).to_have_count(PODS)
        assert memory(ui.process.pid) < MEMORY
        assert (window.said, window.elsewhere) == ([], [])
    finally:
        ui.close()
        sandbox.close()


def _make_queues(sandbox: Sandbox) -> list[str]:
    """One for the pods, then those without queues below them."""
    teams = [sandbox.named(str(number)) for number in range(TEAMS)]
    leaves = [(f"{team}-{number}", team) for team in teams for number in range(EACH)]
    sandbox.make_queues(queue_body(name) for name in teams)
    sandbox.make_queues(queue_body(name, parent=team) for name, team in leaves)
    full = sandbox.named("full")
    sandbox.make_queues([queue_body(full)])
    return [full, *(name for name, _ in leaves)]
