"""`uninstall`: what is found of Sluice in a cluster, what is left alone, and in which order it goes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from itertools import repeat
from typing import Any

import pytest

from kubectl_queue.access.client import ObjectList
from kubectl_queue.access.replicas import PART_OF
from kubectl_queue.access.responses import ApiRequest
from kubectl_queue.commands.uninstall import advice, plan
from kubectl_queue.errors import ForbiddenError, NotFoundError, QueueError, ServerError
from kubectl_queue.objects.fields import Object
from kubectl_queue.removal import inventory as inventories
from kubectl_queue.removal import remover as removers
from kubectl_queue.removal.inventory import Installation, Marks, read_inventory
from kubectl_queue.removal.remover import Remover, metadata_patch, pod_patch, workload_patch
from queues.workload_kinds import KINDS
from tests.support import yaml_texts
from tests.support.paths import ROOT
from tests.support.plugin.harness import NOW

WEBHOOKS = f"{inventories.ADMISSION}/mutatingwebhookconfigurations"
VALIDATING = f"{inventories.ADMISSION}/validatingwebhookconfigurations"
ROOT_QUEUE = "/apis/scheduling.volcano.sh/v1beta1/queues/root"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/sluice-system/leases"
ALL_LEASES = "/apis/coordination.k8s.io/v1/leases"
ROLE_BINDINGS = f"{inventories.RBAC}/clusterrolebindings"
PODS = "/api/v1/pods"
STALE = ServerError('failed calling webhook "pods.sluice.dev": connection refused', code=500)


def thing(name: str, *, namespace: str = "", labels: Mapping[str, str] | None = None, **more: Any) -> Object:
    metadata = {"name": name, "labels": dict(labels or {}), **more.pop("metadata", {})}
    return {"metadata": {**metadata, **({"namespace": namespace} if namespace else {})}, **more}


def pod(name: str, *, gate: str = "", queue: str = "", requests: Mapping[str, str] | None = None) -> Object:
    spec: Object = {"containers": [{"name": "work", "resources": {"requests": dict(requests or {})}}]}
    if gate:
        spec["schedulingGates"] = [{"name": gate}, {"name": "others/gate"}]
    labels = {"app": "x", **({"sluice.dev/queue": queue} if queue else {})}
    annotations = {"sluice.dev/queue": queue, "sluice.dev/admission": "u", "note": "x"} if queue else {}
    return thing(name, namespace="lab", labels=labels, spec=spec, metadata={"annotations": annotations})


class Cluster:
    """The lists of an API server, by path; what is sent is kept, and gone from the lists."""

    now = NOW

    def __init__(self, lists: Mapping[str, list[Object]]) -> None:
        self.lists = {path: list(items) for path, items in lists.items()}
        self.sent: list[tuple[str, str]] = []
        self.bodies: dict[str, Any] = {}
        self.queries: dict[str, Mapping[str, str]] = {}
        self.refusals: list[Exception] = []

    def list(self, path: str, *, query: Mapping[str, str], kind: str) -> ObjectList:
        return ObjectList(list(self.lists.get(path, ())), "7")

    def send(self, request: ApiRequest, *, kind: str = "queues") -> Object:
        if self.refusals:
            raise self.refusals.pop(0)
        if request.method == "GET":
            return self.read(request.path)
        self.sent.append((request.method, request.path))
        self.bodies[request.path] = json.loads(request.body or b"{}")
        self.queries[request.path] = request.query
        name = request.path.rpartition("/")[2]
        for path, items in self.lists.items():
            self.lists[path] = [each for each in items if each["metadata"]["name"] != name]
        return {}

    def read(self, path: str) -> Object:
        folder, _, name = path.rpartition("/")
        for item in self.lists.get(folder, ()):
            if item["metadata"]["name"] == name:
                return item
        raise NotFoundError("Error from server (NotFound): not there", code=404)


class Checked(Cluster):
    """One that answers the question whether validating webhooks are called, in this order; then no more."""

    def __init__(self, cluster: Cluster, answers: Iterable[ServerError]) -> None:
        super().__init__(cluster.lists)
        self._answers = iter(answers)

    def send(self, request: ApiRequest, *, kind: str = "queues") -> Object:
        sent = super().send(request, kind=kind)
        if request.path == ROOT_QUEUE and (answer := next(self._answers, None)):
            raise answer
        return sent


def found(cluster: Cluster) -> Installation:
    return read_inventory(cluster, namespace="sluice-system")  # type: ignore[arg-type]


def remove(cluster: Cluster, *, definitions: bool = False) -> tuple[Marks, list[str]]:
    lines: list[str] = []
    remover = Remover(
        cluster,  # type: ignore[arg-type]
        namespace="sluice-system",
        say=lines.append,
        progress=lambda _: None,
    )
    return remover.remove(found(cluster), definitions=definitions), lines


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removers, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(removers, "OTHERS_SECONDS", 0.0)


def test_the_names_of_the_manifests_are_known() -> None:
    """Of webhooks, policies and roles, which are found by name where the label is missing."""
    names = {
        document["metadata"]["name"]
        for path in (ROOT / "manifests").rglob("*.yaml")
        for document in yaml_texts.load_all(path.read_text())
        if document and re.search("Webhook|Policy|Role", document["kind"])
    }
    assert names - inventories.NAMES == set()


def test_objects_are_found_by_label_or_by_name_and_those_of_others_stay() -> None:
    part = {"app.kubernetes.io/part-of": "sluice"}
    cluster = Cluster(
        {WEBHOOKS: [thing("sluice"), thing("chart-sluice", labels=part), thing("cert-manager")]}
    )
    assert [item.path for item in found(cluster).calls] == [f"{WEBHOOKS}/sluice", f"{WEBHOOKS}/chart-sluice"]


def test_a_namespace_that_does_not_say_it_is_ours_stays() -> None:
    cluster = Cluster({"/api/v1/namespaces": [thing("sluice-system")]})
    assert found(cluster).server == []


def test_keys_of_others_and_annotations_of_templates_are_no_marks() -> None:
    ours, plain = pod("ours", queue="research"), pod("plain", gate="others/gate")
    templated = thing(
        "new", namespace="lab", metadata={"annotations": {"sluice.dev/queue": "research"}}, spec={}
    )
    marks = found(Cluster({PODS: [ours, plain, templated]})).marks
    assert ([each["metadata"]["name"] for each in marks.pods], marks.gated) == (["ours"], [])


@pytest.mark.parametrize("gate", ["sluice.dev/queue", "sluice.dev/quota"])
def test_the_patch_of_a_pod_takes_our_keys_and_our_gate_and_nothing_else(gate: str) -> None:
    assert pod_patch(pod("x", gate=gate, queue="research")) == {
        "metadata": {
            "labels": {"sluice.dev/queue": None},
            "annotations": {"sluice.dev/queue": None, "sluice.dev/admission": None},
        },
        "spec": {"schedulingGates": [{"name": gate, "$patch": "delete"}]},
    }
    assert metadata_patch(pod("x")) == {"metadata": {}}


@pytest.mark.parametrize(
    ("kind", "annotations", "spec"),
    [
        ("jobs", {"sluice.dev/suspended": "research"}, {"suspend": False}),
        ("jobsets", {"sluice.dev/suspended": "research"}, {"suspend": False}),
        ("jobs", {"sluice.dev/queue": "research"}, None),
        ("jobs.batch.volcano.sh", {"sluice.dev/suspended": "research"}, None),
        ("deployments", {"sluice.dev/suspended": "a user wrote it"}, None),
    ],
)
def test_what_a_drain_suspended_is_resumed(kind: str, annotations: dict[str, str], spec: object) -> None:
    """A Job of Volcano by a Command; what bears no mark of a drain stays as it is."""
    item = thing("x", namespace="lab", metadata={"annotations": annotations})
    assert workload_patch(KINDS[kind], item).get("spec") == spec


def test_what_a_drain_brought_to_zero_gets_its_replicas_back_unless_somebody_scaled_it_since() -> None:
    annotations = {"sluice.dev/suspended": "research/3"}

    def spec_of_patch(*, replicas: int = 0, manager: str = "sluice", **metadata: object) -> object:
        fields = [{"manager": manager, "fieldsV1": {"f:spec": {"f:replicas": {}}}}]
        held = {"annotations": annotations, "managedFields": fields, **metadata}
        item = thing("x", namespace="lab", metadata=held, spec={"replicas": replicas})
        assert workload_patch(KINDS["deployments"], item)["metadata"]["annotations"]
        return workload_patch(KINDS["deployments"], item).get("spec")

    assert spec_of_patch() == {"replicas": 3}
    assert spec_of_patch(replicas=2) is None
    assert spec_of_patch(manager="kubectl") is None
    assert spec_of_patch(ownerReferences=[{"controller": True, "uid": "above"}]) is None


def full() -> Cluster:
    lease = thing(
        "sluice-replica-a", spec={"renewTime": "2030-01-01T11:59:00.000000Z", "leaseDurationSeconds": 6}
    )
    return Cluster(
        {
            WEBHOOKS: [thing("sluice")],
            VALIDATING: [thing("sluice")],
            ROLE_BINDINGS: [thing("sluice")],
            "/apis/apps/v1/namespaces/sluice-system/deployments": [
                thing("sluice", namespace="sluice-system")
            ],
            LEASES: [lease],
            PODS: [
                pod("waits", gate="sluice.dev/queue", queue="research", requests={"sluice.dev/member": "1"})
            ],
            "/api/v1/namespaces": [
                thing("lab", labels={"sluice.dev/member-namespace": "true"}),
                thing("sluice-system", labels={"app.kubernetes.io/part-of": "sluice"}),
            ],
            inventories.DEFINITIONS: [thing("queues.scheduling.volcano.sh")],
        }
    )


def test_calls_go_first_then_rights_and_server_then_marks_then_the_namespace() -> None:
    cluster = full()
    left, lines = remove(cluster)
    assert left.empty
    paths = [path for _, path in cluster.sent]
    order = [
        f"{VALIDATING}/sluice",
        ROOT_QUEUE,
        f"{WEBHOOKS}/sluice",
        f"{inventories.RBAC}/clusterrolebindings/sluice",
        "/apis/apps/v1/namespaces/sluice-system/deployments/sluice",
        "/api/v1/namespaces/lab/pods/waits",
        "/api/v1/namespaces/lab",
        "/api/v1/namespaces/sluice-system",
    ]
    assert [path for path in paths if path in order] == order
    assert {"1 pod let go", "1 namespace without our labels and annotations"} <= set(lines)
    assert not [path for path in paths if path.startswith(inventories.DEFINITIONS)]


@pytest.mark.parametrize(
    "obeyed",
    [
        ForbiddenError('admission webhook "queues.sluice.dev" denied the request: root stays', code=403),
        STALE,
        ServerError("Error from server (Timeout): the server was unable to answer in time", code=504),
    ],
    ids=["server up", "server gone", "no answer"],
)
def test_mutating_webhooks_stay_for_as_long_as_validating_ones_are_called(obeyed: ServerError) -> None:
    """Else these refuse members that no mutating webhook has seen. Nothing is deleted by the question."""
    cluster = Checked(full(), [obeyed, obeyed])
    assert remove(cluster)[0].empty
    paths = [path for _, path in cluster.sent]
    asked = [f"{VALIDATING}/sluice", ROOT_QUEUE, ROOT_QUEUE, ROOT_QUEUE, f"{WEBHOOKS}/sluice"]
    assert paths[: len(asked)] == asked
    assert cluster.bodies[ROOT_QUEUE]["dryRun"] == ["All"]
    assert cluster.queries[ROOT_QUEUE]["dryRun"] == "All"


def test_validating_webhooks_that_are_called_for_ever_keep_nothing_from_being_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such as those of another installation of it, which has another name."""
    monkeypatch.setattr(removers, "STALE_SECONDS", 0.01)
    cluster = Checked(full(), repeat(STALE))
    assert remove(cluster)[0].empty
    assert ("DELETE", f"{WEBHOOKS}/sluice") in cluster.sent


