"""What a test needs and a machine may lack: a program of another project, real nodes, the history."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NoReturn, TypeVar

import pytest

from localcluster.exceptions import BuildFailed

T = TypeVar("T")


def skip_unless_ci(reason: str) -> NoReturn:
    """Skip the test; in CI (`CI=true`) it fails, so that nobody takes a skip for a success."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def built_or_skipped(name: str, ensure: Callable[[], T]) -> T:
    """What `ensure` finds or builds; without it the test is skipped, as `skip_unless_ci` has it."""
    try:
        return ensure()
    except BuildFailed as exc:
        skip_unless_ci(f"NO {name.upper()}, so this is not tested: {exc}")
