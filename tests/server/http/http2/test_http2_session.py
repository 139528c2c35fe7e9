"""HTTP/2 as rules: what is taken, what is refused, and what is said."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from h2.errors import ErrorCodes as Error
from h2.settings import SettingCodes as Setting

import tests.support.http.http2_frames_out as frames
from server.http.http2.frame_reader import (
    ACK,
    ALLOWANCE,
    ALLOWANCE_PER_RESPONSE,
    ALLOWANCE_PER_SECOND,
    END_HEADERS,
    END_STREAM,
    FRAME_BYTES,
    FRAMES_PER_BATCH,
    Kind,
)
from server.http.http2.h2_adapter import CONNECTION_WINDOW
from server.http.http2.send_buffer import CHUNK_BYTES
from server.http.http2.session import BLOCKED_BYTES_LIMIT, Http2Session
from server.http.limits import (
    NO_BODY_BYTES,
    SLOW_READER_FACTOR,
    Limits,
)
from tests.support.http.http2_caller import (
    Frame,
    Words,
    only,
)

LIMITS = Limits(
    body_bytes=100_000,
    header_bytes=8192,
    concurrent_streams=10,
    header_lines=30,
    buffered_request_bytes=400_000,
    request_timeout=10.0,
    response_timeout=5.0,
)
OK = [(b":status", b"200")]


#: What `Words.block` says.
HEAD = ((":method", "POST"), (":scheme", "https"), (":authority", "localhost"), (":path", "/echo"))


class Both:
    """A session and its caller, who has greeted."""

    def __init__(self, **settings: int) -> None:
        self.now = 1000.0
        self.session = Http2Session(limits=LIMITS, clock=lambda: self.now)
        self.words = Words()
        self.say(self.words.greeting(**settings))
        self.heard()

    def say(self, *data: bytes) -> None:
        self.session.receive(b"".join(data))
        while self.session.advance():
            pass

    def heard(self) -> list[Frame]:
        return self.words.read(b"".join(iter(self.session.take, b"")))

    def answer(self, body: bytes = b"") -> list[Frame]:
        """The first that is ready, with this."""
        stream, _ = self.session.ready.popleft()
        self.session.answer(stream, OK, body)
        return self.heard()


@pytest.fixture
def both() -> Both:
    return Both()


def code(frame: Frame) -> int:
    """Of a reset or, in its last four bytes but the words, a GOAWAY."""
    number: int = struct.unpack(">L", frame[3][4:8] if frame[0] == Kind.GOAWAY else frame[3])[0]
    return number


# What is taken


def test_headers_and_data_become_a_request(both: Both) -> None:
    both.say(both.words.ask(1, "/a?b=c", body=b"body"))
    stream, request = both.session.ready.popleft()
    assert (stream, request.method, request.target, request.version) == (1, "POST", b"/a?b=c", "2")
    assert (request.body.getvalue(), request.values(b"host")) == (b"body", [b"localhost"])


def test_a_request_may_arrive_in_any_pieces(both: Both) -> None:
    for byte in both.words.ask(1, body=b"in pieces"):
        both.say(bytes([byte]))
    assert both.session.ready[0][1].body.getvalue() == b"in pieces"
    assert not both.session.receiving


def test_many_may_be_under_way_and_end_in_any_order(both: Both) -> None:
    heads = [frames.headers(number, both.words.block(f"/{number}"), ends=False) for number in (1, 3, 5)]
    both.say(*heads, *(frames.data(number, b"x", ends=True) for number in (5, 1, 3)))
    assert [stream for stream, _ in both.session.ready] == [5, 1, 3]


def test_headers_may_go_on_in_further_frames(both: Both) -> None:
    block = both.words.block("/a", x="y" * 100)
    both.say(frames.frame(Kind.HEADERS, END_STREAM, 1, block[:10]))
    both.say(frames.frame(Kind.CONTINUATION, 0, 1, block[10:20]))
    assert both.session.receiving
    both.say(frames.frame(Kind.CONTINUATION, END_HEADERS, 1, block[20:]))
    assert both.session.ready[0][1].values(b"x") == [b"y" * 100]


def test_padding_priorities_trailers_and_unknown_frames_change_nothing(both: Both) -> None:
    flags = END_HEADERS | frames.PADDED | frames.WITH_PRIORITY
    both.say(frames.frame(Kind.HEADERS, flags, 1, b"\x03" + b"\0" * 5 + both.words.block() + b"\0" * 3))
    both.say(frames.frame(Kind.PRIORITY, 0, 7, b"\0" * 5), frames.frame(99, 255, 0, b"what"))
    both.say(frames.frame(Kind.DATA, frames.PADDED, 1, b"\x02body\0\0"))
    both.say(frames.headers(1, both.words.headers([("x-trailer", "1")]), ends=True))
    _, request = both.session.ready.popleft()
    assert (request.body.getvalue(), request.values(b"x-trailer")) == (b"body", [])


def test_headers_of_a_refused_request_still_update_the_compression_table(both: Both) -> None:
    """The table of headers is the connection's."""
    both.say(frames.headers(1, both.words.headers([(":path", "/a"), ("x-some", "thing")]), ends=True))
    assert [code(one) for one in only(Kind.RST_STREAM, both.heard())] == [Error.PROTOCOL_ERROR]
    both.say(frames.headers(3, both.words.block("/a", x_some="thing"), ends=True))
    assert both.session.ready[0][1].values(b"x-some") == [b"thing"]


