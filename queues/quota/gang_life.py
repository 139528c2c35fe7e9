"""The life of a gang whose minimum is released whole: its phases, and which event leads from one to the next.

| phase       | the gang                                                       | is asked for         |
|-------------|----------------------------------------------------------------|----------------------|
| ASKED       | waits for room, once all pods of its minimum may go            | its minimum          |
| RELEASED    | was released, or room is kept until its pods exist. Its time   | what completes it    |
|             | runs                                                           |                      |
| PLACED      | has its minimum on nodes                                       | pods beyond that     |
| GIVING_BACK | loses what it was released for                                 | nothing              |
| PAUSED      | has lost it, and waits for another try                         | nothing              |

| event    | what has happened                                                                     |
|----------|---------------------------------------------------------------------------------------|
| RELEASE  | the minimum, or what was missing of it, was released; or room is kept for it          |
| COMPLETE | the minimum is on nodes                                                               |
| EXPIRE   | its time is over, and it is the one to give back (`gang_rivals`)                      |
| EMPTY    | nothing of it counts any more, and none of its releases is under way                  |
| RESUME   | its pause is over                                                                     |
| CANCEL   | no room is kept for it any more                                                       |

| from        | RELEASE  | COMPLETE | EXPIRE      | EMPTY  | RESUME | CANCEL |
|-------------|----------|----------|-------------|--------|--------|--------|
| ASKED       | RELEASED | PLACED   |             |        |        |        |
| RELEASED    | RELEASED | PLACED   | GIVING_BACK |        |        | ASKED  |
| PLACED      | RELEASED | PLACED   |             |        |        |        |
| GIVING_BACK |          |          |             | PAUSED |        |        |
| PAUSED      |          |          |             |        | ASKED  |        |

An empty cell: nothing happens. In each phase the gang may be deleted; then nothing is remembered of it.

Invariant: a gang in GIVING_BACK or PAUSED is not asked for, also if its pods are made again at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, unique


@unique
class GangPhase(Enum):
    ASKED = "asked"
    RELEASED = "released"
    PLACED = "placed"
    GIVING_BACK = "giving-back"
    PAUSED = "paused"

    @property
    def is_asked_for(self) -> bool:
        """Whether something of the gang may be asked for."""
        return self not in _NOT_ASKED_FOR


_NOT_ASKED_FOR = frozenset({GangPhase.GIVING_BACK, GangPhase.PAUSED})


@unique
class GangEvent(Enum):
    RELEASE = "release"
    COMPLETE = "complete"
    EXPIRE = "expire"
    EMPTY = "empty"
    RESUME = "resume"
    CANCEL = "cancel"


_NEXT: Mapping[GangEvent, Mapping[GangPhase, GangPhase]] = {
    GangEvent.RELEASE: dict.fromkeys(
        (GangPhase.ASKED, GangPhase.RELEASED, GangPhase.PLACED), GangPhase.RELEASED
    ),
    GangEvent.COMPLETE: dict.fromkeys(
        (GangPhase.ASKED, GangPhase.RELEASED, GangPhase.PLACED), GangPhase.PLACED
    ),
    GangEvent.EXPIRE: {GangPhase.RELEASED: GangPhase.GIVING_BACK},
    GangEvent.EMPTY: {GangPhase.GIVING_BACK: GangPhase.PAUSED},
    GangEvent.RESUME: {GangPhase.PAUSED: GangPhase.ASKED},
    GangEvent.CANCEL: {GangPhase.RELEASED: GangPhase.ASKED},
}


def next_phase(phase: GangPhase, event: GangEvent) -> GangPhase | None:
    """The phase that follows; None: nothing happens."""
    return _NEXT[event].get(phase)
