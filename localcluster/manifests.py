"""The project's own manifests, made to fit one machine.

The very files that a real cluster is set up with; what differs is that the server runs here
and not in a pod: workloads and Services are left out, and a webhook is reached by URL.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

from localcluster import apiserver, kubectl
from localcluster.addresses import Ports
from localcluster.layout import ROOT, Layout

MANIFESTS = ROOT / "manifests"
LEFT_OUT = frozenset({"Deployment", "Service", "PodDisruptionBudget"})
WEBHOOKS = frozenset({"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"})
OURS = "app.kubernetes.io%2Fpart-of%3Dsluice"
_QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
#: What a refusal says while `default` is not made.
UNMADE = b"does not exist"
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"

Manifest = dict[str, Any]


def rendered(layout: Layout) -> list[Manifest]:
    """All manifests, as kustomize builds them. Needs no API server."""
    text = kubectl.run(layout, "kustomize", str(MANIFESTS))
    return [document for document in yaml.safe_load_all(text) if document]


def localised(documents: Iterable[Manifest], *, server_url: str, webhooks: bool) -> list[Manifest]:
    """What is applied on one machine; without `webhooks`, nothing that calls the server."""
    fitting = [each for each in documents if each["kind"] not in LEFT_OUT]
    return [
        _by_url(each, server_url) if each["kind"] in WEBHOOKS else each
        for each in fitting
        if webhooks or each["kind"] not in WEBHOOKS
    ]


def apply(layout: Layout, documents: Iterable[Manifest]) -> None:
    """Server-side, so that fields others own, such as the caBundle, stay as they are."""
    kubectl.run(
        layout,
        *("apply", "--server-side", "--force-conflicts", "--field-manager=localcluster", "-f", "-"),
        given=yaml.safe_dump_all(documents),
    )


def certified(layout: Layout, ports: Ports) -> bool:
    """Whether every webhook of ours knows the server's authority."""
    return all("caBundle" in each["clientConfig"] for each in _webhooks(layout, ports))


def called(layout: Layout, ports: Ports) -> bool:
    """Whether the API server reaches our webhooks, and they know the built-in queues.

    A Queue below `default` is tried, not made. The API server learns of a caBundle a moment after it was
    written, and the server makes `default` a moment after it is ready.
    """
    probe = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "sluice-localcluster-probe"},
        "spec": {"parent": "default"},
    }
    with apiserver.Https(port=ports.apiserver, context=apiserver.context(layout)) as client:
        answer = client.request("POST", f"{_QUEUES}?dryRun=All", probe)
    return answer.status < 500 and UNMADE not in answer.body


def _webhooks(layout: Layout, ports: Ports) -> Iterable[Manifest]:
    with apiserver.Https(port=ports.apiserver, context=apiserver.context(layout)) as client:
        for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
            found = client.request("GET", f"{_ADMISSION}/{kind}?labelSelector={OURS}").json()
            for item in found["items"]:
                yield from item.get("webhooks", [])


def _by_url(configuration: Manifest, server_url: str) -> Manifest:
    hooks = [
        {**hook, "clientConfig": {"url": server_url + hook["clientConfig"]["service"].get("path", "/")}}
        for hook in configuration["webhooks"]
    ]
    return {**configuration, "webhooks": hooks}
