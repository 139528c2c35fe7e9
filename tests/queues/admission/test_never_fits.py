"""What can never have room in its queue, and how its user is told."""

from __future__ import annotations

from fractions import Fraction

import pytest

from queues.admission.never_fits import never_fits_warning
from queues.apimachinery.pod_requests import CLAIMS, Requests
from queues.messages import WARNING_LIMIT
from queues.queue import Queue
from queues.quota.devices import ABSENT, COUNTED, ClaimCount
from queues.tree import Tree
from tests.support.cases import each_case

TREE = Tree(
    {
        each.name: each
        for each in (
            Queue(name="lab", capability=(("cpu", 8), ("memory", 2**31), ("nvidia.com/gpu", 0))),
            Queue(name="team", parent="lab", capability=(("cpu", 2),)),
            Queue(name="none", capability=(("pods", 0),)),
            Queue(name="free"),
            Queue(name="lost", parent="nobody", capability=(("cpu", 0),)),
        )
    }
)


@each_case(
    ("queue", "requests", "named"),
    [
        ("team", (("cpu", 2),), ""),
        ("team", (("cpu", Fraction(2001, 1000)),), 'cpu 2001m, more than capability 2 of queue "team"'),
        ("team", (("cpu", 9),), 'cpu 9, more than capability 2 of queue "team"'),
        ("team", (("memory", 2**32),), 'memory 4Gi, more than capability 2Gi of queue "lab"'),
        ("team", (("nvidia.com/gpu", 1),), 'nvidia.com/gpu 1, more than capability 0 of queue "lab"'),
        ("team", (("example.com/any", 10**30),), ""),
        ("none", (), 'pods 1, more than capability 0 of queue "none"'),
        ("free", (("cpu", 10**30),), ""),
        ("lost", (("cpu", 1),), ""),
        ("absent", (("cpu", 1),), ""),
    ],
    ids=str,
)
def test_what_never_fits_is_told_of_queue_resource_and_both_amounts(
    queue: str, requests: Requests, named: str
) -> None:
    warning = never_fits_warning(queue, requests, tree=TREE)
    assert warning == (f"this waits: it requests {named}" if named else "")
    assert len(warning) <= WARNING_LIMIT


@pytest.mark.parametrize("template", [True, False])
def test_devices_that_cannot_be_counted_are_told_of(template: bool) -> None:
    tree = Tree({"q": Queue(name="q", capability=(("deviceclass/" + "d" * 200, 4),))})
    requests = tuple(sorted({CLAIMS: 1, COUNTED: 1, "resourceclaim//uncountable": 1}.items()))
    warning = never_fits_warning("q", requests, tree=tree, template=template)
    assert warning.startswith("its pods wait: they claim" if template else "this waits: it claims")
    assert 'queue "q" limits deviceclass/d' in warning
    assert len(warning) <= WARNING_LIMIT


def test_more_devices_than_a_capability_allows_are_told_of_and_what_is_not_there_is_not() -> None:
    tree = Tree({"q": Queue(name="q", capability=(("deviceclass/gpu", 4),))})
    claims = ["resourceclaim/ns/a", "resourceclaim/ns/absent"]
    requests = tuple(sorted({CLAIMS: 2, COUNTED: 2, **dict.fromkeys(claims, 1)}.items()))

    def warning(number: int) -> str:
        count = ClaimCount((("deviceclass/gpu", number),))
        return never_fits_warning(
            "q", requests, tree=tree, claims=lambda claim: count if claim == claims[0] else ABSENT
        )

    assert warning(5) == 'this waits: it requests deviceclass/gpu 5, more than capability 4 of queue "q"'
    assert warning(4) == ""


def test_of_a_workload_its_pods_wait() -> None:
    assert never_fits_warning("team", (("cpu", 3),), tree=TREE, template=True) == (
        'its pods wait: each requests cpu 3, more than capability 2 of queue "team"'
    )


@each_case("name", ["q", "q" * 40, "q" * 253])
@each_case("resource", ["cpu", "example.com/" + "r" * 63, "e" * 253 + "/" + "r" * 63])
@each_case("template", [True, False])
def test_long_names_are_cut_and_amounts_are_not(name: str, resource: str, template: bool) -> None:
    tree = Tree({name: Queue(name=name, capability=((resource, 2**62),))})
    warning = never_fits_warning(name, ((resource, 2**63 - 1),), tree=tree, template=template)
    assert len(warning) <= WARNING_LIMIT
    assert f"{2**63 - 1}, more than capability {2**62} of" in warning
