"""Why no pod of a Deployment could be created is on the ReplicaSet that makes them."""

from __future__ import annotations

from kubectl_queue.access.responses import ApiRequest
from kubectl_queue.objects.fields import Object
from queues import well_known
from tests.support.cases import each_case
from tests.support.plugin.harness import StoredObjects, StoredQueues, item, run_command

APPS, EVENTS = "/apis/apps/v1/namespaces/team", "/api/v1/namespaces/team/events"
QUEUES = (
    item("root", status={"observedGeneration": 1}),
    item("lab", parent="root", status={"observedGeneration": 1}),
)
FAILED = {
    "reason": "FailedCreate",
    "message": 'failed calling webhook "pods.sluice.dev": failed to call webhook: EOF',
    "source": {"component": "replicaset-controller"},
    "lastTimestamp": "2030-01-01T11:59:00Z",
}


class WithEvents(StoredObjects):
    """Events by the UID of their object."""

    def __init__(self, objects: dict[str, Object], events: dict[str, Object]) -> None:
        super().__init__(objects)
        self._events = events

    def send(self, request: ApiRequest, *, kind: str = "") -> Object:
        if request.path != EVENTS:
            return super().send(request, kind=kind)
        uid = request.query["fieldSelector"].rpartition("=")[2]
        return {"items": [self._events[uid]] if uid in self._events else []}


def workload(name: str, *, wanted: int, present: int, owner: str = "") -> Object:
    marks = {well_known.QUEUE: "lab"}
    owners = [
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": owner, "controller": True}
    ]
    return {
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": name,
            "annotations": marks,
            "ownerReferences": owners if owner else [],
        },
        "spec": {
            "replicas": wanted,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"annotations": marks}, "spec": {"containers": []}},
        },
        "status": {"replicas": present},
    }


def why(*replica_sets: Object) -> str:
    stored = {
        f"{APPS}/deployments/web": workload("web", wanted=4, present=2),
        f"{APPS}/replicasets": {"items": list(replica_sets)},
        "/api/v1/namespaces/team": {"metadata": {"name": "team"}},
    }
    client = WithEvents(stored, {"web-1": FAILED})
    done = run_command(StoredQueues(*QUEUES), "why", "deploy/web", "--namespace=team", client=client)
    assert done.code == 0, done.err
    return done.out


def test_an_outage_that_keeps_a_scaled_deployment_small_is_the_first_line() -> None:
    text = why(workload("web-1", wanted=4, present=2, owner="web"))
    assert text.startswith("Deployment team/web waits: no replica of Sluice answers the API server")


@each_case(
    "replica_set",
    [
        workload("web-1", wanted=4, present=4, owner="web"),
        workload("web-1", wanted=4, present=2, owner="other"),
    ],
)
def test_one_that_has_its_pods_and_one_of_another_owner_say_nothing(replica_set: Object) -> None:
    assert why(replica_set).startswith("Deployment team/web is held back by no queue")
