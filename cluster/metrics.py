"""The metrics of everything below the server.

Every metric is made here, once, so that one list can be checked against `docs/reference/metrics.md`.
Each `Metrics` has its own registry, so that two servers in one process (tests) do not mix.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)


class Metrics:
    """The metrics of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "sluice_requests", "Requests answered or refused", ["path", "code"], registry=self.registry
        )
        self.seconds = Histogram(
            "sluice_request_seconds",
            "Time inside a request handler",
            ["path"],
            registry=self.registry,
            buckets=_SECONDS,
        )
        self.reflections = Counter(
            "sluice_reflected",
            "Lists, events, errors and unreadable objects by kind",
            ["kind", "what"],
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
            "Live member pods in namespaces that setting managed_namespaces does not select, by queue",
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
            "Statuses of queues that somebody else had written and that were put back",
            registry=self.registry,
        )
        self.evictions = Counter(
            "sluice_evictions",
            "Pods evicted and deleted, and work suspended, since their queue is drained, or gives back",
            ["reason", "how"],
            registry=self.registry,
        )
        self.given_back = Counter(
            "sluice_given_back", "Work that a drain had suspended, and resumed", registry=self.registry
        )
        self.recreations = Counter(
            "sluice_recreations",
            "Pods parked by filter that were deleted, and Jobs suspended, since spec.parked is Recreate",
            ["how", "outcome"],
            registry=self.registry,
        )
        self.certificate_expiry = Gauge(
            "sluice_certificate_expiry_timestamp_seconds",
            "When the serving certificate and the authorities expire",
            ["certificate"],
            registry=self.registry,
        )
        self.acknowledgement = Histogram(
            "sluice_acknowledgement_seconds",
            "From hearing of a stop to its acknowledgement",
            registry=self.registry,
            buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60),
        )

    def failed(self, step: str) -> None:
        self.failures.labels(step).inc()

    def reflected(self, kind: str, what: str) -> None:
        self.reflections.labels(kind, what).inc()
