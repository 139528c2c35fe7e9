"""What people see of a quota on a control plane: the status, the columns, and what the plugin says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from localcluster.cluster import LocalCluster
from tests.support.e2e.objects import on_a_node
from tests.support.e2e.wait import until
from tests.support.plugin.sandbox import PluginSandbox


@pytest.fixture
def sandbox(cluster: LocalCluster) -> Iterator[PluginSandbox]:
    made = PluginSandbox(cluster)
    yield made
    made.clear()


def quota_of(sandbox: PluginSandbox, queue: str, *, waiting: int) -> dict[str, Any]:
    """What the status says, once so many wait."""

    def found() -> dict[str, Any]:
        quota: dict[str, Any] = sandbox.direct.read_queue(queue).get("status", {}).get("quota") or {}
        return quota if quota.get("waiting") == waiting else {}

    return until(found, f"{waiting} pods of {queue} to wait")


def rows(text: str) -> dict[str, str]:
    """Lines of a table by their first word."""
    return {line.split()[0]: line.rstrip() for line in text.splitlines() if line.strip()}


def test_a_limited_team_is_seen_in_the_status_and_in_the_columns(sandbox: PluginSandbox) -> None:
    lab = sandbox.direct.queue("lab", capability={"cpu": "2"})
    vision = sandbox.direct.queue("vision", parent=lab)
    names = sandbox.direct.pods("work", 5, vision, cpu="1")
    used = {"used": {"cpu": "2", "pods": "2"}, "waiting": 3}
    assert quota_of(sandbox, lab, waiting=3) == {**used, "usedText": "cpu 2", "limitText": "cpu 2"}
    assert quota_of(sandbox, vision, waiting=3)["usedText"] == "cpu 2, pods 2"
    shown = rows(sandbox.direct.kubectl("get", "queues", lab, vision, "-o", "wide").stdout)
    assert shown["NAME"].endswith("USED            LIMIT   WAITING")
    assert shown[lab].endswith("cpu 2           cpu 2   3")
    assert rows(sandbox.done("get", lab, vision, "-o", "wide")) == shown
    table = sandbox.done("usage", vision)
    assert [line.split()[:4] for line in table.splitlines()] == [
        ["QUEUE", "RESOURCE", "USED", "LIMIT"],
        [lab, "cpu", "2", "2"],
        [vision, "cpu", "2", "3"],
    ]
    running = next(name for name in names if on_a_node(sandbox.direct.read_pod(name)))
    sandbox.direct.api.delete(f"{sandbox.direct.pods_path}/{running}").must(200)
    quota_of(sandbox, lab, waiting=2)
    sandbox.direct.edit(lab, capability=None)
    until(lambda: "quota" not in sandbox.direct.read_queue(vision)["status"], "the quota to be said no more")
