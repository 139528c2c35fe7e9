"""Who is connected, for how long they may stay as they are, and who goes first when there is no room.

A phase's time-out is the same for all, so the order of entering is the order of expiring: a look at the front
of each phase finds who is overdue, however many there are.

When there is no room the newcomer is let in and another goes: whoever has kept us waiting longest, or, while
few do, whoever was idle longest. A real caller keeps nobody waiting for more than milliseconds and is not
idle for long, so a crowd that only holds its connections pushes out itself.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from typing import Protocol

from server.http.limits import Limits


class Phase(IntEnum):
    """What a connection is at."""

    LINGERING = 0  # answered for the last time
    HANDSHAKE = 1  # the TLS handshake is not finished
    NEW = 2  # it is, and nothing was ever asked
    RECEIVING = 3  # a request has begun
    SENDING = 4  # the caller does not take its reply
    IDLE = 5  # served, and may ask again


WAITING_PHASES = (Phase.HANDSHAKE, Phase.NEW, Phase.RECEIVING, Phase.SENDING)
_FREED_SHARE = 1 / 8
_WAITING_SHARE = 4  # they keep a quarter of the room, so that the idle cannot keep newcomers out


class TrackedConnection(Protocol):
    """One connection, as far as the crowd knows it."""

    def on_phase_timeout(self, phase: Phase) -> None:
        """Its time in the phase is over."""

    def abort(self) -> None:
        """Go now, without a word."""

    def close(self) -> None:
        """Go once what was written has been sent."""

    def unsent_bytes(self) -> int:
        """Bytes of answers that wait to be sent to it."""


def phase_timeouts(limits: Limits) -> Mapping[Phase, float]:
    """How many seconds a connection may stay in a phase."""
    return {
        Phase.LINGERING: limits.linger_timeout,
        Phase.HANDSHAKE: limits.handshake_timeout,
        Phase.NEW: limits.idle_timeout,
        Phase.RECEIVING: limits.request_timeout,
        Phase.SENDING: limits.response_timeout,
        Phase.IDLE: limits.idle_timeout,
    }


class ConnectionTable:
    """The connections of one worker. Owned by the loop's thread.

    Bounds: `limits.connections` connections; `limits.buffered_request_bytes` of unfinished requests, beyond
    which the connection that has been sending for longest is aborted; `limits.unsent_response_bytes` of
    responses that clients do not read, beyond which the connection with most of them is aborted.
    """

    def __init__(self, *, limits: Limits, clock: Callable[[], float]) -> None:
        self.evicted = 0  # for want of room, since the start
        self._limits = limits
        self._clock = clock
        self._timeouts = phase_timeouts(limits)
        self._since: dict[Phase, dict[TrackedConnection, float]] = {phase: {} for phase in Phase}
        self._phases: dict[TrackedConnection, Phase] = {}
        self._buffered: dict[TrackedConnection, int] = {}
        self._buffered_total = 0
        self._unsent: dict[TrackedConnection, int] = {}
        self._unsent_total = 0

    def __len__(self) -> int:
        return len(self._phases)

    def __iter__(self) -> Iterator[TrackedConnection]:
        return iter(list(self._phases))

    def in_phases(self, *phases: Phase) -> list[TrackedConnection]:
        """The members in these phases."""
        return [connection for phase in phases for connection in self._since[phase]]

    def phase(self, connection: TrackedConnection) -> Phase | None:
        """The phase the member is in; None if it has left."""
        return self._phases.get(connection)

    def add(self, connection: TrackedConnection) -> None:
        """Let it in, at the start of its handshake; if there is no room, somebody else goes."""
        if len(self._phases) >= self._limits.connections:
            self.evict_one()
        self.set_phase(connection, Phase.HANDSHAKE)

    def set_phase(self, connection: TrackedConnection, phase: Phase) -> None:
        """The member's time in the phase starts now, even if it was in it."""
        self._clear_phase(connection)
        self._phases[connection] = phase
        self._since[phase][connection] = self._clock()

    def remove(self, connection: TrackedConnection) -> None:
        """Forget it. Nothing happens if it is not here."""
        self._clear_phase(connection)
        self._unsent_total -= self._unsent.pop(connection, 0)

    def _clear_phase(self, connection: TrackedConnection) -> None:
        phase = self._phases.pop(connection, None)
        if phase is not None:
            del self._since[phase][connection]
        self._buffered_total -= self._buffered.pop(connection, 0)

    def set_buffered(self, connection: TrackedConnection, size: int) -> None:
        """So much of its unfinished request is held, until it enters another phase."""
        self._buffered_total += size - self._buffered.get(connection, 0)
        self._buffered[connection] = size
        if self._buffered_total > self._limits.buffered_request_bytes:
            self._evict_oldest(Phase.RECEIVING)

    def set_unsent(self, connection: TrackedConnection, size: int) -> None:
        """So much of our answers waits to be sent to it.

        What a transport was just given it sends a moment later: before anyone goes, all are asked again.
        """
        if connection not in self._phases or not (size or connection in self._unsent):
            return
        self._store_unsent(connection, size)
        if self._unsent_total <= self._limits.unsent_response_bytes:
            return
        for each in list(self._unsent):
            self._store_unsent(each, each.unsent_bytes())
        if self._unsent_total > self._limits.unsent_response_bytes:
            self._evict_largest_unsent()

    def _evict_largest_unsent(self) -> None:
        """Until there is some room: asking all again costs, and is not to be done with each answer."""
        while self._unsent_total > self._limits.unsent_response_bytes * (1 - _FREED_SHARE):
            most = max(self._unsent, key=self._unsent.__getitem__)
            self.evicted += 1
            self.remove(most)
            most.abort()

    def _store_unsent(self, connection: TrackedConnection, size: int) -> None:
        self._unsent_total += size - self._unsent.pop(connection, 0)
        if size:
            self._unsent[connection] = size

    def evict_one(self) -> None:
        """Drop the most dispensable, if there is anybody."""
        waiting_phases = [phase for phase in WAITING_PHASES if self._since[phase]]
        if self._since[Phase.LINGERING]:
            self._evict_oldest(Phase.LINGERING)
        elif self._since[Phase.IDLE] and not self._many_waiting():
            self._evict_oldest(Phase.IDLE)
        elif waiting_phases:
            self._evict_oldest(min(waiting_phases, key=lambda phase: next(iter(self._since[phase].values()))))

    def _many_waiting(self) -> bool:
        waiting = sum(len(self._since[phase]) for phase in WAITING_PHASES)
        return waiting * _WAITING_SHARE > self._limits.connections

    def _evict_oldest(self, phase: Phase) -> None:
        connection = next(iter(self._since[phase]), None)
        if connection is not None:
            self.evicted += 1
            self.remove(connection)
            connection.abort()

    def expire_phases(self) -> None:
        """Tell everyone whose time is over."""
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
