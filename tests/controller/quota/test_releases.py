"""Releases never pass a capability, whatever crashes, sleeps, is late or is lost; and what has room goes."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any, cast

import msgspec
import pytest

from cluster.api.client import Client
from cluster.exceptions import Conflict, NotFound, Refused
from cluster.informers.event_handlers import QueueEventHandler
from controller.context import ControllerContext
from controller.quota import book_writes
from controller.quota.book_writes import StoredBook
from controller.quota.releases import QuotaReleases
from controller.quota.waiting_pods import WaitingPods
from controller.status.quota_status import QuotaUseByQueue
from queues.apimachinery.timestamps import rfc3339
from queues.quota.book import Book, encode, parse
from queues.quota.report import NOTHING_BESIDE, CountedBeside
from queues.well_known import FORCE_DELETED_ENDED
from tests.support.examples import scaled
from tests.support.http.wire_objects import queue
from tests.support.quota import histories
from tests.support.quota.histories import RATES, ApiServer, History, Replica

HISTORIES = 400
SEEDS = range(scaled(HISTORIES))


@pytest.mark.parametrize("part", range(4))
def test_no_history_takes_a_queue_over_its_capability_or_leaves_what_has_room(part: int) -> None:
    found = {seed: faults for seed in SEEDS[part::4] if (faults := History(seed).run())}
    assert found == {}


def test_a_release_that_was_written_down_waits_while_its_queue_is_stopped() -> None:
    """The stop comes before its patch is sent, or while it waits for a writer."""
    api = ApiServer(random.Random(0))
    api.is_rough = False
    leader = Replica(api, QuotaReleases)
    api.create("p", "team", 1)

    def settle() -> list[Any]:
        for _ in range(6):
            leader.hear(9)
            leader.step()
            leader.send_all()
        gates: list[Any] = api.pods["p"]["spec"].get("schedulingGates", [])
        return gates

    for _ in range(20):
        leader.hear(9)
        leader.step()
        if ("quota-release", api.pods["p"]["metadata"]["uid"]) in leader.writes.held:
            break
        leader.send_all()
    leader.server.has(queue("lab", state="Suspended", capability={"cpu": "3"}, version=2, generation=2))
    assert settle() != []
    leader.server.has(queue("lab", capability={"cpu": "3"}, version=3, generation=3))
    assert settle() == []


def goes_on(replica: Replica, *, until_it_holds: str = "") -> None:
    """It works until it has no more to do, or is to send a release of that pod and does not."""
    for _ in range(20):
        replica.hear(99)
        replica.step()
        if until_it_holds in {uid for kind, uid in replica.writes.held if kind == "quota-release"}:
            return
        replica.send_all()


def asleep_with_a_lost_book(api: ApiServer, replica: Replica) -> str:
    """It sleeps before it releases a pod that uses all of `team`, and the book is lost; the pod's UID."""
    if "early" not in api.pods:
        api.create("early", "team", 2)
    uid = str(api.pods["early"]["metadata"]["uid"])
    goes_on(replica, until_it_holds=uid)
    api.book = None
    api.create("late", "team", 2, priority=1)
    return uid


def smooth_api() -> ApiServer:
    api = ApiServer(random.Random(0))
    api.is_rough = False
    return api


def test_nothing_is_released_while_pods_may_run_that_are_not_known() -> None:
    """And nothing hurries meanwhile: what waits is due once they are known."""
    api, is_unknown = smooth_api(), [True]
    leader = Replica(api, partial(QuotaReleases, is_use_unknown=lambda: is_unknown[0]))
    api.create("early", "team", 1)
    goes_on(leader)
    assert not histories.is_released(api.pods["early"])
    assert leader.releases.due == math.inf
    is_unknown[0] = False
    goes_on(leader)
    assert histories.is_released(api.pods["early"])


def test_what_counts_though_no_pod_is_seen_to_use_it_is_told_by_its_reason() -> None:
    """Until it is seen, and not beside that. One of the two without a gate has room."""
    api = smooth_api()
    leader = Replica(api, QuotaReleases)
    for name in ("first", "second"):
        api.create(name, "other", 2, gated=False)
    for _ in range(20):
        leader.hear(99)
        leader.step()
        if leader.releases.counted_beside("lab").releasing:
            break
        leader.send_all()
    one = {"cpu": 2, "pods": 1}
    assert leader.releases.counted_beside("lab") == CountedBeside(releasing=one, ungated=one)
    goes_on(leader)
    assert leader.releases.counted_beside("lab") == CountedBeside(ungated=one)
    assert leader.releases.counted_beside("team") == NOTHING_BESIDE


