"""What `kubectl queue windows` writes is what the server takes, and what it then shows."""

from __future__ import annotations

import json

import pytest

from localcluster.cluster import LocalCluster
from tests.support.e2e.sandbox import Sandbox
from tests.support.plugin.harness import plugin_in_process

pytestmark = pytest.mark.cluster


def test_an_occurrence_is_left_out_begun_and_made_longer(cluster: LocalCluster, sandbox: Sandbox) -> None:
    """Of a window that comes in years: nothing is on before it is begun."""

    def run(*words: str) -> str:
        done = plugin_in_process("windows", *words, kubeconfig=cluster.client_kubeconfig)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def rows() -> list[tuple[str, str]]:
        listed = json.loads(run(queue, "--next", "2", "-o", "json"))["windows"]
        return [(each["state"], each["start"]) for each in listed]

    yearly = {"name": "yearly", "stopPolicy": "Hold", "duration": "2h", "timeZone": "UTC"}
    bounds = {"schedule": "0 2 1 1 *", "from": "2199-06-01T00:00:00Z"}
    queue = sandbox.queue(windows=[{**yearly, **bounds}])
    first, second, third = (f"{year}-01-01T02:00:00Z" for year in (2200, 2201, 2202))
    assert rows() == [("Next", first), ("Next", second)]
    assert "is left out) (dry run)" in run("skip", queue, "yearly", "--dry-run=client")
    assert "is left out) (server dry run)" in run("skip", queue, "yearly", "--dry-run=server")
    run("skip", queue, "yearly", "--reason", "a <release>; week")
    assert rows() == [("Skipped", first), ("Next", second)]
    run("start", queue, "yearly", "--at", first)
    assert "windowOverrides" not in sandbox.read_queue(queue)["spec"]
    assert "lasts until" in run("extend", queue, "yearly", "--for", "30m")
    [override] = sandbox.read_queue(queue)["spec"]["windowOverrides"]
    assert override == {"window": "yearly", "start": first, "until": "2200-01-01T04:30:00Z"}
    assert "begins now" in run("start", queue, "yearly", "--for", "1h")
    (state, _), *coming = rows()
    assert state in ("On", "Due")
    assert coming == [("Next", second), ("Next", third)]
    run("skip", queue, "yearly")
    assert rows() == [("Skipped", first), ("Next", second)]
