"""Who goes first when there is no room, and who is told that time is over."""

from dataclasses import dataclass, field

import pytest

from server.http.connections import ConnectionTable, Phase
from server.http.limits import Limits

LIMITS = Limits(
    connections=8, held_bytes=1000, owed_bytes=2000, handshake=1, request=2, reply=3, idle=4, parting=5
)
PATIENCE = {
    Phase.SHAKING: 1,
    Phase.RECEIVING: 2,
    Phase.SENDING: 3,
    Phase.FRESH: 4,
    Phase.IDLE: 4,
    Phase.PARTING: 5,
}


@dataclass(eq=False)
class Known:
    """A member that notes what it is told."""

    name: str
    told: list[object] = field(default_factory=list)
    owed: int = 0

    def overdue(self, phase: Phase) -> None:
        self.told.append(phase)

    def drop(self) -> None:
        self.told.append("drop")

    def part(self) -> None:
        self.told.append("part")

    def owes(self) -> int:
        return self.owed


@dataclass
class Clock:
    """A clock that stands still until it is moved."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def crowd_of(*phases: Phase, clock: Clock) -> tuple[ConnectionTable, list[Known]]:
    """One member in each of these phases, a second apart."""
    crowd, members = ConnectionTable(limits=LIMITS, clock=clock), [Known(phase.name) for phase in phases]
    for member, phase in zip(members, phases, strict=True):
        crowd.enter(member, phase)
        clock.now += 1
    return crowd, members


def dropped(members: list[Known]) -> list[int]:
    return [number for number, member in enumerate(members) if "drop" in member.told]


@pytest.mark.parametrize(
    ("phases", "goes"),
    [
        ([Phase.IDLE] * 8, 0),
        ([Phase.IDLE] * 7 + [Phase.PARTING], 7),
        ([Phase.IDLE] * 6 + [Phase.FRESH] * 2, 0),
        ([Phase.IDLE] * 5 + [Phase.FRESH] * 3, 5),
        ([Phase.IDLE] * 5 + [Phase.RECEIVING, Phase.SHAKING, Phase.FRESH], 5),
        ([Phase.SHAKING] * 8, 0),
    ],
)
def test_there_is_always_room_for_a_newcomer(phases: list[Phase], goes: int) -> None:
    """Who leaves goes first; then who is waited for, if they are above a quarter; else the oldest idle."""
    crowd, members = crowd_of(*phases, clock=Clock())
    newcomer = Known("newcomer")
    crowd.join(newcomer)
    assert (dropped(members), newcomer.told, len(crowd)) == ([goes], [], 8)
    assert crowd.dropped == 1


@pytest.mark.parametrize("phase", Phase)
def test_time_is_over_for_each_phase(phase: Phase) -> None:
    """Not before, and only for those who entered early enough."""
    clock = Clock()
    crowd, (first, second) = crowd_of(phase, phase, clock=clock)
    clock.now = PATIENCE[phase] - 0.1
    crowd.sweep()
    assert (first.told, second.told) == ([], [])
    clock.now = PATIENCE[phase]
    crowd.sweep()
    assert (first.told, second.told) == ([phase], [])


def test_entering_again_begins_anew() -> None:
    """Each request of a kept connection does so."""
    clock = Clock()
    crowd, (kept, other) = crowd_of(Phase.IDLE, Phase.IDLE, clock=clock)
    crowd.enter(kept, Phase.IDLE)
    clock.now = 5
    crowd.sweep()
    assert (kept.told, other.told) == ([], [Phase.IDLE])


def test_the_slowest_sender_goes_when_too_much_is_held() -> None:
    """Whoever it is that brings the last straw; what has left is no longer counted."""
    crowd, members = crowd_of(Phase.RECEIVING, Phase.RECEIVING, Phase.RECEIVING, clock=Clock())
    crowd.hold(members[2], 900)
    crowd.leave(members[2])
    crowd.hold(members[1], 900)
    assert dropped(members) == []
    crowd.hold(members[1], 1100)
    assert dropped(members) == [0]


def test_who_has_left_is_forgotten() -> None:
    """Twice is once."""
    crowd, (member,) = crowd_of(Phase.IDLE, clock=Clock())
    crowd.leave(member)
    crowd.leave(member)
    assert (len(crowd), crowd.phase(member), crowd.of(*Phase)) == (0, None, [])


def owe(crowd: ConnectionTable, member: Known, size: int) -> None:
    member.owed = size
    crowd.owe(member, size)


def test_beyond_what_may_be_owed_whoever_takes_least_goes() -> None:
    crowd, members = crowd_of(Phase.SENDING, Phase.RECEIVING, Phase.SENDING, clock=Clock())
    for member, size in zip(members, (900, 400, 600), strict=True):
        owe(crowd, member, size)
        crowd.enter(member, Phase.IDLE)
    assert dropped(members) == []
    owe(crowd, members[0], 700)
    owe(crowd, members[2], 1000)
    assert dropped(members) == [2]
    owe(crowd, members[2], 5000)
    owe(crowd, members[1], 1300)
    assert dropped(members) == [2], "who has gone owes nothing"
    owe(crowd, members[0], 0)
    crowd.leave(members[1])
    newcomer = Known("new")
    crowd.enter(newcomer, Phase.RECEIVING)
    owe(crowd, newcomer, 2000)
    assert (dropped(members), newcomer.told) == ([2], [])


def test_what_has_been_sent_meanwhile_is_not_owed() -> None:
    """A transport sends what it was given a moment later, and says nothing."""
    crowd, members = crowd_of(Phase.IDLE, Phase.IDLE, Phase.IDLE, clock=Clock())
    owe(crowd, members[0], 1500)
    members[0].owed = 0
    owe(crowd, members[1], 1500)
    assert dropped(members) == []
    owe(crowd, members[2], 600)
    assert dropped(members) == [1]
