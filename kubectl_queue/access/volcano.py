"""Volcano's own webhook on queues, where it is registered beside Sluice."""

from __future__ import annotations

from kubectl_queue.access.client import ApiClient
from kubectl_queue.errors import QueueError

#: The entry by which Volcano validates queues. It refuses every edit of one that is Suspended or Closing.
QUEUE_WEBHOOK = "validatequeue.volcano.sh"
_KIND = "validatingwebhookconfigurations"
CONFIGURATIONS = f"/apis/admissionregistration.k8s.io/v1/{_KIND}"


def queue_webhook(client: ApiClient) -> str:
    """The name of the webhook configuration that has it; "" where none has, or where it may not be read."""
    try:
        items = client.list(CONFIGURATIONS, query={}, kind=f"{_KIND}.admissionregistration.k8s.io").items
    except QueueError:
        return ""
    return next(
        (
            str(item["metadata"]["name"])
            for item in items
            if any(webhook.get("name") == QUEUE_WEBHOOK for webhook in item.get("webhooks") or ())
        ),
        "",
    )