# What is no request


@pytest.mark.parametrize(
    "given",
    [
        [(":method", "POST"), (":scheme", "https"), (":authority", "a")],
        [(":method", "POST"), (":path", "/"), (":authority", "a")],
        [(":scheme", "https"), (":path", "/"), (":authority", "a")],
        [(":method", "POST"), (":scheme", "https"), (":path", ""), (":authority", "a")],
        [(":method", "POST"), (":scheme", "https"), (":path", "/")],
        [(":method", "POST"), (":method", "GET"), (":scheme", "https"), (":path", "/"), (":authority", "a")],
        [(":method", "POST"), (":scheme", "https"), ("x", "y"), (":path", "/"), (":authority", "a")],
        [(":method", "POST"), (":scheme", "https"), (":path", "/"), (":authority", "a"), (":status", "200")],
        [(":method", "POST"), (":scheme", "https"), (":path", "/"), (":authority", "a"), ("host", "b")],
        *(
            [(":method", "POST"), (":scheme", "https"), (":path", "/"), (":authority", "a"), more]
            for more in (
                ("X-Upper", "1"),
                ("connection", "close"),
                ("transfer-encoding", "chunked"),
                ("upgrade", "h3"),
                ("x", "a\r\nb: c"),
                ("x\n", "a"),
                ("x", "\0"),
                ("content-length", "9" * 30),
                ("te", "gzip"),
            )
        ),
    ],
    ids=repr,
)
def test_an_invalid_request_ends_only_its_stream(both: Both, given: list[tuple[str, str]]) -> None:
    both.say(frames.headers(1, both.words.headers(given), ends=True), both.words.ask(3))
    assert [(one[2], code(one)) for one in only(Kind.RST_STREAM, both.heard())] == [(1, Error.PROTOCOL_ERROR)]
    assert [stream for stream, _ in both.session.ready] == [3]


@pytest.mark.parametrize("length", ["3", "5", "x", "-1"])
def test_a_body_has_the_announced_length(both: Both, length: str) -> None:
    """To h2 it is a fault of the connection."""
    both.say(frames.headers(1, both.words.block(content_length=length), ends=False))
    both.say(frames.data(1, b"body", ends=True))
    assert [code(one) for one in only(Kind.GOAWAY, both.heard())] == [Error.PROTOCOL_ERROR]
    assert not both.session.ready


@pytest.mark.parametrize("said", [True, False])
def test_a_body_that_is_too_long_is_answered_413_before_it_is_read(both: Both, said: bool) -> None:
    length = {"content_length": "100001"} if said else {}
    both.say(frames.headers(1, both.words.block(**length), ends=False))
    if not said:
        both.say(*(frames.data(1, b"x" * size, ends=False) for size in [10_000] * 10 + [1]))
    _, request = both.session.ready[0]
    assert request.error is not None
    assert (request.error.status, both.session.buffered_bytes) == (413, 0)
    answered = both.answer(b"too long")
    assert only(Kind.DATA, answered)[0][3] == b"too long"
    assert [code(one) for one in only(Kind.RST_STREAM, answered)] == [Error.NO_ERROR]
    both.say(frames.data(1, b"more", ends=True))
    assert not both.session.closed, "who sends on may not have heard of it"


