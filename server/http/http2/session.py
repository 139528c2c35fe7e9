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
  beyond, the caller is answered 413. `buffered_bytes` is the sum of all that is not complete; half of
  `Limits.buffered_request_bytes` is one caller's, and beyond it the youngest request is refused.
- Of responses for which the client opens no window at most `BLOCKED_BYTES_LIMIT` bytes are kept, and not for
  longer than `Limits.response_timeout` (`blocked_since`).
- A request that is none ends its stream. A fault of the protocol ends the connection, with a GOAWAY.
- After `send_goaway` no new request is taken; the client knows from our GOAWAY that it may ask another
  replica. What was begun before is answered. h2 never hears of a GOAWAY, neither ours nor the client's: it
  would not send another answer after one.
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
from server.http.http2.h2_adapter import CONNECTION_WINDOW, build_connection
from server.http.http2.headers import (
    build_request,
    check_field,
    content_length,
)
from server.http.http2.inbox import ConnectionFault, Inbox
from server.http.http2.outbox import Outbox
from server.http.limits import SLOW_READER_FACTOR, Limits
from server.http.request_parser import (
    Header,
    Request,
    body_too_large,
)

#: Bytes of answers that a caller asked for and makes no room for.
BLOCKED_BYTES_LIMIT = 32 * 1024 * 1024
#: Of the headers that we sent, what both sides remember.
HEADER_TABLE_BYTES = 4_096


@dataclass(slots=True)
class _Stream:
    """One request and its answer. `head`: its bytes."""

    request: Request
    began: float
    head: int
    complete: bool = False
    answered_at: float | None = None

    @property
    def buffered_bytes(self) -> int:
        return self.head + self.request.body.tell()