@pytest.mark.parametrize(
    "refusal",
    [
        NotFoundError('Error from server (NotFound): queues "root" not found', code=404),
        ForbiddenError('Error from server (Forbidden): User "x" cannot delete resource "queues"', code=403),
    ],
    ids=["no queue", "no right"],
)
def test_where_the_question_has_no_answer_the_removal_goes_on(refusal: ServerError) -> None:
    cluster = Checked(full(), [refusal])
    assert remove(cluster)[0].empty
    assert [path for _, path in cluster.sent].count(ROOT_QUEUE) == 1


def test_the_definitions_go_only_when_that_is_asked() -> None:
    cluster = full()
    remove(cluster, definitions=True)
    assert cluster.sent[-1] == ("DELETE", f"{inventories.DEFINITIONS}/queues.scheduling.volcano.sh")


def test_a_removal_that_was_interrupted_while_they_were_called_asks_again() -> None:
    """Its first run has deleted the validating ones."""
    cluster = full()
    del cluster.lists[VALIDATING]
    remove(cluster)
    paths = [path for _, path in cluster.sent]
    assert paths[:2] == [ROOT_QUEUE, f"{WEBHOOKS}/sluice"]


def test_the_authority_goes_in_both_its_objects() -> None:
    """Schedulers copy it from the ConfigMap, which stays where the namespace does."""
    within = "/api/v1/namespaces/sluice-system"
    of = {f"{within}/{kind}": [thing("sluice-ca"), thing("mine")] for kind in ("secrets", "configmaps")}
    assert [item.path for item in found(Cluster(of)).server] == [f"{path}/sluice-ca" for path in of]


