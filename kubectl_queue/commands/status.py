"""status: how the server is (`views.server_status`)."""

from __future__ import annotations

import time
from base64 import b64decode
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from kubectl_queue.access.replicas import (
    LEADER,
    LEASE_PREFIX,
    NAMESPACE,
    REPLICAS,
    SERVER,
    is_foreign,
    lease_end,
    leases_path,
    read_webhooks,
    renewed_at,
    reported,
    server_namespace,
)
from kubectl_queue.access.responses import ApiRequest
from kubectl_queue.access.volcano import queue_webhook
from kubectl_queue.cli.flags import Flags
from kubectl_queue.cli.options import Output, formats
from kubectl_queue.commands.verbs import Verb
from kubectl_queue.commands.version import own_version
from kubectl_queue.errors import ForbiddenError, NotFoundError, QueueError, UsageError
from kubectl_queue.objects.certificates import expiries
from kubectl_queue.objects.fields import Object, value_at
from kubectl_queue.objects.schedulers import untaken_by_scheduler
from kubectl_queue.output.formats import DOCUMENTS, dump
from kubectl_queue.output.server_status import status_lines
from kubectl_queue.session import Session
from kubectl_queue.views.server_status import (
    ReplicaStatus,
    RetryStatus,
    Seen,
    ServerStatus,
    WebhookStatus,
    seen,
    with_problems,
)
from kubectl_queue.views.text import first_line
from queues import well_known
from queues.text import all_of, printable
from queues.why.explanation import DEFAULT_SCHEDULER

_COMMAND = "kubectl queue status"
_KINDS = {"mutatingwebhookconfigurations": "Mutating", "validatingwebhookconfigurations": "Validating"}
#: A replica says what it has seen when it renews its Lease: every 1.5 s (`cluster.coordination.replicas`).
_TRIES, _BETWEEN_SECONDS = 4, 0.7

#: Characters of what a replica says of the webhooks and the policies.
_TEXT_LIMIT = 400

T = TypeVar("T")


def run_status(session: Session, flags: Flags) -> int:
    if flags.names:
        raise UsageError("status takes no names", see=_COMMAND)
    unread: dict[str, list[str]] = {}

    def tried(what: str, read: Callable[[], T]) -> T | None:
        """None where it cannot be read: the rest is shown all the same."""
        try:
            return read()
        except QueueError as exc:
            unread.setdefault(first_line(str(exc)), []).append(what)
            return None

    client = session.client
    given = flags.text("namespace")
    registered = tried("the webhooks", lambda: server_namespace(client)) or ""
    namespace = given or registered or NAMESPACE
    newest = tried("the queues", lambda: _newest_queue(session))
    found = tried("the replicas", lambda: _replicas(session, namespace=namespace, newest=newest))
    replicas, leader = found if found is not None else (None, None)
    webhooks = tried(
        "the webhooks", lambda: tuple(_webhook(kind, entry) for kind, entry in read_webhooks(client))
    )
    authority = tried("the authority", lambda: _authority(session, namespace=namespace))
    untaken = tried("the pods of other schedulers", lambda: _untaken(session))
    now = session.client.now
    status = with_problems(
        ServerStatus(
            namespace=namespace,
            plugin_version=own_version(),
            replicas=replicas,
            led_until=renewed_at(leader) if leader is not None else None,
            webhooks=webhooks,
            authority_until=authority or (),
            volcano_webhook=queue_webhook(session.client),
            untaken=untaken or {},
            unread=tuple(
                f"could not read {all_of(list(dict.fromkeys(what)))}: {why}" for why, what in unread.items()
            ),
        ),
        now=now,
        registered=registered if registered != namespace else "",
    )
    if session.output in DOCUMENTS:
        session.console.say(dump(msgspec.to_builtins(status), output=session.output))
    else:
        session.console.say("\n".join(status_lines(status, now=now)))
    for text in status.unread:
        session.console.note(text)
    return 1 if unread or status.problems else 0


