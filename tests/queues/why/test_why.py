"""Why an object waits: each outcome, who is named for it, and what is told beside it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from queues import well_known
from queues.causes import Cause, CauseKind
from queues.namespace_selectors import compile_selector
from queues.queue import ROOT, Queue
from queues.states import Desired, ParkedPods, State, StopPolicy
from queues.status.changes import HISTORY_LIMIT, HistoryLine
from queues.status.closing import ClosingStatus
from queues.tree import Tree
from queues.why.explain import explain
from queues.why.explanation import (
    ExplainedMembership,
    Explanation,
    Fate,
    ObjectRef,
    ObservedObject,
    ObservedQueues,
    QueueRecord,
)
from queues.why.stop_causes import find_change
from tests.support.cases import each_case

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
LATER = datetime(2030, 1, 1, 13, tzinfo=UTC)
MADE = "2030-01-01T11:00:00Z"
SUSPENDED = HistoryLine(
    by="ann", field="state", from_="Open", to="Suspended", reason="quota", at="2030-01-01T11:30:00Z"
)
CLOSED = HistoryLine(by="bob", field="state", from_="Open", to="Closed", at="2030-01-01T11:40:00Z")


def queue(name: str, **wishes: Any) -> Queue:
    return Queue(name=name, parent=None if name == ROOT else wishes.pop("parent", ROOT), **wishes)


def seen(*held: Queue, **records: QueueRecord) -> ObservedQueues:
    known = {each.name: records.get(each.name, QueueRecord(created=MADE)) for each in held}
    return ObservedQueues(tree=Tree({each.name: each for each in held}), records=known, now=NOW)


def pod(**facts: Any) -> ObservedObject:
    return ObservedObject(ref=ObjectRef(kind="Pod", name="p", namespace="ns"), **facts)


def told(subject: ObservedObject, queues: ObservedQueues | None, *, of: str = "b") -> Explanation:
    return explain(subject, ExplainedMembership(queue=of, rule="annotation sluice.dev/queue"), queues=queues)


def of_queue(queues: ObservedQueues, name: str = "b") -> Explanation:
    subject = ObservedObject(ref=ObjectRef(kind="Queue", name=name))
    return explain(subject, ExplainedMembership(queue=name), queues=queues)


STOPPED_BY_A = seen(
    queue("a", desired=Desired.SUSPENDED, reason="quota", resume_at=LATER),
    queue("b", parent="a"),
    a=QueueRecord(changes=(SUSPENDED,), created=MADE),
)


def test_the_queue_at_fault_is_named_with_who_did_it_why_and_the_way_out() -> None:
    """A pod under a suspended ancestor leads to that ancestor, its last change and the command."""
    found = told(pod(gates=(well_known.GATE,)), STOPPED_BY_A)
    assert found.outcome is Fate.STOPPED
    assert (
        found.summary
        == 'Pod ns/p waits: queue "b" is Suspended by its ancestor "a" until 2030-01-01 13:00 UTC (quota)'
    )
    (stop,) = found.stops
    assert (stop.queue, stop.change, stop.way_out) == ("a", SUSPENDED, "kubectl queue resume a")
    assert stop.resume_at == LATER
    assert [(each.queue, each.state) for each in found.chain] == [
        ("b", State.SUSPENDED),
        ("a", State.SUSPENDED),
        ("root", State.OPEN),
    ]


def test_every_queue_of_the_chain_that_stops_it_is_named_nearest_suspension_first() -> None:
    """Undoing the first alone would let nothing go, so the others are told too."""
    queues = seen(
        queue("root", stop_policy=StopPolicy.HOLD),
        queue("a", desired=Desired.SUSPENDED),
        queue("b", parent="a", stop_policy=StopPolicy.HOLD_AND_DRAIN),
    )
    found = told(pod(), queues)
    assert [(stop.queue, stop.kind) for stop in found.stops] == [
        ("a", CauseKind.SUSPENDED),
        ("b", CauseKind.STOPPED),
        ("root", CauseKind.STOPPED),
    ]


def test_a_stop_that_its_time_has_ended_is_none() -> None:
    """Past `resumeAt` the queue schedules, whoever has yet to write that."""
    past = datetime(2030, 1, 1, 11, tzinfo=UTC)
    found = told(pod(), seen(queue("b", desired=Desired.SUSPENDED, resume_at=past)))
    assert (found.outcome, found.stops) == (Fate.WAITS_FOR_OTHER, ())


def test_a_pod_whose_policy_has_no_action_for_it_waits_for_that() -> None:
    message = '0/3 nodes are available: 3 queue "b" schedules no pods with resource requests: its policy '
    message += '"small" has no action allocate; add the action to the policy, or name another policy'
    found = told(pod(message=message), seen(queue("b")))
    assert found.outcome is Fate.WAITS_FOR_OTHER
    assert found.summary == (
        'Pod ns/p waits: its scheduling policy has no action for it; queue "b" is not stopped'
    )
    assert found.notes == (f"kube-scheduler says: {message}",)


@pytest.mark.parametrize(
    "message", ["", 'queue "b" has no room for this pod now: its capability is used; ...']
)
def test_a_pod_without_room_waits_for_the_quota_of_its_queue(message: str) -> None:
    found = told(pod(gates=(well_known.QUOTA_GATE,), message=message), seen(queue("b")))
    assert found.outcome is Fate.WAITS_FOR_OTHER
    assert found.summary == 'Pod ns/p waits for room: queue "b" has a quota, and is not stopped'
    unsaid = "its gate is still on; the controller takes it off, is it running?"
    assert found.notes == (f"it says: {message}" if message else unsaid,)


def test_a_pod_that_gets_no_victims_is_told_where_to_see_whom_its_policy_lets_it_evict() -> None:
    message = "0/3 nodes are available: 3 Insufficient cpu. preemption: no candidate node for preemption"
    found = told(pod(message=message), seen(queue("b")))
    assert found.outcome is Fate.WAITS_FOR_OTHER
    assert found.notes == (
        f"kube-scheduler says: {message}",
        "it may not evict the pods that kube-scheduler chose; whom its policy lets it evict says: "
        "kubectl queue policy explain pod/p -n ns",
    )


@pytest.mark.parametrize(
    ("missing", "verbs"),
    [
        (["sluice.dev/scored"], ["prioritizeVerb"]),
        (["sluice.dev/member"], ["filterVerb"]),
        (["sluice.dev/member", "sluice.dev/scored"], ["filterVerb", "prioritizeVerb"]),
    ],
    ids=str,
)
def test_an_extender_entry_that_the_scheduler_lacks_is_named(missing: list[str], verbs: list[str]) -> None:
    message = "0/3 nodes are available: " + ", ".join(f"3 Insufficient {each}" for each in missing)
    found = told(pod(message=message), seen(queue("b")))
    assert found.notes == (
        f"kube-scheduler says: {message}",
        *(
            f"its scheduler has no extender entry that ignores {resource}: add the one with {verb} of "
            "manifests/scheduler/scheduler-config.yaml to its configuration, and restart it"
            for resource, verb in zip(missing, verbs, strict=True)
        ),
    )


def test_a_pod_of_another_scheduler_without_the_marker_is_not_said_to_be_asked_about_or_not() -> None:
    """The scheduler that Sluice brings may have any name, and its members have no marker."""
    subject = pod(calls_extender=False, scheduler="ours")
    (note,) = told(subject, seen(queue("b", desired=Desired.SUSPENDED))).notes
    assert note == (
        "it requests no sluice.dev/member: unless its scheduler, ours, is the one that Sluice brings "
        "(setting scheduler_name), the bind guard alone stops it"
    )


@pytest.mark.parametrize(
    ("changes", "named", "created", "lost"),
    [
        ((SUSPENDED,), SUSPENDED, "", False),
        ((SUSPENDED, CLOSED), None, MADE, False),
        ((), None, MADE, False),
        ((CLOSED,) * HISTORY_LIMIT, None, "", True),
    ],
)
def test_an_author_whose_change_did_not_lead_to_the_present_value_is_not_named(
    changes: tuple[HistoryLine, ...], named: HistoryLine | None, created: str, *, lost: bool
) -> None:
    """The latest change of the field counts; else it was made so, or the history no longer says."""
    queues = seen(queue("b", desired=Desired.SUSPENDED), b=QueueRecord(changes=changes, created=MADE))
    (stop,) = told(pod(), queues).stops
    assert (stop.change, stop.created, stop.lost) == (named, created, lost)


@pytest.mark.parametrize(
    ("cause", "field", "to"),
    [
        (CauseKind.SUSPENDED, "state", "Suspended"),
        (CauseKind.CLOSED, "state", "Closed"),
        (CauseKind.STOPPED, "stopPolicy", "Hold"),
        (CauseKind.BROKEN, "parent", "gone"),
        (CauseKind.TERMINATING, "", ""),
    ],
)
def test_each_cause_is_looked_up_in_its_field(cause: CauseKind, field: str, to: str) -> None:
    """A change of another field, later or not, is not what stopped the queue."""
    wanted = HistoryLine(by="ann", field=field, to=to)
    other = HistoryLine(by="eve", field="resumeAt", to="x")
    held = queue("b", parent="gone")
    of = Cause(kind=cause, queue="b", by="b", policy=StopPolicy.HOLD)
    assert find_change(of, queue=held, changes=(wanted, other)) == wanted


def test_a_queue_that_does_not_exist_stops_its_pods_and_has_no_author() -> None:
    """The way out is to make it."""
    (stop,) = told(pod(), seen(queue("root"))).stops
    assert (stop.kind, stop.way_out) == (CauseKind.NOT_FOUND, "kubectl queue create b")
    assert (stop.change, stop.created, stop.lost) == (None, "", False)


def test_a_broken_chain_names_the_queue_to_mend() -> None:
    """A parent that is missing stops the queue, and the chain ends there."""
    found = told(pod(), seen(queue("b", parent="gone")))
    assert found.summary.endswith('queue "b" is Unknown: parent "gone" of queue "b" does not exist')
    assert found.stops[0].way_out == "kubectl edit queue b"
    assert [each.queue for each in found.chain] == ["b"]


def test_a_podgroup_that_is_not_there_is_what_its_pod_waits_for() -> None:
    """Which queue that will be nobody knows yet."""
    found = explain(pod(), ExplainedMembership(queue=None, group="gang"), queues=None)
    assert found.outcome is Fate.STOPPED
    assert found.summary == 'Pod ns/p waits: PodGroup "gang" does not exist'


def test_for_a_pod_whose_queue_schedules_the_message_of_kube_scheduler_is_shown() -> None:
    """The queue is not the cause, and is said not to be."""
    found = told(pod(message="0/3 nodes are available"), seen(queue("b")))
    assert found.outcome is Fate.WAITS_FOR_OTHER
    assert found.summary == 'Pod ns/p waits, but not for its queue: queue "b" schedules its pods'
    assert found.notes == ("kube-scheduler says: 0/3 nodes are available",)


@each_case(
    ("facts", "note"),
    [
        ({"message": "no room"}, "kube-scheduler says: no room"),
        ({"message": "no room", "message_by": "vc-scheduler"}, "vc-scheduler says: no room"),
        ({"message": "no room", "scheduler": "others"}, "its condition says: no room"),
        ({"message": "no room", "message_by": "sluice"}, "it says: no room"),
        ({"message": "gated", "message_of_gate": True}, "kube-scheduler has said nothing of it yet"),
        (
            {"message": "gated", "message_of_gate": True, "message_by": "sluice", "scheduler": "others"},
            'its scheduler, "others", has said nothing of it: if no scheduler of that name runs, the '
            "pod waits for ever",
        ),
    ],
    ids=str,
)
def test_what_a_pod_says_is_named_with_who_wrote_it(facts: dict[str, Any], note: str) -> None:
    """And what its gate said is nobody's word once that is off."""
    assert told(pod(**facts), seen(queue("b"))).notes == (note,)


