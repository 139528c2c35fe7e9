"""Merges several builds of one object into one tree whose parts have conditions.

The first build is the default. Every other one has a condition, the text of a Helm expression, under which it
counts. Builds that agree give a tree without conditions.

Promises
- Under the default, and under each condition alone, the tree is that build.
- Two conditions at the same time: a part that only one of them changes is as that one has it. Where both
  change the same scalar, the first counts.
- The items of a list are matched by `name` where they have one, else by their content.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Final


@dataclass(frozen=True)
class HelmExpression:
    """A Helm expression in place of a scalar, written between braces."""

    text: str


@dataclass(frozen=True)
class Block:
    """A Helm expression that gives YAML lines: a map, or items of a list. Without the indentation."""

    text: str


@dataclass(frozen=True)
class Branch:
    """What stands there where the condition holds and that of no branch before it. "": always."""

    condition: str
    node: TemplateNode


#: One place in the tree. Without a branch whose condition is "", nothing may stand there.
Choice = tuple[Branch, ...]


@dataclass(frozen=True)
class Field:
    key: str
    choice: Choice


@dataclass(frozen=True)
class Fields:
    """A map."""

    fields: tuple[Field, ...]


@dataclass(frozen=True)
class Items:
    """A list."""

    items: tuple[Choice, ...]


Scalar = str | int | float | bool | None
TemplateNode = Fields | Items | HelmExpression | Block | Scalar


@dataclass(frozen=True)
class Optional:
    """In a build: this key or item stands there where the condition holds."""

    condition: str
    value: Any


class _Absent:
    """Nothing stands there."""


ABSENT: Final = _Absent()
#: A build under its condition; that of the default is "".
Builds = Sequence[tuple[str, Any]]


def merge(default: Any, others: Builds) -> Choice:
    """The tree of one place. A build is JSON with `HelmExpression`, `Block`, `Optional` in it, or ABSENT."""
    changed = [(condition, build) for condition, build in others if build != default]
    if isinstance(default, Mapping):
        maps = [each for each in changed if isinstance(each[1], Mapping)]
        rest = [each for each in changed if not isinstance(each[1], Mapping)]
        return _choice(rest, Fields(_fields(default, maps)))
    if isinstance(default, list):
        lists = [each for each in changed if isinstance(each[1], list)]
        rest = [each for each in changed if not isinstance(each[1], list)]
        return _choice(rest, Items(_items(default, lists)))
    if default is ABSENT:
        return _additions(changed)
    return _choice(changed, default)


def _choice(others: Builds, default: Any) -> Choice:
    """`default`, unless a condition of the others holds."""
    gone = [condition for condition, build in others if build is ABSENT]
    branches = [
        Branch(_and(condition, branch.condition), branch.node)
        for condition, build in others
        if build is not ABSENT
        for branch in merge(build, [])
    ]
    if isinstance(default, Optional):
        condition, default = default.condition, _plain(default.value)
        return (*branches, Branch(_and(_not(gone), condition), default))
    return (*branches, Branch(_not(gone), default))


def _additions(builds: Builds) -> Choice:
    """What only some builds have. Equal ones share a branch, so that either of their conditions will do."""
    merged: list[tuple[list[str], Any]] = []
    for condition, build in builds:
        same = next((conditions for conditions, each in merged if each == build), None)
        if same is None:
            merged.append(([condition], build))
        else:
            same.append(condition)
    return tuple(
        Branch(_and(_or(conditions), branch.condition), branch.node)
        for conditions, build in merged
        for branch in merge(build, [])
    )


def _plain(value: Any) -> TemplateNode:
    """The tree of a value that has no conditions in it."""
    [branch] = merge(value, [])
    return branch.node


def _fields(default: Mapping[str, Any], others: Builds) -> tuple[Field, ...]:
    keys = list(default)
    for _, build in others:
        keys += [key for key in build if key not in keys]
    return tuple(
        Field(key, merge(default.get(key, ABSENT), [(c, build.get(key, ABSENT)) for c, build in others]))
        for key in keys
    )


def _items(default: list[Any], others: Builds) -> tuple[Choice, ...]:
    """The default's items in their order, each with those that others insert after it."""
    slots = [_Slot(item) for item in default]
    first = _Slot(ABSENT)
    for condition, build in others:
        _align(first, slots, condition, build)
    conditions = [condition for condition, _ in others]
    choices = [choice for slot in [first, *slots] for choice in slot.choices(conditions)]
    return tuple(choices)


