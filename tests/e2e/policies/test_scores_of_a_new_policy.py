"""Pods that are made right after their policy wait until the replicas have read the nodes that it scores.

Two replicas; their lists of nodes are kept for as long as a test wants.
"""

from __future__ import annotations

import pytest

from extender.prioritizing import NOT_READ_FOR_SCORES
from tests.support.e2e.fleet import Fleet
from tests.support.e2e.policies import Policies, patient, policy
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until
from tests.support.faults.intercepting import Asked

pytestmark = pytest.mark.long


def lists_nodes(asked: Asked) -> bool:
    return asked.lists and asked.path == "/api/v1/nodes"


def test_they_wait_and_go_to_one_node(own_sandbox: Sandbox, pair: Fleet) -> None:
    own_sandbox.cluster.configure_scheduler(patient)
    ways = pair.interceptors.values()
    kept = [(way, way.keep(lists_nodes, answered=False)) for way in ways]
    Policies(own_sandbox).write(packed=policy("allocate", "binpack"))
    queue = own_sandbox.queue("packed", schedulerPolicy="packed")
    for _, request in kept:
        until(request.reached.is_set, "the list of nodes")
    names = own_sandbox.pods("first", 6, queue, cpu="100m")
    for name in names:
        own_sandbox.reason_on(name, NOT_READ_FOR_SCORES)
    assert not own_sandbox.bound(names)
    for way, request in kept:
        way.free(request)
    own_sandbox.all_bound(names)
    pods = own_sandbox.read_pods()
    assert len({pods[name]["spec"]["nodeName"] for name in names}) == 1
