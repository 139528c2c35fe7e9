"""What is in a cluster of Sluice: its own objects, and its marks on objects of others.

Own objects are those of the manifests: by label `app.kubernetes.io/part-of: sluice`, which `kubectl apply
-k manifests` gives to all of them, or by their names where a part was applied by itself. Marks are the
labels, annotations and scheduling gates whose keys begin with `sluice.dev/`, and workloads that a drain has
suspended or brought to zero replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kubectl_queue.access.client import ApiClient
from kubectl_queue.access.replicas import is_part, leases_path, read_replicas
from kubectl_queue.errors import KindMissingError
from kubectl_queue.objects.fields import Object
from kubectl_queue.objects.workloads import kept_replicas
from queues import well_known
from queues.mode import SCHEDULER_NAME
from queues.scale_record import is_set_by_others
from queues.workload_kinds import KINDS, SUSPENDABLE, Life, WorkloadKind

PREFIX = "sluice.dev/"
#: The names of all objects of the manifests.
NAMES = frozenset(
    {
        "sluice",
        "sluice-api-servers",
        "sluice-authority",
        "sluice-bindings",
        "sluice-ca-bundles",
        "sluice-ca-reader",
        "sluice-commands",
        "sluice-kube-scheduler",
        "sluice-namespaces",
        "sluice-pod-statuses",
        "sluice-podgroup-editor",
        "sluice-notices",
        "sluice-queue-admin",
        "sluice-queue-reader",
        "sluice-queue-readers",
        "sluice-queue-viewer",
        "sluice-queues",
        "sluice-scheduler",
        "sluice-unmanaged",
        "sluice-volume-scheduler",
    }
)

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
PODGROUPS = "/apis/scheduling.volcano.sh/v1beta1/podgroups"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OWN_DEFINITIONS = (
    "queues.scheduling.volcano.sh",
    "podgroups.scheduling.volcano.sh",
    "commands.bus.volcano.sh",
)

#: Annotations that pods get from their templates, which keep them.
FROM_TEMPLATES = (well_known.QUEUE, well_known.QUEUE_FROM)

#: Secrets and ConfigMaps for the server alone: its authority, the book of releases, where notices go.
OWN_DATA = frozenset({"sluice-ca", "sluice-notices", "sluice-quota"})

ObjectFilter = Callable[[Object], bool]


class Item(NamedTuple):
    """One object: where it is, and how it is named to people."""

    path: str
    shown: str


@dataclass(frozen=True)
class Installation:
    """What was found. `checks`: webhooks that refuse what the others, in `calls`, have not looked at.

    `calls`: what else makes the API server call the server, or obey its policies.
    `rights`: roles and their bindings. `server`: all else that runs or belongs to it, the namespace last.
    `schedulers`: names of the scheduler that members get where Sluice brings its own.
    """

    checks: list[Item]
    calls: list[Item]
    rights: list[Item]
    server: list[Item]
    definitions: list[Item]
    schedulers: frozenset[str]
    marks: Marks


@dataclass(frozen=True)
class Marks:
    """What Sluice wrote on objects of others."""

    #: Those with a gate of ours, and all with a key of ours.
    gated: list[Object] = field(default_factory=list)
    pods: list[Object] = field(default_factory=list)
    #: Pods on no node that request the marker, which no node offers.
    marked: list[Object] = field(default_factory=list)
    #: Pods on no node that name the scheduler that Sluice brings.
    of_own_scheduler: list[Object] = field(default_factory=list)
    workloads: list[tuple[WorkloadKind, Object]] = field(default_factory=list)
    suspended: list[tuple[WorkloadKind, Object]] = field(default_factory=list)
    podgroups: list[Object] = field(default_factory=list)
    namespaces: list[Object] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        """Whether nothing is left; pods that request the marker may be."""
        return not (self.gated or self.pods or self.workloads or self.podgroups or self.namespaces)


def read_inventory(client: ApiClient, *, namespace: str) -> Installation:
    """`namespace`: the server's own. Raises `QueueError`."""
    named = {replica.scheduler for replica, _ in read_replicas(client, namespace=namespace)} - {""}
    schedulers = frozenset({SCHEDULER_NAME, *named})
    return Installation(
        checks=list(_admission(client, "validatingwebhookconfigurations")),
        calls=[
            item
            for resource in (
                "mutatingwebhookconfigurations",
                "validatingadmissionpolicybindings",
                "validatingadmissionpolicies",
            )
            for item in _admission(client, resource)
        ],
        rights=[
            item
            for path, resource in (
                (RBAC, "clusterrolebindings"),
                *((f"{RBAC}/namespaces/{each}", "rolebindings") for each in (namespace, "default")),
                (RBAC, "clusterroles"),
                *((f"{RBAC}/namespaces/{each}", "roles") for each in (namespace, "default")),
            )
            for item in _own(client, f"{path}/{resource}", f"{resource}.rbac.authorization.k8s.io")
        ],
        server=list(_server(client, namespace)),
        definitions=list(
            _own(client, DEFINITIONS, "customresourcedefinitions.apiextensions.k8s.io", _is_definition)
        ),
        schedulers=schedulers,
        marks=read_marks(client, schedulers=schedulers),
    )


