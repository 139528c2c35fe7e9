"""Elects the leader: the one replica whose controller writes.

Invariants
- `leading` is True for at most one replica at a time, unless somebody deletes or edits the Lease. It ends
  `MARGIN_SECONDS` before another replica may take the Lease, by our own monotonic clock, counted from before
  the last renewal was sent; and as soon as another holder is seen.
- A Lease that is gone, and that was held by another replica when it was seen last, is created only once it
  would have expired: somebody may have deleted it, and its holder leads until it notices.
- Without the API server it ends by the passing of time alone; no thread has to notice.
- Another replica takes the Lease as soon as it has expired: the tries are `RETRY_SECONDS` apart, and one is
  made when the Lease ends.
- `stop()` releases the Lease, so that another replica need not wait until it expires. A replica that is not
  `eligible` (it has not read the cluster and could not lead) releases it too, and takes none. A write whose
  answer was lost may have taken the Lease: it is released like one that is known to be ours.

The protocol is client-go's leader election.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable

from cluster.background_thread import BackgroundThread
from cluster.coordination.leases import (
    LEASE_SECONDS,
    MARGIN_SECONDS,
    Lease,
    Leases,
    LeaseSightings,
    ObservedLease,
)
from cluster.exceptions import ClusterError, Conflict, NotFound

LEASE_NAME = "sluice-controller"
RETRY_SECONDS = 1.5
#: So long after its end a Lease is taken.
EXPIRED_SECONDS = 0.01
#: How often `eligible` is checked.
ELIGIBLE_SECONDS = 0.05

log = logging.getLogger(__name__)


class LeaderElector:
    """Tries to get the Lease, in a thread of its own. Owner: the server."""

    def __init__(
        self,
        leases: Leases,
        *,
        identity: str,
        clock: Callable[[], float],
        eligible: Callable[[], bool] = lambda: True,
        sightings: LeaseSightings | None = None,
    ) -> None:
        """`sightings`: what the watch of the Leases shows."""
        self._eligible = eligible
        self._leases = leases
        self._identity = identity
        self._clock = clock
        self._listeners: list[Callable[[], object]] = []
        self._observed = ObservedLease(clock, sightings=sightings)
        self._leading_until = 0.0
        #: Whether the Lease may be ours: a write of it was sent, and we have not seen another holder since.
        self._may_hold = False
        #: Until when the holder that was seen last relies upon the Lease, in monotonic seconds.
        self._held_until = -math.inf
        #: How long the Lease of another leader lasts if it is not renewed; infinity if there is none.
        self._other_lasts = math.inf
        #: How many times this replica became leader; counted before `leading` is True.
        self.term = 0
        self._stopped = threading.Event()
        self._thread = BackgroundThread(self._run, name="elector")

    @property
    def leading(self) -> bool:
        return self._clock() < self._leading_until

    @property
    def running(self) -> bool:
        return self._thread.alive

    def add_listener(self, elected: Callable[[], object]) -> None:
        """Add a callback; it is called in the elector's thread each time that this replica becomes leader."""
        self._listeners.append(elected)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        while not self._stopped.is_set():
            if self._eligible():
                has_failed = not self._try_acquire()
                lasts = RETRY_SECONDS if has_failed else self._other_lasts + EXPIRED_SECONDS
                self._stopped.wait(min(RETRY_SECONDS, lasts))
            else:
                self._give_up()
                self._observe_leader()
        self._give_up()

    def _observe_leader(self) -> None:
        """Observe the Lease, so that a dead leader is known to be dead once we are eligible.

        Returns when we are, or after `RETRY_SECONDS`.
        """
        try:
            self._is_free(self._leases.get(LEASE_NAME))
        except NotFound:
            pass
        except ClusterError as exc:
            log.warning("the leader's Lease: %s", exc)
        except Exception:
            log.exception("the leader's Lease")
        end = self._clock() + RETRY_SECONDS
        while not self._eligible() and self._clock() < end and not self._stopped.is_set():
            self._stopped.wait(ELIGIBLE_SECONDS)

    def _try_acquire(self) -> bool:
        """Renew or take the Lease if it is free; return False if a request failed."""
        was_leading, began = self.leading, self._clock()
        self._other_lasts = math.inf
        try:
            has_lease = self._acquire_or_renew()
        except Conflict:
            return False
        except ClusterError as exc:
            log.warning("the leader's Lease: %s", exc)
            return False
        except Exception:
            log.exception("the leader's Lease")
            return False
        if has_lease and self._stopped.is_set():
            self._release()
        elif has_lease:
            self.term += not was_leading
            self._leading_until = began + LEASE_SECONDS - MARGIN_SECONDS
            if not was_leading:
                log.info("%s leads", self._identity)
                for listener in self._listeners:
                    listener()
        return True

    def _acquire_or_renew(self) -> bool:
        """Renew or take the Lease; return whether it is ours now."""
        try:
            lease = self._leases.get(LEASE_NAME)
        except NotFound:
            if self._is_held_by_another():
                return False
            self._may_hold = True
            self._leases.create(LEASE_NAME, holder=self._identity, seconds=LEASE_SECONDS, extra={})
            return True
        if not self._is_free(lease):
            self._may_hold = False
            self._leading_until = 0.0
            return False
        self._may_hold = True
        self._leases.renew(
            LEASE_NAME,
            holder=self._identity,
            seconds=LEASE_SECONDS,
            extra={},
            version=lease.metadata.resource_version,
        )
        return True

    def _is_free(self, lease: Lease) -> bool:
        self._held_until = -math.inf
        if lease.holder in {"", self._identity}:
            return True
        self._held_until = self._clock() + self._observed.seconds_left(lease)
        return not self._is_held_by_another()

    def _is_held_by_another(self) -> bool:
        """Whether the holder of the Lease that was seen last, or of one that is gone, may still lead."""
        seconds = self._held_until - self._clock()
        if seconds < 0:
            return False
        self._other_lasts = seconds
        return True

    def _give_up(self) -> None:
        if self.leading or self._may_hold:
            self._release()

    def _release(self) -> None:
        self._leading_until = 0.0
        try:
            lease = self._leases.get(LEASE_NAME)
            if lease.holder == self._identity:
                version = lease.metadata.resource_version
                self._leases.renew(LEASE_NAME, holder="", seconds=1, extra={}, version=version)
            self._may_hold = False
        except ClusterError as exc:
            log.warning("the leader's Lease could not be given up: %s", exc)
        except Exception:
            log.exception("the leader's Lease could not be given up")
