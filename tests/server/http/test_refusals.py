"""What the worker refuses before it reaches the app is counted and logged, however much of it there is."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import tests.support.http.http2_frames_out as frames
from cluster.metrics import Metrics
from server.app import create_app, refusal_counter
from server.http.refusals import BURST, LINES_AT_ONCE, SECONDS_PER_LINE, SOURCES, TARGET_LENGTH, Refusals
from server.http.request_parser import HttpRequest, RequestError
from tests.server.http.http2.test_http2_worker import Caller as Http2Caller
from tests.support.http.served_worker import Served, request, served

TOO_LARGE = RequestError(413, "the body may have 10 bytes")


class Refused:
    """`Refusals` with a clock of its own, and what it counted and logged."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.now = 0.0
        self.counted: list[tuple[str, int]] = []
        self._caplog = caplog
        self._refusals = Refusals(
            count=lambda path, status: self.counted.append((path, status)),
            log=logging.getLogger("test"),
            clock=lambda: self.now,
        )

    def refuse(
        self, error: RequestError = TOO_LARGE, *, address: str = "10.0.0.1", target: bytes = b"/a?b"
    ) -> str:
        """The line of the log, empty if there is none."""
        self._caplog.clear()
        self._refusals.record(error, address=address, request=HttpRequest(target=target, method="POST"))
        return "".join(record.getMessage() for record in self._caplog.records)

    def refuse_until_silent(self, *, address: str = "10.0.0.1") -> int:
        """How many lines were written."""
        lines = 0
        while self.refuse(address=address):
            lines += 1
        return lines


@pytest.fixture
def refused(caplog: pytest.LogCaptureFixture) -> Refused:
    return Refused(caplog)


def test_a_line_names_the_request_the_address_and_the_reason(refused: Refused) -> None:
    assert refused.refuse() == "refused POST /a?b of 10.0.0.1 with 413: the body may have 10 bytes"


def test_each_refusal_is_counted_by_path_without_query_and_status(refused: Refused) -> None:
    for _ in range(100):
        refused.refuse()
    assert refused.counted == [("/a", 413)] * 100


def test_lines_of_one_address_and_status_are_limited_and_the_next_one_says_how_many_were_left_out(
    refused: Refused,
) -> None:
    assert refused.refuse_until_silent() == BURST
    assert [refused.refuse() for _ in range(4)] == [""] * 4
    refused.now += SECONDS_PER_LINE
    assert refused.refuse().endswith(" (5 more with 413 since the last line)")
    assert refused.refuse() == ""


def test_another_status_and_another_address_have_lines_of_their_own(refused: Refused) -> None:
    refused.refuse_until_silent()
    assert refused.refuse(RequestError(400, "no"))
    assert refused.refuse(address="10.0.0.2")


def test_lines_of_all_addresses_together_are_limited(refused: Refused) -> None:
    lines = sum(bool(refused.refuse(address=f"10.0.{number}")) for number in range(3 * SOURCES))
    assert lines == LINES_AT_ONCE
    refused.now += 1.0
    assert refused.refuse(address="10.1.0.0")


def test_a_long_target_is_cut(refused: Refused) -> None:
    assert "x" * (TARGET_LENGTH + 1) not in refused.refuse(target=b"/" + b"x" * 10_000)


def test_a_refusal_without_a_request_has_no_path(caplog: pytest.LogCaptureFixture) -> None:
    counted = []
    refusals = Refusals(
        count=lambda path, status: counted.append((path, status)),
        log=logging.getLogger("test"),
        clock=lambda: 0.0,
    )
    refusals.record(RequestError(400, "not HTTP"), address="", request=None)
    assert counted == [("", 400)]
    assert caplog.messages == ["refused a request of an unknown address with 400: not HTTP"]


