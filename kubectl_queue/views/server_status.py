"""How the server is: its replicas, who leads, what each has seen, certificates, versions, webhooks.

Promises
- What could not be read is not known, and `unread` says why; it is no problem.
- `problems` says what is wrong in a sentence each, with what comes of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum

import msgspec

from kubectl_queue.views.outage import Outage, OutageKind, outage_text
from kubectl_queue.views.text import plural
from queues.text import join_limited, printable, quoted

#: A certificate that ends so soon has not been renewed: the server renews its own long before.
_EXPIRES_SOON = timedelta(days=14)
_NAMES_SHOWN = 5
_BEGINNING = datetime.min.replace(tzinfo=UTC)
#: Characters of why something fails.
_WHY_LIMIT = 300
#: What comes of a loop that fails, by its name or by the part before the first dash.
_COMES_OF_FAILING = {
    "quota-book": "no pod of a queue with a quota is released",
    "reflector": "what is known of the cluster grows old",
    "progress": "stops may be acknowledged late",
    "certificates": "certificates and caBundle are not renewed",
    "notices": "what happens to queues is not told",
}


#: After an uninstall, for example: no replica answers either.
UNREGISTERED = "no webhook of Sluice is registered, and no replica answers: nothing acts on queues"


class _JsonStruct(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What `-o json` shows, in camelCase."""


class Seen(StrEnum):
    """Whether a replica knows the queues as they are. A stop waits for one that is behind."""

    CURRENT = "Current"
    BEHIND = "Behind"
    UNKNOWN = "Unknown"


class RetryStatus(msgspec.Struct, frozen=True, rename="camel"):
    """A loop of a replica that fails and is tried again. `since`: None where that cannot be read."""

    loop: str
    since: datetime | None
    why: str


class ReplicaStatus(_JsonStruct, frozen=True):
    """One replica. `answers`: its Lease has not expired. `renewed`: when it renewed that. `version`, `build`:
    "" where it does not say it. `certificate_until`: of the certificate that it serves. `started`: when its
    Lease was created. `foreign`: no replica has written this Lease, which `name` is the name of.
    `registration`: what webhook configurations and admission policies lack by what it knows, a sentence each.
    `policy_problems`, `policy_notes`: what is wrong with the scheduling policies, and what of them has no
    effect.
    """

    name: str
    answers: bool
    leads: bool
    queues: Seen
    renewed: datetime
    version: str = ""
    certificate_until: datetime | None = None
    build: str = ""
    started: datetime | None = None
    foreign: bool = False
    retrying: tuple[RetryStatus, ...] = ()
    registration: tuple[str, ...] = ()
    policy_problems: tuple[str, ...] = ()
    policy_notes: tuple[str, ...] = ()


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
    """`replicas` and `webhooks`: None where they could not be read. `led_until`: when a leader last renewed
    its Lease; None where there is none, or where it could not be read. `authority_until`: the end of each
    authority that callers are to trust. `volcano_webhook`: the configuration of Volcano's own webhook
    on queues; "" where there is none, or where it may not be read. `plugin_version`: of this command.
    `untaken`: how many members wait for a scheduler that takes none, by its name; none where pods may not be
    listed.
    `notes`: what is no problem, and yet is not what somebody wrote.
    """

    namespace: str
    plugin_version: str
    replicas: tuple[ReplicaStatus, ...] | None = None
    led_until: datetime | None = None
    webhooks: tuple[WebhookStatus, ...] | None = None
    authority_until: tuple[datetime, ...] = ()
    volcano_webhook: str = ""
    untaken: dict[str, int] = {}
    unread: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def seen(version: int, *, newest: int | None) -> Seen:
    """`version`: up to which a replica knows the queues; 0: not known. `newest`: of a queue that was read
    before; None where none could be.
    """
    if not version or newest is None:
        return Seen.UNKNOWN
    return Seen.CURRENT if version >= newest else Seen.BEHIND


def with_problems(status: ServerStatus, *, now: datetime, registered: str = "") -> ServerStatus:
    """`registered`: the namespace that the registration names, if it is another one; else ""."""
    first = _who_decides(status.replicas or ())
    return msgspec.structs.replace(
        status,
        problems=tuple(_problems(status, now=now, registered=registered)),
        notes=first.policy_notes if first is not None else (),
    )


def _who_decides(replicas: Sequence[ReplicaStatus]) -> ReplicaStatus | None:
    """The leader, which decides what is promised; without one, the replica that has most to say."""
    answering = (replica for replica in replicas if replica.answers)
    return max(answering, key=_has_to_say, default=None)


def _has_to_say(replica: ReplicaStatus) -> tuple[bool, int]:
    return replica.leads, len(replica.registration) + len(replica.policy_problems)


