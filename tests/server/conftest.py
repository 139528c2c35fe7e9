"""A worker for a whole file of tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.http.served_worker import (
    Served,
    served,
    write_certificate,
)

LIMITS: dict[str, Any] = {"body_bytes": 100_000, "header_bytes": 8192, "linger_timeout": 0.5}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def server(certificate: tuple[Path, Path]) -> Iterator[Served]:
    with served(certificate, **LIMITS) as running:
        yield running
