"""YAML read by libyaml: Python alone takes ten times as long, also while tests are collected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml


def load(text: str | bytes) -> Any:
    return yaml.load(text, Loader=yaml.CSafeLoader)


def load_all(text: str | bytes) -> Iterator[Any]:
    return iter(yaml.load_all(text, Loader=yaml.CSafeLoader))
