"""Who stands in line, as the plugin reads it: what the leader has in line, in its order."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cluster.cache.priority_classes import PriorityClass
from cluster.objects import Metadata
from controller.quota.releases import QuotaReleases
from kubectl_queue.why.line import read_claimants
from kubectl_queue.why.podgroups import read_podgroups
from queues.queue import Queue
from queues.tree import Tree
from tests.support.http.wire_objects import queue
from tests.support.plugin.harness import StoredObjects
from tests.support.quota.histories import ApiServer, Replica
from tests.support.rules.cases import NOW

VALUES = {"low": -5, "high": 5}
TREE = Tree({"team": Queue(name="team", capability=(("cpu", 2),))})
PODGROUPS = "/apis/scheduling.volcano.sh/v1beta1/podgroups"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"

#: Of each PodGroup: its minimum, its class (`lost` does not exist), and whether it comes after its pods.
GROUPS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["", "low", "high", "lost"])), max_size=3)
#: Of each pod: its PodGroup, if there are so many, and its priority.
PODS = st.lists(st.tuples(st.integers(0, 4), st.integers(-1, 1)), max_size=8)


def by_rank(leader: Replica) -> list[str]:
    index = leader.releases._waiting._gated
    found = filter(None, map(index.get, index.in_queue("team")))
    return [each.uid for each in sorted(found, key=lambda each: each.rank)]


@given(groups=GROUPS, pods=PODS)
def test_it_is_what_the_leader_has_in_line_in_its_order(
    groups: list[tuple[int, str]], pods: list[tuple[int, int]]
) -> None:
    """In a queue that is full."""
    api = ApiServer(random.Random(0))
    api.is_rough = False
    leader = Replica(api, QuotaReleases)
    leader.server.has(queue("team", parent="root", capability={"cpu": "2"}, version=11, generation=11))
    classes = [PriorityClass(metadata=Metadata(name=name, uid=name), value=VALUES[name]) for name in VALUES]
    leader.server.store.priority_classes.follow(needed=True)
    leader.server.store.priority_classes.replace(classes)
    api.create("first", "team", 2, priority=9)
    step(leader)
    for number, (least, named) in enumerate(groups):
        api.set_group(f"group-{number}", "team", least, **({"priorityClassName": named} if named else {}))
    for number, (group, priority) in enumerate(pods):
        api.create(f"pod-{number}", "team", 1, priority=priority, group=f"group-{group}" if group < 4 else "")
    step(leader)
    stored = {
        PODGROUPS: {"items": list(api.groups.values())},
        CLASSES: {"items": [{"metadata": {"name": name}, "value": value} for name, value in VALUES.items()]},
    }
    client: Any = StoredObjects(stored)
    listed, read = list(api.pods.values()), read_podgroups(client)
    found = read_claimants(client, listed, "team", read, tree=TREE, now=NOW, others=list)
    assert [each.uid for each in sorted(found.pods, key=lambda each: each.rank)] == by_rank(leader)


def step(leader: Replica) -> None:
    for _ in range(4):
        leader.hear(999)
        leader.step()
        leader.send_all()
