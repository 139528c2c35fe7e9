"""Whether a pod may start: the table of reasons, their order, and what kube-scheduler's words say of them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import pytest

from queues.causes import Cause, CauseKind, MissingAction, NoRoom, StartReason
from queues.messages import no_room_text, other_gate_text, quoted_lack, quoted_reason
from queues.namespace_selectors import compile_selector
from queues.queue import Queue
from queues.quota.lack import LackKind
from queues.snapshot import QueueDecision, QueueSnapshot, decision_for_namespace
from queues.start_decision import MAY_START, StartDecision, start_decision
from tests.support.cases import each_case
from tests.support.rules.cases import DRAIN, HOLD, NOW, SUSPENDED, queue, tree

TEAM_A = compile_selector({"matchLabels": {"team": "a"}})
NO_ALLOCATE = MissingAction(action="allocate", has_requests=True, queue="q", policy="small", by="q")
NO_PODGROUP, NOT_SELECTED = StartReason.NO_PODGROUP, StartReason.NOT_SELECTED
QUEUE, NO_ACTION, NO_ROOM = StartReason.QUEUE, StartReason.NO_ACTION, StartReason.NO_ROOM


def decided(*queues: Queue, labels: Mapping[str, str] | None = None) -> QueueDecision:
    """What queue `q` decides for namespace `work`; `labels`: None where they are not known."""
    decision = QueueSnapshot(tree(queue("root"), *queues), now=NOW).decision("q")
    return decision_for_namespace(decision, namespace="work", labels=labels)


OPEN_QUEUE = decided(queue("q"))

#: what is asked: the reason, who stops the pod, what lets it go, and whether its gate stays.
CASES: dict[str, tuple[StartDecision, StartReason, str, str, bool]] = {
    "no PodGroup": (
        start_decision(None, podgroup="gang"),
        *(NO_PODGROUP, "gang", "kubectl create -f PODGROUP", True),
    ),
    "no PodGroup yet": (
        start_decision(None, podgroup="gang", made_by_leader=True),
        *(NO_PODGROUP, "gang", "Sluice creates it for the owner of this pod", True),
    ),
    "not selected": (
        start_decision(decided(queue("q", namespace_selector=TEAM_A), labels={"team": "b"})),
        *(NOT_SELECTED, "q", "kubectl label namespace work --overwrite team=a", True),
    ),
    "not selected by an ancestor": (
        start_decision(decided(queue("q", "lab"), queue("lab", namespace_selector=TEAM_A), labels={})),
        *(NOT_SELECTED, "lab", "kubectl label namespace work --overwrite team=a", True),
    ),
    "its labels are not known yet": (
        start_decision(decided(queue("q", namespace_selector=TEAM_A))),
        *(NOT_SELECTED, "q", "try again", True),
    ),
    "suspended": (
        start_decision(decided(queue("q", desired=SUSPENDED))),
        *(QUEUE, "q", "kubectl queue resume q", True),
    ),
    "held by an ancestor": (
        start_decision(decided(queue("q", "lab"), queue("lab", stop_policy=HOLD))),
        *(QUEUE, "lab", "kubectl queue resume lab", True),
    ),
    "drained": (
        start_decision(decided(queue("q", stop_policy=DRAIN))),
        *(QUEUE, "q", "kubectl queue resume q", True),
    ),
    "a broken chain": (
        start_decision(decided(queue("q", "ghost"))),
        *(QUEUE, "q", "kubectl edit queue q", True),
    ),
    "no queue": (
        start_decision(decided()),
        *(QUEUE, "q", "kubectl queue create q", True),
    ),
    "no action": (
        start_decision(OPEN_QUEUE, missing=NO_ALLOCATE),
        *(NO_ACTION, "q", "add the action to the policy, or name another policy", False),
    ),
    "no room": (
        start_decision(OPEN_QUEUE, lack=NoRoom(queue="q", by="lab")),
        *(NO_ROOM, "lab", "it goes when others end, or an admin of queues raises it", False),
    ),
    "room that nobody was asked for": (
        start_decision(OPEN_QUEUE, lack=NoRoom(queue="q")),
        *(NO_ROOM, "", "it goes when others end, or an admin of queues raises it", False),
    ),
    "room that is kept for others": (
        start_decision(OPEN_QUEUE, lack=NoRoom(queue="q", by="lab", kind=LackKind.GUARANTEES)),
        *(NO_ROOM, "lab", "it goes when others end, or an admin of queues raises it", False),
    ),
    "room that is claimed": (
        start_decision(OPEN_QUEUE, lack=NoRoom(queue="q", by="q", kind=LackKind.CLAIM)),
        *(NO_ROOM, "q", "it goes after that one, or an admin of queues raises it", False),
    ),
    "no more than the nodes have": (
        start_decision(OPEN_QUEUE, lack=NoRoom(queue="q", by="root", kind=LackKind.OVERCOMMIT)),
        *(NO_ROOM, "root", "it goes when others end, or nodes are added", False),
    ),
    "devices that cannot be counted": (
        start_decision(OPEN_QUEUE, lack=NoRoom(queue="q", by="q", never=True, kind=LackKind.DEVICES)),
        *(
            *(NO_ROOM, "q"),
            "claim a number of devices, or have an admin of queues limit the number of claims instead",
            False,
        ),
    ),
    "a claim that is not there": (
        start_decision(OPEN_QUEUE, lack=NoRoom(queue="q", by="q", kind=LackKind.CLAIM_ABSENT)),
        *(NO_ROOM, "q", "it goes once the claim is there and has room", False),
    ),
    "claims that are not known": (
        start_decision(OPEN_QUEUE, lack=NoRoom(queue="q", by="q", kind=LackKind.CLAIMS_UNREAD)),
        *(NO_ROOM, "q", "condition QuotaEnforced of the queue says why", False),
    ),
    "never room": (
        start_decision(OPEN_QUEUE, lack=NoRoom(queue="q", by="q", never=True)),
        *(NO_ROOM, "q", "request less, or have an admin of queues raise it", False),
    ),
}
#: What the text says in place of a command that those whose pods wait may not run.
IN_WORDS = {
    "kubectl label namespace work --overwrite team=a": "have an admin of queues change that",
    "kubectl queue resume q": "an admin of queues can resume it",
    "kubectl queue resume lab": 'an admin of queues can resume "lab"',
    "kubectl edit queue q": "an admin of queues can mend it",
    "kubectl queue create q": "have an admin of queues create it",
}
ANY = pytest.mark.parametrize(
    ("decision", "reason", "by", "way_out", "keeps_gate"), CASES.values(), ids=CASES
)


@ANY
def test_each_reason_says_who_stops_the_pod_what_lets_it_go_and_whether_its_gate_stays(
    decision: StartDecision, reason: StartReason, by: str, way_out: str, keeps_gate: bool
) -> None:
    assert decision.cause is not None
    assert (decision.reason, decision.cause.by, decision.way_out) == (reason, by, way_out)
    assert (decision.may_start, decision.keeps_gate) == (False, keeps_gate)
    assert decision.text.endswith(IN_WORDS.get(way_out, way_out))


def test_a_pod_that_nothing_stops_may_start_and_nothing_is_said() -> None:
    assert start_decision(OPEN_QUEUE) == MAY_START
    assert (MAY_START.may_start, MAY_START.keeps_gate, MAY_START.text, MAY_START.way_out) == (
        *(True, False, "", ""),
    )


def test_each_reason_has_its_case() -> None:
    assert {reason for _, reason, *_ in CASES.values()} == set(StartReason)


@each_case(("unselected", "stopped", "missing"), list(product([False, True], repeat=3)))
def test_the_first_reason_of_the_table_is_the_answer(unselected: bool, stopped: bool, missing: bool) -> None:
    """Each combination; without a PodGroup no queue is known, so that nothing else is asked."""
    one = queue("q", desired=SUSPENDED if stopped else queue("q").desired, namespace_selector=TEAM_A)
    labels = {"team": "b" if unselected else "a"}
    answer = start_decision(decided(one, labels=labels), missing=NO_ALLOCATE if missing else None)
    holds = {NOT_SELECTED: unselected, QUEUE: stopped, NO_ACTION: missing}
    assert answer.reason == next((reason for reason in StartReason if holds.get(reason)), None)


def test_the_text_in_the_status_stands_for_that_of_the_queue_and_for_no_other() -> None:
    """A replica of another version may have written it, and all give the same."""
    stopped = decided(queue("q", stop_policy=HOLD))
    assert start_decision(stopped, text="as the leader says").text == "as the leader says"
    assert start_decision(OPEN_QUEUE, text="as the leader says").text == ""
    by_policy = start_decision(OPEN_QUEUE, missing=NO_ALLOCATE, text="as the leader says")
    assert by_policy.text.startswith('queue "q" schedules no pods')


# The parser: what kube-scheduler quotes


@ANY
def test_the_reason_is_read_from_what_kube_scheduler_makes_of_the_text(
    decision: StartDecision, reason: StartReason, by: str, way_out: str, keeps_gate: bool
) -> None:
    condition = f"0/5 nodes are available: 2 Insufficient cpu, 3 {decision.text}. preemption: 0/5 nodes are"
    assert quoted_reason(condition, queue="q", podgroup="gang") is reason
    assert quoted_reason(condition, queue="another", podgroup="another") is None


@each_case(
    ("condition", "reason"),
    [
        ("", None),
        ("0/3 nodes are available: 3 Insufficient cpu.", None),
        ('3 queue "q" waits for the moon; resume it with: kubectl queue resume q', QUEUE),
        ('3 queue "q-2" is Suspended; resume it with: kubectl queue resume q-2', None),
        ('3 queue "q" is Suspended (it has no action allocate); resume it with: x', QUEUE),
        ('3 queue "q" is Suspended (queue "q" schedules no pods today); resume it with: x', QUEUE),
    ],
    ids=[
        "nothing",
        "no room",
        "another version's words",
        "another queue",
        "a user's reason",
        "a user's copy",
    ],
)
def test_only_the_words_that_follow_the_name_of_its_own_queue_count(
    condition: str, reason: StartReason | None
) -> None:
    assert quoted_reason(condition, queue="q", podgroup="") is reason


@each_case("by", ["q", "above", ""])
@each_case("kind", list(LackKind))
def test_by_which_rule_a_pod_has_no_room_is_read_from_its_own_words(kind: LackKind, by: str) -> None:
    why = other_gate_text("example.com/x") if kind is LackKind.GATE else ""
    text = no_room_text(NoRoom(queue="q", by=by, kind=kind, why=why))
    said = f"0/3 nodes are available: 3 {text}. no claims"
    plain = {LackKind.CAPABILITY, LackKind.NO_QUEUE}
    assert quoted_lack(said, queue="q") == (None if kind in plain else kind)
    assert quoted_lack(said, queue="another") is None


def test_a_cause_that_no_command_can_end_says_what_names_are_made_of() -> None:
    cause = Cause(kind=CauseKind.NOT_FOUND, queue="a b", by="a b")
    answer = StartDecision(reason=QUEUE, cause=cause)
    assert answer.way_out == "names are made of lower case letters, digits, '-' and '.'"
