"""Everything that runs beside the app in one process, started and stopped in order.

| thread             | owner        | stops                                    |
|--------------------|--------------|------------------------------------------|
| `reflector-<kind>` | `Informers`   | its read is cut                          |
| `queue-controller` | `Runtime`    | after the queue under way                |
| `writer-<n>`       | `WriteQueue`    | after the write under way                |
| `guard-writer-<n>` | `WriteQueue`    | after the write or probe under way       |
| `drain-writer-<n>` | `WriteQueue`    | after the eviction under way             |
| `certificates`     | `Runtime`    | at once                                  |
| `starting`         | `Runtime`    | once the whole cluster has been read     |
| `relisting`        | `Informers`   | at once                                  |
| `progress`         | `Store`      | after the request under way              |
| `presence`         | `Runtime`    | when our own Lease is deleted            |
| `elector`          | `Runtime`    | when the leader's Lease is given up      |

Start: the certificate and its registration first, then the reflectors in a thread of their own
(nothing waits for the API server: the server answers "not ready" meanwhile), then the rest.

A thread that has ended and was not stopped is named by `dead_threads`, and so by `/healthz`.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from certs.ca_bundle import register
from certs.exceptions import CertificateError
from certs.secret_store import load_or_create
from certs.serving_certificate import ensure
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
from cluster.coordination.replicas import (
    MAX_PASSES_NAMED,
    MAX_QUEUES_NAMED,
    OtherReplicas,
    ReplicaLease,
    ReplicaReport,
)
from cluster.exceptions import ClusterError
from cluster.informers.informers import Informers
from cluster.metrics import Metrics
from cluster.recorder import EventRecorder
from cluster.write_queue import WriteQueue
from controller.context import ControllerContext
from controller.controller import QueueController
from queues.membership import MembershipSettings
from server.configuration import Settings
from webhooks.settings import AdmissionSettings

#: Somebody may have applied the webhooks anew, without our authority.
CERTIFICATE_SECONDS = 30.0
RETRY_SECONDS = 1.0
READY_SECONDS = 0.05
PATIENCE_SECONDS = 30.0
GUARD_THREADS = 2
#: Evictions of so many budgets go side by side: each waits in the API server for its budget's status.
DRAIN_THREADS = 8
#: For the reflectors, the controller and the certificates, beside the writers.
CONNECTIONS = 16
#: A Lease lasts six: one attempt that hangs must not be its end for long.
LEASE_READ_SECONDS = 3.0
#: A probe of an API server that does not answer keeps the probes of others waiting.
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
        # Of its own, so that a Lease waits for nobody and is asked for again soon. It asks all the time, so
        # it knows what time it is for the API server.
        lease_client = Client(
            load_configuration(settings.kubeconfig or None), connections=3, read_seconds=LEASE_READ_SECONDS
        )
        self.counting = Metrics()
        self.store = Store(
            rules=_rules(settings),
            clock=Clock(lambda: lease_client.ahead),
            request_seconds=settings.request_timeout,
            failed=self.counting.failed,
        )
        self._informers = Informers(
            client=self.client,
            store=self.store,
            metrics=self.counting,
            marker=MarkerPods(lease_client, namespace=settings.namespace),
        )
        self._writers = self._new_writers("writer", settings.writers)
        self._guard_writers = self._new_writers("guard-writer", GUARD_THREADS)
        self._drain_writers = self._new_writers("drain-writer", DRAIN_THREADS)
        identity = _identity()
        leases = Leases(lease_client, namespace=settings.namespace)
        clock = self.store.clock.monotonic
        self._presence = ReplicaLease(
            leases,
            identity=identity,
            clock=clock,
            view=self._report,
            fresh=self._request_relist,
            lingering=lambda: bool(self.store.admissions.queues()),
            renewed=self.store.record_write,
        )
        self._elector = LeaderElector(
            leases,
            identity=identity,
            clock=clock,
            elected=self._elected,
            eligible=lambda: self.store.synced,
        )
        self.store.ready_when(lambda: self._informers.synced() and self._presence.alive)
        self.store.cut_off = self._cut_off
        self.store.marker_seen = self._presence.report_pods
        self.store.add_listener(self._note_change)
        recorder = EventRecorder(client=self.client, writers=self._writers, metrics=self.counting)
        self._controller = QueueController(
            ControllerContext(
                store=self.store,
                client=self.client,
                api_servers=ApiServerEndpoints(
                    self.client, connect=self._connect, clock=clock, urls=settings.api_servers
                ),
                writers=self._writers,
                guard_writers=self._guard_writers,
                drain_writers=self._drain_writers,
                drain_rate=settings.drain_rate,
                drain_in_flight=settings.drain_in_flight,
                drain_grace_limit=settings.drain_grace_limit,
                recorder=recorder,
                counting=self.counting,
                others=OtherReplicas(leases, identity=identity, clock=clock),
                namespace=settings.namespace,
                leading=lambda: self._elector.leading and self._presence.alive,
                term=lambda: self._elector.term,
            )
        )
        self._ready: Callable[[], object] = lambda: None
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []
        #: Those of them that have done what they were for.
        self._completed_threads: set[str] = set()

    def _new_writers(self, name: str, threads: int) -> WriteQueue:
        return WriteQueue(metrics=self.counting, threads=threads, name=name, backoff=self.store.backoff)

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
        self._ready = ready
        self._presence.start()
        self._elector.start()
        self._writers.start()
        self._guard_writers.start()
        self._drain_writers.start()
        self._controller.start()
        for name, work in (("certificates", self._certify), ("starting", self._start_watching)):
            thread = threading.Thread(target=self._run_logged, args=(name, work), name=name, daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """Stop every thread, the controller first, so that it writes nothing from half a view."""
        self._stopped.set()
        self._controller.stop()
        self._elector.stop()
        self._presence.stop()
        self._informers.stop()
        self._writers.stop()
        self._guard_writers.stop()
        self._drain_writers.stop()
        for thread in self._threads:
            thread.join(timeout=5)

    def dead_threads(self) -> list[str]:
        """The threads that should be alive and are not."""
        if self._stopped.is_set():
            return ["the server is stopping"]
        names = [] if self._controller.alive else ["queue-controller"]
        names += [] if self._presence.running else ["presence"]
        names += [] if self._elector.running else ["elector"]
        names += self._informers.dead()
        for writers in (self._writers, self._guard_writers, self._drain_writers):
            names += writers.dead()
        return [
            *names,
            *(
                thread.name
                for thread in self._threads
                if not thread.is_alive() and thread.name not in self._completed_threads
            ),
        ]

    def missing_for_ready(self) -> list[str]:
        """What has not been read of the cluster yet, and what is wrong with our definitions in it."""
        names = [f"{kind} have not been read yet" for kind in self._informers.unsynced()]
        names += self._informers.faults()
        return names if self._presence.alive else [*names, "our Lease is not held"]

    def _connect(self, url: str) -> Client:
        """One API server, by an address of its own."""
        config = load_configuration(self.settings.kubeconfig or None)
        config.host, config.tls_server_name = url, API_SERVER_NAME
        return Client(config, connections=GUARD_THREADS, read_seconds=PROBE_READ_SECONDS)

    def _report(self) -> ReplicaReport:
        """What we have seen; the version is read first, for the passes may only be newer."""
        store = self.store
        seen = max(store.snapshot_version, store.progress.applied("queues"))
        pods = store.progress.applied("pods")
        store.drop_settled_passes()
        stopped = store.stopped_queues_with_passes()
        return ReplicaReport(
            seen,
            open=_names_or_none(stopped),
            admitting=_names_or_none(store.closed_queues_with_admissions()),
            pods=pods,
            passes=store.list_open_passes(stopped, most=MAX_PASSES_NAMED),
            binds=_names_or_none(store.stopped_queues_with_binds()),
        )

    def _note_change(self, _queue: str, change: Change) -> None:
        """Other replicas wait until our Lease says that we have seen it."""
        if change is QueueChange.SPEC:
            self._presence.report_change()

    def _request_relist(self) -> Callable[[], bool]:
        queues = self._informers.reflectors["queues"]
        number = queues.relist()
        return lambda: queues.completed >= number

    def _cut_off(self) -> bool:
        """Whether what we know of the queues can be relied upon no more."""
        return self._presence.held.is_set() and (not self._presence.alive or bool(self._informers.faults()))

    def _elected(self) -> None:
        self._controller.elected()

    def _start_watching(self) -> None:
        while not self._presence.held.wait(0.1):
            if self._stopped.is_set():
                return
        self._informers.start(patience=PATIENCE_SECONDS)
        while not self.store.synced:
            if self._stopped.wait(READY_SECONDS):
                return
        self._ready()

    def _run_logged(self, name: str, work: Callable[[], None]) -> None:
        """Call `work`; an error is logged and ends the thread, which `dead_threads` then names."""
        try:
            work()
            self._completed_threads.add(name)
        except Exception:
            log.exception("thread %s ended", name)

    def _certify(self) -> None:
        wait = 0.0
        while not self._stopped.wait(wait):
            try:
                changed = register(
                    self.client, certificate=ensure_certificate(self.settings, client=self.client)
                )
                if changed:
                    log.info("caBundle written into %d webhooks", changed)
                wait = CERTIFICATE_SECONDS
            except (ClusterError, CertificateError, OSError) as exc:
                log.warning("the webhooks cannot be given our caBundle yet: %s", exc)
                wait = RETRY_SECONDS
            except Exception:
                log.exception("the webhooks cannot be given our caBundle yet")
                wait = CERTIFICATE_SECONDS


def _names_or_none(queues: tuple[str, ...]) -> tuple[str, ...] | None:
    """As many as a Lease has room for; of more it is not said which they are."""
    return queues if len(queues) <= MAX_QUEUES_NAMED else None


def ensure_certificate(settings: Settings, *, client: Client) -> bytes:
    """Have a good serving certificate in the folder of the settings; the authority's certificate."""
    folder, now = Path(settings.certs_dir), datetime.now(UTC)
    if settings.ca_secret:
        folder.mkdir(parents=True, exist_ok=True)
        load_or_create(client, namespace=settings.namespace, name=settings.ca_secret, folder=folder, now=now)
    return ensure(folder, hosts=settings.served_hosts, now=now).certificate


def _identity() -> str:
    """A name for this process, which no other has: that of its pod where it is told, and some chance."""
    host = os.environ.get("POD_NAME") or socket.gethostname()
    return f"{host[:40]}-{secrets.token_hex(4)}".lower()


def _rules(settings: Settings) -> MembershipSettings:
    return MembershipSettings(
        owned_schedulers=frozenset(settings.owned_schedulers),
        kueue=settings.kueue_label,
        exempt_namespaces=frozenset({"kube-system", settings.namespace}),
    )
