"""Where things are in the tree."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
