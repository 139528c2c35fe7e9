"""Bringing a workload to zero replicas past a deadline, and back: which writes, and whose edit wins."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any, cast

import pytest

from cluster.api.client import Client
from cluster.cache.workloads import Workload
from cluster.exceptions import Conflict, NotFound, Refused
from cluster.metrics import Metrics
from cluster.recorder import EventRecorder
from controller.drain.eviction import DrainRequests, NotScalable
from controller.drain.job_commands import JobResumeStep
from controller.drain.job_suspension import JobSuspension
from controller.drain.request_states import RequestResult
from controller.drain.scaling import TRIES, put_back, scale_to_zero
from controller.drain.state import Drains
from controller.evictions.answers import EvictionOutcome
from queues.drain.model import DrainAction, RunningPod, SuspendableWorkload, Unit
from queues.scale_record import MANAGER
from tests.support.cases import each_case
from tests.support.controller.contexts import context_with
from tests.support.controller.controller_harness import Inline
from tests.support.http.asking import Server
from tests.support.http.wire_objects import NAMED, Wire, member, owner, queue, workload
from tests.support.rules.cases import NOW
from tests.support.webhooks.json_patch import applied

MARK = "sluice.dev/suspended"
WEB = "/apis/apps/v1/namespaces/team/deployments/web"
PODS = "/api/v1/namespaces/team/pods"
TARGET = SuspendableWorkload(kind="deployments", namespace="team", name="web", uid="uid-web", scaled=True)


class Api:
    """The API server with one Deployment: it applies patches whose tests hold, and knows who set replicas.

    `before_write`: called before each write, once; another client may be faster.
    """

    def __init__(self, replicas: int = 3, *, owned: Wire | None = None, annotated: bool = True) -> None:
        self.web = workload(
            "deployments.apps", "web", annotations={NAMED: "research"}, replicas=replicas, owner=owned
        )
        if not annotated:
            del self.web["metadata"]["annotations"]
        self.web["spec"]["selector"] = {"matchLabels": {"app": "web"}}
        self.pods: list[Wire] = []
        self.set_replicas("kubectl", replicas)
        self.before_write: Callable[[], object] = lambda: None
        self.writes = 0

    def set_replicas(self, manager: str, replicas: int) -> None:
        """An update or a scale by anybody. After a scale to 0 nobody manages the field."""
        self.web = copy.deepcopy(self.web)
        if self.web["spec"]["replicas"] != replicas or "managedFields" not in self.web["metadata"]:
            fields: Wire = {"f:replicas": {}} if replicas or manager == MANAGER else {}
            self.web["metadata"]["managedFields"] = [{"manager": manager, "fieldsV1": {"f:spec": fields}}]
        self.web["spec"]["replicas"] = replicas
        self.touch()

    def touch(self) -> None:
        """A status is written."""
        version = int(self.web["metadata"]["resourceVersion"]) + 1
        self.web["metadata"]["resourceVersion"] = str(version)

    def get(self, path: str, **_: object) -> bytes:
        if path != WEB:
            raise NotFound(404, "NotFound", path)
        return json.dumps(self.web).encode()

    def request(self, method: str, path: str, **_: object) -> bytes:
        assert (method, path) == ("GET", PODS)
        return json.dumps({"metadata": {"resourceVersion": "9"}, "items": self.pods}).encode()

    def create(self, path: str, body: object, **_: object) -> bytes:
        return b"{}"

    def patch(self, path: str, body: list[dict[str, Any]], *, fieldManager: str, **_: object) -> bytes:  # noqa: N803
        assert (path, fieldManager) == (WEB, MANAGER)
        faster, self.before_write = self.before_write, lambda: None
        faster()
        for step in body:
            if step["op"] == "test" and _value(self.web, step["path"]) != step["value"]:
                raise Refused(422, "Invalid", f"testing value {step['path']} failed")
        after = applied([step for step in body if step["op"] != "test"], self.web)
        replicas = after["spec"].pop("replicas")
        self.web = {**after, "spec": {**after["spec"], "replicas": self.replicas}}
        self.set_replicas(MANAGER, replicas)
        self.writes += 1
        return b"{}"

    @property
    def replicas(self) -> int:
        return int(self.web["spec"]["replicas"])

    @property
    def mark(self) -> str | None:
        mark: str | None = (self.web["metadata"].get("annotations") or {}).get(MARK)
        return mark

    @property
    def state(self) -> tuple[int, str | None]:
        return self.replicas, self.mark

    @property
    def client(self) -> Client:
        return cast(Client, self)


def _value(obj: Any, path: str) -> Any:
    for key in path[1:].split("/"):
        obj = (obj or {}).get(key.replace("~1", "/"))
    return obj


class Cluster:
    """One server that leads, and the API server. The cache has the Deployment as of the last `watch`."""

    def __init__(self, api: Api | None = None) -> None:
        self.api = api or Api()
        self.server = Server().has(queue("root", parent=None), queue("other"))
        self.set_policy("HoldAndDrain")
        self.watch()

    def set_policy(self, policy: str) -> None:
        self.server.has(queue("research", version=self.api.writes + 5, stopPolicy=policy))
        self.server.store.queue_cache.publish()

    def watch(self) -> None:
        self.server.has(self.api.web)

    @property
    def cached(self) -> Workload:
        found = self.server.store.workloads.by_uid("uid-web")
        assert found is not None
        return found

    def scale(self) -> None:
        scale_to_zero(self.api.client, self.server.store, TARGET, drain="research", check_drains=lambda: None)

    def put_back(self, *, schedules: bool = True) -> JobResumeStep:
        return put_back(self.api.client, self.cached, schedules=schedules)


def scaled() -> Cluster:
    cluster = Cluster()
    cluster.scale()
    cluster.watch()
    return cluster


# To zero


@pytest.mark.parametrize("annotated", [True, False])
def test_the_record_is_written_with_the_scale(annotated: bool) -> None:
    cluster = Cluster(Api(annotated=annotated))
    cluster.scale()
    assert cluster.api.state == (0, "research/3")
    assert cluster.api.writes == 1


def test_a_scale_in_between_is_not_overwritten() -> None:
    """By a user, or by an autoscaler: the next step reads it again."""
    cluster = Cluster()
    cluster.api.before_write = lambda: cluster.api.set_replicas("hpa", 5)
    with pytest.raises(Conflict):
        cluster.scale()
    assert cluster.api.writes == 0
    cluster.scale()
    assert cluster.api.state == (0, "research/5")


def test_another_write_in_between_does_not_keep_it_from_being_scaled() -> None:
    """Else whoever writes it all the time would keep it running."""
    cluster = Cluster()
    cluster.api.before_write = cluster.api.touch
    cluster.scale()
    assert cluster.api.state == (0, "research/3")


def test_what_is_at_zero_is_left_alone() -> None:
    """By its user, or by an earlier leader: nothing is recorded twice."""
    for cluster, mark in ((Cluster(Api(0)), None), (scaled(), "research/3")):
        before = cluster.api.writes
        with pytest.raises(Conflict):
            cluster.scale()
        assert (cluster.api.state, cluster.api.writes) == ((0, mark), before)


def test_another_of_its_name_and_one_that_is_being_deleted_are_left_alone() -> None:
    for key, value in (("uid", "another"), ("deletionTimestamp", "2030-01-01T00:00:00Z")):
        cluster = Cluster()
        cluster.api.web["metadata"][key] = value
        with pytest.raises(NotFound):
            cluster.scale()
        assert cluster.api.writes == 0


def test_what_another_object_controls_is_not_scaled() -> None:
    cluster = Cluster(Api(owned=owner(workload("deployments.apps", "above"))))
    with pytest.raises(NotScalable):
        cluster.scale()
    assert cluster.api.writes == 0


@each_case(
    ("queue", "made_by", "node", "taken"),
    [
        ("research", "web", "node-0", True),
        ("other", "web", "node-0", False),
        ("", "web", "node-0", False),
        ("other", "unknown", "node-0", False),
        ("other", "", "node-0", True),
        ("other", "web", "", True),
    ],
    ids=["drained", "of another queue", "of none", "of an unknown owner", "not its pod", "on no node"],
)
def test_a_workload_with_a_pod_of_a_queue_that_is_not_drained_is_not_scaled(
    queue: str, made_by: str, node: str, taken: bool
) -> None:
    cluster = Cluster()
    owners = {"web": owner(cluster.api.web), "unknown": owner(workload("replicasets.apps", "rs"))}
    pod = member("work", queue=queue, owner=owners.get(made_by), **({"nodeName": node} if node else {}))
    if not queue:
        del pod["metadata"]["annotations"]["sluice.dev/queue"]
    cluster.api.pods = [pod]
    if taken:
        cluster.scale()
    else:
        with pytest.raises(NotScalable):
            cluster.scale()
    assert cluster.api.writes == taken


def test_a_drain_that_has_just_ended_scales_nothing() -> None:
    cluster = Cluster()

    def check() -> None:
        raise Conflict(409, "Conflict", "it has ended")

    with pytest.raises(Conflict):
        scale_to_zero(cluster.api.client, cluster.server.store, TARGET, drain="research", check_drains=check)
    assert cluster.api.writes == 0


# And back


def test_what_was_scaled_is_put_back_once_its_queue_schedules() -> None:
    cluster = scaled()
    assert (cluster.put_back(schedules=False), cluster.api.replicas) == (JobResumeStep.LEAVE, 0)
    assert cluster.put_back() is JobResumeStep.GIVE_BACK
    assert cluster.api.state == (3, None)
    writes = cluster.api.writes
    assert (cluster.put_back(), cluster.api.writes) == (JobResumeStep.LEAVE, writes)


@each_case("numbers", [(2,), (3,), (7,), (2, 0)])
@each_case("schedules", [False, True])
def test_a_scale_by_somebody_else_wins(numbers: tuple[int, ...], schedules: bool) -> None:
    """Also one that set 0 again before anybody saw another number."""
    cluster = scaled()
    for replicas in numbers:
        cluster.api.set_replicas("alice", replicas)
    cluster.watch()
    assert cluster.put_back(schedules=schedules) is JobResumeStep.UNMARK
    assert cluster.api.state == (numbers[-1], None)


@pytest.mark.parametrize("numbers", [(2,), (2, 0)])
def test_a_scale_between_the_read_and_the_write_wins(numbers: tuple[int, ...]) -> None:
    cluster = scaled()

    def edit() -> None:
        for replicas in numbers:
            cluster.api.set_replicas("alice", replicas)

    cluster.api.before_write = edit
    assert cluster.put_back() is JobResumeStep.UNMARK
    assert cluster.api.state == (numbers[-1], None)


def test_one_that_is_written_all_the_time_is_put_back_later() -> None:
    cluster = scaled()

    def touch() -> None:
        cluster.api.touch()
        cluster.api.before_write = touch

    cluster.api.before_write = touch
    assert cluster.put_back() is JobResumeStep.WAIT
    cluster.api.before_write = lambda: None
    assert cluster.put_back() is JobResumeStep.GIVE_BACK
    assert TRIES > 1


def test_without_managed_fields_the_record_alone_counts() -> None:
    """A user can empty them."""
    cluster = scaled()
    cluster.api.web["metadata"]["managedFields"] = []
    assert cluster.put_back() is JobResumeStep.GIVE_BACK
    assert cluster.api.replicas == 3


# By the controller


class Leader:
    """A replica that leads: its parts of the controller for these requests."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.metrics = Metrics()
        client = cluster.api.client
        self._writers, self._drain_writers = (Inline(metrics=self.metrics) for _ in range(2))
        self._context = context_with(
            store=cluster.server.store,
            client=client,
            metrics=self.metrics,
            writers=self._writers,
            drain_writers=self._drain_writers,
            leading=lambda: True,
            recorder=EventRecorder(client=client, writers=self._writers, metrics=self.metrics),
        )
        self.results: list[RequestResult] = []
        results = self.results

        class Recorded(Drains):
            def record_result(self, result: RequestResult, *, now: float) -> None:
                results.append(result)

        self._suspension = JobSuspension(self._context, DrainRequests(self._context, Recorded()))

    def drain(self) -> EvictionOutcome:
        pod = RunningPod(uid="uid-p", namespace="team", name="p", queue="research", labels={}, created=NOW)
        self._suspension.send("research", Unit(action=DrainAction.SCALE, pods=(pod,), workload=TARGET))
        self._work()
        return self.results[-1].outcome

    def resume(self) -> None:
        self._suspension.resume("research")
        self._work()
        self.cluster.watch()

    def _work(self) -> None:
        for writers in (self._drain_writers, self._writers):
            writers.work()
        self._context.work_queue.get([0.0], at_once=True)

    @property
    def given_back(self) -> float:
        return float(self.metrics.given_back._value.get())


