"""An API server with disruption budgets and evictions, and replicas that take back what `team` deserves.

`team` deserves two of the three CPUs of `lab`; `other` borrows (`histories.QUEUES`).
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

from cluster.api.client import Client
from cluster.exceptions import ClusterError, Conflict, NotFound, Overloaded
from cluster.metrics import Metrics
from controller.quota.releases import QuotaReleases
from queues.apimachinery.timestamps import rfc3339
from tests.support.http.wire_objects import Wire, policies, queue
from tests.support.quota.histories import ApiServer, Replica, is_released
from tests.support.rules.cases import NOW

#: The policy of `lab`.
TAKES = "actions: allocate, reclaim\ntiers: [{plugins: []}]\n"
#: As the API server says that a budget allows no more.
REFUSED = Overloaded(429, "TooManyRequests", "no", causes=frozenset({"DisruptionBudget"}), retry_after=0.0)
LAB: dict[str, Any] = {"capability": {"cpu": "3"}, "schedulerPolicy": "takes"}
TEAM: dict[str, Any] = {"parent": "lab", "deserved": {"cpu": "2"}}


class LendingApi(ApiServer):
    """Nothing fails by chance. Pods end only where a test says so (`end`)."""

    def __init__(self) -> None:
        super().__init__(random.Random(0))
        self.is_rough = False
        #: How many pods with label `app` of this value a budget allows to go, as it says itself.
        self.budgets: dict[str, int] = {}
        #: What evictions of pods are answered.
        self.answers: dict[str, ClusterError] = {}
        #: The names of the pods of which the eviction or the deletion was asked for, in that order.
        self.asked: list[str] = []
        self.reasons: dict[str, str] = {}

    def client(self) -> Client:
        return cast(
            Client,
            SimpleNamespace(
                get=self._get, create=self._create, patch=self._patch, request=self._list, delete=self._delete
            ),
        )

    def run(self, name: str, of: str, *, owner: Wire | None = None, at: datetime | None = None) -> None:
        """A pod of one CPU on a node, which was let in then; long ago, where that is not given, and after
        those before it.
        """
        self.create(name, of, 1)
        when = rfc3339(at if at is not None else NOW - timedelta(seconds=10_000 - self.version))

        def place(one: Wire) -> None:
            one["spec"].pop("schedulingGates", None)
            one["spec"]["nodeName"] = "n"
            one["metadata"]["labels"]["app"] = name.partition("-")[0]
            if owner is not None:
                one["metadata"]["ownerReferences"] = [owner]
            one["metadata"]["creationTimestamp"] = when
            one["status"]["conditions"] = [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": when}
            ]

        self.change(name, place)

    def end(self, name: str) -> None:
        """It is gone, whatever it waited for."""
        for _ in range(2):
            if name in self.pods:
                self.delete(name)

    def is_released(self, name: str) -> bool:
        return is_released(self.pods[name])

    def is_leaving(self, name: str) -> bool:
        return "deletionTimestamp" in self.pods[name]["metadata"]

    def _list(self, _method: str, path: str, **_: object) -> bytes:
        assert path.endswith("/poddisruptionbudgets")
        items = [
            {
                "metadata": {"namespace": "team", "name": app},
                "spec": {"selector": {"matchLabels": {"app": app}}},
                "status": {"disruptionsAllowed": allowed},
            }
            for app, allowed in self.budgets.items()
        ]
        return json.dumps({"metadata": {"resourceVersion": "1"}, "items": items}).encode()

    def _create(self, path: str, body: Wire) -> bytes:
        if not path.endswith("/eviction"):
            return self._create_book(path, body)
        name = path.split("/")[-2]
        self.asked.append(name)
        if name in self.answers:
            raise self.answers[name]
        self._leave(name, body["deleteOptions"]["preconditions"])
        return b"{}"

    def _delete(self, path: str, options: Wire) -> bytes:
        name = path.rpartition("/")[2]
        self.asked.append(name)
        self._leave(name, options["preconditions"])
        return b"{}"

    def _leave(self, name: str, wanted: Wire) -> None:
        if name not in self.pods:
            raise NotFound(404, "NotFound", name)
        self._require(self.pods[name], wanted)
        if not self.is_leaving(name):
            self.delete(name)

    def _patch(self, path: str, body: Wire, **more: object) -> bytes:
        if not path.endswith("/status"):
            return super()._patch(path, body, **more)
        name = path.split("/")[-2]
        if name not in self.pods or self.pods[name]["metadata"]["uid"] != body["metadata"]["uid"]:
            raise Conflict(409, "Conflict", name)
        [condition] = body["status"]["conditions"]
        self.reasons[name] = condition["reason"]
        return b"{}"


class LendingReplica(Replica):
    """One that leads, or does not."""

    def __init__(self, api: LendingApi) -> None:
        self.leads = True
        self.events: list[tuple[str, str]] = []
        #: The latest message of an event, by the name of its object.
        self.messages: dict[str, str] = {}
        self.metrics = Metrics()
        super().__init__(
            api,
            QuotaReleases,
            metrics=self.metrics,
            recorder=SimpleNamespace(record=self._record),
            leading=lambda: self.leads,
        )
        api.now = self.server.clock.now
        self.server.has(
            policies(takes=TAKES),
            queue("lab", version=2, generation=2, **LAB),
            queue("team", version=2, generation=2, **TEAM),
        )

    def _record(self, subject: Any, *, reason: str, message: str = "", **_: object) -> None:
        self.events.append((subject.name, reason))
        self.messages[subject.name] = message

    def go_on(self, *, steps: int = 12, until: Callable[[], object] = lambda: False) -> None:
        """A second for each step."""
        for _ in range(steps):
            self.hear(99)
            self.step()
            self.server.clock.at += timedelta(seconds=1)
            if until():
                return
            self.send_all()

    @property
    def is_about_to_evict(self) -> bool:
        """Whether an eviction waits for its writer."""
        return any(kind == "give-back" for kind, _ in self.writes.held)

    def pass_time(self, seconds: float) -> None:
        self.server.clock.seconds += seconds
        self.server.clock.at += timedelta(seconds=seconds)

    def counted(self, reason: str) -> float:
        found = self.metrics.registry.get_sample_value(
            "sluice_pod_evictions_total", {"reason": reason, "how": "Evict"}
        )
        return found or 0.0
