"""Where the bind guard is wanted, when it is turned on or off, and what proves that it is on."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.exceptions import NotFound, Overloaded, Refused, Unreachable
from cluster.write_ranks import WriteRank
from controller.stops.bind_guard import (
    LONGEST_PROBE_SECONDS,
    PROBES_SECONDS,
    RETRY,
    SEEN_SECONDS,
    TERMINATING,
    BindGuards,
    GuardChange,
    GuardWrite,
    ProbeFailures,
    after_failure,
    guard_changes,
    namespaces_to_guard,
    outdated_guards,
    proves_guard,
)
from controller.workqueue import WorkQueue
from queues.well_known import GUARD, PROBE_SEEN
from tests.support.cases import each_case
from tests.support.controller.contexts import context_with
from tests.support.controller.leases import ByHand
from tests.support.http.asking import Server, SetClock
from tests.support.http.wire_objects import GROUP, Wire, member, namespace, pod, queue

NOW = 1000.0
TEAM_A = {"matchLabels": {"team": "a"}}
#: Requests the marker, so that kube-scheduler calls filter for it.
MARKED = {"requests": {"sluice.dev/member": "1"}}
STOPPED, OPEN = queue("research", state="Suspended"), queue("research")
LIMITED = queue("research", capability={"cpu": "2"})
SELECTIVE = queue("research", namespaceSelector=TEAM_A)


@each_case(
    ("its_queue", "its_pod", "expected"),
    [
        (STOPPED, member(), {"team"}),
        (STOPPED, member(resources=MARKED), {"team"}),
        (queue("research", stopPolicy="Hold"), member(), {"team"}),
        (queue("research", state="Closed"), member(), set()),
        (OPEN, member(), set()),
        (OPEN, member(queue="absent"), {"team"}),
        (OPEN, pod(annotations={GROUP: "absent"}), {"team"}),
        (STOPPED, member(gates=["sluice.dev/queue"], resources=MARKED), set()),
        (STOPPED, member(gates=["sluice.dev/queue"]), {"team"}),
        (STOPPED, member(nodeName="node-1"), set()),
        (STOPPED, member(status={"phase": "Succeeded"}), set()),
        (STOPPED, member(namespace="elsewhere"), set()),
        (SELECTIVE, member(), {"team"}),
        (SELECTIVE, member(namespace="ours"), set()),
        (LIMITED, member(), {"team"}),
        (LIMITED, member(gates=["sluice.dev/quota"]), set()),
        (LIMITED, member(uid="a", labels={"sluice.dev/released": "a"}), set()),
    ],
    ids=[
        "suspended",
        "suspended, a marked pod",
        "held",
        "Closed, whose pods still run",
        "Open",
        "a queue that does not exist",
        "a PodGroup that does not exist",
        "gated",
        "gated but not marked",
        "bound",
        "finished",
        "a namespace that is not known",
        "a namespace that the queue does not select",
        "a namespace that the queue selects",
        "a quota that was not asked",
        "a quota that has no room",
        "a quota that had room",
    ],
)
def test_the_guard_is_wanted_where_a_member_could_be_bound_against_its_queue(
    its_queue: Wire, its_pod: Wire, expected: set[str]
) -> None:
    """An unmarked pod loses its gate to anybody who may edit it, and then no filter call is made for it."""
    server = Server().has(queue("root", parent=None), namespace("ours", labels={"team": "a"}))
    server.has(its_queue, its_pod)
    assert namespaces_to_guard(server.store, server.store.snapshot) == expected


@pytest.mark.parametrize(
    ("labels", "assumed", "retried", "expected"),
    [
        ({GUARD: "token"}, True, True, {"team"}),
        ({}, True, True, set()),
        ({GUARD: "token"}, False, True, set()),
        ({GUARD: "token"}, True, False, set()),
    ],
    ids=["assumed and retried", "the guard is off", "let through here", "not retried"],
)
def test_the_guard_stays_on_where_a_retry_is_about_to_end_an_assumed_pass(
    labels: dict[str, str], assumed: bool, retried: bool, expected: set[str]
) -> None:
    """So that the next stop there need not wait. It is not turned on for that."""
    server = Server().has(queue("root", parent=None), namespace("team", labels=labels))
    server.has(OPEN, member(resources=MARKED))
    passes = server.store.bind_passes
    record = passes.assume_pass if assumed else passes.record_filter_pass
    record(namespace="team", name="work", queue="research")
    if retried:
        passes.record_retry("team", "work")
    assert namespaces_to_guard(server.store, server.store.snapshot) == expected


@pytest.mark.parametrize(
    ("its_queue", "of_pass", "expected"),
    [
        (STOPPED, "research", {"team"}),
        (OPEN, "research", set()),
        (SELECTIVE, "research", {"team"}),
        (OPEN, "", {"team"}),
    ],
    ids=["a stopped queue", "an open queue", "a namespace that is not selected", "a queue not known yet"],
)
def test_the_guard_is_wanted_where_a_pass_is_open(its_queue: Wire, of_pass: str, expected: set[str]) -> None:
    """The pod that has it may not be in the cache yet."""
    server = Server().has(queue("root", parent=None), its_queue)
    server.store.bind_passes.record_filter_pass(namespace="team", name="work", queue=of_pass)
    assert namespaces_to_guard(server.store, server.store.snapshot) == expected


def changes(wanted: set[str], **given: Any) -> list[GuardChange]:
    state: Mapping[str, Any] = {"on": {}, "labelled": set(), "under_way": set(), "failures": {}, "now": NOW}
    return guard_changes(wanted, **{**state, **given})


TURN_ON, TURN_OFF = GuardChange("team", True), GuardChange("team", False)


@each_case(
    ("wanted", "given", "expected"),
    [
        (set(), {}, []),
        ({"team"}, {}, [TURN_ON]),
        ({"team"}, {"labelled": {"team"}}, [TURN_ON]),
        ({"team"}, {"labelled": {"team"}, "on": {"team": NOW}}, []),
        ({"team"}, {"under_way": {"team"}}, []),
        (set(), {"labelled": {"team"}}, [TURN_OFF]),
        (set(), {"labelled": {"team"}, "on": {"team": NOW}}, [TURN_OFF]),
        (set(), {"labelled": {"team"}, "under_way": {"team"}}, []),
        ({"team"}, {"failures": {"team": ProbeFailures(3, NOW)}}, [GuardChange("team", True, 3)]),
        ({"team"}, {"failures": {"team": ProbeFailures(3, NOW + 0.1)}}, []),
    ],
    ids=[
        "not wanted, not labelled",
        "wanted",
        "wanted and labelled, but not proved",
        "on",
        "a write is under way",
        "labelled and not wanted",
        "on and not wanted",
        "not wanted, a write is under way",
        "its pause has ended",
        "its pause has not ended",
    ],
)
def test_the_guard_is_turned_on_and_off_where_that_is_missing(
    wanted: set[str], given: dict[str, Any], expected: list[GuardChange]
) -> None:
    assert changes(wanted, **given) == expected


def test_a_namespace_that_failed_comes_after_one_that_did_not_and_a_removal_last() -> None:
    found = changes(
        {"failed", "new"},
        labelled={"old"},
        failures={"failed": ProbeFailures(2, NOW)},
    )
    in_order = sorted(found, key=lambda change: (change.rank, change.failed))
    assert [(change.namespace, change.turn_on) for change in in_order] == [
        ("new", True),
        ("failed", True),
        ("old", False),
    ]


@pytest.mark.parametrize(
    ("on_since", "labelled", "expected"),
    [
        (NOW - SEEN_SECONDS - 0.1, {"team"}, []),
        (NOW - SEEN_SECONDS - 0.1, set(), ["team"]),
        (NOW - SEEN_SECONDS, set(), []),
    ],
    ids=["it has its label", "its label is gone", "its label was written just now"],
)
def test_a_guard_without_its_label_is_not_on(
    on_since: float, labelled: set[str], expected: list[str]
) -> None:
    """A label that was just written is not in the cache yet."""
    assert outdated_guards({"team": on_since}, labelled=labelled, now=NOW) == expected


def test_the_pause_after_a_failed_probe_doubles_up_to_a_limit() -> None:
    failed, pauses = ProbeFailures(), []
    for _ in range(12):
        failed = after_failure(failed, now=NOW)
        pauses.append(failed.retry_at - NOW)
    assert failed.times == 12
    assert pauses[:3] == pytest.approx([RETRY.first, 2 * RETRY.first, 4 * RETRY.first])
    assert pauses == sorted(pauses)
    assert pauses[-1] == RETRY.longest


@each_case(
    ("answer", "expected"),
    [
        (
            Refused(403, "Forbidden", f"the webhook denied the request: {PROBE_SEEN}"),
            True,
        ),
        (Refused(403, "Forbidden", f"unable to create new content in namespace team {TERMINATING}"), True),
        (NotFound(404, "NotFound", 'pods "sluice-guard-probe-1" not found'), False),
        (NotFound(404, "NotFound", f"an odd proxy says {PROBE_SEEN}"), False),
        (Refused(403, "Forbidden", "user cannot create pods/binding"), False),
        (Overloaded(503, "ServiceUnavailable", "busy", retry_after=1.0), False),
    ],
    ids=["the guard", "a namespace that is deleted", "no guard", "404 with any text", "no right", "too busy"],
)
def test_only_the_guard_and_a_deletion_prove_that_no_bind_passes(answer: Refused, expected: bool) -> None:
    assert proves_guard(answer) is expected


def test_a_guard_that_is_wanted_again_is_turned_on_before_others_are_turned_off() -> None:
    """Its own removal, which waits, is taken back."""
    writers, on = ByHand(), {GUARD: "token"}
    server = Server().has(namespace("team", labels=on), namespace("other", labels=on), OPEN, member())
    context = context_with(
        store=server.store, guard_writers=writers, term=lambda: 1, leading=lambda: True, client=None
    )
    guards = BindGuards(context, changed=lambda: None)
    guards.reconcile(server.store.snapshot)
    assert len(writers) == 2
    server.has(STOPPED)
    guards.reconcile(server.store.snapshot)
    assert [(write.rank, write.key[1]) for write in writers.in_order()] == [
        (WriteRank.STOP, "team"),
        (WriteRank.GUARD_OFF, "other"),
    ]


@pytest.mark.parametrize("is_early", [True, False], ids=["an older guard may be called", "forgotten"])
def test_a_probe_from_before_all_was_forgotten_shows_nothing(is_early: bool) -> None:
    """The guard may be another one since, or an API server may still call the former one."""
    writers, work_queue = ByHand(), WorkQueue(lambda: 0.0)
    server = Server().has(namespace("team", labels={GUARD: "token"}), STOPPED, member())
    context = context_with(
        store=server.store,
        guard_writers=writers,
        work_queue=work_queue,
        api_servers=SimpleNamespace(all=lambda: [SlowApiServer(server.clock)]),
        term=lambda: 1,
        leading=lambda: True,
        client=SimpleNamespace(patch=lambda *_: b"{}"),
    )
    guards = BindGuards(context, changed=lambda: None)
    if is_early:
        guards.forget(counts_from=2000.0)
    guards.reconcile(server.store.snapshot)
    if not is_early:
        guards.begin_term()
    writers.answer()
    work_queue.get([0.0], at_once=True)
    assert guards.on == {}
    server.clock.seconds = 2001.0
    guards.reconcile(server.store.snapshot)
    writers.answer()
    work_queue.get([0.0], at_once=True)
    assert guards.on == {"team": 2001.0}


class SlowApiServer:
    """Needs so many seconds for each probe. `gone`: so many first ones are over connections to a replica that
    is gone. `answers`: otherwise it is hung.
    """

    def __init__(self, clock: SetClock, *, seconds: float = 0.0, gone: int = 0, answers: bool = True) -> None:
        self._clock = clock
        self._seconds = seconds
        self._gone = gone
        self._answers = answers
        self.timeouts: list[str] = []
        self.read_timeouts: list[float] = []

    def create(
        self,
        path: str,
        body: object,
        *,
        dryRun: str,  # noqa: N803 - as sent
        timeout: str,
        read_seconds: float,
    ) -> bytes:
        self.timeouts.append(timeout)
        self.read_timeouts.append(read_seconds)
        allowed = float(timeout.removesuffix("ms")) / 1000
        if not self._answers:
            self._clock.seconds += read_seconds
            raise Unreachable("no answer")
        if len(self.timeouts) <= self._gone or self._seconds > allowed:
            self._clock.seconds += allowed
            raise Overloaded(
                504, "Timeout", "request did not complete within requested timeout", retry_after=1.0
            )
        self._clock.seconds += self._seconds
        raise Refused(403, "Forbidden", PROBE_SEEN)


def round_of_probes(server: Server, api_server: SlowApiServer, *, seconds: float = 0.3) -> GuardWrite:
    context = context_with(
        store=server.store,
        api_servers=SimpleNamespace(all=lambda: [api_server]),
        guard_writers=SimpleNamespace(pause=lambda _seconds: False),
    )
    guards = BindGuards(context, changed=lambda: None)
    return guards._probe_everywhere("team", token="t", seconds=seconds)


def test_a_probe_that_hangs_is_ended_soon_and_the_next_one_has_longer() -> None:
    """A busy API server needs longer; one that calls a replica that is gone would need two seconds."""
    server = Server().has(namespace("team"))
    api_server = SlowApiServer(server.clock, gone=2)
    assert round_of_probes(server, api_server).on_since is not None
    assert api_server.timeouts == ["300ms", "600ms", "1200ms"]


@pytest.mark.parametrize("seconds", [1.0, 3.2, 9.0])
def test_a_slow_api_server_is_given_the_time_that_it_needs(seconds: float) -> None:
    server = Server().has(namespace("team"))
    api_server = SlowApiServer(server.clock, seconds=seconds)
    assert round_of_probes(server, api_server).on_since == server.clock.seconds


def test_a_round_in_vain_ends_soon_and_the_next_one_goes_on_where_it_ended() -> None:
    """Other namespaces have their turn between the two."""
    server = Server().has(namespace("team"))
    api_server = SlowApiServer(server.clock, seconds=60.0)
    failed = ProbeFailures()
    for probes in (6, 2, 2):
        began = server.clock.seconds
        api_server.timeouts.clear()
        result = round_of_probes(server, api_server, seconds=failed.seconds)
        assert result.on_since is None
        assert len(api_server.timeouts) == probes
        assert server.clock.seconds < began + PROBES_SECONDS + LONGEST_PROBE_SECONDS
        failed = after_failure(failed, now=NOW, seconds=result.seconds)
    assert api_server.timeouts == ["9600ms", "9600ms"]


def test_an_api_server_without_an_answer_holds_up_no_other_namespace_for_long() -> None:
    server = Server().has(namespace("team"))
    api_server = SlowApiServer(server.clock, answers=False)
    failed = ProbeFailures()
    for _ in range(7):
        result = round_of_probes(server, api_server, seconds=failed.seconds)
        failed = after_failure(failed, now=NOW, seconds=result.seconds)
    assert api_server.read_timeouts == pytest.approx([3.0, 3.0, 3.0, 3.4, 5.8, 10.6, 10.6])
