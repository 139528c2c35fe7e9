"""Who is evicted for those that wait, whatever is refused, late, changed, or led by another since."""

from __future__ import annotations

from datetime import timedelta

import pytest

from cluster.exceptions import Overloaded, Refused
from controller.quota.give_backs import REFUSED_SECONDS
from queues.apimachinery.timestamps import rfc3339
from queues.quota.lack import LackKind
from queues.quota.let_in_again import LATE_SECONDS, SAFE_SECONDS
from queues.well_known import QUEUE
from tests.support.cases import each_case
from tests.support.http.wire_objects import Wire, queue
from tests.support.http.wire_objects import workload as wire_workload
from tests.support.quota.lending_api import LAB, REFUSED, TEAM, LendingApi, LendingReplica
from tests.support.rules.cases import NOW

OWNER: Wire = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "name": "work",
    "uid": "uid-work",
    "controller": True,
}


def lab(*names: str) -> tuple[LendingApi, LendingReplica]:
    """These run in `other`, the last one is the newest, and `wanted` waits in `team`."""
    api = LendingApi()
    for name in names:
        api.run(name, "other")
    leader = LendingReplica(api)
    api.create("wanted", "team", 1)
    return api, leader


def test_a_victim_says_why_and_who_asked_gets_its_room() -> None:
    api, leader = lab("a-1", "a-2", "a-3")
    leader.go_on()
    assert api.asked == ["a-3"]
    assert api.reasons == {"a-3": "Reclaimed"}
    assert leader.events == [("a-3", "Reclaimed")]
    assert leader.counted("Reclaimed") == 1
    for name in ("team", "other"):
        [line] = leader.releases.given_back(name)
        assert (line.from_, line.to, line.action, line.pods) == ("other", "team", "reclaim", 1)
    assert leader.releases.given_back("lab") == ()
    assert leader.said["wanted"].kind is LackKind.GIVEN_BACK
    api.create("later", "other", 1, priority=9)
    api.end("a-3")
    leader.go_on()
    assert (api.is_released("wanted"), api.is_released("later")) == (True, False)
    assert api.asked == ["a-3"]


def test_a_budget_that_was_read_as_allowing_and_refuses_has_others_go() -> None:
    """It is asked again once it was left alone for a while, if nobody else made room."""
    api, leader = lab("a-1", "b-2", "b-3")
    api.budgets["b"] = 1
    api.answers["b-3"] = api.answers["b-2"] = REFUSED
    leader.go_on(until=lambda: api.is_leaving("a-1"))
    assert api.asked == ["b-3", "b-2", "a-1"]
    alone, keeps = lab("b-1", "b-2", "b-3")
    alone.budgets["b"] = 1
    alone.answers |= dict.fromkeys(("b-1", "b-2", "b-3"), REFUSED)
    keeps.go_on(until=lambda: len(alone.asked) == 3)
    assert sorted(alone.asked) == ["b-1", "b-2", "b-3"]
    keeps.go_on(steps=2)
    assert keeps.releases._waiting.reservations.numbers == {}, "nobody makes room any more"
    alone.asked.clear()
    alone.answers.clear()
    keeps.pass_time(REFUSED_SECONDS)
    keeps.go_on(steps=6)
    assert len(alone.asked) == 1


def test_no_more_go_at_a_time_than_a_budget_allows() -> None:
    api, leader = lab("b-1", "b-2", "b-3")
    api.create("more", "team", 1)
    api.budgets["b"] = 1
    leader.go_on(until=lambda: api.asked)
    api.budgets["b"] = 0  # as the API server counts at once
    leader.go_on()
    assert len(api.asked) == 1
    api.end(api.asked[0])
    api.budgets["b"] = 1
    leader.pass_time(30)
    leader.go_on()
    assert len(api.asked) == 2


@pytest.mark.parametrize(
    "answer",
    [
        Overloaded(429, "TooManyRequests", "busy", retry_after=1.0),
        Refused(403, "Forbidden", "no"),
    ],
)
def test_whatever_an_eviction_is_answered_another_pod_makes_the_room(answer: Refused) -> None:
    api, leader = lab("a-1", "a-2", "a-3")
    api.answers["a-3"] = answer
    leader.go_on(steps=8)
    assert api.asked[:2] == ["a-3", "a-2"]
    assert leader.counted("Reclaimed") == 1


