"""The source of other projects that tables are compared with, in pinned versions."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from localcluster import build, go_modules
from tests.support.skipping import built_or_skipped


@cache
def go_module(name: str) -> Path:
    """The folder of a module. Where it cannot be downloaded the test is skipped, and fails in CI."""
    return built_or_skipped(name, lambda: go_modules.source(name, go=build.go(say=print)))
