"""One request to the receiver of notices, which does what it likes."""

from __future__ import annotations

import logging
import ssl
import threading
from pathlib import Path

import pytest

from controller.notices.receiver import NotTaken, Receiver, read_address
from tests.support.http.notice_receiver import CUT, DRIPPING, OK, SECRET, SERVER_ERROR, SILENT, NoticeReceiver

#: What an answer says that does not pass.
REFUSED = {
    "HTTP 302: a redirect, which is not followed",
    *(f"HTTP {status}" for status in (400, 403, 404, 410)),
}
#: With its own date, and the one after which to come again.
LATER = b"HTTP/1.1 503 Later\r\nDate: %b\r\nRetry-After: %b\r\n\r\n"
BODY = b'{"text": "changed", "notices": []}'


def test_a_message_is_posted_as_json_with_path_and_query(tmp_path: Path) -> None:
    with NoticeReceiver(tmp_path) as receiver:
        Receiver(tmp_path, agent="sluice/1").send(BODY)
    [(body, _)], [head] = receiver.posts, receiver.heads
    assert body == {"text": "changed", "notices": []}
    assert head.startswith(f"POST /services/{SECRET}?key={SECRET} HTTP/1.1\r\n".encode())
    assert b"Content-Type: application/json\r\n" in head


@pytest.mark.parametrize(
    ("answer", "reason", "patience"),
    [
        (SERVER_ERROR, "HTTP 500", 0),
        (b"HTTP/1.1 408 Slow\r\n\r\n", "HTTP 408", 0),
        (b"HTTP/1.1 425 Early\r\n\r\n", "HTTP 425", 0),
        (b"HTTP/1.1 400 Bad\r\n\r\n", "HTTP 400", 0),
        (b"HTTP/1.1 403 No\r\nRetry-After: 60\r\n\r\n", "HTTP 403", 60),
        (b"HTTP/1.1 404 Where\r\n\r\n", "HTTP 404", 0),
        (b"HTTP/1.1 410 Gone\r\n\r\n", "HTTP 410", 0),
        (b"HTTP/1.1 429 Slow\r\nRetry-After: 30\r\n\r\n", "HTTP 429", 30),
        (b"HTTP/1.1 429 Slow\r\nRetry-After: 999999999\r\n\r\n", "HTTP 429", 3600),
        (b"HTTP/1.1 503 Later\r\nRetry-After: tomorrow\r\n\r\n", "HTTP 503", 0),
        (LATER % (b"Sun, 01 Jan 1995 00:00:00 GMT", b"Sun, 01 Jan 1995 00:02:00 GMT"), "HTTP 503", 120),
        (LATER % (b"Sun, 01 Jan 1995 00:02:00 GMT", b"Sun, 01 Jan 1995 00:00:00 GMT"), "HTTP 503", 0),
        (LATER % (b"Sun, 01 Jan 1995 00:00:00 GMT", b"Sun, 01 Jan 1995 00:02:00 -0000"), "HTTP 503", 0),
        (LATER % (b"never", b"Sun, 01 Jan 1995 00:02:00 GMT"), "HTTP 503", 0),
        (
            b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\n\r\n",
            "HTTP 302: a redirect, which is not followed",
            0,
        ),
        (CUT, "the connection was cut, or what came is no HTTP", 0),
        (b"hello\r\n\r\n", "the connection was cut, or what came is no HTTP", 0),
        (SILENT, "no answer in time", 0),
        (DRIPPING, "no answer in time", 0),
    ],
)
def test_what_the_receiver_did_and_what_is_said_of_it(
    tmp_path: Path, answer: bytes, reason: str, patience: float
) -> None:
    is_slow = reason == "no answer in time"
    with NoticeReceiver(tmp_path, answer) as receiver, pytest.raises(NotTaken) as caught:
        Receiver(tmp_path, agent="sluice/1", deadline=0.5 if is_slow else 30).send(BODY)
    assert (str(caught.value), caught.value.patience) == (reason, patience)
    assert caught.value.may_pass == (reason not in REFUSED)
    assert len(receiver.posts) == 1