def test_a_path_may_have_a_limit_of_its_own(both: Both) -> None:
    body = b"x" * (NO_BODY_BYTES + 1)
    both.say(both.words.ask(1, "/metrics?a=b", body=body), both.words.ask(3, "/long", body=body))
    refused = {stream: request.error and request.error.reason for stream, request in both.session.ready}
    assert refused == {1: f"the body may have {NO_BODY_BYTES} bytes", 3: None}


def test_more_streams_than_allowed_are_refused_and_may_come_again(both: Both) -> None:
    both.say(*(both.words.ask(number) for number in range(1, 2 * LIMITS.concurrent_streams + 2, 2)))
    assert len(both.session.ready) == LIMITS.concurrent_streams
    assert [(one[2], code(one)) for one in only(Kind.RST_STREAM, both.heard())] == [
        (2 * LIMITS.concurrent_streams + 1, Error.REFUSED_STREAM)
    ]
    both.answer()
    both.say(both.words.ask(2 * LIMITS.concurrent_streams + 3))
    assert len(both.session.ready) == LIMITS.concurrent_streams


# What ends the connection


def head(both: Both, stream: int = 1) -> bytes:
    return frames.headers(stream, both.words.block(), ends=False)


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (lambda _: frames.frame(Kind.DATA, 0, 0, b""), Error.PROTOCOL_ERROR),
        (lambda _: frames.data(1, b"", ends=True), Error.PROTOCOL_ERROR),
        (lambda both: frames.headers(2, both.words.block(), ends=True), Error.PROTOCOL_ERROR),
        (lambda both: frames.headers(0, both.words.block(), ends=True), Error.PROTOCOL_ERROR),
        (lambda _: frames.headers(1, b"\xff\xff\xff\xff\xff\xff", ends=True), Error.COMPRESSION_ERROR),
        (lambda _: frames.headers(1, b"\x3f\xff\xff\xff\x0f", ends=True), Error.COMPRESSION_ERROR),
        (lambda _: frames.frame(Kind.CONTINUATION, 0, 1, b""), Error.PROTOCOL_ERROR),
        (
            lambda _: frames.frame(Kind.HEADERS, 0, 1, b"") + frames.data(1, b"", ends=True),
            Error.PROTOCOL_ERROR,
        ),
        (lambda _: frames.frame(Kind.HEADERS, frames.PADDED, 1, b"\x05"), Error.PROTOCOL_ERROR),
        (lambda both: head(both) + frames.frame(Kind.DATA, frames.PADDED, 1, b""), Error.FRAME_SIZE_ERROR),
        (lambda _: frames.frame(Kind.PUSH_PROMISE, 0, 1, b"\0" * 8), Error.PROTOCOL_ERROR),
        (lambda _: frames.frame(Kind.SETTINGS, 0, 1, b""), Error.PROTOCOL_ERROR),
        (lambda _: frames.frame(Kind.SETTINGS, 0, 0, b"\0" * 5), Error.FRAME_SIZE_ERROR),
        (lambda _: frames.frame(Kind.SETTINGS, ACK, 0, b"\0" * 6), Error.FRAME_SIZE_ERROR),
        (lambda _: frames.frame(Kind.SETTINGS, 0, 0, struct.pack(">HL", 5, 100)), Error.PROTOCOL_ERROR),
        (lambda _: frames.frame(Kind.SETTINGS, 0, 0, struct.pack(">HL", 4, 2**31)), Error.FLOW_CONTROL_ERROR),
        (lambda _: frames.frame(Kind.PING, 0, 0, b"1234567"), Error.FRAME_SIZE_ERROR),
        (lambda _: frames.frame(Kind.PING, 0, 1, b"12345678"), Error.PROTOCOL_ERROR),
        (lambda _: frames.frame(Kind.WINDOW_UPDATE, 0, 0, b"\0\0\0"), Error.FRAME_SIZE_ERROR),
        (lambda _: frames.window_update(0, 0), Error.PROTOCOL_ERROR),
        (lambda _: frames.window_update(0, 2**31 - 1), Error.FLOW_CONTROL_ERROR),
        (lambda _: frames.window_update(1, 1), Error.PROTOCOL_ERROR),
        (lambda _: frames.reset(1, Error.CANCEL), Error.PROTOCOL_ERROR),
        (lambda _: frames.frame(Kind.RST_STREAM, 0, 0, b"\0" * 3), Error.FRAME_SIZE_ERROR),
        (lambda _: frames.frame(Kind.DATA, 0, 1, b"x" * (FRAME_BYTES + 1)), Error.FRAME_SIZE_ERROR),
        (lambda _: frames.frame(Kind.HEADERS, 0, 1, b"\0" * 9000), Error.ENHANCE_YOUR_CALM),
        (
            lambda _: frames.frame(Kind.HEADERS, 0, 1, b"") + frames.frame(Kind.CONTINUATION, 0, 1, b"") * 70,
            Error.PROTOCOL_ERROR,
        ),
    ],
)
def test_a_connection_fault_ends_the_connection_with_a_goaway(
    both: Both, said: Callable[[Both], bytes], error: Error
) -> None:
    both.say(said(both))
    assert both.session.closed
    assert [code(one) for one in only(Kind.GOAWAY, both.heard())] == [error]
    both.say(both.words.ask(9))
    assert (both.heard(), list(both.session.ready)) == ([], []), "nothing more is taken"