@pytest.mark.parametrize(
    ("gates", "note"),
    [
        ((), "kube-scheduler has said nothing of it yet"),
        (("theirs",), "it is held by scheduling gates of others: theirs"),
        ((well_known.GATE,), "its gate is still on; the controller takes it off, is it running?"),
    ],
)
def test_what_else_may_keep_a_pod_waiting_is_reported(gates: tuple[str, ...], note: str) -> None:
    """Gates of others, and our own where its queue schedules already."""
    assert told(pod(gates=gates), seen(queue("b"))).notes == (note,)


def test_a_pod_of_no_queue_is_reported_as_such() -> None:
    """What kube-scheduler says of it is told all the same."""
    found = explain(pod(message="no room"), None, queues=None)
    assert (found.outcome, found.chain) == (Fate.NOT_MEMBER, ())
    assert found.summary == "Pod ns/p is of no queue: none holds it back"
    assert found.notes == ("kube-scheduler says: no room",)


@pytest.mark.parametrize(
    ("policy", "note"),
    [
        (StopPolicy.HOLD, "its queue does not schedule now; what runs goes on"),
        (
            StopPolicy.HOLD_AND_DRAIN,
            "its queue is drained: it is evicted as soon as its budgets allow; see: kubectl queue get b",
        ),
    ],
)
def test_a_pod_on_a_node_runs_whatever_its_queue_is(policy: StopPolicy, note: str) -> None:
    """A stop is told all the same, with what it means for what runs."""
    found = told(pod(node="n1"), seen(queue("b", stop_policy=policy)))
    assert (found.outcome, found.summary, found.notes) == (Fate.RUNS, "Pod ns/p is on node n1", (note,))


