"""A view is known to be as new as some version, or is made so, whatever has become of its watch."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
import pytest

from cluster.api.client import Client
from cluster.cache import watch_progress as module
from cluster.cache.marker_pods import MARKER_POD, MarkerPods
from cluster.cache.members import Members
from cluster.cache.watch_progress import Marker, WatchProgress
from cluster.informers.reflector import Reflector, ReflectorOptions
from cluster.metrics import Metrics
from cluster.objects import Pod
from localcluster.cluster import LocalCluster
from tests.support.cluster.member_events import RecordedMemberEvents
from tests.support.cluster.notes import (
    Note,
    Notes,
    Strict,
    eventually,
    path,
    reflected,
)
from tests.support.faults.faulty_proxy import (
    Asked,
    FaultyProxy,
    Silence,
    status,
)

PODS = "/api/v1/pods"


NEVER = 1_000


@pytest.fixture(autouse=True)
def only_markers(monkeypatch: pytest.MonkeyPatch) -> None:
    """No new watch and no list helps, but where a test says so (`allow`): what is shown is what helps."""
    monkeypatch.setattr(module, "REWATCH_SECONDS", NEVER)
    monkeypatch.setattr(module, "RELIST_SECONDS", NEVER)
    monkeypatch.setattr("cluster.informers.reflector.WATCH_SECONDS", (NEVER, NEVER))


def allow(monkeypatch: pytest.MonkeyPatch, *, rewatch: float = NEVER, relist: float = NEVER) -> None:
    """So many seconds after a demand."""
    monkeypatch.setattr(module, "REWATCH_SECONDS", rewatch)
    monkeypatch.setattr(module, "RELIST_SECONDS", relist)


@pytest.fixture
def notes(cluster: LocalCluster, namespace: str) -> Iterator[Notes]:
    with cluster.api() as api:
        notes = Notes(api, namespace)
        notes.create("a")
        eventually(lambda: any(name == "kube-root-ca.crt" for name, _ in notes.now()))
        yield notes


class Demanding:
    """A reflector of notes, what may be demanded of it, and what was heard of that."""

    def __init__(self, reflector: Reflector[Note], progress: WatchProgress) -> None:
        self.reflector = reflector
        self.progress = progress
        self.reached: list[str] = []
        progress.listen(self.reached.append)

    def demand(self, version: int) -> bool:
        return self.progress.demand("notes", version)


@contextmanager
def demanding(
    client: Client, namespace: str, sink: Strict, *, marker: Marker | None = None
) -> Iterator[Demanding]:
    progress = WatchProgress(clock=time.monotonic)
    with reflected(client, path(namespace), sink, advanced=progress.advanced) as reflector:
        eventually(reflector.synced.is_set)
        progress.attach("notes", reflector, marker=marker)
        progress.start()
        try:
            yield Demanding(reflector, progress)
        finally:
            progress.stop()
            assert not progress.alive


def elsewhere(cluster: LocalCluster, namespace: str) -> int:
    """A version that no event of the notes' namespace has."""
    with cluster.api() as api:
        body = {"metadata": {"labels": {"touched": str(time.monotonic_ns())}}}
        reply = api.request("PATCH", f"/api/v1/namespaces/{namespace}", body)
        assert reply.status == 200, reply.body
        return int(reply.json()["metadata"]["resourceVersion"])


def marking(cluster: LocalCluster, namespace: str) -> Marker:
    """Writes a note, over a connection of its own: it is called in another thread."""

    def mark() -> None:
        with cluster.api() as api:
            Notes(api, namespace).update("a", str(time.monotonic_ns()))

    return mark


def watches(proxy: FaultyProxy) -> list[Asked]:
    return [asked for asked in proxy.asked if asked.watch]


def test_what_a_list_and_an_event_said_is_applied(
    client: Client, namespace: str, notes: Notes, proxy: FaultyProxy
) -> None:
    sink = Strict()
    with demanding(client, namespace, sink) as kind:
        assert kind.reflector.applied >= notes.versions[-1]
        version = notes.update("a", "1")
        eventually(lambda: kind.reflector.applied >= version)
        assert kind.demand(version)
        assert kind.progress.applied("notes") == kind.reflector.applied
        assert kind.reached == []  # it was there already, and nobody waited


def test_a_lost_place_and_a_lost_right_take_back_nothing_of_what_was_applied(
    client: Client, namespace: str, notes: Notes, proxy: FaultyProxy
) -> None:
    with demanding(client, namespace, Strict()) as kind:
        before = kind.reflector.applied
        proxy.order(status(403), times=3)
        proxy.order(status(410), when=lambda asked: asked.watch)
        proxy.cut()
        version = notes.update("a", "1")
        eventually(lambda: proxy.asked[-1].watch and kind.reflector.applied >= version)
        assert kind.reflector.applied >= before


def test_an_event_that_comes_by_itself_costs_nothing_more(
    client: Client, namespace: str, notes: Notes, proxy: FaultyProxy, cluster: LocalCluster
) -> None:
    marked: list[int] = []
    with demanding(client, namespace, Strict(), marker=lambda: marked.append(1)) as kind:
        eventually(lambda: watches(proxy))
        kept = proxy.keep(lambda asked: asked.watch, answered=True)
        version = elsewhere(cluster, namespace)
        notes.update("a", "1")
        eventually(lambda: kind.progress.applied("notes") >= version)
        assert kind.demand(version)
        proxy.free(kept)
    assert marked == []


