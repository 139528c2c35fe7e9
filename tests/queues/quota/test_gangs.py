"""What of a gang may be asked for, and why not yet, or never."""

from __future__ import annotations

import itertools
import random
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.apimachinery.pod_requests import CLAIMS, Requests
from queues.apimachinery.quantities import Amount
from queues.quota.book import MAX_INTENTS
from queues.quota.devices import COUNTED, ClaimFault, claimed_devices
from queues.quota.gangs import (
    MAX_TASKS,
    Gang,
    GangPod,
    NotAsked,
    NotAskedKind,
    PodState,
    RequestedPods,
    ask,
    gang_of,
    is_placed,
    task_of,
    unused_resources,
)
from queues.quota.lack import Lack
from queues.quota.pod_classes import WaitingPod
from queues.quota.usage import Limit, never_lack, quota_requests
from tests.support.cases import each_case
from tests.support.examples import examples

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WAITS, HELD, RELEASED = PodState.WAITS, PodState.HELD, PodState.RELEASED
PLACED, LEAVING, SUCCEEDED = PodState.PLACED, PodState.LEAVING, PodState.SUCCEEDED


def gang(
    least: int = 0, tasks: object = None, resources: object = None, *, priority: int | None = None
) -> Gang:
    return gang_of(
        "gang",
        "team",
        NOW,
        min_member=least,
        min_task_member=tasks,
        min_resources=resources,
        priority=priority,
    )


def pod(
    name: str,
    state: PodState = WAITS,
    *,
    task: str = "",
    priority: int = 0,
    age: int = 0,
    queue: str = "team",
    **requests: Amount,
) -> GangPod:
    wanted = quota_requests(tuple(sorted((requests or {"cpu": 1}).items())))
    return GangPod(WaitingPod(name, queue, wanted, priority, NOW - timedelta(seconds=age)), state, task)


def pods(text: str) -> list[GangPod]:
    """One for each word: its state, and its task."""
    states = {"w": WAITS, "h": HELD, "r": RELEASED, "p": PLACED, "l": LEAVING, "s": SUCCEEDED}
    words = [word.partition(":") for word in text.split()]
    return [pod(f"{at:02}", states[state], task=task) for at, (state, _, task) in enumerate(words)]


def outcome(found: RequestedPods | NotAsked) -> str:
    if isinstance(found, NotAsked):
        return str(found)
    if found.minimum is not None:
        return " ".join(("whole:", *found.minimum.pods))
    return " ".join(("each:", *(each.uid for each in found.others)))


def test_the_priority_of_a_gang_is_that_of_its_minimum_and_of_what_is_beyond_it() -> None:
    """One that has none has the greatest of its minimum; the others have their own."""
    members = [pod("a", priority=3), pod("b", priority=1)]
    for own, expected in ((None, 3), (7, 7), (-2, -2)):
        found = ask(gang(2, priority=own), members)
        assert isinstance(found, RequestedPods)
        assert found.minimum is not None
        assert found.minimum.priority == expected
    beyond = [pod("c", PLACED), pod("d", PLACED), *members]
    for own, others in ((None, [3, 1]), (7, [7, 7])):
        found = ask(gang(2, priority=own), beyond)
        assert isinstance(found, RequestedPods)
        assert [each.priority for each in found.others] == others


FEW: dict[str, int] = {"ps": 1, "worker": 2}