def _problems(status: ServerStatus, *, now: datetime, registered: str) -> Iterator[str]:
    is_elsewhere = status.replicas == () and status.led_until is None and status.webhooks != ()
    is_elsewhere = is_elsewhere and bool(registered)
    if is_elsewhere:
        yield f"no Sluice in namespace {quoted(status.namespace)}; try -n {printable(registered)}"
    elif status.replicas is not None:
        yield from _of_outage(status, status.replicas, now=now)
        yield from _of_replicas(status.replicas, now=now)
        yield from _of_foreign_leases(status)
        yield from _of_versions(status)
    if status.webhooks is not None:
        answers = status.replicas is None or any(replica.answers for replica in status.replicas)
        if not status.webhooks and not answers and not is_elsewhere:
            yield UNREGISTERED
        else:
            yield from _of_webhooks(status.webhooks, now=now)
    if status.volcano_webhook:
        yield refused_edits_text(status.volcano_webhook)
    yield from (_untaken_text(name, number) for name, number in sorted(status.untaken.items()))
    yield from _ending("the authority", status.authority_until, now=now)


def refused_edits_text(configuration: str) -> str:
    """What comes of Volcano's webhook on queues, and the way out."""
    return (
        f"Volcano's webhook ({printable(configuration)}) refuses every edit of a queue that is Suspended or "
        "Closing: neither a resume, an open nor its resumeAt ends that; use kubectl queue hold, or switch "
        "that webhook off first"
    )


def _of_outage(status: ServerStatus, replicas: Sequence[ReplicaStatus], *, now: datetime) -> Iterator[str]:
    """Without webhooks an outage refuses no work: `_of_webhooks` says what comes of that."""
    answering = [replica for replica in replicas if replica.answers]
    led_until = status.led_until
    if not answering and status.webhooks != ():
        signs = [
            *(each.renewed for each in replicas if not each.foreign),
            *([led_until] if led_until else []),
        ]
        yield outage_text(Outage(OutageKind.NO_REPLICA, max(signs, default=None)), now=now)
    elif answering and not any(replica.leads for replica in answering):
        yield outage_text(Outage(OutageKind.NO_LEADER, led_until), now=now)


def _of_replicas(replicas: Sequence[ReplicaStatus], *, now: datetime) -> Iterator[str]:
    answering = [replica for replica in replicas if replica.answers]
    first = _who_decides(replicas)
    yield from (*first.registration, *first.policy_problems) if first is not None else ()
    behind = [replica.name for replica in answering if replica.queues is Seen.BEHIND]
    if behind:
        yield f"{_listed(behind)} has not seen the latest change of queues: stops wait for it"
    for replica in answering:
        ends = (replica.certificate_until,) if replica.certificate_until else ()
        yield from _ending(f"the certificate of {printable(replica.name)}", ends, now=now)
        yield from (failing_text(replica.name, retry) for retry in replica.retrying)


def _untaken_text(scheduler: str, number: int) -> str:
    verb, named = "waits" if number == 1 else "wait", quoted(scheduler, limit=60)
    return (
        f"{plural(number, 'pod')} of queues {verb} for scheduler {named}, which takes none: run it, or take "
        "schedulerName out of their templates"
    )


def failing_text(replica: str, retry: RetryStatus) -> str:
    """What fails there, since when, what comes of it, and why."""
    comes = _COMES_OF_FAILING.get(retry.loop) or _COMES_OF_FAILING.get(retry.loop.partition("-")[0])
    since = f" since {retry.since:%Y-%m-%d %H:%M:%S} UTC" if retry.since else ""
    effect = f", so that {comes}" if comes else ""
    why = printable(retry.why, limit=_WHY_LIMIT)
    return f"{printable(retry.loop)} of {printable(replica)} fails{since}{effect}: {why}"


def _of_foreign_leases(status: ServerStatus) -> Iterator[str]:
    """A stop waits for each until it is gone, or was not renewed for a while."""
    for name in (replica.name for replica in status.replicas or () if replica.foreign):
        delete = f"kubectl delete lease {printable(name)} -n {printable(status.namespace)}"
        yield f"no replica has written Lease {quoted(name)}, and a stop may wait for it: {delete}"


def _of_versions(status: ServerStatus) -> Iterator[str]:
    answering = [replica for replica in status.replicas or () if replica.answers]
    running = {replica.version for replica in answering} - {""}
    if len(running) > 1:
        yield f"replicas of versions {_listed(sorted(running))} run together, as in a roll-out"
    elif len({replica.build for replica in answering} - {""}) > 1:
        yield _builds_text(answering)
    elif running and running != {status.plugin_version}:
        yield f"the plugin is of version {status.plugin_version}, the server of {printable(min(running))}"


def _builds_text(replicas: Sequence[ReplicaStatus]) -> str:
    """Which replicas are of another build than the one that started last."""
    known = sorted((each for each in replicas if each.build), key=lambda each: each.started or _BEGINNING)
    older = [each.name for each in known if each.build != known[-1].build]
    return (
        f"replicas of two builds run together, as in a roll-out: {_listed(older)} of another build than "
        f"{quoted(known[-1].name)}, which started last"
    )


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
