"""Which requests call which of our webhooks, in a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.manifests.admission_recorder import Recorder
from tests.support.manifests.bare_api import (
    QUEUES,
    SERVER,
    Api,
    binding,
    command,
    commands,
    namespaces,
    pod,
    pods,
    queue,
)

pytestmark = pytest.mark.cluster

MEMBER = ["members.pods.sluice.dev/mutate/pods"]
NAMESPACE = ["namespaces.pods.sluice.dev/mutate/pods"]
POD = ["pods.sluice.dev/validate/pods"]
#: The recorder answers no pod, so who names a queue looks as if we had not been asked.
UNASKED = ["unasked.pods.sluice.dev/validate/pods"]
UNLABELLED = ["unlabelled.pods.sluice.dev/validate/unlabelled"]
BIND = ["binds.sluice.dev/validate/binds"]
MIRROR = {"kubernetes.io/config.mirror": "x"}


def made_by_a_controller(body: dict[str, Any]) -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": "x", "controller": True}
    return {**body, "metadata": {**body["metadata"], "ownerReferences": [owner]}}


def test_a_queue_is_shown_to_both_when_written_and_to_one_when_deleted(api: Api, recorder: Recorder) -> None:
    both = ["queues.sluice.dev/mutate/queues", "queues.sluice.dev/validate/queues"]
    with recorder.asked() as created:
        api.create(QUEUES, queue("shown"))
    with recorder.asked() as updated:
        api.patch(f"{QUEUES}/shown", {"spec": {"weight": 2}})
    with recorder.asked() as reported:
        api.patch(f"{QUEUES}/shown/status", {"status": {"state": "Open"}})
    with recorder.asked() as deleted:
        api.delete(f"{QUEUES}/shown")
    assert (created, updated, reported, deleted) == (both, both, [], both[1:])


def test_a_queue_that_the_server_creates_is_shown_to_none(api: Api, recorder: Recorder) -> None:
    """It creates the first two before the Service has an address to call. What it changes is shown."""
    with recorder.asked() as created:
        api.create(QUEUES, queue("own"), user=SERVER)
    with recorder.asked() as updated:
        api.patch(f"{QUEUES}/own", {"spec": {"weight": 2}}, user=SERVER)
    assert (created, len(updated)) == ([], 2)


def test_an_edge_of_a_window_by_the_server_is_shown_to_none_and_one_by_anybody_else_is(
    api: Api, recorder: Recorder
) -> None:
    api.create(QUEUES, queue("edge"), user=SERVER)
    with recorder.asked() as by_the_server:
        api.patch(f"{QUEUES}/edge?fieldManager=sluice-windows", {"spec": {"weight": 2}}, user=SERVER)
    with recorder.asked() as by_others:
        api.patch(f"{QUEUES}/edge?fieldManager=sluice-windows", {"spec": {"weight": 3}})
    assert (by_the_server, len(by_others)) == ([], 2)


def test_the_mutating_webhook_sees_the_state_that_a_new_queue_carries_in_status(
    api: Api, recorder: Recorder
) -> None:
    before = len(recorder.calls)
    api.create(QUEUES, {**queue("wish"), "status": {"state": "Closed"}}, dry=True)
    shown = recorder.calls[before]["request"]["object"]
    assert (shown["status"], shown["spec"].get("state")) == ({"state": "Closed"}, None)


@pytest.mark.parametrize(
    "made",
    [
        pod(annotations={"scheduling.k8s.io/group-name": "pair"}),
        pod(annotations={"scheduling.volcano.sh/queue-name": "research"}),
        pod(annotations={"volcano.sh/queue-name": "research"}),
        pod(labels={"volcano.sh/queue-name": "research"}),
        pod(schedulerName="volcano"),
    ],
    ids=str,
)
def test_a_pod_that_names_a_queue_is_shown(api: Api, recorder: Recorder, made: dict[str, Any]) -> None:
    """And shown again at the end, since nobody has answered."""
    with recorder.asked() as heard:
        reply = api.create(pods("plain"), made, dry=True)
    assert (reply.status, heard) == (201, MEMBER + UNASKED)


WRITTEN: dict[str, Any] = {"labels": {"sluice.dev/queue": "q"}, "annotations": {"sluice.dev/queue": "q"}}
WAITING: dict[str, Any] = {"labels": {"sluice.dev/queue": ""}, "gates": ["sluice.dev/queue"]}


@pytest.mark.parametrize("made", [WRITTEN, {**WRITTEN, "gates": ["sluice.dev/queue"]}, WAITING], ids=str)
def test_a_pod_that_was_answered_is_not_shown_again(
    api: Api, recorder: Recorder, made: dict[str, Any]
) -> None:
    annotations = {**made.get("annotations", {}), "scheduling.k8s.io/group-name": "pair"}
    with recorder.asked() as heard:
        api.create(pods("plain"), pod(**{**made, "annotations": annotations}), dry=True)
    assert heard == MEMBER


@pytest.mark.parametrize(
    "made",
    [
        {**WRITTEN, "nodeName": "a"},
        {**WRITTEN, "labels": {"sluice.dev/queue": "other"}},
        {**WRITTEN, "labels": {"sluice.dev/queue": ""}, "gates": ["sluice.dev/queue"]},
        {**WRITTEN, "labels": {"app": "x"}},
        {**WRITTEN, "labels": {}, "gates": ["sluice.dev/queue"]},
        {**WRITTEN, "annotations": {}},
        {**WAITING, "gates": ["example.com/gate"]},
        {**WAITING, "nodeName": "a", "gates": []},
        {**WAITING, "labels": {}},
        {**WAITING, "labels": {"sluice.dev/queue": "a_long-name"}},
    ],
    ids=str,
)
def test_a_pod_that_is_not_as_it_was_answered_is_shown_again(
    api: Api, recorder: Recorder, made: dict[str, Any]
) -> None:
    with recorder.asked() as heard:
        api.create(pods("plain"), pod(**made), dry=True)
    assert heard == MEMBER + UNASKED


@pytest.mark.parametrize(
    "made",
    [
        pod(annotations={"sluice.dev/queue": "research"}),
        pod(annotations={"sluice.dev/queue": ""}),
        pod(labels={"sluice.dev/queue": "research"}),
        pod(gates=["sluice.dev/queue"]),
    ],
    ids=str,
)
def test_a_pod_that_bears_our_keys_is_shown_and_shown_again_unanswered(
    api: Api, recorder: Recorder, made: dict[str, Any]
) -> None:
    with recorder.asked() as heard:
        reply = api.create(pods("plain"), made, dry=True)
    assert (reply.status, heard) == (201, MEMBER + UNASKED)


@pytest.mark.parametrize(
    "made",
    [
        pod(requests={"sluice.dev/member": "1"}),
        pod(requests={"sluice.dev/scored": "1"}),
        pod(
            initContainers=[
                {"name": "first", "image": "none", "resources": {"limits": {"sluice.dev/member": "1"}}}
            ]
        ),
    ],
    ids=str,
)
def test_a_pod_that_bears_our_markers_is_shown(api: Api, recorder: Recorder, made: dict[str, Any]) -> None:
    with recorder.asked() as heard:
        reply = api.create(pods("plain"), made, dry=True)
    assert (reply.status, heard) == (201, MEMBER)


@pytest.mark.parametrize(
    "made",
    [
        pod(),
        pod(annotations={"queue-name": "research"}, labels={"app": "x"}),
        made_by_a_controller(pod(labels={"kueue.x-k8s.io/queue-name": "research"})),
        made_by_a_controller(pod(labels={"scheduling.volcano.sh/queue-name": "research"})),
        pod(schedulerName="another"),
        pod(gates=["example.com/gate"]),
        pod(requests={"cpu": "1", "example.com/member": "1"}),
        pod(annotations={**MIRROR, "scheduling.volcano.sh/queue-name": "research"}, nodeName="a"),
    ],
    ids=str,
)
def test_any_other_pod_costs_nothing(api: Api, recorder: Recorder, made: dict[str, Any]) -> None:
    with recorder.asked() as heard:
        reply = api.create(pods("plain"), made, dry=True)
    assert (reply.status, heard) == (201, [])


@pytest.mark.parametrize(
    ("key", "entry"), [("kueue.x-k8s.io/queue-name", "kueue"), ("scheduling.volcano.sh/queue-name", "labels")]
)
def test_a_pod_that_nothing_made_and_that_names_its_queue_in_vain_is_shown(
    api: Api, recorder: Recorder, key: str, entry: str
) -> None:
    """To the entry that warns; no other pod pays for it."""
    with recorder.asked() as heard:
        reply = api.create(pods("plain"), pod(labels={key: "research"}), dry=True)
    assert (reply.status, heard) == (201, [f"{entry}.pods.sluice.dev/validate/metadata"])


def test_every_pod_of_a_namespace_that_names_a_queue_is_shown(api: Api, recorder: Recorder) -> None:
    """And shown again at the end where it has no label, since nobody has answered."""
    with recorder.asked() as plain:
        api.create(pods("team"), pod(), dry=True)
    with recorder.asked() as answered:
        api.create(pods("team"), pod(**WRITTEN), dry=True)
    with recorder.asked() as mirror:
        api.create(pods("team"), pod(annotations=MIRROR, nodeName="a"), dry=True)
    assert (plain, answered, mirror) == (NAMESPACE + UNLABELLED, NAMESPACE, [])


@pytest.mark.parametrize("namespace", ["kube-system", "sluice-system"])
def test_no_pod_of_the_systems_namespaces_is_shown(api: Api, recorder: Recorder, namespace: str) -> None:
    with recorder.asked() as heard:
        api.create(pods(namespace), pod(schedulerName="volcano"), dry=True)
    assert heard == []


@pytest.fixture(scope="module")
def existing(api: Api, recorder: Recorder) -> Iterator[None]:
    """Pods `member`, stamped and gated, and `stranger`, in namespace plain."""
    del recorder  # it has to be there first: creating a member calls it
    stamps = {"sluice.dev/queue": "research", "scheduling.k8s.io/group-name": "pair"}
    marks = {"volcano.sh/queue-name": "research"}
    gates = ["sluice.dev/queue", "example.com/gate"]
    for each in (
        pod("member", annotations=stamps, labels=marks, gates=gates),
        pod("stranger", gates=gates[1:]),
    ):
        assert api.create(pods("plain"), each).status == 201
    yield
    for name in ("member", "stranger"):
        api.delete(pods("plain", name))


def metadata(**change: dict[str, str | None]) -> dict[str, Any]:
    return {"metadata": change}


@pytest.mark.usefixtures("existing")
@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("member", {"spec": {"schedulingGates": [{"name": "example.com/gate"}]}}),
        ("member", {"spec": {"schedulingGates": None}}),
        ("member", metadata(annotations={"sluice.dev/queue": "other"})),
        ("member", metadata(annotations={"sluice.dev/queue": None})),
        ("member", metadata(annotations={"scheduling.k8s.io/group-name": "other"})),
        ("member", metadata(annotations={"scheduling.volcano.sh/queue-name": "other"})),
        ("member", metadata(annotations={"volcano.sh/queue-name": "other"})),
        ("member", metadata(labels={"volcano.sh/queue-name": "other"})),
        ("member", metadata(labels={"volcano.sh/queue-name": None})),
        ("member", metadata(labels={"sluice.dev/queue": "other"})),
        ("stranger", metadata(annotations={"sluice.dev/queue": "research"})),
        ("stranger", metadata(labels={"volcano.sh/queue-name": "research"})),
    ],
    ids=str,
)
def test_an_edit_of_what_decides_a_pods_queue_is_shown(
    api: Api, recorder: Recorder, path: str, change: dict[str, Any]
) -> None:
    with recorder.asked() as heard:
        reply = api.patch(pods("plain", path), change, dry=True)
    assert (reply.status, heard) == (200, POD)


@pytest.mark.usefixtures("existing")
@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("member", metadata(labels={"app": "x"})),
        ("member", metadata(annotations={"app": "x"})),
        ("member", {"spec": {"schedulingGates": [{"name": "sluice.dev/queue"}]}}),
        ("member/status", {"status": {"message": "x"}}),
        ("member/status", metadata(annotations={"sluice.dev/queue": "other"})),
        ("member/status", metadata(labels={"sluice.dev/queue": None})),
        ("stranger", {"spec": {"schedulingGates": None}}),
        ("stranger", metadata(labels={"app": "x"})),
    ],
    ids=str,
)
def test_any_other_edit_costs_nothing(
    api: Api, recorder: Recorder, path: str, change: dict[str, Any]
) -> None:
    with recorder.asked() as heard:
        reply = api.patch(pods("plain", path), change, dry=True)
    assert (reply.status, heard) == (200, [])


@pytest.mark.usefixtures("existing")
def test_the_server_lifts_its_gate_without_asking_itself(api: Api, recorder: Recorder) -> None:
    with recorder.asked() as heard:
        reply = api.patch(pods("plain", "member"), {"spec": {"schedulingGates": None}}, user=SERVER, dry=True)
    assert (reply.status, heard) == (200, [])


@pytest.mark.parametrize(("namespace", "asked"), [("guarded", BIND), ("plain", [])])
@pytest.mark.parametrize("old", [False, True], ids=["pods/binding", "bindings"])
def test_a_bind_is_shown_only_where_the_guard_is_on(
    api: Api, recorder: Recorder, namespace: str, asked: list[str], old: bool
) -> None:
    path = f"{namespaces(namespace)}/bindings" if old else f"{pods(namespace, 'nobody')}/binding"
    with recorder.asked() as heard:
        reply = api.create(path, binding("nobody"), dry=True)
    assert (reply.status, heard) == (404, asked)


def test_the_server_can_see_by_a_dry_run_that_the_guard_is_on(api: Api, recorder: Recorder) -> None:
    with recorder.asked() as heard:
        reply = api.create(f"{pods('guarded', 'nobody')}/binding", binding("nobody"), user=SERVER, dry=True)
    assert (reply.status, heard) == (404, BIND)


def test_a_command_for_a_queue_is_shown_and_one_for_a_job_is_not(api: Api, recorder: Recorder) -> None:
    with recorder.asked() as for_queue:
        api.create(commands("plain"), command("a", "research"), dry=True)
    with recorder.asked() as for_job:
        reply = api.create(commands("plain"), command("b", "train", kind="Job"), dry=True)
    assert (for_queue, for_job, reply.status) == (["commands.sluice.dev/mutate/commands"], [], 201)


def test_while_we_are_down_a_member_is_refused_by_our_name(api: Api, recorder: Recorder) -> None:
    with recorder.dead():
        reply = api.create(pods("plain"), pod(schedulerName="volcano"), dry=True)
    assert (reply.status, "members.pods.sluice.dev" in reply.message) == (500, True)


def test_while_we_are_down_any_other_pod_is_created(api: Api, recorder: Recorder) -> None:
    with recorder.dead():
        assert api.create(pods("plain"), pod(), dry=True).status == 201


def test_while_we_are_down_binds_pass(api: Api, recorder: Recorder) -> None:
    with recorder.dead():
        reply = api.create(f"{pods('guarded', 'nobody')}/binding", binding("nobody"), dry=True)
    assert reply.status == 404
