"""One caller's HTTP/2 (RFC 9113), from bytes to requests and from answers to bytes. No I/O.

For callers that ask many things at once. The API server has a hundred binds under way and keeps 25 idle
connections to a webhook: over HTTP/1.1 seven of ten calls had a handshake of their own, which cost more than
all the rest of the call. Over HTTP/2 all go over one connection.

Our own, for the h2 library takes three times the CPU time for each call (`make bench ROW=http2`).
Headers are packed and unpacked by hpack.

Invariants
- A frame is acted on once it is whole, and none is longer than `FRAME_BYTES`. Every block of headers is
  decoded, whatever becomes of its stream, for the table that it changes is the connection's.
- At most `Limits.streams` streams are open; one more is refused, which its sender may try again. What is
  held of a body is bounded by `Limits.body_bytes`, of a head by `head_bytes`; beyond, the caller is
  answered 413, or cut off. Of all that is not complete `held` says the sum; half of `Limits.held_bytes`
  is one caller's, and beyond it the youngest stream is refused.
- Nothing is sent beyond the caller's windows, and no frame that is longer than it takes. Of answers that
  it makes no room for, `RESTS` bytes are kept, and for as long as `blocked` is not too long ago.
- A fault of one stream ends that stream. A fault of the connection ends it, with a GOAWAY that says why.
- What makes us work and asks nothing (resets, pings, settings, empty frames, ...) is counted, and
  `NUISANCES` of it without a request that was answered end the connection. Frames of `SOME` data, and
  windows that open by as much, are none: flow control bounds them.
- After `go` no new stream is taken; its sender knows from our GOAWAY that it may ask elsewhere, and
  whatever it had sent for it meanwhile is passed over. What was begun before is answered.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import hpack

from server import http2_frames as frames
from server.http2_frames import Error, Kind, Setting
from server.http_limits import Limits
from server.http_reading import Header, Refused, Request

#: What a caller may send of bodies before we say that it may go on; half of it is given back at a time.
WINDOW = 16 * 1024 * 1024
NUISANCES = 1_000
#: Bytes from which on a frame of data, or a window's increment, is no nuisance.
SOME = 1_024
#: Whoever takes a little of an answer now and then has so many times as long as who takes nothing of it.
SLOWEST = 6
#: Bytes of answers that a caller asked for and makes no room for.
RESTS = 32 * 1024 * 1024
#: Headers that belong to a connection, of which HTTP/2 has no more than one.
CONNECTIONS_OWN = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"}
)
PSEUDO = frozenset({b":method", b":scheme", b":authority", b":path"})
_BROKEN = b"\r\n\0"


class Fault(Exception):
    """The connection cannot go on."""

    def __init__(self, error: Error, why: str) -> None:
        super().__init__(why)
        self.error = error
        self.why = why


@dataclass(slots=True)
class _Stream:
    """One request and its answer. `head`: its bytes; `length`: what it says of the body, if it does."""

    request: Request
    window: int
    began: float
    head: int
    length: int | None = None
    complete: bool = False
    answered_at: float | None = None
    #: Of the answer: what could not be sent yet.
    rest: memoryview = field(default_factory=lambda: memoryview(b""))

    @property
    def answered(self) -> bool:
        return self.answered_at is not None

    @property
    def held(self) -> int:
        return self.head + self.request.body.tell()


@dataclass(slots=True)
class _Block:
    """Headers under way, in several frames."""

    stream: int
    ends: bool
    began: float
    parts: list[bytes] = field(default_factory=list)
    size: int = 0


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
        self._in = bytearray()
        #: Since when the frame that is not whole yet has been coming.
        self._coming: float | None = None
        self._out: list[bytes] = [
            frames.settings(
                {
                    Setting.MAX_CONCURRENT_STREAMS: limits.streams,
                    Setting.INITIAL_WINDOW_SIZE: min(limits.body_bytes + 1, frames.LARGEST_WINDOW),
                    Setting.MAX_HEADER_LIST_SIZE: limits.head_bytes,
                }
            ),
            frames.window_update(0, WINDOW - frames.FIRST_WINDOW),
        ]
        self._decoder = hpack.Decoder(max_header_list_size=limits.head_bytes)
        self._greeted = False
        self._block: _Block | None = None
        self._streams: dict[int, _Stream] = {}
        #: The highest stream that was taken, and that was heard of.
        self._last = self._heard = 0
        self._going = False
        #: Whether a window has become larger since answers were sent last.
        self._opened = False
        self._rests = 0
        self._nuisances = 0
        self._taken = 0
        self._window = frames.FIRST_WINDOW
        self._first_window = frames.FIRST_WINDOW
        self._frame_bytes = frames.FRAME_BYTES

    @property
    def midway(self) -> bool:
        """Whether a request has begun and is not complete."""
        return bool(self._in or self._block or self.oldest)

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
    def idle(self) -> bool:
        """Whether nothing is asked and nothing is left to be sent."""
        return not self._streams and not self._block

    # From the caller

    def feed(self, data: bytes) -> None:
        """Take what has arrived. Never raises: a fault shows in `over`, and is told of to the caller."""
        if self.over:
            return
        self._in += data
        try:
            self._read()
            if self._opened:
                self._opened = False
                self._send_rest()
        except Fault as fault:
            self._end(fault.error, fault.why)

    def _read(self) -> None:
        at, held = 0, self._in
        if not self._greeted:
            if not frames.PREFACE.startswith(bytes(held[: len(frames.PREFACE)])):
                raise Fault(Error.PROTOCOL_ERROR, "this is not how HTTP/2 begins")
            if len(held) < len(frames.PREFACE):
                self._mark(progress=False)
                return
            self._greeted, at = True, len(frames.PREFACE)
        try:
            while len(held) - at >= frames.HEAD_BYTES:
                size, kind, flags, stream = frames.head_of(held, at)
                if size > frames.FRAME_BYTES:
                    raise Fault(Error.FRAME_SIZE_ERROR, f"a frame may have {frames.FRAME_BYTES} bytes")
                end = at + frames.HEAD_BYTES + size
                if len(held) < end:
                    return
                payload = bytes(held[at + frames.HEAD_BYTES : end])
                at = end
                self._take(kind, flags, stream, payload)
        finally:
            del held[:at]
            self._mark(progress=at > 0)

    def _mark(self, *, progress: bool) -> None:
        if progress or not self._in:
            self._coming = None
        if self._in and self._coming is None:
            self._coming = self._clock()

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if self._block is not None and (kind != Kind.CONTINUATION or stream != self._block.stream):
            raise Fault(Error.PROTOCOL_ERROR, "something came between the headers of a request")
        match kind:
            case Kind.HEADERS:
                self._headers(flags, stream, payload)
            case Kind.CONTINUATION:
                self._continuation(flags, payload)
            case Kind.DATA:
                self._data(flags, stream, payload)
            case Kind.WINDOW_UPDATE:
                self._window_update(stream, payload)
            case Kind.RST_STREAM:
                self._reset(stream, payload)
            case Kind.SETTINGS:
                self._settings(flags, stream, payload)
            case Kind.PING:
                self._ping(flags, stream, payload)
            case Kind.GOAWAY:
                self.go()
            case Kind.PUSH_PROMISE:
                raise Fault(Error.PROTOCOL_ERROR, "only servers push")
            case _:  # PRIORITY, and whatever comes after this was written
                self._bear()

    def _headers(self, flags: int, stream: int, payload: bytes) -> None:
        if stream % 2 == 0:
            raise Fault(Error.PROTOCOL_ERROR, f"{stream} is no stream of a caller's")
        self._block = _Block(stream, ends=bool(flags & frames.END_STREAM), began=self._clock())
        self._continuation(flags, _unpadded(payload, flags))

    def _continuation(self, flags: int, payload: bytes) -> None:
        block = self._block
        if block is None:
            raise Fault(Error.PROTOCOL_ERROR, "nothing is to be continued")
        block.parts.append(payload)
        block.size += len(payload)
        if block.size > self._limits.head_bytes or len(block.parts) > self._limits.head_lines:
            raise self._head_too_large()
        if flags & frames.END_HEADERS:
            self._block = None
            self._begin(block.stream, self._decoded(b"".join(block.parts)), ends=block.ends)

    def _decoded(self, block: bytes) -> list[Header]:
        try:
            return [(bytes(name), bytes(value)) for name, value in self._decoder.decode(block, raw=True)]
        except hpack.OversizedHeaderListError as exc:
            raise self._head_too_large() from exc
        except Exception as exc:  # hpack lets some of Python's own through
            raise Fault(Error.COMPRESSION_ERROR, f"headers that cannot be read: {exc}") from exc

    def _head_too_large(self) -> Fault:
        what = f"the head of a request may have {self._limits.head_bytes} bytes"
        return Fault(Error.ENHANCE_YOUR_CALM, what)

    def _begin(self, number: int, headers: list[Header], *, ends: bool) -> None:
        if number in self._streams:
            self._trailers(number, ends=ends)
            return
        if number <= self._heard:
            self._bear()  # what follows a reset
            return
        self._heard = number
        if self._going:
            return
        self._last = number
        if len(self._streams) >= self._limits.streams:
            self._bear()
            self._out.append(frames.reset(number, Error.REFUSED_STREAM))
            return
        try:
            request, length = request_of(headers, head_lines=self._limits.head_lines)
        except ValueError:
            self._bear()
            self._out.append(frames.reset(number, Error.PROTOCOL_ERROR))
            return
        size = sum(len(name) + len(value) for name, value in headers)
        stream = _Stream(request, self._first_window, self._clock(), size, length)
        self._streams[number] = stream
        self.held += size
        if length is not None and length > self._body_limit(stream):
            self._refuse(number, stream)
        elif ends:
            self._complete(number, stream)

    def _trailers(self, number: int, *, ends: bool) -> None:
        """Nobody here wants to know what they say."""
        stream = self._streams[number]
        if stream.complete or not ends:
            self._bear()
            self._drop(number, Error.PROTOCOL_ERROR)
        else:
            self._complete(number, stream)

    def _data(self, flags: int, number: int, payload: bytes) -> None:
        self._require_begun(number)
        self._account(len(payload))
        body = _unpadded(payload, flags & ~frames.WITH_PRIORITY)
        stream = self._streams.get(number)
        ends = bool(flags & frames.END_STREAM)
        if len(body) < SOME and not ends:
            self._bear()
        if stream is None or stream.complete:
            return  # it may not have heard yet that we are done with it
        stream.request.body.write(body)
        self.held += len(body)
        if stream.request.body.tell() > self._body_limit(stream):
            self._refuse(number, stream)
        elif ends:
            self._complete(number, stream)
        elif self.held > self._limits.held_bytes // 2:
            youngest = max(number for number, each in self._streams.items() if not each.complete)
            self._drop(youngest, Error.REFUSED_STREAM)

    def _require_begun(self, number: int) -> None:
        if number == 0 or number > self._heard:
            raise Fault(Error.PROTOCOL_ERROR, f"stream {number} was not begun")

    def _account(self, size: int) -> None:
        """Let the caller send on; it may never send more than `WINDOW` at once."""
        self._taken += size
        if self._taken > WINDOW:
            raise Fault(Error.FLOW_CONTROL_ERROR, "more was sent than there was room for")
        if self._taken >= WINDOW // 2:
            self._out.append(frames.window_update(0, self._taken))
            self._taken = 0

    def _complete(self, number: int, stream: _Stream) -> None:
        if stream.length is not None and stream.length != stream.request.body.tell():
            self._bear()
            self._drop(number, Error.PROTOCOL_ERROR)
            return
        self._make_ready(number, stream)

    def _refuse(self, number: int, stream: _Stream) -> None:
        """Its body is too long: it is answered so, by way of `Request.refused`, and no more of it is read."""
        stream.request.refused = Refused(413, f"the body may have {self._body_limit(stream)} bytes")
        self._make_ready(number, stream)

    def _body_limit(self, stream: _Stream) -> int:
        return self._limits.body_limit(stream.request.target.decode("latin-1"))

    def _make_ready(self, number: int, stream: _Stream) -> None:
        self.held -= stream.held
        stream.complete = True
        self.ready.append((number, stream.request))

    def _window_update(self, number: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise Fault(Error.FRAME_SIZE_ERROR, "a window's increment has four bytes")
        increment = frames.number_in(payload) & 0x7FFFFFFF
        if increment < SOME:
            self._bear()
        if number == 0:
            self._window += increment
            if not increment or self._window > frames.LARGEST_WINDOW:
                raise Fault(Error.FLOW_CONTROL_ERROR, "no window can be so large, or grow by nothing")
        else:
            self._require_begun(number)
            stream = self._streams.get(number)
            if stream is not None:
                stream.window += increment
                if not increment or stream.window > frames.LARGEST_WINDOW:
                    self._drop(number, Error.FLOW_CONTROL_ERROR)
        self._opened = True

    def _reset(self, number: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise Fault(Error.FRAME_SIZE_ERROR, "a reset has four bytes")
        self._require_begun(number)
        self._bear()
        self._forget(number)

    def _settings(self, flags: int, stream: int, payload: bytes) -> None:
        if stream or (flags & frames.ACK and payload) or len(payload) % 6:
            raise Fault(Error.FRAME_SIZE_ERROR, "settings are pairs, and the connection's")
        self._bear()
        if flags & frames.ACK:
            return
        first = self._first_window
        for key, value in frames.settings_in(payload):
            if key == Setting.INITIAL_WINDOW_SIZE:
                first = value
                if first > frames.LARGEST_WINDOW:
                    raise Fault(Error.FLOW_CONTROL_ERROR, f"no window's size: {first}")
            elif key == Setting.MAX_FRAME_SIZE:
                if not frames.FRAME_BYTES <= value < 2**24:
                    raise Fault(Error.PROTOCOL_ERROR, f"no frame's size: {value}")
                self._frame_bytes = value
        self._resize(first)
        self._out.append(frames.frame(Kind.SETTINGS, frames.ACK, 0, b""))

    def _resize(self, first: int) -> None:
        """Every stream's window changes with the one that streams begin with; it may become negative."""
        change, self._first_window = first - self._first_window, first
        if not change:
            return
        self._opened = True
        for number, stream in list(self._streams.items()):
            stream.window += change
            if stream.window > frames.LARGEST_WINDOW:
                raise Fault(Error.FLOW_CONTROL_ERROR, f"no window can be so large: {number}")

    def _ping(self, flags: int, stream: int, payload: bytes) -> None:
        if stream or len(payload) != 8:
            raise Fault(Error.FRAME_SIZE_ERROR, "a ping has eight bytes, and is the connection's")
        self._bear()
        if not flags & frames.ACK:
            self._out.append(frames.frame(Kind.PING, frames.ACK, 0, payload))

    def _bear(self) -> None:
        self._nuisances += 1
        if self._nuisances > NUISANCES:
            raise Fault(Error.ENHANCE_YOUR_CALM, "much is said, and nothing asked")

    # To the caller

    def answer(self, number: int, block: bytes, body: bytes) -> None:
        """What is said to a request of `ready`; to one that was taken back nothing is."""
        stream = self._streams.get(number)
        if stream is None:
            return
        stream.answered_at = self._clock()
        self._nuisances = 0
        stream.request.body = io.BytesIO()
        self._out.append(frames.headers(number, block, ends=not body))
        stream.rest = memoryview(body)
        self._rests += len(body)
        self._send(number, stream)
        if self._rests > RESTS:
            self._end(Error.ENHANCE_YOUR_CALM, "much is asked, and no room made for the answers")

    def go(self) -> None:
        """Take nothing new from now on; `idle` tells when all is answered."""
        if not self._going:
            self._going = True
            self._out.append(frames.goaway(self._last, Error.NO_ERROR, ""))

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
                self._drop(number, Error.CANCEL)
        begun = (self._coming, self._block.began if self._block else None)
        stuck = any(one is not None and one < asked for one in begun)
        return not stuck and (self.blocked is None or self.blocked >= answered)

    def take(self) -> bytes:
        """What is to be sent, once."""
        taken = b"".join(self._out)
        self._out.clear()
        return taken

    def _send_rest(self) -> None:
        for number, stream in list(self._streams.items()):
            if stream.answered:
                self._send(number, stream)

    def _send(self, number: int, stream: _Stream) -> None:
        while stream.rest:
            size = min(len(stream.rest), self._frame_bytes, stream.window, self._window)
            if size <= 0:
                self.blocked = self.blocked or self._clock()
                return
            self.blocked = None
            sent, stream.rest = bytes(stream.rest[:size]), stream.rest[size:]
            stream.window -= size
            self._window -= size
            self._rests -= size
            self._out.append(frames.data(number, sent, ends=not stream.rest))
        if not self._rests:
            self.blocked = None
        if stream.request.refused is not None:
            self._drop(number, Error.NO_ERROR)
        else:
            self._streams.pop(number, None)

    def _drop(self, number: int, error: Error) -> None:
        self._out.append(frames.reset(number, error))
        self._forget(number)

    def _forget(self, number: int) -> None:
        stream = self._streams.pop(number, None)
        if stream is None:
            return
        self._rests -= len(stream.rest)
        if not self._rests:
            self.blocked = None
        if not stream.complete:
            self.held -= stream.held
        elif not stream.answered:
            self.ready = deque(each for each in self.ready if each[0] != number)

    def _end(self, error: Error, why: str) -> None:
        self._out.append(frames.goaway(self._last, error, why[:200]))
        self._streams.clear()
        self.ready.clear()
        self.held = self._rests = 0
        self.blocked = self._block = None
        self.over = self._going = True