def test_a_book_is_new_until_all_was_touched_whoever_opens_it() -> None:
    """Who has made it crashes before that."""
    api = smooth_api()
    sleeper, crashing, leader = (Replica(api, QuotaReleases) for _ in range(3))
    uid = asleep_with_a_lost_book(api, sleeper)
    crashing.hear(99)
    crashing.step()
    crashing.send_all()
    assert api.book is not None
    goes_on(leader)
    assert histories.is_released(api.pods["late"])
    sleeper.writes.send(("quota-release", uid), gives_up=True)
    assert api.faults == []


def test_who_opens_a_new_book_goes_on_where_the_last_leader_died() -> None:
    """Leaders that die sooner than one of them has touched all pods come to an end all the same."""
    api = smooth_api()
    names = [f"p{number}" for number in range(9)]
    for name in names:
        api.create(name, "team", 1)
    touched: list[str] = []
    for _ in range(9):
        leader = Replica(api, QuotaReleases)
        for _ in range(5):
            leader.hear(99)
            leader.step()
            touches = [key for key in leader.writes.held if key[0] == "quota-touch"]
            if touches:
                leader.writes.send(touches[0], gives_up=False)
                touched.append(str(touches[0][1]))
                break
            leader.send_all()
    assert sorted(touched) == sorted(api.pods[name]["metadata"]["uid"] for name in names)
    goes_on(Replica(api, QuotaReleases))
    assert any(histories.is_released(api.pods[name]) for name in names)
    assert api.faults == []


def test_a_pod_is_touched_again_for_each_book_that_is_new() -> None:
    """One that thinks that it leads has touched it for the book before."""
    api = smooth_api()
    leader, sleeper = Replica(api, QuotaReleases), Replica(api, QuotaReleases)
    api.create("other", "team", 2, priority=9)
    api.create("early", "team", 2)
    goes_on(leader)
    api.delete("other")
    uid = asleep_with_a_lost_book(api, sleeper)
    goes_on(leader)
    assert histories.is_released(api.pods["late"])
    sleeper.writes.send(("quota-release", uid), gives_up=True)
    assert api.faults == []


def test_a_pod_that_changes_at_each_try_does_not_hold_up_the_others() -> None:
    """It has a back-off of its own, and what it would use is free meanwhile."""
    api = ApiServer(random.Random(0))
    api.is_rough = False
    leader = Replica(api, QuotaReleases)
    api.create("a-restless", "team", 2)
    api.create("other", "team", 2)
    patches = 0
    for _ in range(100):
        leader.hear(9)
        leader.step()
        if ("quota-release", api.pods["a-restless"]["metadata"]["uid"]) in leader.writes.held:
            patches += 1
            api.change("a-restless", lambda one: one["metadata"]["labels"].update(note=str(api.version)))
        leader.send_all()
        leader.server.clock.seconds -= 0.9  # a tenth of a second for each step
    assert 2 <= patches <= 6
    assert "schedulingGates" not in api.pods["other"]["spec"]


def test_what_an_admin_says_has_ended_of_it_lets_the_next_one_go_at_once() -> None:
    api = ApiServer(random.Random(0))
    api.is_rough = False
    leader = Replica(api, QuotaReleases)
    api.create("forced", "team", 2)
    api.create("next", "team", 2)

    def go_on() -> None:
        for _ in range(9):
            leader.hear(9)
            leader.step()
            leader.send_all()

    go_on()
    api.change("forced", lambda one: one["spec"].update(nodeName="n", terminationGracePeriodSeconds=3600))
    for _ in range(2):
        api.delete("forced")
    go_on()
    assert "schedulingGates" in api.pods["next"]["spec"]
    team = queue("team", parent="lab", capability={"cpu": "2"}, version=500)
    team["metadata"]["annotations"] = {FORCE_DELETED_ENDED: rfc3339(leader.server.clock.at)}
    leader.server.has(team)
    go_on()
    assert "schedulingGates" not in api.pods["next"]["spec"]


