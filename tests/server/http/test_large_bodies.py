"""A body that takes long to decode makes nobody else wait, and one that no honest caller sends is refused."""

from __future__ import annotations

import io
import json
import math
import queue
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from server.http.large_bodies import (
    INLINE_BYTES,
    INLINE_VALUES,
    QUEUED_BYTES,
    QUEUED_PER_CONNECTION,
    VALUE_LIMIT,
    LargeBodies,
)
from server.http.request_parser import RequestError
from tests.server.http.http2.test_http2_worker import Caller
from tests.support.http.asking import Server
from tests.support.http.served_worker import (
    Served,
    request,
    seen,
    served,
    waiting_for,
)

#: How many times as long as `reference` one body may keep the loop's thread: 40 ms, where that takes 1 ms,
#: and as much again for what a shared core adds.
ON_THE_LOOP = 80
TRIES = 12
LARGE = b"[" + b"1," * (INLINE_VALUES + 1) + b"1]"


def body(data: bytes) -> io.BytesIO:
    made = io.BytesIO()
    made.write(data)
    return made


@pytest.fixture
def large_bodies() -> Iterator[LargeBodies]:
    made = LargeBodies(call_soon_threadsafe=lambda call, *given: call(*given))
    yield made
    made.stop()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", False),
        (b"," * INLINE_VALUES, False),
        (b"," * (INLINE_VALUES + 1), True),
        (b"x" * INLINE_BYTES, False),
        (b"x" * (INLINE_BYTES + 1), True),
        (b"{[," * (VALUE_LIMIT // 3), True),
    ],
)
def test_which_are_large(large_bodies: LargeBodies, data: bytes, expected: bool) -> None:
    assert large_bodies.is_large(body(data)) is expected


def test_a_body_with_too_many_values_is_refused(large_bodies: LargeBodies) -> None:
    with pytest.raises(RequestError, match="150,000 values") as caught:
        large_bodies.is_large(body(b"," * (VALUE_LIMIT + 1)))
    assert caught.value.status == 413


