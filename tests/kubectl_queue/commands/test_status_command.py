"""`status`: what is read, and that what may not be read is left out and said."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Collection
from datetime import timedelta

from certs.authority import create
from kubectl_queue.access.replicas import LEADER
from kubectl_queue.access.responses import Request
from kubectl_queue.commands.version import own_version
from kubectl_queue.objects.fields import Object
from tests.support.plugin.harness import NOW, StoredObjects, StoredQueues, item, run_command

LEASES = "/apis/coordination.k8s.io/v1/namespaces/sluice-system/leases"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1"
AUTHORITY = create(name="a", now=NOW).certificate


def lease(name: str, *, age: float = 1.0, seen: int = 7) -> Object:
    report = {"seen": seen, "version": own_version(), "certificate_until": "2030-12-01T00:00:00Z"}
    return {
        "metadata": {
            "name": f"sluice-replica-{name}",
            "annotations": {"sluice.dev/seen": json.dumps(report)},
        },
        "spec": {
            "holderIdentity": name,
            "renewTime": (NOW - timedelta(seconds=age)).isoformat(),
            "leaseDurationSeconds": 6,
        },
    }


def configuration(*names: str) -> Object:
    bundle = b64encode(AUTHORITY).decode()
    entries = [{"name": name, "clientConfig": {"caBundle": bundle}} for name in names]
    return {"items": [{"metadata": {"name": "sluice"}, "webhooks": entries}]}


def cluster(*replicas: Object, forbidden: Collection[str] = ()) -> StoredObjects:
    config_map = {"data": {"ca.crt": AUTHORITY.decode()}}
    return StoredObjects(
        {
            LEASES: {"items": list(replicas)},
            f"{LEASES}/{LEADER}": {**lease("a"), "metadata": {"name": LEADER}},
            f"{WEBHOOKS}/mutatingwebhookconfigurations": configuration("pods.sluice.dev"),
            f"{WEBHOOKS}/validatingwebhookconfigurations": configuration("queues.sluice.dev"),
            "/api/v1/namespaces/sluice-system/configmaps/sluice-ca": config_map,
        },
        forbidden=forbidden,
    )


def test_the_whole_is_two_tables_and_what_is_wrong() -> None:
    done = run_command(StoredQueues(item("q")), "status", client=cluster(lease("a"), lease("b", age=60)))
    assert (done.code, done.err) == (0, "")
    version = own_version()
    assert done.out.splitlines() == [
        "Namespace:   sluice-system",
        f"Plugin:      {version}",
        "Authority:   until 2039-12-30",
        "",
        "REPLICA   ANSWERS   LEADS   VERSION   QUEUES    CERTIFICATE        RENEWED",
        f"a         True      True    {version:<10}Current   until 2030-12-01   1s ago",
        f"b         False     False   {version:<10}Current   until 2030-12-01   60s ago",
        "",
        "WEBHOOK             KIND         FAILURE   CABUNDLE",
        "pods.sluice.dev     Mutating     Fail      until 2039-12-30",
        "queues.sluice.dev   Validating   Fail      until 2039-12-30",
        "",
        "Problems:    none",
    ]


def test_the_structure_has_the_same_and_times_in_full() -> None:
    done = run_command(StoredQueues(item("q")), "status", "-ojson", client=cluster(lease("a")))
    status = json.loads(done.out)
    (replica,) = status["replicas"]
    assert (replica["name"], replica["leads"], replica["queues"]) == ("a", True, "Current")
    assert replica["certificateUntil"] == "2030-12-01T00:00:00Z"
    assert [webhook["failurePolicy"] for webhook in status["webhooks"]] == ["Fail", "Fail"]
    assert status["problems"] == []


def test_volcanos_webhook_on_queues_is_a_problem() -> None:
    client = cluster(lease("a"))
    entries = {"metadata": {"name": "volcano-x"}, "webhooks": [{"name": "validatequeue.volcano.sh"}]}
    stored = client.send(Request(method="GET", path=f"{WEBHOOKS}/validatingwebhookconfigurations", query={}))
    stored["items"].append(entries)
    done = run_command(StoredQueues(item("q")), "status", client=client)
    assert "Problems:    Volcano's webhook (volcano-x) refuses every edit of a queue" in done.out
    assert "validatequeue.volcano.sh" not in done.out


def test_what_may_not_be_read_is_left_out_and_said() -> None:
    client = cluster(lease("a"), forbidden=[f"{LEASES}/{LEADER}"])
    done = run_command(StoredQueues(item("q")), "status", client=client)
    assert done.code == 1
    assert "REPLICA" not in done.out
    assert "queues.sluice.dev" in done.out
    assert done.err.count("is forbidden") == 1