@each_case(
    ("least", "tasks", "members", "expected"),
    [
        # How many.
        (2, None, "w w", "whole: 00 01"),
        (2, None, "w w w", "whole: 00 01"),
        (3, None, "w w", "2 of 3 pods exist"),
        (3, None, "", "0 of 3 pods exist"),
        (3, None, "w w h", "2 of 3 pods may be released now"),
        (2, None, "w h w", "whole: 00 02"),
        # What is there already.
        (3, None, "p p w", "whole: 02"),
        (3, None, "r p w", "whole: 02"),
        (3, None, "s p w", "whole: 02"),
        (3, None, "l p w", "2 of 3 pods exist"),
        (3, None, "p p p w w", "each: 03 04"),
        (3, None, "p p p", "each:"),
        # By task.
        (3, FEW, "w:worker w:worker w:ps", "whole: 00 01 02"),
        (3, FEW, "w:worker w:worker w:worker w:ps", "whole: 00 01 03"),
        (3, FEW, "w:worker w:worker w:worker", "0 of 1 pods of task ps exist"),
        (3, FEW, "w:worker w:ps w:ps", "1 of 2 pods of task worker exist"),
        (3, FEW, "w:worker w:ps h:worker", "1 of 2 pods of task worker may be released now"),
        (4, FEW, "w:worker w:worker w:ps", "3 of 4 pods exist"),
        (4, FEW, "w:worker w:worker w:ps w", "whole: 00 01 02 03"),
        (4, FEW, "p:worker p:worker p:worker p:worker w:ps", "whole: 04"),
        (3, FEW, "p:worker p:worker p:ps w:ps", "each: 03"),
        # Fewer than all tasks together: no task is looked at, as in Volcano.
        (1, FEW, "w:worker w:worker w:ps", "each: 00 01 02"),
        (2, FEW, "w:worker w:worker", "whole: 00 01"),
        # Tasks alone.
        (0, FEW, "w:worker w:worker w:ps", "whole: 00 01 02"),
        (0, FEW, "w:worker w:worker", "0 of 1 pods of task ps exist"),
        # Volcano's tests of action `allocate`: two of each task, one of each is the minimum.
        (2, {"master": 1, "worker": 1}, "w:master w:master w:worker w:worker", "whole: 00 02"),
        (2, {"master": 1, "worker": 1}, "w:master w:worker", "whole: 00 01"),
        # And of plugin `gang`: two of two, on no node or on one.
        (2, None, "p p", "each:"),
        # Nothing is a gang.
        (1, None, "w w", "each: 00 01"),
        (0, None, "w w", "each: 00 01"),
        (-7, None, "w w", "each: 00 01"),
        (0, {}, "w", "each: 00"),
        (1, {"ps": 0, "worker": -1}, "w w", "each: 00 01"),
        (1, "none", "w w", "each: 00 01"),
        (1, {"ps": "2", "worker": True}, "w w", "each: 00 01"),
        # Never.
        (10**9, None, "w w", f"{10**9} pods are to start together, and {MAX_INTENTS} can at most"),
        (
            0,
            {"ps": 2**31 - 1},
            "w:ps",
            f"{2**31 - 1} pods are to start together, and {MAX_INTENTS} can at most",
        ),
        (
            2,
            {f"task-{number}": 1 for number in range(MAX_TASKS + 1)},
            "w w",
            "minTaskMember has more than 128 tasks",
        ),
    ],
)
def test_what_is_asked_for(least: int, tasks: Any, members: str, expected: str) -> None:
    assert outcome(ask(gang(least, tasks), pods(members))) == expected


@each_case(
    ("least", "tasks", "members", "expected"),
    [
        (3, None, "p p w", "each: 02"),
        (3, None, "p w w w", "each: 01 02 03"),
        (4, None, "p w", "each: 01"),
        (3, FEW, "p:worker w:worker w:worker", "each: 01 02"),
    ],
)
def test_one_that_has_started_asks_for_what_waits(
    least: int, tasks: Any, members: str, expected: str
) -> None:
    """However many it has lost."""
    assert outcome(ask(gang(least, tasks), pods(members), started=True)) == expected


def test_of_tasks_that_do_not_exist_none_exist() -> None:
    assert outcome(ask(gang(2, {"missing": 2}), pods("w w w"))) == "0 of 2 pods of task missing exist"


def test_five_thousand_pods_of_one_podgroup() -> None:
    """Those beyond the minimum go one by one; a minimum of all of them can never go, and says so."""
    members = pods("w " * 5000)
    assert outcome(ask(gang(2), members)) == "whole: 00 01"
    begun = ask(gang(2), [*pods("p p"), *members[2:]])
    assert isinstance(begun, RequestedPods)
    assert len(begun.others) == 4998
    never = ask(gang(5000), members)
    assert outcome(never) == f"5000 pods are to start together, and {MAX_INTENTS} can at most"


def test_the_minimum_has_the_pods_of_highest_priority_then_the_oldest() -> None:
    members = [pod("a"), pod("b", age=9), pod("c", priority=3), pod("d", age=5)]
    found = ask(gang(3), members)
    assert outcome(found) == "whole: c b d"
    assert isinstance(found, RequestedPods)
    assert found.minimum == WaitingPod("gang", "team", (("cpu", 3), ("pods", 3)), 3, NOW, ("c", "b", "d"))


def test_the_priority_of_the_group_counts_where_it_has_one() -> None:
    found = ask(gang(2, priority=7), [pod("a", priority=9), pod("b")])
    assert isinstance(found, RequestedPods)
    assert found.minimum is not None
    assert found.minimum.priority == 7


