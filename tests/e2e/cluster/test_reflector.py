"""The reflector on a real API server, with everything that happens on the way done to it by a proxy."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import Any

import pytest
from msgspec.json import Decoder

from cluster.api.client import Client, decode_response
from cluster.backoff import Backoff
from cluster.informers.reflector import Reflector
from localcluster.cluster import LocalCluster
from tests.support.cluster.notes import (
    Note,
    Notes,
    Strict,
    create_many,
    eventually,
    path,
    reflected,
)
from tests.support.faults.faulty_proxy import (
    Answer,
    Asked,
    Closing,
    Cut,
    Fault,
    FaultyProxy,
    Silence,
    When,
    expired_event,
    status,
)

pytestmark = pytest.mark.long

#: Long enough for an honest reflector to do nothing wrong in, and for a mad one to do it many times.
WHILE = 0.7
#: Less than any wait that a stop ends, and more than a busy machine needs for it.
AT_ONCE = 10.0
#: A reflector that backs off asks no more often than this in `WHILE`.
CALM = 40


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Back-offs of milliseconds: what is shown is what follows, not how long it takes. No watch is begun anew
    because its time is over.
    """
    monkeypatch.setattr("cluster.informers.reflector.BACKOFF", Backoff(0.02, 0.05))
    monkeypatch.setattr("cluster.informers.reflector.UNANSWERED_BACKOFF", Backoff(0.02, 2.0))
    monkeypatch.setattr("cluster.informers.reflector.WATCH_SECONDS", (1_000, 1_000))


@pytest.fixture
def sink() -> Strict:
    return Strict()


@pytest.fixture
def notes(cluster: LocalCluster, namespace: str) -> Iterator[Notes]:
    """Three notes, and what may be done to them."""
    with cluster.api() as api:
        notes = Notes(api, namespace)
        for name in ("a", "b", "c"):
            notes.create(name)
        eventually(lambda: any(name == "kube-root-ca.crt" for name, _ in notes.now()))
        yield notes


def lists(proxy: FaultyProxy) -> list[Asked]:
    return [asked for asked in proxy.asked if asked.lists]


def watches(proxy: FaultyProxy) -> list[Asked]:
    return [asked for asked in proxy.asked if asked.watch]


def answered_watches(proxy: FaultyProxy) -> list[Asked]:
    """Those that the API server has begun to answer."""
    return [answered.asked for answered in proxy.answered if answered.asked.watch]


def on_watch(asked: Asked) -> bool:
    return asked.watch


def on_list(asked: Asked) -> bool:
    return asked.lists


def called(fault: Fault) -> str:
    """A short name for a test."""
    if isinstance(fault, Answer):
        return f"{fault.status} {fault.body[:30]!r}" if fault.status == 200 else str(fault.status)
    return str(fault)


# Listing