def test_what_has_finished_waits_for_nothing() -> None:
    """A finished pod of a stopped queue is not said to be stopped."""
    found = told(pod(finished=True, phase="Succeeded"), STOPPED_BY_A)
    assert (found.outcome, found.summary) == (Fate.FINISHED, "Pod ns/p has finished (Succeeded)")


@pytest.mark.parametrize(
    ("gates", "by"),
    [
        ((well_known.GATE,), "its gate and the bind guard alone stop it"),
        ((), "the bind guard alone stops it"),
    ],
)
def test_a_pod_that_kube_scheduler_does_not_ask_about_is_named_as_such(
    gates: tuple[str, ...], by: str
) -> None:
    """One of another scheduler, or older than the installation, is stopped by gate and guard alone."""
    (note,) = told(pod(calls_extender=False, gates=gates), STOPPED_BY_A).notes
    assert note.endswith(by)
    assert well_known.MARKER in note


OWNER = ObjectRef(kind="ReplicaSet", name="web", namespace="ns")


def recreating(**fields: Any) -> ObservedQueues:
    """Queue `b` below `a`, which has parked pods created again."""
    above = queue("a", parked=ParkedPods.RECREATE)
    return seen(above, queue("b", parent="a", **{"desired": Desired.SUSPENDED, **fields}))


