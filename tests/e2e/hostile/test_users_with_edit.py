"""A user with `edit` in one namespace: nothing that they write takes a pod past a stop, or holds up others.

The list of all that can be written, with what stops it, is docs/operating/security.md.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localcluster import apiserver
from localcluster.ports import LOOPBACK
from tests.e2e.hostile.conftest import MALLORY
from tests.support.e2e.api_requests import Answer, Object
from tests.support.e2e.objects import (
    GATE,
    GROUPED_BY,
    NAMED_BY,
    binding_body,
    condition,
    pod_body,
    podgroup_body,
)
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until
from tests.support.e2e.workloads import (
    DEPLOYMENT,
    JOB,
    KINDS,
    REPLICA_SET,
    owned_by,
    template_of,
    work_body,
)

QUEUE, ADMISSION, SUSPENDED = "sluice.dev/queue", "sluice.dev/admission", "sluice.dev/suspended"
MARKERS = ("sluice.dev/member", "sluice.dev/scored")


@pytest.fixture
def stopped(mallory: Sandbox) -> str:
    queue = mallory.queue("stopped")
    mallory.suspend(queue)
    return queue


@pytest.fixture
def flowing(mallory: Sandbox) -> str:
    return mallory.queue("flowing")


def post(sandbox: Sandbox, body: Object, path: str = "") -> Answer:
    return sandbox.api.create(path or sandbox.pods_path, body, user=MALLORY)


def patch(sandbox: Sandbox, path: str, body: Object, kind: str = "merge") -> Answer:
    return sandbox.api.patch(path, body, kind=kind, user=MALLORY)


def asking(name: str, queue: str, amounts: Object, *, place: str = "containers") -> Object:
    """A pod that asks for these resources."""
    body = pod_body(name, queue)
    needs = {"requests": amounts, "limits": amounts}
    if place == "containers":
        body["spec"]["containers"][0]["resources"] = needs
    else:
        body["spec"]["initContainers"] = [{"name": "first", "image": "none", "resources": needs}]
    return body


@pytest.fixture(autouse=True)
def no_fault_of_ours(mallory: Sandbox) -> Iterator[None]:
    """What the log gets during the test has no traceback."""
    log = Path(mallory.cluster.info["logs_dir"]) / "server.log"
    before = log.stat().st_size
    yield
    with log.open("rb") as written:
        written.seek(before)
        assert b"Traceback" not in written.read()


def others_are_not_held_up(sandbox: Sandbox) -> None:
    """Another queue is stopped and flows again."""
    other = sandbox.queue("other")
    sandbox.suspend(other)
    sandbox.edit(other, state="Open")


def test_no_pod_is_created_past_a_stop(mallory: Sandbox, stopped: str, flowing: str) -> None:
    """Whatever is written on it: it is refused, or gated and written down in the queue that it names."""
    ours = {QUEUE: flowing, ADMISSION: "x", "sluice.dev/woken": "y"}
    generated = pod_body("", stopped)
    generated["metadata"] |= {"name": "", "generateName": "g" * 60 + "-"}
    bodies = [
        pod_body("forged", stopped, annotations=ours, labels={QUEUE: flowing}),
        pod_body("placed", stopped, nodeName="node-0"),
        pod_body("placed-gated", stopped, nodeName="node-0", schedulingGates=[{"name": GATE}]),
        pod_body("gated", stopped, schedulingGates=[{"name": GATE}]),
        pod_body("elsewhere", stopped, schedulerName="nobody"),
        pod_body("urgent", stopped, priority=2_000_000_000),
        pod_body("system", stopped, priorityClassName="system-node-critical"),
        pod_body("n" * 253, stopped),
        generated,
        *(asking(f"marker-{number}", stopped, {MARKERS[number]: "5"}) for number in (0, 1)),
        asking("marker-none", stopped, {MARKERS[0]: "0"}),
        asking("marker-first", stopped, {MARKERS[0]: "1"}, place="initContainers"),
        asking("huge", stopped, {"cpu": "1e30"}),
        asking("negative", stopped, {"cpu": "-1"}),
        asking("memory", stopped, {"memory": "9" * 30}),
        pod_body("mirror", stopped, annotations={"kubernetes.io/config.mirror": "x"}),
    ]
    for body in bodies:
        answer = post(mallory, body)
        assert answer.status in (201, 403, 422), answer
        if answer.status == 201:
            assert answer.body["metadata"]["annotations"][QUEUE] == stopped
            assert answer.body["metadata"]["labels"][QUEUE] == stopped
            assert {"name": GATE} in answer.body["spec"]["schedulingGates"]
    assert (
        post(mallory, binding_body("forged", mallory.namespace), f"{mallory.pods_path}/forged/binding").status
        == 403
    )
    assert post(mallory, binding_body("forged", mallory.namespace), f"{mallory.home}/bindings").status == 403
    assert not mallory.bound(mallory.read_pods())
    others_are_not_held_up(mallory)


def test_no_edit_takes_a_pod_past_a_stop(mallory: Sandbox, stopped: str, flowing: str) -> None:
    post(mallory, pod_body("work", stopped)).must(201)
    path = f"{mallory.pods_path}/work"
    gone: list[tuple[Any, str]] = [
        ({"spec": {"schedulingGates": []}}, "merge"),
        ({"spec": {"schedulingGates": None}}, "merge"),
        ({"spec": {"schedulingGates": [{"name": GATE, "$patch": "delete"}]}}, "strategic-merge"),
        ([{"op": "remove", "path": "/spec/schedulingGates"}], "json"),
        ({"metadata": {"annotations": {QUEUE: None}}}, "merge"),
        ({"metadata": {"annotations": {QUEUE: flowing}}}, "merge"),
        ({"metadata": {"labels": {QUEUE: flowing}}}, "merge"),
        ({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}}, "merge"),
        ({"spec": {"schedulerName": "nobody"}}, "merge"),
    ]
    for body, kind in gone:
        assert patch(mallory, path, body, kind).status in (403, 422), body
    for subresource in ("status", "ephemeralcontainers", "resize"):
        body = {"metadata": {"annotations": {QUEUE: flowing}}}
        assert patch(mallory, f"{path}/{subresource}", body).status == 403
    assert applied(mallory, path, {"metadata": {"annotations": {QUEUE: flowing}}})[0] == 403
    words = {NAMED_BY: flowing, ADMISSION: "scale/deployments/x/y", "sluice.dev/woken": "z"}
    held = patch(mallory, path, {"metadata": {"annotations": words}}).must().body
    assert held["metadata"]["annotations"][QUEUE] == stopped
    assert not mallory.bound(["work"])
    others_are_not_held_up(mallory)


def applied(sandbox: Sandbox, path: str, fields: Object) -> tuple[int, str]:
    """A server-side apply, by force."""
    head: Object = {"apiVersion": "v1", "kind": "Pod", **fields}
    context, port = apiserver.context(sandbox.cluster.layout), sandbox.cluster.ports.apiserver
    line = http.client.HTTPSConnection(LOOPBACK, port, context=context, timeout=60)
    headers = {
        "Content-Type": "application/apply-patch+yaml",
        "Impersonate-User": MALLORY,
        "Impersonate-Group": "system:authenticated",
    }
    try:
        line.request("PATCH", f"{path}?fieldManager=m&force=true", body=json.dumps(head), headers=headers)
        reply = line.getresponse()
        return reply.status, reply.read().decode()
    finally:
        line.close()


def test_what_is_ours_means_nothing_on_a_pod_of_no_queue(mallory: Sandbox, flowing: str) -> None:
    until(
        lambda: mallory.pod("probe", dry=True, annotations={QUEUE: flowing}).status == 201,
        "the namespace to be known",
    )
    marked = asking("marked", "", {MARKERS[0]: "1"})
    marked["metadata"] |= {"annotations": {QUEUE: flowing, ADMISSION: "x"}, "labels": {QUEUE: flowing}}
    made = post(mallory, marked).must(201).body
    assert QUEUE not in made["metadata"].get("annotations", {}) | made["metadata"].get("labels", {})
    assert MARKERS[0] not in made["spec"]["containers"][0]["resources"].get("requests", {})
    assert post(mallory, pod_body("gated", schedulingGates=[{"name": GATE}])).status == 422
    mallory.all_bound(["marked"])


@pytest.mark.parametrize("made", KINDS, ids=[made.kind for made in KINDS])
def test_no_word_of_a_workload_takes_its_pods_past_a_stop(
    mallory: Sandbox, stopped: str, flowing: str, made: Any
) -> None:
    body = work_body(made, "work", stopped)
    body["metadata"] |= {
        "annotations": {QUEUE: flowing, SUSPENDED: "x", ADMISSION: "y"},
        "labels": {QUEUE: flowing},
    }
    template_of(body)["metadata"]["annotations"][QUEUE] = flowing
    template_of(body)["metadata"]["labels"][QUEUE] = flowing
    found = post(mallory, body, made.path(mallory.namespace)).must(201).body
    assert found["metadata"]["annotations"][QUEUE] == stopped
    assert found["metadata"]["annotations"][ADMISSION] != "y"
    assert SUSPENDED not in found["metadata"]["annotations"]
    path = f"{made.path(mallory.namespace)}/work"
    for words in (
        {"annotations": {QUEUE: flowing}},
        {"labels": {QUEUE: flowing}},
        {"annotations": {SUSPENDED: "x"}},
    ):
        found = patch(mallory, path, {"metadata": words}).must().body
        assert found["metadata"]["annotations"][QUEUE] == found["metadata"]["labels"][QUEUE] == stopped
        assert SUSPENDED not in found["metadata"]["annotations"]
    assert not mallory.bound(mallory.read_pods())


def test_a_forged_owner_makes_no_accepted_work(mallory: Sandbox, flowing: str) -> None:
    """Its name and UID are those of work that the queue had accepted."""
    accepted = work_body(DEPLOYMENT, "accepted", flowing, replicas=1)
    real = post(mallory, accepted, DEPLOYMENT.path(mallory.namespace)).must(201).body
    mallory.edit(flowing, state="Closed")
    kept = f"kept from Closed by deployment {mallory.namespace}/accepted"
    mallory.queue_that(
        flowing, "name the Deployment", lambda queue: kept in condition(queue, "Accepting")["message"]
    )
    for made, body in (
        (None, pod_body("forged", flowing)),
        (REPLICA_SET, work_body(REPLICA_SET, "forged", flowing, replicas=1)),
        (REPLICA_SET, work_body(REPLICA_SET, "forged-empty", flowing, replicas=0)),
        (JOB, work_body(JOB, "forged", flowing)),
    ):
        body["metadata"] |= {"ownerReferences": owned_by(real)}
        body["metadata"]["annotations"] = {**body["metadata"]["annotations"], ADMISSION: "x"}
        post(mallory, body, made.path(mallory.namespace) if made else "").must_refuse("Closing")


#: A status that a user of PodGroups may write, since the kind has no status subresource.
STATUSES: list[Object] = [
    {"phase": "x" * 100_000},
    {"phase": "Completed", "running": -5},
    {"conditions": [{"type": "Populated", "status": "False"}]},
    {"conditions": [{"type": "x", "lastTransitionTime": "9999-12-31T23:59:59Z"}]},
    {"conditions": [{"type": "x", "lastTransitionTime": "2020-01-01T00:00:00.123456789123+14:00"}]},
    {"conditions": [{"type": "x", "status": "True", "message": "m" * 1_000_000}]},
    {"junk": [[[[1e30]]]]},
]


def nested(depth: int) -> Any:
    found: Any = 1
    for _ in range(depth):
        found = [found]
    return found


def test_no_podgroup_holds_up_others(mallory: Sandbox, flowing: str) -> None:
    post(mallory, podgroup_body("group", flowing), mallory.podgroups_path).must(201)
    path = f"{mallory.podgroups_path}/group"
    for status in STATUSES:
        patch(mallory, path, {"status": status}).must()
    for spec in ({"minMember": -5}, {"minMember": 2**31 - 1}, {"junk": nested(900)}):
        patch(mallory, path, {"spec": spec}).must()
    patch(mallory, path, {"metadata": {"annotations": {ADMISSION: "scale/deployments/a/b"}}}).must()
    others_are_not_held_up(mallory)
    mallory.api.delete(path, user=MALLORY).must()


def test_no_name_of_a_podgroup_holds_up_others(mallory: Sandbox) -> None:
    """The annotation holds any text; the pod waits for a group that cannot come."""
    for number, name in enumerate(
        ("a/b", "..", "\u00dcn\u00ef", "x" * 300, "a\x00b", "\u202e", " ", "x" * 200_000)
    ):
        made = post(mallory, pod_body(f"lost-{number}", annotations={GROUPED_BY: name})).must(201)
        assert {"name": GATE} in made.body["spec"]["schedulingGates"]
    others_are_not_held_up(mallory)
    assert not mallory.bound(mallory.read_pods())


def test_objects_with_labels_without_end_hold_up_nobody(mallory: Sandbox, flowing: str) -> None:
    body = pod_body(
        "labelled", flowing, gated=True, labels={f"l{number}": "v" * 63 for number in range(12_000)}
    )
    body["metadata"]["finalizers"] = [f"tests.sluice.dev/f{number}" for number in range(1000)]
    post(mallory, body).must(201)
    others_are_not_held_up(mallory)
    patch(mallory, f"{mallory.pods_path}/labelled", {"metadata": {"finalizers": None}}).must()


def test_a_key_that_comes_twice_is_read_as_the_api_server_reads_it(
    mallory: Sandbox, stopped: str, flowing: str
) -> None:
    """What is answered is what is stored: the webhook is sent what the API server has read."""
    twice = f'"{NAMED_BY}": "{stopped}", "{NAMED_BY}": '
    text = json.dumps(pod_body("twice", flowing)).replace(f'"{NAMED_BY}": ', twice)
    context, port = apiserver.context(mallory.cluster.layout), mallory.cluster.ports.apiserver
    line = http.client.HTTPSConnection(LOOPBACK, port, context=context, timeout=60)
    line.request("POST", mallory.pods_path, body=text, headers={"Content-Type": "application/json"})
    read = json.loads(line.getresponse().read())["metadata"]["annotations"]
    line.close()
    assert read[NAMED_BY] == read[QUEUE]
