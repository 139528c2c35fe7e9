"""The CRDs in a real API server."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.manifests.bare_api import (
    QUEUES,
    Api,
    queue,
)

pytestmark = pytest.mark.cluster

PODGROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
NOW = "2030-01-31T18:00:00Z"


@pytest.fixture
def made(api: Api) -> Any:
    """A queue as the API server keeps it."""
    name = "kept"
    body = api.create(QUEUES, queue(name)).body
    yield body
    api.delete(f"{QUEUES}/{name}")


def condition(kind: str) -> dict[str, str]:
    return {"type": kind, "status": "True", "reason": "Open", "message": "", "lastTransitionTime": NOW}


def test_a_queue_of_nothing_gets_volcanos_defaults_and_no_stop(api: Api) -> None:
    empty = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "empty"}}
    assert api.create(QUEUES, empty, dry=True).body["spec"] == {
        "weight": 1,
        "reclaimable": True,
        "dequeueStrategy": "traverse",
        "stopPolicy": "None",
    }


def test_a_drain_evicts_bare_pods_and_keeps_what_is_left(api: Api) -> None:
    spec = api.create(QUEUES, queue("drained", drain={"rate": 0.5}), dry=True).body["spec"]
    assert spec["drain"] == {
        "rate": 0.5,
        "barePods": "Evict",
        "brokenGangs": "Keep",
        "afterDeadline": "Keep",
    }


def test_a_drain_that_is_told_nothing_is_not_there(api: Api) -> None:
    """Nobody has wished anything, not even what goes without saying."""
    spec = api.create(QUEUES, queue("drained", stopPolicy="HoldAndDrain"), dry=True).body["spec"]
    assert "drain" not in spec


@pytest.mark.parametrize(
    "spec",
    [
        {"weight": 65535, "parent": "", "priority": 0},
        {"capability": {"cpu": 4, "memory": "8Gi", "example.com/gpu": "2"}},
        {"guarantee": {}, "extendClusters": [{"name": "b", "capacity": {"cpu": "1"}}]},
        {"state": "Suspended", "resumeAt": NOW, "reason": "x" * 1024},
        {"drain": {"keep": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}},
        {"drain": {"rate": 1000, "inFlight": 2**31 - 1, "gracePeriodSeconds": 0}},
        {"schedulerPolicy": "packed", "SchedulerPolicy": "packed"},
        {"namespaceSelector": {}},
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "lab"}}},
    ],
    ids=str,
)
def test_it_takes(api: Api, spec: dict[str, object]) -> None:
    reply = api.create(QUEUES, queue("taken", **spec), dry=True)
    assert reply.status == 201, reply.message


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"weight": 0}, "greater than or equal to 1"),
        ({"weight": 65536}, "less than or equal to 65535"),
        ({"priority": -1}, "greater than or equal to 0"),
        ({"capability": {"cpu": "four"}}, "should match"),
        ({"parent": "Research!"}, "should match"),
        ({"parent": "x" * 254}, "Too long"),
        ({"dequeueStrategy": "lifo"}, "Unsupported value"),
        ({"state": "Closing"}, "Unsupported value"),
        ({"stopPolicy": "Drain"}, "Unsupported value"),
        ({"reason": "x" * 1025}, "Too long"),
        ({"resumeAt": "tomorrow"}, "date-time"),
        ({"drain": {"rate": 0}}, "greater than 0"),
        ({"drain": {"rate": -1}}, "greater than 0"),
        ({"drain": {"rate": 1001}}, "less than or equal to 1000"),
        ({"drain": {"inFlight": 0}}, "greater than or equal to 1"),
        ({"drain": {"gracePeriodSeconds": -1}}, "greater than or equal to 0"),
        ({"drain": {"barePods": "Delete"}}, "Unsupported value"),
        ({"parked": "Delete"}, "Unsupported value"),
        ({"drain": {"keep": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}}, "Unsupported value"),
        ({"drain": {"deadline": "soon"}}, "date-time"),
        ({"drain": {"afterDeadline": "Delete"}}, "needs a deadline"),
        ({"namespaceSelector": "team=a"}, "must be of type object"),
        ({"namespaceSelector": {"matchLabels": {f"l{n}": "v" for n in range(17)}}}, "at most 16"),
        ({"namespaceSelector": {"matchLabels": {"team": "v" * 64}}}, "Too long"),
        (
            {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "Like"}]}},
            "Unsupported value",
        ),
        ({"namespaceSelector": {"matchExpressions": [{"operator": "Exists"}]}}, "Required value"),
        (
            {
                "namespaceSelector": {
                    "matchExpressions": [{"key": "team", "operator": "In", "values": ["v"] * 257}]
                }
            },
            "at most 256",
        ),
        ({"schedulerPolicy": "a", "SchedulerPolicy": "b"}, "two spellings"),
    ],
    ids=str,
)
def test_it_refuses(api: Api, spec: dict[str, object], complaint: str) -> None:
    reply = api.create(QUEUES, queue("refused", **spec), dry=True)
    assert reply.status == 422
    assert complaint in reply.message


def test_a_queue_is_created_without_the_status_that_came_with_it(api: Api) -> None:
    wish = {**queue("wish"), "status": {"state": "Closed", "allocated": {}}}
    assert "status" not in api.create(QUEUES, wish, dry=True).body


@pytest.mark.parametrize("state", ["Open", "Suspended", "Closing", "Closed", "Unknown", "SomethingElse"])
def test_any_state_may_be_reported(api: Api, made: dict[str, Any], state: str) -> None:
    path = f"{QUEUES}/{made['metadata']['name']}/status"
    reply = api.patch(path, {"status": {"state": state}})
    assert (reply.status, reply.body["status"]["state"]) == (200, state)


def test_a_status_is_kept_whole(api: Api, made: dict[str, Any]) -> None:
    status = {
        "state": "Open",
        "observedGeneration": 1,
        "allocated": {"cpu": "4", "pods": "3"},
        "reservation": {"nodes": ["a"], "resource": {"cpu": "1"}},
        **{"pending": 1, "inqueue": 2, "running": 3, "unknown": 4, "completed": 5},
        "pods": {"pending": 6, "gated": 3, "parked": 4, "running": 1, "succeeded": 2, "failed": 0}
        | {"notSelected": 5, "recreating": 1},
        "conditions": [{**condition("Active"), "observedGeneration": 1}, condition("Drained")],
        "drain": {
            "since": NOW,
            **{"evicted": 7, "suspended": 2, "deleted": 1, "left": 5, "leaving": 3, "kept": 4, "blocked": 2},
            "blockers": [{"name": "budget", "pods": 2, "never": True, "message": "why"}],
        },
        "closing": {
            **{"kind": "Pod", "namespace": "team", "name": "x", "queue": "q", "others": 2},
            "unreadable": "spec.replicas",
        },
        "changes": [
            {"field": "state", "by": "ann", "from": "Open", "to": "Closed", "reason": "end", "at": NOW}
        ],
    }
    path = f"{QUEUES}/{made['metadata']['name']}/status"
    assert api.patch(path, {"status": status}).body["status"] == status


def test_a_condition_is_there_once(api: Api, made: dict[str, Any]) -> None:
    path = f"{QUEUES}/{made['metadata']['name']}/status"
    reply = api.patch(path, {"status": {"conditions": [condition("Active")] * 2}})
    assert (reply.status, "Duplicate value" in reply.message) == (422, True)


def test_the_fifty_first_change_is_refused(api: Api, made: dict[str, Any]) -> None:
    path = f"{QUEUES}/{made['metadata']['name']}/status"
    assert api.patch(path, {"status": {"changes": [{"by": "ann"}] * 50}}).status == 200
    assert api.patch(path, {"status": {"changes": [{"by": "ann"}] * 51}}).status == 422


def test_the_twenty_first_blocker_is_refused(api: Api, made: dict[str, Any]) -> None:
    path = f"{QUEUES}/{made['metadata']['name']}/status"
    blockers = [{"name": f"budget-{number}", "pods": 1} for number in range(21)]
    assert api.patch(path, {"status": {"drain": {"blockers": blockers[:20]}}}).status == 200
    assert api.patch(path, {"status": {"drain": {"blockers": blockers}}}).status == 422


def test_the_table_of_queues_has_the_columns_of_the_design(api: Api) -> None:
    table = api.get(QUEUES, accept="application/json;as=Table;v=v1;g=meta.k8s.io").body
    columns = [(each["name"], each["priority"]) for each in table["columnDefinitions"]]
    narrow = ["Name", "STATE", "ACTIVE", "STOP", "PARENT", "PENDING", "RUNNING", "AGE"]
    wide = ["REASON", "POLICY", "USED", "LIMIT", "WAITING"]
    assert columns == [(name, 0) for name in narrow] + [(name, 1) for name in wide]


def test_a_podgroup_goes_to_the_default_queue_and_keeps_what_we_do_not_know(api: Api) -> None:
    group: dict[str, Any] = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "group"},
        "spec": {"minMember": 2, "somethingNewer": {"a": 1}},
        "status": {"phase": "Inqueue", "alsoNewer": True},
    }
    kept = api.create(PODGROUPS, group, dry=True).body
    assert kept["spec"] == {**group["spec"], "queue": "default"}
    assert kept["status"] == group["status"]
