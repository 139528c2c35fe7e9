"""The work of the picture of shares: who is to be created, and who has run for long enough."""

from __future__ import annotations

from collections import Counter

from benchmarks.objects import NAMED_BY
from benchmarks.quota.sharing import RUNS_SECONDS, STAGES, Running, Sharing, wanted


def test_each_queue_gets_as_many_pods_as_it_wants() -> None:
    sharing, now = Sharing(), STAGES[1].second
    there = [Running("research-1", "research", is_bound=True)]
    made = Counter(each["metadata"]["annotations"][NAMED_BY] for each in sharing.missing(there, now=now))
    wants = wanted(now)
    assert made == {"research": wants["research"] - 1, "training": wants["training"]}


def test_no_name_is_given_twice() -> None:
    sharing = Sharing()
    names = [each["metadata"]["name"] for _ in range(2) for each in sharing.missing([], now=0)]
    assert len(set(names)) == len(names) > 0


def test_a_pod_ends_when_it_has_run_for_long_enough() -> None:
    sharing, pods = (
        Sharing(),
        [Running("a", "research", is_bound=True), Running("b", "research", is_bound=False)],
    )
    sharing.look(pods, now=1.0)
    assert sharing.ended(pods, now=1.0) == []
    assert sharing.ended(pods, now=1.0 + RUNS_SECONDS) == ["a"]


def test_what_waits_goes_with_the_work_of_its_queue() -> None:
    waits, now = [Running("training-1", "training", is_bound=False)], STAGES[-1].second
    assert Sharing().ended(waits, now=now - 1) == []
    assert Sharing().ended(waits, now=now) == ["training-1"]


def test_what_is_seen_is_what_has_a_node() -> None:
    sharing = Sharing()
    sharing.look([Running(f"t-{number}", "training", is_bound=number < 2) for number in range(3)], now=7.0)
    assert sharing.seen["training"] == [(7.0, 2)]
    assert sharing.seen["serving"] == [(7.0, 0)]