class Gated:
    """Bodies whose answers wait for the gate, and a loop that is turned by hand."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.back: queue.Queue[Callable[[], None]] = queue.Queue()
        self.answered: list[str] = []
        self.large_bodies = LargeBodies(
            call_soon_threadsafe=lambda call, *given: self.back.put(lambda: call(*given))
        )

    def submit(self, caller: str, size: int = 1) -> None:
        self.large_bodies.submit(
            caller, size, answer=lambda: self.gate.wait(20), done=lambda _: self.answered.append(caller)
        )

    def turn(self) -> None:
        """Until one has been answered."""
        self.gate.set()
        self.back.get(timeout=20)()


@pytest.fixture
def gated() -> Iterator[Gated]:
    made = Gated()
    yield made
    made.gate.set()
    made.large_bodies.stop()


@pytest.mark.parametrize(
    ("size", "callers", "taken"),
    [(1, 1, 1 + QUEUED_PER_CONNECTION), (QUEUED_BYTES // 4, 10, 4)],
    ids=["of one caller", "bytes"],
)
def test_only_so_many_wait(gated: Gated, size: int, callers: int, taken: int) -> None:
    """And once one is answered there is room for another."""
    for number in range(taken):
        gated.submit(str(number % callers), size)
    with pytest.raises(RequestError) as caught:
        gated.submit("0", size)
    assert caught.value.status == 503
    gated.turn()
    gated.submit("0", size)


def test_connections_take_turns(gated: Gated) -> None:
    for caller in ("a", "a", "a", "b", "c", "c"):
        gated.submit(caller)
    for _ in range(6):
        gated.turn()
    assert gated.answered == ["a", "a", "b", "c", "a", "c"]


def test_requests_of_a_closed_connection_are_not_started(gated: Gated) -> None:
    for caller in ("a", "b", "b", "c"):
        gated.submit(caller, QUEUED_BYTES // 4)
    gated.large_bodies.cancel("b")
    gated.large_bodies.cancel("b")
    gated.submit("c", QUEUED_BYTES // 2)
    for _ in range(3):
        gated.turn()
    assert gated.answered == ["a", "c", "c"]


def test_its_thread_has_a_name_and_ends(large_bodies: LargeBodies) -> None:
    threads: list[threading.Thread] = []
    done = threading.Event()

    def answered(thread: threading.Thread) -> None:
        threads.append(thread)
        done.set()

    large_bodies.submit(0, 1, answer=threading.current_thread, done=answered)
    assert done.wait(20)
    (thread,) = threads
    assert thread.name.startswith("large-bodies")
    large_bodies.stop()
    thread.join(20)
    assert not thread.is_alive()


# The worker


@pytest.fixture(scope="module")
def roomy(certificate: tuple[Path, Path]) -> Iterator[Served]:
    with served(certificate, body_bytes=1_000_000) as running:
        yield running


def test_other_clients_are_answered_while_a_large_body_is_processed(roomy: Served, tmp_path: Path) -> None:
    """The app waits in it until another caller has been answered."""
    with roomy.caller() as slow, roomy.caller() as other:
        slow.send(request(waiting_for(tmp_path / "go"), body=LARGE) + request(body=b"after"))
        for _ in range(3):
            assert other.ask()[0] == 200
        (tmp_path / "go").touch()
        assert seen(slow.reply()[2])["read"] == len(LARGE)
        assert seen(slow.reply()[2])["body"] == "after"


def test_over_http2_other_requests_of_the_client_are_answered_meanwhile(
    roomy: Served, tmp_path: Path
) -> None:
    with Caller(roomy) as caller:
        caller.greet().send(
            caller.words.ask(1, waiting_for(tmp_path / "go"), body=LARGE), caller.words.ask(3, body=b"small")
        )
        assert seen(caller.answer(3)[1])["body"] == "small"
        assert 1 not in caller.ended
        (tmp_path / "go").touch()
        assert seen(caller.answer(1)[1])["read"] == len(LARGE)


def test_a_client_that_disconnects_meanwhile_disturbs_nobody(roomy: Served, tmp_path: Path) -> None:
    for protocol in ("1", "2"):
        if protocol == "1":
            with roomy.caller() as leaving:
                leaving.send(request(waiting_for(tmp_path / protocol), body=LARGE))
        else:
            with Caller(roomy) as caller:
                caller.greet().send(caller.words.ask(1, waiting_for(tmp_path / protocol), body=LARGE))
        with roomy.caller() as other:
            assert other.ask()[0] == 200
            (tmp_path / protocol).touch()
            assert other.ask(body=LARGE)[0] == 200


@pytest.mark.parametrize("protocol", ["1", "2"])
def test_too_many_values_are_refused_with_a_reason(roomy: Served, protocol: str) -> None:
    data = b"," * (VALUE_LIMIT + 1)
    if protocol == "1":
        with roomy.caller() as caller:
            status, _, answer = caller.ask(body=data)
    else:
        with Caller(roomy) as over_http2:
            over_http2.greet().send(over_http2.words.ask(1, body=data))
            text, answer = over_http2.answer(1)
            status = int(text)
    assert (status, json.loads(answer)["message"]) == (413, "the body may have 150,000 values")


# Our own handlers


def reviewed(obj: bytes, *, operation: str = "CREATE") -> bytes:
    return (
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"x","operation":"%s",'
        b'"namespace":"team","object":%s,"oldObject":%s}}'
        % (operation.encode(), obj, obj if operation == "UPDATE" else b"null")
    )


def filled(before: bytes, item: bytes, after: bytes, *, values: int) -> bytes:
    """As many items as make so many values; `%d` in an item is its number."""
    count = values // (1 + sum(item.count(sign) for sign in (b",", b"{", b"[")))
    numbered = b"%d" in item
    return before + b",".join(item % at if numbered else item for at in range(count)) + after


META = b'"metadata":{"name":"a","namespace":"team","uid":"c"}'
#: Where a caller can put many values: before, one, after.
PLACES: dict[str, tuple[bytes, bytes, bytes]] = {
    "containers": (b'{%s,"spec":{"containers":[' % META, b"{}", b"]}}"),
    "resources": (b'{%s,"spec":{"containers":[' % META, b'{"resources":{"requests":{"a":"1"}}}', b"]}}"),
    "requests": (b'{%s,"spec":{"containers":[{"resources":{"requests":{' % META, b'"%d":"1"', b"}}}]}}"),
    "gates": (b'{%s,"spec":{"containers":[{}],"schedulingGates":[' % META, b'{"name":"%d"}', b"]}}"),
    "labels": (b'{"metadata":{"name":"a","labels":{', b'"%d":""', b'}},"spec":{"containers":[{}]}}'),
    "annotations": (
        b'{"metadata":{"name":"a","annotations":{',
        b'"%d":""',
        b'}},"spec":{"containers":[{}]}}',
    ),
    "owners": (
        b'{"metadata":{"name":"a","ownerReferences":[',
        b'{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"%d","uid":"%d","controller":true}',
        b']},"spec":{"containers":[{}]}}',
    ),
    "conditions": (b'{%s,"spec":{},"status":{"conditions":[' % META, b'{"type":"%d","status":""}', b"]}}"),
    "template": (b'{%s,"spec":{"template":{"spec":{"containers":[' % META, b"{}", b"]}}}}"),
    "tasks": (
        b'{"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job",%s,"spec":{"tasks":[' % META,
        b'{"template":{"spec":{"containers":[{}]}}}',
        b"]}}",
    ),
    "quota": (b'{%s,"spec":{"capability":{' % META, b'"a.b/c%d":"1"', b"}}}"),
    "windows": (b'{%s,"spec":{"windows":[' % META, b'{"name":"%d"}', b"]}}"),
    "keep": (b'{%s,"spec":{"drain":{"keep":{"matchLabels":{' % META, b'"%d":"1"', b"}}}}}"),
}
PATHS = [
    *("/mutate/queues", "/validate/queues", "/mutate/pods", "/validate/pods", "/mutate/workloads"),
    *(
        "/validate/scales",
        "/validate/rollouts",
        "/validate/metadata",
        "/mutate/podgroups",
        "/validate/podgroups",
        "/validate/binds",
        "/mutate/namespaces",
        "/mutate/commands",
    ),
]
POD = b'{"metadata":{"name":"a","namespace":"team","uid":"c"},"spec":{"containers":[{}]}}'
EXTENDER: dict[str, tuple[str, bytes, bytes, bytes]] = {
    "nodes": ("/extender/filter", b'{"Pod":%s,"NodeNames":[' % POD, b'"%d"', b"]}"),
    "pod": (
        "/extender/filter",
        b'{"Pod":{%s,"spec":{"containers":[' % META,
        b"{}",
        b']}},"NodeNames":["a"]}',
    ),
    "victims": (
        "/extender/preempt",
        b'{"Pod":%s,"NodeNameToMetaVictims":{' % POD,
        b'"%d":{"Pods":[{"UID":"%d"}]}',
        b"}}",
    ),
}


def hostile(path: str, *, values: int) -> Iterator[tuple[str, bytes]]:
    """For this path: many values in each place."""
    for name, (of_extender, before, item, after) in EXTENDER.items():
        if of_extender == path:
            repeated = item.replace(b'"UID":"%d"', b'"UID":"x"')
            yield name, filled(before, repeated, after, values=values)
    for name, (before, item, after) in PLACES.items() if path in PATHS else ():
        once = item.replace(b'"uid":"%d"', b'"uid":"x"')
        for operation in ("CREATE", "UPDATE"):
            parts = 2 if operation == "UPDATE" else 1
            obj = filled(before, once, after, values=values // parts - 50)
            yield f"{name} {operation}", reviewed(obj, operation=operation)


@pytest.fixture(scope="module")
def asked() -> Server:
    return Server()


def cpu_time(act: Callable[[], object]) -> float:
    """Seconds of the thread's own time."""
    began = time.thread_time()
    act()
    return time.thread_time() - began


def reference() -> int:
    """Work for about as many values as a body on the loop may have.

    It takes 1 ms on the machine of the figures.
    """
    return sum(int(str(number)) for number in range(INLINE_VALUES))


def times_as_long_as_the_reference(server: Server, path: str, data: bytes) -> float:
    """The least of up to `TRIES`, each beside a reference of its own: a slow or busy machine slows both."""
    least = math.inf
    for _ in range(TRIES):
        least = min(least, cpu_time(lambda: server.post(path, data)) / cpu_time(reference))
        if least <= ON_THE_LOOP:
            break
    return least


@pytest.mark.parametrize("path", [*PATHS, "/extender/filter", "/extender/preempt"])
def test_a_body_that_is_answered_on_the_loop_keeps_it_for_a_moment(asked: Server, path: str) -> None:
    """With as many values as are answered there, in each place of a body that can hold many."""
    slow = {
        name: times
        for name, data in hostile(path, values=INLINE_VALUES)
        if (times := times_as_long_as_the_reference(asked, path, data)) > ON_THE_LOOP
    }
    assert not slow