class _Slot:
    """An item of the default, with what the other builds have in its place, and right after it."""

    def __init__(self, default: Any) -> None:
        self.default = default
        self.others: dict[str, Any] = {}
        #: Items with the same key are one entry.
        self.inserted: list[list[tuple[str, Any]]] = []

    def insert(self, condition: str, items: list[Any]) -> None:
        """Note what a build has after the item, in the build's order."""
        merged: list[list[tuple[str, Any]]] = []
        for start, end, new in _aligned([_key(each[0][1]) for each in self.inserted], items):
            old = self.inserted[start:end]
            if _keys(new) == [_key(each[0][1]) for each in old]:
                merged += [[*each, (condition, item)] for each, item in zip(old, new, strict=True)]
            else:
                merged += [*old, *([(condition, item)] for item in new)]
        self.inserted = merged

    def choices(self, conditions: Sequence[str]) -> list[Choice]:
        own = [merge(self.default, [(c, self.others.get(c, ABSENT)) for c in conditions])]
        return [*(own if self.default is not ABSENT else []), *map(_additions, self.inserted)]


def _align(first: _Slot, slots: Sequence[_Slot], condition: str, build: list[Any]) -> None:
    """Note in each slot what the build has there."""
    keys = [_key(slot.default) for slot in slots]
    for start, end, items in _aligned(keys, build):
        if len(items) == end - start:  # the same items, or as many others in their place
            for slot, item in zip(slots[start:end], items, strict=True):
                slot.others[condition] = item
        else:
            (slots[end - 1] if end else first).insert(condition, items)


def _aligned(keys: Sequence[Hashable], items: list[Any]) -> Iterator[tuple[int, int, list[Any]]]:
    """Parts of the keys, from and to, in order, each with the items that correspond to it."""
    for _, start, end, from_, to in SequenceMatcher(None, keys, _keys(items), autojunk=False).get_opcodes():
        yield start, end, items[from_:to]


def _keys(items: Iterable[Any]) -> list[Hashable]:
    return [_key(item) for item in items]


def _key(item: Any) -> Hashable:
    """By what an item is known again in another build."""
    if isinstance(item, Mapping) and isinstance(item.get("name"), str):
        return ("name", item["name"])
    return json.dumps(item, sort_keys=True, default=repr)


def _not(conditions: Sequence[str]) -> str:
    return f"not {_paren(_or(conditions))}" if conditions else ""


def _or(conditions: Sequence[str]) -> str:
    return _join("or", conditions)


def _and(*conditions: str) -> str:
    return _join("and", conditions)


def _join(word: str, conditions: Sequence[str]) -> str:
    given = [each for each in dict.fromkeys(conditions) if each]
    return given[0] if len(given) == 1 else " ".join((word, *map(_paren, given))) if given else ""


def _paren(condition: str) -> str:
    return condition if " " not in condition else f"({condition})"


def edit(tree: Any, change: Callable[[Any], Any], path: Sequence[str]) -> Any:
    """A copy of JSON in which `change` was applied to what stands at the path; ABSENT where nothing does.

    In a list a word of the path is the item of that name; with dashes, the item after that flag; or a number.
    """
    if not path:
        return change(tree)
    key, rest = path[0], path[1:]
    if isinstance(tree, list):
        at = _place(tree, key)
        return [edit(item, change, rest) if place == at else item for place, item in enumerate(tree)]
    changed = edit(tree.get(key, ABSENT) if isinstance(tree, Mapping) else ABSENT, change, rest)
    if changed is ABSENT:
        return tree
    return {**(tree if isinstance(tree, Mapping) else {}), key: changed}


def _place(items: Sequence[Any], word: str) -> int:
    """-1 if there is no such item."""
    if word.isdigit():
        return int(word)
    if word.startswith("-"):
        return items.index(word) + 1 if word in items else -1
    named = (
        place for place, item in enumerate(items) if isinstance(item, Mapping) and item.get("name") == word
    )
    return next(named, -1)