def requests_of(found: RequestedPods | NotAsked) -> dict[str, Amount]:
    assert isinstance(found, RequestedPods)
    assert found.minimum is not None
    return dict(found.minimum.requests)


@each_case(
    ("resources", "expected"),
    [
        (None, {"cpu": 3, "gpu": 1, "pods": 2}),
        ({"cpu": "2"}, {"cpu": 3, "gpu": 1, "pods": 2}),
        ({"cpu": "8"}, {"cpu": 8, "gpu": 1, "pods": 2}),
        ({"cpu": "3500m", "memory": "1Gi"}, {"cpu": Fraction(7, 2), "gpu": 1, "memory": 2**30, "pods": 2}),
        ({"cpu": "-5", "gpu": "0"}, {"cpu": 3, "gpu": 1, "pods": 2}),
        ({"pods": "4", CLAIMS: "3", "resourceclaim/ns/a": "1"}, {"cpu": 3, "gpu": 1, "pods": 4}),
        (["cpu"], {"cpu": 3, "gpu": 1, "pods": 2}),
    ],
)
def test_the_greater_of_what_pods_request_and_of_min_resources_is_asked_for(
    resources: Any, expected: dict[str, Amount]
) -> None:
    assert (
        requests_of(ask(gang(2, resources=resources), [pod("a", cpu=1), pod("b", cpu=2, gpu=1)])) == expected
    )


@each_case("text", ["much", "", "1e30", "9223372036854775808", None, True, "1" * 100])
def test_what_is_no_quantity_is_asked_for_never(text: Any) -> None:
    found = ask(gang(2, resources={"cpu": text}), pods("w w"))
    assert str(found) == 'minResources "cpu" is no quantity'
    assert isinstance(found, NotAsked)
    assert found.kind.never


def test_what_pods_use_already_is_not_asked_for_again() -> None:
    """Also by those that are going: they count until they are gone."""
    members = [pod("a", PLACED, cpu=2), pod("b", LEAVING, cpu=2), pod("c", cpu=1), pod("d", cpu=1)]
    assert requests_of(ask(gang(3, resources={"cpu": "8"}), members)) == {"cpu": 4, "pods": 2}
    assert unused_resources(gang(3, resources={"cpu": "8"}), members) == (("cpu", 4),)
    assert unused_resources(gang(3, resources={"cpu": "4"}), members) == ()


def test_what_is_kept_for_a_gang_is_used_by_its_own_pods_first() -> None:
    """A driver that keeps room for its executors: a group of one pod, as Spark makes it."""
    driver = gang(1, resources={"cpu": "4", "pods": "3"})
    assert requests_of(ask(driver, [pod("driver")])) == {"cpu": 4, "pods": 3}
    members = [pod("driver", PLACED), *(pod(f"executor-{number}", cpu=2) for number in range(3))]

    def asked(*, keeps: bool) -> list[dict[str, Amount]]:
        found = ask(driver, members, keeps=keeps)
        assert isinstance(found, RequestedPods)
        return [dict(each.requests) for each in found.others]

    assert asked(keeps=True) == [{}, {"cpu": 1}, {"cpu": 2, "pods": 1}]
    assert asked(keeps=False) == [{"cpu": 2, "pods": 1}] * 3, "once nothing is kept any more"


def test_a_pod_that_comes_in_place_of_another_asks_for_no_more_than_is_kept() -> None:
    members = [pod("a", PLACED, cpu=2), pod("b", cpu=3)]
    made = gang(2, resources={"cpu": "4"})
    assert requests_of(ask(made, members)) == {"cpu": 3, "pods": 1}
    assert requests_of(ask(made, members, keeps=True)) == {"cpu": 1, "pods": 1}


def test_what_is_kept_from_the_release_of_a_minimum_on_is_used_by_what_is_beyond_it_alone() -> None:
    made = gang(2, resources={"cpu": "4"})
    members = [pod("a", PLACED), pod("b")]
    assert requests_of(ask(made, members, keeps_once_started=True)) == requests_of(ask(made, members))
    beyond = ask(made, [pod("a", PLACED), pod("b", PLACED), pod("c", cpu=2)], keeps_once_started=True)
    assert isinstance(beyond, RequestedPods)
    assert [dict(each.requests) for each in beyond.others] == [{"pods": 1}]


