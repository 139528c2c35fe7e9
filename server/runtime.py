"""Builds everything that runs beside the app in one process, and starts and stops it in order.

| thread             | owner        | stops                                    |
|--------------------|--------------|------------------------------------------|
| `reflector-<kind>` | `Informers`   | its read is cut                          |
| `queue-controller` | `Runtime`    | after the queue under way                |
| `writer-<n>`       | `WriteQueue`    | after the write under way                |
| `guard-writer-<n>` | `WriteQueue`    | after the write or probe under way       |
| `drain-writer-<n>` | `WriteQueue`    | after the eviction under way             |
| `lease-reader-<n>` | `WriteQueue`    | after the list of Leases under way       |
| `certificates`     | `CertificateThread` | at once                           |
| `starting`         | `Runtime`    | once the whole cluster has been read     |
| `relisting`        | `Informers`   | at once                                  |
| `progress`         | `Store`      | after the request under way              |
| `presence`         | `Runtime`    | when our own Lease is deleted            |
| `elector`          | `Runtime`    | when the leader's Lease is given up      |

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
from functools import partial

from cluster.api.client import Client, load_configuration
from cluster.api.servers import API_SERVER_NAME, ApiServerEndpoints
from cluster.cache.changes import Change, QueueChange
from cluster.cache.marker_pods import MarkerPods
from cluster.cache.store import (
    Clock,
    Store,
)
from cluster.coordination.leader_election import LeaderElector
from cluster.coordination.leases import Leases
from cluster.coordination.replica_report import report_of
from cluster.coordination.replicas import OtherReplicas, ReplicaLease
from cluster.informers.informers import ALL_KINDS, Informers
from cluster.metrics import Metrics
from cluster.readiness import ClusterReadiness
from cluster.recorder import EventRecorder
from cluster.write_queue import WriteQueue
from controller.context import ControllerContext
from controller.controller import QueueController
from controller.workqueue import WorkQueue
from queues.membership import MembershipSettings
from server.certificate_thread import CertificateThread
from server.configuration import Settings
from webhooks.settings import AdmissionSettings

READY_SECONDS = 0.05
PATIENCE_SECONDS = 30.0
GUARD_THREADS = 2
#: Parallel evictions: each waits in the API server for the status of its budget.
DRAIN_THREADS = 8
#: Parallel lists of Leases: one that hangs delays no acknowledgement.
LEASE_THREADS = 3
#: For the reflectors, the controller and the certificates, besides those of the writers.
CONNECTIONS = 16
#: A Lease lasts six seconds: one renewal that hangs must not end it for long.
LEASE_READ_SECONDS = 3.0
#: Probes of other API servers wait while one does not answer.
PROBE_READ_SECONDS = 3.0

log = logging.getLogger(__name__)


class Runtime:
    """One server's threads. Owner: the worker process. Nothing runs before `start`."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.client = Client(
            load_configuration(settings.kubeconfig or None),
            connections=CONNECTIONS + settings.writers + GUARD_THREADS + DRAIN_THREADS,
        )
        # A client of its own, so that renewing a Lease waits for no other request and is retried soon. It
        # sends requests all the time, so it knows the API server's time.
        lease_client = Client(
            load_configuration(settings.kubeconfig or None),
            connections=3 + LEASE_THREADS,
            read_seconds=LEASE_READ_SECONDS,
        )
        self.metrics = Metrics()
        clock = Clock(lambda: lease_client.ahead)
        self._readiness = ClusterReadiness(ALL_KINDS, clock=clock.monotonic)
        self.store = Store(
            rules=_rules(settings),
            clock=clock,
            readiness=self._readiness,
            request_seconds=settings.request_timeout,
            failed=self.metrics.failed,
        )
        self._informers = Informers(
            client=self.client,
            store=self.store,
            readiness=self._readiness,
            metrics=self.metrics,
            marker=MarkerPods(lease_client, namespace=settings.namespace),
        )
        self._writers = self._new_writers("writer", settings.writers)
        self._guard_writers = self._new_writers("guard-writer", GUARD_THREADS)
        self._drain_writers = self._new_writers("drain-writer", DRAIN_THREADS)
        self._lease_readers = self._new_writers("lease-reader", LEASE_THREADS)
        identity = _identity()
        leases = Leases(lease_client, namespace=settings.namespace)
        self._presence = ReplicaLease(
            leases,
            identity=identity,
            clock=clock.monotonic,
            report=partial(report_of, self.store),
            relist_queues=self._informers.relist_queues,
            lingering=lambda: bool(self.store.admissions.queues()),
            renewed=self.store.record_write,
            validity=self._readiness.lease,
        )
        self._elector = LeaderElector(
            leases,
            identity=identity,
            clock=clock.monotonic,
            eligible=lambda: self.store.synced,
        )
        self.store.add_marker_listener(self._presence.report_pods)
        self.store.add_listener(self._note_change)
        recorder = EventRecorder(client=self.client, writers=self._writers, metrics=self.metrics)
        self._controller = QueueController(
            ControllerContext(
                store=self.store,
                client=self.client,
                api_servers=ApiServerEndpoints(
                    self.client, connect=self._connect, clock=clock.monotonic, urls=settings.api_servers
                ),
                writers=self._writers,
                guard_writers=self._guard_writers,
                drain_writers=self._drain_writers,
                lease_readers=self._lease_readers,
                work_queue=WorkQueue(clock.monotonic, backoff=self.store.backoff),
                drain_rate=settings.drain_rate,
                drain_in_flight=settings.drain_in_flight,
                drain_grace_limit=settings.drain_grace_limit,
                recorder=recorder,
                metrics=self.metrics,
                other_replicas=OtherReplicas(leases, identity=identity, clock=clock.monotonic),
                namespace=settings.namespace,
                leading=lambda: self._elector.leading and self._presence.alive,
                term=lambda: self._elector.term,
            )
        )
        self._certificates = CertificateThread(settings, client=self.client)
        self._starting: threading.Thread | None = None
        self._elector.add_listener(self._controller.elected)
        self._stopped = threading.Event()
        #: Whether `starting` has done its work.
        self._started = False

    def _new_writers(self, name: str, threads: int) -> WriteQueue:
        return WriteQueue(metrics=self.metrics, threads=threads, name=name, backoff=self.store.backoff)

    @property
    def terms(self) -> AdmissionSettings:
        return AdmissionSettings(
            own_user=self.settings.own_user,
            marked_schedulers=frozenset(self.settings.schedulers),
            scheduler_users=frozenset(self.settings.scheduler_users),
            controller_users=frozenset(self.settings.controller_users),
            depth_limit=self.settings.depth_limit,
        )

    def start(self, *, ready: Callable[[], object] = lambda: None) -> None:
        """Start every thread; returns at once. `ready` is called once the whole cluster has been read."""
        self._presence.start()
        self._elector.start()
        self._writers.start()
        self._guard_writers.start()
        self._drain_writers.start()
        self._lease_readers.start()
        self._controller.start()
        self._certificates.start()
        self._starting = threading.Thread(
            target=self._start_watching, args=(ready,), name="starting", daemon=True
        )
        self._starting.start()

    def stop(self) -> None:
        """Stop every thread, the controller first: it must not act on a store that is no longer updated."""
        self._stopped.set()
        self._controller.stop()
        self._elector.stop()
        self._presence.stop()
        self._informers.stop()
        self._writers.stop()
        self._guard_writers.stop()
        self._drain_writers.stop()
        self._lease_readers.stop()
        self._certificates.stop()
        if self._starting is not None:
            self._starting.join(timeout=5)

    def dead_threads(self) -> list[str]:
        """The names of the threads that ended although nobody stopped them."""
        if self._stopped.is_set():
            return ["the server is stopping"]
        names = [] if self._controller.alive else ["queue-controller"]
        names += [] if self._presence.running else ["presence"]
        names += [] if self._elector.running else ["elector"]
        names += self._informers.dead()
        for writers in (self._writers, self._guard_writers, self._drain_writers, self._lease_readers):
            names += writers.dead()
        names += [] if self._certificates.alive else ["certificates"]
        is_starting = self._starting is not None and self._starting.is_alive()
        return names if self._started or is_starting else [*names, "starting"]

    def missing_for_ready(self) -> list[str]:
        """What has not been read of the cluster yet, and what is wrong with our definitions in it."""
        return self._readiness.missing()

    def _connect(self, url: str) -> Client:
        """A client of one API server, by its own address."""
        config = load_configuration(self.settings.kubeconfig or None)
        config.host, config.tls_server_name = url, API_SERVER_NAME
        return Client(config, connections=GUARD_THREADS, read_seconds=PROBE_READ_SECONDS)

    def _note_change(self, _queue: str, change: Change) -> None:
        """Other replicas wait until our Lease says that we have seen it."""
        if change is QueueChange.SPEC:
            self._presence.report_change()

    def _start_watching(self, ready: Callable[[], object]) -> None:
        """Start the reflectors once our Lease is held.

        An error ends the thread, and `dead_threads` names it.
        """
        try:
            if self._await_cluster():
                ready()
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


def _identity() -> str:
    """A unique name of this process: the name of its pod or host, and a random part."""
    host = os.environ.get("POD_NAME") or socket.gethostname()
    return f"{host[:40]}-{secrets.token_hex(4)}".lower()


def _rules(settings: Settings) -> MembershipSettings:
    return MembershipSettings(
        owned_schedulers=frozenset(settings.owned_schedulers),
        kueue=settings.kueue_label,
        exempt_namespaces=frozenset({"kube-system", settings.namespace}),
    )
