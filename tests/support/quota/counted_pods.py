"""The running pods of a gang, which count how often somebody goes through all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

#: Of a gang that is counted once: by its pods, and by their tasks.
ONCE = 2


class CountedPods(dict[str, str]):
    """The task of each pod by its UID. `times`: how often it was gone through."""

    def __init__(self, tasks: dict[str, str]) -> None:
        super().__init__(tasks)
        self.times = 0

    def __iter__(self) -> Iterator[str]:
        self.times += 1
        return super().__iter__()

    def items(self) -> Any:
        self.times += 1
        return super().items()
