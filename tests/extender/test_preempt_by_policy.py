"""`POST /extender/preempt`: whom the scheduling policy of a pod lets it evict."""

from __future__ import annotations

from typing import Any

from cluster.inflight.victims import SECONDS
from queues.metadata.keys import PREEMPTABLE
from tests.support.cases import each_case
from tests.support.cluster.recounting import read_pod
from tests.support.http.asking import Server, system_pod
from tests.support.http.wire_objects import GROUP, Wire, member, pod, podgroup, policies, queue

ALL = "allocate, backfill, preempt, reclaim"
CORE: Wire = {"requests": {"cpu": "1"}}
STRAY, DNS = pod("stray"), pod("dns", namespace="kube-system")
CONFORMANCE = "tiers: [{plugins: [{name: conformance}, {name: priority}]}]"


def policy(actions: str, plugins: str = "tiers: [{}]") -> str:
    return f"actions: {actions}\n{plugins}"


def bound(name: str, queue: str, **more: Any) -> Wire:
    return member(name, queue, **{"nodeName": f"on-{name}", "resources": CORE, **more})


def meta(*names: str) -> dict[str, Any]:
    return {"Pods": [{"UID": f"uid-{name}"} for name in names], "NumPDBViolations": 0}


class Case:
    """A queue `own` with the policy that is tried, and `team` that uses four cores."""

    def __init__(self, actions: str = ALL, plugins: str = "tiers: [{}]", **team: Any) -> None:
        self.server = Server().has(
            queue("root", parent=""),
            queue("own", schedulerPolicy="tried", deserved={"cpu": "9"}),
            queue("team", **team),
            policies(tried=policy(actions, plugins)),
            *(bound(f"v-{number}", "team") for number in range(4)),
            bound("sibling", "own"),
        )
        self.store = self.server.store
        self.asking = member("high", "own", resources=CORE, priority=10)
        self.list_pods(STRAY, DNS)

    def list_pods(self, *others: Wire) -> None:
        """A list of the pods that are no members has come."""
        self.store.system_pods.replace([system_pod(read_pod(one)) for one in others])

    def ask_as(self, asking: Wire) -> None:
        self.asking = asking
        self.server.has(asking)

    def nodes(self, *victims: str, name: str = "high", **sent: Any) -> list[str]:
        """The nodes that are left. Each of `victims` is the names of the victims on one node."""
        asking = self.asking if name == "high" else {**member(name, "own", resources=CORE, priority=10)}
        body = sent or {"NodeNameToMetaVictims": {f"on-{one}": meta(*one.split()) for one in victims}}
        reply = self.server.post("/extender/preempt", {"Pod": asking, **body})
        assert reply.status_code == 200, reply.text
        left = reply.get_json()["NodeNameToMetaVictims"]
        assert None not in left.values()
        return [node.removeprefix("on-") for node in left]


@each_case(
    ("actions", "left"),
    [
        (ALL, ["v-1", "sibling", "stray"]),
        ("allocate, preempt", ["sibling", "stray"]),
        ("allocate, reclaim", ["v-1", "stray"]),
        ("allocate", ["stray"]),
        ("backfill, preempt, reclaim", []),  # filter would refuse it wherever room is made
    ],
)
def test_the_actions_say_which_nodes_are_left(actions: str, left: list[str]) -> None:
    assert Case(actions).nodes("v-1", "sibling", "stray") == left


def test_a_node_with_one_denied_victim_is_no_candidate() -> None:
    case = Case("allocate, preempt")
    assert case.nodes("sibling v-1", "sibling stray") == ["sibling stray"]


@each_case(
    ("team", "left"),
    [
        ({}, ["v-0 v-1 v-2 v-3", "v-0"]),
        ({"reclaimable": False}, []),
        ({"priority": 1}, []),
        ({"priority": -1}, ["v-0 v-1 v-2 v-3", "v-0"]),
        ({"deserved": {"cpu": "4"}}, []),
        ({"deserved": {"cpu": "3"}}, ["v-0"]),
        ({"guarantee": {"resource": {"cpu": "3"}}}, ["v-0"]),
        ({"guarantee": {"resource": {"cpu": "4"}}}, []),
        ({"deserved": {"cpu": "no amount"}, "guarantee": 7, "priority": "high"}, ["v-0 v-1 v-2 v-3", "v-0"]),
    ],
)
def test_another_queue_lends_what_it_does_not_deserve(team: dict[str, Any], left: list[str]) -> None:
    assert Case(**team).nodes("v-0 v-1 v-2 v-3", "v-0") == left


def test_a_queue_between_keeps_its_guarantee_with_all_below_it() -> None:
    case = Case(parent="labs")
    case.server.has(
        queue("labs", guarantee={"resource": {"cpu": "5"}}),
        queue("other", parent="labs"),
        bound("o-1", "other"),
        bound("o-2", "other"),
    )
    assert case.nodes("v-0", "v-0 v-1", "v-0 o-1") == ["v-0"]


