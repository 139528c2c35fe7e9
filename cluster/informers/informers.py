"""The reflectors of every cached kind, started and stopped together.

The start order matters. The kinds that decide membership (namespaces, PodGroups, queues) are listed before
workloads and pods, so that no object is judged from incomplete data. The definitions of our own kinds are
watched like every other kind; nothing counts as in sync while one of them lacks a required field.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from cluster.api.client import Client
from cluster.cache.device_claims import ClaimEvents, ClassEvents, DeviceClass, ResourceClaim
from cluster.cache.marker_pods import MarkerAnnotation, MarkerPods
from cluster.cache.node_totals import SizedNode
from cluster.cache.priority_classes import PriorityClass
from cluster.cache.registrations import RegistrationKind
from cluster.cache.scheduling_policies import ConfigMap
from cluster.cache.store import Store
from cluster.cache.system_pods import SystemPod
from cluster.cache.watch_progress import Marker
from cluster.debounce import Debouncer
from cluster.informers.crd_fields import PATH as DEFINITIONS
from cluster.informers.crd_fields import (
    REQUIRED,
    Definition,
    DefinitionEventHandler,
    Definitions,
    read_queue,
    read_queue_leniently,
)
from cluster.informers.dispatch import EventHandler
from cluster.informers.event_handlers import NamespaceEventHandler, QueueEventHandler
from cluster.informers.reflector import SHORT_WATCH_SECONDS, Reflector, ReflectorOptions
from cluster.informers.workloads import WorkloadEventHandler, WorkloadLookups
from cluster.metrics import Metrics
from cluster.objects import Command, Namespace, Pod, PodGroup, WorkloadObject
from cluster.on_demand_reflectors import OnDemandReflectors
from cluster.readiness import ClusterReadiness
from cluster.scoring.departures import follow_departures
from cluster.scoring.objects import Node, ScoredPod
from cluster.scoring.reflectors import ASSIGNED, ASSIGNED_PODS, NODES, ScoredKind, ScoringReflectors
from queues import well_known
from queues.apimachinery.lenient import LenientReader
from queues.workload_kinds import KINDS, WorkloadKind

if TYPE_CHECKING:  # numpy comes with it
    from cluster.scoring.node_scoring import NodeScoring

PODS = "/api/v1/pods"
SCHEDULING = "/apis/scheduling.volcano.sh/v1beta1"
BUS = "/apis/bus.volcano.sh/v1alpha1"

#: The definitions of our own kinds, by the name of their reflector.
DEFINITION_KINDS = {f"definition-{name.partition('.')[0]}": name for name in REQUIRED}
#: Listed first; `MEMBER_KINDS` need them.
MEMBERSHIP_KINDS = (*DEFINITION_KINDS, "namespaces", "podgroups", "queues", "commands", "policies")
MEMBER_KINDS = (*KINDS, "pods")
ALL_KINDS = (*MEMBERSHIP_KINDS, *MEMBER_KINDS)
#: The pods of no queue: watched while some policy protects the system-critical ones among them, and only then
#: (`cluster.cache.system_pods`).
SYSTEM_PODS = "system-pods"
#: What nodes have: watched while some policy asks for it, or some queue has a quota, and only then
#: (`cluster.cache.node_totals`).
NODE_TOTALS, NODES_PATH = "node-totals", "/api/v1/nodes"
#: What claims of devices count: watched while some capability names a class of devices, and only then
#: (`cluster.cache.device_claims`). Not every cluster has them.
CLAIMS, CLASSES = "resource-claims", "device-classes"
DEVICES = "/apis/resource.k8s.io/v1"
#: Watched while some gang names one, and only then (`cluster.cache.priority_classes`).
PRIORITY_CLASSES, PRIORITY_CLASSES_PATH = "priority-classes", "/apis/scheduling.k8s.io/v1/priorityclasses"
#: Stops and Commands wait for these kinds, so a dead watch of them must be noticed soon; a policy is to be in
#: effect within a second; promises end soon after the API server asks us no more.
SHORT_WATCH_KINDS = (
    *("queues", "pods", "namespaces", "podgroups", "commands", "policies"),
    *(kind.value for kind in RegistrationKind),
)
#: A start that waits for a kind sees so soon that it is stopped.
STOP_SECONDS = 0.05


class PolicyConfigMapName(msgspec.Struct, frozen=True):
    """A ConfigMap with scheduling policies."""

    namespace: str
    name: str


#: Where Volcano has them.
DEFAULT_POLICIES = PolicyConfigMapName("volcano-system", "volcano-scheduler-configmap")


class ObjectDecoder(msgspec.Struct, frozen=True):
    """Decodes objects of one kind: strictly, or leniently with the fields that can be read."""

    decode: Callable[[msgspec.Raw | bytes], Any]
    lenient: Callable[[msgspec.Raw | bytes], tuple[Any, list[str]]]


class AuxiliaryKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind that others need: nothing waits until it has been listed. `labels`, `selector`: of labels, and
    of fields. `synced`, `refused`: as in `ReflectorOptions`. `marker`: causes an event of the kind.
    """

    kind: str
    path: str
    labels: str
    decoder: ObjectDecoder
    handler: EventHandler[Any]
    marker: Marker | None = None
    selector: str = ""
    synced: threading.Event | None = None
    refused: Callable[[], object] = lambda: None