REFUSED = '0/3 nodes are available: 3 queue "b" is Suspended by "a".'
NO_ROOM = "0/3 nodes are available: 3 Insufficient cpu."


def test_a_pod_that_is_to_be_created_again_says_so() -> None:
    found = told(pod(owners=(OWNER,), message=REFUSED), recreating())
    (note,) = found.notes
    assert "spec.parked is Recreate" in note
    assert "creates it again with the gate once the stop is acknowledged" in note
    assert [each.parked for each in found.chain] == [None, ParkedPods.RECREATE, None]


def test_a_pod_that_fits_on_no_node_is_not_said_to_be_created_again() -> None:
    """Only pods that filter has refused are; kube-scheduler's own reason is shown."""
    stays, reason = told(pod(owners=(OWNER,), message=NO_ROOM), recreating()).notes
    assert "only a pod that fits on a node" in stays
    assert "until then it stays as it is" in stays
    assert reason == f"kube-scheduler says: {NO_ROOM}"


def test_a_pod_that_was_not_tried_yet_is_not_said_to_be_created_again() -> None:
    (note,) = told(pod(owners=(OWNER,)), recreating()).notes
    assert "until then it stays as it is" in note


@pytest.mark.parametrize(
    ("subject", "why"),
    [
        (pod(message=REFUSED), "it has no controller that creates it again"),
        (
            pod(
                owners=(OWNER,),
                group=ObjectRef(kind="PodGroup", name="g", namespace="ns"),
                message=REFUSED,
            ),
            "it is of a PodGroup",
        ),
    ],
    ids=["bare", "of a PodGroup"],
)
def test_a_pod_that_is_never_created_again_says_that_it_stays(subject: ObservedObject, why: str) -> None:
    (note,) = told(subject, recreating()).notes
    assert note == f"it stays as it is, though spec.parked is Recreate: {why}"


