"""The snapshot: the decisions of all queues, made beforehand, and until when they hold."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.messages import pod_text, waiting_warning
from queues.queue import Queue
from queues.snapshot import UNDECIDING, QueueDecision, QueueSnapshot
from queues.states import Desired, StopPolicy
from queues.tree import Tree
from tests.support.rules.cases import (
    CLOSED,
    DRAIN,
    HOLD,
    MODEST,
    NONE,
    NOW,
    OPEN,
    SECOND,
    SUSPENDED,
    asked,
    line,
    queue,
    random_forests,
    random_times,
    tree,
)


def snapshot(*queues: Queue, now: datetime = NOW) -> QueueSnapshot:
    return QueueSnapshot(tree(*queues), now=now)


def decisions(of: QueueSnapshot) -> dict[str, QueueDecision]:
    return {name: of.decision(name) for name in of.tree}


@MODEST
@given(random_forests(), random_times(), st.booleans())
def test_a_decision_is_the_verdict(queues: dict[str, Queue], now: datetime, live: bool) -> None:
    """For every queue, and for one that does not exist, a decision is equal to the verdict."""
    of = QueueSnapshot(Tree(queues), now=now)
    for name in (*of.tree, "nobody"):
        decision, found = of.decision(name), asked(of.tree, name, live=live, now=now)
        assert (
            decision.queue,
            decision.accepts,
            decision.schedules,
            decision.drains,
            decision.stop,
            decision.refusal,
        ) == (
            name,
            found.accepts,
            found.schedules,
            found.drains,
            found.stop,
            found.refusal,
        )


@MODEST
@given(random_forests(), random_times(), st.booleans())
def test_a_snapshots_verdict_is_the_verdict(queues: dict[str, Queue], now: datetime, live: bool) -> None:
    """Asked with members or without, the snapshot gives the verdict of its tree at its time."""
    of = QueueSnapshot(Tree(queues), now=now)
    assert all(
        of.verdict(name, live=live) == asked(of.tree, name, live=live, now=now) for name in (*of.tree, "x")
    )


@MODEST
@given(random_forests(), random_times())
def test_a_decision_has_the_texts_of_its_stop(queues: dict[str, Queue], now: datetime) -> None:
    """A queue that schedules has no text and no warning; one that does not has those of its cause."""
    for decision in decisions(QueueSnapshot(Tree(queues), now=now)).values():
        expected = (pod_text(decision.stop), waiting_warning(decision.stop)) if decision.stop else ("", "")
        assert (decision.text, decision.warning) == expected


@MODEST
@given(random_forests(), random_times())
def test_the_stopped_are_those_that_do_not_schedule(queues: dict[str, Queue], now: datetime) -> None:
    """`stopped` names each of them once, and no other."""
    of = QueueSnapshot(Tree(queues), now=now)
    assert sorted(of.stopped_queues()) == sorted(
        n for n in of.tree if not asked(of.tree, n, now=now).schedules
    )


@MODEST
@given(random_forests(), random_times())
def test_two_replicas_make_the_same_snapshot(queues: dict[str, Queue], now: datetime) -> None:
    """The order in which queues were seen leaves no trace, down to the bytes of the texts and revisions."""
    one, other = (
        QueueSnapshot(Tree(dict(order)), now=now) for order in (queues.items(), reversed(queues.items()))
    )
    assert decisions(one) == decisions(other)


def test_a_snapshot_keeps_its_tree_and_time() -> None:
    """Whoever holds a snapshot can ask what it was made of."""
    of = tree(queue("q"))
    assert (QueueSnapshot(of, now=NOW).tree, QueueSnapshot(of, now=NOW).now) == (of, NOW)


def test_a_snapshot_says_how_new_its_tree_is() -> None:
    """What was seen is told as it was given, 0 if nothing was, and changes no decision."""
    old, new = (
        QueueSnapshot(tree(queue("q")), now=NOW),
        QueueSnapshot(tree(queue("q")), now=NOW, resource_version=7),
    )
    assert (old.resource_version, new.resource_version) == (0, 7)
    assert decisions(old) == decisions(new)


def test_a_queue_that_does_not_exist_does_not_schedule_and_says_so() -> None:
    """Its members are taken and do not run; there is no revision of what is not."""
    decision = snapshot().decision("new")
    assert (decision.accepts, decision.schedules, decision.drains, decision.revision) == (
        True,
        False,
        False,
        "",
    )
    assert "new" in decision.text
    assert "new" in decision.warning


# How long a snapshot holds


@MODEST
@given(random_forests(), random_times())
def test_a_snapshot_stays_the_same_until_the_first_stop_ends(queues: dict[str, Queue], now: datetime) -> None:
    """The last moment before `valid_until` gives the same snapshot; where there is none, any moment does."""
    first = QueueSnapshot(Tree(queues), now=now)
    end = first.valid_until or datetime.max.replace(tzinfo=now.tzinfo)
    last = QueueSnapshot(first.tree, now=end - timedelta(microseconds=1))
    assert decisions(first) == decisions(last)
    assert all(first.verdict(n, live=v) == last.verdict(n, live=v) for n in first.tree for v in (True, False))


@MODEST
@given(random_forests(), random_times())
def test_a_snapshot_is_valid_until_a_resume_time_is_reached(queues: dict[str, Queue], now: datetime) -> None:
    """A snapshot is not given up for nothing: at `valid_until`, still to come, some queue's stop is over."""
    end = QueueSnapshot(Tree(queues), now=now).valid_until
    if end is not None:
        assert end > now
        assert any(
            (one.desired_at(now), one.stop_policy_at(now)) != (one.desired_at(end), one.stop_policy_at(end))
            for one in queues.values()
        )


