"""A guard webhook that is missing for some namespaces: they are probed less and less, and no other waits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import pairwise

import pytest

from localcluster.cluster import LocalCluster
from queues.labels import PROBE_PREFIX
from tests.support.e2e.objects import is_stopped
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until

HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/sluice"
BINDS = "binds.sluice.dev"
#: More than the server has threads for guards.
MANY = 5
#: No scheduler asks us about such a pod: the guard alone keeps it from being bound.
BY_HAND = "by-hand"
#: Seconds between two tries of a namespace, once some have failed; there are ten probes in a try.
RARE, PROBES = 3.0, 10


@pytest.fixture
def sandboxes(module_cluster: LocalCluster) -> Iterator[list[Sandbox]]:
    """Namespaces. The guard's webhook is called for the last one only."""
    made = [Sandbox(module_cluster) for _ in range(MANY + 1)]
    yield made
    for each in made:
        each.close()


def test_others_are_acknowledged_and_probes_become_rarer(sandboxes: list[Sandbox]) -> None:
    """And the stop is acknowledged once the webhook is back."""
    *without, other = sandboxes
    first = without[0]
    queue = first.queue()
    elsewhere = other.queue()
    for sandbox in sandboxes:
        sandbox.pod(BY_HAND, elsewhere if sandbox is other else queue, schedulerName=BY_HAND).must(201)
    with guard_missing_in(first, {sandbox.namespace for sandbox in without}):
        first.patch_queue(queue, state="Suspended").must()
        until(lambda: all(map(_probes, without)), "the guard to be probed")
        other.suspend(elsewhere)
        until(lambda: all(map(_is_rarely_probed, without)), "the probes to become rare")
        assert not is_stopped(first.read_queue(queue))
    first.answered(queue)
    for sandbox in sandboxes:
        sandbox.bind(BY_HAND).must_refuse("is Suspended")


@contextmanager
def guard_missing_in(sandbox: Sandbox, namespaces: set[str]) -> Iterator[None]:
    """The webhook on binds does not select these."""
    hooks = sandbox.api.get(HOOKS).must().body["webhooks"]
    number = next(n for n, hook in enumerate(hooks) if hook["name"] == BINDS)
    selector = hooks[number]["namespaceSelector"]
    unlike = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": sorted(namespaces)}
    less = {"matchExpressions": [*selector["matchExpressions"], unlike]}
    _select(sandbox, number, less)
    try:
        yield
    finally:
        _select(sandbox, number, selector)


def _select(sandbox: Sandbox, number: int, selector: object) -> None:
    steps = [{"op": "replace", "path": f"/webhooks/{number}/namespaceSelector", "value": selector}]
    kind = "validatingwebhookconfiguration"
    sandbox.cluster.kubectl("patch", kind, "sluice", "--type=json", f"--patch={json.dumps(steps)}")


def _probes(sandbox: Sandbox) -> list[datetime]:
    """When its namespace was probed."""
    return [bind.received for bind in sandbox.binds() if bind.pod.startswith(PROBE_PREFIX)]


def _is_rarely_probed(sandbox: Sandbox) -> bool:
    """Whether both of the last two pauses between tries were long."""
    last = _probes(sandbox)[-2 * PROBES - 1 :]
    return sum(_seconds(a, b) > RARE for a, b in pairwise(last)) >= 2


def _seconds(earlier: datetime, later: datetime) -> float:
    return (later - earlier).total_seconds()
