"""The values of PriorityClasses, and the gangs that have them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cluster.cache.changes import PodGroupChange
from cluster.cache.priority_classes import PriorityClass, PriorityClasses
from cluster.objects import Metadata, PodGroup
from tests.support.http.asking import Server
from tests.support.http.wire_objects import podgroup, queue


def named(name: str, value: int, *, uid: str = "") -> PriorityClass:
    return PriorityClass(metadata=Metadata(name=name, uid=uid or f"uid-{name}-{value}"), value=value)


class Known:
    """PriorityClasses, and the names that it told of."""

    def __init__(self) -> None:
        self.told: list[list[str]] = []
        self.classes = PriorityClasses(lambda names: self.told.append(sorted(names)))


def test_only_those_that_have_another_value_are_told_of() -> None:
    known = Known()
    known.classes.replace([named("low", 1), named("high", 9)])
    known.classes.replace([named("low", 1), named("high", 10), named("new", 0)])
    known.classes.upsert(named("low", 1))
    known.classes.replace([named("high", 10)])
    assert known.told == [["high", "low"], ["high", "new"], ["low", "new"]]
    assert [known.classes.value(name) for name in ("high", "low")] == [10, None]


def test_one_that_is_made_again_has_its_new_value() -> None:
    """The deletion of the former one may come late."""
    known = Known()
    known.classes.upsert(named("high", 9))
    known.classes.upsert(named("high", 5))
    known.classes.remove(named("high", 9))
    assert known.classes.value("high") == 5
    known.classes.remove(named("high", 5))
    assert known.classes.value("high") is None
    assert known.told == [["high"]] * 3


def test_a_value_that_is_missing_is_zero() -> None:
    """As the API server has it: the field has no default, and is left out where it is 0."""
    decoded = msgspec.json.decode(b'{"metadata": {"name": "zero"}}', type=PriorityClass)
    assert decoded.value == 0


def test_one_is_absent_only_once_the_classes_are_listed() -> None:
    """And not any more once none is needed: nobody watches them then."""
    known = Known()
    known.classes.upsert(named("high", 9))
    assert not known.classes.is_absent("low")
    known.classes.follow(needed=True)
    assert not known.classes.is_absent("low")
    known.classes.replace([named("high", 9)])
    assert [known.classes.is_absent(name) for name in ("low", "high")] == [True, False]
    known.classes.upsert(named("low", 1))
    assert not known.classes.is_absent("low")
    known.classes.remove(named("low", 1))
    assert known.classes.is_absent("low")
    known.classes.follow(needed=False)
    assert not known.classes.is_absent("low")


def test_where_no_gang_names_one_nothing_is_kept() -> None:
    known = Known()
    known.classes.follow(needed=True)
    known.classes.replace([named("high", 9)])
    known.classes.follow(needed=False)
    assert known.classes.value("high") is None


# Gangs


class Gangs:
    """A store; what it told of PodGroups, and whether it wants classes."""

    def __init__(self) -> None:
        self.store = Server().has(queue("root", parent=None), queue("research")).store
        self.told: list[str] = []
        self.wants: list[bool] = []
        self._version = 1
        self.store.add_listener(self._tell)
        self.store.podgroups.add_class_listener(self.wants.append)

    def _tell(self, _queue: str, change: object) -> None:
        if isinstance(change, PodGroupChange):
            self.told.append(change.key.name)

    def has(self, name: str, **spec: Any) -> None:
        self._version += 1
        self.store.podgroups.upsert(_read(podgroup(name, version=self._version, queue="research", **spec)))

    def loses(self, name: str) -> None:
        self._version += 1
        self.store.podgroups.remove(_read(podgroup(name, version=self._version, queue="research")))

    def priority(self, name: str) -> int | None:
        gang = self.store.podgroups.gang("team", name)
        assert gang is not None
        return gang.priority


def _read(obj: dict[str, Any]) -> Any:
    return msgspec.convert(obj, PodGroup)


@pytest.fixture
def gangs() -> Gangs:
    return Gangs()


def test_a_gang_has_the_value_of_its_class_as_it_comes_changes_and_goes(gangs: Gangs) -> None:
    """The same object until it does: what was read of it by then counts."""
    gangs.has("ring", minMember=2, priorityClassName="high")
    gangs.has("plain", minMember=2)
    assert (gangs.priority("ring"), gangs.wants) == (None, [True])
    gangs.told.clear()
    for classes, value in (([named("high", 9)], 9), ([named("high", -5)], -5), ([named("other", 1)], None)):
        before = gangs.store.podgroups.gang("team", "ring")
        gangs.store.priority_classes.replace(classes)
        assert gangs.priority("ring") == value
        assert gangs.store.podgroups.gang("team", "ring") is not before
        gangs.store.priority_classes.replace(classes)
    assert gangs.told == ["ring"] * 3
    gangs.store.priority_classes.replace([named("high", 7)])
    gangs.has("ring", minMember=3, priorityClassName="high")
    assert gangs.priority("ring") == 7
    assert gangs.priority("plain") is None


def test_classes_are_wanted_while_a_gang_names_one(gangs: Gangs) -> None:
    """Not for pods that go by themselves."""
    gangs.has("single", minMember=1, priorityClassName="high")
    assert gangs.wants == []
    gangs.has("ring", minMember=2, priorityClassName="high")
    gangs.has("other", minMember=2, priorityClassName="low")
    gangs.loses("ring")
    assert gangs.wants == [True]
    gangs.has("other", minMember=2)
    assert gangs.wants == [True, False]
    gangs.has("other", minMember=2, priorityClassName="low")
    gangs.loses("other")
    assert gangs.wants == [True, False, True, False]


def test_a_gang_that_names_another_class_has_the_value_of_that(gangs: Gangs) -> None:
    gangs.has("ring", minMember=2, priorityClassName="high")
    gangs.store.priority_classes.replace([named("high", 9), named("low", 1)])
    gangs.has("ring", minMember=2, priorityClassName="low")
    assert gangs.priority("ring") == 1
    gangs.told.clear()
    gangs.store.priority_classes.replace([named("low", 1)])
    assert gangs.told == []