def test_a_marker_brings_a_quiet_kind_up_to_date(
    client: Client, namespace: str, notes: Notes, proxy: FaultyProxy, cluster: LocalCluster
) -> None:
    """Nothing of the kind has happened since; only an event can show that."""
    with demanding(client, namespace, Strict(), marker=marking(cluster, namespace)) as kind:
        eventually(lambda: watches(proxy))
        version = elsewhere(cluster, namespace)
        assert not kind.demand(version)
        eventually(lambda: kind.reached)
        assert kind.demand(version)
        assert len(watches(proxy)) == 1


def test_one_marker_is_enough_for_all_who_ask_at_once(
    client: Client,
    namespace: str,
    notes: Notes,
    proxy: FaultyProxy,
    cluster: LocalCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its event comes before the next marker may be written, however long the event takes."""
    monkeypatch.setattr(module, "MARKER_GAP_SECONDS", NEVER)
    marked: list[int] = []
    write = marking(cluster, namespace)

    def mark() -> None:
        marked.append(len(marked))
        write()

    with demanding(client, namespace, Strict(), marker=mark) as kind:
        versions = [elsewhere(cluster, namespace) for _ in range(5)]
        for version in versions * 3:
            kind.demand(version)
        eventually(lambda: all(map(kind.demand, versions)))
    assert len(marked) == 1


def test_whoever_may_not_have_a_marker_written_waits_for_that_of_another(
    client: Client, namespace: str, notes: Notes, cluster: LocalCluster
) -> None:
    marked: list[int] = []
    with demanding(client, namespace, Strict(), marker=lambda: marked.append(1)) as kind:
        version = elsewhere(cluster, namespace)
        assert not kind.progress.demand("notes", version, marker=False)
        notes.update("a", "somebody else's")
        eventually(lambda: kind.reached)
        assert kind.progress.demand("notes", version, marker=False)
    assert marked == []


def test_a_watch_that_is_half_open_is_given_up_once_something_waits_for_it(
    client: Client, namespace: str, notes: Notes, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection lives, and nothing comes: what was missed comes at once on a new one."""
    allow(monkeypatch, rewatch=0.3)
    proxy.order(Silence(after=150), when=lambda asked: asked.watch)
    sink = Strict()
    with demanding(client, namespace, sink) as kind:
        eventually(lambda: watches(proxy))
        version = notes.update("a", "1")
        assert not kind.demand(version)
        eventually(lambda: kind.demand(version))
        assert sink.now() == notes.now()
    assert sink.lists == 1
    sink.agreed()


def test_a_watch_that_says_nothing_on_any_connection_is_replaced_by_a_list(
    client: Client, namespace: str, notes: Notes, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(monkeypatch, rewatch=0.3, relist=1.0)
    proxy.order(Silence(after=150), when=lambda asked: asked.watch, times=1_000)
    sink = Strict()
    with demanding(client, namespace, sink) as kind:
        version = notes.update("a", "1")
        assert not kind.demand(version)
        eventually(lambda: kind.demand(version))
        assert sink.now() == notes.now()
    assert sink.lists > 1


def test_a_marker_that_is_refused_is_tried_again_and_hinders_nothing_else(
    client: Client,
    namespace: str,
    notes: Notes,
    proxy: FaultyProxy,
    cluster: LocalCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    allow(monkeypatch, rewatch=0.3, relist=1.0)

    def refused() -> None:
        raise RuntimeError("a policy of somebody's")

    with demanding(client, namespace, Strict(), marker=refused) as kind:
        version = elsewhere(cluster, namespace)
        assert not kind.demand(version)
        eventually(lambda: kind.demand(version))
        assert kind.progress.alive


def test_a_listener_that_fails_hinders_neither_the_reflector_nor_another(
    client: Client, namespace: str, notes: Notes, cluster: LocalCluster
) -> None:
    def fail(_kind: str) -> None:
        raise RuntimeError("as ordered")

    sink = Strict()
    with demanding(client, namespace, sink, marker=marking(cluster, namespace)) as kind:
        kind.progress.listen(fail)
        kind.progress.listen(kind.reached.append)
        kind.demand(elsewhere(cluster, namespace))
        eventually(lambda: kind.reached == ["notes", "notes"])
        notes.create("later")
        eventually(lambda: sink.now() == notes.now())
    assert sink.lists == 1


def test_what_is_not_watched_is_never_up_to_date() -> None:
    progress = WatchProgress(clock=time.monotonic)
    assert not progress.demand("pods", 1)
    assert progress.applied("pods") == 0


@pytest.mark.parametrize("litter", [False, True], ids=["", "one was left behind"])
def test_a_pod_of_no_use_is_an_event_and_leaves_nothing(
    client: Client, proxy: FaultyProxy, cluster: LocalCluster, namespace: str, *, litter: bool
) -> None:
    heard = threading.Event()
    if litter:
        proxy.order(status(500), when=lambda asked: asked.method == "DELETE")
        with pytest.raises(Exception, match="as ordered"):
            MarkerPods(client, namespace=namespace)()
    reflector = pods(client, lambda _kind, _applied: heard.set())
    reflector.start()
    try:
        eventually(reflector.synced.is_set)
        version = elsewhere(cluster, namespace)
        heard.clear()
        MarkerPods(client, namespace=namespace)()
        eventually(lambda: reflector.applied >= version)
    finally:
        reflector.stop()
    with cluster.api() as api:
        assert api.request("GET", f"/api/v1/namespaces/{namespace}/pods/{MARKER_POD}").status == 404


def pods(client: Client, advanced: Callable[[str, int], object]) -> Reflector[Pod]:
    return Reflector(
        kind="pods",
        path=PODS,
        decode=msgspec.json.Decoder(Pod).decode,
        handler=Members(RecordedMemberEvents()),
        client=client,
        counters=Metrics(),
        options=ReflectorOptions(advanced=advanced),
    )