@each_case(
    ("subject", "queues"),
    [
        (pod(owners=(OWNER,), gates=(well_known.GATE,)), recreating()),
        (pod(owners=(OWNER,), gates=("of/another",)), recreating()),
        (pod(owners=(OWNER,)), recreating(parked=ParkedPods.KEEP)),
        (pod(owners=(OWNER,)), STOPPED_BY_A),
        (pod(owners=(OWNER,)), seen(queue("b", parent="missing", parked=ParkedPods.RECREATE))),
    ],
    ids=["gated", "gated by another", "Keep", "by default", "not stopped by a queue"],
)
def test_what_becomes_of_parked_pods_is_said_of_no_other_pod(
    subject: ObservedObject, queues: ObservedQueues
) -> None:
    assert not any("Recreate" in note for note in told(subject, queues).notes)


WAITS = QueueRecord(gated=12, ungated=28, recreating=25)
TRIED = (
    "kube-scheduler tries pods without the gate again and again; to have those of ReplicaSets, StatefulSets "
    "and Jobs created again with it: kubectl queue "
)


@each_case(
    ("stop", "record", "expected"),
    [
        (
            {"desired": Desired.SUSPENDED, "parked": ParkedPods.RECREATE},
            WAITS,
            (
                "pods that wait: 12 with the gate, 28 without it; 25 of these are to be created again with "
                "it (spec.parked is Recreate)",
            ),
        ),
        (
            {"desired": Desired.SUSPENDED, "parked": ParkedPods.RECREATE},
            QueueRecord(gated=40),
            ("pods that wait: 40 with the gate, 0 without it",),
        ),
        (
            {"desired": Desired.SUSPENDED},
            WAITS,
            ("pods that wait: 12 with the gate, 28 without it", f"{TRIED}suspend b --parked=Recreate"),
        ),
        (
            {"stop_policy": StopPolicy.HOLD},
            WAITS,
            ("pods that wait: 12 with the gate, 28 without it", f"{TRIED}hold b --parked=Recreate"),
        ),
        (
            {"stop_policy": StopPolicy.HOLD_AND_DRAIN, "parked": ParkedPods.KEEP},
            WAITS,
            ("pods that wait: 12 with the gate, 28 without it",),
        ),
        ({"desired": Desired.SUSPENDED}, QueueRecord(), ()),
        ({}, WAITS, ()),
    ],
    ids=["Recreate", "Recreate, done", "suspended", "held", "Keep", "none waits", "not stopped"],
)
def test_a_stopped_queue_says_how_its_pods_wait(
    stop: dict[str, Any], record: QueueRecord, expected: tuple[str, ...]
) -> None:
    assert of_queue(seen(queue("b", **stop), b=record)).notes == expected


def test_the_way_out_for_pods_without_the_gate_is_at_the_queue_that_stops_them() -> None:
    queues = seen(queue("a", stop_policy=StopPolicy.HOLD_AND_DRAIN), queue("b", parent="a"), b=WAITS)
    assert of_queue(queues).notes[-1] == f"{TRIED}drain a --parked=Recreate"


KEPT = ClosingStatus(kind="Pod", namespace="ns", name="p", queue="b", others=2)


def test_a_closing_queue_says_what_keeps_it_from_closed() -> None:
    """By the field of its status; and whoever closed it is named."""
    record = QueueRecord(changes=(CLOSED,), closing=KEPT)
    queues = seen(queue("b", desired=Desired.CLOSED), b=record)
    found = of_queue(queues)
    assert (found.outcome, found.summary) == (
        Fate.TAKES_NOTHING_NEW,
        'queue "b" is Closing and takes no new work',
    )
    assert found.closing == "kept from Closed by pod ns/p and others of queue b"
    assert found.refusal is not None
    assert (found.refusal.change, found.refusal.way_out) == (CLOSED, "kubectl queue open b")


def test_a_closed_queue_has_nothing_that_keeps_it() -> None:
    """What is of the time before is not repeated."""
    record = QueueRecord(live=False, closing=KEPT)
    assert of_queue(seen(queue("b", desired=Desired.CLOSED), b=record)).closing == ""