def test_headers_that_grow_when_they_are_read_are_bounded(both: Both) -> None:
    """One long header in the table, named again and again by a byte."""
    first = both.words.block(x="y" * 3000)
    both.say(frames.headers(1, first, ends=True))
    both.say(frames.headers(3, b"\xbe" * 100, ends=True))
    assert [code(one) for one in only(Kind.GOAWAY, both.heard())] == [Error.ENHANCE_YOUR_CALM]


def test_a_wrong_preface_ends_the_connection() -> None:
    session = Http2Session(limits=LIMITS, clock=lambda: 0.0)
    session.receive(b"GET / HTTP/1.1\r\n\r\n")
    assert not session.advance()
    assert session.closed


Work = Callable[[Both, int], bytes]

#: What makes us work and asks nothing, by the number of a new stream.
WORK: dict[str, Work] = {
    "requests taken back": lambda both, number: both.words.ask(number) + frames.reset(number, Error.CANCEL),
    "heads taken back": lambda both, number: head(both, number) + frames.reset(number, Error.CANCEL),
    "requests that we reset": lambda both, number: (
        head(both, number) + frames.window_update(number, frames.LARGEST_WINDOW)
    ),
    "requests after the end": lambda both, number: (
        frames.goaway(0, Error.NO_ERROR) + frames.headers(number, both.words.block(), ends=True)
    ),
    "pings": lambda *_: frames.frame(Kind.PING, 0, 0, b"12345678"),
    "settings": lambda *_: frames.settings({}),
    "settings that were taken": lambda *_: frames.frame(Kind.SETTINGS, ACK, 0, b""),
    "many settings": lambda *_: frames.frame(Kind.SETTINGS, 0, 0, struct.pack(">HL", 99, 1) * 1000),
    "windows": lambda *_: frames.window_update(0, 2_000),
    "windows of streams": lambda both, number: head(both, number) + frames.window_update(number, 1) * 3,
    "priorities": lambda *_: frames.frame(Kind.PRIORITY, 0, 1, b"\0" * 5),
    "frames that nobody knows": lambda *_: frames.frame(99, 0, 0, b""),
    "requests that are none": lambda both, number: frames.headers(
        number, both.words.headers([(":path", "/")]), ends=True
    ),
    "heads without end": lambda both, number: frames.frame(Kind.HEADERS, 0, number, b""),
}


@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
def test_a_client_that_makes_work_and_asks_nothing_is_disconnected(both: Both, work: Work) -> None:
    for number in range(1, 2 * int(ALLOWANCE) + 2, 2):
        both.say(work(both, number))
        both.session.take()
        if both.session.closed:
            return
    pytest.fail("it goes on for ever")