@pytest.mark.parametrize(
    ("desired", "policy"),
    [(SUSPENDED, NONE), (OPEN, HOLD), (OPEN, DRAIN), (SUSPENDED, DRAIN), (CLOSED, HOLD)],
)
def test_a_snapshot_holds_until_the_first_stop_ends(desired: Desired, policy: StopPolicy) -> None:
    """Of several times to come the nearest counts."""
    soon, later = NOW + SECOND, NOW + 2 * SECOND
    queues = [
        queue("a", desired=desired, stop_policy=policy, resume_at=later),
        queue("b", desired=desired, stop_policy=policy, resume_at=soon),
        queue("c", desired=desired, stop_policy=policy),
    ]
    assert snapshot(*queues).valid_until == soon


@pytest.mark.parametrize("at", [None, NOW - SECOND, NOW])
def test_a_snapshot_whose_stops_have_no_end_holds_for_ever(at: datetime | None) -> None:
    """Neither no `resumeAt` nor one that has come gives a snapshot an end."""
    assert snapshot(queue("q", desired=SUSPENDED, resume_at=at)).valid_until is None


def test_a_snapshot_of_nothing_holds_for_ever() -> None:
    """No queues, no end."""
    assert QueueSnapshot(Tree({}), now=NOW).valid_until is None


@pytest.mark.parametrize("desired", [OPEN, CLOSED])
def test_a_time_that_undoes_nothing_does_not_end_a_snapshot(desired: Desired) -> None:
    """`resumeAt` without a stop that it could undo changes nothing, so nothing is made anew for it."""
    assert snapshot(queue("q", desired=desired, resume_at=NOW + SECOND)).valid_until is None


# Revisions


def revised(name: str, *queues: Queue) -> str:
    return snapshot(*queues).decision(name).revision


def at(name: str, parent: str = "root", *, uid: str = "u", generation: int = 1) -> Queue:
    return Queue(name=name, parent=parent, uid=uid, generation=generation)


CHAIN = (at("root"), at("p"), at("q", "p"), at("other"))


@pytest.mark.parametrize("edited", ["root", "p", "q"])
@pytest.mark.parametrize("change", [{"generation": 2}, {"uid": "v"}])
def test_the_revision_changes_with_any_spec_on_the_chain(edited: str, change: dict[str, Any]) -> None:
    """An edit of the queue or of one above it, or a queue made anew, shows in the revision."""
    after = [
        at(one.name, one.parent or "root", **{"uid": "u", "generation": 1, **change})
        if one.name == edited
        else one
        for one in CHAIN
    ]
    assert revised("q", *after) != revised("q", *CHAIN)


def test_the_revision_does_not_change_with_a_spec_elsewhere() -> None:
    """What stands beside the chain is of no interest."""
    after = [*CHAIN[:-1], at("other", generation=9)]
    assert revised("q", *after) == revised("q", *CHAIN)


