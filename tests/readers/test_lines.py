"""`why`, `reclaim --dry-run` and the page have in line for room what the leader has, in its order.

Not compared is what a leader remembers: whether a gang of which a part is on nodes had started, and what was
kept for it. Nor what its scheduling policies forbid: the plugin does not read them.
"""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given

from kubectl_queue.why.gang import MAX_SINGLE
from queues.quota.pod_classes import WaitingPod
from tests.support.cases import each_case
from tests.support.examples import examples
from tests.support.http.wire_objects import GROUP, Wire, member, owner, podgroup, template, workload
from tests.support.readers.random_gangs import (
    OTHER_GATE,
    PLACES,
    PRIORITY_CLASSES,
    QUEUE,
    QUEUES,
    QUOTA_GATE,
    STOP_GATE,
    clusters,
)
from tests.support.readers.two_lines import LeaderReading, PluginReading


@examples(200, same=True)
@given(clusters())
def test_both_readers_of_random_objects_have_the_same_in_line_and_say_why_not(
    objects: list[Wire],
) -> None:
    leader = LeaderReading(objects)
    assume(not leader.would_remember)
    plugin = PluginReading(objects)
    assert plugin.lines() == leader.lines()
    assert plugin.claimants() == leader.claimants()
    assert plugin.reasons() == leader.reasons()


@examples(200, same=True)
@given(clusters())
def test_both_readers_of_random_objects_say_the_same_of_each_gang(objects: list[Wire]) -> None:
    leader, plugin = LeaderReading(objects), PluginReading(objects)
    assume(not leader.would_remember)
    for group in (each for each in objects if each["kind"] == "PodGroup"):
        expected = leader.gang(group)
        if expected is not None:
            assert plugin.gang(group) == expected


def both(*objects: Wire) -> tuple[LeaderReading, PluginReading]:
    all_objects = [*PLACES, *QUEUES, *PRIORITY_CLASSES, *objects]
    leader, plugin = LeaderReading(all_objects), PluginReading(all_objects)
    assert plugin.lines() == leader.lines()
    assert plugin.claimants() == leader.claimants()
    return leader, plugin


def waits(name: str, of: str = "team", *, gates: tuple[str, ...] = (QUOTA_GATE,), **more: Any) -> Wire:
    return member(name, of, gates=gates, resources={"requests": {"cpu": "1"}}, **more)


def in_gang(name: str, of: str = "team", **more: Any) -> Wire:
    return waits(name, of, annotations={GROUP: "ring"}, **more)


RING = podgroup("ring", queue="team", minMember=2)
PAIR = RING, in_gang("a"), in_gang("b")
BOTH_GATES = QUOTA_GATE, OTHER_GATE
MIRROR = {"kubernetes.io/config.mirror": "x"}


def names(line: Any) -> list[str]:
    return [_name(each) for each in line]


def _name(entry: WaitingPod) -> str:
    return entry.uid.removeprefix("uid-")


@each_case(
    ("objects", "queue", "expected"),
    [
        ([waits("late", priority=1), waits("early")], "team", ["late", "early"]),
        ([waits("gated", priority=9), waits("ungated", gates=())], "team", ["ungated", "gated"]),
        ([waits("work", gates=BOTH_GATES)], "team", []),
        ([waits("work", gates=(OTHER_GATE,))], "team", ["work"]),
        ([waits("work", gates=(STOP_GATE,))], "team", ["work"]),
        ([waits("work", annotations=MIRROR)], "team", []),
        ([waits("work", annotations={QUEUE: "free"})], "team", []),
        ([waits("work", labels={"sluice.dev/released": "uid-work"}, gates=())], "team", []),
        ([waits("work", labels={"sluice.dev/released": "uid-of-another"}, gates=())], "team", ["work"]),
        ([waits("work", "held")], "held", []),
        ([waits("work", "picky"), waits("chosen", "picky", namespace="lab")], "picky", ["chosen"]),
        ([*PAIR], "team", ["ring"]),
        ([RING, in_gang("a"), in_gang("b", gates=())], "team", ["b"]),
        ([RING, in_gang("a"), in_gang("b", gates=BOTH_GATES)], "team", []),
        ([RING, in_gang("a"), in_gang("b", "free")], "team", []),
        ([in_gang("a"), in_gang("b")], "team", []),
    ],
    ids=[
        *("by priority", "without a gate of ours", "with a gate of another", "with that alone"),
        *("with the gate of stops", "a mirror pod", "whose annotation names another queue", "released"),
        *("that another pod's label says is released", "of a stopped queue", "of a namespace not selected"),
        *("a gang", "a gang with a pod that has no gate", "a gang that another's gate holds"),
        *("a gang with a pod in another queue", "a gang without its PodGroup"),
    ],
)
def test_what_is_in_line(objects: list[Wire], queue: str, expected: list[str]) -> None:
    leader, _ = both(*objects)
    assert names(leader.lines()[queue]) == expected


