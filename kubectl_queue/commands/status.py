"""status: how the server is (`views.server_status`)."""

from __future__ import annotations

import time
from base64 import b64decode
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from kubectl_queue.access.replicas import (
    LEADER,
    REPLICAS,
    SERVER,
    lease_end,
    leases_path,
    read_webhooks,
    reported,
    server_namespace,
)
from kubectl_queue.access.responses import Request
from kubectl_queue.access.volcano import queue_webhook
from kubectl_queue.cli.flags import Flags
from kubectl_queue.cli.options import Output, formats
from kubectl_queue.commands.verbs import Verb
from kubectl_queue.commands.version import own_version
from kubectl_queue.errors import NotFoundError, QueueError, UsageError
from kubectl_queue.objects.certificates import expiries
from kubectl_queue.objects.fields import Object, value_at
from kubectl_queue.output.formats import DOCUMENTS, dump
from kubectl_queue.output.server_status import status_lines
from kubectl_queue.session import Session
from kubectl_queue.views.server_status import (
    ReplicaStatus,
    Seen,
    ServerStatus,
    WebhookStatus,
    seen,
    with_problems,
)

_COMMAND = "kubectl queue status"
_KINDS = {"mutatingwebhookconfigurations": "Mutating", "validatingwebhookconfigurations": "Validating"}
#: A replica says what it has seen when it renews its Lease: every 1.5 s (`cluster.coordination.replicas`).
_TRIES, _BETWEEN_SECONDS = 4, 0.7

T = TypeVar("T")


def run_status(session: Session, flags: Flags) -> int:
    if flags.names:
        raise UsageError("status takes no names", see=_COMMAND)
    unread: list[str] = []

    def tried(read: Callable[[], T]) -> T | None:
        try:
            return read()
        except QueueError as exc:
            unread.append(str(exc))
            return None

    namespace = flags.text("namespace") or server_namespace(session.client)
    newest = tried(lambda: _newest_queue(session))
    replicas = tried(lambda: _replicas(session, namespace=namespace, newest=newest))
    webhooks = tried(lambda: tuple(_webhook(kind, entry) for kind, entry in read_webhooks(session.client)))
    authority = tried(lambda: _authority(session, namespace=namespace))
    now = session.client.now
    status = with_problems(
        ServerStatus(
            namespace=namespace,
            plugin_version=own_version(),
            replicas=replicas,
            webhooks=webhooks,
            authority_until=authority or (),
            volcano_webhook=queue_webhook(session.client),
            unread=tuple(dict.fromkeys(unread)),
        ),
        now=now,
    )
    if session.output in DOCUMENTS:
        session.console.say(dump(msgspec.to_builtins(status), output=session.output))
    else:
        session.console.say("\n".join(status_lines(status, now=now)))
    for text in status.unread:
        session.console.note(text)
    return 1 if unread else 0


def _newest_queue(session: Session) -> int:
    """The resource version of the latest change of a queue."""
    versions = (str(value_at(item, "metadata.resourceVersion") or "") for item in session.api.list().items)
    return max((int(version) for version in versions if version.isdecimal()), default=0)


def _replicas(session: Session, *, namespace: str, newest: int | None) -> tuple[ReplicaStatus, ...]:
    """Read again for as long as replicas may not have said yet that they have seen the newest queue."""
    for tries in range(1, _TRIES + 1):
        replicas = _read_replicas(session, namespace=namespace, newest=newest)
        behind = any(replica.answers and replica.queues is Seen.BEHIND for replica in replicas)
        if not behind or tries == _TRIES:
            break
        time.sleep(_BETWEEN_SECONDS)
    return replicas


def _read_replicas(session: Session, *, namespace: str, newest: int | None) -> tuple[ReplicaStatus, ...]:
    path = leases_path(namespace)
    leases = session.client.list(path, query={"labelSelector": REPLICAS}, kind="leases").items
    leader = _leader(session, path)
    now = session.client.now
    rows = (_replica(lease, leader=leader, newest=newest, now=now) for lease in leases)
    return tuple(sorted(rows, key=lambda row: row.name))


def _leader(session: Session, path: str) -> str:
    """The identity of the replica that leads; "" where none does."""
    try:
        lease = session.client.send(Request(method="GET", path=f"{path}/{LEADER}", query={}), kind="leases")
    except NotFoundError:
        return ""
    return str(value_at(lease, "spec.holderIdentity") or "") if lease_end(lease) >= session.client.now else ""


def _replica(lease: Object, *, leader: str, newest: int | None, now: datetime) -> ReplicaStatus:
    report = reported(lease)
    name = str(value_at(lease, "spec.holderIdentity") or value_at(lease, "metadata.name"))
    return ReplicaStatus(
        name=name,
        answers=lease_end(lease) >= now,
        leads=bool(leader) and name == leader,
        queues=seen(report.seen, newest=newest),
        renewed=_time(value_at(lease, "spec.renewTime")) or datetime.fromtimestamp(0, UTC),
        version=report.version,
        certificate_until=_time(report.certificate_until),
    )


def _time(text: Any) -> datetime | None:
    try:
        at = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _webhook(kind: str, entry: Object) -> WebhookStatus:
    bundle = str(value_at(entry, "clientConfig.caBundle") or "")
    return WebhookStatus(
        name=str(entry.get("name")),
        kind=_KINDS[kind],
        failure_policy=str(entry.get("failurePolicy") or "Fail"),
        has_bundle=bool(bundle),
        certificates_until=expiries(_decoded(bundle)),
    )


def _decoded(bundle: str) -> str:
    try:
        return b64decode(bundle).decode("ascii", errors="replace")
    except ValueError:
        return ""


def _authority(session: Session, *, namespace: str) -> tuple[datetime, ...]:
    """The ends of the authorities in the server's ConfigMap; none where others issue the certificates."""
    path = f"/api/v1/namespaces/{namespace}/configmaps/{SERVER}-ca"
    try:
        found = session.client.send(Request(method="GET", path=path, query={}), kind="configmaps")
    except NotFoundError:
        return ()
    return expiries(str((found.get("data") or {}).get("ca.crt") or ""))


VERBS = (
    Verb(
        name="status",
        usage="",
        long=(
            "Show the state of Sluice's server: its replicas, who leads, whether each has seen the latest "
            "change of queues, when certificates expire, versions, and the webhooks with their failurePolicy "
            "and caBundle. Then what is wrong. It takes the rights to list queues and webhook "
            "configurations, and in the server's namespace Leases and ConfigMap sluice-ca; what may not be "
            "read is left out, and said. -n names the server's namespace, as for version."
        ),
        examples=("kubectl queue status", "kubectl queue status -o json"),
        flags=(formats(Output.TABLE, Output.JSON, Output.YAML),),
        run=run_status,
    ),
)
