"""Leases (`coordination.k8s.io/v1`): read, written, and judged by our own clock.

As in client-go's leader election, no wall clock is trusted. A Lease of another replica has expired if it has
not changed for its duration since we first saw this version, by our own monotonic clock.

A version is first seen by the watch of the Leases (`LeaseSightings`), milliseconds after the renewal, or by a
read (`ObservedLease`), which may be a second later. The earlier of the two counts. So whatever reads Leases
seldom, or begins to read them when a replica is lost, knows that it is lost once its Lease has run out.

Anybody with the right to may write a Lease. Its duration counts as no less than ours and no more than
`LONGEST_SECONDS`: what was written by hand ends nothing early, and holds nothing up for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

import msgspec

from cluster.api.client import Client, decode_response
from cluster.objects import ListMeta, Metadata, Wire, version_number

COORDINATION = "/apis/coordination.k8s.io/v1"
#: The kind, as `WatchProgress` knows it.
LEASES = "leases"
#: How long a Lease lasts after a renewal, the leader's and each replica's.
LEASE_SECONDS = 6
#: The longest duration that counts. Only a Lease that was written by hand has another one than ours.
LONGEST_SECONDS = 15
#: Its holder relies upon it until so long before its end: another replica counts by another clock.
MARGIN_SECONDS = 2.0


class LeaseSpec(Wire, frozen=True):
    holder_identity: str | None = ""
    lease_duration_seconds: int | None = 0
    renew_time: str | None = ""


class Lease(Wire, frozen=True):
    metadata: Metadata
    spec: LeaseSpec = msgspec.field(default_factory=LeaseSpec)

    @property
    def holder(self) -> str:
        return self.spec.holder_identity or ""

    @property
    def seconds(self) -> float:
        """For how long it lasts after a renewal."""
        written = self.spec.lease_duration_seconds or 0
        return float(min(max(written, LEASE_SECONDS), LONGEST_SECONDS))

    @property
    def renewed_at(self) -> str:
        """The time of the last renewal, as its holder wrote it: to be compared with itself alone."""
        return self.spec.renew_time or ""


class LeaseList(Wire, frozen=True):
    """`metadata.resource_version` was current when the list was read."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[Lease] | None = None

    @property
    def version(self) -> int:
        return version_number(self.metadata.resource_version)


_lease = msgspec.json.Decoder(Lease)
_leases = msgspec.json.Decoder(LeaseList)


class Leases:
    """The Leases of one namespace. Every call raises `cluster.exceptions.ClusterError`."""

    def __init__(self, client: Client, *, namespace: str, now: Callable[[], datetime]) -> None:
        """`now`: the API server's time. People and the plugin read when a Lease was renewed."""
        self._client = client
        self._now = now
        self._namespace = namespace
        self._path = f"{COORDINATION}/namespaces/{namespace}/leases"

    def get(self, name: str) -> Lease:
        return decode_response(self._client.get(f"{self._path}/{name}"), _lease)

    def list(self) -> LeaseList:
        """List all Leases of the namespace, in a consistent read."""
        return decode_response(self._client.get(self._path), _leases)

    def create(self, name: str, *, holder: str, seconds: int, extra: dict[str, Any]) -> Lease:
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            **self._body(holder=holder, seconds=seconds, extra={**extra, "name": name}),
        }
        return decode_response(self._client.create(self._path, body), _lease)

    def renew(
        self, name: str, *, holder: str, seconds: int, extra: dict[str, Any], version: str = ""
    ) -> Lease:
        """Renew the Lease now; with `version`, only if it still has that version (else `Conflict`)."""
        metadata = {**extra, **({"resourceVersion": version} if version else {})}
        body = self._body(holder=holder, seconds=seconds, extra=metadata)
        return decode_response(self._client.patch(f"{self._path}/{name}", body), _lease)

    def annotate(self, lease: Lease, annotations: dict[str, str]) -> None:
        """Set annotations, if the Lease still has this version (else `Conflict`)."""
        meta = {"resourceVersion": lease.metadata.resource_version, "annotations": annotations}
        self._client.patch(f"{self._path}/{lease.metadata.name}", {"metadata": meta})

    def delete(self, name: str, *, version: str = "") -> None:
        """Delete the Lease; with `version`, only if it still has that version (else `Conflict`)."""
        body = {"preconditions": {"resourceVersion": version}} if version else None
        self._client.delete(f"{self._path}/{name}", body)

    def _body(self, *, holder: str, seconds: int, extra: dict[str, Any]) -> dict[str, Any]:
        moment = self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {
            "metadata": extra,
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": moment},
        }


class LeaseSightings:
    """When the watch of the Leases showed the version of each. The watch may be late, and never early.

    Threads: the reflector's records and forgets, any may ask.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: dict[str, tuple[str, float]] = {}

    def record(self, lease: Lease) -> None:
        name, version = lease.metadata.name, lease.metadata.resource_version
        seen = self._since.get(name)
        if seen is None or seen[0] != version:
            self._since[name] = (version, self._clock())

    def forget(self, name: str) -> None:
        self._since.pop(name, None)

    def keep_only(self, names: Iterable[str]) -> None:
        for name in self._since.keys() - set(names):
            self.forget(name)

    def first_seen(self, lease: Lease) -> float | None:
        """When this very version was shown, in monotonic seconds; None if it was not."""
        seen = self._since.get(lease.metadata.name)
        return seen[1] if seen is not None and seen[0] == lease.metadata.resource_version else None


class ObservedLease:
    """Observes Leases and tells which have expired. For one thread."""

    def __init__(self, clock: Callable[[], float], *, sightings: LeaseSightings | None = None) -> None:
        """`sightings`: what the watch of the Leases shows."""
        self._clock = clock
        self._sightings = sightings
        self._since: dict[str, tuple[str, float]] = {}

    def expired(self, lease: Lease, *, began: float | None = None) -> bool:
        """Return whether the Lease has not changed for longer than its duration.

        `began`: when it was requested, in monotonic seconds. A late answer says nothing about the time after
        the request.
        """
        return self.seconds_left(lease, began=began) < 0

    def seconds_left(self, lease: Lease, *, began: float | None = None) -> float:
        """Return for how long the Lease lasts if it is not renewed; less than 0 if it has expired."""
        return self._first_seen(lease) + lease.seconds - (self._clock() if began is None else began)

    def _first_seen(self, lease: Lease) -> float:
        name, version = lease.metadata.name, lease.metadata.resource_version
        known, since = self._since.get(name, ("", 0.0))
        if known != version:
            since = self._clock()
        shown = self._sightings.first_seen(lease) if self._sightings is not None else None
        if shown is not None:
            since = min(since, shown)
        self._since[name] = (version, since)
        return since

    def keep_only(self, names: Iterable[str]) -> None:
        present = set(names)
        self._since = {name: seen for name, seen in self._since.items() if name in present}
