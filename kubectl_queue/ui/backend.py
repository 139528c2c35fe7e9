"""What the routes answer from, and how much goes on at a time.

Threads: any.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, TypeVar

import msgspec
from flask import Response, abort, request

from kubectl_queue.access.client import ApiClient, Queues
from kubectl_queue.objects.fields import Object
from kubectl_queue.ui.board import Board
from kubectl_queue.ui.keys import PageKeys
from kubectl_queue.ui.stream import HEARTBEAT
from kubectl_queue.ui.viewer import ClusterContext

STREAMS, QUESTIONS = 16, 8

T = TypeVar("T")


class ClusterAccess(NamedTuple):
    """To the API server, for one request of the page."""

    client: ApiClient
    queues: Queues


#: The function gets what the API server warns of.
Connect = Callable[[Callable[[str], None]], ClusterAccess]


@dataclass(frozen=True, kw_only=True)
class Backend:
    """`now`: the API server's clock. `used`: called after a code was exchanged.

    `written`: called with each queue that an edit was answered with.
    """

    port: int
    keys: PageKeys
    board: Board
    connect: Connect
    place: ClusterContext
    now: Callable[[], datetime]
    used: Callable[[], None] = lambda: None
    written: Callable[[Object], None] = lambda _: None
    heartbeat: float = HEARTBEAT


class Places:
    """At most `STREAMS` windows, and `QUESTIONS` requests that ask the API server."""

    def __init__(self) -> None:
        self._streams = threading.BoundedSemaphore(STREAMS)
        self._questions = threading.BoundedSemaphore(QUESTIONS)

    @contextmanager
    def stream(self) -> Iterator[None]:
        if not self._streams.acquire(blocking=False):
            abort(503, f"{STREAMS} windows are open already")
        try:
            yield
        finally:
            self._streams.release()

    @contextmanager
    def question(self) -> Iterator[None]:
        if not self._questions.acquire(blocking=False):
            abort(503, f"{QUESTIONS} questions are under way already")
        try:
            yield
        finally:
            self._questions.release()


def decoded(decoder: msgspec.json.Decoder[T]) -> T:
    """The body of the request."""
    try:
        return decoder.decode(request.get_data())
    except msgspec.DecodeError as exc:
        abort(400, str(exc))


def json_answer(value: object, *, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status=status, mimetype="application/json")


def ignore(text: str) -> None:
    """Takes warnings that nobody asked for."""