def test_a_certificate_of_another_authority_is_not_taken(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with NoticeReceiver(tmp_path / "one") as receiver, NoticeReceiver(tmp_path / "two"):
        (tmp_path / "one" / "ca.crt").write_bytes((tmp_path / "two" / "ca.crt").read_bytes())
        with pytest.raises(NotTaken) as caught:
            Receiver(tmp_path / "one", agent="sluice/1").send(BODY)
    assert str(caught.value) == "its certificate cannot be verified: its authority is not trusted"
    assert caught.value.may_pass
    assert not receiver.posts


def test_without_an_authority_of_its_own_those_of_the_machine_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that OpenSSL finds, in the image those of Debian: here one that a variable names."""
    with NoticeReceiver(tmp_path) as receiver:
        known = (tmp_path / "ca.crt").rename(tmp_path / "known.crt")
        with pytest.raises(NotTaken, match="its authority is not trusted"):
            Receiver(tmp_path, agent="sluice/1").send(BODY)
        monkeypatch.setenv("SSL_CERT_FILE", str(known))
        Receiver(tmp_path, agent="sluice/1").send(BODY)
    assert len(receiver.posts) == 1


def test_with_an_authority_of_its_own_those_of_the_machine_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with NoticeReceiver(tmp_path / "one") as receiver, NoticeReceiver(tmp_path / "two"):
        known = (tmp_path / "one" / "ca.crt").rename(tmp_path / "known.crt")
        monkeypatch.setenv("SSL_CERT_FILE", str(known))
        (tmp_path / "one" / "ca.crt").write_bytes((tmp_path / "two" / "ca.crt").read_bytes())
        with pytest.raises(NotTaken, match="its authority is not trusted"):
            Receiver(tmp_path / "one", agent="sluice/1").send(BODY)
    assert not receiver.posts


def test_a_certificate_for_another_name_is_not_taken_and_no_name_is_said(tmp_path: Path) -> None:
    with NoticeReceiver(tmp_path) as receiver:
        (tmp_path / "url").write_text(f"https://localhost:{receiver.port}/x")
        with pytest.raises(NotTaken) as caught:
            Receiver(tmp_path, agent="sluice/1").send(BODY)
    assert str(caught.value) == "its certificate cannot be verified: it is for another name"


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/SECRET",
        "https:///SECRET",
        "https://user:SECRET@example.com/",
        "https://example.com:99999/SECRET",
        "https://example.com:0/SECRET",
        "https://example.com/SECRET here",
        "https://example.com/SECRET\nX-Header: y",
        "https://example.com/SECRET\u00e9",
        "https://[::1/SECRET",
        "https://example.com/SECRET" + "x" * 3000,
        "ftp://SECRET",
        "",
    ],
)
def test_a_url_of_another_form_is_refused_and_not_shown(tmp_path: Path, url: str) -> None:
    (tmp_path / "url").write_text(url)
    with pytest.raises(NotTaken, match="no URL as https") as caught:
        read_address(tmp_path)
    assert "SECRET" not in str(caught.value)


def test_without_the_file_nothing_is_sent_and_it_is_said_which(tmp_path: Path) -> None:
    with pytest.raises(NotTaken, match="there is no file url in"):
        Receiver(tmp_path, agent="sluice/1").send(BODY)


def test_an_authority_that_is_none_is_named_by_its_file(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("https://example.com/x")
    (tmp_path / "ca.crt").write_text("none")
    with pytest.raises(NotTaken, match=r"ca\.crt holds no certificates"):
        read_address(tmp_path)


def test_without_an_authority_that_of_the_machine_counts_and_names_are_checked(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("https://example.com")
    address = read_address(tmp_path)
    assert address.path == "/"
    assert address.target.tls is not None
    assert address.target.tls.check_hostname
    assert address.target.tls.verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize("answer", [SERVER_ERROR, CUT, OK])
def test_nothing_that_is_said_has_the_url_in_it(
    tmp_path: Path, answer: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Not the error, not what it came from, not the log."""
    caplog.set_level(logging.DEBUG)
    with NoticeReceiver(tmp_path, answer):
        try:
            Receiver(tmp_path, agent="sluice/1").send(BODY)
        except NotTaken as exc:
            assert SECRET not in str(exc)
            assert exc.__cause__ is None
            assert exc.__suppress_context__ or exc.__context__ is None
    assert SECRET not in caplog.text
    assert SECRET not in repr(read_address(tmp_path))


def test_an_interrupt_ends_the_request_under_way(tmp_path: Path) -> None:
    receiver = Receiver(tmp_path, agent="sluice/1", deadline=600)
    with NoticeReceiver(tmp_path, SILENT) as there:
        caught: list[NotTaken] = []

        def send() -> None:
            try:
                receiver.send(BODY)
            except NotTaken as exc:
                caught.append(exc)

        thread = threading.Thread(target=send)
        thread.start()
        while not there.posts:
            thread.join(timeout=0.01)
        receiver.interrupt()
        thread.join(timeout=30)
        assert caught
        with pytest.raises(NotTaken):
            receiver.send(BODY)


def test_the_address_of_a_secret_is_read_for_each_request(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with NoticeReceiver(tmp_path / "one") as first, NoticeReceiver(tmp_path / "two") as second:
        link = tmp_path / "mounted"
        link.symlink_to(tmp_path / "one")
        receiver = Receiver(link, agent="sluice/1")
        receiver.send(BODY)
        link.unlink()
        link.symlink_to(tmp_path / "two")
        receiver.send(BODY)
    assert (len(first.posts), len(second.posts)) == (1, 1)
