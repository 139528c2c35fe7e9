"""What people see of a quota on a control plane: the status, the columns, and what the plugin says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from localcluster.cluster import LocalCluster
from queues.quota.claims import CLAIM_AFTER_OTHERS
from tests.support.e2e.objects import on_a_node, why
from tests.support.e2e.policies import GLOBAL_KEY, policy
from tests.support.e2e.wait import until
from tests.support.plugin.sandbox import PluginSandbox, pod_of, workload


@pytest.fixture
def sandbox(cluster: LocalCluster) -> Iterator[PluginSandbox]:
    made = PluginSandbox(cluster)
    yield made
    made.clear()


def quota_of(sandbox: PluginSandbox, queue: str, *, waiting: int) -> dict[str, Any]:
    """What the status says, once so many wait and none is being released."""

    def found() -> dict[str, Any]:
        quota: dict[str, Any] = sandbox.direct.read_queue(queue).get("status", {}).get("quota") or {}
        return quota if quota.get("waiting") == waiting and "releasing" not in quota else {}

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
    by_kubectl = sandbox.direct.kubectl("get", "queues", lab, vision, "-o", "wide").stdout
    for shown in map(rows, (by_kubectl, sandbox.done("get", lab, vision, "-o", "wide"))):
        assert shown["NAME"].endswith("USED            LIMIT   WAITING")
        assert shown[lab].endswith("cpu 2           cpu 2   3")
    waits = next(name for name in names if not on_a_node(sandbox.direct.read_pod(name)))
    room = sandbox.told(f"pod/{waits}")["room"]
    assert (room["waiting"], room["place"] in {1, 2, 3}) == (3, True)
    assert (room["queue"], room["resource"], room["missing"], room["used"]) == (lab, "cpu", "1", "2")
    assert room["holders"] == [{"queue": vision, "amount": "2"}]
    text = sandbox.why(f"pod/{waits}")
    assert f'waits for room: queue "{lab}" uses cpu 2 of 2\n' in text
    assert f"an admin of queues may raise the capability: kubectl edit queue {lab}\n" in text
    assert "Quota:       cpu 2 of 2 used\n             3 pods wait for room\n" in sandbox.done("why", lab)
    labels = {"selector": {"matchLabels": {"app": "web"}}}
    sandbox.make(workload("Deployment", "apps/v1", "web", vision, **labels))
    pod_of(sandbox, "web")
    assert f'1 pod of it waits for room: queue "{lab}" never has cpu 9999' in sandbox.why("deployment/web")
    for queue in (lab, vision):
        quota_of(sandbox, queue, waiting=4)
    sandbox.direct.scale("web", 0)
    for queue in (lab, vision):
        quota_of(sandbox, queue, waiting=3)
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


def test_what_is_idle_is_lent_and_goes_back_as_pods_end(sandbox: PluginSandbox) -> None:
    """As docs/tasks/lend-what-is-idle.md has it, with smaller numbers."""
    lab = sandbox.direct.queue("lab", capability={"cpu": "4"})
    speech, vision = (
        sandbox.direct.queue(name, parent=lab, deserved={"cpu": "2"}) for name in ("speech", "vision")
    )
    borrowing = sandbox.direct.pods("speech", 3, speech, cpu="1")
    sandbox.direct.all_bound(borrowing)
    late = sandbox.direct.pods("vision", 3, vision, cpu="1")
    more = sandbox.direct.pods("more", 1, speech, cpu="1")
    for queue, waiting in ((lab, 3), (speech, 1), (vision, 2)):
        quota_of(sandbox, queue, waiting=waiting)
    lines = [line.split() for line in sandbox.done("usage", lab, "--no-headers").splitlines()]
    assert lines == [
        [lab, "cpu", "4", "4", "3"],
        [speech, "cpu", "3", "2", "1", "1"],
        [vision, "cpu", "1", "2", "1", "2"],
    ]
    assert would_go(sandbox, vision) <= set(borrowing)
    sandbox.direct.api.delete(f"{sandbox.direct.pods_path}/{borrowing[0]}").must(200)
    until(lambda: len(sandbox.direct.bound(late)) == 2, "one more of those below what they deserve to go")
    quota_of(sandbox, vision, waiting=1)
    assert sandbox.direct.bound(more) == set()


def would_go(sandbox: PluginSandbox, queue: str) -> set[str]:
    """By a policy that the plugin reads, and the server does not: one pod goes."""
    namespace = sandbox.direct.namespace
    body = {"metadata": {"name": "mine"}, "data": {GLOBAL_KEY: policy("allocate, reclaim")}}
    sandbox.direct.api.create(f"/api/v1/namespaces/{namespace}/configmaps", body).must(201)
    place = ("--policies-namespace", namespace, "--policies-name", "mine")
    [line] = sandbox.done("reclaim", queue, "--dry-run", "--no-headers", *place).splitlines()
    return {line.split()[1]}


@pytest.mark.long
def test_a_pod_that_waits_for_a_claim_is_told_whose_it_is(sandbox: PluginSandbox) -> None:
    """A hundred others have passed the large one, or it has waited for long enough, where queues have changed
    meanwhile. The condition of the pod names nobody.
    """
    lab = sandbox.direct.queue("lab", capability={"cpu": "2"})
    speech, vision = (sandbox.direct.queue(name, parent=lab) for name in ("speech", "vision"))
    sandbox.direct.all_bound(sandbox.direct.pods("early", 1, vision, cpu="1"))
    sandbox.direct.pod("large", speech, cpu="2").must(201)
    sandbox.direct.reason_on("large", "of its ancestor")
    sandbox.direct.all_bound(sandbox.direct.pods("passing", CLAIM_AFTER_OTHERS, vision))

    def is_held_back() -> str:
        """What it says, where it waits for the claim; one that goes before that is gone again."""
        sandbox.direct.pod("small", vision, cpu="1").must(201, 409)
        path = f"{sandbox.direct.pods_path}/small"
        found = sandbox.direct.api.get(path).must(200, 404)
        if found.status == 404:
            return ""
        if on_a_node(found.body):
            sandbox.direct.api.delete(path).must(200, 404)
        told = why(found.body)
        return told if "a pod that has waited longer" in told else ""

    message = until(is_held_back, "a pod to wait for the claim")
    assert "large" not in message
    assert speech not in message
    until(lambda: "claim" in sandbox.direct.read_queue(lab)["status"]["quota"], "the status to name it")
    claimant = f'Claimed by:  pod {sandbox.namespace}/large of queue "{speech}", created '
    text = sandbox.why("pod/small")
    assert claimant in text
    assert f'leave it room in queue "{lab}"\n' in text
    assert f'Claimed by:  it: those behind it leave it room in queue "{lab}"\n' in sandbox.why("pod/large")


def test_a_tenant_is_told_as_much_as_it_may_read(sandbox: PluginSandbox) -> None:
    """A user with `view` in a namespace; then one who may read queues too. Neither may list others' pods."""
    queue = sandbox.direct.queue("lab", capability={"pods": "0"})
    sandbox.direct.pod("work", queue).must(201)
    sandbox.direct.reason_on("work", "room for this pod")
    quota_of(sandbox, queue, waiting=1)
    sandbox.direct.event("work", "InsufficientQuota", "room for this pod")
    bound(sandbox, "reader", "view")
    told = sandbox.why("pod/work", "--as=reader")
    never = f'queue "{queue}" never has room: it requests more than its capability'
    assert told.startswith(f"Pod {sandbox.namespace}/work waits for room: {never}\n")
    assert f'how much is missing, and who holds it: you may not read queue "{queue}"\n' in told
    assert f'you may not read queue "{queue}": this is what it says itself' in told
    rules = {"apiGroups": ["scheduling.volcano.sh"], "resources": ["queues"], "verbs": ["get", "list"]}
    sandbox.direct.user("viewer", sandbox.direct.role("queue-viewer", rules))
    bound(sandbox, "viewer", "view")
    sandbox.direct.may("viewer", "list", "queues", "scheduling.volcano.sh")
    told = sandbox.why("pod/work", "--as=viewer")
    assert f'waits for room: queue "{queue}" never has pods 1, its capability is 0\n' in told
    place = f'it is 1 of 1 of namespace "{sandbox.namespace}"; 1 pod waits in that queue'
    unlisted = f'not known: you may not list the pods of queue "{queue}" in all namespaces'
    assert f"In line:     {unlisted}; {place}\n" in told


def bound(sandbox: PluginSandbox, user: str, role: str) -> None:
    """A user with the role in the namespace."""
    body = {
        "metadata": {"name": f"{user}-{role}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }
    path = sandbox.path("rbac.authorization.k8s.io/v1", "rolebindings")
    sandbox.direct.api.create(path, body).must(201)
    sandbox.direct.may(user, "get", "pods")