def test_whoever_leads_after_a_crash_puts_back_what_was_scaled_and_does_it_once() -> None:
    """Each leader is a new one; the second finds the work of the first done, or not begun."""
    cluster = Cluster()
    assert Leader(cluster).drain() is EvictionOutcome.GRANTED
    assert Leader(cluster).drain() is EvictionOutcome.ABSENT  # its cache is behind
    cluster.watch()
    assert cluster.cached.kept_at_zero == 3
    Leader(cluster).resume()
    assert cluster.api.replicas == 0  # its queue does not schedule
    cluster.set_policy("None")
    late = Cluster(cluster.api)
    late.set_policy("None")
    first, second = Leader(cluster), Leader(late)
    first.resume()
    second.resume()
    assert (cluster.api.replicas, cluster.api.mark, first.given_back, second.given_back) == (
        3,
        None,
        1.0,
        0.0,
    )


def test_a_record_that_a_scale_made_void_goes_while_the_queue_is_stopped() -> None:
    """So that what its user sets to zero later stays there."""
    cluster = scaled()
    leader = Leader(cluster)
    leader.resume()
    assert cluster.api.mark == "research/3"
    cluster.api.set_replicas("alice", 2)
    cluster.watch()
    leader.resume()
    assert cluster.api.state == (2, None)
    assert leader.given_back == 0.0


def test_without_the_right_the_drain_is_told_that_it_is_refused() -> None:
    """So that its status says so: an upgrade whose roles were not applied."""
    cluster = Cluster()

    def forbid() -> None:
        raise Refused(403, "Forbidden", "cannot patch resource deployments")

    cluster.api.before_write = forbid
    assert Leader(cluster).drain() is EvictionOutcome.REFUSED
    assert cluster.api.state == (3, None)


def test_what_may_not_be_scaled_is_said_to_the_drain() -> None:
    """So that its pods are deleted one by one."""
    cluster = Cluster(Api(owned=owner(workload("deployments.apps", "above"))))
    assert Leader(cluster).drain() is EvictionOutcome.NOT_SCALABLE
