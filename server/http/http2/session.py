"""One caller's HTTP/2 (RFC 9113), from bytes to requests and from answers to bytes. No I/O.

For callers that ask many things at once. The API server has a hundred binds under way and keeps 25 idle
connections to a webhook: over HTTP/1.1 seven of ten calls had a handshake of their own, which cost more than
all the rest of the call. Over HTTP/2 all go over one connection.

The protocol is the h2 library's. What it does not bound is bounded here, around it.

| module          | what it bounds                                                                 |
|-----------------|--------------------------------------------------------------------------------|
| `http2_inbox`   | frames: how many h2 has at once, how long, what they cost their caller         |
| `http2_headers` | headers, before they are decoded; from them to a request                       |
| `http2_session` | requests: how many, how long, for how long                                     |
| `http2_outbox`  | answers on their way                                                           |

Invariants
- `advance` gives h2 a few frames at a time, so that whoever calls it can look at the clock in between.
- At most `Limits.streams` requests are under way. What is held of a body is bounded by `body_limit`;
  beyond, the caller is answered 413. `held` is the sum of all that is not complete; half of
  `Limits.held_bytes` is one caller's, and beyond it the youngest request is refused.
- Of answers that the caller makes no room for, `RESTS` bytes are kept, and for as long as `blocked` is not
  too long ago.
- A request that is none ends its stream. A fault of the protocol ends the connection, with a GOAWAY.
- After `go` no new request is taken; its sender knows from our GOAWAY that it may ask elsewhere. What was
  begun before is answered. h2 never hears of a GOAWAY, neither ours nor the caller's: it would not send
  another answer after one.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import h2.events
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError
from hyperframe.frame import GoAwayFrame

from server.http.http2 import frame_costs as frames
from server.http.http2.frame_costs import Allowance
from server.http.http2.h2_adapter import WINDOW, connection_of
from server.http.http2.headers import (
    check_field,
    length_of,
    request_of,
)
from server.http.http2.inbox import Fault, Inbox
from server.http.http2.outbox import Outbox
from server.http.limits import SLOWEST, Limits
from server.http.request_parser import (
    Header,
    Request,
    body_too_large,
)

#: Bytes of answers that a caller asked for and makes no room for.
RESTS = 32 * 1024 * 1024
#: Of the headers that we sent, what both sides remember.
TABLE_BYTES = 4_096


@dataclass(slots=True)
class _Stream:
    """One request and its answer. `head`: its bytes."""

    request: Request
    began: float
    head: int
    complete: bool = False
    answered_at: float | None = None

    @property
    def held(self) -> int:
        return self.head + self.request.body.tell()


class Session:
    """Not thread-safe. `ready` holds complete requests by stream, in their order: `answer` each."""

    def __init__(self, *, limits: Limits, clock: Callable[[], float]) -> None:
        self.ready: deque[tuple[int, Request]] = deque()
        #: Set once the connection is to be closed as soon as what is to be sent has been.
        self.over = False
        #: Bytes of requests that are not complete.
        self.held = 0
        self._limits = limits
        self._clock = clock
        self._connection = connection_of(limits)
        self._allowance = Allowance(clock=clock)
        self._inbox = Inbox(limits=limits, allowance=self._allowance, clock=clock)
        self._outbox = Outbox(self._connection, allowance=self._allowance, clock=clock)
        self._outbox.collect()
        self._streams: dict[int, _Stream] = {}
        self._going = False
        self._taken = 0

    @property
    def unread(self) -> int:
        """Bytes that have arrived and were not looked at."""
        return len(self._inbox)

    @property
    def midway(self) -> bool:
        """Whether a request has begun and is not complete."""
        return bool(self._inbox or self._inbox.block_began is not None or self.oldest)

    @property
    def oldest(self) -> int:
        """The stream that has been incomplete for longest; 0 if none is."""
        return next((number for number, each in self._streams.items() if not each.complete), 0)

    @property
    def going(self) -> bool:
        """Whether nothing new is taken."""
        return self._going

    @property
    def rests(self) -> int:
        """Bytes of answers for which the caller has to make room."""
        return self._outbox.rests

    @property
    def blocked(self) -> float | None:
        """Since when nothing could be sent of them."""
        return self._outbox.blocked

    @property
    def waiting(self) -> int:
        """Bytes that wait to be sent: `rests`, and what `take` will give."""
        return self._outbox.size

    @property
    def idle(self) -> bool:
        """Whether nothing is asked and nothing is left to be sent."""
        return not self._streams and self._inbox.block_began is None

    # From the caller

    def receive(self, data: bytes) -> None:
        """This has arrived; `advance` looks at it."""
        if not self.over:
            self._inbox.receive(data)

    def advance(self) -> bool:
        """Take a few of the frames that have arrived; whether there was one.

        Never raises: a fault shows in `over`, and is told of to the caller.
        """
        if self.over:
            return False
        try:
            data, leaves = self._inbox.next()
            if data:
                self._take(data)
        except Fault as fault:
            self._end(fault.error, fault.reason)
            return False
        if leaves:
            self.go()
        return bool(data) or leaves

    def _take(self, data: bytes) -> None:
        try:
            events = self._connection.receive_data(data)
        except ProtocolError:
            self._outbox.collect()  # h2 has said why
            self._forget_all()
            return
        except Exception as exc:  # what h2 did not think of
            raise Fault(ErrorCodes.PROTOCOL_ERROR, f"this cannot be read: {type(exc).__name__}") from exc
        for event in events:
            handle = _HANDLERS.get(type(event))
            if handle is not None:
                handle(self, event)
        self._outbox.collect()

    def _requested(self, event: h2.events.RequestReceived) -> None:
        number, headers = event.stream_id, event.headers
        if self._going or len(self._streams) >= self._limits.streams:
            self._reset(number, ErrorCodes.REFUSED_STREAM)
            return
        try:
            request = request_of(headers, head_lines=self._limits.head_lines)
            length = length_of(request)
        except ValueError:
            self._reset(number, ErrorCodes.PROTOCOL_ERROR)
            return
        stream = _Stream(request, self._clock(), _size_of(headers))
        self._streams[number] = stream
        self.held += stream.head
        request.body_limit = self._limits.body_limit(request.target)
        if length is not None and length > request.body_limit:
            self._refuse(number, stream)

    def _trailers(self, event: h2.events.TrailersReceived) -> None:
        """Nobody here wants to know what they say; but they are to be headers."""
        try:
            for name, value in event.headers:
                check_field(name, value)
        except ValueError:
            self._reset(event.stream_id, ErrorCodes.PROTOCOL_ERROR)
            return
        if any(name.startswith(b":") for name, _ in event.headers):
            self._reset(event.stream_id, ErrorCodes.PROTOCOL_ERROR)

    def _data(self, event: h2.events.DataReceived) -> None:
        self._account(event.flow_controlled_length)
        stream = self._streams.get(event.stream_id)
        if stream is None or stream.complete:
            return  # it may not have heard yet that we are done with it
        stream.request.body.write(event.data)
        self.held += len(event.data)
        if stream.request.body.tell() > stream.request.body_limit:
            self._refuse(event.stream_id, stream)
        elif self.held > self._limits.held_bytes // 2:
            youngest = max(number for number, each in self._streams.items() if not each.complete)
            self._reset(youngest, ErrorCodes.REFUSED_STREAM)

    def _account(self, size: int) -> None:
        """Let the caller send on."""
        self._taken += size
        if self._taken >= WINDOW // 2:
            self._connection.increment_flow_control_window(self._taken)
            self._taken = 0

    def _ended(self, event: h2.events.StreamEnded) -> None:
        stream = self._streams.get(event.stream_id)
        if stream is not None and not stream.complete:
            self._make_ready(event.stream_id, stream)

    def _refuse(self, number: int, stream: _Stream) -> None:
        """Its body is too long: it is answered so, by way of `Request.refused`, and no more of it is read."""
        stream.request.refused = body_too_large(stream.request)
        self._make_ready(number, stream)

    def _make_ready(self, number: int, stream: _Stream) -> None:
        self.held -= stream.held
        stream.complete = True
        self.ready.append((number, stream.request))

    def _was_reset(self, event: h2.events.StreamReset) -> None:
        self._forget(event.stream_id)

    def _window_opened(self, event: h2.events.WindowUpdated) -> None:
        number = event.stream_id
        self._finish(self._outbox.send(number) if number else self._outbox.send_all())

    def _settings_changed(self, _: h2.events.RemoteSettingsChanged) -> None:
        """A larger table of headers would only be searched for longer."""
        encoder = self._connection.encoder
        encoder.header_table_size = min(encoder.header_table_size, TABLE_BYTES)
        self._finish(self._outbox.send_all())

    # To the caller

    def answer(self, number: int, fields: list[tuple[bytes, bytes]], body: bytes) -> None:
        """What is said to a request of `ready`; to one that was taken back nothing is."""
        stream = self._streams.get(number)
        if stream is None:
            return
        stream.answered_at = self._clock()
        stream.request.body = io.BytesIO()
        if stream.request.refused is None:
            self._allowance.earn(frames.AN_ANSWER)
        try:
            self._connection.send_headers(number, fields, end_stream=not body)
        except ProtocolError:  # its stream has ended otherwise
            self._forget(number)
            return
        self._finish(self._outbox.begin(number, body))
        if self.rests > RESTS:
            self._end(ErrorCodes.ENHANCE_YOUR_CALM, "much is asked, and no room made for the answers")

    def go(self) -> None:
        """Take nothing new from now on; `idle` tells when all is answered."""
        if not self._going and not self.over:
            self._going = True
            last = self._connection.highest_inbound_stream_id
            self._outbox.append(GoAwayFrame(0, last_stream_id=last, error_code=0).serialize())

    def expire(self) -> bool:
        """Give up the requests that take too long to become complete; whether the connection can go on.

        It cannot where a frame takes as long, or answers have been waiting too long for room, or one is
        taken so slowly that it only keeps our memory.
        """
        now = self._clock()
        asked, answered = now - self._limits.request, now - self._limits.reply
        slowest = now - SLOWEST * self._limits.reply
        if any(
            each.answered_at is not None and each.answered_at < slowest for each in self._streams.values()
        ):
            return False
        for number, stream in list(self._streams.items()):
            if not stream.complete and stream.began < asked:
                self._reset(number, ErrorCodes.CANCEL)
        self._outbox.collect()
        stuck = any(one is not None and one < asked for one in (self._inbox.coming, self._inbox.block_began))
        return not stuck and (self.blocked is None or self.blocked >= answered)

    def take(self) -> bytes:
        """What is to be sent next, once; empty if nothing can be."""
        taken, ended = self._outbox.take()
        self._finish(ended)
        return taken

    def _finish(self, ended: list[int]) -> None:
        """These have been answered. Of a request that was refused the rest is not wanted."""
        for number in ended:
            if self._streams[number].request.refused is not None:
                self._reset(number, ErrorCodes.NO_ERROR)
                self._outbox.collect()
            self._forget(number)

    def _reset(self, number: int, error: ErrorCodes) -> None:
        with suppress(ProtocolError):  # it has ended already
            self._connection.reset_stream(number, error)
        self._forget(number)

    def _forget(self, number: int) -> None:
        stream = self._streams.pop(number, None)
        self._outbox.drop(number)
        if stream is None:
            return
        if not stream.complete:
            self.held -= stream.held
        elif stream.answered_at is None:
            self.ready = deque(each for each in self.ready if each[0] != number)

    def forget(self) -> None:
        """Keep nothing: the caller is gone."""
        self._forget_all()
        self._outbox.clear(unsent=True)

    def _forget_all(self) -> None:
        self.over = True
        self.ready.clear()
        self.held = 0
        self._streams.clear()
        self._inbox.clear()
        self._outbox.clear(unsent=False)

    def _end(self, error: ErrorCodes, reason: str) -> None:
        with suppress(ProtocolError):
            self._connection.close_connection(error, reason.encode()[:200])
        self._outbox.collect()
        self._forget_all()


#: What is done about what h2 has seen; nothing about anything else. A session that referred to its
#: own methods would keep its answers until it is collected.
_HANDLERS: Mapping[type, Callable[[Session, Any], None]] = {
    h2.events.RequestReceived: Session._requested,
    h2.events.DataReceived: Session._data,
    h2.events.TrailersReceived: Session._trailers,
    h2.events.StreamEnded: Session._ended,
    h2.events.StreamReset: Session._was_reset,
    h2.events.WindowUpdated: Session._window_opened,
    h2.events.RemoteSettingsChanged: Session._settings_changed,
}


def _size_of(headers: list[Header]) -> int:
    return sum(len(name) + len(value) for name, value in headers)
