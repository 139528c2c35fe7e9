"""Parts of the cluster end and come back: nobody else notices, and nothing is forgotten."""

from __future__ import annotations

import signal

import pytest

from localcluster.cluster import LocalCluster
from tests.support.e2e.shapes import (
    GATE,
    gates,
    is_active,
    on_a_node,
    suspended_text,
    why,
)
from tests.support.e2e.stage import QUEUES, Stage
from tests.support.e2e.waiting_for import until


@pytest.fixture
def queue(stage: Stage) -> str:
    return stage.queue()


def test_pods_of_no_queue_are_bound_while_the_server_is_down(
    stage: Stage, queue: str, outage: LocalCluster
) -> None:
    """Even in a namespace whose binds are guarded, because a queue with a pending pod is stopped."""
    stage.ungate(suspended_with_pending(stage, queue))
    outage.stop_components("server")
    stage.all_bound(stage.pods("other", 5))


def test_marked_members_wait_for_the_server_and_are_bound_when_it_is_back(
    stage: Stage, queue: str, outage: LocalCluster
) -> None:
    """kube-scheduler does not guess: it says whom it cannot reach, and comes back."""
    names = stage.pods("member", 3, queue, gated=True)
    outage.stop_components("server")
    stage.ungate(names)
    for name in names:
        assert not on_a_node(stage.reason_on(name, "/extender/filter"))
    outage.start_components("server")
    stage.all_bound(names)


def test_members_of_a_suspended_queue_stay_parked_over_an_outage(
    stage: Stage, queue: str, outage: LocalCluster
) -> None:
    """Down, up, and still suspended: neither those that filter refused nor those with the gate moved."""
    names = [*suspended_with_pending(stage, queue), *stage.pods("late", 2, queue)]
    outage.stop_components("server")
    stage.ungate(name for name in names if name.startswith("early"))
    for name in names[:2]:
        stage.reason_on(name, "/extender/filter")
    outage.start_components("server")
    for name in names:
        stage.reason_on(name, suspended_text(queue))
    assert stage.bound(names) == set()


def test_a_resume_after_a_restart_of_the_server_lets_all_go(
    stage: Stage, queue: str, outage: LocalCluster
) -> None:
    """What is parked is read off the pods, so a crash leaves nobody behind."""
    names = [*suspended_with_pending(stage, queue), *stage.pods("late", 2, queue)]
    stage.ungate(name for name in names if name.startswith("early"))
    for name in names:
        stage.reason_on(name, suspended_text(queue))
    outage.signal_component("server", signal.SIGKILL)
    outage.start_components("server")
    stage.edit(queue, state="Open")
    stage.all_bound(names)


def test_a_stop_asked_for_while_the_server_starts_is_acknowledged(
    stage: Stage, queue: str, outage: LocalCluster
) -> None:
    """A member is pending when the server dies; the first edit after its return is acted on."""
    names = stage.pods("early", 2, queue, gated=True)
    outage.signal_component("server", signal.SIGKILL)
    outage.start_components("server")
    stage.suspend(queue)
    stage.ungate(names)
    stage.reason_on(names[0], suspended_text(queue))


def test_creating_a_member_fails_while_the_server_is_down_and_names_us(
    stage: Stage, queue: str, outage: LocalCluster
) -> None:
    """Better no pod than one that nobody stops."""
    outage.stop_components("server")
    answer = stage.pod("member", queue)
    assert answer.status == 500
    assert 'failed calling webhook "members.pods.sluice.dev"' in answer.message


def test_editing_a_queue_fails_while_the_server_is_down_and_names_us(
    stage: Stage, queue: str, outage: LocalCluster
) -> None:
    """An edit that nobody judges would be one that nobody records."""
    outage.stop_components("server")
    answer = stage.patch_queue(queue, state="Suspended")
    assert answer.status == 500
    assert 'failed calling webhook "queues.sluice.dev"' in answer.message


@pytest.mark.parametrize("component", ["kube-apiserver", "kube-scheduler", "etcd"])
def test_stops_and_resumes_work_after_a_restart_of(
    stage: Stage, queue: str, outage: LocalCluster, component: str
) -> None:
    """The server finds its way back by itself, and so do its guarantees."""
    early = suspended_with_pending(stage, queue)
    outage.restart_components(component)
    stage.api.close()
    until(lambda: stage.api.get("/readyz").status == 200, "the API server")
    stage.ungate(early)
    until(lambda: stage.pod("late", queue).status in (201, 409), "a pod to be taken")
    assert gates(stage.read_pod("late")) == [GATE]
    for name in early:
        stage.reason_on(name, suspended_text(queue))
    assert is_active(stage.edit(queue, state="Open"))
    stage.all_bound([*early, "late"])
    stage.suspend(queue)


def test_nothing_is_written_twice_over_restarts(stage: Stage, queue: str, outage: LocalCluster) -> None:
    """A server that starts finds all as it should be: no write of a queue that needs none."""
    stage.suspend(queue)
    before = stage.read_queue(queue)["metadata"]["resourceVersion"]
    outage.restart_components("server")
    other = stage.queue("other")
    assert stage.api.get(f"{QUEUES}/{other}").status == 200
    assert stage.read_queue(queue)["metadata"]["resourceVersion"] == before


def suspended_with_pending(stage: Stage, queue: str) -> list[str]:
    """Two pods that were pending when the queue was suspended, kept back by the test's own gate."""
    names = stage.pods("early", 2, queue, gated=True)
    stage.suspend(queue)
    assert all(suspended_text(queue) not in why(pod) for pod in stage.read_pods().values())
    return names
