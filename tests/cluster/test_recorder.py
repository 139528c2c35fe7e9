"""How many events are written: of one limit, of all together, and whatever others have taken."""

from __future__ import annotations

from collections import Counter

import pytest

from cluster.metrics import Metrics
from cluster.object_reference import ObjectReference
from cluster.recorder import ALL_BURST, ALL_PER_SECOND, BURST, FIRST, PER_SECOND, EventRecorder


class Written:
    """Takes what is submitted; time stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.names: list[str] = []
        self.recorder = EventRecorder(
            client=None,  # type: ignore[arg-type]  # nothing is sent
            writers=self,  # type: ignore[arg-type]
            metrics=Metrics(),
            clock=lambda: self.now,
        )

    def submit(self, key: tuple[str, str], *_: object, **__: object) -> bool:
        self.names.append(key[1].split(".")[0])
        return True

    def record(self, queue: str, *, times: int = 1, limit: str | None = None) -> int:
        """Record so many events on as many pods; return how many were written."""
        before = len(self.names)
        for number in range(times):
            uid = f"{queue}-{len(self.names)}-{number}-{self.now}"
            subject = ObjectReference(api_version="v1", kind="Pod", name=queue, uid=uid, namespace="team")
            self.recorder.record(
                subject,
                reason="QueueSuspended",
                message="x",
                rate_limit_key=queue if limit is None else limit,
            )
        return len(self.names) - before


@pytest.fixture
def written() -> Written:
    return Written()


def test_a_queue_has_its_burst_and_then_its_rate(written: Written) -> None:
    assert written.record("research", times=200) == BURST
    written.now = 2.0
    assert written.record("research", times=200) == 2 * PER_SECOND


def test_a_stop_of_hundreds_of_queues_makes_no_storm_and_leaves_none_silent(written: Written) -> None:
    queues = [f"q{number}" for number in range(800)]
    for queue in queues:
        written.record(queue, times=36)
    each = Counter(written.names)
    assert sum(each.values()) == ALL_BURST + FIRST * len(queues)
    assert min(each[queue] for queue in queues) == FIRST


def test_after_a_storm_the_rate_of_all_counts_and_the_first_of_a_quiet_queue_do_not(written: Written) -> None:
    for number in range(40):
        written.record(f"q{number}", times=100)
    assert written.record("quiet", times=10) == FIRST
    written.now = 1.0
    more = [written.record(f"q{number}", times=100) for number in range(40)]
    assert sum(more) == ALL_PER_SECOND
    written.now = 1.0 + BURST / PER_SECOND
    assert written.record("quiet", times=int(FIRST)) == FIRST


def test_what_has_no_limit_takes_nothing_of_others(written: Written) -> None:
    assert written.record("edited", times=5000, limit="") == 5000
    assert written.record("research", times=60) == BURST
