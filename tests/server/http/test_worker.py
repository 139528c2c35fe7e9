"""The worker speaks HTTP/1.1 strictly, goes in order, and says why it refuses."""

import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.server.conftest import LIMITS
from tests.support.http.served_worker import (
    HUGE,
    WAIT,
    Caller,
    Served,
    request,
    seen,
    served,
    trusting,
)

#: Bytes: the sockets of a connection do not keep so many, so somebody has to read them.
MORE_THAN_BUFFERS = 40_000_000


@pytest.fixture
def caller(server: Served) -> Iterator[Caller]:
    with server.caller() as connected:
        yield connected


# What is answered.


def test_a_connection_is_kept_for_the_next_request(caller: Caller) -> None:
    """Two requests, one handshake."""
    for body in (b"one", b"two"):
        status, headers, answer = caller.ask(body=body)
        assert (status, headers["Connection"], seen(answer)["body"]) == (200, None, body.decode())


def test_a_caller_that_says_close_is_closed_after_its_reply(caller: Caller) -> None:
    """And told so."""
    caller.send(request(headers="Connection: close\r\n"))
    assert caller.reply()[1]["Connection"] == "close"
    assert caller.at_end()


def test_http_1_0_is_answered_and_closed(caller: Caller) -> None:
    """Health checks of old tools."""
    caller.send(b"GET /echo HTTP/1.0\r\n\r\n")
    assert caller.reply()[0] == 200
    assert caller.at_end()


def test_pipelined_requests_are_answered_in_their_order(caller: Caller) -> None:
    """With bodies, several of them in one piece."""
    caller.send(b"".join(request(body=str(number).encode()) for number in range(10)))
    answers = [seen(caller.reply()[2])["body"] for _ in range(10)]
    assert answers == [str(number) for number in range(10)]


def test_more_pipelined_requests_than_allowed_end_the_connection(caller: Caller) -> None:
    """The first are answered, then it is said why the others are not."""
    caller.send(request() * 50)
    statuses = [caller.reply()[0] for _ in range(17)]
    assert statuses == [200] * 16 + [429]


def test_a_request_may_come_in_any_pieces(caller: Caller) -> None:
    """A byte at a time, if it is quick about it."""
    for byte in request(body=b"in pieces", headers="X-Empty:\r\nX-Full: 1\r\n"):
        caller.send(bytes([byte]))
    answer = seen(caller.reply()[2])
    assert answer["body"] == "in pieces"
    assert (answer["environ"]["HTTP_X_EMPTY"], answer["environ"]["HTTP_X_FULL"]) == ("", "1")


def test_a_chunked_body_reaches_the_app_whole(caller: Caller) -> None:
    """Its length is said, its coding is not, and trailers are not headers."""
    caller.send(b"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
    caller.send(b"3\r\nabc\r\n2;extension=1\r\nde\r\n0\r\nX-Trailer: t\r\n\r\n")
    answer = seen(caller.reply()[2])
    assert (answer["body"], answer["environ"]["CONTENT_LENGTH"]) == ("abcde", "5")
    assert not {"HTTP_TRANSFER_ENCODING", "HTTP_X_TRAILER"} & answer["environ"].keys()


def test_expect_100_continue_is_answered(caller: Caller) -> None:
    """Expect: 100-continue."""
    whole = request(body=b"later", headers="Expect: 100-continue\r\n")
    caller.send(whole[:-5])
    assert caller.reply()[0] == 100
    caller.send(whole[-5:])
    assert seen(caller.reply()[2])["body"] == "later"


def test_head_has_no_body_and_any_method_reaches_the_app(caller: Caller) -> None:
    """HEAD tells the length; 405 is the app's to say."""
    status, headers, _ = caller.ask("/post", method="HEAD")
    assert (status, int(headers["Content-Length"]) > 0) == (405, True)
    assert caller.ask("/post", method="DELETE")[0] == 405
    assert caller.ask("/post", method="POST")[0] == 200


def test_the_environ_describes_the_request(caller: Caller) -> None:
    """Decoded path, query as it came, headers joined, and none with an underscore."""
    caller.send(request("/a%20b?c=%20d", headers="X-Two: 1\r\nX-Two: 2\r\nX_Two: 3\r\nContent-Type: a/b\r\n"))
    environ = seen(caller.reply()[2])["environ"]
    expected = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/a b",
        "QUERY_STRING": "c=%20d",
        "HTTP_X_TWO": "1,2",
        "CONTENT_TYPE": "a/b",
        "CONTENT_LENGTH": "0",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "wsgi.url_scheme": "https",
    }
    assert environ | expected == environ


def test_an_absolute_target_is_its_path(caller: Caller) -> None:
    """RFC 9112 3.2.2."""
    assert seen(caller.ask("https://localhost/echo?a")[2])["environ"]["PATH_INFO"] == "/echo"


# What is refused.

