"""What the tests of scheduling policies share: the ConfigMap."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.e2e.policies import Policies
from tests.support.e2e.sandbox import Sandbox


@pytest.fixture
def policies(sandbox: Sandbox) -> Iterator[Policies]:
    """The cluster's policies; there are none before and after."""
    made = Policies(sandbox)
    yield made
    made.remove()
