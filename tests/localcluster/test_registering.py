from __future__ import annotations

from typing import Any

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


def test_what_would_run_in_a_pod_is_left_out() -> None:
    kinds = [each["kind"] for each in localised(ALL, server_url=URL, webhooks=True)]
    assert kinds == ["Namespace", "ValidatingWebhookConfiguration"]


def test_a_webhook_is_reached_by_url_and_else_unchanged() -> None:
    (configuration,) = localised([WEBHOOKS], server_url=URL, webhooks=True)
    assert configuration["webhooks"] == [
        {
            "name": "queues.sluice.dev",
            "clientConfig": {"url": "https://127.0.0.1:7/validate/queues"},
            "failurePolicy": "Fail",
        }
    ]


def test_without_a_server_nothing_calls_it() -> None:
    assert localised(ALL, server_url=URL, webhooks=False) == [NAMESPACE]


def test_the_manifests_given_are_not_changed() -> None:
    localised(ALL, server_url=URL, webhooks=True)
    assert "service" in WEBHOOKS["webhooks"][0]["clientConfig"]