REFUSED = {
    "no HTTP at all": (b"\x00\x01\x02garbage\r\n\r\n", 400),
    "another protocol": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "an unknown method": (b"BREW /echo HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "an upgrade": (b"GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n", 400),
    "CONNECT": (b"CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "another version": (b"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505),
    "no Host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "two Hosts": (b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400),
    "bare line feeds": (b"GET / HTTP/1.1\nHost: x\n\n", 400),
    "a folded header": (b"GET / HTTP/1.1\r\nHost: x\r\n y\r\n\r\n", 400),
    "a space before the colon": (b"GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400),
    "a NUL in a header": (b"GET / HTTP/1.1\r\nHost: x\r\nA: b\x00c\r\n\r\n", 400),
    "a negative length": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400),
    "a signed length": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\nx", 400),
    "two lengths": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", 400),
    "a list of lengths": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 1\r\n\r\nx", 400),
    "an overflowing length": (
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
        400,
    ),
    "a huge length": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999\r\n\r\n", 413),
    "a coding and a length": (
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n",
        400,
    ),
    "a length and a coding": (
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    "a coding in HTTP/1.0": (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "an unknown coding": (
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        501,
    ),
    "a bad chunk": (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
    "a chunk that lies": (
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
        400,
    ),
    "chunks without end": (
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        + b"2710\r\n"
        + b"x" * 10_000
        + b"\r\n"
        + (b"2710\r\n" + b"x" * 10_000 + b"\r\n") * 10,
        413,
    ),
    "a target that is no path": (b"GET echo HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "a huge header": (b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 20_000, 431),
    "many headers": (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 101 + b"\r\n", 431),
    "a huge target": (b"GET /" + b"a" * 20_000, 431),
}


@pytest.mark.parametrize(("sent", "status"), REFUSED.values(), ids=REFUSED)
def test_an_invalid_request_is_refused_with_a_reason(
    server: Served, caller: Caller, sent: bytes, status: int
) -> None:
    """A status, a reason in JSON, the end of the connection; and the next caller is served."""
    caller.send(sent)
    answered, headers, body = caller.reply()
    assert (answered, headers["Content-Type"]) == (status, "application/json")
    assert json.loads(body)["message"]
    with server.caller() as other:
        assert other.ask()[0] == 200


def test_too_large_a_body_is_refused_before_it_is_read(caller: Caller) -> None:
    """Who asks first is told 413 instead of 100; who does not ask can still read the answer."""
    caller.send(request(body=b"x" * 200_000, headers="Expect: 100-continue\r\n")[:200])
    assert caller.reply()[0] == 413


def test_a_client_with_a_too_large_body_can_read_the_error(certificate: tuple[Path, Path]) -> None:
    """The bytes on their way do not take the reply back, however slowly they come."""
    with served(certificate, **LIMITS | {"linger_timeout": WAIT}) as server, server.caller() as caller:
        caller.send(request(body=b"x" * MORE_THAN_BUFFERS))
        status, headers, _ = caller.reply()
        assert (status, headers["Connection"]) == (413, "close")


def test_a_refusal_waits_for_the_answers_before_it(caller: Caller) -> None:
    """A good request, then garbage."""
    caller.send(request(body=b"good") + b"\x00garbage\r\n\r\n")
    assert caller.reply()[0] == 200
    assert caller.reply()[0] == 400
    assert caller.at_end()


def test_nothing_follows_a_request_that_says_close(caller: Caller) -> None:
    """What comes after it is not read."""
    caller.send(request(headers="Connection: close\r\n") + request())
    assert caller.reply()[0] == 200
    assert caller.at_end()


# When the app or the caller fails.


def test_an_app_that_raises_is_a_500_in_the_log_alone(server: Served, caller: Caller) -> None:
    """The caller learns nothing of it, and may ask again on the same connection."""
    status, _, body = caller.ask("/raise")
    assert (status, json.loads(body)["message"]) == (500, "internal error")
    server.log.wait_for("the app failed at POST /raise")
    server.log.wait_for("RuntimeError: secret of the app")
    assert caller.ask()[0] == 200


def test_a_header_of_the_app_cannot_add_another(caller: Caller) -> None:
    """A line break in it is a failure of the app."""
    status, headers, _ = caller.ask("/break")
    assert (status, headers["X-Injected"]) == (500, None)


def test_a_client_that_disconnects_during_a_response_disturbs_nobody(server: Served) -> None:
    """It asks for megabytes and leaves."""
    for _ in range(5):
        with server.caller() as leaving:
            leaving.send(request("/huge"))
            leaving.line.recv(1000)
    with server.caller() as other:
        assert len(other.ask("/huge")[2]) == HUGE


def test_a_client_that_disconnects_during_a_request_disturbs_nobody(server: Served) -> None:
    """Half a request, then nothing, with and without a goodbye."""
    with server.caller() as leaving:
        leaving.send(request(body=b"x" * 1000)[:-500])
        leaving.line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    with server.caller() as other:
        assert other.ask()[0] == 200


def test_a_request_that_comes_with_the_end_of_the_handshake_is_answered(server: Served) -> None:
    """A client may send both in one packet."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting(server.certfile).wrap_bio(incoming, outgoing, server_hostname="localhost")
    with socket.create_connection(("127.0.0.1", server.port), timeout=WAIT) as line:
        shake_hands(client, line, incoming=incoming, outgoing=outgoing)
        client.write(request(body=b"early"))
        line.sendall(outgoing.read())  # the client's Finished as well
        answer = b""
        while b"early" not in answer:
            incoming.write(line.recv(65_536))
            with suppress(ssl.SSLWantReadError):
                answer += client.read()
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")


def shake_hands(
    client: ssl.SSLObject, line: socket.socket, *, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO
) -> None:
    """Until the client has finished; its last flight is not sent."""
    while True:
        try:
            client.do_handshake()
        except ssl.SSLWantReadError:
            line.sendall(outgoing.read())
            incoming.write(line.recv(65_536))
        else:
            return


def test_plain_http_on_the_tls_port_is_closed(server: Served) -> None:
    """And disturbs nobody."""
    with Caller(server.port, certfile=None) as plain:
        plain.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        with suppress(ConnectionResetError):
            while plain.line.recv(100):  # an alert, if anything
                pass
    with server.caller() as other:
        assert other.ask()[0] == 200


def test_without_a_certificate_the_worker_speaks_plain_http() -> None:
    """For one machine and for tests."""
    with served(None) as plain, plain.caller() as caller:
        assert seen(caller.ask()[2])["environ"]["wsgi.url_scheme"] == "http"
