"""What the store says of passes: which are settled, which are named; and in which words pods are refused."""

from __future__ import annotations

import pytest

from cluster.cache.own_writes import MAX_WRITES
from cluster.coordination.replica_report import (
    list_open_passes,
    stopped_queues_with_binds,
    stopped_queues_with_passes,
)
from tests.support.http.asking import Server
from tests.support.http.wire_objects import member, queue


class Reflector:
    """How far the view of the pods is said to have come."""

    def __init__(self) -> None:
        self.applied = 0

    def advance_watch_cache(self) -> None: ...

    def rewatch(self) -> None: ...

    def relist(self) -> int:
        return 0


class Settling:
    """A server whose view of the pods a test moves on, and whose writes it dates."""

    def __init__(self) -> None:
        self.server = Server().has(queue("research"), queue("labs"))
        self.store = self.server.store
        self.pods = Reflector()
        self.store.watch_progress.attach("pods", self.pods)

    def filtered(self, name: str, *, uid: str = "", queue: str = "research") -> None:
        uid = uid or f"uid-{name}"
        self.store.bind_passes.record_filter_pass(namespace="team", name=name, queue=queue, uid=uid)

    def binding(self, name: str) -> None:
        self.store.bind_passes.record_bind_pass(
            request=f"bind-{name}", namespace="team", name=name, queue="research", by_scheduler=True
        )

    def write(self, version: int) -> None:
        """One of ours, begun now; a moment goes by."""
        self.store.own_writes.record(self.server.clock.seconds, version)
        self.server.clock.seconds += 1

    def settled(self, *, pods: int) -> list[str]:
        """Whose passes are left once the pods are known up to that version."""
        self.pods.applied = pods
        self.store.settling_binds.drop_settled()
        return sorted(each.name for each in self.store.bind_passes.open_passes())


@pytest.fixture
def settling() -> Settling:
    return Settling()


def test_the_pass_of_a_pod_that_does_not_exist_ends_once_all_pods_of_its_time_are_known(
    settling: Settling,
) -> None:
    """A write of ours was begun after it; the pods are known up to the version of that write."""
    settling.filtered("nobody")
    settling.write(7)
    assert settling.settled(pods=6) == ["nobody"]
    assert settling.settled(pods=7) == []


def test_without_a_write_of_ours_nothing_is_settled(settling: Settling) -> None:
    """Nothing says which version was current when the pass was recorded."""
    settling.filtered("nobody")
    assert settling.settled(pods=1_000_000) == ["nobody"]


def test_a_pass_that_was_recorded_after_the_write_stays(settling: Settling) -> None:
    """Its pod may have been made since."""
    settling.write(7)
    settling.filtered("nobody")
    assert settling.settled(pods=7) == ["nobody"]


def test_the_latest_write_up_to_which_the_pods_are_known_counts(settling: Settling) -> None:
    for version in (7, 9, 11):
        settling.filtered(f"before-{version}")
        settling.write(version)
    assert settling.settled(pods=6) == ["before-11", "before-7", "before-9"]
    assert settling.settled(pods=10) == ["before-11"]
    assert settling.settled(pods=11) == []


def test_writes_of_several_threads_are_recorded_in_any_order(settling: Settling) -> None:
    settling.filtered("nobody")
    settling.server.store.own_writes.record(settling.server.clock.seconds + 1, 9)
    settling.server.store.own_writes.record(settling.server.clock.seconds - 1, 7)
    assert settling.store.own_writes.last == 9
    assert settling.settled(pods=9) == []


def test_the_pass_of_a_pod_that_waits_stays(settling: Settling) -> None:
    settling.server.has(member("waits", queue="research"))
    settling.filtered("waits")
    settling.write(7)
    assert settling.settled(pods=7) == ["waits"]


