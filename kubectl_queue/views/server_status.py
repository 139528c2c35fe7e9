"""How the server is: its replicas, who leads, what each has seen, certificates, versions, webhooks.

Promises
- What could not be read is not known, and `unread` says why; it is no problem.
- `problems` says what is wrong in a sentence each, with what comes of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from queues.text import join_limited, printable, quoted

#: A certificate that ends so soon has not been renewed: the server renews its own long before.
_EXPIRES_SOON = timedelta(days=14)
_NAMES_SHOWN = 5


class _JsonStruct(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What `-o json` shows, in camelCase."""


class Seen(StrEnum):
    """Whether a replica knows the queues as they are. A stop waits for one that is behind."""

    CURRENT = "Current"
    BEHIND = "Behind"
    UNKNOWN = "Unknown"


class ReplicaStatus(_JsonStruct, frozen=True):
    """One replica. `answers`: its Lease has not expired. `renewed`: when it renewed that. `version`: "" where
    it does not say it. `certificate_until`: of the certificate that it serves.
    """

    name: str
    answers: bool
    leads: bool
    queues: Seen
    renewed: datetime
    version: str = ""
    certificate_until: datetime | None = None


class WebhookStatus(_JsonStruct, frozen=True):
    """One entry of a webhook configuration. `certificates_until`: the ends of those in its `caBundle`;
    `has_bundle`: it has one, whether that can be read or not.
    """

    name: str
    kind: str
    failure_policy: str
    has_bundle: bool
    certificates_until: tuple[datetime, ...] = ()


class ServerStatus(_JsonStruct, frozen=True):
    """`replicas` and `webhooks`: None where they could not be read. `authority_until`: the end of each
    authority that callers are to trust. `volcano_webhook`: the configuration of Volcano's own webhook
    on queues; "" where there is none, or where it may not be read. `plugin_version`: of this command.
    """

    namespace: str
    plugin_version: str
    replicas: tuple[ReplicaStatus, ...] | None = None
    webhooks: tuple[WebhookStatus, ...] | None = None
    authority_until: tuple[datetime, ...] = ()
    volcano_webhook: str = ""
    unread: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def seen(version: int, *, newest: int | None) -> Seen:
    """`version`: up to which a replica knows the queues; 0: not known. `newest`: of a queue that was read
    before; None where none could be.
    """
    if not version or newest is None:
        return Seen.UNKNOWN
    return Seen.CURRENT if version >= newest else Seen.BEHIND


def with_problems(status: ServerStatus, *, now: datetime) -> ServerStatus:
    return msgspec.structs.replace(status, problems=tuple(_problems(status, now=now)))


def _problems(status: ServerStatus, *, now: datetime) -> Iterator[str]:
    if status.replicas is not None:
        yield from _of_replicas(status.replicas, now=now)
        yield from _of_versions(status)
    if status.webhooks is not None:
        yield from _of_webhooks(status.webhooks, now=now)
    if status.volcano_webhook:
        yield refused_edits_text(status.volcano_webhook)
    yield from _ending("the authority", status.authority_until, now=now)


def refused_edits_text(configuration: str) -> str:
    """What comes of Volcano's webhook on queues, and the way out."""
    return (
        f"Volcano's webhook ({printable(configuration)}) refuses every edit of a queue that is Suspended or "
        "Closing: neither a resume, an open nor its resumeAt ends that; use kubectl queue hold, or switch "
        "that webhook off first"
    )


def _of_replicas(replicas: Sequence[ReplicaStatus], *, now: datetime) -> Iterator[str]:
    answering = [replica for replica in replicas if replica.answers]
    if not answering:
        yield "no replica answers: new work of queues is refused, and what waits goes on waiting"
    elif not any(replica.leads for replica in answering):
        yield "no replica leads: stops are not acknowledged, and statuses, drains and resumes wait"
    behind = [replica.name for replica in answering if replica.queues is Seen.BEHIND]
    if behind:
        yield f"{_listed(behind)} has not seen the latest change of queues: stops wait for it"
    for replica in answering:
        ends = (replica.certificate_until,) if replica.certificate_until else ()
        yield from _ending(f"the certificate of {printable(replica.name)}", ends, now=now)


def _of_versions(status: ServerStatus) -> Iterator[str]:
    running = {replica.version for replica in status.replicas or () if replica.answers} - {""}
    if len(running) > 1:
        yield f"replicas of versions {_listed(sorted(running))} run together, as in a roll-out"
    elif running and running != {status.plugin_version}:
        yield f"the plugin is of version {status.plugin_version}, the server of {printable(min(running))}"


def _of_webhooks(webhooks: Sequence[WebhookStatus], *, now: datetime) -> Iterator[str]:
    kinds = {webhook.kind for webhook in webhooks}
    for kind, comes in (
        ("Mutating", "new pods get no gate and no queue"),
        ("Validating", "edits of queues and binds are not checked"),
    ):
        if kind not in kinds:
            yield f"there are no {kind.lower()} webhooks: {comes}"
    bare = [webhook.name for webhook in webhooks if not webhook.has_bundle]
    if bare:
        yield f"no caBundle is set for {_listed(bare)}: the API server trusts no certificate of the server"
    ends = [max(webhook.certificates_until) for webhook in webhooks if webhook.certificates_until]
    yield from _ending("what the webhooks trust", (min(ends),) if ends else (), now=now)


def _ending(what: str, ends: Sequence[datetime], *, now: datetime) -> Iterator[str]:
    """`ends`: of certificates of which the last counts."""
    end = max(ends, default=None)
    if end is not None and end <= now + _EXPIRES_SOON:
        over = "has expired" if end <= now else "expires soon and was not renewed"
        yield f"{what} {over} ({end:%Y-%m-%d %H:%M} UTC)"


def _listed(names: Sequence[str]) -> str:
    return join_limited([quoted(name) for name in names], limit=_NAMES_SHOWN)