def test_a_request_now_and_then_does_not_pay_for_a_flood(both: Both) -> None:
    """Each pays for a little, as much as it costs itself."""
    for number in range(1, 200, 2):
        both.say(WORK["pings"](both, number) * 30, both.words.ask(number))
        if both.session.closed:
            break
        both.answer()
    assert number < 2 * ALLOWANCE / (30 - ALLOWANCE_PER_RESPONSE)


def test_a_client_that_resets_requests_now_and_then_is_served(both: Both) -> None:
    """An API server that waits for each of its calls no longer than its time-out."""
    for number in range(1, 20_001, 2):
        both.now += 4 / ALLOWANCE_PER_SECOND
        both.say(WORK["requests taken back"](both, number))
        both.session.take()
    assert not both.session.closed


def test_a_client_that_is_answered_may_go_on_without_end(both: Both) -> None:
    for number in range(1, 4 * int(ALLOWANCE), 2):
        both.say(both.words.ask(number, body=b"x"))
        both.answer(b"x" * 5_000)
        both.say(frames.window_update(0, 5_000), frames.frame(Kind.PING, 0, 0, b"12345678"))
    assert not both.session.closed


@pytest.mark.parametrize(
    "block",
    [b"\x82" * 770, b"\x20" * 3, b"\x3f\xe1\x1f" * 3 + b"\x82", b"\0\1a\xff\xff\x3f" + b"\xff" * 8_000],
    ids=["fields", "sizes of the table", "longer sizes", "a long code"],
)
def test_a_head_that_takes_long_to_decode_is_refused_before(both: Both, block: bytes) -> None:
    both.say(frames.headers(1, block, ends=True))
    assert only(Kind.GOAWAY, both.heard())
    assert both.session.closed


def test_few_frames_are_taken_at_a_time(both: Both) -> None:
    """Who calls looks at the clock in between."""
    both.session.receive(WORK["pings"](both, 0) * 100)
    assert both.session.advance()
    assert len(both.heard()) == FRAMES_PER_BATCH


def test_bytes_to_send_are_taken_in_chunks() -> None:
    both = Both(INITIAL_WINDOW_SIZE=2**30)
    both.say(frames.window_update(0, 2**30), both.words.ask(1))
    both.session.answer(both.session.ready.popleft()[0], OK, b"x" * 1_000_000)
    assert both.session.unsent_bytes > 1_000_000
    sizes = [len(piece) for piece in iter(both.session.take, b"")]
    assert max(sizes) <= CHUNK_BYTES
    assert sum(sizes) > 1_000_000
    assert (both.session.unsent_bytes, both.session.idle) == (0, True)


def test_empty_data_without_end_is_a_nuisance(both: Both) -> None:
    both.say(head(both), frames.data(1, b"", ends=False) * (int(ALLOWANCE) + 1))
    assert both.session.closed


# What is said


def test_an_answer_without_a_body_ends_its_stream(both: Both) -> None:
    both.say(both.words.ask(1))
    answered = both.answer()
    no_table = b"\x20"  # the first block of a connection says so
    assert answered == [(Kind.HEADERS, END_HEADERS | END_STREAM, 1, no_table + b"\x88")]
    assert both.session.idle


def test_no_more_is_sent_than_there_is_room_for() -> None:
    both = Both(INITIAL_WINDOW_SIZE=10)
    both.say(both.words.ask(1))
    assert [one[3] for one in only(Kind.DATA, both.answer(b"x" * 25))] == [b"x" * 10]
    both.say(frames.window_update(1, 5))
    assert [one[3] for one in only(Kind.DATA, both.heard())] == [b"x" * 5]
    both.say(frames.settings({Setting.INITIAL_WINDOW_SIZE: 100}))
    assert [(one[1], one[3]) for one in only(Kind.DATA, both.heard())] == [(END_STREAM, b"x" * 10)]
    assert both.session.idle


def test_the_room_of_the_connection_is_shared() -> None:
    both = Both(INITIAL_WINDOW_SIZE=2**20)
    both.say(both.words.ask(1), both.words.ask(3))
    sent = [both.answer(b"x" * 60_000), both.answer(b"y" * 60_000)]
    assert sum(len(one[3]) for found in sent for one in only(Kind.DATA, found)) == frames.FIRST_WINDOW
    both.say(frames.window_update(0, 100_000))
    assert sum(len(one[3]) for one in only(Kind.DATA, both.heard())) == 120_000 - frames.FIRST_WINDOW
    assert both.session.idle


