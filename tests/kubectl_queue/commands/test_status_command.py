"""`status`: what is read, and that what may not be read is left out and said."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Collection, Sequence
from datetime import timedelta

import pytest

from certs.authority import create
from kubectl_queue.access.replicas import LEADER
from kubectl_queue.access.responses import ApiRequest
from kubectl_queue.commands.version import own_version
from kubectl_queue.errors import QueueError, ServerError, SilentError
from kubectl_queue.objects.fields import Object
from tests.support.plugin.harness import NOW, StoredObjects, StoredQueues, item, run_command

LEASES = "/apis/coordination.k8s.io/v1/namespaces/sluice-system/leases"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1"
AUTHORITY = create(name="a", now=NOW).certificate


def lease(
    name: str, *, age: float = 1.0, seen: int = 7, lacking: Sequence[str] = (), **said: Sequence[str]
) -> Object:
    report = {
        **{"seen": seen, "version": own_version(), "certificate_until": "2030-12-01T00:00:00Z"},
        **{"registration": lacking, **said},
    }
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


def test_another_namespace_is_told_where_sluice_is() -> None:
    done = run_command(StoredQueues(item("q")), "status", "-nfoo", client=cluster(lease("a")))
    assert done.code == 1
    assert 'no Sluice in namespace "foo"; try -n sluice-system' in done.out
    assert "refused" not in done.out


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
    stored = client.send(
        ApiRequest(method="GET", path=f"{WEBHOOKS}/validatingwebhookconfigurations", query={})
    )
    stored["items"].append(entries)
    done = run_command(StoredQueues(item("q")), "status", client=client)
    assert "Problems:    Volcano's webhook (volcano-x) refuses every edit of a queue" in done.out
    assert "validatequeue.volcano.sh" not in done.out


def test_what_the_webhooks_lack_by_the_word_of_the_leader_is_a_problem() -> None:
    """Of a replica that is gone nothing is; each is one line, whatever is written on the Lease."""
    replicas = lease("b", lacking=["by b"]), lease("a", lacking=["no\nbinding", "y" * 9999])
    done = run_command(StoredQueues(item("q")), "status", "-ojson", client=cluster(*replicas))
    first, second = json.loads(done.out)["problems"]
    assert (first, len(second)) == ("no binding", 400)
    gone = cluster(lease("a", age=60, lacking=["by a"]))
    assert "by a" not in run_command(StoredQueues(item("q")), "status", client=gone).out


def test_what_may_not_be_read_is_left_out_and_said() -> None:
    client = cluster(lease("a"), forbidden=[f"{LEASES}/{LEADER}"])
    done = run_command(StoredQueues(item("q")), "status", client=client)
    assert done.code == 1
    assert "REPLICA" not in done.out
    assert "queues.sluice.dev" in done.out
    assert done.err.count("is forbidden") == 1


class Failing(StoredObjects):
    """The API server fails at what is in `failing`."""

    def __init__(self, objects: StoredObjects, *, failing: str, error: QueueError) -> None:
        super().__init__(objects._objects)
        self._failing, self._error = failing, error

    def _refuse(self, path: str, kind: str) -> None:
        if self._failing in path:
            raise self._error
        super()._refuse(path, kind)


FAULTS = [
    ServerError("Error from server (InternalError): etcdserver: request timed out\nand more", code=500),
    SilentError("the API server has not answered within 30 s"),
]


@pytest.mark.parametrize("error", FAULTS, ids=["500", "time-out"])
@pytest.mark.parametrize(
    ("failing", "what", "shown"),
    [
        ("/api/v1/pods", "the pods of other schedulers", ["REPLICA ", "WEBHOOK ", "Authority:   until"]),
        ("configmaps", "the authority", ["REPLICA ", "WEBHOOK "]),
        ("/leases", "the replicas", ["WEBHOOK ", "Authority:   until"]),
        ("webhookconfigurations", "the webhooks", ["REPLICA ", "Authority:   until"]),
    ],
)
def test_what_fails_is_said_in_one_line_and_the_rest_is_shown(
    failing: str, what: str, shown: list[str], error: QueueError
) -> None:
    client = Failing(cluster(lease("a")), failing=failing, error=error)
    done = run_command(StoredQueues(item("q")), "status", client=client)
    why, _, _ = str(error).partition("\n")
    [line] = done.err.splitlines()
    assert line.removesuffix("...") == f"could not read {what}: {why}"
    assert [each for each in shown if each not in done.out] == []
    assert "Problems:    not known: not all could be read" in done.out
    assert done.code == 1


def test_what_fails_for_one_reason_is_one_line() -> None:
    client = Failing(cluster(lease("a")), failing="/", error=FAULTS[1])
    done = run_command(StoredQueues(item("q")), "status", client=client)
    [line] = done.err.splitlines()
    what = "the webhooks, the replicas, the authority and the pods of other schedulers"
    assert line == f"could not read {what}: {FAULTS[1]}"


def test_who_may_not_list_pods_is_told_all_the_rest() -> None:
    done = run_command(
        StoredQueues(item("q")), "status", client=cluster(lease("a"), forbidden=["/api/v1/pods"])
    )
    assert (done.code, done.err) == (0, "")


def test_what_the_leader_says_of_policies_is_a_problem_or_a_note() -> None:
    """Another replica may have a last good text, or an older ConfigMap: what the leader has, decides."""
    broken, idle = ["policy x cannot be read"], ["policy y: plugin sla does nothing here", "policy z: so"]
    leads = lease("a", policy_problems=broken, policy_notes=idle)
    other = lease("b", policy_problems=["policy x is broken in another way"])
    client = cluster(other, leads)
    done = run_command(StoredQueues(item("q")), "status", client=client)
    assert done.out.splitlines()[-4:] == [
        "",
        "Problems:    policy x cannot be read",
        "Notes:       policy y: plugin sla does nothing here",
        "             policy z: so",
    ]
    found = json.loads(run_command(StoredQueues(item("q")), "status", "-ojson", client=client).out)
    assert (found["problems"], found["notes"]) == (broken, idle)
