"""A control plane that the tests of one module leave to those of the next: nothing is at work there any more.

For modules that bring their own replicas (`Fleet`), which end with the module. Their queues stay, without
members, since nobody is there who could be asked about them; no other test names these.
"""

from __future__ import annotations

from localcluster.cluster import LocalCluster
from localcluster.components import NAMESPACE
from localcluster.layout import COMPONENTS
from queues.queue import BUILT_IN
from tests.support.e2e.api_requests import Api, Object
from tests.support.e2e.sandbox import MAKERS, METADATA, QUEUES
from tests.support.e2e.wait import until

PREFIX = "tests-"
REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
#: Seconds until pods that were deleted are gone; those with a finalizer stay.
PATIENCE = 10.0


def is_cleaned(cluster: LocalCluster) -> bool:
    """Delete what is at work in the namespaces of tests, and the replicas' Leases. Returns whether the next
    module can have the cluster.
    """
    if set(cluster.pids) != set(COMPONENTS) - {"server"}:
        return False
    with Api(cluster) as api:
        if not _is_open(api) or _others_decide(api):
            return False
        namespaces = [name for name in _names(api, "/api/v1/namespaces") if name.startswith(PREFIX)]
        for namespace in namespaces:
            for made in MAKERS:
                api.delete(f"{made.path(namespace)}?propagationPolicy=Background").must()
            api.delete(f"/api/v1/namespaces/{namespace}/pods?gracePeriodSeconds=0", accept=METADATA).must()
        api.delete(LEASES).must()
        try:
            until(lambda: not _members(api), "the pods to go", seconds=PATIENCE)
        except AssertionError:
            return False
    return True


def _names(api: Api, path: str) -> list[str]:
    return [each["name"] for each in _metadata(api, path)]


def _members(api: Api) -> list[str]:
    """The pods of tests."""
    return [each["name"] for each in _metadata(api, "/api/v1/pods") if each["namespace"].startswith(PREFIX)]


def _metadata(api: Api, path: str) -> list[Object]:
    return [each["metadata"] for each in api.get(path, accept=METADATA).must().body["items"] or ()]


def _is_open(api: Api) -> bool:
    """Whether the queues that always are there ask for nothing."""
    queues = {each["metadata"]["name"]: each["spec"] for each in api.get(QUEUES).must().body["items"]}
    return all(name in queues and _asks_for_nothing(queues[name]) for name in BUILT_IN)


def _asks_for_nothing(spec: Object) -> bool:
    return (spec.get("state", "Open"), spec.get("stopPolicy", "None")) == ("Open", "None")


def _others_decide(api: Api) -> bool:
    """Whether webhooks of a test are registered."""
    kinds = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
    return any(_names(api, f"{REGISTRATIONS}/{kind}") != ["sluice"] for kind in kinds)