@pytest.mark.parametrize("closing", [None, ClosingStatus()], ids=["an older controller", "none is known"])
def test_nothing_is_said_of_what_keeps_a_queue_where_nothing_is_known(closing: ClosingStatus | None) -> None:
    record = QueueRecord(closing=closing)
    assert of_queue(seen(queue("b", desired=Desired.CLOSED), b=record)).closing == ""


def test_a_waiting_pod_of_a_closing_queue_may_still_be_scheduled() -> None:
    """Closing schedules what it had taken."""
    found = told(pod(message="no room"), seen(queue("b", desired=Desired.CLOSED)))
    assert found.outcome is Fate.WAITS_FOR_OTHER
    assert found.notes[-1] == "its queue takes nothing new; what it had taken before is still scheduled"


def test_an_open_queue_is_free() -> None:
    """There is nothing to explain, and that is the answer."""
    found = of_queue(seen(queue("b")))
    assert (found.outcome, found.summary) == (Fate.FREE, 'queue "b" schedules its pods and takes new work')


def test_a_workload_that_nothing_stops_sends_to_its_pods() -> None:
    """What makes no pods by its own wish is told to."""
    job = ObservedObject(
        ref=ObjectRef(kind="Job", name="j", namespace="ns"), idle_reason="spec.suspend is true"
    )
    found = told(job, seen(queue("b")))
    assert found.outcome is Fate.FREE
    assert found.notes[0] == "spec.suspend is true"
    assert "kubectl queue why pod/NAME" in found.notes[1]


def test_a_queue_that_may_not_be_read_is_reported_as_unread() -> None:
    """What the pod says itself is told."""
    found = told(pod(message="queue b is Suspended", gates=(well_known.GATE,), message_by="sluice"), None)
    assert (found.outcome, found.chain, found.stops) == (Fate.UNREAD, (), ())
    assert found.notes == ("it says: queue b is Suspended",)


def test_a_status_that_lags_is_reported() -> None:
    """What the rules say of the queue is not acknowledged yet."""
    queues = seen(queue("b", desired=Desired.SUSPENDED), b=QueueRecord(observed=False))
    assert of_queue(queues).notes == (
        "the controller has not acknowledged its queue as it is now; is it running?",
    )


def test_what_others_wrote_stays_on_one_line() -> None:
    """No reason, name or message steers the terminal or breaks the layout."""
    queues = seen(queue("b", desired=Desired.SUSPENDED, reason="x\n\x1b[2Jy"))
    subject = pod(message="a\nb\x07", gates=("g\n",))
    assert told(subject, queues).summary.endswith("(x [2Jy)")
    assert all(note.isprintable() for note in told(subject, seen(queue("b"))).notes)


# Namespaces that the chain does not select


TEAM = compile_selector({"matchLabels": {"team": "x"}})
SET = HistoryLine(by="ann", field="namespaceSelector", to="team=x", at="2030-01-01T11:30:00Z")
NARROW = seen(
    queue("a", namespace_selector=TEAM, stop_policy=StopPolicy.HOLD),
    queue("b", parent="a"),
    a=QueueRecord(changes=(SET,), created=MADE),
)


def test_a_namespace_that_is_not_selected_is_named_first_with_who_set_the_selector() -> None:
    """A resume would let nobody go; what else stops the queue comes after it."""
    found = told(pod(gates=(well_known.GATE,), namespace_labels={}), NARROW)
    assert found.outcome is Fate.STOPPED
    assert found.summary == (
        'Pod ns/p waits: queue "b" is not for namespace "ns": '
        'the namespaceSelector of its ancestor "a" asks for team=x'
    )
    first, second = found.stops
    assert (first.queue, first.kind, first.change) == ("a", CauseKind.NOT_SELECTED, SET)
    assert first.way_out == "kubectl label namespace ns --overwrite team=x"
    assert second.kind is CauseKind.STOPPED
    assert [each.namespace_selector for each in found.chain] == ["", "team=x", ""]


def test_a_namespace_that_is_selected_waits_for_what_else_there_is() -> None:
    found = told(pod(namespace_labels={"team": "x"}), NARROW)
    assert [stop.kind for stop in found.stops] == [CauseKind.STOPPED]


