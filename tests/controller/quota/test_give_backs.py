"""Who is evicted for those that wait, whatever is refused, late, changed, or led by another since."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from cluster.cache.podgroups import PodGroupKey
from cluster.exceptions import Overloaded, Refused
from cluster.waiting_writes import WriteKey
from controller.quota.give_backs import KEPT_SECONDS, LOOK_SECONDS, REFUSED_SECONDS, GiveBacks
from queues.apimachinery.timestamps import rfc3339
from queues.drain.terminating_pods import GRACE_LIMIT, SPARE_SECONDS
from queues.metadata.keys import PREEMPTABLE
from queues.quota.giving_back import Borrowed, GivingBack
from queues.quota.kept_victims import KeptVictims, kept_victims
from queues.quota.lack import LackKind
from queues.quota.let_in_again import LATE_SECONDS, SAFE_SECONDS
from queues.quota.pod_classes import WaitingPod
from queues.quota.report import NOTHING_BESIDE
from queues.well_known import CONTACT, QUEUE
from tests.support.cases import each_case
from tests.support.http.wire_objects import GROUP, Wire, podgroup, policies, queue
from tests.support.http.wire_objects import workload as wire_workload
from tests.support.quota.lending_api import LAB, REFUSED, TAKES, TEAM, LendingApi, LendingReplica
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
    assert leader.releases.counted_beside("lab").set_aside == {"cpu": 1, "pods": 1}
    api.create("later", "other", 1, priority=9)
    api.end("a-3")
    leader.go_on()
    assert leader.releases.counted_beside("lab") == NOTHING_BESIDE
    assert (api.is_released("wanted"), api.is_released("later")) == (True, False)
    assert api.asked == ["a-3"]


def test_pods_without_room_are_told_again_once_another_contact_is_named_of_a_queue_of_their_chain() -> None:
    """Once: nothing else of their reason has changed."""
    api = LendingApi()
    for name in ("a-1", "a-2", "a-3"):
        api.run(name, "team")
    leader = LendingReplica(api)
    for name in ("wanted", "second"):
        api.create(name, "team", 1)
    leader.go_on()
    told = dict(leader.said)
    assert set(told) == {"wanted", "second"}
    for number, (name, more) in enumerate((("lab", LAB), ("team", TEAM)), start=3):
        leader.said.clear()
        leader.server.has(
            queue(name, version=number, generation=2, annotations={CONTACT: f"Ann {number}"}, **more)
        )
        leader.go_on(steps=3)
        assert leader.said == told
        leader.said.clear()
        leader.server.has(queue("speech", version=number, weight=number))
        leader.go_on(steps=3)
        assert leader.said == {}


def test_the_workload_that_the_user_created_says_that_pods_of_it_gave_back() -> None:
    """Once for what says the same: its pods are gone when somebody asks."""
    api = LendingApi()
    for name in ("a-1", "a-2", "a-3"):
        api.run(name, "other", owner=OWNER)
    leader = LendingReplica(api)
    top = {**OWNER, "kind": "Deployment", "name": "web", "uid": "uid-web"}
    leader.server.has(
        wire_workload("deployments.apps", "web", labels={QUEUE: "other"}),
        wire_workload("replicasets.apps", "work", labels={QUEUE: "other"}, owner=top),
    )
    api.create("wanted", "team", 1)
    leader.go_on()
    assert leader.events == [("a-3", "Reclaimed"), ("web", "Reclaimed")]
    assert leader.messages["web"] == f"a pod of it was {leader.messages['a-3']}"


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
    for _ in range(5):
        leader.pass_time(2)
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


def test_what_is_long_with_the_writers_has_another_pod_go_and_its_refusal_is_recorded_all_the_same() -> None:
    api, leader = lab("a-1", "a-2", "a-3")
    leader.go_on(until=lambda: leader.is_about_to_evict)
    late = "give-back", api.pods["a-3"]["metadata"]["uid"]
    leader.pass_time(LATE_SECONDS)
    for _ in range(2):  # budgets are read with the first one
        leader.step()
        send_all_but(leader, late)
    assert api.asked == ["a-2"]
    api.answers["a-3"] = REFUSED
    leader.send_all()
    assert api.asked == ["a-2", "a-3"]
    assert leader.releases._give_backs._evictions.is_postponed(late[1], now=leader.server.clock.seconds)


def test_a_grant_that_comes_late_has_nobody_else_go() -> None:
    api, leader = lab("a-1", "a-2", "a-3")
    leader.go_on(until=lambda: leader.is_about_to_evict)
    leader.pass_time(LATE_SECONDS)
    for _ in range(5):  # the watch is late, too
        leader.step()
        leader.send_all()
    assert api.asked == ["a-3"]


def send_all_but(leader: LendingReplica, late: WriteKey) -> None:
    for key in [key for key in leader.writes.held if key != late]:
        leader.writes.send(key, gives_up=False)


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


# Leaving is no promise

YEARS = 10 * 365 * 24 * 3600
DRAIN_WAITS = GRACE_LIMIT + SPARE_SECONDS


def delete_with_years(api: LendingApi, name: str, at: datetime) -> None:
    """It is deleted, and has that long to end."""
    left = {
        "deletionTimestamp": rfc3339(at + timedelta(seconds=YEARS)),
        "deletionGracePeriodSeconds": YEARS,
    }
    api.change(name, lambda one: one["metadata"].update(left))


def test_who_has_years_to_end_counts_as_going_as_long_as_a_drain_waits_then_others_are_asked() -> None:
    api, leader = lab("a-1", "a-2", "a-3")
    delete_with_years(api, "a-3", leader.server.clock.at)
    leader.go_on()
    assert api.asked == [], "it may end"
    leader.pass_time(DRAIN_WAITS)
    leader.go_on()
    assert api.asked == ["a-2"]
    api.end("a-2")
    leader.go_on()
    assert api.is_released("wanted")


def test_so_it_is_with_who_was_evicted_and_has_years() -> None:
    api, leader = lab("a-1", "a-2", "a-3")
    leader.go_on(until=lambda: api.asked)
    leader.send_all()
    assert api.is_leaving("a-3")
    delete_with_years(api, "a-3", leader.server.clock.at)
    leader.go_on()
    assert api.asked == ["a-3"]
    leader.pass_time(DRAIN_WAITS)
    leader.go_on()
    assert api.asked == ["a-3", "a-2"]


def test_a_refusal_that_comes_late_of_a_former_term_keeps_no_pod_from_going() -> None:
    """Another leader may have asked since, or the budget may be another one."""
    api, leader = lab("a-1", "a-2", "a-3")
    api.answers["a-3"] = REFUSED
    leader.go_on(until=lambda: leader.is_about_to_evict)
    for key in list(leader.writes.held):
        leader.writes.send(key, gives_up=True)
    assert api.asked == ["a-3"]
    api.answers.clear()
    leader.begin_term()
    leader.go_on()
    assert api.asked == ["a-3", "a-3"]


def test_a_new_leader_sets_nothing_aside_of_what_stays() -> None:
    api, former = lab("a-1", "a-2", "a-3")
    delete_with_years(api, "a-3", former.server.clock.at - timedelta(seconds=2 * DRAIN_WAITS))
    leader = LendingReplica(api)
    leader.go_on()
    assert api.asked == ["a-2"]


def test_what_was_deleted_by_force_with_an_hour_to_end_counts_as_going_no_longer_than_that() -> None:
    api, leader = lab("a-1", "a-2", "a-3")
    api.change("a-3", lambda one: one["spec"].update(terminationGracePeriodSeconds=YEARS))
    leader.hear(99)
    api.end("a-3")
    leader.go_on()
    assert (api.asked, api.is_released("wanted")) == ([], False)
    leader.pass_time(DRAIN_WAITS)
    leader.go_on()
    assert api.asked == ["a-2"]


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


# Gangs


def ring(*names: str, least: int) -> tuple[LendingApi, LendingReplica]:
    """The same, and these are one gang."""
    api = LendingApi()
    for name in names:
        api.run(name, "other")
        api.change(name, lambda one: one["metadata"].setdefault("annotations", {}).update({GROUP: "ring"}))
    leader = LendingReplica(api)
    leader.server.has(podgroup("ring", queue="other", minMember=least))
    api.create("wanted", "team", 1)
    return api, leader


def test_a_gang_goes_whole_for_one_pod() -> None:
    api, leader = ring("a-1", "a-2", "a-3", least=3)
    leader.go_on()
    assert sorted(api.asked) == ["a-1", "a-2", "a-3"]
    assert all("(cpu 1), with all of its gang; action reclaim" in leader.messages[name] for name in api.asked)
    for name in api.asked:
        api.end(name)
    leader.go_on()
    assert api.is_released("wanted")


def test_pods_beyond_the_minimum_go_alone_and_what_is_asked_to_go_counts_no_more() -> None:
    api, leader = ring("a-1", "a-2", "a-3", least=2)
    leader.go_on()
    assert api.asked == ["a-3"]
    api.create("more", "team", 1)
    leader.go_on()
    assert sorted(api.asked) == ["a-1", "a-2", "a-3"]


def complete_ring() -> tuple[LendingApi, LendingReplica]:
    """The same, and the gang has more than its minimum: what it loses of that is kept for it."""
    api = LendingApi()
    for name in ("a-1", "a-2", "a-3"):
        api.run(name, "other", owner=OWNER)
        api.change(name, lambda one: one["metadata"].setdefault("annotations", {}).update({GROUP: "ring"}))
    leader = LendingReplica(api)
    leader.server.has(
        podgroup("ring", queue="other", minMember=2, minResources={"cpu": "3"}),
        wire_workload("replicasets.apps", "work", labels={QUEUE: "other"}, replicas=3),
    )
    leader.go_on(steps=3)
    api.create("wanted", "team", 1)
    return api, leader


@pytest.mark.parametrize("unread", ["leaving and gone come in one sync", "the pass rests", "use is unknown"])
def test_who_asked_has_the_room_though_the_gang_is_read_after_the_eviction_is_settled(unread: str) -> None:
    """Room kept for the gang would have who asked ask again, until all of the gang is gone."""
    api, leader = complete_ring()
    leader.go_on(until=lambda: leader.is_about_to_evict)
    leader.send_all()
    assert api.asked == ["a-3"]
    releases = leader.releases
    match unread:
        case "the pass rests":
            releases._next_pass_at = leader.server.clock.seconds + 1.5
            leader.go_on(steps=2)
        case "use is unknown":
            releases._is_use_unknown = lambda: True
            leader.go_on(steps=2)
            releases._is_use_unknown = lambda: False
    api.end("a-3")
    leader.go_on(steps=6)
    assert (releases.kept_below("root"), api.is_released("wanted"), api.asked) == ({}, True, ["a-3"])
    assert not releases._waiting.sent_away.of(PodGroupKey("team", "ring"))


def test_room_is_kept_for_a_gang_that_loses_a_pod_of_which_the_eviction_was_refused() -> None:
    api, leader = complete_ring()
    names = "a-1", "a-2", "a-3"
    api.answers |= dict.fromkeys(names, REFUSED)
    leader.go_on(until=lambda: set(api.asked) == set(names))
    api.end("a-3")
    leader.go_on(steps=2)
    assert leader.releases.kept_below("root") == {PodGroupKey("team", "ring"): (("cpu", 1), ("pods", 1))}


def test_a_budget_that_allows_fewer_than_the_gang_keeps_all_of_it() -> None:
    api, leader = ring("b-1", "b-2", "b-3", least=3)
    api.budgets["b"] = 2
    leader.go_on()
    assert api.asked == []


def test_what_is_refused_of_a_gang_that_goes_is_asked_again_until_it_goes() -> None:
    api, leader = ring("a-1", "a-2", "a-3", least=3)
    api.answers["a-2"] = REFUSED
    leader.go_on()
    assert sorted(api.asked) == ["a-1", "a-2", "a-3"]
    api.delete("wanted")
    leader.pass_time(REFUSED_SECONDS)
    leader.go_on(steps=2)
    assert sorted(api.asked) == ["a-1", "a-2", "a-2", "a-3"]
    api.answers.clear()
    leader.pass_time(2 * REFUSED_SECONDS)
    leader.go_on(steps=2)
    assert api.is_leaving("a-2")
    leader.pass_time(REFUSED_SECONDS)
    leader.go_on(steps=2)
    assert len(api.asked) == 5


def test_what_is_refused_late_of_a_gang_that_goes_is_asked_again_too() -> None:
    """A part of its minimum would stay for ever."""
    api, leader = ring("a-1", "a-2", "a-3", least=3)
    leader.go_on(until=lambda: leader.is_about_to_evict)
    late = "give-back", api.pods["a-2"]["metadata"]["uid"]
    send_all_but(leader, late)
    for name in ("a-1", "a-3"):
        api.end(name)
    api.delete("wanted")
    leader.hear(99)
    leader.pass_time(LATE_SECONDS)
    api.create("another", "other", 1)
    leader.hear(99)
    leader.step()
    api.answers["a-2"] = REFUSED
    leader.writes.send(late, gives_up=False)
    leader.go_on(steps=2)
    api.answers.clear()
    leader.pass_time(REFUSED_SECONDS)
    leader.go_on(steps=2)
    assert (sorted(api.asked), api.is_leaving("a-2")) == (["a-1", "a-2", "a-2", "a-3"], True)


def test_a_gang_of_which_nothing_went_is_asked_for_no_more_once_nobody_waits() -> None:
    """What refused stays refused; later it would have gone for nobody."""
    api, leader = ring("a-1", "a-2", "a-3", least=3)
    api.answers |= dict.fromkeys(("a-1", "a-2", "a-3"), REFUSED)
    leader.go_on()
    assert sorted(api.asked) == ["a-1", "a-2", "a-3"]
    api.delete("wanted")
    api.answers.clear()
    leader.pass_time(2 * REFUSED_SECONDS)
    leader.go_on(steps=3)
    assert len(api.asked) == 3
    assert not any(map(api.is_leaving, ("a-1", "a-2", "a-3")))


def test_a_gang_that_runs_again_is_left_alone_once_nobody_waits() -> None:
    """One pod of the gang refused, and the others were made again. It would go alone now."""
    api, leader = ring("a-1", "a-2", "a-3", least=3)
    api.answers["a-2"] = REFUSED
    leader.go_on()
    assert sorted(api.asked) == ["a-1", "a-2", "a-3"]
    api.delete("wanted")
    for gone, made in (("a-1", "a-4"), ("a-3", "a-5")):
        api.end(gone)
        api.run(made, "other")
        api.change(made, lambda one: one["metadata"].setdefault("annotations", {}).update({GROUP: "ring"}))
    api.answers.clear()
    leader.go_on(steps=2)
    leader.pass_time(2 * REFUSED_SECONDS)
    leader.go_on(steps=3)
    assert len(api.asked) == 3
    assert not any(map(api.is_leaving, ("a-2", "a-4", "a-5")))


def test_a_gang_of_which_one_went_goes_on_though_nobody_waits_any_more() -> None:
    """Before the first one is sent, none goes."""
    api = LendingApi()
    create, left = api._create, ["wanted"]

    def create_and_delete_who_asked(path: str, body: Wire) -> bytes:
        answer = create(path, body)
        if path.endswith("/eviction") and left:
            api.delete(left.pop())
            leader.hear(99)
        return answer

    api._create = create_and_delete_who_asked  # type: ignore[method-assign]
    for name in ("a-1", "a-2", "a-3"):
        api.run(name, "other")
        api.change(name, lambda one: one["metadata"].setdefault("annotations", {}).update({GROUP: "ring"}))
    leader = LendingReplica(api)
    leader.server.has(podgroup("ring", queue="other", minMember=3))
    api.create("wanted", "team", 1)
    leader.go_on()
    assert sorted(api.asked) == ["a-1", "a-2", "a-3"]
    other, keeps = ring("a-1", "a-2", "a-3", least=3)
    keeps.go_on(until=lambda: keeps.is_about_to_evict)
    other.delete("wanted")
    keeps.go_on()
    assert other.asked == []


def test_what_is_left_of_a_gang_goes_whole_where_another_pod_takes_the_surplus_in_the_same_look() -> None:
    """It is asked once for all of the rest whether the pod that asks still waits."""
    api, leader = ring("a-1", "a-2", "a-3", least=2)
    api.create("more", "team", 1)
    leader.go_on()
    assert sorted(api.asked) == ["a-1", "a-2", "a-3"]
    is_whole = {name: "with all of its gang" in leader.messages[name] for name in api.asked}
    assert is_whole == {"a-1": True, "a-2": True, "a-3": False}


def test_the_rest_of_a_gang_stays_where_its_surplus_goes_with_a_later_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a part of its minimum would stay."""
    api, leader = ring("a-1", "a-2", "a-3", least=2)
    api.create("more", "team", 1)
    may_evict, later = GiveBacks._may_evict, list[str]()

    def may_evict_later(self: GiveBacks, found: Sequence[Borrowed], victims: Any) -> bool:
        if not may_evict(self, found, victims):
            return False
        later.extend(pod.uid for pod in found if len(later) == 0)
        return later != [pod.uid for pod in found]

    monkeypatch.setattr(GiveBacks, "_may_evict", may_evict_later)
    leader.go_on(until=lambda: later)
    leader.send_all()
    assert (len(later), api.asked) == (1, [])
    later.append("nothing more is put off")
    leader.go_on()
    assert sorted(api.asked) == ["a-1", "a-2", "a-3"]


