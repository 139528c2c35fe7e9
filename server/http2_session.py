"""One caller's HTTP/2 (RFC 9113), from bytes to requests and from answers to bytes. No I/O.

For callers that ask many things at once. The API server has a hundred binds under way and keeps 25 idle
connections to a webhook: over HTTP/1.1 seven of ten calls had a handshake of their own, which cost more than
all the rest of the call. Over HTTP/2 all go over one connection.

The protocol is the h2 library's. What it does not bound is bounded here, around it.

Invariants
- `advance` gives h2 a few frames at a time, so that whoever calls it can look at the clock in between. A
  frame is whole, and none is longer than `FRAME_BYTES`; a block of headers has at most `Limits.head_bytes`
  and `head_lines`, known before it is decoded.
- Each frame costs, and a caller that is out of its `Allowance` (`server.http2_frames`) is cut off.
- At most `Limits.streams` requests are under way. What is held of a body is bounded by `body_limit`;
  beyond, the caller is answered 413. `held` is the sum of all that is not complete; half of
  `Limits.held_bytes` is one caller's, and beyond it the youngest request is refused.
- Nothing is sent beyond the caller's windows. Of answers that it makes no room for, `RESTS` bytes are kept,
  and for as long as `blocked` is not too long ago. `take` gives `TAKEN_AT_ONCE` bytes, or a frame more.
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
from dataclasses import dataclass, field
from typing import Any

import h2.config
import h2.connection
import h2.events
import h2.settings
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError
from hyperframe.frame import GoAwayFrame

from server import http2_frames as frames
from server.http2_frames import Allowance, Kind
from server.http2_headers import Decoder, check_field, length_of, request_of
from server.http_limits import SLOWEST, Limits
from server.http_reading import Header, Request, body_too_large

#: What a caller may send of bodies before we say that it may go on; half of it is given back at a time.
WINDOW = 16 * 1024 * 1024
FIRST_WINDOW, LARGEST_WINDOW = 65_535, 2**31 - 1
#: Bytes of answers that a caller asked for and makes no room for.
RESTS = 32 * 1024 * 1024
#: h2 is given so many frames at once at most: about a millisecond of its time.
FRAMES_AT_ONCE = 8
TAKEN_AT_ONCE = 64 * 1024
#: Of the headers that we sent, what both sides remember.
TABLE_BYTES = 4_096
#: Of streams that have ended h2 remembers how, for what is still on its way for them.
REMEMBERED_STREAMS = 1_024


class Fault(Exception):
    """The connection cannot go on."""

    def __init__(self, error: ErrorCodes, reason: str) -> None:
        super().__init__(reason)
        self.error = error
        self.reason = reason


class _Connection(h2.connection.H2Connection):
    """h2's, but that it does not count its streams with each request.

    `Session` does, and refuses one request too many, where h2 would end the connection.
    """

    MAX_CLOSED_STREAMS = REMEMBERED_STREAMS

    @property
    def open_inbound_streams(self) -> int:
        if len(self.streams) > REMEMBERED_STREAMS:
            self._open_streams(1)  # forgets those that have ended
        return 0


def _connection(limits: Limits) -> _Connection:
    """h2's side of it. Headers are checked here rather than there: a fault in them ends one stream alone."""
    connection = _Connection(
        h2.config.H2Configuration(
            client_side=False,
            header_encoding=None,
            validate_inbound_headers=False,
            normalize_inbound_headers=False,
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
        )
    )
    connection.local_settings = h2.settings.Settings(
        client=False,
        initial_values={
            h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: limits.streams,
            h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: min(limits.body_bytes + 1, LARGEST_WINDOW),
            h2.settings.SettingCodes.MAX_HEADER_LIST_SIZE: limits.head_bytes,
        },
    )
    connection.decoder = Decoder(
        fields=limits.head_lines + len(":msap"), max_header_list_size=limits.head_bytes
    )
    connection.initiate_connection()
    connection.increment_flow_control_window(WINDOW - FIRST_WINDOW)
    return connection