def test_a_definition_that_does_not_go_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removers, "GONE_SECONDS", 0.0)
    cluster = full()
    monkeypatch.setattr(cluster, "read", lambda _: {})
    with pytest.raises(QueueError, match="is still being deleted"):
        remove(cluster, definitions=True)


def test_what_is_refused_by_a_webhook_that_is_just_gone_is_sent_again() -> None:
    """The API server hears of its end a moment later."""
    cluster = Cluster({PODS: [pod("waits", gate="sluice.dev/queue", queue="research")]})
    cluster.refusals = [STALE, STALE]
    assert remove(cluster)[0].empty
    assert [path for _, path in cluster.sent] == ["/api/v1/namespaces/lab/pods/waits"]


def test_a_refusal_of_another_kind_ends_it() -> None:
    cluster = full()
    cluster.refusals = [ServerError("Error from server (Forbidden): no right", code=403)]
    with pytest.raises(ServerError, match="no right"):
        remove(cluster)


def test_what_is_gone_meanwhile_is_passed_over() -> None:
    cluster = full()
    cluster.refusals = [NotFoundError("Error from server (NotFound): gone", code=404)]
    assert remove(cluster)[1][0].endswith("was gone already")


def test_a_server_that_goes_on_renewing_its_lease_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """No mark is touched then: it would write them again."""
    monkeypatch.setattr(removers, "LEASE_SECONDS", 0.0)
    cluster = full()
    cluster.now = NOW - timedelta(minutes=5)
    with pytest.raises(
        QueueError, match="lease/sluice-replica-a in namespace sluice-system is still renewed"
    ):
        remove(cluster)
    assert ("PATCH", "/api/v1/namespaces/lab/pods/waits") not in cluster.sent


