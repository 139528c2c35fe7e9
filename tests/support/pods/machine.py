"""Machines where real nodes cannot run."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def skip_unless_ci(reason: str) -> NoReturn:
    """Skip the test; in CI (`CI=true`) it fails, so that nobody takes a skip for a success."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