def test_a_victim_that_ends_late_has_nobody_else_go_and_keeps_the_room_for_who_asked() -> None:
    api, leader = lab("a-1", "a-2", "a-3")
    leader.go_on()
    api.create("later", "other", 1, priority=9)
    for _ in range(10):
        leader.pass_time(60)
        leader.go_on(steps=2)
    assert api.asked == ["a-3"]
    api.end("a-3")
    leader.go_on()
    assert (api.is_released("wanted"), api.is_released("later")) == (True, False)


def test_an_eviction_that_the_watch_does_not_show_is_asked_for_again() -> None:
    """Until then it counts as leaving: nobody else goes."""
    api, leader = lab("a-1", "a-2", "a-3")
    leader.go_on(until=lambda: leader.is_about_to_evict)
    leader.send_all()
    api.events.pop()  # the watch has lost it
    leader.go_on(steps=4)
    assert api.asked == ["a-3"]
    leader.pass_time(2 * LATE_SECONDS)
    leader.go_on(steps=3)
    assert api.asked == ["a-3", "a-3"]


def test_nobody_goes_for_a_pod_that_was_deleted_meanwhile() -> None:
    api, leader = lab("a-1", "a-2", "a-3")
    leader.go_on(until=lambda: leader.is_about_to_evict)
    api.delete("wanted")
    leader.go_on()
    assert api.asked == []
    assert leader.releases._waiting.reservations.numbers == {}
    api.create("other-one", "other", 1)
    api.end("a-1")
    leader.go_on()
    assert api.is_released("other-one"), "the room is free for all"


def test_nobody_goes_for_a_queue_that_was_stopped_meanwhile_and_its_room_is_free() -> None:
    api, leader = lab("a-1", "a-2", "a-3")
    leader.go_on(until=lambda: leader.is_about_to_evict)
    leader.server.has(queue("team", state="Suspended", version=3, generation=3, **TEAM))
    leader.go_on()
    assert api.asked == []
    api.create("later", "other", 1)
    api.end("a-1")
    leader.go_on()
    assert (api.is_released("wanted"), api.is_released("later")) == (False, True)


def test_nobody_goes_where_the_policy_has_no_such_action_any_more() -> None:
    api, leader = lab("a-1", "a-2", "a-3")
    leader.go_on()
    leader.server.has(queue("lab", version=3, generation=3, **{**LAB, "schedulerPolicy": ""}))
    api.create("more", "team", 1)
    leader.go_on()
    assert api.asked == ["a-3"]
    assert leader.releases._waiting.reservations.numbers == {}


def test_who_leads_no_more_evicts_nobody() -> None:
    api, leader = lab("a-1", "a-2", "a-3")
    leader.go_on(until=lambda: leader.is_about_to_evict)
    leader.leads = False
    leader.send_all()
    assert api.asked == []


def test_what_was_deleted_by_force_counts_as_leaving() -> None:
    """It may run on, for so long as its grace period; nobody else goes, and who asked has its room then."""
    api, leader = lab("a-1", "a-2", "a-3")
    api.change("a-3", lambda one: one["spec"].update(terminationGracePeriodSeconds=30))
    leader.hear(99)
    api.end("a-3")
    leader.go_on()
    assert (api.asked, api.is_released("wanted")) == ([], False)
    leader.pass_time(30)
    leader.go_on(steps=4)
    assert (api.asked, api.is_released("wanted")) == ([], True)


# A change of leaders


def test_a_new_leader_has_the_room_set_aside_that_victims_of_the_former_one_make() -> None:
    """Nobody else goes for it, and nobody else takes it."""
    api, former = lab("a-1", "a-2", "a-3")
    former.go_on()
    assert api.asked == ["a-3"]
    leader = LendingReplica(api)
    api.create("later", "other", 1, priority=9)
    leader.go_on()
    assert api.asked == ["a-3"]
    assert leader.said["wanted"].kind is LackKind.GIVEN_BACK
    api.end("a-3")
    leader.go_on()
    assert (api.is_released("wanted"), api.is_released("later")) == (True, False)


