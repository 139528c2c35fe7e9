"""The pages for those who move from Kueue and from Volcano say what the code does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import kubectl_queue.kueue.limits
import kubectl_queue.kueue.names
import kubectl_queue.kueue.preemption
from cluster.metrics import Metrics
from kubectl_queue.kueue.fields import FIELDS, OTHER_KINDS
from localcluster.go_modules import SOURCES
from tests.support.docs.pages import Row, read, tables_of, text_of, words_of
from tests.support.docs.volcano_metrics import METRIC_ROWS, expressions, recording_rules
from tests.support.go_modules import go_module
from tests.support.paths import ROOT

KUEUE = text_of("operating/move-from-kueue.md")


def plain(row: Row) -> Row:
    return [cell.replace("`", "") for cell in row]


def joined(docstring: str | None) -> list[list[Row]]:
    """The tables of a docstring, where a row goes on in lines without a first cell."""
    tables = []
    for table in read(docstring or ""):
        rows: list[Row] = []
        for row in table:
            if row[0]:
                rows.append(row)
            else:
                rows[-1] = [" ".join(filter(None, pair)) for pair in zip(rows[-1], row, strict=True)]
        tables.append([plain(row) for row in rows])
    return tables


def test_the_version_of_kueue_is_the_one_that_is_pinned() -> None:
    pinned = re.search(r"sigs\.k8s\.io/kueue (\S+)", (ROOT / "localcluster" / "kueue" / "go.mod").read_text())
    assert pinned is not None
    assert f"tried by hand with Kueue {pinned[1]}," in words_of(KUEUE)
    assert f"Kueue {pinned[1].removeprefix('v')}," in str(kubectl_queue.kueue.limits.__doc__)


def test_each_field_of_kueue_has_its_row_with_what_becomes_of_it() -> None:
    rows = [plain(row) for row in tables_of(KUEUE, "What becomes of fields")[0]]
    assert rows == [
        [kind, ", ".join(row.names), row.becomes, row.text] for kind, told in FIELDS.items() for row in told
    ]


def test_each_other_kind_of_kueue_has_its_row() -> None:
    assert tables_of(KUEUE, "What becomes of fields")[1] == [list(item) for item in OTHER_KINDS.items()]


def test_the_tables_of_quotas_names_and_preemption_are_those_of_the_code() -> None:
    """Word for word; `tests/kubectl_queue/kueue` holds each row."""
    for section, module in (
        ("What becomes of quotas", kubectl_queue.kueue.limits),
        ("What becomes of names", kubectl_queue.kueue.names),
    ):
        assert [[plain(row) for row in tables_of(KUEUE, section)[0]]] == joined(module.__doc__), section
    policies = [plain(row) for row in tables_of(KUEUE, "What becomes of fields")[2]]
    assert [policies] == joined(kubectl_queue.kueue.preemption.__doc__)


# Volcano

VOLCANO = text_of("operating/move-from-volcano.md")
#: kube-scheduler's, of the version whose name the test reads; with what a histogram adds.
SCHEDULER = re.compile(r"\bscheduler_([a-z_]+?)(?:_bucket|_sum)?\b(?=[{\[])")


def names_in(*files: Path) -> set[str]:
    return {name for file in files for name in re.findall(r'Name:\s*"([a-z0-9_]+)"', file.read_text())}


def test_each_metric_of_volcano_has_its_row() -> None:
    """As its module has them, in the version that the page names."""
    assert re.findall(r"those of (v[\d.]+) \(\*read\*\)", VOLCANO) == [SOURCES["volcano.sh/volcano"].version]
    module = go_module("volcano.sh/volcano")
    folders = (module / "pkg" / "scheduler" / "metrics", module / "pkg" / "controllers" / "metrics")
    files = [file for folder in folders for file in folder.glob("*.go") if "_test" not in file.name]
    told = {name for row in METRIC_ROWS for name in re.findall(r"volcano_([a-z0-9_]+)", row[0])}
    assert told == names_in(*files)


def test_each_series_that_stands_for_volcano_s_is_there() -> None:
    """Ours by the registry, kube-scheduler's by its module."""
    found = {name for expr in expressions() for name in re.findall(r"\bsluice_\w+", expr)}
    ours = {f"{metric._name}{'_total' if metric._type == 'counter' else ''}" for metric in metrics()}
    assert found
    assert found <= ours
    theirs = {name for expr in expressions() for name in SCHEDULER.findall(expr)}
    file = go_module("k8s.io/kubernetes") / "pkg" / "scheduler" / "metrics" / "metrics.go"
    assert theirs
    assert theirs <= names_in(file)


def metrics() -> list[Any]:
    return [metric for metric in vars(Metrics()).values() if hasattr(metric, "_labelnames")]


def test_the_rules_record_the_series_of_the_table_under_their_old_names() -> None:
    """Those that one expression gives, which the rule repeats with Volcano's label."""
    rows = {row[0]: row[1] for row in METRIC_ROWS}
    for rule in recording_rules():
        plain_expr = re.sub(
            r'label_replace\((\S+), "queue_name", "\$1", "queue", "\(\.\*\)"\)', r"\1", rule["expr"]
        ).replace("queue_name", "queue")
        assert rows[rule["record"]] == plain_expr
    assert len(recording_rules()) == sum(
        "sluice_quota_" in here and here.count("`") == 0 for here in rows.values()
    )