def test_labels_that_could_not_be_read_are_reported_as_unread() -> None:
    """Only where they matter; and of a queue itself nobody asks for a namespace's."""
    note = "the labels of its namespace could not be read; whether its queue selects it is not known"
    assert note in told(pod(), NARROW).notes
    assert note not in told(pod(), STOPPED_BY_A).notes
    assert note not in of_queue(NARROW).notes
    assert of_queue(NARROW).summary == 'queue "b" is stopped by stopPolicy Hold of its ancestor "a"'


def test_what_runs_goes_on_and_says_what_its_namespace_lacks() -> None:
    found = told(pod(node="node-1", namespace_labels={}), NARROW)
    assert found.outcome is Fate.RUNS
    assert any(note.startswith("nothing new of its namespace is scheduled: ") for note in found.notes)


def test_a_selector_that_the_queue_was_made_with_is_its_makers() -> None:
    queues = seen(queue("b", namespace_selector=TEAM))
    (stop,) = told(pod(namespace_labels={}), queues).stops
    assert (stop.change, stop.created) == (None, MADE)


def made(kind: str, **facts: Any) -> ObservedObject:
    return ObservedObject(ref=ObjectRef(kind=kind, name="o", namespace="ns"), **facts)


NAMESPACE = ObservedObject(ref=ObjectRef(kind="Namespace", name="ns"))
AT_NONE = made("Deployment", idle_reason="spec.replicas is 0, so it makes no pods")


@each_case(
    ("subject", "new"),
    [
        (NAMESPACE, "new pods and workloads in it"),
        (made("CronJob"), "new Jobs of it"),
        (AT_NONE, "its first replicas"),
        (made("StatefulSet"), "more replicas of it"),
        (made("Job"), ""),
        (made("DaemonSet"), ""),
        (made("PodGroup"), ""),
    ],
    ids=["Namespace", "CronJob", "Deployment at 0", "StatefulSet", "Job", "DaemonSet", "PodGroup"],
)
def test_both_halves_are_answered_where_more_of_an_object_is_new_work(
    subject: ObservedObject, new: str
) -> None:
    """May what is there start, and would anything new be taken; of others all is accepted work."""
    closing = told(subject, seen(queue("b", desired=Desired.CLOSED)))
    refused = f'may start what is there, but {new} are refused: queue "b" is Closing and takes no new work'
    note = "its queue takes nothing new; what it had taken before is still scheduled"
    assert (closing.outcome is Fate.TAKES_NOTHING_NEW) is bool(new)
    assert closing.summary.endswith(refused if new else 'queue "b" schedules its pods')
    assert (note in closing.notes) is not bool(new)

    free = told(subject, seen(queue("b")))
    assert free.outcome is Fate.FREE
    assert free.summary.endswith("and takes new work" if new else "schedules its pods")

    suspended = told(subject, seen(queue("b", desired=Desired.SUSPENDED)))
    assert suspended.outcome is Fate.STOPPED
    assert (f"{new} are taken, and wait" in suspended.notes) is bool(new)


def test_what_a_drain_keeps_at_zero_has_replicas_and_more_of_them_are_new_work() -> None:
    subject = made("Deployment", idle_reason="the drain brought it to zero", kept_at_zero=3)
    closing = told(subject, seen(queue("b", desired=Desired.CLOSED)))
    assert "more replicas of it are refused" in closing.summary


@pytest.mark.parametrize("bound", [False, True])
def test_of_a_namespace_it_is_said_whether_its_annotation_binds_it(bound: bool) -> None:
    subject = ObservedObject(ref=NAMESPACE.ref, bound=bound)
    note = 'it is bound to queue "b": only that queue and those below it may be named in it'
    assert (note in told(subject, seen(queue("b"))).notes) is bound


def test_of_a_namespace_that_the_queue_does_not_select_what_is_new_is_refused() -> None:
    """Though the queue accepts from others."""
    selector = compile_selector({"matchLabels": {"team": "vision"}})
    subject = ObservedObject(ref=NAMESPACE.ref, namespace_labels={})
    found = told(subject, seen(queue("b", namespace_selector=selector)))
    assert found.outcome is Fate.STOPPED
    assert "new pods and workloads in it are refused" in found.notes


def test_a_queue_that_is_not_there_brings_the_question_whether_a_near_one_was_meant() -> None:
    found = told(pod(gates=(well_known.GATE,), similar=("bb", "bbb")), seen())
    assert 'did you mean queue "bb" or "bbb"?' in found.notes
