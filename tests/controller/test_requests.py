"""What was asked for and does not show yet: late answers, terms, pods that are gone, requests that fail."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from copy import deepcopy
from functools import partial

import msgspec

from cluster.backoff import Backoff
from controller.requests import NEVER, RequestState, RequestTable, RequestTables
from tests.support.controller.controller_harness import ControllerHarness
from tests.support.http.wire_objects import member, namespace, queue

BACKOFF = Backoff(2.0, 10.0)


def made() -> RequestTable[RequestState]:
    return RequestTable(RequestState, backoff=BACKOFF)


def test_what_is_under_way_or_granted_is_not_asked_again() -> None:
    table = made()
    assert table.may_send("a", now=0.0)
    table.send("a", version=1)
    assert not table.may_send("a", now=math.inf)
    table.grant("a", now=5.0)
    assert not table.may_send("a", now=math.inf)
    assert not table.is_sent("a")
    assert table.unshown == {"a"}
    table.settle_shown(is_shown=lambda _: False, now=14.0, within=10.0)
    assert not table.may_send("a", now=14.0)
    table.settle_shown(is_shown=lambda _: False, now=15.0, within=10.0)
    assert table.may_send("a", now=15.0)


def test_what_shows_may_be_asked_again() -> None:
    table = made()
    for uid in ("a", "b"):
        table.send(uid)
        table.grant(uid, now=0.0)
    table.settle_shown(is_shown=lambda uid: uid == "a")
    assert table.unshown == {"b"}


def test_each_failure_in_a_row_delays_the_next_request_for_longer() -> None:
    table, waits = made(), []
    for _ in range(4):
        table.send("a")
        table.refuse("a", now=100.0, message="no")
        waits.append(table.due - 100.0)
    assert (waits, table.failures("a")) == ([2.0, 4.0, 8.0, 10.0], 4)
    assert table.is_postponed("a", now=109.0)
    assert table.may_send("a", now=110.0)
    table.send("a")
    table.grant("a", now=110.0)
    assert table.failures("a") == 0


def test_what_was_not_asked_is_no_failure() -> None:
    table = made()
    table.send("a")
    table.drop("a")
    assert (table.failures("a"), table.may_send("a", now=0.0)) == (0, True)
    table.send("a")
    table.drop("a", until=3.0)
    assert [table.may_send("a", now=now) for now in (2.0, 3.0)] == [False, True]


def test_what_is_asked_for_each_version_is_forgotten_for_that_version_alone() -> None:
    table = made()
    table.send("a", version=1)
    assert (table.is_asked("a", 1), table.is_asked("a", 2)) == (True, False)
    table.send("a", version=2)
    table.forget("a", version=1)
    assert table.is_asked("a", 2)
    table.forget("a", version=2)
    assert "a" not in table


def test_only_the_last_time_of_each_is_due_once() -> None:
    table = made()
    table.postpone("a", until=5.0)
    table.postpone("a", until=3.0)
    table.postpone("b", until=4.0)
    table.forget("b")
    assert table.due == 3.0
    assert [uid for uid, _ in table.take_due(10.0)] == ["a"]
    assert (list(table.take_due(10.0)), table.due) == ([], math.inf)


def test_many_times_of_one_request_take_no_room() -> None:
    table = made()
    for until in range(10_000):
        table.postpone("a", until=float(until))
    assert len(table._heap) < 200


def test_an_answer_is_recorded_in_the_term_that_asked_alone() -> None:
    requests, received = RequestTables(), list[int]()
    early = requests.of_term(received.append)
    early(1)
    requests.begin_term()
    early(2)
    requests.of_term(received.append)(3)
    requests.begin_term()
    early(4)
    assert received == [1, 3]


def test_a_term_begins_with_no_request_in_any_table() -> None:
    """Also where two parts name theirs alike."""
    requests = RequestTables()
    tables = [requests.table("Pod", "evict", RequestState) for _ in range(2)]
    for table in tables:
        table.send("a")
        table.postpone("b", until=5.0)
    requests.begin_term()
    assert [(len(table), table.due) for table in tables] == [(0, math.inf)] * 2


def test_a_pod_that_is_gone_is_forgotten_in_all_tables_of_pods() -> None:
    harness = ControllerHarness()
    harness.receive_events(
        namespace("team"), queue("root"), queue("research"), member("gone"), member("here")
    )
    harness.sync()
    requests = harness.controller._context.requests
    of_pods, of_jobs = (requests.table(kind, "test", RequestState) for kind in ("Pod", "Job"))
    for table in (of_pods, of_jobs):
        for uid in ("uid-gone", "uid-here"):
            table.send(uid)
    harness.receive_events(member("gone", version=2), event="DELETED")
    harness.receive_events(member("here", version=2), event="MODIFIED")
    harness.sync(rounds=1)
    assert of_pods.sent == {"uid-here"}
    assert of_jobs.sent == {"uid-gone", "uid-here"}


class Model(msgspec.Struct):
    """What is true of one object, as plainly as can be said."""

    is_open: bool = False
    failures: int = 0
    until: float = NEVER


class RandomRequests:
    """Answers in any order, a watch that is late or lost, terms; and a model of what is true beside them."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.requests = RequestTables()
        self.table = self.requests.table("Pod", "evict", RequestState, backoff=BACKOFF)
        self.now, self.term = 0.0, 0
        self.truth = {uid: Model() for uid in "abc"}
        #: Of those under way: the term that asked, the object, and what receives the answer.
        self.under_way: list[tuple[int, str, Callable[[str], None]]] = []

    def ask(self, uid: str) -> None:
        if self.table.may_send(uid, now=self.now):
            assert not self.truth[uid].is_open
            assert self.truth[uid].until <= self.now
            self.table.send(uid)
            self.truth[uid] = Model(is_open=True, failures=self.truth[uid].failures)
            receive = self.requests.of_term(partial(self.receive, uid))
            self.under_way.append((self.term, uid, receive))

    def answer(self, _uid: str) -> None:
        if self.under_way:
            term, _, receive = self.under_way.pop(self.chance.randrange(len(self.under_way)))
            before = deepcopy(dict(self.table.items()))
            receive(self.chance.choice(("granted", "refused", "dropped")))
            assert term == self.term or dict(self.table.items()) == before

    def receive(self, uid: str, outcome: str) -> None:
        failures = self.truth[uid].failures
        if outcome == "granted":
            self.table.grant(uid, now=self.now)
            self.truth[uid] = Model(is_open=True)
        elif outcome == "refused":
            self.table.refuse(uid, now=self.now)
            until = self.now + BACKOFF.seconds(failures + 1)
            self.truth[uid] = Model(failures=failures + 1, until=until)
        else:
            self.table.drop(uid)
            self.truth[uid] = Model(failures=failures)

    def shows(self, uid: str) -> None:
        self.table.settle_shown(is_shown=lambda each: each == uid)
        self.truth[uid].is_open = self.truth[uid].is_open and self.table.is_sent(uid)

    def expires(self, _uid: str) -> None:
        """The watch is lost."""
        self.table.settle_shown(is_shown=lambda _: False, now=math.inf, within=1.0)
        for uid, of_it in self.truth.items():
            of_it.is_open = of_it.is_open and self.table.is_sent(uid)

    def other_term(self, _uid: str) -> None:
        if self.chance.random() < 0.2:
            self.requests.begin_term()
            self.term, self.truth = self.term + 1, {uid: Model() for uid in "abc"}

    def go(self) -> None:
        acts = (self.ask, self.ask, self.answer, self.answer, self.shows, self.expires, self.other_term)
        for _ in range(400):
            self.now += self.chance.choice((0.0, 0.5, 3.0))
            self.chance.choice(acts)(self.chance.choice("abc"))
            for uid, of_it in self.truth.items():
                may_go = not of_it.is_open and of_it.until <= self.now
                assert self.table.may_send(uid, now=self.now) == may_go
                assert self.table.failures(uid) == of_it.failures
        postponed = {uid for uid, of_it in self.truth.items() if of_it.until > self.now}
        assert postponed <= {uid for uid, _ in self.table.take_due(math.inf)}


def test_whatever_comes_late_twice_or_not_at_all() -> None:
    """No object has two requests of one term under way, none is asked for during its back-off, and none is
    kept back that may go.
    """
    for seed in range(20):
        RandomRequests(seed).go()
