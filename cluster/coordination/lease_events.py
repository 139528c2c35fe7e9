"""What the watch of the Leases shows, and what it remembers of those that are gone.

The watch passes on what a replica has reported, as soon as that is known. A list (`replicas`) shows which
Leases exist at its version. It does not show a Lease that was created and deleted between two lists, though
its replica may still answer. The watch shows every one.

Invariants
- Each Lease of a replica that the watch has shown is in `shown` until `OtherReplicas.read` has accounted for
  it, also after its deletion. A Lease that was created anew by the same name is another one (its uid).
- `shown` is changed before the watch counts as being at that version (`WatchProgress.applied`). A reader that
  takes the version of the watch first, and `shown` second, has all Leases up to that version.
- A list of the watch itself (its first one, and one after a gap) hides what was deleted before it. A replica
  whose Lease was deleted then may answer until `certain_at`.

Threads: the reflector's records; any may read `shown`, `certain_at` and `gaps`, and call `forget`. `listen`
is called before the reflector starts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cluster.coordination.leases import LEASE_SECONDS, Lease, LeaseSightings
from cluster.coordination.replica_lease import PREFIX, SEEN_ANNOTATION, LeaseKey, key_of


@dataclass(frozen=True, slots=True)
class ShownLease:
    """The last state of a Lease that the watch has shown. `gone_at`: when the watch showed that it is gone,
    in monotonic seconds; infinity if it is there.
    """

    lease: Lease
    gone_at: float = math.inf


class LeaseEvents:
    """The event handler of the Leases (`cluster.informers`).

    The Leases that are no replica's, the leader's among them, are watched for `sightings` alone.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.sightings = LeaseSightings(clock)
        self._listeners: list[Callable[[Lease | None], object]] = []
        #: The last report of each, so that renewals alone are not passed on.
        self._reports: dict[str, str] = {}
        self._shown: dict[LeaseKey, ShownLease] = {}
        #: From when on no replica answers whose Lease was deleted before the watch began, in monotonic
        #: seconds.
        self.certain_at = math.inf
        #: How many lists the watch has taken.
        self.gaps = 0

    def listen(self, listener: Callable[[Lease | None], object]) -> None:
        """Add a callback: it is given a Lease whose report has changed, and None if one is gone."""
        self._listeners.append(listener)

    def shown(self) -> dict[LeaseKey, ShownLease]:
        """Return the Leases of replicas that are not accounted for, or are there."""
        return self._shown.copy()

    def forget(self, keys: Iterable[LeaseKey]) -> None:
        """Forget Leases that are gone and accounted for."""
        for key in keys:
            self._shown.pop(key, None)

    # The reflector's thread

    def replace(self, objects: list[Lease]) -> None:
        now = self._clock()
        self.certain_at = now + LEASE_SECONDS
        self.gaps += 1
        present = {key_of(lease) for lease in objects}
        for key, shown in self.shown().items():
            if key not in present and shown.gone_at == math.inf:
                self._shown[key] = ShownLease(shown.lease, now)
        names = {lease.metadata.name for lease in objects}
        gone = self._reports.keys() - names
        self.sightings.keep_only(names)
        for lease in objects:
            self.upsert(lease)
        for name in gone:
            self._pass_on_gone(name)

    def upsert(self, obj: Lease) -> None:
        self.sightings.record(obj)
        name, report = obj.metadata.name, obj.metadata.annotation(SEEN_ANNOTATION)
        if not name.startswith(PREFIX):
            return
        self._shown[key_of(obj)] = ShownLease(obj)
        if self._reports.get(name) != report:
            self._reports[name] = report
            self._pass_on(obj)

    def remove(self, obj: Lease) -> None:
        """`obj`: its last state, which says whether its replica had ended before."""
        key = key_of(obj)
        if key in self._shown:
            self._shown[key] = ShownLease(obj, self._clock())
        self._pass_on_gone(obj.metadata.name)

    def _pass_on_gone(self, name: str) -> None:
        self.sightings.forget(name)
        if self._reports.pop(name, None) is not None:
            self._pass_on(None)

    def _pass_on(self, lease: Lease | None) -> None:
        for listener in self._listeners:
            listener(lease)