# All decoders are made here, at import: threads that make decoders at the same time can crash the process.
_NAMESPACE = ObjectDecoder(msgspec.json.Decoder(Namespace).decode, LenientReader(Namespace))
_PODGROUP = ObjectDecoder(msgspec.json.Decoder(PodGroup).decode, LenientReader(PodGroup))
_COMMAND = ObjectDecoder(msgspec.json.Decoder(Command).decode, LenientReader(Command))
_WORKLOAD = ObjectDecoder(msgspec.json.Decoder(WorkloadObject).decode, LenientReader(WorkloadObject))
_POD = ObjectDecoder(msgspec.json.Decoder(Pod).decode, LenientReader(Pod))
_SYSTEM_POD = ObjectDecoder(msgspec.json.Decoder(SystemPod).decode, LenientReader(SystemPod))
_SIZED_NODE = ObjectDecoder(msgspec.json.Decoder(SizedNode).decode, LenientReader(SizedNode))
_CLAIM = ObjectDecoder(msgspec.json.Decoder(ResourceClaim).decode, LenientReader(ResourceClaim))
_CLASS = ObjectDecoder(msgspec.json.Decoder(DeviceClass).decode, LenientReader(DeviceClass))
_PRIORITY_CLASS = ObjectDecoder(msgspec.json.Decoder(PriorityClass).decode, LenientReader(PriorityClass))
_QUEUE = ObjectDecoder(read_queue, read_queue_leniently)
_CONFIG_MAP = ObjectDecoder(msgspec.json.Decoder(ConfigMap).decode, LenientReader(ConfigMap))
_SCORING = {
    NODES: ObjectDecoder(msgspec.json.Decoder(Node).decode, LenientReader(Node)),
    ASSIGNED_PODS: ObjectDecoder(msgspec.json.Decoder(ScoredPod).decode, LenientReader(ScoredPod)),
}
_DEFINITION = ObjectDecoder(msgspec.json.Decoder(Definition).decode, LenientReader(Definition))