def test_windows_may_become_negative_and_nothing_is_lost() -> None:
    both = Both(INITIAL_WINDOW_SIZE=10)
    both.say(both.words.ask(1))
    both.answer(b"x" * 15)
    both.say(frames.settings({Setting.INITIAL_WINDOW_SIZE: 3}), frames.window_update(1, 7))
    assert only(Kind.DATA, both.heard()) == []
    both.say(frames.window_update(1, 5))
    assert [one[3] for one in only(Kind.DATA, both.heard())] == [b"x" * 5]


def test_frames_are_no_longer_than_they_are_taken() -> None:
    both = Both(INITIAL_WINDOW_SIZE=2**20, MAX_FRAME_SIZE=20_000)
    both.say(both.words.ask(1), frames.window_update(0, 2**20))
    assert [len(one[3]) for one in only(Kind.DATA, both.answer(b"x" * 50_000))] == [20_000, 20_000, 10_000]


def test_the_window_for_bodies_is_opened_again(both: Both) -> None:
    total, number = 0, 1
    while total < 2 * CONNECTION_WINDOW:
        both.say(both.words.ask(number, body=b"x" * 90_000))
        both.answer()
        total, number = total + 90_000, number + 2
    assert not both.session.closed


def test_a_request_that_was_taken_back_is_not_answered(both: Both) -> None:
    both.say(both.words.ask(1), both.words.ask(3), frames.reset(1, Error.CANCEL))
    assert [stream for stream, _ in both.session.ready] == [3]
    both.session.answer(1, OK, b"x")
    assert both.heard() == []


def test_settings_and_pings_are_answered(both: Both) -> None:
    both.say(frames.settings({}), frames.frame(Kind.PING, 0, 0, b"12345678"))
    assert both.heard() == [(Kind.SETTINGS, ACK, 0, b""), (Kind.PING, ACK, 0, b"12345678")]


def test_a_client_may_open_windows_as_often_as_it_reads() -> None:
    both = Both(INITIAL_WINDOW_SIZE=2**16)
    both.say(both.words.ask(1))
    found, read = only(Kind.DATA, both.answer(b"x" * 20_000_000)), 0
    while found:
        for one in found:
            read += len(one[3])
            both.say(frames.window_update(0, len(one[3])), frames.window_update(1, len(one[3])))
        found = only(Kind.DATA, both.heard())
    assert (read, both.session.closed) == (20_000_000, False)


def test_responses_without_a_window_expire() -> None:
    both = Both(INITIAL_WINDOW_SIZE=0)
    both.say(both.words.ask(1, body=b"x" * 90_000))
    _, request = both.session.ready[0]
    both.answer(b"y")
    assert request.body.getbuffer().nbytes == 0, "nor is what was asked"
    both.now += 4
    both.say(frames.window_update(0, 2_000), both.words.ask(3))
    assert both.session.expire()
    both.now += 2
    assert not both.session.expire(), "nothing has been sent since"
    both.say(frames.window_update(1, 2_000))
    assert both.session.expire()


def test_a_response_that_is_read_slowly_expires() -> None:
    both = Both(INITIAL_WINDOW_SIZE=0)
    both.say(both.words.ask(1))
    both.answer(b"y" * 1_000_000)
    assert both.session.blocked_bytes == 1_000_000
    began = both.now
    for _ in range(10):
        both.now += 4
        both.say(frames.window_update(0, 2_000), frames.window_update(1, 2_000))
        alive = both.session.expire()
        assert alive is (both.now - began <= SLOW_READER_FACTOR * LIMITS.response_timeout)


