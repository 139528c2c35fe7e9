"""Who creates members of a scheduler of which there is no sign is told that they may never start."""

from __future__ import annotations

from tests.support.cases import each_case
from tests.support.http.asking import Server
from tests.support.http.wire_objects import NAMED, Wire, member, namespace, pod, queue, template, workload
from webhooks.settings import AdmissionSettings

TOLD = ['no scheduler named "volcano" was seen here: if it does not run, the pods never start']
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "t", "controller": True}

BOUND = {
    "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2030-01-01T11:00:00Z"}]
}


def server(*objects: Wire, configured: frozenset[str] = frozenset({"default-scheduler"})) -> Server:
    terms = AdmissionSettings(marked_schedulers=configured)
    return Server(terms=terms).has(namespace("team"), queue("research"), *objects)


def told(asked: Server, scheduler: str = "volcano", *, named: str = "research") -> list[str]:
    work = workload("deployments.apps", "web", template({NAMED: named}, schedulerName=scheduler))
    return asked.ask("/mutate/workloads", work, resource="deployments.apps").warnings


def test_a_workload_and_a_pod_that_nothing_made_are_told() -> None:
    assert told(server()) == TOLD
    alone = pod(annotations={NAMED: "research"}, schedulerName="volcano")
    assert server().ask("/mutate/pods", alone).warnings == TOLD
    made = pod(annotations={NAMED: "research"}, schedulerName="volcano", owner=OWNER)
    assert server().ask("/mutate/pods", made).warnings == []


def test_kubernetes_own_and_those_that_are_configured_count_as_there() -> None:
    assert told(server(), "default-scheduler") == []
    assert told(server(configured=frozenset({"volcano"}))) == []


@each_case(
    ("seen", "is_told"),
    [
        (member(schedulerName="volcano"), True),
        (member(schedulerName="volcano", nodeName="node-1", status=BOUND), False),
        (member(schedulerName="volcano", nodeName="node-1"), True),
        (member(schedulerName="another", nodeName="node-1", status=BOUND), True),
    ],
    ids=str,
)
def test_a_member_of_it_that_got_its_node_within_a_day_is_a_sign(seen: Wire, is_told: bool) -> None:
    assert told(server(seen)) == (TOLD if is_told else [])
