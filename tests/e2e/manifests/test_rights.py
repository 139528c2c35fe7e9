"""What the roles grant in a real API server, and what they do not."""

from __future__ import annotations

import pytest

from tests.support.manifests.bare_api import (
    SERVER,
    Api,
    eventually,
)

pytestmark = pytest.mark.cluster

QUEUES = "scheduling.volcano.sh/queues"


@pytest.mark.parametrize(
    ("verb", "resource", "where"),
    [
        ("watch", QUEUES, {}),
        ("create", QUEUES, {}),
        ("patch", QUEUES, {}),
        ("patch", f"{QUEUES}:status", {}),
        ("get", "bus.volcano.sh/commands", {}),
        ("delete", "bus.volcano.sh/commands", {}),
        ("create", "bus.volcano.sh/commands", {}),
        ("patch", "/pods", {}),
        ("patch", "/pods:status", {}),
        ("create", "/pods:binding", {}),
        ("create", "/pods:eviction", {}),
        ("get", "/pods", {}),
        ("delete", "/pods", {}),
        ("get", "policy/poddisruptionbudgets", {}),
        ("list", "policy/poddisruptionbudgets", {}),
        ("get", "/nodes", {}),
        ("list", "/nodes", {}),
        ("watch", "/nodes", {}),
        ("list", "resource.k8s.io/resourceclaims", {}),
        ("watch", "resource.k8s.io/deviceclasses", {}),
        ("list", "scheduling.k8s.io/priorityclasses", {}),
        ("watch", "scheduling.k8s.io/priorityclasses", {}),
        ("patch", "/namespaces", {}),
        ("create", "/events", {}),
        ("watch", "batch/jobs", {}),
        ("watch", "batch/cronjobs", {}),
        ("get", "batch/jobs", {}),
        ("patch", "batch/jobs", {}),
        ("get", "jobset.x-k8s.io/jobsets", {}),
        ("patch", "jobset.x-k8s.io/jobsets", {}),
        ("get", "batch.volcano.sh/jobs", {}),
        ("patch", "batch.volcano.sh/jobs", {}),
        *(
            (verb, f"apps/{resource}", {})
            for resource in ("deployments", "statefulsets", "replicasets")
            for verb in ("get", "patch")
        ),
        ("create", "/pods", {"namespace": "sluice-system"}),
        ("delete", "/pods", {"namespace": "sluice-system"}),
        ("patch", "coordination.k8s.io/leases", {"namespace": "sluice-system"}),
        ("create", "/secrets", {"namespace": "sluice-system"}),
        ("get", "/secrets", {"namespace": "sluice-system", "name": "sluice-ca"}),
        ("patch", "/secrets", {"namespace": "sluice-system", "name": "sluice-ca"}),
        ("create", "/configmaps", {"namespace": "sluice-system"}),
        ("get", "/configmaps", {"namespace": "sluice-system", "name": "sluice-ca"}),
        ("patch", "/configmaps", {"namespace": "sluice-system", "name": "sluice-ca"}),
        ("patch", "admissionregistration.k8s.io/mutatingwebhookconfigurations", {"name": "sluice"}),
        ("get", "admissionregistration.k8s.io/validatingwebhookconfigurations", {"name": "sluice"}),
        ("list", "admissionregistration.k8s.io/validatingadmissionpolicybindings", {}),
        ("watch", "apiextensions.k8s.io/customresourcedefinitions", {"name": "queues.scheduling.volcano.sh"}),
        ("list", "apiextensions.k8s.io/customresourcedefinitions", {"name": "commands.bus.volcano.sh"}),
        ("list", "discovery.k8s.io/endpointslices", {"namespace": "default"}),
    ],
)
def test_the_server_may(api: Api, verb: str, resource: str, where: dict[str, str]) -> None:
    """The API server hears of roles a little after they were applied."""
    eventually(lambda: api.may(SERVER, verb, resource, **where))


