"""HTTP to the API server through `kubectl proxy`: a connection that is kept, time limits, errors in words.

Promises
- An answer that asks to come again (429 or 5xx with Retry-After) is sent again, up to ten times. Nothing
  else is sent twice by us; kubectl sends a GET again where its own connection turns out to be closed.
- Whatever goes wrong below HTTP is an UnreachableError, or a CredentialsError, that says what to look at.
- One thread.
"""

from __future__ import annotations

import http.client
import re
import socket
import time
from collections.abc import Iterator
from urllib.parse import urlencode

from kubectl_queue.access.kubectl import KubectlProxy
from kubectl_queue.access.responses import Request, Response
from kubectl_queue.errors import CredentialsError, QueueError, SilentError, UnreachableError

#: Seconds for an answer where --request-timeout is not given: the API server itself gives up after 60.
DEFAULT_TIMEOUT = 65.0
#: client-go asks again up to ten times.
_ATTEMPTS = 10
_LONGEST_PAUSE = 30.0
_HEADERS = (("Accept", "application/json"), ("User-Agent", "kubectl-queue"))


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over the socket at a path; `localhost` is a Host that kubectl takes."""

    def __init__(self, path: str, *, timeout: float | None) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Transport:
    """Requests to the API server, one at a time. `close` it."""

    def __init__(self, proxy: KubectlProxy, *, timeout: float | None) -> None:
        """`timeout`: that of --request-timeout; None where it was not given."""
        self._proxy = proxy
        self._timeout = timeout
        self._answered = False
        self._connection: http.client.HTTPConnection | None = None

    @property
    def timeout(self) -> float | None:
        """Seconds for the next answer.

        Without --request-timeout the first has no limit of ours, since a credential plugin may wait until
        the user has logged in. kubectl gives up after 30 s without a connection, and after 45 s without a
        sign of life.
        """
        return self._timeout or (DEFAULT_TIMEOUT if self._answered else None)

    def close(self) -> None:
        """Close the connection that is kept."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def send(self, request: Request) -> Response:
        """The response, whatever its status. Raises UnreachableError or CredentialsError."""
        for attempt in range(_ATTEMPTS):
            response = self._exchange_whole(request)
            pause = _pause(response)
            if pause is None or attempt == _ATTEMPTS - 1:
                break
            time.sleep(pause)
        return response

    def stream(self, request: Request, *, silence: float) -> Iterator[bytes | Response]:
        """The lines of the response as they come, until it ends or `silence` seconds pass without one.

        A response that is not 200 comes whole, as the only item.
        """
        connection = _UnixConnection(self._proxy.socket(), timeout=silence)
        try:
            response = _exchange(connection, request)
            if response.status != 200:
                yield _checked(Response(response.status, response.headers, response.read()), request)
                return
            while line := response.readline():
                yield line
        except TimeoutError:
            return
        except (OSError, http.client.HTTPException) as exc:
            raise _ended(exc, request) from exc
        finally:
            connection.close()

    def _exchange_whole(self, request: Request) -> Response:
        connection = self._connection or _UnixConnection(self._proxy.socket(), timeout=self.timeout)
        self._connection = None
        try:
            response = _exchange(connection, request)
            body = response.read()
        except TimeoutError as exc:
            connection.close()
            raise self._silent(request) from exc
        except (OSError, http.client.HTTPException) as exc:
            connection.close()
            raise _ended(exc, request) from exc
        except BaseException:
            connection.close()
            raise
        self._answered = True
        if connection.timeout == self.timeout:
            self._connection = connection
        else:
            connection.close()
        return _checked(Response(response.status, response.headers, body), request)

    def _silent(self, request: Request) -> SilentError:
        return SilentError(
            f"Unable to connect to the server: it did not answer in {self.timeout:g} s; "
            f"look at the network, or give it longer with --request-timeout{_outcome_unknown(request)}"
        )


