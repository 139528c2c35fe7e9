"""TLS contexts that ask clients for a certificate, and bound what a client's handshake costs.

A client without a certificate passes the handshake: it is answered 401 (`server.http.authorization`). A
certificate that does not verify (of another authority, expired, not for clients) ends the handshake with
TLS's own alert, such as `unknown certificate authority` or `expired certificate`, which the client shows.

Invariants
- The alert reaches the client. uvloop closes a connection whose handshake fails without sending it, so a
  failed verification is not raised there: the handshake goes on for as long as the client needs to read
  the alert.
- OpenSSL is given at most `HANDSHAKE_BYTES` of a handshake. It takes certificates up to 100 KiB, in which a
  chain of a few hundred holds up the loop for 34 ms; what is taken here takes some 3 ms. From OpenSSL 3.2 on
  a client could compress its chain; that is switched off.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, cast

from server.http.request_parser import RequestError

#: A ClientHello has up to 2 KiB, three certificates with RSA-4096 keys 6 KiB.
HANDSHAKE_BYTES = 10 * 1024

#: SSL_OP_NO_RX_CERTIFICATE_COMPRESSION, which `ssl` has no name for; OpenSSL before 3.2 ignores it.
NO_COMPRESSED_CERTIFICATES = 1 << 33

#: Called with the reason for which the handshake that is being made in this context is refused.
on_refused: ContextVar[Callable[[RequestError], object]] = ContextVar("on_refused")


class ClientTlsContext(ssl.SSLContext):
    """A server's context whose connections are `ClientTls`."""

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **options: Any) -> Any:
        connection = cast(ClientTls, super().wrap_bio(incoming, outgoing, *args, **options))
        connection.begin(incoming, on_refused.get())
        return connection


class ClientTls(ssl.SSLObject):
    """One connection's TLS. Only its handshake differs from that of `ssl`."""

    _incoming: ssl.MemoryBIO
    _refuse: Callable[[RequestError], object]
    _refused: bool
    _left: int

    def begin(self, incoming: ssl.MemoryBIO, refuse: Callable[[RequestError], object]) -> None:
        """The handshake begins. `incoming`: what the client sends; `refuse`: called if it is refused."""
        self._incoming = incoming
        self._refuse = refuse
        self._refused = False
        self._left = HANDSHAKE_BYTES

    def do_handshake(self) -> None:
        received = self._incoming.read()
        if self._refused:
            raise ssl.SSLWantReadError  # nothing more is read, until the client has closed
        given, rest = received[: self._left], received[self._left :]
        self._left -= len(given)
        self._incoming.write(given)
        try:
            super().do_handshake()
        except ssl.SSLCertVerificationError as exc:
            self._end(RequestError(401, f"the client certificate is not valid: {exc.verify_message}"))
            raise ssl.SSLWantReadError from exc  # uvloop now sends what is to be sent: the alert
        except ssl.SSLWantReadError:
            if not rest:
                raise
            reason = f"the certificates of a client may have {HANDSHAKE_BYTES} bytes"
            self._end(RequestError(431, reason))
            raise ssl.SSLError(reason) from None
        self._incoming.write(rest)

    def _end(self, error: RequestError) -> None:
        self._refused = True
        self._refuse(error)


ClientTlsContext.sslobject_class = ClientTls


def ask_for_certificate(context: ssl.SSLContext, authorities: Sequence[Path]) -> None:
    """Have clients asked for a certificate of one of these authorities. Raises OSError for bad files.

    TLS 1.2 is refused: it could resume a session without the certificate being verified again. As in
    kube-apiserver's `--client-ca-file`, each certificate in the files is trusted by itself, whether another
    authority has signed it or not.
    """
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.options |= NO_COMPRESSED_CERTIFICATES
    context.verify_mode = ssl.CERT_OPTIONAL
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    for file in authorities:
        context.load_verify_locations(cafile=file)