@pytest.mark.parametrize(
    ("verb", "resource", "where"),
    [
        ("delete", QUEUES, {}),
        ("patch", "bus.volcano.sh/commands", {}),
        ("update", QUEUES, {}),
        ("create", "/pods", {}),
        ("update", "/pods", {}),
        ("deletecollection", "/pods", {}),
        ("delete", "batch/jobs", {}),
        ("update", "batch/jobs", {}),
        ("patch", "batch/jobs:status", {}),
        ("patch", "batch/cronjobs", {}),
        ("create", "jobset.x-k8s.io/jobsets", {}),
        ("delete", "jobset.x-k8s.io/jobsets", {}),
        ("delete", "batch.volcano.sh/jobs", {}),
        ("patch", "batch.volcano.sh/jobs:status", {}),
        ("watch", "policy/poddisruptionbudgets", {}),
        ("patch", "policy/poddisruptionbudgets", {}),
        ("delete", "policy/poddisruptionbudgets", {}),
        ("get", "/secrets", {"namespace": "sluice-system", "name": "another"}),
        ("patch", "/secrets", {"namespace": "sluice-system", "name": "another"}),
        ("list", "/secrets", {"namespace": "sluice-system"}),
        ("delete", "/secrets", {"namespace": "sluice-system", "name": "sluice-ca"}),
        ("patch", "/configmaps", {"namespace": "sluice-system", "name": "another"}),
        ("update", "apps/deployments", {}),
        ("delete", "apps/deployments", {}),
        ("patch", "apps/deployments:status", {}),
        ("patch", "apps/daemonsets", {}),
        ("delete", "/namespaces", {}),
        ("patch", "/nodes", {}),
        ("get", "/secrets", {"namespace": "default"}),
        ("update", "coordination.k8s.io/leases", {"namespace": "kube-system"}),
        ("list", "/configmaps", {}),
        ("list", "discovery.k8s.io/endpointslices", {}),
        ("watch", "discovery.k8s.io/endpointslices", {"namespace": "default"}),
        ("patch", "admissionregistration.k8s.io/mutatingwebhookconfigurations", {"name": "another"}),
        (
            "patch",
            "admissionregistration.k8s.io/validatingadmissionpolicybindings",
            {"name": "sluice-unmanaged"},
        ),
        ("patch", "apiextensions.k8s.io/customresourcedefinitions", {"name": "queues.scheduling.volcano.sh"}),
        ("watch", "apiextensions.k8s.io/customresourcedefinitions", {}),
        ("create", "rbac.authorization.k8s.io/clusterroles", {}),
        ("impersonate", "/users", {}),
    ],
)
def test_the_server_may_not(api: Api, verb: str, resource: str, where: dict[str, str]) -> None:
    assert not api.may(SERVER, verb, resource, **where)


def test_the_scheduler_may_fetch_what_to_trust_and_nothing_secret(api: Api) -> None:
    user, name = "system:kube-scheduler", {"namespace": "sluice-system", "name": "sluice-ca"}
    eventually(lambda: api.may(user, "get", "/configmaps", **name))
    assert not api.may(user, "get", "/secrets", **name)


@pytest.mark.parametrize(
    ("role", "resource", "verb", "granted"),
    [
        ("view", "queues", "watch", True),
        ("view", "podgroups", "list", True),
        ("view", "podgroups", "create", False),
        ("edit", "podgroups", "create", True),
        ("admin", "podgroups", "delete", True),
        ("admin", "queues", "update", False),
        ("edit", "queues", "patch", False),
    ],
)
def test_the_usual_roles_see_queues_and_group_pods_but_stop_nothing(
    api: Api, *, role: str, resource: str, verb: str, granted: bool
) -> None:
    def grants() -> bool:
        rules = api.get(f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{role}").body["rules"] or []
        return any(verb in rule["verbs"] and resource in rule.get("resources", []) for rule in rules)

    if granted:
        eventually(grants)  # the controller manager gathers the rules of a role some time after
    assert grants() is granted
