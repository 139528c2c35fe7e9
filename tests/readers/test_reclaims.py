"""The leader and `reclaim --dry-run` read the same of each pod that might go, and of what runs of each gang.

But for what the leader remembers, and for what is made by a workload that the plugin does not look up.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from kubectl_queue.access.client import ApiClient
from kubectl_queue.why.reclaim import read_pods
from queues.drain.disruption_budgets import BudgetIndex
from queues.metadata.keys import PREEMPTABLE
from queues.quota.giving_back import Borrowed
from queues.quota.started_gangs import StartedGang
from tests.support.examples import examples
from tests.support.http.wire_objects import GROUP, Wire, member, podgroup
from tests.support.quota.lending_api import LendingApi, LendingReplica
from tests.support.readers.listed_objects import ListedObjects
from tests.support.rules.cases import NOW

Read = tuple[list[Borrowed], dict[str, StartedGang]]
LEAVING = {"deletionTimestamp": "2030-01-01T12:00:10Z", "deletionGracePeriodSeconds": 30}
_MARKS = st.sampled_from(({}, {}, {}, {PREEMPTABLE: "false"}, {PREEMPTABLE: "true"}, {PREEMPTABLE: "never"}))
_GROUPS = st.builds(
    lambda name, namespace, of, least, tasks, annotations, labels: podgroup(
        name,
        namespace=namespace,
        queue=of,
        minMember=least,
        annotations=annotations,
        labels=labels,
        **({"minTaskMember": tasks} if tasks else {}),
    ),
    st.sampled_from(("g0", "g1")),
    st.sampled_from(("team", "team", "lab")),
    st.sampled_from(("other", "other", "team")),
    st.integers(0, 4),
    st.sampled_from(({}, {}, {"driver": 1, "rank": 1})),
    _MARKS,
    _MARKS,
)


@st.composite
def _pod(draw: Any, number: int) -> Wire:
    named: dict[str, str] = draw(
        st.sampled_from(({}, {GROUP: "g0"}, {GROUP: "g0"}, {GROUP: "g1"}, {GROUP: "missing"}))
    )
    tasks: dict[str, str] = draw(st.sampled_from(({}, {"volcano.sh/task-spec": "driver"})))
    name, node = f"p{number}", draw(st.sampled_from(("one", "one", "one", "")))
    is_released, is_given_up = draw(st.booleans()), draw(st.integers(0, 3)) == 0
    labels = {**draw(_MARKS), **({"sluice.dev/released": f"uid-{name}"} if is_released and not node else {})}
    gates = () if node or is_released or is_given_up else ("sluice.dev/quota",)
    given_up = {"sluice.dev/untaken": "volcano"} if is_given_up else {}
    made = member(
        name,
        draw(st.sampled_from(("other", "other", "other", "team"))),
        namespace=draw(st.sampled_from(("team", "team", "team", "lab"))),
        annotations={**named, **draw(_MARKS), **tasks, **given_up},
        labels=labels,
        gates=gates,
        status={"phase": draw(st.sampled_from(("Running",) * 5 + ("Succeeded", "Failed")))},
        resources={"requests": {"cpu": draw(st.sampled_from(("1", "500m")))}},
        nodeName=node,
        priority=draw(st.sampled_from((0, 5, 2_000_000_000))),
    )
    if draw(st.integers(0, 7)) == 0:
        made["metadata"].update(LEAVING)
    return made


@st.composite
def clusters(draw: Any) -> list[Wire]:
    groups = {(each["metadata"]["namespace"], each["metadata"]["name"]): each for each in draw(_SOME)}
    for (namespace, name), group in groups.items():
        group["metadata"]["uid"] = f"uid-{namespace}-{name}"
    return [*groups.values(), *(draw(_pod(number)) for number in range(draw(st.integers(1, 8))))]


_SOME = st.lists(_GROUPS, max_size=4)


def by_leader(objects: Iterable[Wire]) -> Read:
    leader = LendingReplica(LendingApi())
    leader.server.has(*objects)
    leader.pass_time(10_000)  # nothing is as young as what a former leader may have let in again
    leader.go_on(steps=1)
    give_backs, members = leader.releases._give_backs, leader.server.store.members
    found = [pod for queue in members.queues() for pod in give_backs._candidates(queue, now=0.0)]
    gangs = {uid: give_backs._started_gang(uid) for uid in {pod.gang for pod in found if pod.gang}}
    return _sorted(found), {uid: gang for uid, gang in gangs.items() if gang is not None}


def by_plugin(objects: Iterable[Wire]) -> Read:
    leader = LendingReplica(LendingApi())
    api: Any = ListedObjects(objects, page=3)
    client = ApiClient(api, warn=lambda _text: None)
    tree = leader.server.store.snapshot.tree
    read = read_pods(client, tree, BudgetIndex(()), asking="team", now=NOW, warn=lambda _text: None)
    named = {pod.gang for pod in read.running if pod.gang}
    return _sorted(read.running), {uid: gang for uid, gang in read.gangs.items() if uid in named}


def _sorted(pods: Iterable[Borrowed]) -> list[Borrowed]:
    return sorted(pods, key=lambda pod: pod.uid)


@examples(150)
@given(clusters())
@example([member("p0", "other", annotations={"sluice.dev/untaken": "volcano"})])
def test_both_readers_of_random_objects_read_the_same_victims_and_gangs(objects: list[Wire]) -> None:
    assert by_plugin(objects) == by_leader(objects)
