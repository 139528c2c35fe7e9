"""What a user writes as `sluice.dev/admission` ends nothing that is on its way for somebody else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cluster.cache.workloads import scale_up_key
from queues.workload_kinds import KINDS
from tests.support.http.asking import Server
from tests.support.http.wire_objects import (
    Wire,
    pod,
    podgroup,
    queue,
    workload,
)

ADMISSION = "sluice.dev/admission"
GROWTH = scale_up_key(KINDS["deployments"], "team", "train")


def forged_pod(text: str) -> Wire:
    return pod("forged", annotations={ADMISSION: text, "sluice.dev/queue": "labs"})


def forged_group(text: str) -> Wire:
    return podgroup("forged", queue="labs", annotations={ADMISSION: text})


def forged_work(text: str) -> Wire:
    return workload("jobs.batch", "forged", annotations={ADMISSION: text, "sluice.dev/queue": "labs"})


FORGED = pytest.mark.parametrize("forged", [forged_pod, forged_group, forged_work])


@FORGED
def test_nobody_ends_the_growth_of_anothers_workload(forged: Callable[[str], Wire]) -> None:
    """Its key is made of names that anybody can guess; then its queue would be Closed before it came."""
    server = Server().has(queue("research"), queue("labs"))
    server.store.admissions.record(GROWTH, "research")
    server.has(forged(GROWTH))
    assert server.store.admissions.queues() == {"research"}


@FORGED
def test_what_admission_wrote_ends_what_it_began(forged: Callable[[str], Wire]) -> None:
    server = Server().has(queue("research"), queue("labs"))
    server.store.admissions.record("request-1", "labs")
    server.has(forged("request-1"))
    assert server.store.admissions.queues() == frozenset()


@pytest.mark.parametrize(
    ("path", "submitted"),
    [("/mutate/pods", forged_pod), ("/mutate/podgroups", forged_group)],
    ids=["pod", "podgroup"],
)
def test_nothing_new_is_known_by_the_growth_of_anothers_workload(
    path: str, submitted: Callable[[str], Wire]
) -> None:
    """As it would be, were the key taken for what a former call for this request wrote."""
    server = Server().has(queue("research"), queue("labs"))
    server.store.admissions.record(GROWTH, "labs")
    body = submitted(GROWTH)
    body["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"] = "labs"
    answer = server.ask(path, body, uid="request-2")
    written = [step["value"] for step in answer.patch if "admission" in step["path"]]
    assert written == ["request-2"]
