"""Where the bind guard is wanted, when it is turned on or off, and what proves that it is on."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.exceptions import NotFound, Overloaded, Refused
from controller.stops.bind_guard import (
    REMOVAL_RANK,
    RETRY,
    SEEN_SECONDS,
    TERMINATING,
    BindGuards,
    GuardChange,
    ProbeFailures,
    after_failure,
    guard_changes,
    namespaces_to_guard,
    outdated_guards,
    proves_guard,
)
from queues.labels import PROBE_SEEN
from tests.support.controller.contexts import context_with
from tests.support.http.asking import Server
from tests.support.http.wire_objects import GROUP, Wire, member, namespace, pod, queue

NOW = 1000.0
TEAM_A = {"matchLabels": {"team": "a"}}
#: Requests the marker, so that kube-scheduler calls filter for it.
MARKED = {"requests": {"sluice.dev/member": "1"}}
STOPPED, OPEN = queue("research", state="Suspended"), queue("research")
SELECTIVE = queue("research", namespaceSelector=TEAM_A)


@pytest.mark.parametrize(
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


TURN_ON, TURN_OFF = GuardChange("team", True, rank=0), GuardChange("team", False, rank=REMOVAL_RANK)


@pytest.mark.parametrize(
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
        ({"team"}, {"failures": {"team": ProbeFailures(3, NOW)}}, [GuardChange("team", True, rank=3)]),
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
    in_order = sorted(found, key=lambda change: change.rank)
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


@pytest.mark.parametrize(
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


class SlowApiServer:
    """Ends the first probes itself: it calls the guard over connections to a replica that is gone."""

    def __init__(self, *, slow: int) -> None:
        self._slow = slow
        self.timeouts: list[str] = []

    def create(self, path: str, body: object, *, dryRun: str, timeout: str) -> bytes:  # noqa: N803 - as sent
        self.timeouts.append(timeout)
        if len(self.timeouts) <= self._slow:
            raise Overloaded(
                504, "Timeout", "request did not complete within requested timeout", retry_after=1.0
            )
        raise Refused(403, "Forbidden", PROBE_SEEN)


def test_a_probe_that_hangs_is_ended_soon_and_the_next_one_has_longer() -> None:
    """A busy API server needs longer; one that calls a replica that is gone would need two seconds."""
    api_server = SlowApiServer(slow=2)
    context = context_with(
        store=Server().has(namespace("team")).store,
        api_servers=SimpleNamespace(all=lambda: [api_server]),
        guard_writers=SimpleNamespace(pause=lambda _seconds: False),
    )
    assert BindGuards(context, changed=lambda: None)._is_on_everywhere("team")
    assert api_server.timeouts == ["300ms", "600ms", "900ms"]
