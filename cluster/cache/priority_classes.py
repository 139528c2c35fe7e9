"""The values of PriorityClasses, while some gang names one (`PodGroupSpec.priority_class_name`).

Invariants
- Without such a gang nothing is kept, and no class is watched (`cluster.informers.informers`).
- A class has no value until the classes have been listed, and where it does not exist. It is absent only once
  they have been listed.
- `changed` is called with the names of those that have another value than before, or none any more. The value
  of a class cannot be edited: who changes it deletes the class and creates it again.

Threads: the reflector of classes writes, that of PodGroups calls `follow`; any thread may read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec

from cluster.objects import Metadata


class PriorityClass(msgspec.Struct, frozen=True, gc=False):
    metadata: Metadata
    value: int = 0


class PriorityClasses:
    """The event handler of the reflector of PriorityClasses."""

    def __init__(self, changed: Callable[[Collection[str]], object]) -> None:
        self._changed = changed
        self._is_needed = False
        self._is_listed = False
        #: By name: UID and value. Replaced by one assignment, and never changed.
        self._classes: dict[str, tuple[str, int]] = {}

    def follow(self, *, needed: bool) -> None:
        """Whether some gang names a class."""
        if needed is not self._is_needed:
            self._is_needed, self._is_listed = needed, False
            self._classes = {}

    def value(self, name: str) -> int | None:
        found = self._classes.get(name)
        return found[1] if found is not None else None

    def is_absent(self, name: str) -> bool:
        """Whether no class of this name exists, as far as is known."""
        is_listed = self._is_listed  # read before the classes, which are there by then
        return is_listed and name not in self._classes

    # The event handler

    def replace(self, objects: list[PriorityClass]) -> None:
        self._set({obj.metadata.name: (obj.metadata.uid, obj.value) for obj in objects})
        self._is_listed = self._is_needed

    def upsert(self, obj: PriorityClass) -> None:
        self._set({**self._classes, obj.metadata.name: (obj.metadata.uid, obj.value)})

    def remove(self, obj: PriorityClass) -> None:
        name = obj.metadata.name
        if self._classes.get(name, ("", 0))[0] == obj.metadata.uid:
            self._set({key: each for key, each in self._classes.items() if key != name})

    def _set(self, after: dict[str, tuple[str, int]]) -> None:
        before, self._classes = self._classes, after
        names = before.keys() | after.keys()
        changed = {name for name in names if before.get(name, (0, None))[1] != after.get(name, (0, None))[1]}
        if changed:
            self._changed(changed)
