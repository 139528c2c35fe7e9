"""A stop and a window that begins soon are told to a receiver that fails in each way, by two leaders."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from localcluster import manifests
from localcluster.cluster import LocalCluster
from queues.apimachinery.timestamps import rfc3339
from queues.notices.refusals import MOST_REFUSALS
from tests.support.e2e.api_requests import Object
from tests.support.e2e.fleet import Fleet
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until
from tests.support.http.notice_receiver import (
    CUT,
    OK,
    REFUSED,
    SECRET,
    SERVER_ERROR,
    SILENT,
    NoticeReceiver,
)
from tests.support.paths import ROOT

pytestmark = [pytest.mark.cluster, pytest.mark.long]
CURSOR = "/api/v1/namespaces/sluice-system/configmaps/sluice-notices"


#: Read by every Python that starts with this folder in its path. The rules of the server are its own, and so
#: is the number of tries; but it waits for less between two of them. Ten take a quarter of an hour else.
IMPATIENT = """
from cluster.backoff import Backoff
from controller.notices import sender
sender.BACKOFF = Backoff(first=0.05, longest=0.05)
"""


def window_in_minutes(minutes: int) -> Object:
    begins = datetime.now(UTC) + timedelta(minutes=minutes)
    span = {"from": rfc3339(begins), "until": rfc3339(begins + timedelta(hours=1))}
    return {"name": "upgrade", "stopPolicy": "Hold", **span}


def _grant(cluster: LocalCluster) -> None:
    rights = yaml.safe_load_all((ROOT / "manifests" / "notices" / "rights.yaml").read_text())
    manifests.apply(cluster.layout, cluster.ports, rights)


def test_a_stop_is_told_until_the_receiver_takes_it_with_the_same_id_whoever_leads(
    module_cluster: LocalCluster, tmp_path: Path
) -> None:
    """It answers 500, hangs up, and is silent; then the leader is killed, and the next one tells it."""
    _grant(module_cluster)
    fleet, sandbox = Fleet(module_cluster, tmp_path), Sandbox(module_cluster)
    with NoticeReceiver(tmp_path, SERVER_ERROR, CUT, SILENT) as receiver:
        try:
            for name in ("server-1", "server-2"):
                fleet.join(name, flags=[f"--notices-dir={tmp_path}"])
            until(lambda: sandbox.api.get(CURSOR).status == 200, "the first cursor to be stored")
            queue = sandbox.queue()
            sandbox.suspend(queue, reason="storage <!channel>", windows=[window_in_minutes(10)])
            until(lambda: len(receiver.posts) == 3, "the message to be sent three times")
            fleet.kill("server-1")
            until(lambda: receiver.ids(OK), "the next leader to tell it")
            first, told = set(receiver.ids(SERVER_ERROR, CUT, SILENT)), receiver.ids(OK)
            assert len(told) == 2
            assert first == set(told)
            text = receiver.posts[-1][0]["text"]
            assert f'queue "{queue}": window upgrade begins at' in text
            assert f'queue "{queue}"' in text
            assert "(storage \u2039!channel\u203a): Suspended, it was Open" in text
            sandbox.edit(queue, state="Open", reason=None)
            until(lambda: len(receiver.ids(OK)) == 3, "the resume to be told, and nothing again")
            assert len(set(receiver.ids(OK))) == 3
            logs = [module_cluster.layout.log(name).read_text() for name in ("server-1", "server-2")]
            assert "notices: not sent, and tried again: HTTP 500" in logs[0]
            assert not [log for log in logs if SECRET in log]
        finally:
            sandbox.clear()
            sandbox.api.delete(CURSOR)
            sandbox.close()
            fleet.close()


def test_a_notice_that_is_refused_for_good_is_given_up_and_said_and_the_next_is_told(
    module_cluster: LocalCluster, tmp_path: Path
) -> None:
    _grant(module_cluster)
    (tmp_path / "sitecustomize.py").write_text(IMPATIENT)
    fleet, sandbox = Fleet(module_cluster, tmp_path), Sandbox(module_cluster)
    with NoticeReceiver(tmp_path, *[REFUSED] * MOST_REFUSALS) as receiver:
        try:
            flags, prefix = [f"--notices-dir={tmp_path}"], ["/usr/bin/env", f"PYTHONPATH={tmp_path}"]
            fleet.join("server-3", flags=flags, prefix=prefix)
            until(lambda: sandbox.api.get(CURSOR).status == 200, "the first cursor to be stored")
            queue = sandbox.queue()
            sandbox.suspend(queue)
            text = "NoticeGivenUp: a notice is given up, refused by the receiver 10 times, HTTP 400"
            sandbox.event(queue, text, namespace="default")
            refused = receiver.ids(REFUSED)
            assert len(refused) == MOST_REFUSALS
            assert len(set(refused)) == 1
            sandbox.edit(queue, state="Open")
            until(lambda: receiver.ids(OK), "the resume to be told")
            assert receiver.ids(OK) != refused[:1]
        finally:
            sandbox.clear()
            sandbox.api.delete(CURSOR)
            sandbox.close()
            fleet.close()
