"""Whom texts name: the contact that the admins of a queue have set, in one short line, or an admin."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from queues.causes import NoRoom
from queues.contacts import ADMIN, CONTACT_LIMIT, contact_fault, contact_text
from queues.messages import (
    WARNING_LIMIT,
    no_room_text,
    pod_text,
    quoted_kept,
    quoted_lack,
    quoted_no_room,
    quoted_reason,
    waiting_warning,
)
from queues.namespace_selectors import compile_selector
from queues.queue import Queue
from queues.quota.lack import LackKind
from queues.snapshot import QueueSnapshot, decision_for_namespace, decision_of
from queues.tree import Tree
from queues.verdict import verdict
from queues.well_known import CONTACT
from tests.support.cases import each_case
from tests.support.rules.cases import HOLD, HOSTILE, NOW, SUSPENDED, plain, queue, tree

HOSTILE_CONTACTS = {
    **HOSTILE,
    "10 KB": "x" * 10_000,
    "a link in Markdown": "[log in](https://example.com/a) ![x](https://example.com/b) **now** `kubectl`",
    "a tag": "<script>alert(1)</script><a href='https://example.com'>us</a>",
    "parts of our texts": 'us; nobody goes for it: 3 pods; queue "other" is Suspended',
}


def stored(name: str, contact: str, **wishes: Any) -> Queue:
    """As it is read from the object."""
    return queue(name, contact=contact_text(contact), **wishes)


@each_case("kind", HOSTILE_CONTACTS)
def test_what_is_stored_is_shown_as_one_short_line(kind: str) -> None:
    """Admission may have been away."""
    shown = contact_text(HOSTILE_CONTACTS[kind])
    assert plain(shown)
    assert len(shown) <= CONTACT_LIMIT
    assert ";" not in shown
    one = stored("a", HOSTILE_CONTACTS[kind], desired=SUSPENDED)
    cause = verdict("a", tree=tree(one), live=False, now=NOW).stop
    assert cause is not None
    assert pod_text(cause) == f'queue "a" is Suspended; {shown or ADMIN} can resume it'
    assert len(waiting_warning(cause)) <= WARNING_LIMIT
    lack = NoRoom(queue="a", by="a", contact=shown)
    said = no_room_text(lack)
    assert said.endswith(f"; it goes when others end, or {shown or ADMIN} raises it")
    assert quoted_no_room(said, queue="a").why == "its capability is used"
    assert quoted_kept(said, queue="a") == ""


@pytest.mark.parametrize("value", [None, 7, ["a"], {}, "", "   ", "\n"])
def test_what_is_no_text_names_nobody(value: object) -> None:
    assert contact_text(value) == ""


@each_case(
    "contact",
    [
        "",
        "ML platform, #ml-queues",
        "queues@example.com",
        "https://example.com/queues",
        "Łódź 2 (Zoë)",
        "数据平台",
        "x" * CONTACT_LIMIT,
    ],
)
def test_a_line_of_plain_text_is_taken_and_shown_as_it_is(contact: str) -> None:
    assert contact_fault(contact) == ""
    assert contact_text(contact) == contact


@each_case(
    ("contact", "fault"),
    [
        ("x" * (CONTACT_LIMIT + 1), "it has 81 characters, and may have 80; name whom to ask"),
        ("one\ntwo", "it contains U+000A; write one line of plain text, without semicolons"),
        ("a\u202eb", "it contains U+202E; write one line of plain text, without semicolons"),
        ("a\x1b[31m", "it contains U+001B; write one line of plain text, without semicolons"),
        ("ann; bob", "it contains ';'; write one line of plain text, without semicolons"),
        ("  ", "it is blank; name whom to ask, or remove it"),
    ],
)
def test_anything_else_is_refused_with_what_is_wrong(contact: str, fault: str) -> None:
    assert contact_fault(contact) == f"metadata.annotations[{CONTACT}]: {fault}"


@each_case(
    ("of", "named"),
    [
        ("own", "own's"),
        ("below", "own's"),
        ("lab", "lab's"),
        ("bare", "lab's"),
        ("elsewhere", "root's"),
        ("lost", "root's"),
        ("not there", "root's"),
        ("root", "root's"),
    ],
)
def test_it_is_that_of_the_queue_or_of_the_nearest_above_or_of_root(of: str, named: str) -> None:
    """`lost` has a parent that is not there."""
    forest = tree(
        queue("root", contact="root's"),
        queue("lab", contact="lab's"),
        queue("own", "lab", contact="own's"),
        queue("below", "own"),
        queue("bare", "lab"),
        queue("elsewhere"),
        queue("lost", "missing"),
    )
    assert forest.contact_of(of) == named
    assert tree(queue("a")).contact_of(of) == ""


def said_of(name: str, forest: Tree) -> str:
    stop = verdict(name, tree=forest, live=False, now=NOW).stop
    assert stop is not None
    return pod_text(stop).rpartition("; ")[2]


def test_who_is_named_can_do_it_the_contact_is_that_of_the_queue_to_be_changed() -> None:
    """That of a queue below may have no right to resume it."""
    lab = queue("lab", desired=SUSPENDED)
    own = queue("own", "lab", contact="own's")
    assert said_of("own", tree(lab, own)) == 'an admin of queues can resume "lab"'
    root = queue("root", contact="root's")
    assert said_of("own", tree(root, lab, own)) == 'root\'s can resume "lab"'
    assert said_of("own", tree(lab, queue("own", "lab", contact="own's", stop_policy=HOLD))) == (
        'an admin of queues can resume "lab"'
    )


def test_each_text_for_those_whose_pods_wait_names_the_contact() -> None:
    forest = tree(
        queue("root", contact="Ann"),
        queue("held", stop_policy=HOLD),
        queue("lost", "missing"),
        queue("picky", namespace_selector=compile_selector({"matchLabels": {"team": "a"}})),
    )
    assert said_of("held", forest) == "Ann can resume it"
    assert said_of("lost", forest) == "Ann can mend it"
    assert said_of("not-there", forest) == "name another queue, or have Ann create it"
    picky = decision_of(verdict("picky", tree=forest, live=False, now=NOW), chain=forest.chain("picky"))
    found = decision_for_namespace(picky, namespace="team", labels={})
    assert found.text.endswith("; use another queue, or have Ann change that")
    assert found.warning.endswith("use another queue, or have Ann change that")
    ends = {
        LackKind.CAPABILITY: "it goes when others end, or Ann raises it",
        LackKind.GUARANTEES: "it goes when others end, or Ann raises it",
        LackKind.CLAIM: "it goes after that one, or Ann raises it",
        LackKind.DEVICES: "claim a number of devices, or have Ann limit the number of claims instead",
    }
    for kind, end in ends.items():
        text = no_room_text(NoRoom(queue="a", by="a", kind=kind, contact="Ann"))
        assert text.endswith(f"; {end}")
        assert quoted_reason(text, queue="a", podgroup="") is not None
        assert quoted_lack(text, queue="a") in {kind, None}
    never = no_room_text(NoRoom(queue="a", by="a", never=True, contact="Ann"))
    assert never.endswith("; request less, or have Ann raise it")


@each_case("length", [1, 24, CONTACT_LIMIT])
@each_case("reason", ["", "disks", "x" * 160])
def test_a_warning_says_until_when_whoever_is_named(length: int, reason: str) -> None:
    until = datetime(2030, 1, 1, 14, 30, tzinfo=UTC)
    for name in ("research", "n" * 253):
        one = queue(name, desired=SUSPENDED, resume_at=until, reason=reason, contact="c" * length)
        cause = verdict(name, tree=tree(one), live=False, now=NOW).stop
        assert cause is not None
        warning = waiting_warning(cause)
        assert len(warning) <= WARNING_LIMIT
        assert "until 2030-01-01 14:30 UTC" in warning
    short = queue("a", desired=SUSPENDED, contact="c" * length)
    cause = verdict("a", tree=tree(short), live=False, now=NOW).stop
    assert cause is not None
    assert f"{'c' * length} can resume it" in waiting_warning(cause)


def test_a_snapshot_that_was_updated_names_whom_a_new_one_names_and_revisions_stay() -> None:
    """Also where the chain is broken, which the contact of root stands for."""
    queues = {
        "root": queue("root"),
        "a": queue("a", desired=SUSPENDED),
        "b": queue("b", "a"),
        "lost": queue("lost", "missing"),
    }
    snapshot = QueueSnapshot(Tree(queues), now=NOW)
    for name, contact in (("root", "Ann"), ("a", "Bob"), ("root", "Eve"), ("a", ""), ("root", "")):
        changed = {**snapshot.tree.queues, name: queue(name, **_wishes(name), contact=contact)}
        before, after = snapshot, Tree(changed)
        snapshot = QueueSnapshot.updated(before, after, changed=[name], now=NOW)
        fresh = QueueSnapshot(after, now=NOW)
        for each in (*queues, "not-there"):
            assert snapshot.decision(each) == fresh.decision(each)
            assert snapshot.decision(each).revision == before.decision(each).revision
        for each in queues:
            assert snapshot.scope(each) == before.scope(each)


def _wishes(name: str) -> dict[str, Any]:
    return {"desired": SUSPENDED} if name == "a" else {}
