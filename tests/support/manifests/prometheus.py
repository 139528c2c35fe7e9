"""The alerts and the board of manifests/monitoring, and promtool to run them."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.support.paths import ROOT

MONITORING = ROOT / "manifests" / "monitoring"
#: Of Prometheus itself, and of kube-apiserver; with the labels that we name of them.
OTHERS: Mapping[str, frozenset[str]] = {
    "up": frozenset({"job", "instance"}),
    "apiserver_admission_webhook_fail_open_count": frozenset({"name", "job", "instance"}),
}
#: When queries are evaluated, and the samples until then.
MINUTES = 70

_METRIC = re.compile(r"\b(sluice_\w+|apiserver_\w+|up)\b(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"')
_GROUPING = re.compile(r"\b(?:by|on)\s*\(([^)]*)\)")


class Query(NamedTuple):
    """A query of the board, and the labels in its legend."""

    panel: str
    expr: str
    legend: frozenset[str]


def rules() -> list[dict[str, Any]]:
    """The alerting rules."""
    [group] = _alerts()["spec"]["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def _alerts() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.load((MONITORING / "alerts.yaml").read_text(), Loader=yaml.CSafeLoader)
    return loaded


def write_rules(folder: Path) -> Path:
    """The rules as Prometheus without the operator takes them."""
    file = folder / "rules.yaml"
    file.write_text(yaml.safe_dump(_alerts()["spec"], sort_keys=False))
    return file


def board_queries() -> list[Query]:
    board = json.loads((MONITORING / "board.json").read_text())
    return [
        Query(panel["title"], target["expr"], frozenset(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])))
        for panel in board["panels"]
        for target in panel["targets"]
    ]


def metrics_in(expr: str) -> dict[str, set[str]]:
    """The metrics that an expression reads, each with the labels that select its series."""
    found: dict[str, set[str]] = {}
    for name, matchers in _METRIC.findall(_without_texts(expr)):
        found.setdefault(name, set()).update(_MATCHER.findall(matchers))
    return found


def grouped_labels(expr: str) -> set[str]:
    """The labels that an expression groups and joins by."""
    return {
        label.strip() for labels in _GROUPING.findall(_without_texts(expr)) for label in labels.split(",")
    }


def _without_texts(expr: str) -> str:
    """The expression with every text in it empty."""
    return re.sub(r'"[^"]*"', '""', expr)


def families(page: str) -> dict[str, Metric]:
    """The metrics of a page by the names of their series."""
    named = {}
    for family in text_string_to_metric_families(page):
        for name in series_names(family):
            named[name] = family
    return named


def series_names(family: Metric) -> list[str]:
    match family.type:
        case "counter":
            return [f"{family.name}_total"]
        case "histogram":
            return [f"{family.name}_{part}" for part in ("bucket", "sum", "count")]
        case _:
            return [family.name]


def growing(page: str) -> list[dict[str, str]]:
    """The series of a page for promtool: as they are, and those that are counted grow."""
    series = []
    for family in text_string_to_metric_families(page):
        step = 0 if family.type == "gauge" else 1
        for sample in family.samples:
            labels = ", ".join(f"{label}={json.dumps(value)}" for label, value in sample.labels.items())
            values = f"{sample.value:f}+{step}x{MINUTES}"
            series.append({"series": f"{sample.name}{{{labels}}}", "values": values})
    return series


def run_queries(promtool: Path, folder: Path, series: list[dict[str, str]], queries: Iterable[str]) -> str:
    """What promtool complains of, where a query cannot be parsed or gives no series; "" if nothing."""
    tests = [
        {
            "expr": f"sgn(count({query}))",
            "eval_time": f"{MINUTES}m",
            "exp_samples": [{"labels": "{}", "value": 1}],
        }
        for query in queries
    ]
    file = folder / "queries.yaml"
    up = {"series": 'up{job="sluice-system/sluice"}', "values": f"1x{MINUTES}"}
    case = {"interval": "1m", "input_series": [up, *series], "promql_expr_test": tests}
    file.write_text(yaml.safe_dump({"rule_files": [], "evaluation_interval": "1m", "tests": [case]}))
    done = run(promtool, "test", "rules", str(file))
    return "" if done.returncode == 0 else done.stdout + done.stderr


def run(promtool: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([promtool, *arguments], capture_output=True, text=True, check=False)
