"""Which kinds are watched while a scheduling policy, a capability or a gang needs them, and only then."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from cluster.api.client import Client
from cluster.cache.scheduling_policies import ConfigMap
from cluster.cache.store import Clock, Store
from cluster.informers import informers
from cluster.informers.informers import ALL_KINDS, Informers
from cluster.metrics import Metrics
from cluster.objects import Metadata, PodGroup, PodGroupSpec, QueueObject, QueueSpec
from cluster.readiness import ClusterReadiness
from queues.membership import MembershipSettings
from queues.quota.devices import ClaimFault
from tests.support.cluster.recording_reflector import RecordingReflector

PLAIN = "actions: allocate\ntiers: [{}]"
SCORES = "actions: allocate\ntiers: [{plugins: [{name: binpack}]}]"
PROTECTS = "actions: preempt\ntiers: [{plugins: [{name: conformance}]}]"
OVERCOMMITS = "actions: enqueue\ntiers: [{plugins: [{name: overcommit}]}]"


class Watches:
    """The informers of a server; `started`: the kinds whose reflectors run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._made: list[tuple[str, Any, RecordingReflector]] = []
        self._version = 0
        monkeypatch.setattr(informers, "Reflector", self._new_reflector)
        self._store = Store(membership_settings=MembershipSettings(), clock=Clock())
        readiness = ClusterReadiness(ALL_KINDS, clock=self._store.clock.monotonic)
        client = cast(Client, None)  # nothing is read
        self.informers = Informers(client=client, store=self._store, readiness=readiness, metrics=Metrics())

    def _new_reflector(self, *, kind: str, options: Any, **_: Any) -> RecordingReflector:
        self._made.append((kind, options, RecordingReflector()))
        return self._made[-1][2]

    def has_policy(self, text: str) -> Watches:
        obj = ConfigMap(metadata=Metadata(name="policies"), data={"one": text})
        self._store.policies.replace([obj])
        return self

    def has_capability(self, resource: str) -> Watches:
        spec = QueueSpec(capability={resource: "1"})
        self._version += 1
        metadata = Metadata(name="lab", resource_version=str(self._version), generation=self._version)
        self._store.queue_cache.set(QueueObject(metadata=metadata, spec=spec))
        return self

    def has_no_capability(self) -> Watches:
        self._version += 1
        metadata = Metadata(name="lab", resource_version=str(self._version), generation=self._version)
        self._store.queue_cache.set(QueueObject(metadata=metadata, spec=QueueSpec()))
        return self

    def has_podgroup(self, **spec: Any) -> Watches:
        self._version += 1
        metadata = Metadata(name="ring", namespace="lab", resource_version=str(self._version))
        self._store.podgroups.upsert(PodGroup(metadata=metadata, spec=PodGroupSpec(min_member=2, **spec)))
        return self

    def say_not_served(self, kind: str) -> ClaimFault | None:
        """What is known of claims once the API server has no such kind."""
        (options,) = (options for made, options, _ in self._made if made == kind)
        assert options.optional
        options.missing()
        return self._store.device_claims.fault

    @property
    def started(self) -> list[str]:
        return [kind for kind, _, reflector in self._made if reflector.calls[-1:] == ["start"]]

    def selectors(self, kind: str) -> Iterator[tuple[str, str]]:
        return ((options.labels, options.selector) for made, options, _ in self._made if made == kind)


@pytest.mark.parametrize(
    ("policy", "kinds"),
    [(PLAIN, []), (SCORES, ["nodes", "assigned-pods"]), (PROTECTS, ["system-pods"])],
    ids=["a policy that needs neither", "binpack", "conformance"],
)
def test_each_policy_has_what_it_needs_watched(
    monkeypatch: pytest.MonkeyPatch, policy: str, kinds: list[str]
) -> None:
    watches = Watches(monkeypatch).has_policy(policy)
    assert watches.started == kinds
    assert watches.has_policy(PLAIN).started == []


def test_only_pods_on_nodes_that_are_no_members_are_watched_for_conformance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watches = Watches(monkeypatch).has_policy(PROTECTS)
    ((labels, fields),) = watches.selectors("system-pods")
    assert labels == "!sluice.dev/queue"
    assert fields.startswith("spec.nodeName!=,")


def test_claims_and_device_classes_are_watched_while_a_capability_names_a_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watches = Watches(monkeypatch).has_capability("cpu")
    devices = ["resource-claims", "device-classes"]
    assert not {*watches.started} & {*devices}
    assert [kind for kind in watches.has_capability("deviceclass/gpu").started if kind in devices] == devices
    assert not {*watches.has_capability("cpu").started} & {*devices}


def test_nodes_are_watched_while_a_queue_has_a_quota_or_a_policy_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For the names of what they have, and for the amounts; one watch for both."""
    watches = Watches(monkeypatch)
    assert watches.started == []
    assert watches.has_capability("cpu").started == ["node-totals"]
    assert watches.has_policy(OVERCOMMITS).started == ["node-totals"]
    assert watches.has_no_capability().started == ["node-totals"]
    assert watches.has_policy(PLAIN).started == []


@pytest.mark.parametrize("kind", ["resource-claims", "device-classes"])
def test_a_cluster_without_claims_or_classes_is_known_as_such(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    watches = Watches(monkeypatch).has_capability("deviceclass/gpu")
    assert watches.say_not_served(kind) is ClaimFault.NO_API


def test_priority_classes_are_watched_while_a_gang_names_one(monkeypatch: pytest.MonkeyPatch) -> None:
    watches = Watches(monkeypatch).has_podgroup()
    assert watches.started == []
    assert watches.has_podgroup(priority_class_name="high").started == ["priority-classes"]
    assert watches.has_podgroup().started == []


def test_they_end_with_the_informers(monkeypatch: pytest.MonkeyPatch) -> None:
    watches = Watches(monkeypatch).has_policy(SCORES).has_policy(PROTECTS)
    watches.informers.stop()
    assert watches.started == []
    assert watches.has_policy(SCORES).started == []
