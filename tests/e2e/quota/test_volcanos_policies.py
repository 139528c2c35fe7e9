"""The policy of Volcano's chart with action `reclaim`: queues get back what they deserve, whatever the
priorities of pods: by `deserved` and by `weight`, from gangs whole, and not from what is not preemptable.
"""

from __future__ import annotations

from functools import partial

import pytest

from queues.metadata.keys import PREEMPTABLE
from tests.support.e2e.objects import GROUPED_BY, on_a_node
from tests.support.e2e.policies import Policies
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import settled, until
from tests.support.plugin.harness import plugin_in_process
from tests.support.volcanos_policy import VOLCANOS_POLICY

#: With action `reclaim`. Plugin `proportion` says which share queues have.
CHART = VOLCANOS_POLICY.replace("allocate,", "allocate, reclaim,")


def chart(*plugins: str) -> str:
    """These say it instead."""
    return CHART.replace("  - name: proportion\n", "".join(f"  - name: {name}\n" for name in plugins))


BOTH = chart("capacity", "proportion")


def running(sandbox: Sandbox, names: list[str]) -> int:
    pods = sandbox.read_pods()
    return sum(
        name in pods and on_a_node(pods[name]) and "deletionTimestamp" not in pods[name]["metadata"]
        for name in names
    )


def shares(number: int) -> dict[str, object]:
    return {"deserved": {"cpu": str(number)}}


@pytest.mark.parametrize(
    ("text", "first", "second"),
    [
        (chart("capacity"), shares(2), shares(6)),
        (chart("proportion"), {"weight": 1}, {"weight": 3}),
        (BOTH, shares(2), shares(6)),
        (BOTH, {"weight": 1}, {"weight": 3}),
    ],
    ids=["capacity", "proportion", "both by deserved", "both by weight"],
)
def test_of_eight_cpus_one_queue_gets_six_back(
    sandbox: Sandbox, policies: Policies, text: str, first: dict[str, object], second: dict[str, object]
) -> None:
    policies.write(chart=text)
    lab = sandbox.queue("lab", capability={"cpu": "8"}, schedulerPolicy="chart")
    borrower = sandbox.queue("borrower", parent=lab, **first)
    owner = sandbox.queue("owner", parent=lab, **second)
    borrowed = sandbox.pods("borrowed", 8, borrower, cpu="1")
    until(lambda: running(sandbox, borrowed) == 8, "eight pods to run")
    wanted = sandbox.pods("wanted", 6, owner, cpu="1")
    until(lambda: running(sandbox, wanted) == 6, "what the queue deserves to run")
    assert settled(lambda: running(sandbox, borrowed), "the pods", seconds=1.0) == 2
    if "weight" in second:
        more = sandbox.pods("more", 6, borrower, cpu="1")
        sandbox.reason_on(more[0], f'the capability of its ancestor "{lab}" is used')
        assert settled(lambda: running(sandbox, wanted), "the pods", seconds=1.0) == 6


def test_priority_gates_reclaim_where_the_policy_says_so(sandbox: Sandbox, policies: Policies) -> None:
    gated = chart("capacity").replace(
        "  - name: priority\n", "  - name: priority\n    enableReclaimable: true\n"
    )
    policies.write(chart=gated)
    lab = sandbox.queue("lab", capability={"cpu": "2"}, schedulerPolicy="chart")
    borrower = sandbox.queue("borrower", parent=lab)
    owner = sandbox.queue("owner", parent=lab, deserved={"cpu": "2"})
    borrowed = sandbox.pods("borrowed", 2, borrower, cpu="1")
    until(lambda: running(sandbox, borrowed) == 2, "two pods to run")
    [wanted] = sandbox.pods("wanted", 1, owner, cpu="1")
    sandbox.reason_on(wanted, f'the capability of its ancestor "{lab}" is used')
    assert settled(lambda: running(sandbox, borrowed), "the pods", seconds=1.0) == 2
    policies.write(chart=chart("capacity"))
    until(lambda: running(sandbox, [wanted]) == 1, "the pod to get what its queue deserves")


@pytest.fixture
def lab(sandbox: Sandbox, policies: Policies) -> tuple[str, str]:
    """The queues of a parent of eight CPUs: one that deserves two, one that deserves six."""
    policies.write(chart=chart("capacity"))
    above = sandbox.queue("lab", capability={"cpu": "8"}, schedulerPolicy="chart")
    borrower, owner = (
        sandbox.queue(name, parent=above, **shares(number))
        for name, number in (("borrower", 2), ("owner", 6))
    )
    return borrower, owner


def gang(sandbox: Sandbox, name: str, queue: str, size: int) -> list[str]:
    sandbox.podgroup(name, queue, minMember=size)
    names = sandbox.pods(name, size, annotations={GROUPED_BY: name}, cpu="1")
    until(lambda: running(sandbox, names) == size, f"gang {name} to run")
    return names


def test_a_gang_of_eight_that_borrows_six_goes_whole(sandbox: Sandbox, lab: tuple[str, str]) -> None:
    borrower, owner = lab
    ring = gang(sandbox, "ring", borrower, 8)
    wanted = sandbox.pods("wanted", 6, owner, cpu="1")
    until(lambda: running(sandbox, wanted) == 6, "what the queue deserves to run")
    assert settled(lambda: running(sandbox, ring), "the gang", seconds=1.0) == 0


def test_of_two_gangs_that_would_do_exactly_one_goes(sandbox: Sandbox, lab: tuple[str, str]) -> None:
    borrower, owner = lab
    sandbox.all_bound(sandbox.pods("own", 4, owner, cpu="1"))
    first, second = (gang(sandbox, name, borrower, 2) for name in ("first", "second"))
    gang(sandbox, "third", owner, 2)
    assert sorted(running(sandbox, each) for each in (first, second)) == [0, 2]


def test_what_says_that_it_is_not_preemptable_stays_and_the_pod_that_waits_says_so(
    sandbox: Sandbox, lab: tuple[str, str]
) -> None:
    borrower, owner = lab
    marked = sandbox.pods("marked", 4, borrower, cpu="1", annotations={PREEMPTABLE: "false"})
    until(lambda: running(sandbox, marked) == 4, "the first four to run")
    labelled = sandbox.pods("labelled", 4, borrower, cpu="1", labels={PREEMPTABLE: "0"})
    until(lambda: running(sandbox, labelled) == 4, "the others to run")
    [wanted] = sandbox.pods("wanted", 1, owner, cpu="1")
    kept = f'8 pods of queue "{borrower}" could go: 8 say {PREEMPTABLE}: false'
    sandbox.reason_on(wanted, f"nobody goes for it: {kept}")
    plugin = partial(plugin_in_process, kubeconfig=sandbox.cluster.client_kubeconfig)
    assert f"Not evicted: {kept}\n" in plugin("why", f"pod/{wanted}", "-n", sandbox.namespace).stdout
    assert kept in plugin("reclaim", owner, "--dry-run").stderr
    assert running(sandbox, [*marked, *labelled]) == 8
    sandbox.patch_pod(marked[0], {"metadata": {"annotations": {PREEMPTABLE: "true"}}}).must()
    until(lambda: running(sandbox, [wanted]) == 1, "the pod to get what its queue deserves")
    assert running(sandbox, marked) == 3
