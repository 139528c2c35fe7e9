"""version: of the plugin, of the server, and of Kubernetes."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from kubectl_queue.access.responses import Request
from kubectl_queue.cli.flags import Flags, bool_flag
from kubectl_queue.cli.options import Output, formats
from kubectl_queue.commands.verbs import Verb
from kubectl_queue.errors import QueueError, ServerError, UsageError
from kubectl_queue.output.formats import DOCUMENTS, dump
from kubectl_queue.output.tables import value_at
from kubectl_queue.session import Session

_DEPLOYMENTS = "/apis/apps/v1/deployments"
#: As `manifests/deployment/deployment.yaml` labels it.
_SELECTOR = "app.kubernetes.io/name=sluice"
_COMMAND = "kubectl queue version"


def run_version(session: Session, flags: Flags) -> int:
    if flags.names:
        raise UsageError("version takes no names", see=_COMMAND)
    versions = {"clientVersion": _own_version()}
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


def _own_version() -> str:
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
    """The tags of the images that the server's Deployments run: it tells its version nowhere else."""
    query = {"labelSelector": _SELECTOR}
    listing = session.client.send(
        Request(method="GET", path=_DEPLOYMENTS, query=query), kind="deployments.apps"
    )
    tags = {
        _tag(str(container.get("image")))
        for item in listing.get("items") or ()
        for container in value_at(item, "spec.template.spec.containers") or ()
    }
    return ", ".join(sorted(tags)) or f"not known: no Deployment is labelled {_SELECTOR}"


def _tag(image: str) -> str:
    """What follows the last colon, as far as that is no port of a registry; else the image itself."""
    _, colon, tag = image.partition("@")[0].rpartition(":")
    return tag if colon and "/" not in tag else image


def _kubernetes(session: Session) -> str:
    answer = session.client.send(Request(method="GET", path="/version", query={}))
    return str(answer.get("gitVersion"))


VERBS = (
    Verb(
        name="version",
        usage="",
        long=(
            "Show the version of the plugin, of Sluice's server, by the image that its Deployment runs, "
            "and of Kubernetes."
        ),
        examples=("kubectl queue version", "kubectl queue version --client -o json"),
        flags=(
            bool_flag("client", "Only the version of the plugin; no server is asked."),
            formats(Output.TABLE, Output.JSON, Output.YAML),
        ),
        run=run_version,
    ),
)