def test_what_was_deleted_by_force_counts_on_and_its_end_lets_the_next_one_go() -> None:
    """Nothing changes when it ends; a replica that comes to lead meanwhile counts it, too."""
    api = ApiServer(random.Random(0))
    api.is_rough = False
    leader, other = Replica(api, QuotaReleases), Replica(api, QuotaReleases)
    api.create("forced", "team", 2)
    api.create("next", "team", 2)

    def has_gate(name: str) -> bool:
        return "schedulingGates" in api.pods[name]["spec"]

    def go_on(replica: Replica, seconds: int) -> None:
        for each in (leader, other):
            each.hear(9)
        for _ in range(seconds):
            replica.hear(9)
            replica.step()
            replica.send_all()

    go_on(leader, 9)
    assert (has_gate("forced"), has_gate("next")) == (False, True)
    api.change("forced", lambda one: one["spec"].update(nodeName="n", terminationGracePeriodSeconds=30))
    api.delete("forced")
    api.delete("forced")
    other.server.clock.seconds = leader.server.clock.seconds
    go_on(leader, 9)
    other.begin_term()
    go_on(other, 18)
    assert has_gate("next")
    assert leader.server.store.quota_use("team") == {"cpu": 2, "pods": 1}
    wakes_at = other.releases.due
    assert wakes_at == leader.server.store.force_deleted.next_end("team")
    other.server.clock.seconds = wakes_at
    go_on(other, 3)
    assert not has_gate("next")


class Corner:
    """A leader, and a queue that has room for one pod."""

    def __init__(self) -> None:
        self.api = ApiServer(random.Random(0))
        self.api.is_rough = False
        self.leader = Replica(self.api, QuotaReleases)
        self.leader.server.has(queue("lab", capability={"cpu": "1"}, version=2, generation=2))
        self.settle()  # the book is open

    def settle(self, steps: int = 12) -> list[str]:
        """The pods that are released by then."""
        for _ in range(steps):
            self.leader.hear(99)
            self.leader.step()
            self.leader.send_all()
        return [name for name, one in self.api.pods.items() if histories.is_released(one)]

    def until_sent(self, name: str) -> None:
        """Its release is held, and so are all writes from then on."""
        for _ in range(20):
            self.leader.hear(99)
            self.leader.step()
            if self.release(name) in self.leader.writes.held:
                return
            self.leader.send_all()
        raise AssertionError("it is never sent")

    def release(self, name: str) -> tuple[str, str]:
        return "quota-release", self.api.pods[name]["metadata"]["uid"]


@pytest.mark.parametrize("by", ["event", "list"])
def test_what_runs_of_a_queue_that_is_gone_counts_above_until_it_ends(by: str) -> None:
    """Also once a queue of its name is there again, and however the server heard that it went."""
    corner = Corner()
    server, team = corner.leader.server, queue("team", parent="lab", capability={"cpu": "2"})
    corner.api.create("runs", "team", 1)
    assert corner.settle() == ["runs"]
    if by == "event":
        server.lacks(team)
    else:
        kept = [obj for name, obj in server.store.queues.items() if name != "team"]
        QueueEventHandler(server.store).replace(kept)
    corner.api.create("waits", "lab", 1)
    assert corner.settle() == ["runs"]
    again = queue("team", parent="lab", version=9)
    again["metadata"]["uid"] = "another"
    server.has(again)
    assert corner.settle() == ["runs"]
    server.lacks(again)
    assert corner.settle() == ["runs"]
    assert QuotaUseByQueue(server.store).below("lab").used == {"cpu": 1, "pods": 1}
    corner.api.delete("runs")
    assert corner.settle() == ["waits"]
    assert server.store.queue_cache.former_parent("team") is None


def test_a_pod_that_a_policy_lets_nobody_release_keeps_no_place_in_the_book_and_no_room() -> None:
    corner = Corner()
    corner.api.create("denied", "team", 1, priority=9)
    corner.api.forbidden.add("denied")
    corner.settle()
    corner.api.create("other", "team", 1)
    assert corner.settle() == ["other"]
    assert corner.settle(40) == ["other"]
    corner.api.delete("other")
    corner.api.forbidden.clear()
    assert corner.settle(40) == ["denied"]


