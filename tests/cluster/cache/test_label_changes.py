"""What is remembered of labels that somebody changed, for the leader."""

from __future__ import annotations

import pytest

from cluster.cache import label_changes
from tests.support.http.asking import Server
from tests.support.http.wire_objects import member, namespace, pod

MEMBER_NAMESPACE = {"sluice.dev/member-namespace": "true"}


def test_a_namespace_that_webhooks_select_from_now_on_is_remembered() -> None:
    """Pods that were created before have no label, though it named its queue all the time."""
    server = Server().has(namespace("old", queue="research"))
    server.store.label_changes.take()
    server.has(namespace("old", queue="research", version=2, labels=MEMBER_NAMESPACE))
    assert server.store.label_changes.take().namespaces == {"old": 2}
    server.has(namespace("old", queue="research", version=3, labels=MEMBER_NAMESPACE))
    server.has(namespace("new", queue="research", labels=MEMBER_NAMESPACE))
    assert server.store.label_changes.take().namespaces == {}


def test_a_namespace_that_names_another_queue_is_remembered() -> None:
    server = Server().has(namespace("team", version=2))
    server.has(namespace("team", queue="research", version=3))
    assert server.store.label_changes.take().namespaces == {"team": 3}


def test_the_first_change_of_a_namespace_since_the_last_look_counts() -> None:
    """A stop between the two waits for the first one."""
    server = Server().has(namespace("team", version=2))
    for version in (3, 4):
        server.has(namespace("team", queue=f"queue-{version}", version=version))
    assert server.store.label_changes.take().namespaces == {"team": 3}


def test_a_member_that_is_missing_in_a_list_has_left_at_an_unknown_version() -> None:
    server = Server().has(member("work"))
    server.store.members.replace([])
    (left,) = server.store.label_changes.take().left.values()
    assert (left.member.name, left.version) == ("work", 0)


def test_what_is_no_member_is_not_remembered() -> None:
    server = Server().has(pod("stray"))
    server.lacks(pod("stray"))
    assert server.store.label_changes.take().left == {}


def test_more_changes_than_are_kept_are_known_to_be_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_changes, "MAX_CHANGES", 2)
    server = Server()
    pods = [member(f"work-{number}") for number in range(3)]
    server.has(*pods).lacks(*pods)
    changes = server.store.label_changes.take()
    assert (len(changes.left), changes.incomplete) == (2, True)
    assert not server.store.label_changes.take().incomplete


def test_each_member_that_another_queue_was_written_on_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """No list would show it: its label names a queue."""
    monkeypatch.setattr(label_changes, "MAX_CHANGES", 0)
    names = [f"work-{number}" for number in range(5)]
    server = Server().has(*(member(name) for name in names))
    server.has(*(member(name, queue="other", version=2) for name in names))
    changes = server.store.label_changes.take()
    assert sorted(each.name for each in changes.moved.values()) == names
    assert not changes.incomplete


def test_changes_that_were_put_back_are_taken_with_those_since() -> None:
    server = Server().has(member("moved"), member("left"))
    server.has(namespace("team", version=1), namespace("new", version=1))
    server.has(member("moved", queue="second", version=2), namespace("team", queue="second", version=5))
    server.lacks(member("left", version=3))
    changes = server.store.label_changes
    taken = changes.take()
    server.has(member("left", version=6)).lacks(member("left", version=7))
    server.has(member("moved", queue="third", version=8), namespace("team", queue="third", version=9))
    changes.put_back(taken)
    server.has(namespace("team", queue="fourth", version=10), namespace("new", queue="fourth", version=11))
    again = changes.take()
    assert [each.queue for each in again.moved.values()] == ["research"], "the queue that it had first"
    assert [each.version for each in again.left.values()] == [7], "an older list says nothing of it"
    assert again.namespaces == {"team": 5, "new": 11}
    assert again.incomplete, "some may have been used in part"
    assert changes.take() == label_changes.ChangedLabels()


def test_a_namespace_is_recent_for_a_moment() -> None:
    server = Server().has(namespace("team", version=2))
    assert not server.store.label_changes.is_recent("team")
    server.has(namespace("team", queue="research", version=3))
    assert server.store.label_changes.is_recent("team")
    server.clock.seconds += label_changes.RECENT_SECONDS
    assert not server.store.label_changes.is_recent("team")


def test_namespaces_that_are_recent_no_more_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_changes, "MAX_CHANGES", 1)
    server = Server().has(namespace("first", version=2), namespace("second", version=2))
    server.has(
        namespace("first", queue="research", version=3), namespace("second", queue="research", version=3)
    )
    recent = server.store.label_changes.is_recent
    assert (recent("first"), recent("second")) == (True, False)
    server.clock.seconds += label_changes.RECENT_SECONDS
    server.has(namespace("second", queue="labs", version=4))
    assert (recent("first"), recent("second")) == (False, True)
