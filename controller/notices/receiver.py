"""One request to the URL that an administrator has put into a Secret, and what came of it.

Invariants
- The URL is a secret: neither it nor any part of it, nor what the receiver answers, is in an error or a log.
- HTTPS alone, with the certificate verified: by `ca.crt` beside the URL if that is there, else by the
  machine's authorities. No proxy is used, and no redirect followed.
- A request ends within `DEADLINE` seconds, whatever the receiver does, and at once by `interrupt`. Of the
  answer the head is read and no more.
- The files are read for each request, so that a Secret that was changed counts.

Where it goes is up to who may write the Secret, and to nobody else: nothing that users write is in the
request's target or headers. It may be an address inside the cluster; nothing of the answer comes back.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from cluster.api.connection import Connection, ServerAddress, parse_target
from cluster.exceptions import ConfigurationError, Unreachable
from queues.notices.refusals import may_pass

URL, AUTHORITY = "url", "ca.crt"
#: Seconds for all of a request, and for one attempt to connect.
DEADLINE, CONNECT_SECONDS = 15.0, 5.0
#: Characters of a URL.
LENGTH = 2048
#: Seconds: a receiver that asks for more patience is given this.
LONGEST_PATIENCE = 3600.0
#: What is wrong with a certificate, by OpenSSL's number (x509_vfy.h).
_UNVERIFIED: Mapping[int, str] = {
    **dict.fromkeys((18, 19, 20, 21), "its authority is not trusted"),
    9: "it is not valid yet",
    10: "it has expired",
    **dict.fromkeys((62, 64), "it is for another name"),
}


class NotTaken(Exception):
    """The receiver did not take the message.

    `patience`: the seconds for which it asks to be left alone. `may_pass`: it may take the same message
    later; else it refuses this one.
    """

    def __init__(self, reason: str, *, patience: float = 0.0, may_pass: bool = True) -> None:
        super().__init__(reason)
        self.patience = patience
        self.may_pass = may_pass


class Address(msgspec.Struct, frozen=True):
    """`path`: with the query."""

    target: ServerAddress
    path: str

    def __repr__(self) -> str:
        return "Address(a secret)"


class Receiver:
    """For one thread; any other may call `interrupt`, once."""

    def __init__(self, folder: Path, *, agent: str, deadline: float = DEADLINE) -> None:
        self._folder = folder
        self._agent = agent
        self._deadline = deadline
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._is_ended = self._is_interrupted = False

    def send(self, body: bytes) -> None:
        """Returns once a 2xx came. Raises `NotTaken`."""
        address = read_address(self._folder)
        with self._lock:
            self._is_ended = self._is_interrupted
        timer = threading.Timer(self._deadline, self._end)
        timer.name, timer.daemon = "notices-deadline", True
        timer.start()
        try:
            self._post(address, body)
        finally:
            timer.cancel()

    def interrupt(self) -> None:
        """The request under way fails, and so does each later one."""
        self._is_interrupted = True
        self._end()

    def _post(self, address: Address, body: bytes) -> None:
        headers = {"Content-Type": "application/json", "User-Agent": self._agent, "Connection": "close"}
        connection = Connection(address.target, on_socket=self._watch, connect_seconds=CONNECT_SECONDS)
        try:
            head = connection.ask("POST", address.path, headers, body, seconds=self._deadline)
        except (Unreachable, ConfigurationError) as exc:
            reason = "no answer in time" if self._is_ended else _reason(exc.__cause__)
            raise NotTaken(reason) from None  # its text has the path
        finally:
            connection.close()
            with self._lock:
                self._socket = None
        if not 200 <= head.status < 300:
            redirect = ": a redirect, which is not followed" if 300 <= head.status < 400 else ""
            raise NotTaken(
                f"HTTP {head.status}{redirect}",
                patience=_patience(head.headers.get("retry-after", ""), now=head.headers.get("date", "")),
                may_pass=may_pass(head.status),
            )

    def _watch(self, new_socket: socket.socket) -> None:
        with self._lock:
            self._socket = new_socket
            is_ended = self._is_ended
        if is_ended:
            _shut(new_socket)

    def _end(self) -> None:
        with self._lock:
            self._is_ended = True
            current = self._socket
        if current is not None:
            _shut(current)


def read_address(folder: Path) -> Address:
    """Raises `NotTaken`, which says what is wrong with which file, and not what is in it."""
    try:
        url = (folder / URL).read_text().strip()
    except (OSError, ValueError):
        raise NotTaken(f"there is no file {URL} in {folder}") from None
    try:
        parts = urlsplit(url)
        is_valid = (
            parts.scheme == "https"
            and bool(parts.hostname)
            and not parts.username
            and not parts.password
            and parts.port != 0
            and len(url) <= LENGTH
            and url.isascii()
            and all(character.isprintable() and character != " " for character in url)
        )
    except ValueError:
        is_valid = False
    if not is_valid:
        raise NotTaken(f"file {URL} in {folder} is no URL as https://HOST/PATH, without a user")
    target = parse_target(f"https://{parts.netloc}", secured=lambda: _context(folder / AUTHORITY))
    return Address(target, (parts.path or "/") + (f"?{parts.query}" if parts.query else ""))


def _context(authority: Path) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=str(authority) if authority.exists() else None)
    except (OSError, ssl.SSLError):
        raise NotTaken(f"file {authority} holds no certificates in PEM") from None


def _reason(cause: BaseException | None) -> str:
    """A text of our own: that of the error may name the receiver."""
    if isinstance(cause, ssl.SSLCertVerificationError):
        why = _UNVERIFIED.get(cause.verify_code, "")
        return "its certificate cannot be verified" + (f": {why}" if why else "")
    for kind, text in (
        (ssl.SSLError, "no TLS with it"),
        (socket.gaierror, "its name is not known"),
        (TimeoutError, "no answer in time"),
        (ConnectionRefusedError, "it accepts no connection"),
    ):
        if isinstance(cause, kind):
            return text
    return "the connection was cut, or what came is no HTTP"


def _patience(header: str, *, now: str) -> float:
    """Retry-After in seconds. A date counts from the answer's own Date on, `now`, whatever our clock says."""
    if header.isascii() and header.isdigit() and len(header) <= 9:
        seconds = float(header)
    else:
        try:
            seconds = (parsedate_to_datetime(header) - parsedate_to_datetime(now)).total_seconds()
        except (ValueError, TypeError, IndexError, OverflowError):  # no dates, or but one with a zone
            seconds = 0.0
    return max(0.0, min(seconds, LONGEST_PATIENCE))


def _shut(current: socket.socket) -> None:
    with contextlib.suppress(OSError):
        # The method of the base class: ssl's own would change the object under the reading thread.
        socket.socket.shutdown(current, socket.SHUT_RDWR)