@each_case("where", ["annotations", "labels"])
def test_what_says_that_it_is_not_preemptable_stays(where: str) -> None:
    api, leader = lab("a-1", "a-2", "a-3")
    for name in ("a-2", "a-3"):
        api.change(name, lambda one: one["metadata"].setdefault(where, {}).update({PREEMPTABLE: "false"}))
    leader.go_on()
    assert api.asked == ["a-1"]
    api, leader = ring("a-1", "a-2", "a-3", least=3)
    api.change("a-1", lambda one: one["metadata"].setdefault(where, {}).update({PREEMPTABLE: "false"}))
    leader.go_on()
    assert api.asked == [], "nor does the rest of its gang"


# Which rule keeps those who could go


def mark(api: LendingApi, value: str, *names: str) -> None:
    for name in names:
        api.change(
            name, lambda one: one["metadata"].setdefault("annotations", {}).update({PREEMPTABLE: value})
        )


KEPT_3 = f'3 pods of queue "other" could go: 3 say {PREEMPTABLE}: false'


def test_who_asks_in_vain_says_who_could_go_and_what_keeps_them() -> None:
    api, leader = lab("a-1", "a-2", "a-3")
    mark(api, "false", "a-1", "a-2", "a-3")
    api.create("second", "team", 1)
    leader.go_on()
    texts = {name: leader.said[name].kept for name in ("wanted", "second")}
    assert sorted(texts.values()) == ["", KEPT_3], "the first of those that request the same says it"
    mark(api, "true", "a-2", "a-3")
    leader.pass_time(KEPT_SECONDS)
    leader.go_on()
    assert sorted(api.asked) == ["a-2", "a-3"]
    assert [leader.said[name].kind for name in texts] == [LackKind.GIVEN_BACK] * 2
    assert [leader.said[name].kept for name in texts] == ["", ""]


