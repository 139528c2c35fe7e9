"""All connections of a worker: their phases and time-outs, and which one is aborted when there is no room.

A phase has the same time-out for all connections, so they expire in the order in which they entered it:
`expire_phases` reads only the front of each phase, however many connections there are.

When there is no room a new connection is accepted and another one is aborted: the one that we have waited for
longest, or the one that was idle longest while we wait for few. A real client lets us wait for milliseconds
at most and is not idle for long, so clients that only keep connections open push out each other.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from typing import Protocol

from server.http.limits import Limits


class ConnectionPhase(IntEnum):
    """The phase of a connection."""

    LINGERING = 0  # has been sent its last response
    HANDSHAKE = 1  # the TLS handshake is not finished
    NEW = 2  # no request has begun yet
    RECEIVING = 3  # a request has begun
    SENDING = 4  # the client does not read its response
    IDLE = 5  # waits for the next request


#: In these we wait for the client.
WAITING_PHASES = (
    ConnectionPhase.HANDSHAKE,
    ConnectionPhase.NEW,
    ConnectionPhase.RECEIVING,
    ConnectionPhase.SENDING,
)
#: How much below the limit unsent responses are brought, so that not every response has to recount them.
_FREED_SHARE = 1 / 8
#: A quarter of the room is for connections that we wait for, so that idle ones cannot keep new ones out.
_WAITING_SHARE = 4


class TrackedConnection(Protocol):
    """A connection, as the table uses it."""

    def on_phase_timeout(self, phase: ConnectionPhase) -> None:
        """The connection has been in this phase for too long."""

    def abort(self) -> None:
        """Close at once, and drop what was not sent."""

    def close(self) -> None:
        """Close once what was written has been sent."""

    def unsent_bytes(self) -> int:
        """Bytes of responses that wait to be sent."""


def phase_timeouts(limits: Limits) -> Mapping[ConnectionPhase, float]:
    """How many seconds a connection may stay in a phase."""
    return {
        ConnectionPhase.LINGERING: limits.linger_timeout,
        ConnectionPhase.HANDSHAKE: limits.handshake_timeout,
        ConnectionPhase.NEW: limits.idle_timeout,
        ConnectionPhase.RECEIVING: limits.request_timeout,
        ConnectionPhase.SENDING: limits.response_timeout,
        ConnectionPhase.IDLE: limits.idle_timeout,
    }


class ConnectionTable:
    """The connections of one worker. Owned by the loop's thread.

    Bounds: `limits.connections` connections; `limits.buffered_request_bytes` of unfinished requests, beyond
    which the connection that has been sending for longest is aborted; `limits.unsent_response_bytes` of
    responses that clients do not read, beyond which the connection with most of them is aborted.
    """

    def __init__(self, *, limits: Limits, clock: Callable[[], float]) -> None:
        self.evicted = 0  # aborted because there was no room, since the start
        self._limits = limits
        self._clock = clock
        self._timeouts = phase_timeouts(limits)
        self._since: dict[ConnectionPhase, dict[TrackedConnection, float]] = {
            phase: {} for phase in ConnectionPhase
        }
        self._phases: dict[TrackedConnection, ConnectionPhase] = {}
        self._buffered: dict[TrackedConnection, int] = {}
        self._buffered_total = 0
        self._unsent: dict[TrackedConnection, int] = {}
        self._unsent_total = 0

    def __len__(self) -> int:
        return len(self._phases)

    def __iter__(self) -> Iterator[TrackedConnection]:
        return iter(list(self._phases))

    def in_phases(self, *phases: ConnectionPhase) -> list[TrackedConnection]:
        """The connections in these phases."""
        return [connection for phase in phases for connection in self._since[phase]]

    def phase(self, connection: TrackedConnection) -> ConnectionPhase | None:
        """The phase of the connection; None if it is not in the table."""
        return self._phases.get(connection)

    def add(self, connection: TrackedConnection) -> None:
        """Add a connection with phase HANDSHAKE; without room another one is aborted."""
        if len(self._phases) >= self._limits.connections:
            self.evict_one()
        self.set_phase(connection, ConnectionPhase.HANDSHAKE)

    def set_phase(self, connection: TrackedConnection, phase: ConnectionPhase) -> None:
        """The connection's time in the phase starts now, even if it was in this phase."""
        self._clear_phase(connection)
        self._phases[connection] = phase
        self._since[phase][connection] = self._clock()

    def remove(self, connection: TrackedConnection) -> None:
        """Remove the connection. Nothing happens if it is not in the table."""
        self._clear_phase(connection)
        self._unsent_total -= self._unsent.pop(connection, 0)

    def _clear_phase(self, connection: TrackedConnection) -> None:
        phase = self._phases.pop(connection, None)
        if phase is not None:
            del self._since[phase][connection]
        self._buffered_total -= self._buffered.pop(connection, 0)

    def set_buffered(self, connection: TrackedConnection, size: int) -> None:
        """The size of its unfinished request, until it enters another phase."""
        self._buffered_total += size - self._buffered.get(connection, 0)
        self._buffered[connection] = size
        if self._buffered_total > self._limits.buffered_request_bytes:
            self._evict_oldest(ConnectionPhase.RECEIVING)

    def set_unsent(self, connection: TrackedConnection, size: int) -> None:
        """The size of its responses that wait to be sent.

        A transport sends a moment after it was given bytes: before a connection is aborted, all are counted
        again.
        """
        if connection not in self._phases or not (size or connection in self._unsent):
            return
        self._store_unsent(connection, size)
        if self._unsent_total <= self._limits.unsent_response_bytes:
            return
        for other in list(self._unsent):
            self._store_unsent(other, other.unsent_bytes())
        if self._unsent_total > self._limits.unsent_response_bytes:
            self._evict_largest_unsent()

    def _evict_largest_unsent(self) -> None:
        """Abort until there is some room.

        Counting all again costs, and must not happen with each response.
        """
        while self._unsent_total > self._limits.unsent_response_bytes * (1 - _FREED_SHARE):
            largest = max(self._unsent, key=self._unsent.__getitem__)
            self.evicted += 1
            self.remove(largest)
            largest.abort()

    def _store_unsent(self, connection: TrackedConnection, size: int) -> None:
        self._unsent_total += size - self._unsent.pop(connection, 0)
        if size:
            self._unsent[connection] = size

    def evict_one(self) -> None:
        """Abort the most dispensable connection, if there is any."""
        waiting_phases = [phase for phase in WAITING_PHASES if self._since[phase]]
        if self._since[ConnectionPhase.LINGERING]:
            self._evict_oldest(ConnectionPhase.LINGERING)
        elif self._since[ConnectionPhase.IDLE] and not self._many_waiting():
            self._evict_oldest(ConnectionPhase.IDLE)
        elif waiting_phases:
            self._evict_oldest(min(waiting_phases, key=lambda phase: next(iter(self._since[phase].values()))))

    def _many_waiting(self) -> bool:
        waiting = sum(len(self._since[phase]) for phase in WAITING_PHASES)
        return waiting * _WAITING_SHARE > self._limits.connections

    def _evict_oldest(self, phase: ConnectionPhase) -> None:
        connection = next(iter(self._since[phase]), None)
        if connection is not None:
            self.evicted += 1
            self.remove(connection)
            connection.abort()

    def expire_phases(self) -> None:
        """Call `on_phase_timeout` of each connection that has been in its phase for too long."""
        now = self._clock()
        for phase, since in self._since.items():
            limit = now - self._timeouts[phase]
            late = []
            for connection, entered in since.items():
                if entered > limit:
                    break
                late.append(connection)
            for connection in late:
                connection.on_phase_timeout(phase)