def test_the_revision_changes_when_a_missing_parent_comes() -> None:
    """A chain that was mended is another chain."""
    assert revised("q", at("q", "p")) != revised("q", at("q", "p"), at("p"))


def test_the_revision_differs_by_the_queue_that_was_edited() -> None:
    """Generations of a queue and its parent are not mixed up."""
    child = (at("p", generation=1), at("q", "p", generation=11))
    parent = (at("p", generation=11), at("q", "p", generation=1))
    assert revised("q", *child) != revised("q", *parent)


def test_the_revision_is_sixteen_hexadecimal_digits() -> None:
    """It goes into annotations and acknowledgements: sixteen hexadecimal digits."""
    revision = revised("q", *CHAIN)
    assert len(revision) == 16
    assert int(revision, 16) >= 0


def test_the_revision_does_not_change_with_time() -> None:
    """A stop that ended by itself is the same spec."""
    timed = line(queue("q", desired=SUSPENDED, resume_at=NOW))
    before, after = (QueueSnapshot(timed, now=now).decision("q") for now in (NOW - SECOND, NOW))
    assert (before.schedules, after.schedules) == (False, True)
    assert before.revision == after.revision


@MODEST
@given(random_forests(), random_forests(), random_times(), random_times())
def test_an_updated_snapshot_is_the_same_as_a_new_one(
    before: dict[str, Queue], after: dict[str, Queue], then: datetime, now: datetime
) -> None:
    """Whatever changed, came or went, and however much time went by."""
    changed = [name for name in {*before, *after} if before.get(name) != after.get(name)]
    former = QueueSnapshot(Tree(before), now=min(then, now))
    tree = former.tree.with_changes({name: after.get(name) for name in changed})
    following = QueueSnapshot.updated(former, tree, changed=changed, now=max(then, now), resource_version=7)
    anew = QueueSnapshot(Tree(after), now=max(then, now), resource_version=7)
    assert decisions(following) == decisions(anew)
    assert (following.valid_until, following.resource_version, following.now) == (
        anew.valid_until,
        anew.resource_version,
        anew.now,
    )
    assert set(following.stopped_queues()) == set(anew.stopped_queues())
    assert set(following.restricted_queues) == set(anew.restricted_queues)
    assert (following.has_quotas, following.names_devices) == (anew.has_quotas, anew.names_devices)


@MODEST
@given(random_forests(), random_forests(), random_times(), st.data())
def test_fields_that_decide_nothing_change_revisions_alone(
    queues: dict[str, Queue], others: dict[str, Queue], now: datetime, data: st.DataObject
) -> None:
    """As for a new snapshot; and the chain is walked for the revision, not for a verdict."""
    former = QueueSnapshot(Tree(queues), now=now)
    trees = former.tree, Tree(others)
    name, other = (data.draw(st.sampled_from(sorted(drawn))) for drawn in trees)
    fields = {field: getattr(trees[1].queues[other], field) for field in UNDECIDING}
    edited = msgspec.structs.replace(trees[0].queues[name], **{**fields, "generation": 99})
    edited_tree = former.tree.with_queue(edited)
    with pytest.MonkeyPatch.context() as patch:
        if former.valid_until is None or former.valid_until > now:
            patch.setattr(QueueSnapshot, "verdict", None)
        following = QueueSnapshot.updated(former, edited_tree, changed=[name], now=now)
    anew = QueueSnapshot(edited_tree, now=now)
    assert decisions(following) == decisions(anew)
    assert following.scope(name) == anew.scope(name) != former.scope(name)


@MODEST
@given(random_forests(), random_times(), st.data())
def test_what_does_not_change_keeps_its_decision(
    queues: dict[str, Queue], now: datetime, data: st.DataObject
) -> None:
    """A queue apart from the one that changed is not worked out again."""
    former = QueueSnapshot(Tree(queues), now=now)
    name = data.draw(st.sampled_from(sorted(former.tree)))
    following = QueueSnapshot.updated(former, former.tree, changed=[name], now=now)
    apart = set(former.tree) - former.tree.subtree(name)
    if former.valid_until is None or former.valid_until > now:
        assert all(following.decision(one) is former.decision(one) for one in apart)
