"""The requests and responses of one HTTP/2 connection, from received bytes to bytes to send. No I/O.

Invariants
- `advance` gives h2 one batch of frames, so that its caller can read the clock between two batches.
- At most `Limits.concurrent_streams` requests are under way. A body may have `Limits.body_limit` bytes; a
  longer one is answered 413. All requests that are not complete may have half of
  `Limits.buffered_request_bytes` together (`buffered_bytes`); beyond that the youngest of them is refused.
- Of responses for which the client opens no window at most `BLOCKED_BYTES_LIMIT` bytes are kept, and for
  `Limits.response_timeout` at most (`blocked_since`).
- A request that `authorize` refuses is answered at its head; no body of it is read.
- An invalid request ends its stream. A fault in the protocol ends the connection, with a GOAWAY.
- After `send_goaway` no new request is taken; the client knows from our GOAWAY that it may ask another
  replica. Requests that began before are answered. h2 never hears of a GOAWAY, neither ours nor the client's:
  it would not send another response after one.
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
from h2.exceptions import DenialOfServiceError, ProtocolError
from hyperframe.frame import GoAwayFrame

from server.http.http2.frame_reader import ALLOWANCE_PER_RESPONSE, Allowance, ConnectionFault, FrameReader
from server.http.http2.h2_adapter import CONNECTION_WINDOW, build_connection
from server.http.http2.headers import build_request, check_trailer, content_length
from server.http.http2.send_buffer import SendBuffer
from server.http.limits import SLOW_READER_FACTOR, Limits
from server.http.request_parser import (
    Authorize,
    Header,
    HttpRequest,
    RequestError,
    allow_all,
    body_too_large,
)

#: Bytes of responses for which a client has not opened its windows.
BLOCKED_BYTES_LIMIT = 32 * 1024 * 1024

_INVALID_HEADERS = RequestError(400, "the headers are not valid in HTTP/2")
_INVALID_FRAMES = RequestError(400, "not valid HTTP/2")
_TOO_SLOW = RequestError(408, "the request did not become complete in time")


@dataclass(slots=True)
class _Stream:
    """One request and its response. `header_bytes`: the size of its headers."""

    request: HttpRequest
    began: float
    header_bytes: int
    complete: bool = False
    answered_at: float | None = None

    @property
    def buffered_bytes(self) -> int:
        return self.header_bytes + self.request.body.tell()


class Http2Session:
    """Not thread-safe. `ready` holds complete requests with their stream ids, in order: `answer` each."""

    def __init__(
        self, *, limits: Limits, clock: Callable[[], float], authorize: Authorize = allow_all
    ) -> None:
        self.ready: deque[tuple[int, HttpRequest]] = deque()
        #: Whether the connection is to be closed once everything has been sent.
        self.closed = False
        #: Bytes of requests that are not complete.
        self.buffered_bytes = 0
        #: What was refused by a reset or GOAWAY; the caller takes them out. The request, if one was read.
        self.refusals: list[tuple[RequestError, HttpRequest | None]] = []
        self._limits = limits
        self._clock = clock
        self._authorize = authorize
        self._connection = build_connection(limits)
        self._allowance = Allowance(clock=clock)
        self._reader = FrameReader(limits=limits, allowance=self._allowance, clock=clock)
        self._send_buffer = SendBuffer(self._connection, allowance=self._allowance, clock=clock)
        self._send_buffer.collect()
        self._streams: dict[int, _Stream] = {}
        self._draining = False
        #: Bytes of bodies for which the connection's window has not been opened again.
        self._consumed = 0

    @property
    def unread_bytes(self) -> int:
        """Bytes that were received and not given to h2 yet."""
        return len(self._reader)

    @property
    def receiving(self) -> bool:
        """Whether a request has begun and is not complete."""
        return bool(self._reader or self._reader.header_block_since is not None or self.oldest_incomplete)

    @property
    def oldest_incomplete(self) -> int:
        """The id of the oldest stream whose request is not complete; 0 if there is none."""
        return next((stream_id for stream_id, stream in self._streams.items() if not stream.complete), 0)

    @property
    def draining(self) -> bool:
        """Whether no new request is taken."""
        return self._draining

    @property
    def blocked_bytes(self) -> int:
        """Bytes of responses for which the client has to open a window."""
        return self._send_buffer.blocked_bytes

    @property
    def blocked_since(self) -> float | None:
        """Since when none of them could be sent."""
        return self._send_buffer.blocked_since

    @property
    def unsent_bytes(self) -> int:
        """Bytes that wait to be sent: `blocked_bytes`, and what `take` will return."""
        return self._send_buffer.size

    @property
    def idle(self) -> bool:
        """Whether every request that began has been answered completely."""
        return not self._streams and self._reader.header_block_since is None

    # From the client.

    def receive(self, data: bytes) -> None:
        """Keep received bytes; `advance` processes them."""
        if not self.closed:
            self._reader.receive(data)

    def advance(self) -> bool:
        """Process one batch of the received frames; False if there is none.

        Never raises: after a fault `closed` is set and the client is sent a GOAWAY.
        """
        if self.closed:
            return False
        try:
            batch = self._reader.next()
            if batch.data:
                self._feed_h2(batch.data)
        except ConnectionFault as fault:
            self.refusals.append((RequestError(fault.status, fault.reason), None))
            self._fail(fault.error, fault.reason)
            return False
        if batch.goaway_follows:
            self.send_goaway()
        return bool(batch.data) or batch.goaway_follows

    def _feed_h2(self, data: bytes) -> None:
        try:
            events = self._connection.receive_data(data)
        except ProtocolError as exc:
            error = RequestError(431, str(exc)) if isinstance(exc, DenialOfServiceError) else _INVALID_FRAMES
            self.refusals.append((error, None))
            self._send_buffer.collect()  # h2 has produced a GOAWAY
            self._close()
            return
        except Exception as exc:  # an error that h2 itself does not expect
            reason = f"this cannot be read: {type(exc).__name__}"
            raise ConnectionFault(ErrorCodes.PROTOCOL_ERROR, reason) from exc
        for event in events:
            handle = _EVENT_HANDLERS.get(type(event))
            if handle is not None:
                handle(self, event)
        self._send_buffer.collect()

    def _on_request(self, event: h2.events.RequestReceived) -> None:
        stream_id, headers = event.stream_id, event.headers
        if self._draining or len(self._streams) >= self._limits.concurrent_streams:
            if not self._draining:  # else the client asks another replica, as our GOAWAY says
                self.refusals.append((self._too_many_streams(), None))
            self._reset_stream(stream_id, ErrorCodes.REFUSED_STREAM)
            return
        try:
            request = build_request(headers, header_lines=self._limits.header_lines)
            length = content_length(request)
        except ValueError:
            self.refusals.append((_INVALID_HEADERS, None))
            self._reset_stream(stream_id, ErrorCodes.PROTOCOL_ERROR)
            return
        stream = _Stream(request, self._clock(), _header_size(headers))
        self._streams[stream_id] = stream
        self.buffered_bytes += stream.header_bytes
        request.body_limit = self._limits.body_limit(request.target)
        error = self._authorize(request.target)
        if error is None and length is not None and length > request.body_limit:
            error = body_too_large(request)
        if error is not None:
            self._reject(stream_id, stream, error)

    def _too_many_streams(self) -> RequestError:
        return RequestError(429, f"more than {self._limits.concurrent_streams} requests at once")

    def _on_trailers(self, event: h2.events.TrailersReceived) -> None:
        """Trailers are ignored, but they must be valid headers."""
        try:
            for name, value in event.headers:
                check_trailer(name, value)
        except ValueError:
            self._refuse(event.stream_id, _INVALID_HEADERS, ErrorCodes.PROTOCOL_ERROR)

    def _on_data(self, event: h2.events.DataReceived) -> None:
        self._return_window(event.flow_controlled_length)
        stream = self._streams.get(event.stream_id)
        if stream is None or stream.complete:
            return  # the client may not know yet that its request has been answered
        stream.request.body.write(event.data)
        self.buffered_bytes += len(event.data)
        if stream.request.body.tell() > stream.request.body_limit:
            self._reject(event.stream_id, stream, body_too_large(stream.request))
        elif self.buffered_bytes > self._limits.buffered_request_bytes // 2:
            youngest = max(stream_id for stream_id, other in self._streams.items() if not other.complete)
            error = RequestError(503, "too many bytes of unfinished requests on one connection")
            self._refuse(youngest, error, ErrorCodes.REFUSED_STREAM)

    def _return_window(self, size: int) -> None:
        """Open the connection's window again once half of it is used."""
        self._consumed += size
        if self._consumed >= CONNECTION_WINDOW // 2:
            self._connection.increment_flow_control_window(self._consumed)
            self._consumed = 0

    def _on_stream_end(self, event: h2.events.StreamEnded) -> None:
        stream = self._streams.get(event.stream_id)
        if stream is not None and not stream.complete:
            self._make_ready(event.stream_id, stream)

    def _reject(self, stream_id: int, stream: _Stream, error: RequestError) -> None:
        """The request is ready, with `HttpRequest.error`, and no more of it is read."""
        stream.request.error = error
        self._make_ready(stream_id, stream)

    def _make_ready(self, stream_id: int, stream: _Stream) -> None:
        self.buffered_bytes -= stream.buffered_bytes
        stream.complete = True
        self.ready.append((stream_id, stream.request))

    def _on_reset(self, event: h2.events.StreamReset) -> None:
        self._forget_stream(event.stream_id)

    def _on_window_update(self, event: h2.events.WindowUpdated) -> None:
        stream_id = event.stream_id
        sent = self._send_buffer.send(stream_id) if stream_id else self._send_buffer.send_all()
        self._finish_streams(sent)

    def _on_settings(self, _: h2.events.RemoteSettingsChanged) -> None:
        self._finish_streams(self._send_buffer.send_all())

    # To the client.

    def answer(self, stream_id: int, fields: list[tuple[bytes, bytes]], body: bytes) -> None:
        """Send the response to a request of `ready`; nothing if the client has reset the stream."""
        stream = self._streams.get(stream_id)
        if stream is None:
            return
        stream.answered_at = self._clock()
        stream.request.body = io.BytesIO()
        if stream.request.error is None:
            self._allowance.earn(ALLOWANCE_PER_RESPONSE)
        try:
            self._connection.send_headers(stream_id, fields, end_stream=not body)
        except ProtocolError:  # the stream has ended meanwhile
            self._forget_stream(stream_id)
            return
        self._finish_streams(self._send_buffer.begin(stream_id, body))
        if self.blocked_bytes > BLOCKED_BYTES_LIMIT:
            self._fail(ErrorCodes.ENHANCE_YOUR_CALM, "too many bytes of responses are not read")

    def send_goaway(self) -> None:
        """Take no new requests from now on; `idle` is true once all others are answered."""
        if not self._draining and not self.closed:
            self._draining = True
            last = self._connection.highest_inbound_stream_id
            self._send_buffer.append(GoAwayFrame(0, last_stream_id=last, error_code=0).serialize())

    def expire(self) -> bool:
        """Reset the requests that take too long to become complete; whether the connection can go on.

        It cannot if a frame or a header block takes that long, if responses are blocked for too long, or if
        one response is read too slowly.
        """
        now, limits = self._clock(), self._limits
        earliest_request, earliest_block = now - limits.request_timeout, now - limits.response_timeout
        earliest_answer = now - SLOW_READER_FACTOR * limits.response_timeout
        answers = (stream.answered_at for stream in self._streams.values())
        if any(answered_at is not None and answered_at < earliest_answer for answered_at in answers):
            return False
        for stream_id, stream in list(self._streams.items()):
            if not stream.complete and stream.began < earliest_request:
                self._refuse(stream_id, _TOO_SLOW, ErrorCodes.CANCEL)
        self._send_buffer.collect()
        begun = (self._reader.frame_since, self._reader.header_block_since)
        if any(since is not None and since < earliest_request for since in begun):
            self.refusals.append((_TOO_SLOW, None))
            return False
        return self.blocked_since is None or self.blocked_since >= earliest_block

    def take(self) -> bytes:
        """The next bytes to send; empty if nothing can be sent."""
        chunk, sent = self._send_buffer.take()
        self._finish_streams(sent)
        return chunk

    def _finish_streams(self, stream_ids: list[int]) -> None:
        """These responses were sent.

        The stream of a request that was refused is reset: nobody wants the rest of it.
        """
        for stream_id in stream_ids:
            if self._streams[stream_id].request.error is not None:
                self._reset_stream(stream_id, ErrorCodes.NO_ERROR)
                self._send_buffer.collect()
            self._forget_stream(stream_id)

    def _refuse(self, stream_id: int, error: RequestError, code: ErrorCodes) -> None:
        """Reset the stream of a request that is not served."""
        stream = self._streams.get(stream_id)
        if stream is not None and not stream.complete:
            self.refusals.append((error, stream.request))
        self._reset_stream(stream_id, code)

    def _reset_stream(self, stream_id: int, error: ErrorCodes) -> None:
        with suppress(ProtocolError):  # it has ended already
            self._connection.reset_stream(stream_id, error)
        self._forget_stream(stream_id)

    def _forget_stream(self, stream_id: int) -> None:
        stream = self._streams.pop(stream_id, None)
        self._send_buffer.drop(stream_id)
        if stream is None:
            return
        if not stream.complete:
            self.buffered_bytes -= stream.buffered_bytes
        elif stream.answered_at is None:
            self.ready = deque(entry for entry in self.ready if entry[0] != stream_id)

    def discard(self) -> None:
        """Drop everything: the client is gone."""
        self._close()
        self._send_buffer.clear(unsent=True)

    def _close(self) -> None:
        self.closed = True
        self.ready.clear()
        self.buffered_bytes = 0
        self._streams.clear()
        self._reader.clear()
        self._send_buffer.clear(unsent=False)

    def _fail(self, error: ErrorCodes, reason: str) -> None:
        with suppress(ProtocolError):
            self._connection.close_connection(error, reason.encode()[:200])
        self._send_buffer.collect()
        self._close()


#: The handler of each type of h2's events; other events need none. Bound methods in the session would be a
#: reference cycle, and its responses would stay in memory until the next garbage collection.
_EVENT_HANDLERS: Mapping[type, Callable[[Http2Session, Any], None]] = {
    h2.events.RequestReceived: Http2Session._on_request,
    h2.events.DataReceived: Http2Session._on_data,
    h2.events.TrailersReceived: Http2Session._on_trailers,
    h2.events.StreamEnded: Http2Session._on_stream_end,
    h2.events.StreamReset: Http2Session._on_reset,
    h2.events.WindowUpdated: Http2Session._on_window_update,
    h2.events.RemoteSettingsChanged: Http2Session._on_settings,
}


def _header_size(headers: list[Header]) -> int:
    return sum(len(name) + len(value) for name, value in headers)
