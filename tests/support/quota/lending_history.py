"""Random histories of a leader whose queues lend: pods and gangs come and end, PodGroups ask for room
before their pods exist, room is set aside, queues are edited, and evictions are refused.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from queues.queue import ROOT
from tests.support.http.wire_objects import Wire, policies, queue
from tests.support.quota.counted_anew import miscounted
from tests.support.quota.histories import GANGS
from tests.support.quota.lending_api import LAB, REFUSED, LendingApi, LendingReplica

STEPS = 60
POLICIES = (
    "actions: allocate, reclaim\ntiers: [{plugins: []}]\n",
    "actions: allocate, reclaim, preempt\ntiers: [{plugins: [{name: gang}]}]\n",
    "actions: enqueue, allocate, reclaim\ntiers: [{plugins: [{name: overcommit}, {name: proportion}]}]\n",
    "actions: allocate, preempt\ntiers: [{plugins: [{name: conformance}]}]\n",
)
OWNER: Wire = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "name": "work",
    "uid": "uid-work",
    "controller": True,
}


class LendingHistory:
    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self.api = LendingApi()
        self._made = 0
        self._version = 10
        for _ in range(self._chance.randint(0, 4)):
            self.api.run(self._name("a"), self._chance.choice(("other", "team")))
        self.leader = LendingReplica(self.api)
        texts = policies(takes=POLICIES[seed % len(POLICIES)])
        texts["metadata"]["resourceVersion"] = "99"
        self.leader.server.has(texts)

    def run(self) -> list[str]:
        """What its ledger has otherwise than what is counted anew, at the first time."""
        acts: list[tuple[float, Callable[[], object]]] = [
            (10, self._create),
            (6, lambda: self._to_one(self._bind)),
            (3, lambda: self._to_one(self._finish)),
            (6, lambda: self._to_one(self._chance.choice((self.api.delete, self.api.end)))),
            (1, lambda: self._to_one(self._delete_by_force)),
            (2, self._refuse),
            (1.5, self._edit),
            (0.3, self.leader.begin_term),
            (0.5, self._delete_group),
            (3, lambda: self.leader.pass_time(self._chance.choice((1.0, 20.0, 400.0)))),
            (10, self._go_on),
        ]
        weights = [weight for weight, _ in acts]
        wrong: list[str] = []
        for _ in range(STEPS):
            self._chance.choices([act for _, act in acts], weights)[0]()
            if self._chance.random() < 0.2:
                self.leader.go_on(steps=30, until=lambda: not self.leader.releases._waiting.is_due(0.0))
                wrong = miscounted(self.leader.releases, self.leader.server.store)
            if wrong:
                break
        return wrong

    def _name(self, of: str) -> str:
        self._made += 1
        return f"{of}-{self._made}"

    def _to_one(self, act: Callable[[str], object]) -> None:
        if self.api.pods:
            act(self._chance.choice(sorted(self.api.pods)))

    def _create(self) -> None:
        chance, gated = self._chance, self._chance.random() > 0.1
        if chance.random() > 0.35:
            of, cpu = chance.choice(("team", "other", "lab")), chance.choice((1, 1, 2, 3))
            self.api.create(self._name("p"), of, cpu, gated=gated, priority=chance.randint(0, 9))
            return
        name = chance.choice(sorted(GANGS))
        if name not in self.api.groups or chance.random() < 0.1:
            resources = {"minResources": {"cpu": str(chance.randint(1, 4))}} if chance.random() < 0.4 else {}
            self.api.set_group(name, GANGS[name], chance.choice((1, 2, 2, 3)), **resources)
        if chance.random() < 0.9:
            owner = OWNER if chance.random() < 0.8 else None
            self.api.create(self._name("p"), GANGS[name], 1, gated=gated, group=name, owner=owner)

    def _bind(self, name: str) -> None:
        spec = self.api.pods[name]["spec"]
        if not (spec.get("schedulingGates") or spec.get("nodeName")):
            self.api.change(name, lambda one: one["spec"].update(nodeName="n"))

    def _finish(self, name: str) -> None:
        if self.api.pods[name]["spec"].get("nodeName"):
            phase = self._chance.choice(("Succeeded", "Failed"))
            self.api.change(name, lambda one: one["status"].update(phase=phase))

    def _delete_by_force(self, name: str) -> None:
        self.api.version += 1
        gone = self.api.pods.pop(name)
        metadata = {**gone["metadata"], "resourceVersion": str(self.api.version)}
        self.api._record("DELETED", {**gone, "metadata": metadata})

    def _refuse(self) -> None:
        self.api.answers.clear()
        self._to_one(lambda name: self.api.answers.update({name: REFUSED}))

    def _delete_group(self) -> None:
        if self.api.groups:
            self.api.delete_group(self._chance.choice(sorted(self.api.groups)))

    def _edit(self) -> None:
        chance, name = self._chance, self._chance.choice((ROOT, "lab", "team", "other"))
        spec: dict[str, Any] = (
            {"capability": {"cpu": str(chance.randint(2, 8))}} if chance.random() < 0.8 else {}
        )
        if name == "lab":
            spec = {**LAB, **spec}
        elif name != ROOT:
            spec |= {"parent": "lab", "deserved": {"cpu": str(chance.randint(0, 3))}}
            spec |= {"guarantee": {"resource": {"cpu": "1"}}} if chance.random() < 0.3 else {}
            spec |= {"stopPolicy": "Hold"} if chance.random() < 0.2 else {}
        self._version += 1
        self.leader.server.has(queue(name, version=self._version, generation=self._version, **spec))

    def _go_on(self) -> None:
        self.leader.go_on(steps=self._chance.randint(1, 3))
