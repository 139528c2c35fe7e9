"""What the rows are made of, as far as it needs no control plane."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import __main__ as program
from benchmarks import bind_costs, flows, result_files, results_page, scale
from benchmarks.allocations import Spent, read_allocated
from benchmarks.audit_log import Log
from benchmarks.figures import at_least
from benchmarks.memory import held
from benchmarks.missed_goals import WHY
from benchmarks.objects import creations, pods, pods_path
from benchmarks.process_cpu import cpu_seconds
from benchmarks.resume_times import Times
from benchmarks.rows.gang_flow import in_order, made
from benchmarks.rows.giving_back import exchanged
from benchmarks.rows.trees import levels
from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "contributing" / "benchmarks.md"


def test_an_unknown_row_is_refused_with_the_names_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["speed"]) == 2
    said = capsys.readouterr().err
    assert "speed" in said
    assert all(name in said for name in program.ROWS)


def test_a_settled_row_is_refused_with_what_it_settled(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["http2"]) == 2
    assert "row http2 is settled" in capsys.readouterr().err


def test_every_row_has_its_line_on_the_page() -> None:
    assert re.findall(r"^\| `([\w-]+)` \|", PAGE.read_text(), re.MULTILINE) == list(program.ROWS)


def test_what_is_kept_can_be_read() -> None:
    """And nothing is kept of a row that there is not any more."""
    there = {path.stem for path in (result_files.HERE / "results").glob("*.json")}
    assert result_files.load(program.SECTIONS).keys() == there


def test_where_a_goal_is_not_reached_it_is_said_why() -> None:
    missing = {
        name for name, found in result_files.load(program.SECTIONS).items() if results_page.missed(found)
    }
    assert missing <= WHY.keys()


def test_reasons_are_of_rows_that_there_are() -> None:
    assert WHY.keys() <= set(program.SECTIONS)


def audit_line(
    second: int, *, namespace: str = "bench", code: int = 201, query: str = "", **more: object
) -> str:
    said = {
        "user": {"username": "scheduler"},
        "verb": "create",
        "requestURI": f"/api/v1/namespaces/{namespace}/pods/p/binding{query}",
        "objectRef": {"resource": "pods", "subresource": "binding", "namespace": namespace, "name": "p"},
        "responseStatus": {"code": code},
        "requestReceivedTimestamp": f"2026-01-01T00:00:{second:02}.250000Z",
        "stageTimestamp": f"2026-01-01T00:00:{second:02}.500000Z",
    }
    return json.dumps({**said, **more}, separators=(",", ":")) + "\n"


def test_binds_are_read_from_the_mark_on(tmp_path: Path) -> None:
    """In the namespace asked for; other requests, refused binds, dry runs and half a line are left out."""
    path = tmp_path / "audit.log"
    path.write_text(audit_line(1))
    log = Log(path)
    mark = log.mark()
    lines = [
        audit_line(5),
        audit_line(3),
        audit_line(6, namespace="other"),
        audit_line(7, code=403),
        audit_line(8, query="?dryRun=All"),
        audit_line(8, objectRef={"resource": "pods", "namespace": "bench", "name": "p"}),
        audit_line(9)[:-20],
    ]
    path.write_text(audit_line(1) + "".join(lines))
    first, last = log.binds(mark, namespace="bench")
    assert last - first == 2
    assert log.count(mark) == 5  # about as many: those of other namespaces are in it


def test_requests_are_read_with_who_sent_them_and_their_size(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_text(
        audit_line(1, requestObject={"a": 1}, responseObject={"b": "é"})
        + audit_line(2, requestURI="/livez?verbose", objectRef=None)
    )
    bind, health = Log(path).requests(0)
    assert (bind.user, bind.verb, bind.resource, bind.name) == ("scheduler", "create", "pods/binding", "p")
    assert (bind.sent, bind.stored, bind.answered - bind.received) == (7, 14, 0.25)
    assert (health.resource, health.sent, health.stored) == ("/livez", 0, 0)


def test_a_tree_has_its_depth_and_every_parent_is_there_before_its_children() -> None:
    there = {"root"}
    planted = list(levels(1_000, depth=4))
    assert [len(level) for level in planted] == [250] * 4
    for level in planted:
        assert {parent for _, parent in level} <= there
        there |= {name for name, _ in level}
    assert len(there) == 1_001


def test_no_pair_is_begun_when_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """But one is measured whatever it takes."""
    monkeypatch.setattr(scale, "ROW_SECONDS", -1.0)
    assert list(scale.rounds()) == [1]


def test_a_process_has_memory_and_has_used_the_processor() -> None:
    """One that is gone has none."""
    assert held([os.getpid()]) > 1
    assert cpu_seconds([os.getpid()]) > 0
    assert held([2**22 + 1]) == cpu_seconds([2**22 + 1]) == 0


def test_what_binding_costs_is_shown_of_all_components_together_and_of_each() -> None:
    alone = [{"server": 0.0, "kube-scheduler": 2.0, "kube-apiserver": 3.0}]
    beside = [{"server": 1.0, "kube-scheduler": 2.5, "kube-apiserver": 4.0}]
    line = bind_costs.line("members", beside="nothing installed", ours=beside, theirs=alone)
    assert line.ratios == (1.5,)
    assert "per 1,000 binds: 1.00 + 2.50 + 4.00 s members." in bind_costs.note({"members": beside})


def test_nothing_is_spent_where_nothing_runs(tmp_path: Path) -> None:
    assert bind_costs.spent(tmp_path) == dict.fromkeys(bind_costs.COUNTED, 0.0)


def test_children_that_were_waited_for_are_counted_where_they_are_asked_for() -> None:
    subprocess.run([sys.executable, "-c", "sum(range(10**6))"], check=True)
    ours = [os.getpid()]
    assert cpu_seconds(ours, reaped=True) > cpu_seconds(ours)


def test_allocations_are_read_from_the_metrics() -> None:
    """Not from the lines that explain them."""
    text = (
        b"# HELP go_memstats_alloc_bytes_total Total number of bytes allocated\n"
        b"# TYPE go_memstats_alloc_bytes_total counter\n"
        b"go_memstats_alloc_bytes_total 1.5e+06\n"
        b"go_memstats_other 1\n"
    )
    assert read_allocated(text) == 1_500_000


def test_a_flow_is_compared_by_its_rate_to_the_last_bind_its_cpu_time_and_its_allocations() -> None:
    """The goal is of the rate alone."""
    cpu = {"server": 0.5, "kube-scheduler": 1.0, "kube-apiserver": 2.5}
    members = flows.Flow(1_000, Times(first=0.5, last=10.0), Spent(kib=600.0, cpu=cpu))
    others = flows.Flow(1_000, Times(first=0.1, last=5.0), Spent(kib=500.0, cpu={"server": 2.0}))
    rate, cpu_line, kib = flows.lines(
        "members", beside="others", ours=[members], theirs=[others], goal=at_least(0.4)
    )
    assert (rate.ours, rate.theirs, rate.reached) == ((100.0,), (200.0,), True)
    assert (cpu_line.ratios, cpu_line.reached) == ((2.0,), None)
    assert (kib.ratios, kib.reached) == ((1.2,), None)


def test_a_client_that_exchanges_pods_begins_with_a_creation_and_deletes_one_with_each() -> None:
    """In the grace of their own, as an eviction."""
    made = list(creations(pods_path("lab"), pods(2)))
    requests = exchanged(made, ["old-0", "old-1"], namespace="lab")
    assert requests[::2] == made
    assert [(each.method, each.path) for each in requests[1::2]] == [
        ("DELETE", "/api/v1/namespaces/lab/pods/old-0"),
        ("DELETE", "/api/v1/namespaces/lab/pods/old-1"),
    ]


def test_a_podgroup_is_created_right_before_its_own_pods() -> None:
    of_pods, groups = made(7, 10, size=4, is_grouped=True)
    bodies = [each.body or {} for each in in_order(of_pods, groups)]
    minimum: dict[str, int] = {}
    for body in bodies:
        if body["kind"] == "PodGroup":
            minimum[body["metadata"]["name"]] = body["spec"]["minMember"]
        else:
            group = body["metadata"]["annotations"]["scheduling.k8s.io/group-name"]
            assert list(minimum)[-1] == group
    assert list(minimum.values()) == [4, 4, 2]
    singles, none = made(8, 10, size=4, is_grouped=False)
    assert in_order(singles, none) == singles
