"""The scheduling policies of the rows, and the ConfigMap that holds them."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.bench import Bench

NAMESPACE, NAME = "volcano-system", "volcano-scheduler-configmap"

BINPACK = """actions: "allocate, backfill"
tiers:
- plugins:
  - name: binpack
"""
#: Least requested and balanced resources, each with weight 1, and nothing else.
NODEORDER = """actions: "allocate, backfill"
tiers:
- plugins:
  - name: nodeorder
    arguments:
      nodeaffinity.weight: 0
      podaffinity.weight: 0
      tainttoleration.weight: 0
      imagelocality.weight: 0
      podtopologyspread.weight: 0
"""
SCORELESS = 'actions: "allocate, backfill"\ntiers: [{}]\n'


def write_policies(bench: Bench, texts: Mapping[str, str]) -> None:
    """The ConfigMap holds these, by key, and no others."""
    bench.namespace(NAMESPACE)
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": dict(texts)}
    if bench.read(f"{path}/{NAME}") is None:
        bench.must("POST", path, body)
    else:
        bench.must("PUT", f"{path}/{NAME}", body)
