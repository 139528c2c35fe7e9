"""Two API servers on one etcd: a stop is acknowledged once the guard is on in both."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from localcluster.cluster import LocalCluster
from tests.support.e2e.api_requests import Object
from tests.support.e2e.fleet import Fleet
from tests.support.e2e.objects import binding_body, is_stopped, waits_for
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.second_api_server import SecondApiServer
from tests.support.e2e.wait import until

pytestmark = pytest.mark.long

#: No scheduler asks us about such a pod: the guard alone keeps it from being bound.
BY_HAND = "by-hand"


@pytest.fixture(scope="module")
def second(module_cluster: LocalCluster) -> Iterator[SecondApiServer]:
    made = SecondApiServer(module_cluster)
    yield made
    made.close()


@pytest.fixture(scope="module")
def server(
    module_cluster: LocalCluster, second: SecondApiServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    """One replica that knows of both API servers."""
    made = Fleet(module_cluster, tmp_path_factory.mktemp("server"))
    urls = f"{module_cluster.ports.apiserver_url},{second.url}"
    try:
        made.join("server-1", prefix=("/usr/bin/env", f"SLUICE_API_SERVERS={urls}"))
        yield made
    finally:
        made.close()


def test_a_stop_waits_until_the_late_one_has_the_guard(
    own_sandbox: Sandbox, second: SecondApiServer, server: Fleet
) -> None:
    """The second one has not heard of the namespace's label: a bind through it would not meet the guard."""
    queue = _queue_with_a_pod(own_sandbox, second)
    second.hold_namespaces_back()
    own_sandbox.patch_queue(queue, state="Suspended").must()
    early = own_sandbox.queue_that(queue, "be stopped, or wait for the guard", _is_decided)
    assert not is_stopped(early)
    second.let_namespaces_through()
    own_sandbox.answered(queue)
    status, text = _bind(second, own_sandbox, BY_HAND)
    assert status in (403, 409), text
    assert queue in text
    own_sandbox.bind(BY_HAND).must_refuse(queue)


def test_a_stop_waits_until_the_late_one_has_heard_of_a_deletion(
    own_sandbox: Sandbox, second: SecondApiServer, server: Fleet
) -> None:
    """An API server refuses binds in a namespace that is being deleted once it knows; a pod still waits."""
    queue = _queue_with_a_pod(own_sandbox, second)
    own_sandbox.cluster.signal_component("kube-controller-manager", signal.SIGSTOP)
    try:
        second.hold_namespaces_back()
        own_sandbox.api.delete(own_sandbox.home).must()
        own_sandbox.patch_queue(queue, state="Suspended").must()
        early = own_sandbox.queue_that(queue, "be stopped, or wait for the guard", _is_decided)
        assert not is_stopped(early)
        second.let_namespaces_through()
        own_sandbox.answered(queue)
        status, text = _bind(second, own_sandbox, BY_HAND)
        assert status == 403, text
    finally:
        second.let_namespaces_through()
        own_sandbox.cluster.signal_component("kube-controller-manager", signal.SIGCONT)


def test_a_stop_waits_for_one_that_is_away(
    own_sandbox: Sandbox, second: SecondApiServer, server: Fleet
) -> None:
    """It may let binds pass. A stop without a pod that could be bound is acknowledged all the same."""
    queue, empty = own_sandbox.queue(), own_sandbox.queue("empty")
    own_sandbox.pod(BY_HAND, queue, schedulerName=BY_HAND).must(201)
    second.stop()
    own_sandbox.suspend(empty)
    own_sandbox.patch_queue(queue, state="Suspended").must()
    early = own_sandbox.queue_that(queue, "be stopped, or wait for the guard", _is_decided)
    assert not is_stopped(early)
    second.start()
    own_sandbox.answered(queue)


def _queue_with_a_pod(own_sandbox: Sandbox, second: SecondApiServer) -> str:
    """A queue with a pod to be bound by hand; the second API server knows their namespace."""
    queue = own_sandbox.queue()
    own_sandbox.pod(BY_HAND, queue, schedulerName=BY_HAND).must(201)

    def is_known() -> bool:
        return 'pods "none" not found' in _bind(second, own_sandbox, "none")[1]

    until(is_known, "the namespace to be known")
    return queue


def _is_decided(queue: Object) -> bool:
    """Whether its stop is acknowledged, or waits for the guard."""
    return is_stopped(queue) or waits_for(queue).startswith("Unguarded: binds in namespace")


def _bind(second: SecondApiServer, own_sandbox: Sandbox, name: str) -> tuple[int, str]:
    """Through the second API server; a pod that is not there is asked about only."""
    dry = "?dryRun=All" if name != BY_HAND else ""
    return second.create(
        f"{own_sandbox.pods_path}/{name}/binding{dry}", binding_body(name, own_sandbox.namespace)
    )
