"""Modules that tables are compared with: the pinned ones, or the error says why not."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from localcluster import go_modules, versions
from localcluster.exceptions import BuildFailed
from localcluster.go_modules import SOURCES
from tests.support.paths import ROOT


def go(folder: Path, **answer: str) -> str:
    """A program that answers as `go mod download -json` does."""
    path = folder / "go"
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(answer)}\nEND\n")
    path.chmod(0o755)
    return str(path)


def test_the_source_is_the_folder_of_the_pinned_module(tmp_path: Path) -> None:
    pinned = go(tmp_path, Dir="/cache/apis", Sum=SOURCES["volcano.sh/apis"].digest)
    assert go_modules.source("volcano.sh/apis", go=pinned) == Path("/cache/apis")


def test_another_module_than_the_pinned_one_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BuildFailed, match="is not the pinned one: its digest is h1:other"):
        go_modules.source("volcano.sh/apis", go=go(tmp_path, Dir="/cache/apis", Sum="h1:other"))


def test_a_module_that_cannot_be_downloaded_is_an_error_with_the_words_of_go(tmp_path: Path) -> None:
    with pytest.raises(BuildFailed, match=r"apis@v\S+ cannot be downloaded: no network"):
        go_modules.source("volcano.sh/apis", go=go(tmp_path, Error="no network"))


def test_kubernetes_is_that_of_the_newest_control_plane() -> None:
    pin = SOURCES[versions.MODULE]
    assert pin.version == versions.RELEASES[versions.NEWEST]
    line = f"{versions.MODULE} {pin.version} {pin.digest}"
    assert line in (ROOT / "localcluster" / "go.sum").read_text().split(os.linesep)