def test_a_quota_that_changes_counts_at_once() -> None:
    case = Case()
    case.server.has(queue("team", version=2, generation=2, deserved={"cpu": "4"}))
    assert case.nodes("v-0") == []
    case.server.lacks(queue("team", version=3))
    assert "team" not in case.store.queue_cache.lending


def test_pods_that_leave_are_not_counted_as_used() -> None:
    case = Case(deserved={"cpu": "3"})
    gone = bound("v-3", "team", version=2)
    gone["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    case.server.has(gone)
    assert case.nodes("v-0") == []


def test_without_a_policy_all_victims_may_go() -> None:
    case = Case("allocate")
    case.server.lacks(policies())
    assert case.nodes("v-0", "sibling", "dns") == ["v-0", "sibling", "dns"]
    case.server.has(policies(another=policy("allocate")))
    assert case.nodes("v-0", "sibling", "dns") == ["v-0", "sibling", "dns"]


def test_the_jobs_own_policy_counts() -> None:
    case = Case("allocate")
    case.server.has(policies(tried=policy("allocate"), mine=policy(ALL)))
    annotations = {"volcano.sh/scheduler-policy": "mine"}
    case.ask_as(member("high", "own", version=2, resources=CORE, annotations=annotations))
    assert case.nodes("v-0") == ["v-0"]


# Pods of no queue, and system-critical ones


def test_conformance_protects_pods_of_kube_system_and_no_other_pod_of_no_queue() -> None:
    assert Case(ALL, CONFORMANCE).nodes("stray", "dns") == ["stray"]
    assert Case(ALL).nodes("stray", "dns") == ["stray", "dns"]


def test_conformance_protects_critical_pods_wherever_they_are() -> None:
    case = Case(ALL, CONFORMANCE)
    case.ask_as(member("high", "own", version=2, resources=CORE, priority=2_000_001_000))
    case.server.has(
        bound("core", "team", priorityClassName="system-cluster-critical"),
        bound("v-0", "team", version=2, priority=2_000_000_000),
    )
    case.server.has(pod("agent", priority=2_000_000_000))
    assert case.nodes("agent", "core", "v-0", "v-1") == ["v-1"]


def test_until_the_pods_are_listed_again_every_pod_of_no_queue_is_protected() -> None:
    case = Case(ALL)
    case.server.has(policies(tried=policy(ALL, CONFORMANCE)))
    assert case.nodes("stray", "v-0") == ["v-0"]
    case.server.has(DNS, STRAY)
    assert case.nodes("stray", "v-0") == ["v-0"]
    case.list_pods(DNS, STRAY)
    assert case.nodes("stray", "dns", "v-0") == ["stray", "v-0"]


def test_a_system_pod_that_is_gone_is_forgotten() -> None:
    case = Case(ALL, CONFORMANCE)
    assert case.store.system_pods.is_protected("uid-dns")
    case.server.lacks(DNS)
    assert case.store.system_pods.is_protected("uid-dns"), "it may have got its label"
    case.server.lacks({**DNS, "metadata": {**DNS["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}})
    assert not case.store.system_pods.is_protected("uid-dns")


def test_plugin_priority_gates_reclaim_only_where_the_policy_says_so() -> None:
    for switch, left in (("", ["v-0", "v-1"]), (", enableReclaimable: true", ["v-1"])):
        case = Case(ALL, f"tiers: [{{plugins: [{{name: priority{switch}}}]}}]")
        case.server.has(
            bound("v-0", "team", version=2, priority=10), bound("v-1", "team", version=2, priority=9)
        )
        assert case.nodes("v-0", "v-1") == left


# Gangs, and what says that it is no victim


def gang(*names: str, least: int, of: str = "team", **spec: Any) -> list[Wire]:
    annotations = {GROUP: "ring"}
    group = podgroup("ring", queue=of, minMember=least, **spec)
    return [group, *(bound(name, of, version=2, annotations=annotations) for name in names)]


@each_case(
    ("least", "victims", "goes"),
    [
        (2, "v-0", True),
        (2, "v-0 v-1", False),
        (2, "v-0 v-1 v-2", True),
        (3, "v-0", False),
        (3, "v-0 v-1 v-2", True),
        (3, "v-3", True),
        (3, "v-0 v-1 v-3", False),
        (5, "v-0", False),
        (1, "v-0 v-1", True),
    ],
)
def test_no_gang_is_left_below_its_minimum(least: int, victims: str, *, goes: bool) -> None:
    for of in ("team", "own"):
        case = Case()
        group, *pods = gang("v-0", "v-1", "v-2", least=least, of=of)
        case.server.has(group, *pods)
        assert (case.nodes(victims) == [victims]) is goes, of


def test_each_task_of_a_gang_keeps_its_minimum() -> None:
    case = Case()
    tasks = {"driver": 1, "rank": 1}
    group, *pods = gang("v-0", "v-1", "v-2", least=2, minTaskMember=tasks)
    for one, task in zip(pods, ("driver", "rank", "rank"), strict=True):
        one["metadata"]["annotations"]["volcano.sh/task-spec"] = task
    case.server.has(group, *pods)
    assert case.nodes("v-0", "v-1", "v-0 v-1 v-2") == ["v-1", "v-0 v-1 v-2"]


def test_pods_that_ask_at_once_leave_a_gang_its_minimum_together() -> None:
    """Of another queue and of their own."""
    for of in ("team", "own"):
        case = Case()
        case.server.has(*gang("v-0", "v-1", "v-2", least=2, of=of))
        assert case.nodes("v-0", "v-1") == ["v-0", "v-1"]
        assert case.nodes("v-2", name="second") == []
        assert case.nodes("v-0 v-1 v-2", name="third") == ["v-0 v-1 v-2"]
        case.server.clock.seconds += SECONDS
        assert case.nodes("v-2", name="second") == ["v-2"]


@each_case(
    ("of_pod", "of_group", "goes"),
    [
        ({}, {}, True),
        ({"annotations": {PREEMPTABLE: "false"}}, {}, False),
        ({"labels": {PREEMPTABLE: "false"}}, {}, False),
        ({"annotations": {PREEMPTABLE: "true"}, "labels": {PREEMPTABLE: "false"}}, {}, True),
        ({"annotations": {PREEMPTABLE: "no"}, "labels": {PREEMPTABLE: "true"}}, {}, False),
        ({}, {"annotations": {PREEMPTABLE: "false"}}, False),
        ({}, {"labels": {PREEMPTABLE: "0"}}, False),
        ({"labels": {PREEMPTABLE: "T"}}, {"annotations": {PREEMPTABLE: "false"}}, True),
    ],
)
def test_what_says_that_it_is_not_preemptable_is_no_victim(
    of_pod: dict[str, Any], of_group: dict[str, Any], *, goes: bool
) -> None:
    case = Case()
    annotations = {**of_pod.get("annotations", {}), GROUP: "ring"}
    more = {**of_pod, "annotations": annotations}
    group = podgroup("ring", queue="team", minMember=1)
    group["metadata"].update(of_group)
    case.server.has(group, bound("v-0", "team", version=2, **more))
    assert (case.nodes("v-0") == ["v-0"]) is goes


def test_of_whole_pods_everything_is_known() -> None:
    case = Case(ALL, CONFORMANCE)
    victims = {
        "on-dns": {"Pods": [pod("dns-2", namespace="kube-system")], "NumPDBViolations": 0},
        "on-stray": {"Pods": [pod("stray-2")], "NumPDBViolations": 0},
        "on-v-0": {"Pods": [bound("v-0", "team")], "NumPDBViolations": 0},
        "on-agent": {"Pods": [pod("agent", priorityClassName="system-node-critical")]},
    }
    assert case.nodes(NodeNameToVictims=victims) == ["stray", "v-0"]


# Several pods at once


def test_pods_that_ask_at_once_take_no_more_than_one_after_the_other() -> None:
    case = Case(guarantee={"resource": {"cpu": "3"}})
    assert case.nodes("v-0", "v-1") == ["v-0", "v-1"]
    assert case.nodes("v-2", name="second") == []
    assert case.nodes("v-0", "v-1") == ["v-0", "v-1"]  # its own former victims do not count


def test_once_the_node_is_known_only_its_victims_count_until_they_leave() -> None:
    case = Case(guarantee={"resource": {"cpu": "1"}})
    assert case.nodes("v-0", "v-1 v-2 v-3") == ["v-0", "v-1 v-2 v-3"]
    assert case.nodes("v-1", name="second") == []
    case.ask_as({**case.asking, "status": {"phase": "Pending", "nominatedNodeName": "on-v-0"}})
    assert case.nodes("v-1 v-2", name="second") == ["v-1 v-2"]
    assert case.nodes("v-1 v-2 v-3", name="second") == []


def test_a_grant_that_comes_to_nothing_ends() -> None:
    case = Case(guarantee={"resource": {"cpu": "3"}})
    assert case.nodes("v-0") == ["v-0"]
    case.server.clock.seconds += SECONDS
    assert case.nodes("v-1", name="second") == ["v-1"]


def test_a_grant_ends_when_its_pod_is_bound() -> None:
    case = Case(guarantee={"resource": {"cpu": "3"}})
    assert case.nodes("v-0") == ["v-0"]
    case.server.has(member("high", "own", version=2, resources=CORE, nodeName="elsewhere"))
    assert case.nodes("v-1", name="second") == ["v-1"]
