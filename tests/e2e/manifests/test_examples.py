"""The examples are taken by a real API server as they stand."""

from __future__ import annotations

import pytest

from localcluster.cluster import LocalCluster
from tests.support.manifests.bare_api import QUEUES, Api
from tests.support.paths import ROOT

pytestmark = pytest.mark.cluster

EXAMPLES = ROOT / "manifests" / "examples"


def test_the_examples_are_accepted(bare: LocalCluster, api: Api) -> None:
    bare.kubectl("apply", "-k", str(EXAMPLES))
    bare.kubectl("apply", "-f", str(EXAMPLES / "policies"))  # by itself: it is not among the others
    bare.kubectl("apply", "-f", str(EXAMPLES / "policies" / "work"))
    names = {each["metadata"]["name"] for each in api.get(QUEUES).body["items"]}
    bare.kubectl("delete", "-f", str(EXAMPLES / "policies" / "work"), "--wait=false")
    bare.kubectl("delete", "-f", str(EXAMPLES / "policies"), "--wait=false")
    bare.kubectl("delete", "-k", str(EXAMPLES), "--wait=false")
    assert {"packed", "research", "research-training", "overnight", "maintenance", "retired"} <= names
