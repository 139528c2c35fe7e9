"""The state of the server (`views.server_status`) as lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from kubectl_queue.output.tables import TableLayout
from kubectl_queue.views.server_status import ReplicaStatus, ServerStatus, WebhookStatus
from kubectl_queue.views.text import human_duration
from queues.text import printable

_UNKNOWN = "<unknown>"
_REPLICAS = ("REPLICA", "ANSWERS", "LEADS", "VERSION", "QUEUES", "CERTIFICATE", "RENEWED")
_WEBHOOKS = ("WEBHOOK", "KIND", "FAILURE", "CABUNDLE")


def status_lines(status: ServerStatus, *, now: datetime) -> list[str]:
    """Each part under its heading, then what is wrong."""
    lines = [f"Namespace:   {printable(status.namespace)}", f"Plugin:      {status.plugin_version}"]
    if status.authority_until:
        lines.append(f"Authority:   {_until(status.authority_until)}")
    if status.replicas is not None:
        lines += ["", *_table(_REPLICAS, [_replica(row, now=now) for row in status.replicas])]
    if status.webhooks is not None:
        lines += ["", *_table(_WEBHOOKS, [_webhook(row) for row in status.webhooks])]
    none = "not known: not all could be read" if status.unread else "none"
    return [*lines, "", *_headed("Problems:", status.problems or (none,)), *_headed("Notes:", status.notes)]


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [line.rstrip() for line in TableLayout().lines([headings, *rows])]


def _replica(replica: ReplicaStatus, *, now: datetime) -> tuple[str, ...]:
    return (
        printable(replica.name),
        str(replica.answers),
        str(replica.leads),
        _version(replica),
        replica.queues.value,
        _until((replica.certificate_until,) if replica.certificate_until else ()),
        f"{human_duration(max((now - replica.renewed).total_seconds(), 0))} ago",
    )


def _version(replica: ReplicaStatus) -> str:
    build = f" ({printable(replica.build)})" if replica.build else ""
    return f"{printable(replica.version)}{build}" if replica.version else _UNKNOWN


def _webhook(webhook: WebhookStatus) -> tuple[str, ...]:
    bundle = _until(webhook.certificates_until) if webhook.has_bundle else "<none>"
    return (printable(webhook.name), webhook.kind, printable(webhook.failure_policy), bundle)


def _until(ends: Sequence[datetime]) -> str:
    return f"until {max(ends):%Y-%m-%d}" if ends else _UNKNOWN


def _headed(heading: str, texts: Sequence[str]) -> Iterator[str]:
    """The texts below each other, the first one beside the heading; nothing without any."""
    for number, text in enumerate(texts):
        yield f"{heading if number == 0 else '':<13}{text}"
