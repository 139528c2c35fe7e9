"""What the Lease of a replica looks like: its name, its label, and what is written on it."""

from __future__ import annotations

import msgspec

from cluster.coordination.leases import Lease
from cluster.coordination.replica_report import ReplicaReport

PREFIX = "sluice-replica-"
LABEL = "sluice.dev/replica"
SEEN_ANNOTATION = "sluice.dev/seen"
#: On a Lease that has expired: its last renewal then, so that the mark is void once it is renewed again.
EXPIRED_ANNOTATION = "sluice.dev/expired"
#: On a Lease whose replica has ended in order: its last renewal. The replica itself writes it, last of all.
ENDED_ANNOTATION = "sluice.dev/ended"

#: The name and the uid of a Lease. One that was created anew by the same name is another one.
LeaseKey = tuple[str, str]

_reports = msgspec.json.Decoder(ReplicaReport)


def key_of(lease: Lease) -> LeaseKey:
    return lease.metadata.name, lease.metadata.uid


def is_marked_ended(lease: Lease) -> bool:
    """Return whether the replica has written that it answers no more."""
    return bool(lease.renewed_at) and lease.metadata.annotation(ENDED_ANNOTATION) == lease.renewed_at


def is_marked_expired(lease: Lease) -> bool:
    """Return whether a replica has seen the Lease expire, and nothing has renewed it since."""
    return bool(lease.renewed_at) and lease.metadata.annotation(EXPIRED_ANNOTATION) == lease.renewed_at


def report_on(lease: Lease) -> ReplicaReport:
    """Return what the replica has written on it; a report that says nothing where that cannot be read."""
    try:
        return _reports.decode(lease.metadata.annotation(SEEN_ANNOTATION))
    except msgspec.DecodeError:
        return ReplicaReport()