@dataclass(slots=True)
class _Stream:
    """One request and its answer. `head`: its bytes."""

    request: Request
    began: float
    head: int
    complete: bool = False
    answered_at: float | None = None
    #: Of the answer: what could not be sent yet.
    rest: memoryview = field(default_factory=lambda: memoryview(b""))

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
        #: Since when nothing could be sent of answers for which the caller has to make room.
        self.blocked: float | None = None
        self._limits = limits
        self._clock = clock
        self._allowance = Allowance(clock=clock)
        self._incoming = bytearray()
        #: Since when the frame that is not whole yet has been coming.
        self._coming: float | None = None
        self._greeted = False
        #: Of headers under way, in several frames: since when they come, and how many bytes have.
        self._block_began: float | None = None
        self._block_bytes = 0
        self._connection = _connection(limits)
        self._out = bytearray()
        self._streams: dict[int, _Stream] = {}
        #: Those with an answer of which not all could be sent.
        self._sending: dict[int, _Stream] = {}
        #: Whether some of them wait for `take` rather than for the caller.
        self._cut = False
        self._going = False
        self._rests = 0
        self._taken = 0

    @property
    def unread(self) -> int:
        """Bytes that have arrived and were not looked at."""
        return len(self._incoming)

    @property
    def midway(self) -> bool:
        """Whether a request has begun and is not complete."""
        return bool(self._incoming or self._block_began is not None or self.oldest)

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
        return self._rests

    @property
    def waiting(self) -> int:
        """Bytes that wait to be sent: `rests`, and what `take` will give."""
        return self._rests + len(self._out)

    @property
    def idle(self) -> bool:
        """Whether nothing is asked and nothing is left to be sent."""
        return not self._streams and self._block_began is None

    # From the caller

    def receive(self, data: bytes) -> None:
        """This has arrived; `advance` looks at it."""
        if self.over:
            return
        self._incoming += data
        if self._coming is None:
            self._coming = self._clock()

    def advance(self) -> bool:
        """Take a few of the frames that have arrived; whether there was one.

        Never raises: a fault shows in `over`, and is told of to the caller.
        """
        if self.over:
            return False
        try:
            if not self._greeted:
                return self._greet()
            size, leaving = self._measure()
            if size:
                self._take(size)
            if leaving and not self.over:
                self._leave()
        except Fault as fault:
            self._end(fault.error, fault.reason)
            return False
        return bool(size or leaving)

    def _greet(self) -> bool:
        length = len(frames.PREFACE)
        if not frames.PREFACE.startswith(bytes(self._incoming[:length])):
            raise Fault(ErrorCodes.PROTOCOL_ERROR, "this is not how HTTP/2 begins")
        if len(self._incoming) < length:
            return False
        self._greeted = True
        self._take(length)
        return True

    def _measure(self) -> tuple[int, bool]:
        """How many bytes h2 is given next, all of them whole frames, and whether a GOAWAY follows them."""
        at, count, incoming = 0, 0, self._incoming
        while len(incoming) - at >= frames.HEAD_BYTES and count < FRAMES_AT_ONCE:
            head = frames.head_of(incoming, at)
            if head.size > frames.FRAME_BYTES or not frames.fits(head):
                raise Fault(ErrorCodes.FRAME_SIZE_ERROR, f"a frame of {head.size} bytes is none of its kind")
            if len(incoming) - at < head.whole:
                break
            if not self._allowance.spend(frames.cost(head)):
                raise Fault(ErrorCodes.ENHANCE_YOUR_CALM, "much is said, and nothing asked")
            if head.kind == Kind.GOAWAY and head.stream == 0 and self._block_began is None:
                return at, True
            self._measure_block(head)
            at += head.whole
            count += 1
        return at, False

    def _measure_block(self, head: frames.Head) -> None:
        """Headers in several frames are decoded once they are whole: they are bounded before."""
        if head.kind not in (Kind.HEADERS, Kind.CONTINUATION):
            return
        self._block_bytes = head.size + (self._block_bytes if head.kind == Kind.CONTINUATION else 0)
        if self._block_bytes > self._limits.head_bytes:
            raise Fault(
                ErrorCodes.ENHANCE_YOUR_CALM,
                f"the head of a request may have {self._limits.head_bytes} bytes",
            )
        if head.flags & frames.END_HEADERS:
            self._block_began, self._block_bytes = None, 0
        elif self._block_began is None:
            self._block_began = self._clock()

    def _take(self, size: int) -> None:
        data = bytes(self._incoming[:size])
        self._discard(size)
        try:
            events = self._connection.receive_data(data)
        except ProtocolError:
            self._collect()  # h2 has said why
            self.over = True
            self._forget_all()
            return
        except Exception as exc:  # what h2 did not think of
            raise Fault(ErrorCodes.PROTOCOL_ERROR, f"this cannot be read: {type(exc).__name__}") from exc
        for event in events:
            handle = _HANDLERS.get(type(event))
            if handle is not None:
                handle(self, event)
        self._collect()

    def _discard(self, size: int) -> None:
        del self._incoming[:size]
        self._coming = self._clock() if self._incoming else None

    def _leave(self) -> None:
        """The caller takes no more of what we would begin, which is nothing, and asks no more."""
        self._discard(frames.head_of(self._incoming).whole)
        self.go()

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
        if event.stream_id == 0:
            self._send_rests()
        elif event.stream_id in self._sending:
            self._send(event.stream_id, self._sending[event.stream_id])

    def _settings_changed(self, _: h2.events.RemoteSettingsChanged) -> None:
        """A larger table of headers would only be searched for longer."""
        self._connection.encoder.header_table_size = min(
            self._connection.encoder.header_table_size, TABLE_BYTES
        )
        self._send_rests()

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
        stream.rest = memoryview(body)
        self._rests += len(body)
        self._sending[number] = stream
        self._send(number, stream)
        self._collect()
        if self._rests > RESTS:
            self._end(ErrorCodes.ENHANCE_YOUR_CALM, "much is asked, and no room made for the answers")

    def go(self) -> None:
        """Take nothing new from now on; `idle` tells when all is answered."""
        if not self._going and not self.over:
            self._going = True
            last = self._connection.highest_inbound_stream_id
            self._out += GoAwayFrame(0, last_stream_id=last, error_code=0).serialize()

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
        self._collect()
        stuck = any(one is not None and one < asked for one in (self._coming, self._block_began))
        return not stuck and (self.blocked is None or self.blocked >= answered)

    def take(self) -> bytes:
        """What is to be sent next, once; empty if nothing can be."""
        if self._cut and len(self._out) < TAKEN_AT_ONCE:
            self._cut = False
            self._send_rests()
        taken = bytes(self._out[:TAKEN_AT_ONCE])
        del self._out[:TAKEN_AT_ONCE]
        return taken

    def _send_rests(self) -> None:
        for number, stream in list(self._sending.items()):
            self._send(number, stream)
            if self._cut or self._connection.outbound_flow_control_window <= 0:
                break

    def _send(self, number: int, stream: _Stream) -> None:
        """As much of its answer as there is room for; then it has ended, or waits."""
        connection, before = self._connection, len(stream.rest)
        while stream.rest and not self._cut:
            room = min(
                connection.local_flow_control_window(number),
                connection.max_outbound_frame_size,
                TAKEN_AT_ONCE,
            )
            if room <= 0:
                break
            piece, stream.rest = stream.rest[:room], stream.rest[room:]
            connection.send_data(number, bytes(piece), end_stream=not stream.rest)
            self._collect()
            self._cut = bool(stream.rest) and len(self._out) >= TAKEN_AT_ONCE
        sent = before - len(stream.rest)
        self._rests -= sent
        self._allowance.earn(sent * frames.A_BYTE)
        if sent or not self._rests:
            self.blocked = None
        if self._rests and self.blocked is None and not self._cut:
            self.blocked = self._clock()
        if not stream.rest:
            self._finish(number, stream)

    def _finish(self, number: int, stream: _Stream) -> None:
        """All of it has been said. Of a request that was refused the rest is not wanted."""
        if stream.request.refused is not None:
            self._reset(number, ErrorCodes.NO_ERROR)
        self._forget(number)

    def _collect(self) -> None:
        self._out += self._connection.data_to_send()

    def _reset(self, number: int, error: ErrorCodes) -> None:
        with suppress(ProtocolError):  # it has ended already
            self._connection.reset_stream(number, error)
        self._forget(number)

    def _forget(self, number: int) -> None:
        stream = self._streams.pop(number, None)
        self._sending.pop(number, None)
        if stream is None:
            return
        self._rests -= len(stream.rest)
        if not self._rests:
            self.blocked = None
        if not stream.complete:
            self.held -= stream.held
        elif stream.answered_at is None:
            self.ready = deque(each for each in self.ready if each[0] != number)

    def forget(self) -> None:
        """Keep nothing: the caller is gone."""
        self.over = True
        self._forget_all()
        self._out.clear()

    def _forget_all(self) -> None:
        self.ready.clear()
        self._streams.clear()
        self._sending.clear()
        self._incoming.clear()
        self._coming = self._block_began = self.blocked = None
        self._cut = False
        self._rests = self.held = 0

    def _end(self, error: ErrorCodes, reason: str) -> None:
        self.over = True
        with suppress(ProtocolError):
            self._connection.close_connection(error, reason.encode()[:200])
        self._collect()
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