def test_the_passes_of_pods_that_do_not_wait_end(settling: Settling) -> None:
    """Bound, finished, or another one than the pass names."""
    settling.server.has(
        member("bound", queue="research", nodeName="node-1"),
        member("done", queue="research", status={"phase": "Succeeded"}),
        member("namesake", queue="research"),
    )
    for name in ("bound", "done"):
        settling.filtered(name)
    settling.filtered("namesake", uid="uid-of-another")
    settling.write(7)
    assert settling.settled(pods=7) == []


def test_the_passes_of_binds_end_likewise(settling: Settling) -> None:
    """A bind of a pod that is bound, or was never there, cannot land."""
    settling.server.has(
        member("bound", queue="research", nodeName="node-1"), member("waits", queue="research")
    )
    for name in ("bound", "nobody", "waits"):
        settling.binding(name)
    settling.write(7)
    assert settling.settled(pods=6) == ["bound", "nobody", "waits"]
    settling.binding("later")
    assert settling.settled(pods=7) == ["later", "waits"]


def test_the_writes_that_are_remembered_are_bounded(settling: Settling) -> None:
    for version in range(1, 3 * MAX_WRITES):
        settling.write(version)
    assert len(settling.store.own_writes._writes) == MAX_WRITES
    settling.filtered("nobody")
    settling.write(3 * MAX_WRITES)
    assert settling.settled(pods=3 * MAX_WRITES) == []


# Whose passes are named


def test_open_passes_are_named_in_order(settling: Settling) -> None:
    for name, of in (("b", "research"), ("a", "research"), ("c", "labs")):
        settling.filtered(name, queue=of)
    named = list_open_passes(settling.store, {"research"}, most=2)
    assert named == (("research", "team", "a"), ("research", "team", "b"))
    assert list_open_passes(settling.store, {"absent"}, most=2) == ()


def test_more_than_can_be_named_are_none_of_them(settling: Settling) -> None:
    """A part of them would be taken for all."""
    for number in range(3):
        settling.filtered(f"member-{number}")
    assert list_open_passes(settling.store, {"research"}, most=2) is None


def test_a_pod_with_a_pass_of_each_kind_is_named_once(settling: Settling) -> None:
    settling.filtered("a")
    settling.binding("a")
    assert list_open_passes(settling.store, {"research"}, most=2) == (("research", "team", "a"),)


def test_the_stopped_queues_of_open_binds_are_those_that_the_guard_let_pass(settling: Settling) -> None:
    """Not those of a pass of filter, nor of a queue that schedules."""
    settling.server.has(queue("labs", version=2, generation=2, state="Suspended"))
    settling.filtered("a", queue="labs")
    settling.binding("b")
    assert stopped_queues_with_binds(settling.store) == ()
    settling.server.has(queue("research", version=2, generation=2, state="Suspended"))
    assert stopped_queues_with_binds(settling.store) == ("research",)
    assert stopped_queues_with_passes(settling.store) == ("labs", "research")


# In which words a pod is refused


@pytest.mark.parametrize(
    ("revision", "refusal", "expected"),
    [
        ("now", "as it was worded", "as it was worded"),
        ("former", "as it was worded", "our own"),
        ("now", "", "our own"),
        (None, "", "our own"),
    ],
    ids=["of these specs", "of former specs", "without words", "no stop in the status"],
)
def test_the_status_has_the_words_for_a_stop_of_the_same_specs(
    settling: Settling, revision: str | None, refusal: str, expected: str
) -> None:
    store = settling.store
    settling.server.has(queue("research", version=2, generation=2, state="Suspended"))
    decision = store.snapshot.decision("research")
    stop = {"revision": decision.revision if revision == "now" else "former", "refusal": refusal}
    status = {} if revision is None else {"stop": stop}
    settling.server.has(queue("research", version=3, generation=2, state="Suspended", status=status))
    text = decision.text if expected == "our own" else expected
    assert store.queue_cache.refusal_text(store.snapshot.decision("research")) == text


def test_a_queue_that_is_not_there_is_refused_in_our_own_words(settling: Settling) -> None:
    decision = settling.store.snapshot.decision("absent")
    assert settling.store.queue_cache.refusal_text(decision) == decision.text