@each_case(
    ("objects", "name", "reason"),
    [
        (
            [waits("a", gates=BOTH_GATES)],
            "a",
            'scheduling gate "example.com/wait" keeps it from nodes; it is asked for once that gate is gone',
        ),
        ([RING, in_gang("a")], "a", "fewer than 2 pods of its PodGroup exist; its pods start together"),
        ([*PAIR, in_gang("c")], "c", "the minimum of its PodGroup goes first; it goes after that"),
        ([in_gang("a")], "a", "its PodGroup does not exist; its pods start together"),
    ],
    ids=["another's gate", "too few", "beyond the minimum", "no PodGroup"],
)
def test_why_a_pod_is_not_in_line(objects: list[Wire], name: str, reason: str) -> None:
    """Also before the leader has written it on the pod."""
    leader, plugin = both(*objects)
    assert plugin.reasons()[name] == leader.reasons()[name] == reason


def job(*, succeeded: int) -> Wire:
    return workload("jobs.batch", "train", template(), completions=2, status={"succeeded": succeeded})


@each_case(
    ("objects", "lacks"),
    [
        ([RING, in_gang("a")], "1 of 2 pods exist"),
        (
            [RING, in_gang("a"), in_gang("b", gates=BOTH_GATES)],
            "1 of 2 pods may be released now",
        ),
        ([RING, in_gang("a"), in_gang("b", "free")], "1 of 2 pods are in the queue of their PodGroup"),
        ([job(succeeded=1), RING, in_gang("a", owner=owner(job(succeeded=1)))], ""),
        ([job(succeeded=0), RING, in_gang("a", owner=owner(job(succeeded=0)))], "1 of 2 pods exist"),
    ],
    ids=["too few", "another's gate", "another queue", "a Job of which one has succeeded", "a Job"],
)
def test_what_a_gang_lacks(objects: list[Wire], lacks: str) -> None:
    leader, plugin = both(*objects)
    said, told = leader.gang(RING), plugin.gang(RING)
    assert said == told
    assert told.lacks == lacks


UNREAD_JOBS = "as far as known: you may not read Jobs, which say how many pods have completed"


@each_case(
    ("jobs", "is_single"),
    [(1, True), (MAX_SINGLE + 1, False)],
    ids=["each by its name", "from a list"],
)
def test_where_jobs_may_not_be_read_what_a_gang_lacks_is_not_known(jobs: int, is_single: bool) -> None:
    """One pod of the first Job is done and gone, so that the leader has the gang in line."""
    done = [1, *(0 for _ in range(jobs - 1))]
    made = [
        workload(
            "jobs.batch", f"train-{at}", template(), completions=1 + number, status={"succeeded": number}
        )
        for at, number in enumerate(done)
    ]
    ring = podgroup("ring", queue="team", minMember=jobs + 1)
    more: Any = {"gates": (QUOTA_GATE,), "annotations": {GROUP: "ring"}}
    pods = [member(f"p{at}", "team", owner=owner(each), **more) for at, each in enumerate(made)]
    objects = [*PLACES, *QUEUES, *made, ring, *pods]
    assert names(LeaderReading(objects).lines()["team"]) == ["ring"]
    plugin = PluginReading(objects, forbidden=("jobs",))
    assert plugin.reasons()["p0"].endswith(f"its pods start together, {UNREAD_JOBS}")
    assert plugin.gang(ring).lacks == f"{jobs} of {jobs + 1} pods exist, {UNREAD_JOBS}"
    assert plugin.unread() == "Jobs"
    assert not plugin.claimants()["team"]
    assert any("you may not read Jobs" in warning for warning in plugin.warnings)
    paths = [path for path in plugin.paths if "/jobs" in path]
    assert paths and all(path.endswith("/jobs") is not is_single for path in paths)


@each_case(
    "objects",
    [
        [job(succeeded=0), *PAIR],
        [job(succeeded=0), RING, *(in_gang(each, owner=owner(job(succeeded=0))) for each in "ab")],
        [RING, in_gang("a")],
        [job(succeeded=0), waits("a", owner=owner(job(succeeded=0)))],
    ],
    ids=["of no gang", "a gang that lacks no pods", "a gang of no Job", "a pod of no gang"],
)
def test_jobs_that_change_nothing_are_not_said_to_be_unread(objects: list[Wire]) -> None:
    plugin = PluginReading([*PLACES, *QUEUES, *objects], forbidden=("jobs",))
    assert plugin.unread() == ""
    assert not any("Jobs" in reason for reason in plugin.reasons().values())


def test_a_job_of_which_a_pod_has_failed_says_how_many_have_completed() -> None:
    """That pod alone names the Job."""
    failed = in_gang("b", owner=owner(job(succeeded=1)), status={"phase": "Failed"}, gates=(), nodeName="n")
    leader, _ = both(job(succeeded=1), RING, in_gang("a"), failed)
    assert names(leader.claimants()["team"]) == ["ring"]
