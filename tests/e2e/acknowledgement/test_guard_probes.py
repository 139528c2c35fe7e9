"""A guard webhook that is missing for some namespaces: they are probed less and less, and no other waits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest

from localcluster.cluster import LocalCluster
from localcluster.ports import LOOPBACK
from queues.well_known import PROBE_PREFIX
from tests.support.e2e.objects import is_stopped
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until
from tests.support.faults.slow_webhook import SlowWebhook

pytestmark = pytest.mark.long

HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/sluice"
BINDS = "binds.sluice.dev"
#: More than the server has threads for guards.
MANY = 5
#: No scheduler asks us about such a pod: the guard alone keeps it from being bound.
BY_HAND = "by-hand"
#: Seconds between two tries of a namespace, once some have failed; there are ten probes in a try.
RARE, PROBES = 3.0, 10
#: Seconds; longer than each of the first four probes may take.
SLOW = 3.2

#: A webhook that is called for the ConfigMaps with this label: it shows that its configuration is in effect.
MARKED = "tests.sluice.dev/marked"
MARK = {
    "name": "mark.tests.sluice.dev",
    "clientConfig": {"url": f"https://{LOOPBACK}:1/"},
    "rules": [
        {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}
    ],
    "objectSelector": {"matchLabels": {MARKED: "yes"}},
    "failurePolicy": "Fail",
    "sideEffects": "None",
    "timeoutSeconds": 5,
    "admissionReviewVersions": ["v1"],
}

Step = dict[str, object]


@pytest.fixture
def sandboxes(served_cluster: LocalCluster) -> Iterator[list[Sandbox]]:
    """Namespaces. The guard's webhook is called for the last one only."""
    made = [Sandbox(served_cluster) for _ in range(MANY + 1)]
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


def test_a_stop_is_acknowledged_where_each_bind_takes_longer_than_the_first_probes(
    sandboxes: list[Sandbox], tmp_path: Path
) -> None:
    """A webhook that is not ours takes its time for each."""
    sandbox = sandboxes[0]
    queue = sandbox.queue()
    sandbox.pod(BY_HAND, queue, schedulerName=BY_HAND).must(201)
    with SlowWebhook(sandbox, tmp_path, seconds=SLOW, dry=True):
        sandbox.patch_queue(queue, state="Suspended").must()
        sandbox.answered(queue)
        sandbox.bind(BY_HAND).must_refuse("is Suspended")


@contextmanager
def guard_missing_in(sandbox: Sandbox, namespaces: set[str]) -> Iterator[None]:
    """The webhook on binds does not select these."""
    hooks = sandbox.api.get(HOOKS).must().body["webhooks"]
    number = next(n for n, hook in enumerate(hooks) if hook["name"] == BINDS)
    selector = hooks[number]["namespaceSelector"]
    unlike = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": sorted(namespaces)}
    less = {"matchExpressions": [*selector["matchExpressions"], unlike]}
    _patch(sandbox, _select(number, less), {"op": "add", "path": "/webhooks/-", "value": MARK})
    try:
        until(lambda: _is_in_effect(sandbox), "the configuration to be in effect")
        yield
    finally:
        _patch(sandbox, _select(number, selector), {"op": "remove", "path": f"/webhooks/{len(hooks)}"})


def _select(number: int, selector: object) -> Step:
    return {"op": "replace", "path": f"/webhooks/{number}/namespaceSelector", "value": selector}


def _patch(sandbox: Sandbox, *steps: Step) -> None:
    kind = "validatingwebhookconfiguration"
    sandbox.cluster.kubectl("patch", kind, "sluice", "--type=json", f"--patch={json.dumps(steps)}")


def _is_in_effect(sandbox: Sandbox) -> bool:
    """Whether the API server calls the webhook that came with the last patch, which nobody answers."""
    body = {"metadata": {"name": "mark", "labels": {MARKED: "yes"}}}
    return sandbox.api.create(f"{sandbox.home}/configmaps?dryRun=All", body).status == 500


def _probes(sandbox: Sandbox) -> list[datetime]:
    """When its namespace was probed."""
    return [bind.received for bind in sandbox.binds() if bind.pod.startswith(PROBE_PREFIX)]


def _is_rarely_probed(sandbox: Sandbox) -> bool:
    """Whether both of the last two pauses between tries were long."""
    last = _probes(sandbox)[-2 * PROBES - 1 :]
    return sum(_seconds(a, b) > RARE for a, b in pairwise(last)) >= 2


def _seconds(earlier: datetime, later: datetime) -> float:
    return (later - earlier).total_seconds()