def test_one_that_is_refused_while_an_earlier_try_may_still_happen_keeps_its_room() -> None:
    """Until it can be changed."""
    corner = Corner()
    corner.api.create("denied", "team", 1, priority=9)
    corner.until_sent("denied")
    late, _ = corner.leader.writes.held[corner.release("denied")]
    corner.leader.begin_term()
    corner.leader.writes.held.clear()
    corner.api.forbidden.add("denied")
    corner.api.create("other", "team", 1)
    assert corner.settle(40) == []
    corner.api.forbidden.clear()
    late()
    assert corner.settle() == ["denied"]


@pytest.mark.parametrize("answer", [Conflict(409, "Conflict", "no"), NotFound(404, "NotFound", "no")])
def test_a_release_that_a_webhook_refuses_as_if_the_pod_had_changed_is_sent_again(answer: Refused) -> None:
    """Nothing is heard of such a change. It was waited for without end, and without a word."""
    corner = Corner()
    corner.api.create("denied", "team", 1)
    corner.api.conflicting["denied"] = answer
    assert corner.settle(20) == []
    failures = corner.leader.server.store.backoff.take_failures()
    assert {(failure.step, failure.key) for failure in failures} == {
        ("release", corner.api.pods["denied"]["metadata"]["uid"])
    }
    assert corner.leader.releases.due < corner.leader.server.clock.monotonic() + 60
    corner.api.conflicting.clear()
    assert corner.settle(40) == ["denied"]


def corner_with_a_new_book_and_a_pod_that_nobody_may_change() -> Corner:
    """`denied` would use all of queue `lab`; `beside` has room beside it."""
    corner = Corner()
    corner.leader.server.has(queue("far", parent="root", capability={"cpu": "1"}))
    corner.api.create("denied", "team", 1)
    corner.api.create("behind", "other", 1, priority=9)
    corner.api.create("beside", "far", 1)
    corner.api.forbidden.add("denied")
    corner.api.book = None
    corner.leader.begin_term()
    return corner


def test_where_the_book_is_new_a_pod_that_nobody_may_change_counts_and_holds_up_nobody_else() -> None:
    """What was begun before may still happen to it. Once it cannot any more, its room is for all."""
    corner = corner_with_a_new_book_and_a_pod_that_nobody_may_change()
    assert corner.settle(40) == ["beside"]
    corner.api.create("later", "team", 1)
    assert corner.settle(40) == ["beside"]
    assert not corner.leader.releases.is_book_ready
    corner.api.forbidden.clear()
    assert corner.settle(40) == ["behind", "beside"]
    assert corner.leader.releases.is_book_ready


@pytest.mark.parametrize("is_gone", [True, False], ids=["deleted", "released by the former leader"])
def test_a_pod_in_doubt_that_is_gone_or_is_released_leaves_nothing_behind(is_gone: bool) -> None:
    corner = corner_with_a_new_book_and_a_pod_that_nobody_may_change()
    corner.settle()
    if is_gone:
        corner.api.delete("denied")
    else:
        late = {"metadata": {"labels": {"sluice.dev/released": corner.release("denied")[1]}}, "spec": {}}
        corner.api.change("denied", lambda one: corner.api._apply(one, late))
    assert corner.settle() == (["behind", "beside"] if is_gone else ["denied", "beside"])
    assert corner.leader.releases.is_book_ready
    assert corner.api.faults == []


def test_the_next_leader_knows_what_is_in_doubt() -> None:
    """The book stays new, whatever the first one has written into it."""
    corner = corner_with_a_new_book_and_a_pod_that_nobody_may_change()
    assert corner.settle() == ["beside"]
    assert corner.api.book is not None
    first = parse(corner.api.book["data"]["book"])
    assert first.is_new
    corner.leader.begin_term()
    assert corner.settle() == ["beside"]
    after = parse(corner.api.book["data"]["book"])
    assert (after.is_new, after.since) == (True, first.since)
    assert after.term == first.term + 1


def test_a_gang_waits_for_a_pod_of_it_that_is_in_doubt() -> None:
    corner = Corner()
    corner.leader.server.has(queue("lab", capability={"cpu": "3"}, version=3, generation=3))
    corner.api.set_group("gang0", "other", 2)
    corner.api.create("denied", "other", 1, group="gang0")
    corner.api.create("mate", "other", 1, group="gang0")
    corner.api.create("single", "other", 1)
    corner.api.forbidden.add("denied")
    corner.api.book = None
    corner.leader.begin_term()
    assert corner.settle(40) == ["single"]
    corner.api.forbidden.clear()
    assert corner.settle(40) == ["denied", "mate", "single"]
    assert corner.api.faults == []