def _untaken(session: Session) -> dict[str, int]:
    """How many members wait for a scheduler that takes none, by its name. None where pods may not be listed.
    Raises `QueueError`.
    """
    query = {
        "labelSelector": well_known.QUEUE,
        "fieldSelector": f"spec.nodeName=,spec.schedulerName!={DEFAULT_SCHEDULER}",
    }
    with suppress(ForbiddenError):
        return dict(untaken_by_scheduler(session.client.list("/api/v1/pods", query=query, kind="pods").items))
    return {}


def _newest_queue(session: Session) -> int:
    """The resource version of the latest change of a queue."""
    versions = (str(value_at(item, "metadata.resourceVersion") or "") for item in session.api.list().items)
    return max((int(version) for version in versions if version.isdecimal()), default=0)


def _replicas(
    session: Session, *, namespace: str, newest: int | None
) -> tuple[tuple[ReplicaStatus, ...], Object | None]:
    """Also the leader's Lease, if it is there. Read again for as long as replicas may not have said yet that
    they have seen the newest queue.
    """
    for tries in range(1, _TRIES + 1):
        replicas, leader = _read_replicas(session, namespace=namespace, newest=newest)
        behind = any(replica.answers and replica.queues is Seen.BEHIND for replica in replicas)
        if not behind or tries == _TRIES:
            break
        time.sleep(_BETWEEN_SECONDS)
    return replicas, leader


def _read_replicas(
    session: Session, *, namespace: str, newest: int | None
) -> tuple[tuple[ReplicaStatus, ...], Object | None]:
    path = leases_path(namespace)
    leases = session.client.list(path, query={"labelSelector": REPLICAS}, kind="leases").items
    lease = _leader_lease(session, path)
    now = session.client.now
    leader = _holder(lease, now=now)
    rows = (_replica(each, leader=leader, newest=newest, now=now) for each in leases)
    return tuple(sorted(rows, key=lambda row: row.name)), lease


def _said(texts: tuple[str, ...]) -> tuple[str, ...]:
    """What a replica says of something, as it may be shown."""
    return tuple(printable(text, limit=_TEXT_LIMIT) for text in texts)


def _leader_lease(session: Session, path: str) -> Object | None:
    try:
        return session.client.send(ApiRequest(method="GET", path=f"{path}/{LEADER}", query={}), kind="leases")
    except NotFoundError:
        return None


def _holder(lease: Object | None, *, now: datetime) -> str:
    """The identity of the replica that leads; "" where none does."""
    leads = lease is not None and lease_end(lease) >= now
    return str(value_at(lease, "spec.holderIdentity") or "") if lease is not None and leads else ""


def _replica(lease: Object, *, leader: str, newest: int | None, now: datetime) -> ReplicaStatus:
    report, foreign = reported(lease), is_foreign(lease, now=now)
    name = str(lease["metadata"]["name"])
    name = name if foreign else name.removeprefix(LEASE_PREFIX)
    return ReplicaStatus(
        name=name,
        answers=not foreign and lease_end(lease) >= now,
        leads=bool(leader) and name == leader,
        queues=seen(report.seen, newest=newest),
        renewed=renewed_at(lease),
        version=report.version,
        build=report.build,
        started=_time(value_at(lease, "metadata.creationTimestamp")),
        foreign=foreign,
        certificate_until=_time(report.certificate_until),
        retrying=tuple(RetryStatus(loop, _time(since), why) for loop, since, why in report.retrying),
        registration=_said(report.registration),
        policy_problems=_said(report.policy_problems),
        policy_notes=_said(report.policy_notes),
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
        found = session.client.send(ApiRequest(method="GET", path=path, query={}), kind="configmaps")
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
            "and caBundle. Then what is wrong: the exit code is 1 if something is, or if something could not "
            "be read. It takes the rights to list queues and webhook "
            "configurations, and in the server's namespace Leases and ConfigMap sluice-ca; what may not be "
            "read is left out, and said. -n names the server's namespace, as for version."
        ),
        examples=("kubectl queue status", "kubectl queue status -o json"),
        flags=(formats(Output.TABLE, Output.JSON, Output.YAML),),
        run=run_status,
        tells_outage=False,
    ),
)