def _admission(client: ApiClient, resource: str) -> Iterator[Item]:
    return _own(client, f"{ADMISSION}/{resource}", f"{resource}.admissionregistration.k8s.io")


def _server(client: ApiClient, namespace: str) -> Iterator[Item]:
    within = f"namespaces/{namespace}"
    for path, kind in (
        (f"/apis/apps/v1/{within}/deployments", "deployments.apps"),
        (f"/apis/policy/v1/{within}/poddisruptionbudgets", "poddisruptionbudgets.policy"),
        (f"/api/v1/{within}/services", "services"),
        (f"/api/v1/{within}/serviceaccounts", "serviceaccounts"),
    ):
        yield from _own(client, path, kind)
    for kind in ("secrets", "configmaps"):
        yield from _own(client, f"/api/v1/{within}/{kind}", kind, lambda item: _name(item) in OWN_DATA)
    yield from _own(
        client,
        leases_path(namespace),
        "leases.coordination.k8s.io",
        lambda item: _name(item).startswith("sluice-"),
    )
    yield from _own(
        client,
        "/api/v1/namespaces",
        "namespaces",
        lambda item: _name(item) == namespace and is_part(item),
    )


def _own(client: ApiClient, path: str, kind: str, chosen: ObjectFilter | None = None) -> Iterator[Item]:
    """The objects of a list that are Sluice's."""
    for item in _items(client, path, kind):
        if (chosen or _is_own)(item):
            metadata = item["metadata"]
            where = f" in namespace {metadata['namespace']}" if metadata.get("namespace") else ""
            yield Item(f"{path}/{metadata['name']}", f"{kind}/{metadata['name']}{where}")


def _items(client: ApiClient, path: str, kind: str, **query: str) -> list[Object]:
    """The items of a list; none where the API server does not have the kind."""
    try:
        return client.list(path, query=query, kind=kind).items
    except KindMissingError:
        return []


def _is_own(item: Object) -> bool:
    return is_part(item) or _name(item) in NAMES


def _is_definition(item: Object) -> bool:
    return _name(item) in OWN_DEFINITIONS


def _name(item: Object) -> str:
    return str(item["metadata"]["name"])


def read_marks(client: ApiClient, *, schedulers: Collection[str]) -> Marks:
    """What bears a mark now. `schedulers`: as in `Installation`. Raises `QueueError`."""
    pods = _items(client, "/api/v1/pods", "pods")
    waiting = [pod for pod in pods if not pod["spec"].get("nodeName") and not _has_ended(pod)]
    workloads = [
        (kind, item)
        for kind in KINDS.values()
        for item in _items(client, kind.path, f"{kind.resource}.{kind.group}")
        if is_marked(item)
    ]
    groups = _items(client, PODGROUPS, "podgroups.scheduling.volcano.sh")
    return Marks(
        gated=[pod for pod in pods if is_gated(pod)],
        pods=[pod for pod in pods if is_marked(pod, besides=FROM_TEMPLATES)],
        marked=[pod for pod in waiting if _requests_marker(pod)],
        of_own_scheduler=[pod for pod in waiting if pod["spec"].get("schedulerName") in schedulers],
        workloads=workloads,
        suspended=[(kind, item) for kind, item in workloads if is_suspended(kind, item)],
        podgroups=[group for group in groups if is_marked(group)],
        namespaces=[item for item in _items(client, "/api/v1/namespaces", "namespaces") if is_marked(item)],
    )


def is_marked(item: Object, *, besides: Collection[str] = ()) -> bool:
    """Whether a label of the object itself is ours, or an annotation but for those in `besides`."""
    metadata = item["metadata"]
    return bool(own_keys(metadata.get("labels")) or set(own_keys(metadata.get("annotations"))) - set(besides))


def own_keys(keys: Mapping[str, str] | None) -> list[str]:
    return [key for key in keys or () if key.startswith(PREFIX)]


def is_gated(pod: Object) -> bool:
    return bool(own_gates(pod))


def own_gates(pod: Object) -> list[str]:
    """The gates of ours that the pod has."""
    gates = (gate["name"] for gate in pod["spec"].get("schedulingGates") or ())
    return [gate for gate in gates if gate in well_known.OWN_GATES]


def is_suspended(kind: WorkloadKind, item: Object) -> bool:
    """Whether a drain, or a stop, has suspended it, or a drain keeps it at zero replicas."""
    annotations = item["metadata"].get("annotations") or {}
    if kind.life is Life.WHILE_SCALED:
        return recorded_replicas(item) > 0
    return kind.key in SUSPENDABLE and well_known.SUSPENDED in annotations


def recorded_replicas(item: Object) -> int:
    """The replicas that are put back; 0 where none are, or somebody else has scaled it since."""
    return 0 if is_set_by_others(item["metadata"].get("managedFields")) else kept_replicas(item)


def _requests_marker(pod: Object) -> bool:
    return any(_markers(container) for container in _containers(pod))


def _containers(pod: Object) -> Iterable[Object]:
    return (*pod["spec"].get("containers", ()), *(pod["spec"].get("initContainers") or ()))


def _markers(container: Object) -> bool:
    requests = (container.get("resources") or {}).get("requests") or {}
    return well_known.MARKER in requests or well_known.SCORED in requests


def _has_ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}
