"""Who goes first when there is no room, and who is told that time is over."""

from dataclasses import dataclass, field

from server.http.connection_table import ConnectionPhase, ConnectionTable
from server.http.limits import Limits
from tests.support.cases import each_case

LIMITS = Limits(
    connections=8,
    buffered_request_bytes=1000,
    unsent_response_bytes=2000,
    handshake_timeout=1,
    request_timeout=2,
    response_timeout=3,
    idle_timeout=4,
    linger_timeout=5,
)
TIMEOUTS = {
    ConnectionPhase.HANDSHAKE: 1,
    ConnectionPhase.RECEIVING: 2,
    ConnectionPhase.SENDING: 3,
    ConnectionPhase.NEW: 4,
    ConnectionPhase.IDLE: 4,
    ConnectionPhase.LINGERING: 5,
}


@dataclass(eq=False)
class RecordingConnection:
    """A member that notes what it is told."""

    name: str
    told: list[object] = field(default_factory=list)
    owed: int = 0

    def on_phase_timeout(self, phase: ConnectionPhase) -> None:
        self.told.append(phase)

    def abort(self) -> None:
        self.told.append("abort")

    def close(self) -> None:
        self.told.append("close")

    def unsent_bytes(self) -> int:
        return self.owed


@dataclass
class Clock:
    """A clock that stands still until it is moved."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def table_of(*phases: ConnectionPhase, clock: Clock) -> tuple[ConnectionTable, list[RecordingConnection]]:
    """One member in each of these phases, a second apart."""
    table, members = (
        ConnectionTable(limits=LIMITS, clock=clock),
        [RecordingConnection(phase.name) for phase in phases],
    )
    for member, phase in zip(members, phases, strict=True):
        table.set_phase(member, phase)
        clock.now += 1
    return table, members


def dropped(members: list[RecordingConnection]) -> list[int]:
    return [number for number, member in enumerate(members) if "abort" in member.told]


@each_case(
    ("phases", "goes"),
    [
        ([ConnectionPhase.IDLE] * 8, 0),
        ([ConnectionPhase.IDLE] * 7 + [ConnectionPhase.LINGERING], 7),
        ([ConnectionPhase.IDLE] * 6 + [ConnectionPhase.NEW] * 2, 0),
        ([ConnectionPhase.IDLE] * 5 + [ConnectionPhase.NEW] * 3, 5),
        (
            [ConnectionPhase.IDLE] * 5
            + [ConnectionPhase.RECEIVING, ConnectionPhase.HANDSHAKE, ConnectionPhase.NEW],
            5,
        ),
        ([ConnectionPhase.HANDSHAKE] * 8, 0),
    ],
)
def test_there_is_always_room_for_a_newcomer(phases: list[ConnectionPhase], goes: int) -> None:
    """Who leaves goes first; then who is waited for, if they are above a quarter; else the oldest idle."""
    table, members = table_of(*phases, clock=Clock())
    newcomer = RecordingConnection("newcomer")
    table.add(newcomer)
    assert (dropped(members), newcomer.told, len(table)) == ([goes], [], 8)
    assert table.evicted == 1


@each_case("phase", ConnectionPhase)
def test_time_is_over_for_each_phase(phase: ConnectionPhase) -> None:
    """Not before, and only for those who entered early enough."""
    clock = Clock()
    table, (first, second) = table_of(phase, phase, clock=clock)
    clock.now = TIMEOUTS[phase] - 0.1
    table.expire_phases()
    assert (first.told, second.told) == ([], [])
    clock.now = TIMEOUTS[phase]
    table.expire_phases()
    assert (first.told, second.told) == ([phase], [])


def test_entering_again_begins_anew() -> None:
    """Each request of a kept connection does so."""
    clock = Clock()
    table, (kept, other) = table_of(ConnectionPhase.IDLE, ConnectionPhase.IDLE, clock=clock)
    table.set_phase(kept, ConnectionPhase.IDLE)
    clock.now = 5
    table.expire_phases()
    assert (kept.told, other.told) == ([], [ConnectionPhase.IDLE])


def test_the_oldest_sender_is_aborted_when_too_much_is_buffered() -> None:
    """Whoever it is that brings the last straw; what has left is no longer counted."""
    table, members = table_of(
        ConnectionPhase.RECEIVING, ConnectionPhase.RECEIVING, ConnectionPhase.RECEIVING, clock=Clock()
    )
    table.set_buffered(members[2], 900)
    table.remove(members[2])
    table.set_buffered(members[1], 900)
    assert dropped(members) == []
    table.set_buffered(members[1], 1100)
    assert dropped(members) == [0]


def test_a_removed_connection_is_in_no_phase() -> None:
    """Twice is once."""
    table, (member,) = table_of(ConnectionPhase.IDLE, clock=Clock())
    table.remove(member)
    table.remove(member)
    assert (len(table), table.phase(member), table.in_phases(*ConnectionPhase)) == (0, None, [])


def set_unsent(table: ConnectionTable, member: RecordingConnection, size: int) -> None:
    member.owed = size
    table.set_unsent(member, size)


def test_beyond_the_bound_of_unsent_bytes_the_connection_with_most_is_aborted() -> None:
    table, members = table_of(
        ConnectionPhase.SENDING, ConnectionPhase.RECEIVING, ConnectionPhase.SENDING, clock=Clock()
    )
    for member, size in zip(members, (900, 400, 600), strict=True):
        set_unsent(table, member, size)
        table.set_phase(member, ConnectionPhase.IDLE)
    assert dropped(members) == []
    set_unsent(table, members[0], 700)
    set_unsent(table, members[2], 1000)
    assert dropped(members) == [2]
    set_unsent(table, members[2], 5000)
    set_unsent(table, members[1], 1300)
    assert dropped(members) == [2], "who has gone owes nothing"
    set_unsent(table, members[0], 0)
    table.remove(members[1])
    newcomer = RecordingConnection("new")
    table.set_phase(newcomer, ConnectionPhase.RECEIVING)
    set_unsent(table, newcomer, 2000)
    assert (dropped(members), newcomer.told) == ([2], [])


def test_bytes_that_were_sent_meanwhile_do_not_count_as_unsent() -> None:
    """A transport sends what it was given a moment later, and says nothing."""
    table, members = table_of(ConnectionPhase.IDLE, ConnectionPhase.IDLE, ConnectionPhase.IDLE, clock=Clock())
    set_unsent(table, members[0], 1500)
    members[0].owed = 0
    set_unsent(table, members[1], 1500)
    assert dropped(members) == []
    set_unsent(table, members[2], 600)
    assert dropped(members) == [1]
