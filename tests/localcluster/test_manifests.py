from __future__ import annotations

from typing import Any

import pytest

from localcluster import manifests
from localcluster.manifests import localised

NAMESPACE = {"kind": "Namespace", "metadata": {"name": "sluice-system"}}
SERVICE = {"kind": "Service", "metadata": {"name": "sluice"}}
DEPLOYMENT = {"kind": "Deployment", "metadata": {"name": "sluice"}}
WEBHOOKS: dict[str, Any] = {
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "sluice"},
    "webhooks": [
        {
            "name": "queues.sluice.dev",
            "clientConfig": {"service": {"name": "sluice", "path": "/validate/queues"}},
            "failurePolicy": "Fail",
        }
    ],
}
ALL = [NAMESPACE, SERVICE, DEPLOYMENT, WEBHOOKS]
URL = "https://127.0.0.1:7"


def test_workloads_and_services_are_left_out() -> None:
    kinds = [each["kind"] for each in localised(ALL, server_url=URL, webhooks=True)]
    assert kinds == ["Namespace", "ValidatingWebhookConfiguration"]


def test_a_webhook_is_reached_by_url_and_otherwise_unchanged() -> None:
    (configuration,) = localised([WEBHOOKS], server_url=URL, webhooks=True)
    assert configuration["webhooks"] == [
        {
            "name": "queues.sluice.dev",
            "clientConfig": {"url": "https://127.0.0.1:7/validate/queues"},
            "failurePolicy": "Fail",
        }
    ]


def test_without_the_server_no_webhook_is_applied() -> None:
    assert localised(ALL, server_url=URL, webhooks=False) == [NAMESPACE]


def test_the_arguments_are_not_changed() -> None:
    localised(ALL, server_url=URL, webhooks=True)
    assert "service" in WEBHOOKS["webhooks"][0]["clientConfig"]


@pytest.mark.parametrize(
    ("version", "kind", "namespace", "path"),
    [
        ("v1", "Namespace", "", "/api/v1/namespaces/x"),
        ("v1", "ServiceAccount", "lab", "/api/v1/namespaces/lab/serviceaccounts/x"),
        ("g.io/v1", "RoleBinding", "lab", "/apis/g.io/v1/namespaces/lab/rolebindings/x"),
        ("g.io/v1", "ValidatingAdmissionPolicy", "", "/apis/g.io/v1/validatingadmissionpolicies/x"),
    ],
)
def test_the_path_of_an_object_follows_from_its_kind(
    version: str, kind: str, namespace: str, path: str
) -> None:
    metadata = {"name": "x", **({"namespace": namespace} if namespace else {})}
    assert manifests.path({"apiVersion": version, "kind": kind, "metadata": metadata}) == path