class Informers:
    """All reflectors. Owner: the server, which starts and stops them."""

    def __init__(
        self,
        *,
        client: Client,
        store: Store,
        readiness: ClusterReadiness,
        metrics: Metrics,
        marker: MarkerPods | None = None,
        namespace_marker: MarkerAnnotation | None = None,
        policies: PolicyConfigMapName = DEFAULT_POLICIES,
        auxiliary: Collection[AuxiliaryKind] = (),
    ) -> None:
        """`policies`: the ConfigMap with the scheduling policies. `marker`, `namespace_marker`: cause an
        event of a pod and of a namespace (`cluster.cache.marker_pods`). `auxiliary`: kinds that others need.
        """
        self._readiness = readiness
        self._progress = store.watch_progress
        self._started = self._stopped = False
        self._client = client
        self._metrics = metrics
        self._backoff = store.backoff
        self._unreadable = store.unreadable
        self._lookups = WorkloadLookups(store, client)
        self.reflectors: dict[str, Reflector[Any]] = {
            "namespaces": self._reflector(
                "namespaces", "/api/v1/namespaces", _NAMESPACE, NamespaceEventHandler(store)
            ),
            "podgroups": self._reflector("podgroups", f"{SCHEDULING}/podgroups", _PODGROUP, store.podgroups),
            "queues": self._reflector("queues", f"{SCHEDULING}/queues", _QUEUE, QueueEventHandler(store)),
            "commands": self._reflector("commands", f"{BUS}/commands", _COMMAND, store.commands),
            "policies": self._reflector(
                "policies",
                f"/api/v1/namespaces/{policies.namespace}/configmaps",
                _CONFIG_MAP,
                store.policies,
                selector=f"metadata.name={policies.name}",
            ),
            **{key: self._workload_reflector(kind, store) for key, kind in KINDS.items()},
            # Members alone: the leader gives the label to those without (`controller.pods.member_labels`).
            "pods": self._reflector("pods", PODS, _POD, store.members, labels=well_known.QUEUE),
        }
        self._auxiliary = {
            each.kind: self._reflector(
                *(each.kind, each.path, each.decoder, each.handler),
                selector=each.selector,
                labels=each.labels,
                synced=each.synced or threading.Event(),
                refused=each.refused,
            )
            for each in auxiliary
        }
        self.reflectors |= self._auxiliary
        self._scoring = ScoringReflectors(
            new_scoring=self._new_scoring,
            new_reflector=self._new_scoring_reflector,
            monotonic=store.clock.monotonic,
        )
        self._store = store
        follow_departures(store, self.scoring)
        self._system_pods = OnDemandReflectors(lambda: {SYSTEM_PODS: self._new_system_pods_reflector()})
        self._node_totals = OnDemandReflectors(lambda: {NODE_TOTALS: self._new_node_totals_reflector()})
        self._device_claims = OnDemandReflectors(self._new_device_reflectors)
        self._priority_classes = OnDemandReflectors(self._new_priority_class_reflector)
        self._on_demand = (
            *(self._scoring.reflectors, self._system_pods, self._node_totals),
            *(self._device_claims, self._priority_classes),
        )
        store.podgroups.add_class_listener(lambda needed: self._priority_classes.follow(needed=needed))
        store.queue_cache.add_devices_listener(lambda needed: self._device_claims.follow(needed=needed))
        store.policies.add_listener(lambda _before, after: self._scoring.follow(after))
        store.policies.add_listener(
            lambda _before, after: self._system_pods.follow(needed=after.protects_system_pods)
        )
        store.node_totals.on_need(lambda needed: self._node_totals.follow(needed=needed))
        self._definitions = Definitions(self._relist_own_kinds, faults=readiness.definition_faults)
        self.reflectors |= {
            kind: self._definition_reflector(kind, name) for kind, name in DEFINITION_KINDS.items()
        }
        self._relisting = Debouncer(
            store.member_relists, self._relist_members, name="relisting", clock=store.clock.monotonic
        )
        self._lookups.attach({key: self.reflectors[key] for key in KINDS})
        self._looking_up = Debouncer(
            store.missing_owners.lookups,
            self._lookups.look_up,
            name="workload-lookups",
            clock=store.clock.monotonic,
        )
        store.watch_progress.attach("pods", self.reflectors["pods"], marker=marker, two_steps=marker)
        store.watch_progress.attach("namespaces", self.reflectors["namespaces"], marker=namespace_marker)
        for kind in ("queues", "podgroups"):
            store.watch_progress.attach(kind, self.reflectors[kind])
        for each in auxiliary:
            store.watch_progress.attach(each.kind, self.reflectors[each.kind], marker=each.marker)

    def _workload_reflector(self, kind: WorkloadKind, store: Store) -> Reflector[WorkloadObject]:
        handler = WorkloadEventHandler(kind, store, find=self._lookups.find, relist=self._lookups.relist)
        options = self._options(kind.key, _WORKLOAD)
        return Reflector(
            kind=kind.key,
            path=kind.path,
            decode=_WORKLOAD.decode,
            handler=handler,
            client=self._client,
            counters=self._metrics,
            options=replace(options, optional=kind.optional, selection=handler),
        )

    def _relist_members(self) -> Callable[[], bool]:
        """Start listing every kind that may have members; return a function that says whether it is done."""
        wanted = [(self.reflectors[kind], self.reflectors[kind].relist()) for kind in MEMBER_KINDS]
        return lambda: all(reflector.completed >= number for reflector, number in wanted)

    def _reflector(
        self,
        kind: str,
        path: str,
        decoder: ObjectDecoder,
        handler: Any,
        *,
        selector: str = "",
        labels: str = "",
        synced: threading.Event | None = None,
        refused: Callable[[], object] = lambda: None,
    ) -> Reflector[Any]:
        return Reflector(
            kind=kind,
            path=path,
            decode=decoder.decode,
            handler=handler,
            client=self._client,
            counters=self._metrics,
            options=replace(
                self._options(kind, decoder, selector=selector, labels=labels, synced=synced), refused=refused
            ),
        )

    def _options(
        self,
        kind: str,
        decoder: ObjectDecoder,
        *,
        selector: str = "",
        labels: str = "",
        synced: threading.Event | None = None,
    ) -> ReflectorOptions[Any]:
        return ReflectorOptions(
            selector=selector,
            labels=labels,
            watch_seconds=SHORT_WATCH_SECONDS if kind in SHORT_WATCH_KINDS else None,
            advanced=self._progress.advanced,
            answered=self._retry_all_now,
            backoff=self._backoff,
            lenient=decoder.lenient,
            unreadable=self._unreadable,
            synced=synced or self._readiness.kinds[kind],
        )

    def _new_scoring(self) -> NodeScoring:
        from cluster.scoring.node_scoring import NodeScoring  # noqa: PLC0415 - loads numpy

        return NodeScoring(
            namespace_labels=self._store.namespaces.labels_of, monotonic=self._store.clock.monotonic
        )

    def _new_scoring_reflector(self, kind: ScoredKind) -> Reflector[Any]:
        return self._reflector(
            kind.kind,
            kind.path,
            _SCORING[kind.kind],
            kind.handler,
            selector=kind.selector,
            synced=kind.synced,
        )

    def _new_system_pods_reflector(self) -> Reflector[Any]:
        return self._reflector(
            SYSTEM_PODS,
            PODS,
            _SYSTEM_POD,
            self._store.system_pods,
            selector=ASSIGNED,
            labels=f"!{well_known.QUEUE}",
            synced=threading.Event(),
        )

    def _new_node_totals_reflector(self) -> Reflector[Any]:
        return self._reflector(
            NODE_TOTALS, NODES_PATH, _SIZED_NODE, self._store.node_totals, synced=threading.Event()
        )

    def _new_device_reflectors(self) -> dict[str, Reflector[Any]]:
        known = self._store.device_claims
        return {
            CLAIMS: self._device_reflector(CLAIMS, "resourceclaims", _CLAIM, known.claims),
            CLASSES: self._device_reflector(CLASSES, "deviceclasses", _CLASS, known.classes),
        }

    def _new_priority_class_reflector(self) -> dict[str, Reflector[Any]]:
        reflector = self._reflector(
            PRIORITY_CLASSES,
            PRIORITY_CLASSES_PATH,
            _PRIORITY_CLASS,
            self._store.priority_classes,
            synced=threading.Event(),
        )
        return {PRIORITY_CLASSES: reflector}

    def _device_reflector(
        self, kind: str, plural: str, decoder: ObjectDecoder, handler: ClaimEvents | ClassEvents
    ) -> Reflector[Any]:
        options = self._options(kind, decoder, synced=threading.Event())
        return Reflector(
            kind=kind,
            path=f"{DEVICES}/{plural}",
            decode=decoder.decode,
            handler=handler,
            client=self._client,
            counters=self._metrics,
            options=replace(options, optional=True, missing=handler.not_served),
        )

    def scoring(self) -> NodeScoring | None:
        """What scores nodes now; None while no policy does, or nodes and pods have not been read."""
        return self._scoring.scoring()

    def is_reading_for_scores(self) -> bool:
        """Whether nodes and pods are being read for policies that have begun to score."""
        return self._scoring.is_reading()

    def _retry_all_now(self) -> None:
        """Retry all reflectors now: the API server has answered one of them again."""
        for reflector in self.reflectors.values():
            reflector.retry_now()
        for reflectors in self._on_demand:
            reflectors.retry_now()

    def _definition_reflector(self, kind: str, name: str) -> Reflector[Any]:
        """Watch one definition by its name: our role allows no other."""
        handler = DefinitionEventHandler(name, self._definitions)
        return self._reflector(kind, DEFINITIONS, _DEFINITION, handler, selector=f"metadata.name={name}")

    def _relist_own_kinds(self) -> None:
        """List again the kinds that may have been served without their fields."""
        for kind in ("queues", "podgroups", "commands"):
            self.reflectors[kind].relist()

    def start(self, *, patience: float) -> None:
        """Start all reflectors; wait up to `patience` seconds for `MEMBERSHIP_KINDS` before the others."""
        self._progress.start()
        self._relisting.start()
        self._looking_up.start()
        self._started = True
        for reflector in self._auxiliary.values():
            reflector.start()
        for kind in MEMBERSHIP_KINDS:
            self.reflectors[kind].start()
        until = time.monotonic() + patience
        for kind in MEMBERSHIP_KINDS:
            self._await_synced(kind, until)
        if self._stopped:
            return
        for kind in MEMBER_KINDS:
            self.reflectors[kind].start()

    def _await_synced(self, kind: str, until: float) -> None:
        """Wait until the kind is in sync, at most until that time, and not after `stop`."""
        synced = self.reflectors[kind].synced
        while not self._stopped and (left := until - time.monotonic()) > 0:
            if synced.wait(min(left, STOP_SECONDS)):
                return

    def dead(self) -> list[str]:
        """Return the names of the threads that were started and have ended."""
        threads = {f"reflector-{kind}": reflector for kind, reflector in self.reflectors.items()}
        dead = [name for name, reflector in threads.items() if reflector.has_died]
        dead += [name for reflectors in self._on_demand for name in reflectors.dead()]
        if self._started:
            dead += [] if self._progress.alive else ["progress"]
            dead += [] if self._relisting.alive else ["relisting"]
            dead += [] if self._looking_up.alive else ["workload-lookups"]
        return dead

    def stop(self) -> None:
        """Stop all reflectors, also while another thread starts them: its `start` returns soon."""
        self._stopped = True
        with ExitStack() as stops:  # in the reverse order; each, though another one raises
            for reflector in self.reflectors.values():
                stops.callback(reflector.stop)
            for reflectors in self._on_demand:
                stops.callback(reflectors.stop)
            for thread in (self._looking_up, self._relisting, self._progress):
                stops.callback(thread.stop)

    def relist_queues(self) -> Callable[[], bool]:
        """Start a new list of the queues; return a function that says whether it is done."""
        queues = self.reflectors["queues"]
        number = queues.relist()
        return lambda: queues.completed >= number
