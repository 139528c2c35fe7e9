"""manifests/monitoring: the alerts have a section in docs/operating/alerts.md and tests, and alerts and board
read metrics that there are.

What promtool says of them is in tests/e2e/server/test_monitoring.py.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from cluster.metrics import Metrics
from tests.support.cases import each_case
from tests.support.docs.pages import section_of, text_of
from tests.support.manifests.prometheus import (
    OTHERS,
    board_queries,
    grouped_labels,
    metrics_in,
    rules,
    series_names,
)
from tests.support.paths import ROOT

TESTS = ROOT / "tests" / "manifests" / "alerts.test.yaml"
ALERTS = {rule["alert"]: rule for rule in rules()}
EXPRESSIONS = [
    *((rule["alert"], rule["expr"]) for rule in rules()),
    *((q.panel, q.expr) for q in board_queries()),
]


def served() -> dict[str, set[str]]:
    """The labels of each series that a server serves, by its name."""
    metrics = Metrics()
    labels = {
        metric._name: set(metric._labelnames)
        for metric in vars(metrics).values()
        if hasattr(metric, "_labelnames")
    }
    metrics.retries.failed("anything", "no")  # its series come and go
    [family] = metrics.retries.collect()
    labels[family.name] = set(family.samples[0].labels)
    return {
        name: labels.get(family.name, set()) | ({"le"} if name.endswith("_bucket") else set())
        for family in metrics.registry.collect()
        for name in series_names(family)
        if not family.documentation.startswith("Deprecated")
    }


@each_case(("what", "expr"), EXPRESSIONS, ids=[what for what, _ in EXPRESSIONS])
def test_what_is_read_is_there_with_these_labels(what: str, expr: str) -> None:
    """No former name of a metric either."""
    known = served() | {name: set(labels) for name, labels in OTHERS.items()}
    read = metrics_in(expr)
    assert read
    for name, labels in read.items():
        assert labels <= known[name], name
    assert grouped_labels(expr) <= set.union(*(known[name] for name in read))


def test_a_legend_names_labels_that_its_query_leaves() -> None:
    for query in board_queries():
        assert query.legend <= grouped_labels(query.expr), query.panel


@each_case("alert", ALERTS)
def test_each_alert_has_its_section(alert: str) -> None:
    """With its severity, and from when on it fires."""
    rule = ALERTS[alert]
    section = section_of(text_of("operating/alerts.md"), alert)
    numbers = {"1m": "1 minute", "2m": "2 minutes", "10m": "10 minutes", "15m": "15 minutes"}
    numbers |= {"30m": "30 minutes", "1h": "an hour"}
    when = f"after {numbers[rule['for']]}" if "for" in rule else "at once"
    severity = rule["labels"]["severity"]
    assert severity in ("critical", "warning")
    assert section.lstrip().startswith(f"{severity.capitalize()}, {when}. ")
    assert rule["annotations"]["runbook"] == f"docs/operating/alerts.md#{alert.lower()}"


def test_each_section_is_of_an_alert() -> None:
    assert re.findall(r"^## (\w+)$", text_of("operating/alerts.md"), re.MULTILINE) == list(ALERTS)


@each_case("alert", ALERTS)
def test_each_alert_is_tried(alert: str) -> None:
    """Each is seen to fire, and in the same course before and after to be silent; and without its series."""
    cases = yaml.load(TESTS.read_text(), Loader=yaml.CSafeLoader)["tests"]
    healthy, bare, *courses = [course(case, alert) for case in cases]
    assert [series["series"] for series in cases[1]["input_series"]] == ['up{job="sluice", instance="a"}']
    assert (healthy, bare) == ("s", "s")
    assert any(re.search("sf+s", each) for each in courses)


def course(case: dict[str, Any], alert: str) -> str:
    """A letter for each time that the alert is looked at: f where it fires, s where it is silent."""
    checks = [each for each in case["alert_rule_test"] if each["alertname"] == alert]
    return "".join("f" if each.get("exp_alerts") else "s" for each in checks)
