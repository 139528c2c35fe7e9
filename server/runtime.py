"""Builds everything that runs beside the app in one process, and starts and stops it in order.

docs/contributing/architecture.md#threads says what each thread does and how it stops.

Nothing waits for the API server at the start: the reflectors are started in a thread of their own once our
Lease is held, and until they have read the whole cluster the server answers "not ready".

A thread that has ended and was not stopped is named by `dead_threads`, and so by `/healthz`.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import structs

from certs.renewal import CertificateRenewal
from cluster import write_queue
from cluster.api.client import Client
from cluster.api.configuration import load_configuration
from cluster.api.servers import API_SERVER_NAME, ApiServerEndpoints
from cluster.background_thread import BackgroundThread
from cluster.cache.changes import QueueChange, StoreChange
from cluster.cache.marker_pods import MarkerAnnotation, MarkerPods
from cluster.cache.store import Clock, Store
from cluster.coordination.leader_election import LeaderElector
from cluster.coordination.lease_events import LeaseEvents
from cluster.coordination.leases import COORDINATION, LEASES, Lease, Leases
from cluster.coordination.own_lease import ReplicaLease
from cluster.coordination.replica_report import MAX_RETRYING_NAMED, ReplicaReport, report_of
from cluster.coordination.replicas import OtherReplicas
from cluster.informers.informers import (
    ALL_KINDS,
    AuxiliaryKind,
    Informers,
    ObjectDecoder,
    PolicyConfigMapName,
)
from cluster.informers.registrations import registration_kinds
from cluster.metrics import Metrics
from cluster.readiness import ClusterReadiness
from cluster.recorder import EventRecorder
from cluster.write_queue import WriteQueue
from cluster.write_ranks import WriteRank
from controller.context import ControllerContext
from controller.controller import QueueController
from controller.notices.receiver import Receiver
from controller.notices.sender import NoticeSender
from controller.notices.storage import CursorStorage
from controller.workqueue import WorkQueue
from queues.apimachinery.lenient import LenientReader
from queues.apimachinery.timestamps import rfc3339
from queues.managed_namespaces import staying_text
from queues.mode import Mode
from server.build import build_of
from server.preflight import ClockWatch
from server.registrations import expected_registrations
from server.settings import Settings

if TYPE_CHECKING:  # numpy comes with it
    from cluster.scoring.node_scoring import NodeScoring

READY_SECONDS = 0.05
PATIENCE_SECONDS = 30.0
#: Statuses have threads of their own: a write of anything else that hangs delays no acknowledgement.
STATUS_THREADS = 4
#: One thread sends a write that has waited for this long before all others: events and conditions of pods
#: beside a resume, and counts beside the stops of a thousand queues.
LONGEST_WAIT_SECONDS, LONGEST_COUNTS_WAIT_SECONDS = write_queue.PATIENCE_SECONDS, 5.0
GUARD_THREADS = 2
#: Parallel evictions: each waits in the API server, for a list of budgets and for the status of its budget.
DRAIN_THREADS = 40
#: Parallel lists of Leases: one that hangs delays no acknowledgement.
LEASE_THREADS = 3
#: Writes at once at the beginning of a resume: the first pod is bound sooner than beside eight others.
FIRST_WRITES = 2
#: Parallel lists of the pods that have no label of ours.
LISTER_THREADS = 3
#: For the reflectors, the controller and the certificates, besides those of the writers.
CONNECTIONS = 16
#: A Lease lasts six seconds: one renewal that hangs must not end it for long.
LEASE_READ_SECONDS = 3.0
#: A list that hangs is soon requested again; a stop may wait for it.
LIST_READ_SECONDS = 10.0

#: How many lines of what is lacking a Lease has room for.
MAX_LINES = 5

#: Made here, at import, as all decoders are (`cluster.informers.informers`).
_LEASE = ObjectDecoder(msgspec.json.Decoder(Lease).decode, LenientReader(Lease))

log = logging.getLogger(__name__)


class ThreadOwner(NamedTuple):
    """Starts and stops some threads. `dead`: the names of those that ended although nobody stopped them."""

    start: Callable[[], object]
    stop: Callable[[], object]
    dead: Callable[[], list[str]]


class Runtime:
    """One server's threads. Owner: the worker process. Nothing runs before `start`."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._version, self._build = version("sluice"), build_of()
        self.metrics = Metrics()
        self.client = self._new_client(
            connections=CONNECTIONS + settings.writers + STATUS_THREADS + GUARD_THREADS + DRAIN_THREADS
        )
        # A client of its own, so that renewing a Lease waits for no other request and is retried soon. It
        # sends requests all the time, so it knows the API server's time.
        lease_client = self._new_client(connections=3 + LEASE_THREADS, read_seconds=LEASE_READ_SECONDS)
        self._lease_client, self._clock_watch = lease_client, ClockWatch()
        clock = Clock(lambda: lease_client.clock_skew)
        self._readiness = ClusterReadiness(ALL_KINDS, clock=clock.monotonic)
        self.store = Store(
            membership_settings=settings.membership_settings,
            clock=clock,
            readiness=self._readiness,
            request_seconds=settings.request_timeout,
            drain_grace_limit=settings.drain_grace_limit,
            failed=self.metrics.failed,
            retries=self.metrics.retries,
        )
        self.store.registrations.expect(expected_registrations(settings))
        self._lease_events = LeaseEvents(clock=clock.monotonic)
        self._informers = Informers(
            client=self.client,
            store=self.store,
            readiness=self._readiness,
            metrics=self.metrics,
            marker=MarkerPods(lease_client, namespace=settings.namespace),
            namespace_marker=MarkerAnnotation(lease_client, namespace=settings.namespace),
            policies=PolicyConfigMapName(settings.policies_namespace, settings.policies_name),
            auxiliary=[self._watched_leases(), *registration_kinds(self.store.registrations)],
        )
        self._status_writers = statuses = self._new_writers(
            "status-writer", STATUS_THREADS, longest_wait=LONGEST_COUNTS_WAIT_SECONDS
        )
        self._writers = self._new_writers(
            "writer",
            settings.writers,
            slow_start=FIRST_WRITES,
            gives_way=lambda: statuses.count_before(WriteRank.COUNTS) > STATUS_THREADS,
        )
        self._guard_writers = self._new_writers("guard-writer", GUARD_THREADS)
        self._drain_writers = self._new_writers("drain-writer", DRAIN_THREADS)
        self._lease_readers = self._new_writers("lease-reader", LEASE_THREADS)
        self._pod_listers = self._new_writers("pod-lister", LISTER_THREADS)
        leases = Leases(lease_client, namespace=settings.namespace, now=clock.now)
        identity = _identity()
        self.certificates = CertificateRenewal(
            settings.certificate_settings,
            client=self.client,
            metrics=self.metrics,
            replicas=OtherReplicas(leases, identity=identity, clock=clock.monotonic),
            identity=identity,
        )
        self._presence = self._new_presence(leases, identity)
        self._elector = LeaderElector(
            leases,
            identity=identity,
            clock=clock.monotonic,
            eligible=lambda: self.store.synced,
            sightings=self._lease_events.sightings,
        )
        self.metrics.leader.set_function(lambda: float(self._elector.leading))
        self._controller = QueueController(self._controller_context(leases, identity))
        self._elector.add_listener(self._controller.elected)
        self._notices = self._new_notices() if settings.notices_dir else None
        self._starting = BackgroundThread(self._start_informers, name="starting")
        #: Whether `starting` has done its work.
        self._started = False
        self._stopped = threading.Event()
        self._on_ready: Callable[[], object] = lambda: None
        self._owners = self._thread_owners()

    def _new_client(self, *, connections: int, read_seconds: float | None = None, url: str = "") -> Client:
        """`url`: of one API server, by its own address."""
        config = load_configuration(self.settings.kubeconfig or None)
        if url:
            config.host, config.tls_server_name = url, API_SERVER_NAME
        if read_seconds is None:
            return Client(config, connections=connections)
        return Client(config, connections=connections, read_seconds=read_seconds)

    def _new_writers(
        self,
        name: str,
        threads: int,
        *,
        slow_start: int | None = None,
        gives_way: Callable[[], bool] | None = None,
        longest_wait: float = LONGEST_WAIT_SECONDS,
    ) -> WriteQueue:
        return WriteQueue(
            metrics=self.metrics,
            threads=threads,
            name=name,
            backoff=self.store.backoff,
            slow_start=slow_start,
            gives_way=gives_way,
            longest_wait=longest_wait,
        )

    def _new_presence(self, leases: Leases, identity: str) -> ReplicaLease:
        presence = ReplicaLease(
            leases,
            identity=identity,
            clock=self.store.clock.monotonic,
            report=self._report,
            relist_queues=self._informers.relist_queues,
            lingering=lambda: bool(self.store.admissions.queues()),
            has_binds=self.store.settling_binds.has_unfiltered,
            leads=lambda: self._elector.leading,
            renewed=self._lease_renewed,
            validity=self._readiness.lease,
        )
        self.store.add_marker_listener(presence.report_pods)
        self.store.add_listener(self._note_change)
        self.store.policies.add_listener(lambda _before, _after: presence.report_change())
        return presence

    def _controller_context(self, leases: Leases, identity: str) -> ControllerContext:
        settings, clock = self.settings, self.store.clock
        return ControllerContext(
            store=self.store,
            client=self.client,
            api_servers=ApiServerEndpoints(
                self.client, connect=self._connect, clock=clock.monotonic, urls=settings.api_servers
            ),
            writers=self._writers,
            status_writers=self._status_writers,
            guard_writers=self._guard_writers,
            drain_writers=self._drain_writers,
            lease_readers=self._lease_readers,
            pod_listers=self._pod_listers,
            list_client=self._new_client(connections=LISTER_THREADS, read_seconds=LIST_READ_SECONDS),
            work_queue=WorkQueue(clock.monotonic, backoff=self.store.backoff),
            drain_rate=settings.drain_rate,
            drain_in_flight=settings.drain_in_flight,
            drain_grace_limit=settings.drain_grace_limit,
            window_soon=timedelta(minutes=settings.window_soon),
            recorder=EventRecorder(client=self.client, writers=self._writers, metrics=self.metrics),
            metrics=self.metrics,
            other_replicas=OtherReplicas(
                leases,
                identity=identity,
                clock=clock.monotonic,
                events=self._lease_events,
                request_seconds=settings.request_timeout,
            ),
            namespace=settings.namespace,
            schedulers_ask=settings.mode != Mode.GATE,
            leading=self._leading,
            term=lambda: self._elector.term,
        )

    def _watched_leases(self) -> AuxiliaryKind:
        """The Leases of the replicas and of the leader. A renewal of our own is an event of them."""
        return AuxiliaryKind(
            kind=LEASES,
            path=f"{COORDINATION}/namespaces/{self.settings.namespace}/leases",
            labels="",
            decoder=_LEASE,
            handler=self._lease_events,
            marker=self._renew_lease,
        )

    def _renew_lease(self) -> None:
        self._presence.cause_event()

    def _new_notices(self) -> NoticeSender:
        return NoticeSender(
            store=self.store,
            storage=CursorStorage(self.client, namespace=self.settings.namespace),
            receiver=Receiver(Path(self.settings.notices_dir), agent=f"sluice/{self._version}"),
            leading=self._leading,
            term=lambda: self._elector.term,
            metrics=self.metrics,
            recorder=EventRecorder(client=self.client, writers=self._writers, metrics=self.metrics),
            window_soon=timedelta(minutes=self.settings.window_soon),
        )

    def _leading(self) -> bool:
        return self._elector.leading and self._presence.alive

    def _thread_owners(self) -> list[ThreadOwner]:
        """In the order in which they are started.

        They are stopped in the reverse order: the controller first, for it must not act on a store that is
        no longer updated.
        """
        controller, elector, presence = self._controller, self._elector, self._presence
        certificates, informers, notices = self.certificates, self._informers, self._notices
        writers = (
            self._writers,
            self._status_writers,
            self._guard_writers,
            self._drain_writers,
            self._lease_readers,
            self._pod_listers,
        )
        return [
            ThreadOwner(self._starting.start, lambda: self._starting.join(timeout=5), self._dead_starting),
            ThreadOwner(
                certificates.start, certificates.stop, _unless(lambda: certificates.alive, "certificates")
            ),
            *(ThreadOwner(queue.start, queue.stop, queue.dead) for queue in writers),
            ThreadOwner(lambda: None, informers.stop, informers.dead),  # the thread `starting` starts them
            ThreadOwner(presence.start, presence.stop, _unless(lambda: presence.running, "presence")),
            ThreadOwner(elector.start, elector.stop, _unless(lambda: elector.running, "elector")),
            ThreadOwner(
                controller.start, controller.stop, _unless(lambda: controller.alive, "queue-controller")
            ),
            *(
                [ThreadOwner(notices.start, notices.stop, _unless(lambda: notices.alive, "notices"))]
                if notices is not None
                else []
            ),
        ]

    def start(self, *, ready: Callable[[], object] = lambda: None) -> None:
        """Start every thread; returns at once. `ready` is called once the whole cluster has been read."""
        self._on_ready = ready
        for owner in self._owners:
            owner.start()

    def stop(self) -> None:
        """Stop every thread, those of a start that failed half-way too. An owner whose stop raises keeps none
        of the others running; the exception is raised at the end.
        """
        self._stopped.set()
        with ExitStack() as stops:  # in the reverse order
            for owner in self._owners:
                stops.callback(owner.stop)

    def dead_threads(self) -> list[str]:
        """The names of the threads that ended although nobody stopped them."""
        if self._stopped.is_set():
            return ["the server is stopping"]
        return [name for owner in self._owners for name in owner.dead()]

    def scoring(self) -> NodeScoring | None:
        """What scores nodes now, if anything does."""
        return self._informers.scoring()

    def is_reading_for_scores(self) -> bool:
        """Whether nodes and pods are being read for policies that have begun to score."""
        return self._informers.is_reading_for_scores()

    def missing_for_ready(self) -> list[str]:
        """What has not been read of the cluster yet, and what is wrong with our definitions in it."""
        return [*self._readiness.missing(), *self.certificates.expired()]

    def _report(self) -> ReplicaReport:
        until = self.certificates.expires
        return structs.replace(
            report_of(self.store),
            ca=self.certificates.issuer or None,
            certificate_until=rfc3339(until) if until is not None else None,
            registration=tuple(self.store.registrations.state.lines[:MAX_LINES]),
            version=self._version,
            build=self._build,
            scheduler="" if self.settings.warnings else self.settings.scheduler_name,
            retrying=self._retrying() or None,
        )

    def _retrying(self) -> tuple[tuple[str, str, str], ...]:
        now, monotonic = self.store.clock.now(), self.store.clock.monotonic()
        said = self.metrics.retries.lasting()[:MAX_RETRYING_NAMED]
        return tuple(
            (retry.loop, rfc3339(now - timedelta(seconds=monotonic - retry.since)), retry.why)
            for retry in said
        )

    def _lease_renewed(self, began: float, version: int) -> None:
        self.store.own_writes.record(began, version)
        self._clock_watch.observe(self._lease_client.clock_skew)

    def _connect(self, url: str) -> Client:
        """Probes of the bind guard say how long each may take."""
        return self._new_client(connections=GUARD_THREADS, url=url)

    def _note_change(self, _queue: str, change: StoreChange) -> None:
        """Other replicas wait until our Lease says that we have seen it."""
        if change is QueueChange.SPEC:
            self._presence.report_change()

    # The thread `starting`.

    def _dead_starting(self) -> list[str]:
        return [] if self._starting.alive or self._started else ["starting"]

    def _start_informers(self) -> None:
        """Start the informers once our Lease is held.

        An error ends the thread, and `dead_threads` names it.
        """
        try:
            if self._await_cluster():
                self._on_ready()
                if staying := self.store.live_members.unmanaged_pods():
                    log.warning("%s", staying_text(staying))
            self._started = True
        except Exception:
            log.exception("thread starting ended")

    def _await_cluster(self) -> bool:
        """Whether the whole cluster was read before the server stopped."""
        while not self._readiness.lease.held.wait(0.1):
            if self._stopped.is_set():
                return False
        self._informers.start(patience=PATIENCE_SECONDS)
        while not self.store.synced:
            if self._stopped.wait(READY_SECONDS):
                return False
        return True


def _unless(alive: Callable[[], bool], name: str) -> Callable[[], list[str]]:
    return lambda: [] if alive() else [name]


def _identity() -> str:
    """A unique name of this process: the name of its pod or host, and a random part."""
    host = os.environ.get("POD_NAME") or socket.gethostname()
    return f"{host[:40]}-{secrets.token_hex(4)}".lower()
