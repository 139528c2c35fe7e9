"""The chart of this checkout, written once, and the real Helm."""

from __future__ import annotations

from pathlib import Path

import pytest

from release.chart.chart import ROOT, write_chart
from tests.support.helm import Helm, built_helm, built_kubectl


@pytest.fixture(scope="package")
def kubectl() -> Path:
    return built_kubectl()


@pytest.fixture(scope="package")
def chart(kubectl: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the chart, which names the image of `make image`. Leave it as it is."""
    return write_chart(ROOT, kubectl, tmp_path_factory.mktemp("chart"), repository="sluice")


@pytest.fixture(scope="package")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Without a cluster."""
    return Helm(built_helm(), tmp_path_factory.mktemp("helm"))
