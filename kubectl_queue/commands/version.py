"""version: of the plugin, of the server, and of Kubernetes."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from kubectl_queue.access.replicas import read_replicas, server_namespace
from kubectl_queue.access.responses import ApiRequest
from kubectl_queue.cli.flags import Flags, bool_flag
from kubectl_queue.cli.options import Output, formats
from kubectl_queue.commands.verbs import Verb
from kubectl_queue.errors import QueueError, ServerError, UsageError
from kubectl_queue.objects.fields import value_at
from kubectl_queue.output.formats import DOCUMENTS, dump
from kubectl_queue.session import Session

#: As `manifests/deployment/deployment.yaml` labels it.
_SELECTOR = "app.kubernetes.io/name=sluice"
_COMMAND = "kubectl queue version"


def run_version(session: Session, flags: Flags) -> int:
    if flags.names:
        raise UsageError("version takes no names", see=_COMMAND)
    versions = {"clientVersion": own_version()}
    failures: list[QueueError] = []
    if not flags.on("client"):
        for key, read in (("serverVersion", _server), ("kubernetesVersion", _kubernetes)):
            try:
                versions[key] = read(session)
            except ServerError as exc:
                failures.append(exc)
    if session.output in DOCUMENTS:
        session.console.say(dump(versions, output=session.output))
    else:
        session.console.say("\n".join(f"{_HEADINGS[key]}: {text}" for key, text in versions.items()))
    for failure in failures:
        session.console.note(str(failure))
    return 1 if failures else 0


def own_version() -> str:
    """The plugin is part of the server's package, and a package of its own."""
    try:
        return version("sluice")
    except PackageNotFoundError:
        return version("kubectl-queue")


_HEADINGS = {
    "clientVersion": "Client Version",
    "serverVersion": "Server Version",
    "kubernetesVersion": "Kubernetes Version",
}


def _server(session: Session) -> str:
    """As the replicas in its namespace say it on their Leases; else by the images of its Deployment there.

    Without the right to read Leases, or with replicas of an older version, the images remain.
    """
    namespace = session.flags.text("namespace") or server_namespace(session.client)
    try:
        replicas = read_replicas(session.client, namespace=namespace)
    except ServerError:
        replicas = []
    running = {replica.version for replica, end in replicas if end >= session.client.now} - {""}
    return ", ".join(sorted(running)) or _image_tags(session, namespace)


def _image_tags(session: Session, namespace: str) -> str:
    """The tags of the images that the server's Deployment runs."""
    query = {"labelSelector": _SELECTOR}
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    listing = session.client.send(ApiRequest(method="GET", path=path, query=query), kind="deployments.apps")
    tags = {
        _tag(str(container.get("image")))
        for item in listing.get("items") or ()
        for container in value_at(item, "spec.template.spec.containers") or ()
    }
    return (
        ", ".join(sorted(tags))
        or f"not known: in namespace {namespace} no replica says it on its Lease, and no Deployment is "
        f"labelled {_SELECTOR}; -n names another namespace"
    )


def _tag(image: str) -> str:
    """What follows the last colon, as far as that is no port of a registry; else the image itself."""
    _, colon, tag = image.partition("@")[0].rpartition(":")
    return tag if colon and "/" not in tag else image


def _kubernetes(session: Session) -> str:
    answer = session.client.send(ApiRequest(method="GET", path="/version", query={}))
    return str(answer.get("gitVersion"))


VERBS = (
    Verb(
        name="version",
        usage="",
        long=(
            "Show the version of the plugin, of Sluice's server, as its replicas say it or by the image that "
            "its Deployment runs, and of Kubernetes. -n names the server's namespace where you may not read "
            "its webhooks and it is not sluice-system."
        ),
        examples=("kubectl queue version", "kubectl queue version --client -o json"),
        flags=(
            bool_flag("client", "Only the version of the plugin; no server is asked."),
            formats(Output.TABLE, Output.JSON, Output.YAML),
        ),
        run=run_version,
        tells_outage=False,
    ),
)