def _exchange(connection: http.client.HTTPConnection, request: Request) -> http.client.HTTPResponse:
    query = f"?{urlencode(request.query)}" if request.query else ""
    connection.putrequest(request.method, f"{request.path}{query}", skip_accept_encoding=True)
    for name, value in _HEADERS:
        connection.putheader(name, value)
    if request.body is not None:
        connection.putheader("Content-Type", request.content_type)
        connection.putheader("Content-Length", str(len(request.body)))
    connection.endheaders(request.body)
    return connection.getresponse()


def _pause(response: Response) -> float | None:
    """Seconds to wait before asking again, or None: as client-go, for 429 and 5xx with Retry-After."""
    after = response.headers.get("Retry-After", "")
    if (response.status == 429 or response.status >= 500) and after.isdigit():
        return min(float(after), _LONGEST_PAUSE)
    return None


def _checked(response: Response, request: Request) -> Response:
    """Return the response of the API server; raise an error where kubectl itself answered.

    Then the answer is 500 and text (k8s.io/kubectl/pkg/proxy); each answer of an API server has an Audit-Id.
    """
    plain = response.headers.get_content_type() == "text/plain"
    if response.status != 500 or not plain or "Audit-Id" in response.headers:
        return response
    raise unreachable(response.body.decode(errors="replace").strip(), if_sent=_outcome_unknown(request))


_REFUSED = re.compile(r"dial tcp (?P<address>\S+): connect: connection refused")
_NO_SERVER = re.compile(r"(127\.0\.0\.1|\[::1\]|localhost):8080")
#: How errors begin that come before a request is sent.
_BEFORE_SENDING = (
    "dial ",
    "getting credentials",
    "tls: ",
    "x509: ",
    "proxyconnect",
    "socks connect",
    "http: ",
)
_ADVICE = {
    "no such host": "look at the server of the kubeconfig's cluster",
    "failed to verify certificate": (
        "give the authority of this server as --certificate-authority, or the right --server"
    ),
    "HTTP response to HTTPS client": "is it http:// or another port?",
    "unsupported protocol scheme": "give the address of an API server, such as https://10.0.0.1:6443",
    "proxyconnect": "look at proxy-url in the kubeconfig, and HTTPS_PROXY and NO_PROXY in the environment",
    "invalid header field value": "look at the token",
    "certificate required": "look at the client certificate",
}


def unreachable(cause: str, *, if_sent: str = "") -> QueueError:
    """The error for what kubectl says of a server that it could not reach.

    `if_sent`: what to add where the request may have been sent.
    """
    if cause.startswith("getting credentials"):
        return CredentialsError(cause)
    note = "" if cause.startswith(_BEFORE_SENDING) else if_sent
    refused = _REFUSED.fullmatch(cause)
    if refused:
        address = refused["address"]
        hint = _NOT_CONFIGURED if _NO_SERVER.fullmatch(address) else ""
        return UnreachableError(
            f"The connection to the server {address} was refused - "
            f"did you specify the right host or port?{hint}"
        )
    advice = next((f"; {text}" for part, text in _ADVICE.items() if part in cause), "")
    return UnreachableError(f"Unable to connect to the server: {cause}{advice}{note}")


#: kubectl takes localhost:8080 where nothing else is configured.
_NOT_CONFIGURED = (
    "\nWhere no API server is configured, this is the one that kubectl tries; set KUBECONFIG, "
    "or give --kubeconfig FILE, --context NAME or --server URL"
)


def _ended(exc: Exception, request: Request) -> UnreachableError:
    return UnreachableError(
        f"Unable to connect to the server: kubectl proxy ended the connection ({exc or type(exc).__name__})"
        + _outcome_unknown(request)
    )


def _outcome_unknown(request: Request) -> str:
    """What to add to the error of a change whose answer did not come; empty for a read."""
    if request.method == "GET":
        return ""
    return "; whether it took the change is not known, look with: kubectl queue list"
