"""The policies of the cluster tell their listeners of each change."""

from __future__ import annotations

import pytest

from cluster.cache.scheduling_policies import ConfigMap, SchedulingPolicies
from cluster.coordination.replica_report import MAX_POLICY_LINES, POLICY_LINE_LENGTH, report_of
from cluster.objects import Metadata
from queues.policies.policy_set import PolicySet
from tests.support.http.asking import Server
from tests.support.http.wire_objects import policies

POLICY = 'actions: "allocate"\ntiers: [{plugins: [{name: binpack}]}]\n'


def test_a_listener_that_fails_keeps_no_other_from_being_called() -> None:
    """Later ones would never hear of it: the same text again is no change."""
    policies = SchedulingPolicies()
    heard: list[object] = []

    def fail(_before: PolicySet, _after: PolicySet) -> None:
        heard.append("the first")
        raise RuntimeError("no thread can be started")

    policies.add_listener(fail)
    policies.add_listener(lambda before, after: heard.append((before.entries.keys(), after.entries.keys())))
    read = ConfigMap(metadata=Metadata(name="volcano-scheduler-configmap"), data={"packing.conf": POLICY})
    with pytest.raises(RuntimeError, match="no thread"):
        policies.upsert(read)
    assert heard == ["the first", (set(), {"packing.conf"})]
    policies.upsert(read)
    assert len(heard) == 2


IDLE = "actions: allocate\ntiers: [{plugins: [{name: sla}]}]"


def test_a_replica_reports_what_is_said_of_policies_and_how_much_more_there_is() -> None:
    texts = {f"p{number}": IDLE for number in range(MAX_POLICY_LINES + 3)}
    server = Server().has(policies(**texts, **{f"bad-{'x' * 200}": "actions: x"}))
    report = report_of(server.store)
    assert report.policy_notes[0] == 'policy "p0": plugin sla does nothing here'
    assert report.policy_notes[MAX_POLICY_LINES:] == (
        "and 3 more of policies; see: kubectl queue policy list",
    )
    [problem] = report.policy_problems
    assert problem.startswith('policy "bad-xxx')
    assert len(problem) <= POLICY_LINE_LENGTH
    server.has(policies())
    assert (report_of(server.store).policy_notes, report_of(server.store).policy_problems) == ((), ())
