"""What the chosen Kubernetes version (VERSION) lacks, for tests that ask (docs/operating/versions.md)."""

from __future__ import annotations

import pytest

from localcluster.versions import chosen


def minor(version: str) -> int:
    """30 for 1.30."""
    return int(version.partition(".")[2])


#: kube-scheduler retries a waiting member when a node is added or changed; until 1.31 after five minutes.
RETRIES_FOR_NODES = minor(chosen()) >= minor("1.32")


def needs(*, held: bool, reason: str) -> pytest.MarkDecorator:
    """Skip the test on a version that lacks what it asks for. `make versions` shows the reason."""
    return pytest.mark.skipif(not held, reason=reason)