def test_it_says_so_again_where_the_numbers_change_and_where_another_pod_is_first() -> None:
    api, leader = lab("a-1", "a-2", "a-3")
    mark(api, "false", "a-1", "a-2", "a-3")
    leader.go_on()
    api.end("a-3")
    api.run("d-4", "other", owner={**OWNER, "kind": "Node"})
    leader.pass_time(2 * KEPT_SECONDS)
    leader.go_on()
    now = f'3 pods of queue "other" could go: 2 say {PREEMPTABLE}: false, 1 is of a DaemonSet'
    assert leader.said["wanted"].kept == now
    api.create("urgent", "team", 1, priority=1)
    leader.go_on()
    assert (leader.said["urgent"].kept, leader.said["wanted"].kept) == (now, "")


@each_case(
    "after", [{}, {"takes": "actions: allocate\ntiers: [{plugins: []}]\n"}], ids=["gone", "without it"]
)
def test_it_says_so_no_more_once_the_action_has_left_the_policy(after: dict[str, str]) -> None:
    """What rules keep is of no concern then: nobody goes for it whatever they say."""
    api, leader = lab("a-1", "a-2", "a-3")
    mark(api, "false", "a-1", "a-2", "a-3")
    leader.go_on()
    assert leader.said["wanted"].kept == KEPT_3
    leader.said.clear()
    leader.server.has(policies(**after))
    leader.go_on(steps=3)
    assert leader.said["wanted"].kind is LackKind.CAPABILITY
    assert leader.said["wanted"].kept == ""
    assert leader.releases._give_backs.kept_text("uid-wanted") == ""
    assert api.asked == []
    leader.said.clear()
    leader.pass_time(2 * KEPT_SECONDS)
    leader.go_on(steps=3)
    assert leader.said == {}, "once"
    leader.server.has(policies(takes=TAKES))
    leader.pass_time(KEPT_SECONDS)
    leader.go_on(steps=3)
    assert leader.said["wanted"].kept == KEPT_3