def test_of_what_resource_quotas_count_nothing_is_asked_for() -> None:
    """Volcano's Job controller writes all of this for two pods of one cpu."""
    written = {"cpu": "2", "pods": "2", "requests.cpu": "2", "limits.cpu": "4", "count/pods": "2"}
    assert gang(2, resources=written).resources == (("cpu", 2), ("pods", 2))


@each_case(
    ("least", "tasks", "placed", "found"),
    [
        (2, None, ["", ""], True),
        (2, None, ["worker"], False),
        (0, FEW, ["worker", "worker", "ps"], True),
        (0, FEW, ["worker", "worker", "worker"], False),
        (4, FEW, ["worker", "worker", "ps"], False),
        (4, FEW, ["worker", "worker", "ps", "other"], True),
    ],
)
def test_the_minimum_is_placed_once_so_many_of_each_task_are(
    least: int, tasks: Any, placed: list[str], found: bool
) -> None:
    assert is_placed(gang(least, tasks), placed) is found


CAPABILITY = [Limit("team", {"cpu": 4}), Limit("lab", {"cpu": 8, "pods": 6})]


@each_case(
    ("least", "resources", "members", "expected"),
    [
        (4, None, "w w w w", "whole: 00 01 02 03"),
        (5, None, "w w w w w", "together they need more cpu than team may use"),
        (5, None, "w", "1 of 5 pods exist"),
        (7, None, "w", "together they need more pods than lab may use"),
        (10**9, None, "", f"{10**9} pods are to start together, and {MAX_INTENTS} can at most"),
        (2, {"cpu": "5"}, "", "together they need more cpu than team may use"),
        (2, {"cpu": "9E"}, "w w", "together they need more cpu than team may use"),
    ],
)
def test_a_gang_larger_than_a_capability_says_so_at_once(
    least: int, resources: Any, members: str, expected: str
) -> None:
    found = ask(gang(least, resources=resources), pods(members), never=partial(never_lack, CAPABILITY))
    assert outcome(found) == expected


def test_which_limit_it_would_pass_is_known() -> None:
    found = ask(gang(5), pods("w w w w w"), never=partial(never_lack, CAPABILITY))
    assert isinstance(found, NotAsked)
    assert found.lack == Lack("team", "cpu", 1, never=True)


def test_a_gang_is_in_one_queue() -> None:
    assert outcome(ask(gang(2), [pod("a"), pod("b", queue="other")])) == (
        "1 of 2 pods are in the queue of their PodGroup"
    )
    assert outcome(ask(gang(3), [pod("a"), pod("b", queue="other")])) == "1 of 3 pods exist"


@pytest.mark.parametrize("state", [WAITS, HELD, PLACED, SUCCEEDED])
def test_a_pod_in_another_queue_counts_for_nothing(state: PodState) -> None:
    members = [pod("a", cpu=1), pod("b", cpu=1)]
    for made in (gang(2), gang(2, resources={"cpu": "4"})):
        assert ask(made, [*members, pod("c", state, queue="other")]) == ask(made, members)
    assert unused_resources(gang(2, resources={"cpu": "4"}), [pod("c", PLACED, queue="other")])


def test_a_pod_whose_claims_were_not_read_makes_the_claims_of_the_gang_unread() -> None:
    read: dict[str, Any] = {CLAIMS: 1, COUNTED: 1, "resourceclaim/ns/a": 1}
    both = requests_of(ask(gang(2), [pod("a", **read), pod("b", **read)]))
    assert claimed_devices(tuple(both.items())).fault is None
    unread: dict[str, Any] = {CLAIMS: 1}
    one = requests_of(ask(gang(2), [pod("a", **read), pod("b", **unread)]))
    assert claimed_devices(tuple(one.items())).fault is ClaimFault.UNREAD


def test_as_many_may_start_together_as_a_book_has_room_for() -> None:
    members = [pod(f"{number:04}") for number in range(MAX_INTENTS + 1)]
    assert isinstance(ask(gang(MAX_INTENTS), members), RequestedPods)
    assert isinstance(ask(gang(MAX_INTENTS + 1), members), NotAsked)
    members[0] = pod("0000", PLACED)
    assert isinstance(ask(gang(MAX_INTENTS + 1), members), RequestedPods)


def test_the_task_is_that_of_the_annotation_else_of_the_label() -> None:
    assert [task_of("ps", "worker"), task_of("", "worker"), task_of("", "")] == ["ps", "worker", ""]


# For any gang

