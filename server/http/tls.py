"""The TLS context, built again when the files of the certificate change.

HTTP/2 is offered to clients that call us by a name, and HTTP/1.1 alone to those that call an address: the API
server calls a webhook's Service by name, many calls at once; kube-scheduler calls an address, one call after
the other, and gets its answers sooner over HTTP/1.1.
"""

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Stamp = tuple[tuple[int, int, int], ...]


def stamp(*paths: Path) -> Stamp:
    """A value that changes whenever a file is replaced or written. Raises OSError."""
    stats = [path.stat() for path in paths]
    return tuple((stat.st_mtime_ns, stat.st_ino, stat.st_size) for stat in stats)


def build_context(*, certfile: Path, keyfile: Path) -> ssl.SSLContext:
    """TLS 1.2 and later. Raises OSError, of which ssl.SSLError is one."""
    by_address = _build_context(certfile=certfile, keyfile=keyfile, protocols=["http/1.1"])
    by_name = _build_context(certfile=certfile, keyfile=keyfile, protocols=["h2", "http/1.1"])

    def select_by_sni(connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        if name is not None:
            connection.context = by_name

    by_address.sni_callback = select_by_sni
    return by_address


def _build_context(*, certfile: Path, keyfile: Path, protocols: list[str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_IGNORE_UNEXPECTED_EOF
    context.num_tickets = 0  # Go's clients keep no session cache: tickets would cost and serve nobody
    context.set_alpn_protocols(protocols)
    context.load_cert_chain(certfile, keyfile)
    return context


@dataclass(kw_only=True)
class Certificate:
    """The serving certificate. A pair that cannot be loaded leaves the last good one in use."""

    certfile: Path
    keyfile: Path
    log: Any
    build: Callable[..., ssl.SSLContext] = build_context
    current: ssl.SSLContext = field(init=False)
    _stamp: Stamp = field(init=False)

    def __post_init__(self) -> None:
        self._stamp = stamp(self.certfile, self.keyfile)
        self.current = self.build(certfile=self.certfile, keyfile=self.keyfile)

    def refresh(self) -> None:
        """Use the files as they are now for connections from now on. Never raises for bad files."""
        try:
            current_stamp = stamp(self.certfile, self.keyfile)
            if current_stamp == self._stamp:
                return
            self._stamp = current_stamp
            self.current = self.build(certfile=self.certfile, keyfile=self.keyfile)
        except OSError as exc:
            self.log.error(  # noqa: TRY400 - the reason is in the message
                "the new certificate is not usable, the old one stays in use: %s", exc
            )
        else:
            self.log.info("serving with the new certificate in %s", self.certfile)
