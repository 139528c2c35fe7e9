"""`tests/support/skipping.py`: what cannot be had is said, and is no success in CI."""

from __future__ import annotations

from pathlib import Path

import pytest

from localcluster.exceptions import BuildFailed
from tests.support.skipping import built_or_skipped

SAID = "NO VCCTL, so this is not tested: go is not there"


def missing() -> Path:
    raise BuildFailed("go is not there")


def test_what_is_there_is_what_was_built() -> None:
    assert built_or_skipped("vcctl", lambda: "here") == "here"


def test_a_test_without_what_it_needs_is_skipped_and_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=SAID):
        built_or_skipped("vcctl", missing)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=SAID):
        built_or_skipped("vcctl", missing)
