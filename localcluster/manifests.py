"""Applies the project's own manifests, adapted to one machine.

They are the files for a real cluster. Here the server runs outside the cluster, so workloads and Services are
left out, and the API server reaches webhooks by URL.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import yaml

from localcluster import apiserver
from localcluster.apiserver import kubectl
from localcluster.exceptions import SetUpFailed
from localcluster.layout import ROOT, Layout
from localcluster.ports import Ports
from queues.mode import Mode

MANIFESTS = ROOT / "manifests"
MANAGED = "managed-namespaces"
LEFT_OUT = frozenset({"Deployment", "Service", "PodDisruptionBudget"})
WEBHOOKS = frozenset({"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"})
OURS = "app.kubernetes.io%2Fpart-of%3Dsluice"
_QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
#: In a refusal as long as the queue `default` has not been created.
NO_PARENT = b"does not exist"
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
#: Server-side apply, which leaves fields of other owners, such as the caBundle, as they are.
_APPLY = "fieldManager=localcluster&force=true&fieldValidation=Strict"
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
#: Seconds for an answer: the first definitions take a loaded machine long.
_PATIENCE = 60.0

ManifestObject = dict[str, Any]


#: As rendered by this process, by folder, without and with managed namespaces: the tests start a server a
#: hundred times.
_rendered: dict[tuple[Path, bool], Sequence[ManifestObject]] = {}


def rendered(
    layout: Layout, mode: Mode = Mode.EXTENDER, *, managed: bool = False
) -> Sequence[ManifestObject]:
    """All manifests of a mode, as kustomize builds them; a process asks it once. Needs no API server.

    `managed`: with `manifests/managed-namespaces`.
    """
    source = folder(mode)
    if (source, managed) not in _rendered:
        with _with_component(source, MANIFESTS / MANAGED) if managed else nullcontext(source) as built:
            text = kubectl(layout, "kustomize", str(built))
        documents = yaml.load_all(text, Loader=yaml.CSafeLoader)
        _rendered[source, managed] = tuple(document for document in documents if document)
    return _rendered[source, managed]


@contextmanager
def _with_component(source: Path, component: Path) -> Iterator[Path]:
    """A folder with both, as a user's own kustomization names them: by relative paths."""
    with tempfile.TemporaryDirectory() as made:
        here = Path(made).resolve()
        resources, components = ([os.path.relpath(each, here)] for each in (source, component))
        content = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
        listing = {**content, "resources": resources, "components": components}
        (here / "kustomization.yaml").write_text(yaml.safe_dump(listing))
        yield here


def managed_namespaces(layout: Layout) -> str:
    """The selector that the server is given with `manifests/managed-namespaces`."""
    [deployment] = [each for each in rendered(layout, managed=True) if each["kind"] == "Deployment"]
    arguments: list[str] = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    return arguments[arguments.index("--managed-namespaces") + 1]


def folder(mode: Mode) -> Path:
    """What `kubectl apply -k` is given to install this mode."""
    return MANIFESTS if mode is Mode.EXTENDER else MANIFESTS / "ways" / mode


def localised(
    documents: Iterable[ManifestObject], *, server_url: str, webhooks: bool
) -> list[ManifestObject]:
    """What is applied on one machine; without `webhooks`, nothing that calls the server."""
    fitting = [each for each in documents if each["kind"] not in LEFT_OUT]
    return [
        _by_url(each, server_url) if each["kind"] in WEBHOOKS else each
        for each in fitting
        if webhooks or each["kind"] not in WEBHOOKS
    ]


#: What this process has applied, by the folder of the cluster and the path, with the version that came of it.
_applied: dict[Path, dict[str, tuple[ManifestObject, str]]] = {}


def apply(layout: Layout, ports: Ports, documents: Iterable[ManifestObject]) -> None:
    """Apply them in their order, over one connection. Raises `SetUpFailed`.

    What this process has applied and nobody has written since is left as it is: the API server checks each
    definition and each expression anew, and the tests start a server a hundred times.
    """
    context = apiserver.context(layout)
    known = _applied.setdefault(layout.folder, {})
    with apiserver.Https(port=ports.apiserver, context=context, timeout=_PATIENCE) as client:
        for document in documents:
            where = path(document)
            before, version = known.get(where, (None, ""))
            if before == document and _version(client.request("GET", where, accept=_METADATA)) == version:
                continue
            reply = client.request("PATCH", f"{where}?{_APPLY}", document, kind="apply-patch+yaml")
            if reply.status not in (200, 201):
                answer = reply.body.decode(errors="replace")
                raise SetUpFailed(f"{where} could not be applied: {answer}")
            known[where] = document, _version(reply)


def _version(reply: apiserver.Reply) -> str:
    """That of the object that was answered, or what no object has."""
    return str(reply.json()["metadata"]["resourceVersion"]) if reply.status in (200, 201) else "none"


def forget(layout: Layout) -> None:
    """The cluster has ended, with all that was applied."""
    _applied.pop(layout.folder, None)


def path(document: ManifestObject) -> str:
    """The path of the object at the API server."""
    version, metadata = document["apiVersion"], document["metadata"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    namespace = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    kind = document["kind"].lower()
    resource = f"{kind.removesuffix('y')}ies" if kind.endswith("y") else f"{kind}s"
    return f"{root}{namespace}/{resource}/{metadata['name']}"


def have_ca_bundle(layout: Layout, ports: Ports) -> bool:
    """Whether all our webhooks have the server's authority as caBundle."""
    return all("caBundle" in each["clientConfig"] for each in _webhooks(layout, ports))


def are_called(layout: Layout, ports: Ports) -> bool:
    """Whether the API server reaches our webhooks, and they know the built-in queues.

    Creates a Queue below `default` as a dry run. The API server reads a caBundle a moment after it was
    written, and the server creates `default` a moment after it is ready.
    """
    probe = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "sluice-localcluster-probe"},
        "spec": {"parent": "default"},
    }
    with apiserver.Https(port=ports.apiserver, context=apiserver.context(layout)) as client:
        answer = client.request("POST", f"{_QUEUES}?dryRun=All", probe)
    return answer.status < 500 and NO_PARENT not in answer.body


def _webhooks(layout: Layout, ports: Ports) -> Iterable[ManifestObject]:
    with apiserver.Https(port=ports.apiserver, context=apiserver.context(layout)) as client:
        for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
            configurations = client.request("GET", f"{_ADMISSION}/{kind}?labelSelector={OURS}").json()
            for item in configurations["items"]:
                yield from item.get("webhooks", [])


def _by_url(configuration: ManifestObject, server_url: str) -> ManifestObject:
    hooks = [
        {**hook, "clientConfig": {"url": server_url + hook["clientConfig"]["service"].get("path", "/")}}
        for hook in configuration["webhooks"]
    ]
    return {**configuration, "webhooks": hooks}