def webhooks(namespace: str, *, name: str = "sluice", labels: Mapping[str, str] | None = None) -> Object:
    service = {"name": "sluice", "namespace": namespace}
    return thing(
        name,
        labels=labels,
        webhooks=[{"clientConfig": {"service": service}}, {"clientConfig": {"url": "https://127.0.0.1/x"}}],
    )


def rights(namespace: str, *, role: str = "sluice", account: str = "sluice") -> Object:
    subjects = [
        {"kind": "ServiceAccount", "name": account, "namespace": namespace},
        {"kind": "User", "name": "sluice"},
    ]
    return thing("sluice", roleRef={"kind": "ClusterRole", "name": role}, subjects=subjects)


def remover_for(cluster: Cluster) -> Remover:
    return Remover(
        cluster,  # type: ignore[arg-type]
        namespace="sluice-system",
        say=lambda _: None,
        progress=lambda _: None,
    )


@pytest.mark.parametrize(
    "lists",
    [
        {WEBHOOKS: [webhooks("queues")]},
        {WEBHOOKS: [webhooks("queues", name="ours", labels=dict([PART_OF]))]},
        {ROLE_BINDINGS: [rights("queues")]},
    ],
    ids=["webhooks", "labelled webhooks", "rights"],
)
def test_with_a_namespace_that_is_not_the_servers_nothing_is_removed(
    lists: Mapping[str, list[Object]],
) -> None:
    """Else its webhooks and rights would go, and the server would stay."""
    with pytest.raises(QueueError, match="name it: kubectl queue uninstall --namespace=queues"):
        remover_for(Cluster(lists)).check_namespace()