def test_120_objects_are_listed_in_pages_of_50_and_told_at_once(
    cluster: LocalCluster,
    client: Client,
    proxy: FaultyProxy,
    namespace: str,
    sink: Strict,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cluster.api.pages.PAGE_OBJECTS", 50)
    create_many(cluster, namespace, 120)
    with reflected(client, path(namespace), sink) as reflector, cluster.api() as api:
        eventually(reflector.synced.is_set)
        eventually(lambda: sink.now() == Notes(api, namespace).now())
    assert [asked.query["limit"] for asked in lists(proxy)] == ["50"] * 3
    assert [("continue" in asked.query) for asked in lists(proxy)] == [False, True, True]
    assert sink.lists == 1
    sink.agreed()


@pytest.mark.parametrize(
    "fault",
    [
        status(410, reason="Expired"),
        status(429, Retry_After="0"),
        status(500),
        status(503),
        Cut(),
        Cut(after=300),
        Answer(200, b"nonsense"),
        Answer(200, b'{"items": 5}'),
        Answer(200, b"{}"),
        Answer(200, b'{"kind": "Status", "code": 200}'),
        Answer(200, b""),
    ],
    ids=called,
)
@pytest.mark.parametrize("page", ["first", "middle"])
def test_a_list_that_fails_is_begun_anew_and_told_whole(
    client: Client,
    proxy: FaultyProxy,
    namespace: str,
    notes: Notes,
    sink: Strict,
    fault: Fault,
    page: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cluster.api.pages.PAGE_OBJECTS", 1)
    proxy.order(fault, when=lambda asked: asked.lists and ("continue" in asked.query) == (page == "middle"))
    with reflected(client, path(namespace), sink):
        eventually(lambda: sink.lists)
        assert sink.now() == notes.now()
        notes.create("later")
        eventually(lambda: sink.now() == notes.now())
    assert sink.lists == 1, "half a list was told"
    sink.agreed()


def test_an_empty_kind_is_in_sync(client: Client, sink: Strict) -> None:
    nothing = "/apis/policy/v1/namespaces/kube-public/poddisruptionbudgets"
    with reflected(client, nothing, sink) as reflector:
        eventually(reflector.synced.is_set)
    assert sink.held == {}


def test_a_page_that_is_too_large_is_asked_for_again_with_fewer_objects(
    client: Client,
    proxy: FaultyProxy,
    cluster: LocalCluster,
    namespace: str,
    sink: Strict,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sixty pods of 8 MiB had taken all the memory of every replica at each of its starts."""
    held: list[int] = []

    def weighed(data: bytes, decoder: Decoder[Any]) -> object:
        held.append(len(data))
        return decode_response(data, decoder)

    monkeypatch.setattr("cluster.api.pages.PAGE_BYTES", 30_000)
    monkeypatch.setattr("cluster.api.pages.decode_response", weighed)
    create_many(cluster, namespace, 30)
    with cluster.api() as api:
        Notes(api, namespace)
        for number in range(20):
            large = {"n": "1", "filled": "<" * (1_500 if number else 20_000)}
            body = {"metadata": {"name": f"large-{number}"}, "data": large}
            assert api.request("POST", path(namespace), body).status == 201
        with reflected(client, path(namespace), sink) as reflector:
            eventually(reflector.synced.is_set)
            eventually(lambda: sink.now() == Notes(api, namespace).now())
    assert len(sink.names()) == 50
    assert [size for size in held if size > 30_000] == [max(held)], "only the one that is larger by itself"
    limits = [int(asked.query["limit"]) for asked in lists(proxy)]
    assert limits[0] == 500
    assert min(limits) == 1
    assert sink.lists == 1
    sink.agreed()


# Watching


def test_what_comes_changes_and_goes_is_heard_once_and_in_order(
    client: Client, proxy: FaultyProxy, namespace: str, notes: Notes, sink: Strict
) -> None:
    with reflected(client, path(namespace), sink) as reflector:
        eventually(lambda: watches(proxy))
        created, updated = notes.create("d"), notes.update("a", "1")
        notes.delete("b")
        eventually(lambda: sink.now() == notes.now())
        assert [(what, name) for what, name, _ in sink.heard] == [
            ("upsert", "d"),
            ("upsert", "a"),
            ("remove", "b"),
        ]
        assert [version for *_, version in sink.heard[:2]] == [created, updated]
        assert int(reflector.version) == sink.heard[-1][2]
    assert sink.lists == 1
    sink.agreed()


def test_the_next_watch_begins_where_the_last_one_ended(
    client: Client,
    proxy: FaultyProxy,
    namespace: str,
    notes: Notes,
    sink: Strict,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cluster.informers.reflector.WATCH_SECONDS", (1, 1))
    with reflected(client, path(namespace), sink):
        eventually(lambda: watches(proxy))
        version = notes.update("a", "1")
        eventually(lambda: len(watches(proxy)) > 1)
        notes.update("a", "2")
        eventually(lambda: sink.now() == notes.now())
    assert int(watches(proxy)[1].query["resourceVersion"]) >= version
    assert sink.lists == 1
    assert [version for *_, version in sink.heard] == notes.versions[-2:]
    sink.agreed()


def test_a_bookmark_moves_the_place_on_and_tells_the_sink_nothing(
    client: Client,
    proxy: FaultyProxy,
    namespace: str,
    notes: Notes,
    sink: Strict,
    cluster: LocalCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The API server sends one two seconds before a watch is over; elsewhere things go on meanwhile."""
    monkeypatch.setattr("cluster.informers.reflector.WATCH_SECONDS", (4, 4))
    with reflected(client, path(namespace), sink) as reflector, cluster.api() as api:
        eventually(lambda: watches(proxy))
        elsewhere = Notes(api, "default")
        version = elsewhere.create("bookmarked")
        try:
            eventually(lambda: int(reflector.version) >= version)
        finally:
            elsewhere.delete("bookmarked")
    assert all(asked.query["allowWatchBookmarks"] == "true" for asked in watches(proxy))
    assert sink.heard == []
    assert sink.lists == 1


@pytest.mark.parametrize(
    "fault", [status(410, reason="Expired"), expired_event()], ids=["as a status", "as an event"]
)
def test_a_lost_place_is_found_again_by_a_list(
    client: Client, proxy: FaultyProxy, namespace: str, notes: Notes, sink: Strict, fault: Fault
) -> None:
    proxy.order(fault, when=on_watch)
    with reflected(client, path(namespace), sink) as reflector:
        eventually(lambda: sink.lists == 2)
        eventually(lambda: len(watches(proxy)) == 2)
        notes.create("later")
        eventually(lambda: sink.now() == notes.now())
        assert reflector.synced.is_set()
    sink.agreed()


@pytest.mark.parametrize(
    "fault",
    [
        Cut(),
        Cut(after=150),
        status(429, Retry_After="0"),
        status(500),
        status(502),
        Answer(200, b'{"type": "ERROR", "object": {"code": 500, "message": "etcd"}}\n'),
        Answer(200, b""),
        Answer(302, b"", {"Location": "http://127.0.0.1:1/"}),
    ],
    ids=called,
)
def test_any_other_failure_of_a_watch_loses_no_place(
    client: Client, proxy: FaultyProxy, namespace: str, notes: Notes, sink: Strict, fault: Fault
) -> None:
    proxy.order(fault, when=on_watch, times=3)
    with reflected(client, path(namespace), sink):
        eventually(lambda: watches(proxy))
        notes.create("later")
        eventually(lambda: sink.now() == notes.now())
    assert len(watches(proxy)) >= 4
    assert sink.lists == 1
    sink.agreed()


@pytest.mark.parametrize(
    "line",
    [
        b"nonsense\n",
        b"{}\n",
        b'{"type": "ADDED"}\n',
        b'{"type": "ADDED", "object": {"metadata": {"resourceVersion": 5}}}\n',
        b'{"type": "BOOKMARK", "object": {"metadata": 1}}\n',
        b"[" * 100_000 + b"\n",
        b"\xff\xfe\n",
        b'{"type": "ADDED", "object": {"meta',
    ],
    ids=lambda line: repr(line[:40]),
)
def test_a_watch_that_speaks_nonsense_is_begun_anew_with_a_list(
    client: Client, proxy: FaultyProxy, namespace: str, notes: Notes, sink: Strict, line: bytes
) -> None:
    proxy.order(Answer(200, line), when=on_watch)
    with reflected(client, path(namespace), sink) as reflector:
        eventually(lambda: len(watches(proxy)) >= 2)
        notes.create("later")
        eventually(lambda: sink.now() == notes.now())
        assert reflector.alive
    sink.agreed()


def test_a_connection_that_has_gone_silent_is_given_up(
    client: Client,
    proxy: FaultyProxy,
    namespace: str,
    notes: Notes,
    sink: Strict,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cluster.informers.reflector.WATCH_SECONDS", (1, 1))
    monkeypatch.setattr("cluster.informers.reflector.SILENCE_SECONDS", 0.3)
    proxy.order(Silence(after=100), when=on_watch)
    with reflected(client, path(namespace), sink):
        eventually(lambda: watches(proxy))
        notes.create("later")
        eventually(lambda: sink.now() == notes.now())
    assert sink.lists == 1
    sink.agreed()


def test_a_kind_that_is_not_there_any_more_is_out_of_sync_until_it_is(
    client: Client, proxy: FaultyProxy, namespace: str, notes: Notes, sink: Strict
) -> None:
    with reflected(client, path(namespace), sink) as reflector:
        eventually(lambda: watches(proxy))
        proxy.order(status(404), times=1_000_000)
        proxy.cut()
        eventually(lambda: not reflector.synced.is_set())
        notes.create("later")
        proxy.relent()
        eventually(reflector.synced.is_set)
        assert sink.now() == notes.now()
    assert sink.lists == 2


# An API server that starts again


@pytest.mark.parametrize("code", [401, 403])
def test_a_right_that_is_missing_for_a_while_takes_nothing_back(
    client: Client, proxy: FaultyProxy, namespace: str, notes: Notes, sink: Strict, code: int
) -> None:
    """An API server that starts says so until it has read its roles."""
    with reflected(client, path(namespace), sink) as reflector:
        eventually(lambda: watches(proxy))
        before = len(watches(proxy))
        proxy.order(status(code), times=1_000_000)
        proxy.cut()
        notes.create("later")
        eventually(lambda: len(watches(proxy)) >= before + 3)
        assert reflector.synced.is_set()
        proxy.relent()
        eventually(lambda: sink.now() == notes.now())
        assert reflector.synced.is_set()
    assert sink.lists == 1
    sink.agreed()


@pytest.mark.parametrize("code", [401, 403])
def test_a_right_that_is_gone_ends_in_being_out_of_sync(
    client: Client,
    proxy: FaultyProxy,
    namespace: str,
    notes: Notes,
    sink: Strict,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However long the back-off is by then."""
    monkeypatch.setattr("cluster.informers.reflector.FORBIDDEN_SECONDS", 1.0)
    with reflected(client, path(namespace), sink) as reflector:
        eventually(lambda: watches(proxy))
        before = len(watches(proxy))
        proxy.order(status(code), times=1_000_000)
        proxy.cut()
        eventually(lambda: len(watches(proxy)) > before)
        monkeypatch.setattr("cluster.informers.reflector.BACKOFF", Backoff(1_000.0))
        eventually(lambda: not reflector.synced.is_set())
        proxy.relent()
        notes.create("later")
        reflector.retry_now()
        eventually(reflector.synced.is_set)
        assert sink.now() == notes.now()
    assert sink.lists == 2


def test_a_refusal_between_two_answers_does_not_count_against_the_right(
    client: Client,
    proxy: FaultyProxy,
    namespace: str,
    notes: Notes,
    sink: Strict,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The time in which it is forbidden is one without an answer that is not."""
    allowed = 2.0
    monkeypatch.setattr("cluster.informers.reflector.FORBIDDEN_SECONDS", allowed)
    fell: list[int] = []
    with reflected(client, path(namespace), sink) as reflector:
        monkeypatch.setattr(reflector.synced, "clear", lambda: fell.append(1))
        began = time.monotonic()
        for number in count():
            if time.monotonic() > began + 1.2 * allowed:
                break
            eventually(lambda: watches(proxy))
            proxy.order(status(403), when=on_watch)
            proxy.cut()
            version = notes.create(f"later-{number}")
            eventually(partial(has_applied, reflector, version))
    assert fell == []


@pytest.mark.parametrize(
    "first", [status(403), status(429, Retry_After="0"), status(503, Retry_After="0")], ids=called
)
def test_the_back_off_begins_anew_with_the_first_answer_after_none(
    client: Client,
    proxy: FaultyProxy,
    namespace: str,
    notes: Notes,
    sink: Strict,
    first: Fault,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who has failed many times asks a server that starts as if for the first time."""
    monkeypatch.setattr("cluster.informers.reflector.BACKOFF", Backoff(0.001, 1_000.0))
    monkeypatch.setattr("cluster.informers.reflector.UNANSWERED_BACKOFF", Backoff(0.001, 0.01))
    with reflected(client, path(namespace), sink) as reflector:
        eventually(lambda: watches(proxy))
        proxy.go_away()
        eventually(lambda: reflector.failures >= 20)
        proxy.order(first, times=3)
        proxy.come_back()
        notes.create("later")
        eventually(lambda: sink.now() == notes.now())
        assert reflector.synced.is_set()
    assert sink.lists == 1


@contextmanager
def two_reflected(
    client: Client, proxy: FaultyProxy, namespace: str, sink: Strict
) -> Iterator[tuple[Reflector[Note], Reflector[Note]]]:
    """Two that watch; only an answer to the second one wakes both."""
    both: list[Reflector[Note]] = []

    def wake() -> None:
        for reflector in both:
            reflector.retry_now()

    with (
        reflected(client, path(namespace), sink) as woken,
        reflected(client, path(namespace), Strict(), answered=wake) as waking,
    ):
        both += [woken, waking]
        eventually(lambda: len(watches(proxy)) >= 2)
        yield woken, waking


def test_the_first_that_is_answered_wakes_the_others(
    client: Client,
    proxy: FaultyProxy,
    namespace: str,
    notes: Notes,
    sink: Strict,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A reflector that rests for a thousand seconds is woken by one that does not."""
    with two_reflected(client, proxy, namespace, sink) as (late, early):
        proxy.go_away()
        monkeypatch.setattr("cluster.informers.reflector.UNANSWERED_BACKOFF", Backoff(1_000.0))
        eventually(lambda: late.failures > 0 and early.failures > 0)
        early.retry_now()
        early.retry_now()
        proxy.come_back()
        version = notes.create("later")
        eventually(lambda: _applied(late, version, retried=early))


def test_one_whose_watch_was_only_cut_wakes_the_others_too(
    client: Client,
    proxy: FaultyProxy,
    namespace: str,
    notes: Notes,
    sink: Strict,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both watches are cut; only one of the reflectors was refused before the API server came back."""
    with two_reflected(client, proxy, namespace, sink) as (refused, cut):
        for name in ("BACKOFF", "UNANSWERED_BACKOFF"):
            monkeypatch.setattr(f"cluster.informers.reflector.{name}", Backoff(1_000.0))
        proxy.go_away()

        def is_refused() -> bool:
            refused.retry_now()
            return refused.failures >= 2

        eventually(is_refused)
        eventually(lambda: cut.failures == 1)
        proxy.come_back()
        version = notes.create("later")
        eventually(lambda: _applied(refused, version, retried=cut))


def _applied(reflector: Reflector[Note], version: int, *, retried: Reflector[Note]) -> bool:
    retried.retry_now()
    return reflector.applied >= version


@pytest.mark.parametrize("ask", ["relist", "rewatch"])
def test_what_is_asked_for_ends_a_rest(
    client: Client,
    proxy: FaultyProxy,
    namespace: str,
    notes: Notes,
    sink: Strict,
    ask: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A replica that has its Lease again has the queues listed, and must not wait for a back-off."""
    with reflected(client, path(namespace), sink) as reflector:
        eventually(lambda: watches(proxy))
        proxy.go_away()
        monkeypatch.setattr("cluster.informers.reflector.UNANSWERED_BACKOFF", Backoff(1_000.0))
        eventually(lambda: reflector.failures > 1)
        proxy.come_back()
        version = notes.create("later")
        getattr(reflector, ask)()
        eventually(lambda: reflector.applied >= version)


# Objects that cannot be read


def test_an_object_that_cannot_be_read_is_left_out_and_the_others_go_on(
    client: Client, proxy: FaultyProxy, namespace: str, notes: Notes, sink: Strict
) -> None:
    notes.create("bad", n="not a number")
    with reflected(client, path(namespace), sink) as reflector:
        eventually(lambda: watches(proxy))
        assert sink.names() == {"a", "b", "c"}
        notes.create("worse", n="neither")
        version = notes.create("good", n="1")
        eventually(lambda: sink.names() == {"a", "b", "c", "good"})
        assert int(reflector.version) == version
        notes.update("bad", n="5")
        eventually(lambda: "bad" in sink.names())
    assert sink.lists == 1
    sink.agreed()


@pytest.mark.parametrize("then", ["stays", "goes"])
def test_an_object_that_cannot_be_read_any_more_is_left_out_too(
    client: Client, proxy: FaultyProxy, namespace: str, notes: Notes, sink: Strict, then: str
) -> None:
    """What was held of it before is not true of it any more."""
    with reflected(client, path(namespace), sink):
        eventually(lambda: watches(proxy))
        notes.update("a", n="not a number")
        if then == "goes":
            notes.delete("a")
        notes.create("later")
        eventually(lambda: "later" in sink.names())
        assert sink.names() == {"b", "c", "later"}


# Not asking too often


@pytest.mark.parametrize(
    "fault",
    [
        status(410),
        expired_event(),
        status(403),
        status(404),
        status(429, Retry_After="0"),
        status(500),
        Cut(),
        Answer(200, b""),
        Answer(200, b"nonsense\n"),
    ],
    ids=called,
)
def test_whatever_goes_on_failing_is_not_asked_for_too_often(
    client: Client, proxy: FaultyProxy, namespace: str, notes: Notes, sink: Strict, fault: Fault
) -> None:
    """The same answer to every watch for a while; with the real back-off it would be far less often."""
    proxy.order(fault, when=on_watch, times=1_000_000)
    with reflected(client, path(namespace), sink) as reflector:
        eventually(lambda: watches(proxy))
        before, began = len(proxy.asked), time.monotonic()
        time.sleep(WHILE)  # that nothing happens cannot be waited for
        asked = len(proxy.asked) - before
        assert asked <= CALM * (time.monotonic() - began) / WHILE
        proxy.relent()
        notes.create("later")
        eventually(lambda: sink.now() == notes.now())
        assert reflector.alive
    sink.agreed()


def test_an_overloaded_server_is_left_alone_for_as_long_as_it_asks(
    client: Client, proxy: FaultyProxy, namespace: str, notes: Notes, sink: Strict
) -> None:
    proxy.order(status(429, Retry_After="1"), when=on_list)
    began = time.monotonic()
    with reflected(client, path(namespace), sink) as reflector:
        eventually(reflector.synced.is_set)
        assert time.monotonic() - began >= 1.0
    assert len(lists(proxy)) == 2


@pytest.mark.parametrize(
    "headers",
    [
        {"Retry_After": "nan"},
        {"Retry_After": "-5"},
        {"Retry_After": "soon"},
        {"Retry_After": "Wed, 21 Oct 2015 07:28:00 GMT"},
        {"Date": "yesterday"},
    ],
    ids=str,
)
def test_no_header_ends_the_thread(
    client: Client,
    proxy: FaultyProxy,
    namespace: str,
    notes: Notes,
    sink: Strict,
    headers: dict[str, str],
) -> None:
    proxy.order(status(429, **headers), when=on_list)
    with reflected(client, path(namespace), sink) as reflector:
        eventually(lambda: reflector.synced.is_set() or not reflector.alive)
        assert reflector.alive


# Listing again


def test_a_list_that_is_asked_for_comes_and_its_number_is_told(
    client: Client, proxy: FaultyProxy, namespace: str, notes: Notes, sink: Strict
) -> None:
    with reflected(client, path(namespace), sink) as reflector:
        eventually(lambda: watches(proxy))
        number = reflector.relist()
        assert reflector.completed < number
        eventually(lambda: reflector.completed >= number)
        assert sink.lists == 2
        notes.create("later")
        eventually(lambda: sink.now() == notes.now())
    sink.agreed()


@pytest.mark.parametrize("fault", [status(500), status(429, Retry_After="0"), Cut(), status(410)], ids=called)
def test_a_list_that_was_asked_for_and_failed_is_not_forgotten(
    client: Client, proxy: FaultyProxy, namespace: str, notes: Notes, sink: Strict, fault: Fault
) -> None:
    with reflected(client, path(namespace), sink) as reflector:
        eventually(lambda: watches(proxy))
        proxy.order(fault, when=on_list, times=2)
        number = reflector.relist()
        eventually(lambda: reflector.completed >= number)
    assert sink.lists == 2


def test_a_list_asked_for_while_one_is_under_way_is_another(
    client: Client, proxy: FaultyProxy, namespace: str, notes: Notes, sink: Strict
) -> None:
    """Whoever asks wants what is true now, and the one under way may have been answered before."""
    asked: list[int] = []

    class Asking(Strict):
        def replace(self, objects: list[Any]) -> None:
            super().replace(objects)
            if self.lists == 2:
                asked.append(reflector.relist())

    asking = Asking()
    with reflected(client, path(namespace), asking) as reflector:
        eventually(lambda: watches(proxy))
        reflector.relist()
        eventually(lambda: asking.lists == 3)
        eventually(lambda: reflector.completed >= asked[0])
    asking.agreed()


# Stopping


def stopped_at_once(reflector: Reflector[Any]) -> None:
    began = time.monotonic()
    reflector.stop()
    assert time.monotonic() - began < AT_ONCE
    assert not reflector.alive, "the thread goes on"


def test_stop_ends_a_watch_under_way(
    client: Client, proxy: FaultyProxy, namespace: str, notes: Notes, sink: Strict
) -> None:
    with reflected(client, path(namespace), sink) as reflector:
        eventually(lambda: watches(proxy))
        notes.create("later")
        eventually(lambda: sink.now() == notes.now())
        stopped_at_once(reflector)


@pytest.mark.parametrize(
    ("fault", "when"),
    [
        (Silence(), on_list),
        (Silence(after=400), on_list),
        (Silence(), on_watch),
        (Silence(after=20), on_watch),
        (Closing(), on_watch),
        (status(429, Retry_After="30"), on_list),
        (status(429, Retry_After="30"), on_watch),
    ],
    ids=[
        "a list that is not answered",
        "a list whose answer stops half way",
        "a watch that is not answered",
        "a watch whose answer stops in its head",
        "a watch on a connection that will be closed",
        "a long wait before a list",
        "a long wait before a watch",
    ],
)
def test_stop_ends_whatever_is_under_way(
    client: Client, proxy: FaultyProxy, namespace: str, notes: Notes, sink: Strict, fault: Fault, when: When
) -> None:
    proxy.order(fault, when=when, times=100)
    with reflected(client, path(namespace), sink) as reflector:
        eventually(lambda: any(map(when, list(proxy.asked))))
        time.sleep(0.1)  # until it waits for what does not come
        stopped_at_once(reflector)


def test_stop_before_anything_was_answered_and_before_the_start_is_no_fault(
    client: Client, namespace: str, notes: Notes, sink: Strict
) -> None:
    with reflected(client, path(namespace), sink) as reflector:
        stopped_at_once(reflector)
        stopped_at_once(reflector)


# Everything at once


def has_applied(reflector: Reflector[Any], version: int) -> bool:
    return reflector.applied >= version


def churn(
    notes: Notes, rnd: random.Random, *, writes: int, trouble: Callable[[], None] | None = None
) -> None:
    """Random writes, all of which are known, with trouble in between."""
    there = {"a", "b", "c"}
    for number in range(1, writes + 1):
        name = rnd.choice([*sorted(there), f"new-{number}"])
        if name not in there:
            notes.create(name, str(number))
            there.add(name)
        elif rnd.random() < 0.3 and len(there) > 1:
            notes.delete(name)
            there.discard(name)
        else:
            notes.update(name, str(number))
        if trouble is not None and rnd.random() < 0.2:
            trouble()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_event_is_lost_or_doubled_however_often_the_connection_is_cut(
    client: Client,
    proxy: FaultyProxy,
    namespace: str,
    notes: Notes,
    sink: Strict,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without a list in between every single write has to be heard of, once.

    After half of the cuts the writes wait for the next watch, which a later cut then ends. After the others
    they go on while nothing is watched.
    """
    monkeypatch.setattr("cluster.informers.reflector.UNANSWERED_BACKOFF", Backoff(0.02, 0.05))
    rnd = random.Random(seed)
    waits = 0

    def cut_somewhere() -> None:
        nonlocal waits
        before = len(answered_watches(proxy))
        if rnd.random() < 0.5:
            proxy.order(Cut(after=rnd.randrange(1000)), when=on_watch)
        proxy.cut()
        if rnd.random() < 0.5:
            waits += 1
            eventually(lambda: len(answered_watches(proxy)) > before)

    with reflected(client, path(namespace), sink):
        eventually(lambda: answered_watches(proxy))
        notes.versions.clear()
        churn(
            notes,
            rnd,
            writes=300,
            trouble=cut_somewhere,
        )
        proxy.relent()
        eventually(lambda: sink.now() == notes.now())
    assert sink.lists == 1
    assert [version for what, _, version in sink.heard if what == "upsert"] == notes.versions
    assert len(answered_watches(proxy)) > waits > 20
    sink.agreed()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_after_any_trouble_what_is_held_is_what_there_is(
    client: Client,
    proxy: FaultyProxy,
    namespace: str,
    notes: Notes,
    sink: Strict,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cluster.api.pages.PAGE_OBJECTS", 2)
    monkeypatch.setattr("cluster.informers.reflector.WATCH_SECONDS", (1, 1))
    monkeypatch.setattr("cluster.informers.reflector.SILENCE_SECONDS", 0.2)
    monkeypatch.setattr("cluster.api.client.READ_SECONDS", 0.5)
    rnd = random.Random(seed)
    anywhere: list[Fault] = [Cut(), Cut(after=500), Silence(after=500), status(410), status(500), Closing()]
    faults = [(fault, rnd.choice([on_watch, on_list])) for fault in anywhere]
    faults += [(expired_event(), on_watch), (Answer(200, b"nonsense\n"), on_watch)]

    def trouble() -> None:
        fault, when = rnd.choice(faults)
        proxy.order(fault, when=when)
        if rnd.random() < 0.7:
            proxy.cut()

    with reflected(client, path(namespace), sink) as reflector:
        churn(notes, rnd, writes=150, trouble=trouble)
        proxy.relent()
        proxy.cut()
        eventually(lambda: sink.now() == notes.now())
        assert reflector.synced.is_set()
    sink.agreed()