# Looks that take too long


def slow(monkeypatch: pytest.MonkeyPatch, leader: LendingReplica, *cpus: int) -> list[str]:
    """Each search for pods that request these takes more than a slice. Returns who asks, in that order."""
    ask, asked = GivingBack.ask, list[str]()

    def ask_slowly(look: GivingBack, claimant: WaitingPod, *more: Any) -> Any:
        asked.append(claimant.uid.removeprefix("uid-").rpartition("-")[0])
        if dict(claimant.requests)["cpu"] in cpus:
            leader.server.clock.seconds += 2 * LOOK_SECONDS
        return ask(look, claimant, *more)

    monkeypatch.setattr(GivingBack, "ask", ask_slowly)
    return asked


def test_a_search_that_takes_a_whole_slice_each_time_starves_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first asks for more than its queue deserves, and is denied."""
    api, leader = lab("a-1", "a-2", "a-3")
    api.create("greedy", "team", 3, priority=9)
    slow(monkeypatch, leader, 3)
    leader.go_on()
    assert api.asked == ["a-3"]
    assert leader.said["wanted"].kind is LackKind.GIVEN_BACK
    assert leader.said["greedy"].kind is not LackKind.GIVEN_BACK


def test_who_was_given_room_in_a_look_keeps_it_while_others_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them are slow, so that each look asks one: nobody goes for two, and no room is taken twice."""
    api = LendingApi()
    for name in ("a-1", "a-2", "a-3"):
        api.run(name, "other")
    leader = LendingReplica(api)
    for name, priority in (("first", 3), ("second", 2), ("third", 1)):
        api.create(name, "team", 1, priority=priority)
    asked = slow(monkeypatch, leader, 1)
    leader.go_on(steps=20)
    assert sorted(api.asked) == ["a-2", "a-3"], "what the queue deserves"
    assert {"first", "second", "third"} <= set(asked)
    assert [leader.said[name].kind is LackKind.GIVEN_BACK for name in ("first", "second")] == [True] * 2
    for name in api.asked:
        api.end(name)
    leader.go_on(steps=20)
    assert [api.is_released(name) for name in ("first", "second", "third")] == [True, True, False]