def _unpadded(payload: bytes, flags: int) -> bytes:
    """What a frame of data or headers carries."""
    start = padding = 0
    if flags & frames.PADDED:
        start, padding = 1, payload[0] if payload else 1
    if flags & frames.WITH_PRIORITY:
        start += 5
    if start + padding > len(payload):
        raise Fault(Error.PROTOCOL_ERROR, "more padding than there is frame")
    return payload[start : len(payload) - padding]


def request_of(headers: Iterable[Header], *, head_lines: int) -> tuple[Request, int | None]:
    """The request that these headers begin, and how long its body is to be. Raises ValueError."""
    pseudo: dict[bytes, bytes] = {}
    request = Request(version="2", keep_alive=True)
    for name, value in headers:
        if name.startswith(b":"):
            if name not in PSEUDO or name in pseudo or request.headers:
                raise ValueError(f"{name!r} is not where it may be")
            pseudo[name] = value
        else:
            request.headers.append((name, value))
            if name != name.lower() or name in CONNECTIONS_OWN or not name:
                raise ValueError(f"{name!r} is no header of HTTP/2")
        if any(byte in value for byte in _BROKEN) or any(byte in name for byte in _BROKEN):
            raise ValueError("a header has one line")
    if len(request.headers) > head_lines:
        raise ValueError(f"the head of a request may have {head_lines} lines")
    request.method = pseudo[b":method"].decode("ascii") if b":method" in pseudo else ""
    request.target = pseudo.get(b":path", b"")
    if not request.method or not request.target or b":scheme" not in pseudo:
        raise ValueError("a request has a method, a scheme and a path")
    hosts = request.values(b"host")
    authority = pseudo.get(b":authority")
    if authority is not None:
        if any(host != authority for host in hosts):
            raise ValueError("two hosts")
        request.headers = [each for each in request.headers if each[0] != b"host"] + [(b"host", authority)]
    elif len(hosts) != 1:
        raise ValueError("a request has one host")
    return request, _length(request)


def _length(request: Request) -> int | None:
    said = request.values(b"content-length")
    if not said:
        return None
    if len(said) > 1 or not said[0].isdigit() or len(said[0]) > 18:
        raise ValueError("no length")
    return int(said[0])
