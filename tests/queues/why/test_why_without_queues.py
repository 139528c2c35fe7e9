"""`kubectl queue why` without the right to read queues, and while no replica answers."""

from __future__ import annotations

from typing import Any

import pytest

from queues import well_known
from queues.why.explain import explain
from queues.why.explanation import (
    ExplainedMembership,
    Explanation,
    Fate,
    ObjectRef,
    ObservedObject,
)
from queues.why.outages import outage_text
from tests.support.cases import each_case

TEXT = 'queue "b" is Suspended until 2030-01-01 04:00 UTC (quota); an admin of queues can resume it'
QUOTED = f"0/3 nodes are available: 3 {TEXT}. preemption: 0/3 nodes are available."
NO_EXTENDER = 'Post "https://127.0.0.1:9443/extender/filter": dial tcp 127.0.0.1:9443: connect: refused'
NO_WEBHOOK = (
    "Internal error occurred: failed calling webhook "
    '"members.pods.sluice.dev": failed to call webhook: Post "https://sluice.sluice-system.svc:443/mutate"'
)


def unread(kind: str = "Pod", **facts: Any) -> Explanation:
    subject = ObservedObject(ref=ObjectRef(kind=kind, name="x", namespace="ns"), **facts)
    return explain(subject, ExplainedMembership(queue="b"), queues=None)


@pytest.mark.parametrize("kind", ["Pod", "PodGroup", "Deployment"])
def test_what_sluice_wrote_on_the_object_is_the_answer_where_its_queue_may_not_be_read(kind: str) -> None:
    found = unread(kind, said=TEXT)
    assert (found.outcome, found.summary) == (Fate.STOPPED, f"{kind} ns/x waits: {TEXT}")
    assert found.notes == ('you may not read queue "b": this is what it says itself',)


def test_a_pod_that_filter_refused_is_stopped_by_its_queue_in_the_words_that_kube_scheduler_quotes() -> None:
    found = unread(message=QUOTED, message_by="kube-scheduler")
    assert (found.outcome, found.summary) == (
        Fate.STOPPED,
        'Pod ns/x waits: queue "b" does not schedule it',
    )
    assert found.notes == (
        f"kube-scheduler says: {QUOTED}",
        'you may not read queue "b": this is what kube-scheduler says of it',
    )


def test_a_pod_that_lacks_room_is_not_said_to_be_stopped() -> None:
    found = unread(message="0/3 nodes are available: 3 Insufficient cpu.", message_by="kube-scheduler")
    assert found.outcome is Fate.UNREAD


def test_a_gated_pod_on_which_nothing_is_written_yet_is_said_to_be_that() -> None:
    found = unread(gates=(well_known.GATE,), message="Scheduling is blocked")
    assert found.outcome is Fate.UNREAD
    assert found.notes[0].startswith("Sluice has not said yet why it waits")


@pytest.mark.parametrize(
    ("kind", "facts", "whom"),
    [
        ("Pod", {"message": NO_EXTENDER, "message_by": "kube-scheduler"}, "kube-scheduler"),
        ("Job", {"failure": NO_WEBHOOK}, "the API server"),
        ("Deployment", {"failure": NO_WEBHOOK}, "the API server"),
    ],
)
def test_an_outage_is_the_first_line(kind: str, facts: dict[str, str], whom: str) -> None:
    found = unread(kind, **facts)
    assert found.summary.startswith(f"{kind} ns/x waits: no replica of Sluice answers {whom}, ")


@each_case(
    "message",
    [
        "",
        QUOTED,
        "failed filter with extender at URL https://127.0.0.1:9443/extender/filter, code 500",
        'failed calling webhook "pods.example.com": failed to call webhook: EOF',
        'pods "x" is forbidden: exceeded quota',
    ],
)
def test_what_a_replica_answered_and_what_others_fail_in_is_no_outage(message: str) -> None:
    assert outage_text([message]) == ""


def test_a_workload_whose_pod_is_refused_for_another_reason_says_it_in_a_note() -> None:
    found = unread("Job", failure="exceeded quota")
    assert found.notes == ("its latest pod was not created: exceeded quota",)
