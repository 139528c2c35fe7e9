"""The phases of a gang: the table in the words of the module is the one that the code follows."""

from __future__ import annotations

from queues.quota import gang_life
from queues.quota.gang_life import GangEvent, GangPhase, next_phase


def written() -> dict[tuple[GangPhase, GangEvent], GangPhase | None]:
    """The table of the module's docstring."""
    lines = [line for line in (gang_life.__doc__ or "").splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    heading = next(row for row in rows if row[0] == "from")
    found = {}
    for row in rows[rows.index(heading) + 2 :]:
        for event, cell in zip(heading[1:], row[1:], strict=True):
            found[GangPhase[row[0]], GangEvent[event]] = GangPhase[cell] if cell else None
    return found


def test_the_table_is_what_happens() -> None:
    table = {(phase, event): next_phase(phase, event) for phase in GangPhase for event in GangEvent}
    assert written() == table


def test_a_gang_that_gives_back_or_pauses_is_not_asked_for() -> None:
    """Only what is gone leads on, and only the end of the pause leads to another try."""
    silent = {phase for phase in GangPhase if not phase.is_asked_for}
    assert silent == {GangPhase.GIVING_BACK, GangPhase.PAUSED}
    assert {event for event in GangEvent if next_phase(GangPhase.GIVING_BACK, event)} == {GangEvent.EMPTY}
    assert {event for event in GangEvent if next_phase(GangPhase.PAUSED, event)} == {GangEvent.RESUME}