def test_so_it_has_where_the_watch_shows_the_eviction_only_later() -> None:
    """After its first look, and before it has evicted anybody itself."""
    api, former = lab("a-1", "a-2", "a-3")
    former.go_on(until=lambda: former.is_about_to_evict)
    leader = LendingReplica(api)
    leader.go_on(until=lambda: ("give-back-budgets", "team") in leader.writes.held)
    former.send_all()
    leader.go_on()
    assert api.asked == ["a-3"]
    assert leader.said["wanted"].kind is LackKind.GIVEN_BACK


def test_a_new_leader_goes_on_with_the_lines_that_the_statuses_have() -> None:
    line = {
        "from": "other",
        "to": "team",
        "action": "reclaim",
        "pods": 7,
        "at": rfc3339(NOW),
        "until": rfc3339(NOW),
    }
    api, leader = lab("a-1", "a-2", "a-3")
    told = {"quota": {"used": {}, "givenBack": [line]}}
    leader.server.has(queue("team", version=3, generation=2, status=told, **TEAM))
    assert [each.pods for each in leader.releases.given_back("team")] == [7]
    leader.go_on()
    assert api.asked == ["a-3"]
    assert [each.pods for each in leader.releases.given_back("team")] == [8]
    assert [each.pods for each in leader.releases.given_back("other")] == [1]


def test_what_ends_by_itself_is_nobodys_who_might_not_have_had_it_evicted() -> None:
    """`team` uses all that it deserves: the room goes by the order of shares."""
    api = LendingApi()
    api.run("t-1", "team")
    api.run("t-2", "team")
    api.run("a-1", "other")
    api.delete("a-1")
    leader = LendingReplica(api)
    leader.server.has(queue("team", version=3, generation=3, **{**TEAM, "deserved": {"cpu": "1"}}))
    api.create("wanted", "team", 1)
    leader.go_on()
    assert leader.releases._waiting.reservations.numbers == {}


def evicted_and_made_again() -> tuple[LendingApi, LendingReplica]:
    """`again` waits: its workload gave a pod back to one that ran and has ended."""
    api = LendingApi()
    for name in ("a-1", "a-2", "a-3"):
        api.run(name, "other", owner=OWNER)
    leader = LendingReplica(api)
    api.create("first", "team", 1)
    leader.go_on()
    api.end("a-3")
    leader.go_on()
    assert (api.asked, api.is_released("first")) == (["a-3"], True)
    api.create("again", "other", 1)
    api.change("again", lambda one: one["metadata"].update(ownerReferences=[OWNER]))
    api.change("again", lambda one: one["metadata"].update(creationTimestamp=rfc3339(NOW)))
    leader.go_on(steps=2)
    api.end("first")
    return api, leader


@pytest.mark.parametrize("changes", [False, True])
def test_a_pod_that_was_let_in_again_is_left_alone_for_a_minute(changes: bool) -> None:
    """`changes`: another leads when it is let in, since more than a minute."""
    api, leader = evicted_and_made_again()
    if changes:
        leader = LendingReplica(api)
        leader.pass_time(2 * SAFE_SECONDS)
    leader.go_on()
    assert api.is_released("again")
    api.asked.clear()
    api.create("second", "team", 1)
    leader.go_on()
    assert api.asked == ["a-2"]


@each_case(
    ("workload", "pod", "goes"),
    [
        pytest.param(3600, 3600, True, id="it came with its workload, long ago"),
        pytest.param(20, 18, True, id="it came with its workload, just now"),
        pytest.param(3600, 120, True, id="it came later, and runs for long"),
        pytest.param(3600, 20, False, id="it came later, and runs since less than a minute"),
        pytest.param(None, 20, False, id="its workload is not known"),
    ],
)
def test_a_new_leader_leaves_alone_what_may_have_been_let_in_again(
    workload: int | None, pod: int, goes: bool
) -> None:
    api = LendingApi()
    for name in ("a-1", "a-2", "a-3"):
        api.run(name, "other", owner=OWNER, at=NOW - timedelta(seconds=pod))
    leader = LendingReplica(api)
    if workload is not None:
        made = rfc3339(NOW - timedelta(seconds=workload))
        leader.server.has(wire_workload("replicasets.apps", "work", created=made, labels={QUEUE: "other"}))
    api.create("wanted", "team", 1)
    leader.go_on()
    assert bool(api.asked) is goes
    leader.pass_time(SAFE_SECONDS)
    leader.go_on()
    assert api.asked