def test_nor_are_too_many_of_them() -> None:
    both = Both(INITIAL_WINDOW_SIZE=0)
    both.say(both.words.ask(1), both.words.ask(3), both.words.ask(5))
    for _ in range(2):
        both.answer(b"x" * (BLOCKED_BYTES_LIMIT // 2))
    assert not both.session.closed
    both.answer(b"x")
    assert both.session.closed


def test_too_many_buffered_bytes_refuse_the_youngest_request(both: Both) -> None:
    numbers = (1, 3, 5)
    both.say(*(head(both, number) for number in numbers))
    for _ in range(8):
        both.say(*(frames.data(number, b"x" * 10_000, ends=False) for number in numbers))
    first, *_ = only(Kind.RST_STREAM, both.heard())
    assert (first[2], code(first)) == (5, Error.REFUSED_STREAM)
    both.say(frames.data(1, b"", ends=True), frames.data(3, b"", ends=True))
    assert [stream for stream, _ in both.session.ready] == [1, 3]


def test_no_word_of_ours_is_longer_than_a_frame(both: Both) -> None:
    both.say(frames.headers(1, b"\xff" * 8000, ends=True))
    assert len(only(Kind.GOAWAY, both.heard())[0][3]) <= 8 + 200


# Going


@pytest.mark.parametrize("ours", [True, False])
def test_after_goaway_requests_are_finished_and_no_new_one_is_taken(both: Both, ours: bool) -> None:
    both.say(both.words.ask(1), head(both, 3))
    if ours:
        both.session.send_goaway()
    else:
        both.say(frames.goaway(0, Error.NO_ERROR))
    assert [one[3][:4] for one in only(Kind.GOAWAY, both.heard())] == [b"\0\0\0\3"]
    both.say(both.words.ask(5, body=b"late"), frames.reset(5, Error.CANCEL), frames.window_update(5, 5_000))
    both.say(both.words.ask(7, body=b"x" * 90_000), frames.data(3, b"", ends=True))
    assert [stream for stream, _ in both.session.ready] == [1, 3]
    both.answer()
    both.answer()
    assert both.session.idle


def test_a_request_that_does_not_become_complete_is_reset(both: Both) -> None:
    both.say(head(both, 1))
    both.now += 9
    both.say(head(both, 3))
    assert both.session.expire()
    assert only(Kind.RST_STREAM, both.heard()) == [], "there is time yet"
    both.now += 2
    assert both.session.expire()
    assert [(one[2], code(one)) for one in only(Kind.RST_STREAM, both.heard())] == [(1, Error.CANCEL)]
    both.say(frames.data(3, b"", ends=True))
    assert [stream for stream, _ in both.session.ready] == [3]


@pytest.mark.parametrize(
    "begun", [b"\0\0", frames.frame(Kind.HEADERS, 0, 1, b"")], ids=["a frame", "headers"]
)
def test_a_connection_that_is_stuck_is_known_to_be(both: Both, begun: bytes) -> None:
    both.say(begun)
    both.now += 9
    assert both.session.expire()
    both.now += 2
    assert not both.session.expire()


def test_only_incomplete_requests_count_as_buffered(both: Both) -> None:
    both.say(
        head(both, 1), frames.data(1, b"12345", ends=False), head(both, 3), frames.data(3, b"1", ends=False)
    )
    heads = 2 * sum(len(f"{name}{value}") for name, value in HEAD)
    assert both.session.buffered_bytes == heads + 6, "heads and bodies"
    both.say(frames.data(1, b"", ends=True), frames.reset(3, Error.CANCEL))
    assert both.session.buffered_bytes == 0


def test_a_caller_that_would_remember_much_makes_us_search_no_more() -> None:
    both = Both(HEADER_TABLE_SIZE=2**31)
    for number in range(1, 2001, 2):
        both.say(both.words.ask(number))
        both.session.answer(
            both.session.ready.popleft()[0], [(b":status", b"200"), (b"x", b"%d" % number)], b""
        )
    assert sum(len(one[3]) for one in both.heard()) > 2_000, "each is said anew"
    assert both.words.fields(b"") == {}


def test_an_error_of_the_library_ends_the_connection_with_a_goaway(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that it does not raise on purpose."""
    monkeypatch.setattr(both.session._connection, "receive_data", {}.__getitem__)
    both.say(both.words.ask(1))
    assert both.session.closed
    assert len(only(Kind.GOAWAY, both.heard())) == 1


def test_a_trailer_that_is_no_header_ends_only_its_stream(both: Both) -> None:
    both.say(head(both, 1), frames.headers(1, both.words.headers([(":path", "/other")]), ends=True))
    assert [stream for _, _, stream, _ in only(Kind.RST_STREAM, both.heard())] == [1]
    both.say(both.words.ask(3))
    assert [stream for stream, _ in both.session.ready] == [3]
