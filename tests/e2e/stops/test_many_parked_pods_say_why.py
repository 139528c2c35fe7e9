"""More parked pods than a queue may make events for each say why, and few of them with an event."""

from __future__ import annotations

from datetime import datetime

from cluster.recorder import BURST, PER_SECOND
from tests.support.e2e.objects import suspended_text, why
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until

#: More than a burst.
PODS = 120
DROPPED = r'sluice_events_total\{outcome="dropped"\}'


def test_each_of_many_parked_pods_says_why_and_few_make_an_event(sandbox: Sandbox) -> None:
    """The condition is each pod's own. Of events there is a burst, and then a few a second, by their own
    times; the rest is counted as dropped."""
    queue = sandbox.queue()
    sandbox.suspend(queue)
    before = sandbox.counted(DROPPED)
    sandbox.pods("parked", PODS, queue)
    text = suspended_text(queue)
    until(lambda: saying(sandbox, text) == PODS, f"{PODS} pods to say why")

    def are_written_or_dropped() -> bool:
        # Repetitions, and events of other queues, are dropped and counted as well.
        written = len(told(sandbox))
        return written >= BURST and written + sandbox.counted(DROPPED) - before >= PODS

    until(are_written_or_dropped, "the events to be written or dropped")
    times = told(sandbox)
    assert BURST <= len(times) <= affordable(times)
    assert sandbox.counted(DROPPED) > before


def saying(sandbox: Sandbox, text: str) -> int:
    return sum(why(pod) == text for pod in sandbox.read_pods().values())


def told(sandbox: Sandbox) -> list[datetime]:
    """When each event of these pods was recorded."""
    items = sandbox.api.get(f"{sandbox.home}/events?fieldSelector=reason=QueueSuspended").must().body["items"]
    return [datetime.fromisoformat(each["firstTimestamp"]) for each in items]


def affordable(times: list[datetime]) -> float:
    """What the budget of one queue allows from the first of these times to the last, which are whole
    seconds."""
    seconds = (max(times) - min(times)).total_seconds() + 1
    return BURST + PER_SECOND * seconds
