"""How often a reflector asks while its tries fail, whatever fails and whatever wakes it; without waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, repeat
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cluster.api.client import Client
from cluster.exceptions import Expired, NotFound, Overloaded, Refused, Unreachable
from cluster.informers import reflector as reflector_module
from cluster.informers.reflector import Reflector, ReflectorOptions
from cluster.metrics import Metrics
from tests.support.cases import each_case

#: Seconds of its own time.
PERIOD = 100.0
#: A script ends after so many requests, too: what is hot never comes to the end of the period.
MANY = 1_000
#: How long a request takes.
REQUEST = 0.001

LIST = b'{"metadata": {"resourceVersion": "7"}, "items": [{"name": "a"}]}'
BOOKMARK = b'{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "7"}}}'
ERROR = b'{"type": "ERROR", "object": {"code": 500, "reason": "InternalError", "message": "no"}}'

Answer = Exception | bytes
#: The lines of a watch that ends then, or what cuts it after them.
Watch = Exception | tuple[Answer, ...]


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now


class OwnEvent:
    """An event for one thread: a wait takes none of the real time. `nags`: others set it all the time."""

    def __init__(self, clock: Clock, *, nags: bool = False) -> None:
        self._clock = clock
        self._is_set = False
        self.nags = nags

    def set(self) -> None:
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, seconds: float) -> bool:
        if not self._is_set and self.nags:
            self._clock.now += min(seconds, REQUEST)
            return seconds > REQUEST
        if not self._is_set:
            self._clock.now += seconds
        return self._is_set


class Server:
    """Answers by script until the period is over, and then stops the reflector. Counts requests."""

    def __init__(self, clock: Clock, lists: Iterator[Answer], watches: Iterator[Watch]) -> None:
        self._clock = clock
        self._lists, self._watches = lists, watches
        self.requests = 0
        self.over: Callable[[], object] = lambda: None
        self.end = clock.now + PERIOD

    def request(self, _method: str, _path: str, **_: object) -> bytes:
        self._count()
        return self._given(next(self._lists))

    def stream(self, _path: str, **_: object) -> SimpleNamespace:
        self._count()
        watch = next(self._watches)
        if isinstance(watch, Exception):
            raise watch
        return SimpleNamespace(lines=lambda: map(self._given, watch), release=lambda: None)

    def _count(self) -> None:
        self.requests += 1
        self._clock.now += REQUEST
        if self._clock.now >= self.end or self.requests >= MANY:
            self.over()

    def _given(self, answer: Answer) -> bytes:
        if isinstance(answer, Exception):
            raise answer
        return answer


def refused(status: int) -> Refused:
    return Refused(status, "No", "as often as it is asked")


def foreign(_raw: object) -> Any:
    raise NotFound(404, "NotServed", "queue default came without spec.stopPolicy")


def taken(_raw: object) -> Any:
    return SimpleNamespace(metadata=SimpleNamespace(uid="a", namespace="", name="a", version=1))


def broken(_objects: object) -> None:
    raise ValueError("a fault of the handler")


def ignored(_objects: object) -> None:
    pass


AWAY, BUSY = Unreachable("refused"), Overloaded(503, "No", "busy", retry_after=0.0)
GONE, ENDED, CUT = Expired(410, "Expired", "too old"), (), (Unreachable("cut"),)


@each_case("nags", [False, True], ids=["", "and others wake it all the time"])
@each_case(
    ("lists", "watches", "decode", "replace"),
    [
        pytest.param([LIST], [ENDED], foreign, ignored, id="another definition serves the objects"),
        pytest.param([LIST], [ENDED], taken, broken, id="the handler fails for the list"),
        pytest.param([LIST], [ENDED], taken, ignored, id="each watch ends at once"),
        pytest.param([LIST], [(BOOKMARK,)], taken, ignored, id="each watch has nothing new, and ends"),
        pytest.param([LIST], [CUT], taken, ignored, id="each watch is cut at once"),
        pytest.param([LIST], [(ERROR,)], taken, ignored, id="each watch has an error"),
        pytest.param([LIST], [GONE], taken, ignored, id="each version is too old"),
        pytest.param([LIST], [GONE, ENDED], taken, ignored, id="a version is too old, a watch ends at once"),
        pytest.param([LIST], [refused(403)], taken, ignored, id="watches are forbidden"),
        pytest.param([refused(403)], [ENDED], taken, ignored, id="lists are forbidden"),
        pytest.param([refused(404)], [ENDED], taken, ignored, id="the definition is gone"),
        pytest.param([BUSY], [ENDED], taken, ignored, id="the API server is busy"),
        pytest.param([LIST, BUSY], [AWAY, GONE], taken, ignored, id="no two failures are alike"),
        pytest.param([b"{}"], [ENDED], taken, ignored, id="the answer is no list"),
    ],
)
def test_what_goes_on_failing_is_asked_less_and_less(
    monkeypatch: pytest.MonkeyPatch,
    lists: list[Answer],
    watches: list[Watch],
    decode: Callable[[object], Any],
    replace: Callable[[object], None],
    nags: bool,
) -> None:
    """Each first good answer after a failure wakes all reflectors, this one too, as in the server."""
    made, server, _ = scripted(monkeypatch, endless(lists), endless(watches), decode=decode, replace=replace)
    cast(OwnEvent, made._awake).nags = nags
    made._run()
    assert server.requests <= PERIOD


def test_a_kind_that_is_not_installed_is_looked_for_every_ten_seconds_after_a_failure_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A failure before it was once taken for one that goes on, and each look woke the next."""
    answers: Iterator[Answer] = iter([BUSY, *repeat(NotFound(404, "NotFound", "no such kind"), 10**4)])
    made, server, metrics = scripted(monkeypatch, answers, endless([ENDED]), optional=True)
    made._run()
    assert server.requests <= PERIOD / reflector_module.OPTIONAL_SECONDS + 3
    assert (made.failures, metrics.retries.lasting()) == (0, [])