class WaitingPodsOfTheWatch(WaitingPods):
    def _count(self, queues: Iterable[str], begun: Collection[str]) -> None:
        super()._count(queues, ())


class CountsByTheWatchAlone(QuotaReleases):
    def __init__(self, context: ControllerContext, **more: Any) -> None:
        super().__init__(context, **more)
        self._waiting = WaitingPodsOfTheWatch(context.store, pause=lambda: None, placements=self._placements)


class ForgetsWhatHadNoAnswer(QuotaReleases):
    def _send_release(self, member: Any, intent: Any) -> None:
        super()._send_release(member, intent)
        self._intents.pop(intent.uid, None)

    def _send(self) -> None:
        for intent in list(self._intents.values()):
            member = self._store.members.by_uid(intent.uid)
            if member is not None and intent.is_written and not intent.is_sent:
                self._send_release(member, intent)


class DoubtsNothing(QuotaReleases):
    """A pod that cannot be changed counts as one that waits."""

    def _touch_all(self, uids: set[str], *, since: int) -> None:
        super()._touch_all(uids, since=since)
        uids -= self._unchangeable


class TouchesNothing(QuotaReleases):
    def _make_ready(self, stored: StoredBook) -> bool:
        self._to_touch = set()
        return super()._make_ready(stored)


class TrustsAnOldCache(QuotaReleases):
    def _is_cache_current(self, stored: StoredBook) -> bool:
        return True


def without_fence(client: Client, namespace: str, stored: StoredBook, book: Book) -> StoredBook:
    """As `write_book`, at whatever version is stored."""
    path = f"/api/v1/namespaces/{namespace}/configmaps/{book_writes.NAME}"
    answer = client.patch(path, {"metadata": {}, "data": {book_writes.KEY: encode(book)}})
    version = int(json.loads(answer)["metadata"]["resourceVersion"])
    return StoredBook(book, stored.uid, version)


class Unconditional:
    """A client that names no version of a pod."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def patch(self, path: str, body: Any, **more: Any) -> bytes:
        if "/pods/" in path:
            body["metadata"].pop("resourceVersion", None)
        return self._client.patch(path, body, **more)


def patching_whatever_version(context: ControllerContext, **more: Any) -> QuotaReleases:
    client = cast(Client, Unconditional(context.client))
    return QuotaReleases(msgspec.structs.replace(context, client=client), **more)


#: Each with the kind of histories that is made for it, by its place in `histories.RATES`.
FAULTY: dict[str, tuple[int, Callable[..., QuotaReleases]]] = {
    "counts by the watch alone": (0, CountsByTheWatchAlone),
    "drops an intent without an answer": (0, ForgetsWhatHadNoAnswer),
    "touches nothing where the book was lost": (1, TouchesNothing),
    "doubts nothing where the book was lost": (1, DoubtsNothing),
    "trusts a cache older than the book": (2, TrustsAnOldCache),
    "patches whatever version": (3, patching_whatever_version),
}


@pytest.mark.parametrize(("kind", "make"), FAULTY.values(), ids=FAULTY)
def test_the_histories_find_each_rule_that_is_left_out(kind: int, make: Callable[..., QuotaReleases]) -> None:
    assert _is_found(kind, make)


def test_the_histories_find_a_book_without_a_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book_writes, "write_book", without_fence)
    assert _is_found(4, QuotaReleases)


def test_the_histories_find_a_filter_that_lets_pass_what_was_not_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(histories, "refusal", lambda _pod, **_: None)
    assert _is_found(0, QuotaReleases)


def _is_found(kind: int, make: Callable[..., QuotaReleases]) -> bool:
    """Whether one of the histories that the suite runs finds it; those of this kind go first."""
    seeds = sorted(range(HISTORIES), key=lambda seed: seed % len(RATES) != kind)
    return any(_over(seed, make) for seed in seeds)


def _over(seed: int, make: Callable[..., QuotaReleases]) -> bool:
    return any("takes" in fault for fault in History(seed, make=make).run())