def test_the_metric_has_the_paths_of_the_app_alone() -> None:
    metrics = Metrics()
    count = refusal_counter(create_app(metrics=metrics), metrics)
    for path in ("/mutate/pods", "/made-up", ""):
        count(path, 413)
    samples = {path: _sample(metrics, path) for path in ("/mutate/pods", "unknown", "/made-up")}
    assert samples == {"/mutate/pods": 1.0, "unknown": 2.0, "/made-up": None}


def _sample(metrics: Metrics, path: str) -> float | None:
    return metrics.registry.get_sample_value("sluice_requests_total", {"path": path, "code": "413"})


# Over the wire. The tests share one server, and so the lines that its log may have of our address.


@pytest.fixture(scope="module")
def server(certificate: tuple[Path, Path]) -> Iterator[Served]:
    with served(certificate, body_bytes=100_000, header_bytes=8192, request_timeout=0.1) as running:
        yield running


def counted(server: Served, path: str, status: int) -> int:
    with server.caller() as caller:
        refusals = json.loads(caller.ask("/refusals")[2])
    return sum(number for *refusal, number in refusals if refusal == [path, status])


HTTP1 = {
    "a large body": (request("/large", body=b"x" * 200_000), "/large", 413),
    "a long head": (b"GET /long HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 20_000, "/long", 431),
    "no host": (b"GET /no-host HTTP/1.1\r\n\r\n", "/no-host", 400),
    "a target that is no path": (b"GET ftp://x/y HTTP/1.1\r\nHost: x\r\n\r\n", "ftp://x/y", 400),
    "an unfinished body": (request("/slow", body=b"x" * 100)[:-1], "/slow", 408),
}


@pytest.mark.parametrize(("sent", "path", "status"), HTTP1.values(), ids=HTTP1)
def test_a_refusal_over_http1_is_counted_and_logged(
    server: Served, sent: bytes, path: str, status: int
) -> None:
    with server.caller() as caller:
        caller.send(sent)
        assert caller.reply()[0] == status
    assert counted(server, path, status) == 1
    assert server.log.wait_for(f"{path} of 127.0.0.1 with {status}: ")


def test_a_large_body_over_http2_is_counted_and_logged(server: Served) -> None:
    with Http2Caller(server) as caller:
        head = caller.words.block("/large-too", content_length="200000")
        caller.greet().send(frames.headers(1, head, ends=False))
        assert caller.answer(1)[0] == "413"
    assert counted(server, "/large-too", 413) == 1
    server.log.wait_for("refused POST /large-too of 127.0.0.1 with 413")


def test_a_stream_that_is_reset_is_counted_by_the_status_of_http1(server: Served) -> None:
    with Http2Caller(server) as caller:
        caller.greet().send(frames.headers(1, caller.words.block("/stalled"), ends=False))
        while not caller.resets:
            assert caller.hear()
    assert counted(server, "/stalled", 408) == 1
    server.log.wait_for("refused POST /stalled of 127.0.0.1 with 408")


def test_invalid_headers_and_frames_over_http2_are_counted(server: Served) -> None:
    before = counted(server, "", 400)
    with Http2Caller(server) as caller:
        caller.greet().send(frames.headers(1, caller.words.block("/x", connection="close"), ends=True))
        while not caller.resets:
            assert caller.hear()
    with Http2Caller(server) as caller:
        caller.greet().send(b"\xff" * 9)
        assert caller.at_end()
    assert counted(server, "", 400) == before + 2


def test_a_flood_of_refusals_fills_no_log(server: Served) -> None:
    before, began = counted(server, "", 400), time.monotonic()
    for _ in range(50):
        with server.caller() as caller:
            caller.send(b"nonsense\r\n\r\n")
            caller.reply()
    assert counted(server, "", 400) == before + 50
    lines = str(server.log).count("nonsense") + str(server.log).count("of 127.0.0.1 with 400: not a valid")
    assert lines <= BURST + 1 + (time.monotonic() - began) / SECONDS_PER_LINE
