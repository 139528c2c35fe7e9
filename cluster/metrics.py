"""The metrics of everything below the server.

Every metric is made here, once, so that one list can be checked against `docs/reference/metrics.md`.
Each `Metrics` has its own registry, so that two servers in one process (tests) do not mix.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector

from cluster.renamed_metrics import FormerName, MetricSource, RenamedMetrics
from cluster.retries import Retries

# A series `_created` for each counter and bucket set: Prometheus' text format has no use for it.
disable_created_metrics()  # type: ignore[no-untyped-call]

#: Label `how` of metric `sluice_workload_suspensions`; others are of pods.
WORKLOAD_STOPS = frozenset({"Suspend", "Scale"})
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)


class Metrics:
    """The metrics of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "sluice_requests", "Requests answered or refused", ["path", "code"], registry=self.registry
        )
        self.request_duration = Histogram(
            "sluice_request_duration_seconds",
            "Time inside a request handler",
            ["path"],
            registry=self.registry,
            buckets=_SECONDS,
        )
        self.lists = Counter(
            "sluice_reflector_lists", "Lists that were read whole, by kind", ["kind"], registry=self.registry
        )
        self.watch_events = Counter(
            "sluice_reflector_events", "Events of watches by kind", ["kind"], registry=self.registry
        )
        self.reflector_errors = Counter(
            "sluice_reflector_errors",
            "Lists and watches that failed, by kind",
            ["kind"],
            registry=self.registry,
        )
        self.unreadable_reads = Counter(
            "sluice_reflector_unreadable",
            "Objects in lists and events that could not be read in full, by kind",
            ["kind"],
            registry=self.registry,
        )
        self.writes = Counter(
            "sluice_writes", "Writes to the API server", ["what", "outcome"], registry=self.registry
        )
        self.failures = Counter(
            "sluice_failures",
            "What failed for one key (an object, a queue, a step, a write) and is tried again later, by step",
            ["step"],
            registry=self.registry,
        )
        #: Of the loops that retry by themselves.
        self.retries = Retries()
        self.registry.register(self.retries)
        self.commands = Counter(
            "sluice_commands", "Commands handled", ["action", "outcome"], registry=self.registry
        )
        self.events = Counter("sluice_events", "Events", ["outcome"], registry=self.registry)
        self.members = Gauge("sluice_members", "Member pods held", registry=self.registry)
        self.queues = Gauge("sluice_queues", "Queues by state", ["state"], registry=self.registry)
        self.unguarded = Gauge(
            "sluice_unmarked_members",
            "Waiting member pods that kube-scheduler does not ask us about",
            registry=self.registry,
        )
        self.orphans = Gauge(
            "sluice_members_without_queue",
            "Member pods whose queue or PodGroup is not there",
            registry=self.registry,
        )
        self.unmanaged = Gauge(
            "sluice_unmanaged_members",
            "Live member pods in namespaces that setting managed_namespaces does not select, by queue;"
            " of more than 200 queues those of the rest are of _other",
            ["queue"],
            registry=self.registry,
        )
        self.unreadable = Gauge(
            "sluice_unreadable",
            "Objects that cannot be read in full, by kind",
            ["kind"],
            registry=self.registry,
        )
        self.policies = Gauge(
            "sluice_policies",
            "Scheduling policies of the ConfigMap by state",
            ["state"],
            registry=self.registry,
        )
        self.policies_read = Gauge(
            "sluice_policies_last_good_read_timestamp_seconds",
            "When a change of the ConfigMap was last read without a fault in any policy",
            registry=self.registry,
        )
        self.quota_used = Gauge(
            "sluice_quota_used",
            "What a queue with a quota and those below it use, in the unit of the resource",
            ["queue", "resource"],
            registry=self.registry,
        )
        self.quota_capability = Gauge(
            "sluice_quota_capability",
            "The capability of a queue, in the unit of the resource",
            ["queue", "resource"],
            registry=self.registry,
        )
        self.quota_waiting = Gauge(
            "sluice_quota_waiting_pods",
            "Pods of a queue with a quota and of those below it that wait for room",
            ["queue"],
            registry=self.registry,
        )
        self.quota_left_out = Gauge(
            "sluice_quota_series_left_out",
            "Resources of queues with a quota that have no series, since there are too many",
            registry=self.registry,
        )
        self.undone = Counter(
            "sluice_statuses_put_back",
            "Statuses of queues that another client had written and that were put back",
            registry=self.registry,
        )
        self.pod_evictions = Counter(
            "sluice_pod_evictions",
            "Pods evicted and deleted, since their queue is drained, or gives back",
            ["reason", "how"],
            registry=self.registry,
        )
        self.workload_suspensions = Counter(
            "sluice_workload_suspensions",
            "Workloads suspended, or brought to zero replicas, since their queue is drained",
            ["reason", "how"],
            registry=self.registry,
        )
        self.given_back = Counter(
            "sluice_given_back", "Work that a drain had suspended, and resumed", registry=self.registry
        )
        self.pod_recreations = Counter(
            "sluice_pod_recreations",
            "Pods parked by filter that were deleted, since spec.parked is Recreate",
            ["outcome"],
            registry=self.registry,
        )
        self.job_recreations = Counter(
            "sluice_job_recreations",
            "Jobs suspended, so that their parked pods are created again, since spec.parked is Recreate",
            ["outcome"],
            registry=self.registry,
        )
        self.certificate_expiry = Gauge(
            "sluice_certificate_expiry_timestamp_seconds",
            "When the serving certificate and the authorities expire",
            ["certificate"],
            registry=self.registry,
        )
        self.leader = Gauge("sluice_leader", "1 while this replica leads, else 0", registry=self.registry)
        self.oldest_unacknowledged_stop = OptionalGauge(
            "sluice_oldest_unacknowledged_stop_timestamp_seconds",
            "Since when this replica knows the oldest stop that is not acknowledged; no series without one",
        )
        self.registry.register(self.oldest_unacknowledged_stop)
        self.draining_queues = Gauge(
            "sluice_draining_queues",
            "Queues that are drained and not empty yet, by the reason of their condition Drained",
            ["state"],
            registry=self.registry,
        )
        self.notices = Counter(
            "sluice_notices",
            "Notices that the receiver took, messages that it did not take, and notices that are given up",
            ["outcome"],
            registry=self.registry,
        )
        self.notices_waiting = Gauge(
            "sluice_notices_waiting", "Notices that are not taken yet", registry=self.registry
        )
        self.registration_faults = Gauge(
            "sluice_registration_faults",
            "What our webhook configurations and admission policies lack",
            registry=self.registry,
        )
        self.windows_overdue = Gauge(
            "sluice_windows_overdue",
            "Change windows that should have been begun or ended by now, and were not",
            registry=self.registry,
        )
        self.acknowledgement_duration = Histogram(
            "sluice_acknowledgement_duration_seconds",
            "From hearing of a stop to its acknowledgement",
            registry=self.registry,
            buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60),
        )

        self._reads = {
            "list": self.lists,
            "event": self.watch_events,
            "error": self.reflector_errors,
            "unreadable": self.unreadable_reads,
        }
        self.registry.register(RenamedMetrics(self._former_names()))

    def failed(self, step: str) -> None:
        self.failures.labels(step).inc()

    def reflected(self, kind: str, what: str) -> None:
        """`what`: list, event, error or unreadable."""
        self._reads[what].labels(kind).inc()

    def evicted(self, reason: str, how: str) -> None:
        """Count a pod that was told to go, or a workload that was stopped (`how`: Suspend, Scale)."""
        metric = self.workload_suspensions if how in WORKLOAD_STOPS else self.pod_evictions
        metric.labels(reason, how).inc()

    def _former_names(self) -> list[FormerName]:
        return [
            FormerName("sluice_request_seconds", [MetricSource(self.request_duration, {})]),
            FormerName("sluice_acknowledgement_seconds", [MetricSource(self.acknowledgement_duration, {})]),
            FormerName(
                "sluice_reflected",
                [MetricSource(metric, {"what": what}) for what, metric in self._reads.items()],
            ),
            FormerName(
                "sluice_evictions",
                [MetricSource(self.pod_evictions, {}), MetricSource(self.workload_suspensions, {})],
            ),
            FormerName(
                "sluice_recreations",
                [
                    MetricSource(self.pod_recreations, {"how": "Delete"}),
                    MetricSource(self.job_recreations, {"how": "Suspend"}),
                ],
            ),
        ]


class OptionalGauge(Collector):
    """A gauge that has no series while it has no value."""

    def __init__(self, name: str, documentation: str) -> None:
        self._name = name
        self._documentation = documentation
        self._value: float | None = None

    def set(self, value: float | None) -> None:
        self._value = value

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield GaugeMetricFamily(self._name, self._documentation, value=self._value)
