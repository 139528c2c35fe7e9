"""A control plane that the tests of one module leave to those of the next: as it was after its start."""

from __future__ import annotations

import signal

from certs.ca_bundle import ADMISSION, KINDS, NAME
from localcluster import manifests, scheduler_config
from localcluster.cluster import LocalCluster
from localcluster.components import NAMESPACE
from localcluster.layout import COMPONENTS
from queues.queue import BUILT_IN
from tests.support.e2e.api_requests import Api, Object
from tests.support.e2e.policies import PATH as POLICIES
from tests.support.e2e.sandbox import MAKERS, METADATA, QUEUES, RBAC
from tests.support.e2e.wait import until

PREFIX = "tests-"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "/apis/scheduling.volcano.sh/v1beta1"
HOME = "/api/v1"
COMMANDS = "/apis/bus.volcano.sh/v1alpha1"
CLUSTER_WIDE = (
    f"{RBAC}/clusterrolebindings",
    f"{RBAC}/clusterroles",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
)
#: On the roles and bindings that the API server makes at its start.
BOOTSTRAPPING = "kubernetes.io/bootstrapping"
#: Seconds until pods that were deleted are gone; those with a finalizer stay.
PATIENCE = 10.0


def is_cleaned(cluster: LocalCluster) -> bool:
    """End the server and its registrations, and delete what tests have made, but for empty namespaces.

    Returns whether the next module can have the cluster.
    """
    if "server" in cluster.pids:
        cluster.signal_component("server", signal.SIGKILL)
        until(lambda: "server" not in cluster.pids, "the server to end")
    if set(cluster.pids) != set(COMPONENTS) - {"server"}:
        return False
    with Api(cluster) as api:
        if not _has_our_definitions(cluster, api) or not _asks_for_nothing(api):
            return False
        _unregister(api)  # nobody is there who could be asked about what goes
        for made in MAKERS:
            for namespace in _namespaces(api, f"/apis/{made.group}/{made.resource}"):
                api.delete(f"{made.path(namespace)}?propagationPolicy=Background").must()
        for prefix, resource in ((HOME, "pods"), (GROUP, "podgroups"), (COMMANDS, "commands")):
            for namespace in _namespaces(api, f"{prefix}/{resource}"):
                path = f"{prefix}/namespaces/{namespace}/{resource}?gracePeriodSeconds=0"
                api.delete(path, accept=METADATA).must()
        for path in CLUSTER_WIDE:
            for name in _made_by_tests(cluster, api, path):
                api.delete(f"{path}/{name}").must()
        selector = ",".join(f"metadata.name!={name}" for name in BUILT_IN)
        for path in (f"{QUEUES}?fieldSelector={selector}", POLICIES, LEASES):
            api.delete(path, accept=METADATA).must()
        if _others_decide(api):
            return False
        try:
            until(lambda: not _members(api), "the pods to go", seconds=PATIENCE)
        except AssertionError:
            return False
    _configure_scheduler(cluster)
    return True


def _made_by_tests(cluster: LocalCluster, api: Api, path: str) -> list[str]:
    """Those that neither the API server makes at its start nor our manifests have, whatever they are called.

    A right that one module gives to a user is none of the user of that name in the next module.
    """
    ours = {each["metadata"]["name"] for each in manifests.rendered(cluster.layout)}
    return [
        each["name"]
        for each in _metadata(api, path)
        if BOOTSTRAPPING not in each.get("labels", {})
        and not each["name"].startswith("system")
        and each["name"] not in ours
    ]


def _names(api: Api, path: str) -> list[str]:
    return [each["name"] for each in _metadata(api, path)]


def _namespaces(api: Api, path: str) -> set[str]:
    """Those of tests that hold any of the objects that are listed there."""
    found = {each["namespace"] for each in _metadata(api, path)}
    return {namespace for namespace in found if namespace.startswith(PREFIX)}


def _members(api: Api) -> list[str]:
    """The pods of tests."""
    return [each["name"] for each in _metadata(api, "/api/v1/pods") if each["namespace"].startswith(PREFIX)]


def _metadata(api: Api, path: str) -> list[Object]:
    return [each["metadata"] for each in api.get(path, accept=METADATA).must().body["items"] or ()]


def _has_our_definitions(cluster: LocalCluster, api: Api) -> bool:
    """Whether there are those of our manifests, each as it was applied, and no others."""
    ours = {
        each["metadata"]["name"]
        for each in manifests.rendered(cluster.layout)
        if each["kind"] == "CustomResourceDefinition"
    }
    found = {each["metadata"]["name"]: each for each in api.get(DEFINITIONS).must().body["items"]}
    return found.keys() == ours and all(each["metadata"]["generation"] == 1 for each in found.values())


def _asks_for_nothing(api: Api) -> bool:
    """Whether the queues that always are there are Open."""
    queues = {each["metadata"]["name"]: each["spec"] for each in api.get(QUEUES).must().body["items"]}
    wishes = [
        (spec.get("state", "Open"), spec.get("stopPolicy", "None"))
        for name, spec in queues.items()
        if name in BUILT_IN
    ]
    return wishes == [("Open", "None")] * len(BUILT_IN)


def _unregister(api: Api) -> None:
    for kind in KINDS:
        api.delete(f"{ADMISSION}/{kind}/{NAME}").must(200, 404)


def _others_decide(api: Api) -> bool:
    """Whether webhooks of a test are registered."""
    return any(_names(api, f"{ADMISSION}/{kind}") for kind in KINDS)


def _configure_scheduler(cluster: LocalCluster) -> None:
    """As at its start; a scheduler that runs otherwise is started anew."""
    before = cluster.layout.scheduler_config.read_bytes()
    scheduler_config.configure(cluster.layout, cluster.ports)
    if cluster.layout.scheduler_config.read_bytes() != before:
        cluster.restart_components("kube-scheduler")
