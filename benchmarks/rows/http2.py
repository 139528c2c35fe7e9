"""What HTTP/2 costs the server for one call: the h2 library with our bounds around it, beside h2 alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import h2.config
import h2.connection
import h2.events
import h2.settings
import hpack
from hyperframe.frame import DataFrame, HeadersFrame, SettingsFrame, WindowUpdateFrame

from benchmarks import scale
from benchmarks.figures import Line, RowResult
from benchmarks.interleaved import in_turns
from localcluster.build import Say
from server.http.http2.frame_reader import PREFACE
from server.http.http2.h2_adapter import (
    CONNECTION_WINDOW,
    FIRST_WINDOW,
    LARGEST_WINDOW,
)
from server.http.http2.headers import build_fields, build_request
from server.http.http2.session import Http2Session
from server.http.limits import Limits
from server.http.request_parser import Request
from server.http.responses import Response

CALLS = 5_000
#: How many are asked before the first of them is answered.
TOGETHER = (1, 100)
#: A review of a pod, and what is answered to it.
ASKED, ANSWERED = b"x" * 4_000, b"y" * 300
DATE = "Tue, 01 Jan 2030 00:00:00 GMT"
TYPE = ("content-type", "application/json")
HEADERS = (
    (":method", "POST"),
    (":scheme", "https"),
    (":authority", "sluice.sluice-system.svc:443"),
    (":path", "/mutate/pods?timeout=5s"),
    ("accept", "application/json, */*"),
    TYPE,
    ("user-agent", "kube-apiserver-admission"),
    ("content-length", str(len(ASKED))),
    ("accept-encoding", "gzip"),
)
LIMITS = Limits()

#: Takes the greeting and then what comes at a time; gives the number of answers.
Answering = Callable[[bytes, Iterable[bytes]], int]


def measure(say: Say) -> RowResult:
    ways = {
        f"{name}, {together} at a time": partial(_cpu, answering, together=together)
        for together in TOGETHER
        for name, answering in (("ours", _ours), ("h2", _theirs))
    }
    seen = in_turns(ways, told=lambda micros: f"{micros:.0f} µs", say=say)
    return RowResult(
        title="What HTTP/2 costs the server",
        about=f"{scale.scaled(CALLS):,} calls of {len(ASKED):,} bytes on one connection, each answered with "
        f"{len(ANSWERED)} and the same headers: CPU time from bytes to a request and from its answer to "
        "bytes, without TLS, sockets or the app. Our session is h2 with bounds around it; h2 "
        "alone has the same windows and settings.",
        lines=tuple(
            Line(
                what=f"CPU of a call, our session, {together} at a time",
                beside="h2 alone",
                unit="µs",
                ours=tuple(seen[f"ours, {together} at a time"]),
                theirs=tuple(seen[f"h2, {together} at a time"]),
            )
            for together in TOGETHER
        ),
    )


def _cpu(answering: Answering, *, together: int) -> float:
    """Microseconds for each call."""
    count = scale.scaled(CALLS)
    calls = list(_calls(count))
    told = [b"".join(calls[at : at + together]) for at in range(0, count, together)]
    began = time.process_time()
    answered = answering(_greeting(), told)
    spent = time.process_time() - began
    if answered != count:
        raise RuntimeError(f"{answered} of {count} calls were answered")
    return 1e6 * spent / count


def _greeting() -> bytes:
    """What a caller says first; it makes room for all answers."""
    settings = SettingsFrame(0, settings={SettingsFrame.INITIAL_WINDOW_SIZE: LARGEST_WINDOW})
    room = WindowUpdateFrame(0, window_increment=LARGEST_WINDOW - FIRST_WINDOW)
    return PREFACE + bytes(settings.serialize()) + bytes(room.serialize())


def _calls(count: int) -> Iterator[bytes]:
    encoder = hpack.Encoder()
    for stream in range(1, 2 * count, 2):
        head = HeadersFrame(stream, encoder.encode(HEADERS), flags=["END_HEADERS"])
        data = DataFrame(stream, ASKED, flags=["END_STREAM"])
        yield bytes(head.serialize()) + bytes(data.serialize())


def _ours(greeting: bytes, told: Iterable[bytes]) -> int:
    session = Http2Session(limits=LIMITS, clock=time.monotonic)
    session.receive(greeting)
    response = Response(status="200 OK", headers=[TYPE], body=ANSWERED)
    answered = 0
    for calls in told:
        session.receive(calls)
        while session.ready or session.advance():
            while session.ready:
                stream, request = session.ready.popleft()
                answered += request.body.tell() == len(ASKED)
                session.answer(stream, build_fields(response, date=DATE), response.body)
        while session.take():
            pass
    return answered


def _theirs(greeting: bytes, told: Iterable[bytes]) -> int:
    """The same; room for more is made as what came is taken."""
    connection = _connection()
    connection.receive_data(greeting)
    head = [
        (b":status", b"200"),
        (b"date", DATE.encode()),
        (b"content-type", b"application/json"),
        (b"content-length", str(len(ANSWERED)).encode()),
    ]
    requests: dict[int, Request] = {}
    answered = 0
    for calls in told:
        for event in connection.receive_data(calls):
            match event:
                case h2.events.RequestReceived(stream_id=stream, headers=headers):
                    requests[stream] = build_request(headers, header_lines=LIMITS.header_lines)
                case h2.events.DataReceived(stream_id=stream):
                    requests[stream].body.write(event.data)
                    connection.acknowledge_received_data(event.flow_controlled_length, stream)
                case h2.events.StreamEnded(stream_id=stream):
                    answered += requests.pop(stream).body.tell() == len(ASKED)
                    connection.send_headers(stream, head)
                    connection.send_data(stream, ANSWERED, end_stream=True)
        connection.data_to_send()
    return answered


def _connection() -> h2.connection.H2Connection:
    connection = h2.connection.H2Connection(
        h2.config.H2Configuration(
            client_side=False,
            header_encoding=None,
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
        )
    )
    connection.local_settings = h2.settings.Settings(
        client=False,
        initial_values={
            h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: LIMITS.concurrent_streams,
            h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: LIMITS.body_bytes + 1,
            h2.settings.SettingCodes.MAX_HEADER_LIST_SIZE: LIMITS.header_bytes,
        },
    )
    connection.initiate_connection()
    connection.increment_flow_control_window(CONNECTION_WINDOW - FIRST_WINDOW)
    return connection