class Http2Session:
    """Not thread-safe. `ready` holds complete requests by stream, in their order: `answer` each."""

    def __init__(self, *, limits: Limits, clock: Callable[[], float]) -> None:
        self.ready: deque[tuple[int, Request]] = deque()
        #: Set once the connection is to be closed as soon as what is to be sent has been.
        self.closed = False
        #: Bytes of requests that are not complete.
        self.buffered_bytes = 0
        self._limits = limits
        self._clock = clock
        self._connection = build_connection(limits)
        self._allowance = Allowance(clock=clock)
        self._inbox = Inbox(limits=limits, allowance=self._allowance, clock=clock)
        self._outbox = Outbox(self._connection, allowance=self._allowance, clock=clock)
        self._outbox.collect()
        self._streams: dict[int, _Stream] = {}
        self._draining = False
        self._consumed = 0

    @property
    def unread_bytes(self) -> int:
        """Bytes that have arrived and were not looked at."""
        return len(self._inbox)

    @property
    def receiving(self) -> bool:
        """Whether a request has begun and is not complete."""
        return bool(self._inbox or self._inbox.header_block_since is not None or self.oldest_incomplete)

    @property
    def oldest_incomplete(self) -> int:
        """The stream that has been incomplete for longest; 0 if none is."""
        return next((number for number, each in self._streams.items() if not each.complete), 0)

    @property
    def draining(self) -> bool:
        """Whether nothing new is taken."""
        return self._draining

    @property
    def blocked_bytes(self) -> int:
        """Bytes of answers for which the caller has to make room."""
        return self._outbox.blocked_bytes

    @property
    def blocked_since(self) -> float | None:
        """Since when nothing could be sent of them."""
        return self._outbox.blocked_since

    @property
    def unsent_bytes(self) -> int:
        """Bytes that wait to be sent: `blocked_bytes`, and what `take` will give."""
        return self._outbox.size

    @property
    def idle(self) -> bool:
        """Whether nothing is asked and nothing is left to be sent."""
        return not self._streams and self._inbox.header_block_since is None

    # From the caller

    def receive(self, data: bytes) -> None:
        """This has arrived; `advance` looks at it."""
        if not self.closed:
            self._inbox.receive(data)

    def advance(self) -> bool:
        """Take a few of the frames that have arrived; whether there was one.

        Never raises: a fault shows in `closed`, and is told of to the caller.
        """
        if self.closed:
            return False
        try:
            data, goaway_follows = self._inbox.next()
            if data:
                self._feed_h2(data)
        except ConnectionFault as fault:
            self._fail(fault.error, fault.reason)
            return False
        if goaway_follows:
            self.send_goaway()
        return bool(data) or goaway_follows

    def _feed_h2(self, data: bytes) -> None:
        try:
            events = self._connection.receive_data(data)
        except ProtocolError:
            self._outbox.collect()  # h2 has said why
            self._close()
            return
        except Exception as exc:  # what h2 did not think of
            raise ConnectionFault(
                ErrorCodes.PROTOCOL_ERROR, f"this cannot be read: {type(exc).__name__}"
            ) from exc
        for event in events:
            handle = _EVENT_HANDLERS.get(type(event))
            if handle is not None:
                handle(self, event)
        self._outbox.collect()

    def _on_request(self, event: h2.events.RequestReceived) -> None:
        number, headers = event.stream_id, event.headers
        if self._draining or len(self._streams) >= self._limits.concurrent_streams:
            self._reset_stream(number, ErrorCodes.REFUSED_STREAM)
            return
        try:
            request = build_request(headers, header_lines=self._limits.header_lines)
            length = content_length(request)
        except ValueError:
            self._reset_stream(number, ErrorCodes.PROTOCOL_ERROR)
            return
        stream = _Stream(request, self._clock(), _size_of(headers))
        self._streams[number] = stream
        self.buffered_bytes += stream.head
        request.body_limit = self._limits.body_limit(request.target)
        if length is not None and length > request.body_limit:
            self._reject(number, stream)

    def _on_trailers(self, event: h2.events.TrailersReceived) -> None:
        """Nobody here wants to know what they say; but they are to be headers."""
        try:
            for name, value in event.headers:
                check_field(name, value)
        except ValueError:
            self._reset_stream(event.stream_id, ErrorCodes.PROTOCOL_ERROR)
            return
        if any(name.startswith(b":") for name, _ in event.headers):
            self._reset_stream(event.stream_id, ErrorCodes.PROTOCOL_ERROR)

    def _on_data(self, event: h2.events.DataReceived) -> None:
        self._return_window(event.flow_controlled_length)
        stream = self._streams.get(event.stream_id)
        if stream is None or stream.complete:
            return  # it may not have heard yet that we are done with it
        stream.request.body.write(event.data)
        self.buffered_bytes += len(event.data)
        if stream.request.body.tell() > stream.request.body_limit:
            self._reject(event.stream_id, stream)
        elif self.buffered_bytes > self._limits.buffered_request_bytes // 2:
            youngest = max(number for number, each in self._streams.items() if not each.complete)
            self._reset_stream(youngest, ErrorCodes.REFUSED_STREAM)

    def _return_window(self, size: int) -> None:
        """Let the caller send on."""
        self._consumed += size
        if self._consumed >= CONNECTION_WINDOW // 2:
            self._connection.increment_flow_control_window(self._consumed)
            self._consumed = 0

    def _on_stream_end(self, event: h2.events.StreamEnded) -> None:
        stream = self._streams.get(event.stream_id)
        if stream is not None and not stream.complete:
            self._make_ready(event.stream_id, stream)

    def _reject(self, number: int, stream: _Stream) -> None:
        """Its body is too long: it is answered so, by way of `Request.refused`, and no more of it is read."""
        stream.request.error = body_too_large(stream.request)
        self._make_ready(number, stream)

    def _make_ready(self, number: int, stream: _Stream) -> None:
        self.buffered_bytes -= stream.buffered_bytes
        stream.complete = True
        self.ready.append((number, stream.request))

    def _on_reset(self, event: h2.events.StreamReset) -> None:
        self._forget_stream(event.stream_id)

    def _on_window_update(self, event: h2.events.WindowUpdated) -> None:
        number = event.stream_id
        self._finish_streams(self._outbox.send(number) if number else self._outbox.send_all())

    def _on_settings(self, _: h2.events.RemoteSettingsChanged) -> None:
        """A larger table of headers would only be searched for longer."""
        encoder = self._connection.encoder
        encoder.header_table_size = min(encoder.header_table_size, HEADER_TABLE_BYTES)
        self._finish_streams(self._outbox.send_all())

    # To the caller

    def answer(self, number: int, fields: list[tuple[bytes, bytes]], body: bytes) -> None:
        """What is said to a request of `ready`; to one that was taken back nothing is."""
        stream = self._streams.get(number)
        if stream is None:
            return
        stream.answered_at = self._clock()
        stream.request.body = io.BytesIO()
        if stream.request.error is None:
            self._allowance.earn(frames.ALLOWANCE_PER_RESPONSE)
        try:
            self._connection.send_headers(number, fields, end_stream=not body)
        except ProtocolError:  # its stream has ended otherwise
            self._forget_stream(number)
            return
        self._finish_streams(self._outbox.begin(number, body))
        if self.blocked_bytes > BLOCKED_BYTES_LIMIT:
            self._fail(ErrorCodes.ENHANCE_YOUR_CALM, "much is asked, and no room made for the answers")

    def send_goaway(self) -> None:
        """Take nothing new from now on; `idle` tells when all is answered."""
        if not self._draining and not self.closed:
            self._draining = True
            last = self._connection.highest_inbound_stream_id
            self._outbox.append(GoAwayFrame(0, last_stream_id=last, error_code=0).serialize())

    def expire(self) -> bool:
        """Give up the requests that take too long to become complete; whether the connection can go on.

        It cannot where a frame takes as long, or answers have been waiting too long for room, or one is
        taken so slowly that it only keeps our memory.
        """
        now = self._clock()
        asked, answered = now - self._limits.request_timeout, now - self._limits.response_timeout
        slowest = now - SLOW_READER_FACTOR * self._limits.response_timeout
        if any(
            each.answered_at is not None and each.answered_at < slowest for each in self._streams.values()
        ):
            return False
        for number, stream in list(self._streams.items()):
            if not stream.complete and stream.began < asked:
                self._reset_stream(number, ErrorCodes.CANCEL)
        self._outbox.collect()
        stuck = any(
            one is not None and one < asked
            for one in (self._inbox.frame_since, self._inbox.header_block_since)
        )
        return not stuck and (self.blocked_since is None or self.blocked_since >= answered)

    def take(self) -> bytes:
        """What is to be sent next, once; empty if nothing can be."""
        taken, ended = self._outbox.take()
        self._finish_streams(ended)
        return taken

    def _finish_streams(self, ended: list[int]) -> None:
        """These have been answered. Of a request that was refused the rest is not wanted."""
        for number in ended:
            if self._streams[number].request.error is not None:
                self._reset_stream(number, ErrorCodes.NO_ERROR)
                self._outbox.collect()
            self._forget_stream(number)

    def _reset_stream(self, number: int, error: ErrorCodes) -> None:
        with suppress(ProtocolError):  # it has ended already
            self._connection.reset_stream(number, error)
        self._forget_stream(number)

    def _forget_stream(self, number: int) -> None:
        stream = self._streams.pop(number, None)
        self._outbox.drop(number)
        if stream is None:
            return
        if not stream.complete:
            self.buffered_bytes -= stream.buffered_bytes
        elif stream.answered_at is None:
            self.ready = deque(each for each in self.ready if each[0] != number)

    def discard(self) -> None:
        """Keep nothing: the caller is gone."""
        self._close()
        self._outbox.clear(unsent=True)

    def _close(self) -> None:
        self.closed = True
        self.ready.clear()
        self.buffered_bytes = 0
        self._streams.clear()
        self._inbox.clear()
        self._outbox.clear(unsent=False)

    def _fail(self, error: ErrorCodes, reason: str) -> None:
        with suppress(ProtocolError):
            self._connection.close_connection(error, reason.encode()[:200])
        self._outbox.collect()
        self._close()


#: What is done about what h2 has seen; nothing about anything else. A session that referred to its
#: own methods would keep its answers until it is collected.
_EVENT_HANDLERS: Mapping[type, Callable[[Http2Session, Any], None]] = {
    h2.events.RequestReceived: Http2Session._on_request,
    h2.events.DataReceived: Http2Session._on_data,
    h2.events.TrailersReceived: Http2Session._on_trailers,
    h2.events.StreamEnded: Http2Session._on_stream_end,
    h2.events.StreamReset: Http2Session._on_reset,
    h2.events.WindowUpdated: Http2Session._on_window_update,
    h2.events.RemoteSettingsChanged: Http2Session._on_settings,
}


def _size_of(headers: list[Header]) -> int:
    return sum(len(name) + len(value) for name, value in headers)
