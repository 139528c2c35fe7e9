"""The policies of the cluster tell their listeners of each change."""

from __future__ import annotations

import pytest

from cluster.cache.scheduling_policies import ConfigMap, SchedulingPolicies
from cluster.objects import Metadata
from queues.policies.policy_set import PolicySet

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