def test_what_is_told_of_those_that_stay_is_told_though_each_look_is_cut_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And told again where it changes, also where telling one class takes more than a slice."""
    api, leader = lab("a-1", "a-2", "a-3")
    mark(api, "false", "a-1", "a-2", "a-3")
    api.create("double", "team", 2)
    slow(monkeypatch, leader, 1, 2)

    def tell_slowly(*args: Any) -> KeptVictims:
        leader.server.clock.seconds += 2 * LOOK_SECONDS
        return kept_victims(*args)

    monkeypatch.setattr("controller.quota.give_backs.kept_victims", tell_slowly)
    leader.go_on(steps=20)
    assert [leader.said[name].kept for name in ("wanted", "double")] == [KEPT_3] * 2
    api.end("a-3")
    api.run("a-4", "other", owner={**OWNER, "kind": "Node"})
    leader.pass_time(KEPT_SECONDS)
    leader.go_on(steps=20)
    now = f'3 pods of queue "other" could go: 2 say {PREEMPTABLE}: false, 1 is of a DaemonSet'
    assert [leader.said[name].kept for name in ("wanted", "double")] == [now] * 2
    mark(api, "true", "a-1", "a-2")
    leader.pass_time(KEPT_SECONDS)
    leader.go_on(steps=20)
    assert [leader.said[name].kept for name in ("wanted", "double")] == [""] * 2


def test_a_new_leader_takes_over_all_room_though_each_search_takes_a_slice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api, former = lab("a-1", "a-2", "a-3")
    api.create("greedy", "team", 3, priority=9)
    former.go_on()
    assert api.asked == ["a-3"]
    leader = LendingReplica(api)
    slow(monkeypatch, leader, 3)
    leader.go_on(steps=20)
    assert api.asked == ["a-3"]
    assert leader.said["wanted"].kind is LackKind.GIVEN_BACK


def test_where_each_look_is_late_from_the_start_all_ask_and_those_again_whose_budgets_were_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("controller.quota.give_backs.LOOK_SECONDS", -1.0)
    api, leader = lab("a-1", "a-2", "a-3")
    for name in ("second", "third"):
        api.create(name, "team", 1)
    leader.go_on(steps=20)
    assert sorted(api.asked) == ["a-2", "a-3"]
    for name in api.asked:
        api.end(name)
    leader.go_on(steps=20)
    assert sum(map(api.is_released, ("wanted", "second", "third"))) == 2


def test_a_queue_that_is_deleted_in_the_midst_of_a_round_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is told of its classes any more."""
    monkeypatch.setattr("controller.quota.give_backs.LOOK_SECONDS", -1.0)
    api, leader = lab("a-1", "a-2", "a-3")
    spec: dict[str, Any] = {"parent": "lab", "deserved": {"cpu": "0"}, "priority": 9}
    leader.server.has(queue("gone", version=3, generation=1, **spec))
    api.create("first", "gone", 1)
    turn = leader.releases._give_backs
    leader.go_on(until=lambda: any(of == "gone" for of, _ in turn._round.denied))
    assert turn._round.denied
    leader.server.lacks(queue("gone", version=4, generation=1, **spec))
    leader.pass_time(2 * KEPT_SECONDS)
    leader.go_on(steps=20)
    assert leader.said["wanted"].kind is LackKind.GIVEN_BACK


def test_after_a_fault_all_ask_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    api, leader = lab("a-1", "a-2", "a-3")
    turn = leader.releases._give_backs
    leader.go_on(until=lambda: turn._budgets)
    before = turn._round

    def fails(*_: object) -> None:
        raise RuntimeError("a fault")

    with monkeypatch.context() as patched:
        patched.setattr(GivingBack, "ask", fails)
        with pytest.raises(RuntimeError, match="a fault"):
            leader.go_on()
    assert turn._round is not before
    assert not turn._round.has_asked
    leader.go_on()
    assert api.asked == ["a-3"]