def test_a_new_watch_that_was_requested_does_not_make_lists_without_an_answer_hot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The list comes first. It once counted as interrupted by the request, as often as it failed."""
    made, server, _ = scripted(monkeypatch, endless([AWAY]), endless([ENDED]))
    made.rewatch()
    made._run()
    assert server.requests <= 2 * PERIOD  # `UNANSWERED_BACKOFF` is short


def test_the_back_off_begins_anew_once_all_of_a_try_has_succeeded_and_not_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A good list with a watch that is refused is half a try."""
    news = b'{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "8"}}}'
    cut = (news, Unreachable("cut"))
    watches: Iterator[Watch] = iter([refused(403), refused(403), cut, *repeat(AWAY, 9)])
    made, _, _ = scripted(monkeypatch, endless([LIST]), watches)
    failures = []
    fail = made._fail

    def noted(exc: Exception) -> None:
        fail(exc)
        failures.append(made.failures)
        if len(failures) == 4:
            made._stopped.set()

    monkeypatch.setattr(made, "_fail", noted)
    made._run()
    assert failures == [1, 2, 1, 2]


def endless(answers: list[Any]) -> Iterator[Any]:
    return (answers[number % len(answers)] for number in count())


def scripted(
    monkeypatch: pytest.MonkeyPatch,
    lists: Iterator[Answer],
    watches: Iterator[Watch],
    *,
    decode: Callable[[object], Any] = taken,
    replace: Callable[[object], None] = ignored,
    optional: bool = False,
) -> tuple[Reflector[Any], Server, Metrics]:
    """A reflector, not started, whose `_run` takes none of the real time; what it asks; its metrics."""
    clock, metrics = Clock(), Metrics()
    monkeypatch.setattr(reflector_module, "time", clock)
    server = Server(clock, lists, watches)
    client = SimpleNamespace(request=server.request, stream=server.stream, interrupt=lambda: None)
    client.interruptible = lambda: client
    handler = SimpleNamespace(replace=replace, upsert=ignored, remove=ignored)
    made: Reflector[Any] = Reflector(
        kind="things",
        path="/apis/example.com/v1/things",
        decode=decode,
        handler=cast(Any, handler),
        client=cast(Client, client),
        counters=metrics,
        options=ReflectorOptions(optional=optional, answered=lambda: made.retry_now()),  # noqa: PLW0108
    )
    monkeypatch.setattr(made, "_awake", OwnEvent(clock))
    monkeypatch.setattr(made, "_stopped", OwnEvent(clock))
    server.over = made._stopped.set
    return made, server, metrics
