"""The scheduling policies in place of Kueue's preemption policies are read by the server's own rules."""

from __future__ import annotations

from itertools import product

import kubectl_queue.kueue.preemption
from kubectl_queue.kueue.model import ClusterQueue, Preemption
from kubectl_queue.kueue.preemption import policies, policy_name
from queues.policies.scheduler_conf import examine_policy
from queues.policies.victims import asked_by

RECLAIM = ("Never", "LowerPriority", "Any")
WITHIN = ("Never", "LowerPriority", "LowerOrNewerEqualPriority")


def queue(reclaim: str, within: str, *, cohort: str = "lab") -> ClusterQueue:
    return ClusterQueue(name="a", cohort=cohort, preemption=Preemption(reclaim, within))


def test_each_pair_of_policies_takes_what_it_says() -> None:
    for reclaim, within in product(RECLAIM, WITHIN):
        made = queue(reclaim, within)
        name, texts = policy_name(made), policies([made])
        assert list(texts) == ([name] if name else [])
        assert (name == "") is (reclaim == within == "Never")
        for text in texts.values():
            examined = examine_policy(text)
            assert (examined.faults, examined.warnings) == ((), ())
            assert examined.policy is not None
            asked = asked_by(examined.policy)
            assert asked.own.is_allowed is (within != "Never")
            assert asked.others.is_allowed is (reclaim != "Never")
            assert asked.others.lower_only is (reclaim == "LowerPriority")


def test_without_a_cohort_there_is_nobody_to_reclaim_from() -> None:
    assert policy_name(queue("Any", "Never", cohort="")) == ""
    assert policy_name(queue("Any", "LowerPriority", cohort="")) == "kueue-preempt"


def test_the_table_of_the_module_names_each_policy() -> None:
    text = str(kubectl_queue.kueue.preemption.__doc__)
    assert all(f"| {word} " in text for word in (*RECLAIM, *WITHIN))
