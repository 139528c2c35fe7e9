"""A member that names its node keeps to it by its affinity: the table of `webhooks.pods.pod_patch`."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from cluster.coordination.replica_report import stopped_queues_with_passes
from queues.node_groups import REQUIRED
from tests.support.http.asking import Server
from tests.support.http.wire_objects import (
    NAMED,
    pod,
    queue,
)
from webhooks.pods.pod_patch import pin_to_node

Affinity = dict[str, Any]

FIELD = {"key": "metadata.name", "operator": "In", "values": ["node-1"]}
NODE = {"matchFields": [FIELD]}
LABEL = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
OTHER = {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["node-2"]}]}
BOTH = {"matchFields": [*OTHER["matchFields"], FIELD]}
PREFERRED = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": LABEL}]}
ALONE = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [NODE]}}}


def required(*terms: Any) -> Affinity:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, ALONE),
        ({}, ALONE),
        ({"nodeAffinity": None}, ALONE),
        ({"nodeAffinity": {REQUIRED: None}}, ALONE),
        ({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": None}}}, ALONE),
        (required(), ALONE),
        (required(LABEL), required({**LABEL, **NODE})),
        (
            required(LABEL, OTHER),
            required({**LABEL, **NODE}, {"matchFields": [*OTHER["matchFields"], FIELD]}),
        ),
        (required({}, LABEL), required({**LABEL, **NODE})),
        (required({}), required({})),
        (required({"matchFields": None}), required(NODE)),
        ({"nodeAffinity": PREFERRED}, {"nodeAffinity": {**PREFERRED, **ALONE["nodeAffinity"]}}),
        ({"podAffinity": {"x": 1}}, {"podAffinity": {"x": 1}, **ALONE}),
    ],
    ids=[
        "none",
        "empty",
        "no node affinity",
        "none required",
        "no terms",
        "an empty list of terms",
        "one term",
        "two terms",
        "an empty term and another",
        "an empty term alone",
        "a term without fields",
        "one that is preferred stays",
        "one of pods stays",
    ],
)
def test_the_affinity_selects_exactly_the_named_node(before: Affinity | None, after: Affinity) -> None:
    """Whatever it asked for before, it still asks for; what it is given is not changed."""
    given = copy.deepcopy(before)
    assert pin_to_node(given, "node-1") == after
    assert given == before


@pytest.mark.parametrize("hostile", ["text", 7, ["a"], {"nodeAffinity": "text"}, required("text")])
def test_what_no_api_server_would_send_breaks_nothing(hostile: Any) -> None:
    """The pod is on this node or nowhere."""
    terms = pin_to_node(hostile, "node-1")["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert terms == [NODE]


def test_a_member_is_admitted_with_affinity_in_the_place_of_its_nodes_name() -> None:
    """And leaves nothing open that a stop would wait for, should validation refuse it."""
    server = Server().has(queue("research"))
    answer = server.ask("/mutate/pods", pod(annotations={NAMED: "research"}, nodeName="node-1"))
    assert answer.allowed
    assert {"op": "remove", "path": "/spec/nodeName"} in answer.patch
    assert {"op": "add", "path": "/spec/affinity", "value": ALONE} in answer.patch
    assert len(server.store.bind_passes) == 0
    assert stopped_queues_with_passes(server.store) == ()


def test_a_pod_that_is_no_member_keeps_its_nodes_name() -> None:
    answer = Server().ask("/mutate/pods", pod(nodeName="node-1"))
    assert (answer.allowed, answer.patch) == (True, [])
