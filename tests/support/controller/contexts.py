"""A context of which a test gives the parts that the code under test uses; nothing else may be touched."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from cluster.waiting_writes import WriteKey
from controller.context import ControllerContext
from controller.requests import RequestTables
from controller.workqueue import WorkQueue


class Unused:
    """Stands for a part that the test does not give."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{self._name}.{name} is used, and the test did not give {self._name}")


def context_with(**parts: Any) -> ControllerContext:
    """`parts`: fields of the context. It has a work queue and requests of its own unless they are given."""
    parts.setdefault("work_queue", WorkQueue(time.monotonic))
    parts.setdefault("requests", RequestTables())
    unused: dict[str, Any] = {
        name: Unused(name) for name in ControllerContext.__struct_fields__ if name not in parts
    }
    return ControllerContext(**unused, **parts)


class ImmediateWrites:
    """A write queue that sends each write at once."""

    def __init__(self) -> None:
        self.keys: list[WriteKey] = []

    def submit(
        self,
        key: WriteKey,
        write: Callable[[], object],
        *,
        done: Callable[[bool], object] | None = None,
        **_: Any,
    ) -> bool:
        self.keys.append(key)
        write()
        if done is not None:
            done(True)
        return True

    def __len__(self) -> int:
        return 0
