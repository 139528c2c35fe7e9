"""Edits that come before the watch has told of the former: they are judged as if that were stored."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from cluster.inflight.queue_edits import SECONDS
from cluster.objects import QueueObject
from tests.support.http.asking import Said, Server
from tests.support.http.wire_objects import member, queue
from tests.webhooks.queues.test_queue_edits import (
    create,
    delete,
    edit,
    refused,
)


@pytest.fixture
def server() -> Server:
    """Two queues side by side."""
    return Server().has(queue("a"), queue("b"))


def moved(server: Server, name: str, parent: str, **request: object) -> Said:
    return edit(server, queue(name), queue(name, parent=parent), **request)


def test_two_moves_at_once_make_no_cycle(server: Server) -> None:
    """Each alone would be right."""
    assert moved(server, "a", "b").allowed
    refused(moved(server, "b", "a"), by="spec.parent: the parents form a cycle", way_out="choose a parent")


def test_one_of_many_moves_at_the_same_moment_passes(server: Server) -> None:
    """Whichever thread comes first: nobody is judged by what was before it."""
    answers: dict[str, Said] = {}
    ready = threading.Barrier(2)

    def move(name: str, parent: str) -> None:
        ready.wait(timeout=30)
        answers[name] = moved(server, name, parent)

    threads = [threading.Thread(target=move, args=pair) for pair in (("a", "b"), ("b", "a"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert sorted(answer.allowed for answer in answers.values()) == [False, True]


def test_a_dry_run_reserves_nothing(server: Server) -> None:
    assert moved(server, "a", "b", dry_run=True).allowed
    assert moved(server, "b", "a").allowed


def test_a_refused_edit_reserves_nothing(server: Server) -> None:
    assert not moved(server, "a", "nobody").allowed
    assert not edit(server, queue("a"), queue("a", parent="b", weight=0)).allowed
    assert moved(server, "b", "a").allowed


def test_once_the_edit_is_stored_the_store_says_what_is_true(server: Server) -> None:
    """Moved, and moved back by somebody whom another replica answered."""
    assert moved(server, "a", "b").allowed
    server.has(queue("a", parent="b", version=2))
    assert not moved(server, "b", "a").allowed
    server.has(queue("a", version=3))
    assert moved(server, "b", "a").allowed


def test_an_edit_that_lost_a_conflict_is_forgotten_at_once(server: Server) -> None:
    """A version that is newer than the one that was judged, and without the move: it did not come about."""
    assert moved(server, "a", "b").allowed
    server.has(queue("a", version=2, weight=3))
    assert moved(server, "b", "a").allowed


def test_an_edit_that_never_came_about_is_forgotten_in_time(server: Server) -> None:
    """Another webhook refused it, say; nothing will ever tell."""
    assert moved(server, "a", "b").allowed
    server.clock.seconds += SECONDS + 1
    assert moved(server, "b", "a").allowed


def test_a_child_may_follow_its_parent_at_once() -> None:
    """One file may hold a tree."""
    server = Server()
    assert create(server, queue("top")).allowed
    assert create(server, queue("below", parent="top")).allowed


def test_a_queue_that_is_being_deleted_gets_no_children() -> None:
    top = queue("top", state="Closed", status={"state": "Closed", "observedGeneration": 1})
    server = Server().has(top)
    assert delete(server, top).allowed
    refused(create(server, queue("below", parent="top")), by="spec.parent: ", way_out="create it first")
    again = queue("top", version=3)
    again["metadata"]["uid"] = "another"
    server.lacks(queue("top", state="Closed", version=2)).has(again)
    assert create(server, queue("below", parent="top")).allowed


def test_a_queue_that_a_finalizer_keeps_is_there_once_the_watch_shows_its_deletion() -> None:
    top = queue("top", state="Closed", status={"state": "Closed", "observedGeneration": 1})
    server = Server().has(top)
    assert delete(server, top).allowed
    kept = queue("top", state="Closed", version=2)
    kept["metadata"]["deletionTimestamp"] = "2029-12-31T00:00:00Z"
    server.has(kept)
    answer = create(server, queue("below", parent="top"))
    refused(answer, by='spec.parent: queue "top" is being deleted', way_out="choose another parent")


def test_a_queue_that_went_with_work_comes_back_where_that_counts() -> None:
    """To delete it and to create it elsewhere would move its work."""
    team = queue("team", parent="labs")
    server = Server().has(queue("labs"), team, member("one", queue="team", nodeName="node-1"))
    server.lacks(team)
    refused(
        create(server, queue("team")), by="spec.parent: ", way_out="kubectl queue create team --parent labs"
    )
    assert create(server, queue("team", parent="labs")).allowed
    server.has(queue("team", parent="labs", version=5)).lacks(queue("team", parent="labs", version=6))
    server.lacks(member("one", queue="team", nodeName="node-1"))
    assert create(server, queue("team")).allowed


def test_a_queue_that_gets_a_child_at_this_moment_is_not_deleted() -> None:
    top = queue("top", state="Closed")
    server = Server().has(top)
    assert create(server, queue("below", parent="top")).allowed
    answer = delete(server, top)
    assert "it has 1 child queue (below)" in answer.message


@pytest.mark.parametrize(
    ("change", "reads"),
    [({"reason": "disks"}, False), ({"stopPolicy": "Hold"}, False), ({"parent": "b"}, True)],
)
def test_most_edits_are_judged_without_the_others(
    server: Server, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], reads: bool
) -> None:
    """So one of a thousand at once, as where windows begin together, costs no more than one alone."""
    asked: list[object] = []
    pending = server.store.queue_edits.pending

    def counted(stored: Mapping[str, QueueObject]) -> dict[str, QueueObject | None]:
        asked.append(stored)
        return pending(stored)

    monkeypatch.setattr(server.store.queue_edits, "pending", counted)
    assert edit(server, queue("a"), queue("a", **change)).allowed
    assert bool(asked) is reads