states = st.sampled_from([WAITS, WAITS, WAITS, HELD, RELEASED, PLACED, LEAVING, SUCCEEDED])
tasks = st.sampled_from(["", "a", "b"])


@st.composite
def cases(draw: st.DrawFn) -> tuple[Gang, list[GangPod]]:
    amounts = st.dictionaries(st.sampled_from(["cpu", "gpu", "pods"]), st.integers(0, 9).map(str))
    made = gang(
        draw(st.integers(0, 5)),
        draw(st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(0, 2), max_size=2)),
        draw(st.none() | amounts),
    )
    drawn = draw(st.lists(st.tuples(states, tasks, st.integers(0, 2), st.integers(0, 2)), max_size=8))
    return made, [
        pod(f"p{at}", state, task=task, priority=rank, cpu=size, gpu=size % 2)
        for at, (state, task, rank, size) in enumerate(drawn)
    ]


def is_complete(made: Gang, members: list[GangPod]) -> bool:
    """The first invariant, of pods that are there or would be."""
    of_task = {task: sum(member.task == task for member in members) for task, _ in made.tasks}
    return len(members) >= made.least and all(of_task[task] >= least for task, least in made.tasks)


@examples(60)
@given(cases(), st.randoms(use_true_random=False))
def test_the_minimum_completes_the_gang_with_no_pod_too_many(
    case: tuple[Gang, list[GangPod]], shuffled: random.Random
) -> None:
    made, members = case
    found = ask(made, members)
    there = [member for member in members if member.state in {RELEASED, PLACED, SUCCEEDED}]
    waiting = [member for member in members if member.state is WAITS]
    if isinstance(found, NotAsked):
        assert not is_complete(made, there + waiting)
        assert found.have < found.least
        exist = is_complete(made, there + waiting + [member for member in members if member.state is HELD])
        assert exist or found.kind is NotAskedKind.TOO_FEW or found.task
    elif found.minimum is not None:
        assert not found.others
        chosen = [member for member in waiting if member.pod.uid in found.minimum.pods]
        assert len(chosen) == len(found.minimum.pods)
        assert is_complete(made, there + chosen)
        for left_out in chosen:
            assert not is_complete(made, there + [member for member in chosen if member is not left_out])
    else:
        assert made.is_single or is_complete(made, there)
        assert {each.uid for each in found.others} == {member.pod.uid for member in waiting}
    again = list(members)
    shuffled.shuffle(again)
    assert ask(made, again) == found


def growth(made: Gang, members: list[GangPod], released: set[str], *, keeps: bool) -> Requests:
    """By how much the use of the queue grows with these. `keeps`: whether room was kept for it before."""

    def use(released: set[str], *, keeps: bool) -> dict[str, Amount]:
        now = [
            GangPod(member.pod, RELEASED, member.task) if member.pod.uid in released else member
            for member in members
        ]
        amounts = dict(unused_resources(made, now)) if keeps else {}
        for member in now:
            if member.state in {RELEASED, PLACED, LEAVING}:
                for resource, amount in member.pod.requests:
                    amounts[resource] = amounts.get(resource, 0) + amount
        return amounts

    before, after = use(set(), keeps=keeps), use(released, keeps=True)
    return tuple((name, amount - before.get(name, 0)) for name, amount in after.items())


@examples(50)
@given(cases(), st.booleans(), st.randoms(use_true_random=False))
def test_as_much_is_asked_for_as_is_used_and_kept_afterwards(
    case: tuple[Gang, list[GangPod]], keeps: bool, chance: random.Random
) -> None:
    made, members = case
    found = ask(made, members, keeps=keeps)
    if not isinstance(found, RequestedPods) or made.is_single:
        return
    if found.minimum is not None:
        asked_together = dict(found.minimum.requests)
        for resource, more in growth(made, members, set(found.minimum.pods), keeps=keeps):
            assert asked_together.get(resource, 0) == more
        return
    found = ask(made, members, keeps=True)
    assert isinstance(found, RequestedPods)
    asked = {each.uid: dict(each.requests) for each in found.others}
    some = {uid for uid in asked if chance.random() < 0.5}
    for resource, more in growth(made, members, some, keeps=True):
        assert more <= sum(asked[uid].get(resource, 0) for uid in some), "in whatever order"
    for first in itertools.accumulate([each.uid] for each in found.others):
        for resource, more in growth(made, members, set(first), keeps=True):
            assert more == sum(asked[uid].get(resource, 0) for uid in first), "and in their order just that"
