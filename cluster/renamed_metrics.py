"""The former names of metrics, for one release: dashboards and alerts of users can be changed in between.

| former name                      | what it is now                                           |
|----------------------------------|----------------------------------------------------------|
| `sluice_request_seconds`         | `sluice_request_duration_seconds`                        |
| `sluice_acknowledgement_seconds` | `sluice_acknowledgement_duration_seconds`                |
| `sluice_reflected`, by `what`    | `sluice_reflector_lists`, `sluice_reflector_events`,     |
|                                  | `sluice_reflector_errors`, `sluice_reflector_unreadable` |
| `sluice_evictions`, by `how`     | `sluice_pod_evictions`, `sluice_workload_suspensions`    |
| `sluice_recreations`, by `how`   | `sluice_pod_recreations`, `sluice_job_recreations`       |

Invariants
- Nothing is counted twice: the series are made of those of the new names when they are scraped.
- Each series has the value, the labels and the suffix that it had.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector


class MetricSource(NamedTuple):
    """A metric of today, and labels that its series have under the former name besides their own."""

    metric: Collector
    labels: Mapping[str, str]


class FormerName(NamedTuple):
    """A former name, and the metrics that it had in it."""

    name: str
    sources: Sequence[MetricSource]


class RenamedMetrics(Collector):
    """Threads: any, as the metrics themselves."""

    def __init__(self, names: Sequence[FormerName]) -> None:
        self._names = names

    def collect(self) -> Iterator[Metric]:
        for former in self._names:
            yield _former_family(former)


def _former_family(former: FormerName) -> Metric:
    sources = [(family, labels) for metric, labels in former.sources for family in metric.collect()]
    names = ", ".join(_names(family for family, _ in sources))
    family = Metric(former.name, f"Deprecated, goes with the next release: {names}", sources[0][0].type)
    for source, labels in sources:
        for sample in source.samples:
            suffix = sample.name.removeprefix(source.name)
            family.add_sample(former.name + suffix, {**sample.labels, **labels}, sample.value)
    return family


def _names(families: Iterable[Metric]) -> list[str]:
    return [f"{family.name}_total" if family.type == "counter" else family.name for family in families]
