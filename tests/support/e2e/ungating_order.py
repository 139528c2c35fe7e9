"""In which order the gates of parked pods are removed, by the API server's order of all writes.

Of what follows a removed gate the order is kube-scheduler's and the API server's: each bind is sent by a
goroutine of its own, and they are answered in any order.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing

from tests.support.e2e.api_requests import Object, watched
from tests.support.e2e.objects import GATE, condition, gates, on_a_node
from tests.support.e2e.sandbox import Sandbox

#: Threads that remove gates, each at its own pace.
WRITERS = 4


def pods_version(sandbox: Sandbox) -> str:
    """The version of the list of pods, from which `assert_ungated_in_order` watches."""
    return str(sandbox.api.get(sandbox.pods_path).must().body["metadata"]["resourceVersion"])


def assert_ungated_in_order(sandbox: Sandbox, since: str, *groups: Collection[str]) -> None:
    """Returns once all of these pods are bound: the gates of the first group were removed first, then those
    of the next. Filter refused none of them, so none lost its turn with kube-scheduler.

    A writer takes the first pod that waits. So while it removes the gate of a pod, all pods of former groups
    have been taken, and each whose gate is still there occupies another writer, however slow that one is.
    """
    group_of = {pod: number for number, group in enumerate(groups) for pod in group}
    ungated, refused, bound = list[str](), set[str](), set[str]()
    with closing(watched(sandbox.cluster, sandbox.pods_path, since=since)) as states:
        for pod in states:
            name = pod["metadata"]["name"]
            if name not in group_of:
                continue
            if GATE not in gates(pod) and name not in ungated:
                ungated.append(name)
            if _is_refused(pod):
                refused.add(name)
            if on_a_node(pod):
                bound.add(name)
            if len(bound) == len(group_of):
                break
    assert bound == group_of.keys(), f"not bound: {group_of.keys() - bound}"
    assert refused == set()
    for place, name in enumerate(ungated):
        later = [other for other in ungated[place + 1 :] if group_of[other] < group_of[name]]
        assert len(later) < WRITERS, f"{name} was ungated before {later}: {ungated}"


def _is_refused(pod: Object) -> bool:
    """Whether kube-scheduler tried it, and its queue was given as the reason why it found no node."""
    scheduled = condition(pod, "PodScheduled")
    return scheduled.get("reason") == "Unschedulable" and 'queue "' in scheduled.get("message", "")