@pytest.mark.parametrize(
    "lists",
    [
        {},
        {WEBHOOKS: [webhooks("sluice-system")], ROLE_BINDINGS: [rights("sluice-system")]},
        {WEBHOOKS: [webhooks("cert-manager", name="cert-manager")]},
        {ROLE_BINDINGS: [rights("team", role="sluice-queue-viewer")]},
        {ROLE_BINDINGS: [rights("team", account="deployer")]},
    ],
    ids=["nothing", "the server's", "webhooks of others", "another role", "another account"],
)
def test_a_lease_in_another_namespace_keeps_nobody_from_removing_the_server(
    lists: Mapping[str, list[Object]],
) -> None:
    """Whoever may write Leases there can label one as a replica's, and have it last for ever."""
    spec = {"renewTime": NOW.isoformat(), "leaseDurationSeconds": 2**31 - 1}
    forged = thing("sluice-replica-a", namespace="team", spec=spec, labels={"sluice.dev/replica": "true"})
    of_team = LEASES.replace("sluice-system", "team")
    remover_for(Cluster({**lists, ALL_LEASES: [forged], of_team: [forged]})).check_namespace()


def test_a_lease_in_another_namespace_names_no_scheduler() -> None:
    waiting = pod("waiting")
    waiting["spec"]["schedulerName"] = "of-the-team"
    report = {"annotations": {"sluice.dev/seen": json.dumps({"seen": 7, "scheduler": "of-the-team"})}}
    forged = thing("sluice-replica-a", namespace="team", spec={}, metadata=report)
    marks = found(Cluster({PODS: [waiting], ALL_LEASES: [forged]})).marks
    assert marks.of_own_scheduler == []


def test_the_plan_says_what_would_be_done_and_what_stays() -> None:
    lines = list(plan(found(full()), definitions=False))
    assert "mutatingwebhookconfigurations.admissionregistration.k8s.io/sluice deleted (dry run)" in lines
    assert "1 pod would be let go: stopped by a queue, or of one that is not there" in lines
    assert any(
        line.startswith("the definitions and all Queues, PodGroups and Commands stay") for line in lines
    )
    assert lines[-1].startswith("1 waiting pods request sluice.dev/member")


@pytest.mark.parametrize("name", ["sluice", "ours"])
def test_pods_of_the_scheduler_that_goes_too_are_counted_with_the_way_out(name: str) -> None:
    """Its name is a setting, which the replicas say on their Leases."""
    stranded, other = pod("stranded", queue="research"), pod("other")
    stranded["spec"]["schedulerName"], other["spec"]["schedulerName"] = name, "volcano"
    report = {"annotations": {"sluice.dev/seen": json.dumps({"seen": 7, "scheduler": "ours"})}}
    lease = thing("sluice-replica-a", namespace="sluice-system", spec={}, metadata=report)
    lines = list(plan(found(Cluster({PODS: [stranded, other], LEASES: [lease]})), definitions=False))
    assert lines[-1].startswith(
        f"1 waiting pods name scheduler {name}, which goes with Sluice. They run once"
    )


def test_where_no_pod_waits_the_scheduler_s_configuration_is_named_too() -> None:
    """In the plan, and once it is done."""
    marks = found(Cluster({WEBHOOKS: [thing("sluice")]})).marks
    (line,) = advice(marks)
    assert line.startswith("no waiting pod requests sluice.dev/member: if kube-scheduler's configuration has")
    assert line in plan(found(Cluster({WEBHOOKS: [thing("sluice")]})), definitions=False)


def test_a_cluster_without_it_is_said_to_have_none() -> None:
    assert list(plan(found(Cluster({})), definitions=False)) == ["there is nothing of Sluice here"]
