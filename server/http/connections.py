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

    PARTING = 0  # answered for the last time
    SHAKING = 1  # the TLS handshake is not finished
    FRESH = 2  # it is, and nothing was ever asked
    RECEIVING = 3  # a request has begun
    SENDING = 4  # the caller does not take its reply
    IDLE = 5  # served, and may ask again


WAITED_FOR = (Phase.SHAKING, Phase.FRESH, Phase.RECEIVING, Phase.SENDING)
_SPARE_OWED = 1 / 8
_SHARE_WAITED_FOR = 4  # they keep a quarter of the room, so that the idle cannot keep newcomers out


class Member(Protocol):
    """One connection, as far as the crowd knows it."""

    def overdue(self, phase: Phase) -> None:
        """Its time in the phase is over."""

    def drop(self) -> None:
        """Go now, without a word."""

    def part(self) -> None:
        """Go once what was written has been sent."""

    def owes(self) -> int:
        """Bytes of answers that wait to be sent to it."""


def patience_of(limits: Limits) -> Mapping[Phase, float]:
    """How many seconds a connection may stay in a phase."""
    return {
        Phase.PARTING: limits.parting,
        Phase.SHAKING: limits.handshake,
        Phase.FRESH: limits.idle,
        Phase.RECEIVING: limits.request,
        Phase.SENDING: limits.reply,
        Phase.IDLE: limits.idle,
    }


class ConnectionTable:
    """The connections of one worker. Owned by the loop's thread.

    Never holds more than `limits.connections` members, nor more than `limits.held_bytes` of unfinished
    requests: beyond that the slowest sender goes. Nor more than `limits.owed_bytes` of answers that are not
    taken: beyond that whoever leaves most of them goes.
    """

    def __init__(self, *, limits: Limits, clock: Callable[[], float]) -> None:
        self.dropped = 0  # for want of room, since the start
        self._limits = limits
        self._clock = clock
        self._patience = patience_of(limits)
        self._since: dict[Phase, dict[Member, float]] = {phase: {} for phase in Phase}
        self._phases: dict[Member, Phase] = {}
        self._held: dict[Member, int] = {}
        self._held_in_all = 0
        self._owed: dict[Member, int] = {}
        self._owed_in_all = 0

    def __len__(self) -> int:
        return len(self._phases)

    def __iter__(self) -> Iterator[Member]:
        return iter(list(self._phases))

    def of(self, *phases: Phase) -> list[Member]:
        """The members in these phases."""
        return [member for phase in phases for member in self._since[phase]]

    def phase(self, member: Member) -> Phase | None:
        """The phase the member is in; None if it has left."""
        return self._phases.get(member)

    def join(self, member: Member) -> None:
        """Let it in, at the start of its handshake; if there is no room, somebody else goes."""
        if len(self._phases) >= self._limits.connections:
            self.make_room()
        self.enter(member, Phase.SHAKING)

    def enter(self, member: Member, phase: Phase) -> None:
        """The member's time in the phase starts now, even if it was in it."""
        self._step_out(member)
        self._phases[member] = phase
        self._since[phase][member] = self._clock()

    def leave(self, member: Member) -> None:
        """Forget it. Nothing happens if it is not here."""
        self._step_out(member)
        self._owed_in_all -= self._owed.pop(member, 0)

    def _step_out(self, member: Member) -> None:
        phase = self._phases.pop(member, None)
        if phase is not None:
            del self._since[phase][member]
        self._held_in_all -= self._held.pop(member, 0)

    def hold(self, member: Member, size: int) -> None:
        """So much of its unfinished request is held, until it enters another phase."""
        self._held_in_all += size - self._held.get(member, 0)
        self._held[member] = size
        if self._held_in_all > self._limits.held_bytes:
            self._drop_first(Phase.RECEIVING)

    def owe(self, member: Member, size: int) -> None:
        """So much of our answers waits to be sent to it.

        What a transport was just given it sends a moment later: before anyone goes, all are asked again.
        """
        if member not in self._phases or not (size or member in self._owed):
            return
        self._set_owed(member, size)
        if self._owed_in_all <= self._limits.owed_bytes:
            return
        for each in list(self._owed):
            self._set_owed(each, each.owes())
        if self._owed_in_all > self._limits.owed_bytes:
            self._drop_those_owed_most()

    def _drop_those_owed_most(self) -> None:
        """Until there is some room: asking all again costs, and is not to be done with each answer."""
        while self._owed_in_all > self._limits.owed_bytes * (1 - _SPARE_OWED):
            most = max(self._owed, key=self._owed.__getitem__)
            self.dropped += 1
            self.leave(most)
            most.drop()

    def _set_owed(self, member: Member, size: int) -> None:
        self._owed_in_all += size - self._owed.pop(member, 0)
        if size:
            self._owed[member] = size

    def make_room(self) -> None:
        """Drop the most dispensable, if there is anybody."""
        waited_for = [phase for phase in WAITED_FOR if self._since[phase]]
        if self._since[Phase.PARTING]:
            self._drop_first(Phase.PARTING)
        elif self._since[Phase.IDLE] and not self._many_waited_for():
            self._drop_first(Phase.IDLE)
        elif waited_for:
            self._drop_first(min(waited_for, key=lambda phase: next(iter(self._since[phase].values()))))

    def _many_waited_for(self) -> bool:
        waiting = sum(len(self._since[phase]) for phase in WAITED_FOR)
        return waiting * _SHARE_WAITED_FOR > self._limits.connections

    def _drop_first(self, phase: Phase) -> None:
        member = next(iter(self._since[phase]), None)
        if member is not None:
            self.dropped += 1
            self.leave(member)
            member.drop()

    def sweep(self) -> None:
        """Tell everyone whose time is over."""
        now = self._clock()
        for phase, since in self._since.items():
            limit = now - self._patience[phase]
            late = []
            for member, entered in since.items():
                if entered > limit:
                    break
                late.append(member)
            for member in late:
                member.overdue(phase)
