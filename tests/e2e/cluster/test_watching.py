"""All reflectors together, on a real API server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from cluster import debounce as debouncing
from cluster.api.client import Client
from cluster.background_thread import BackgroundThread
from cluster.cache.members import Member
from cluster.cache.store import Clock, Store
from cluster.informers.informers import ALL_KINDS, SHORT_WATCH_KINDS, Informers
from cluster.informers.registrations import registration_kinds
from cluster.metrics import Metrics
from cluster.readiness import ClusterReadiness
from localcluster.apiserver import Https
from localcluster.cluster import LocalCluster
from queues.membership import VOLCANO_ANNOTATION, MembershipSettings
from tests.support.cluster.notes import eventually
from tests.support.faults.faulty_proxy import (
    Asked,
    FaultyProxy,
    Silence,
)

pytestmark = pytest.mark.long

QUEUE = "nowhere"
PODS = "/api/v1/pods"
NAMESPACES = "/api/v1/namespaces"


@contextmanager
def watched(client: Client, *, patience: float = 30.0) -> Iterator[tuple[Store, Informers]]:
    store = Store(membership_settings=MembershipSettings(), clock=Clock())
    readiness = ClusterReadiness(ALL_KINDS, clock=time.monotonic)
    registrations = list(registration_kinds(store.registrations))
    watching = Informers(
        client=client, store=store, readiness=readiness, metrics=Metrics(), auxiliary=registrations
    )
    try:
        watching.start(patience=patience)
        yield store, watching
    finally:
        watching.stop()
        assert not any(reflector.alive for reflector in watching.reflectors.values())
        assert not store.watch_progress.alive


def is_synced(watching: Informers) -> bool:
    return all(reflector.synced.is_set() for reflector in watching.reflectors.values())


def annotate(cluster: LocalCluster, namespace: str) -> None:
    with cluster.api() as api:
        write_queue(api, namespace, QUEUE)


def write_queue(api: Https, namespace: str, queue: str) -> None:
    body = {"metadata": {"annotations": {VOLCANO_ANNOTATION: queue}}}
    assert api.request("PATCH", f"{NAMESPACES}/{namespace}", body).status == 200


def make_pod(cluster: LocalCluster, namespace: str, name: str = "early") -> None:
    """One that nobody schedules, and no webhook wrote a queue into."""
    spec: dict[str, Any] = {"schedulerName": "nobody", "containers": [{"name": "c", "image": "none"}]}
    with cluster.api() as api:
        reply = api.request(
            "POST", f"{NAMESPACES}/{namespace}/pods", {"metadata": {"name": name}, "spec": spec}
        )
        assert reply.status == 201, reply.body


def members(store: Store) -> list[Member]:
    return store.members.in_queue(QUEUE)


def lists(proxy: FaultyProxy, where: str) -> list[Asked]:
    return [asked for asked in proxy.asked if asked.lists and asked.path == where]


def lists_of(where: str) -> Callable[[Asked], bool]:
    return lambda asked: asked.lists and asked.path == where


def test_pods_are_members_before_their_namespaces_have_been_read(
    client: Client, proxy: FaultyProxy, cluster: LocalCluster, namespace: str
) -> None:
    """The server of this cluster has written their queue into their label."""
    make_pod(cluster, namespace)
    annotate(cluster, namespace)
    kept = proxy.keep(lists_of(NAMESPACES), answered=False)
    with watched(client, patience=0.1) as (store, watching):
        eventually(watching.reflectors["pods"].synced.is_set)
        eventually(lambda: members(store))
        proxy.free(kept)


def test_namespaces_that_are_annotated_by_a_script_have_the_pods_listed_a_few_times(
    client: Client,
    proxy: FaultyProxy,
    cluster: LocalCluster,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A list each, and each list begun anew, before."""
    monkeypatch.setattr(debouncing, "MAX_BURST_SECONDS", 1_000.0)
    make_pod(cluster, namespace)
    with watched(client) as (store, watching):
        eventually(lambda: is_synced(watching))
        before = len(lists(proxy, PODS))
        # Over one connection: one soon after the other.
        with cluster.api() as api:
            for queue in (*(f"other-{number}" for number in range(60)), QUEUE):
                write_queue(api, namespace, queue)
        eventually(lambda: store.members.get(namespace, "early") and not store.membership_relist_pending)
        assert len(lists(proxy, PODS)) - before <= 10


def test_a_list_under_way_is_finished_whatever_is_asked_for(
    client: Client, proxy: FaultyProxy, cluster: LocalCluster, namespace: str
) -> None:
    make_pod(cluster, namespace)
    annotate(cluster, namespace)
    kept = proxy.keep(lists_of(PODS), answered=True)
    with watched(client) as (store, watching):
        pods = watching.reflectors["pods"]
        eventually(kept.reached.is_set)
        wanted = [pods.relist() for _ in range(20)]
        pods.rewatch()
        assert not pods.synced.is_set()
        proxy.free(kept)
        eventually(lambda: members(store) and pods.completed >= max(wanted))
        assert len(lists(proxy, PODS)) == 2
    assert max(wanted) == 2


@pytest.mark.parametrize("kind", SHORT_WATCH_KINDS)
def test_a_watch_that_stops_wait_for_is_known_to_be_dead_within_seconds(
    client: Client, proxy: FaultyProxy, kind: str
) -> None:
    """It was 80 s. The connection lives, and nothing more comes on it."""
    with watched(client) as (_store, watching):
        reflector = watching.reflectors[kind]
        eventually(lambda: is_synced(watching))
        where = reflector.path
        proxy.order(Silence(after=150), when=lambda asked: asked.watch and asked.path == where)
        eventually(lambda: "watch" in said(proxy, where))
        reflector.rewatch()
        before = len(said(proxy, where))
        eventually(lambda: len(said(proxy, where)) >= before + 2, within=40)


def said(proxy: FaultyProxy, where: str) -> list[str]:
    """What was asked there, in order."""
    return ["watch" if asked.watch else "list" for asked in proxy.asked if asked.path == where]


def test_every_thread_that_was_started_and_has_ended_is_named(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with watched(client) as (_store, watching):
        eventually(lambda: is_synced(watching))
        assert watching.dead() == []
        reflector = watching.reflectors["pods"]
        monkeypatch.setattr(
            BackgroundThread, "alive", property(lambda thread: thread is not reflector._thread)
        )
        assert watching.dead() == ["reflector-pods"]
        monkeypatch.undo()
