"""Where things are in the tree."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]

#: What a user gets, and the local control plane: packages that the architecture page describes.
PACKAGES = (
    "queues",
    "cluster",
    "extender",
    "webhooks",
    "controller",
    "certs",
    "server",
    "kubectl_queue",
    "localcluster",
)
