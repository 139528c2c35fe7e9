"""Which requests the page answers: the rules against other pages of the same browser, as functions.

| rule                                                     | refused with | against                 |
|----------------------------------------------------------|--------------|-------------------------|
| Host is our address and port, letter by letter           | 421          | DNS rebinding           |
| Origin, where there is one, is ours; a change and a      | 403          | requests of other pages |
| WebSocket have one                                       |              |                         |
| what has data needs the bearer token                     | 401          | all who were not let in |
| a body has at most `LARGEST_BODY` bytes                  | 413          | filling our memory      |

There are no cookies, since these ignore ports: a browser sends nothing of ours by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

HOST = "127.0.0.1"
#: A reason has a few hundred letters; the largest form has ten fields.
LARGEST_BODY = 16 * 1024

#: Of each answer. Trusted Types: no script of ours, nor one that got in, can turn a text into markup.
HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "Content-Security-Policy": (
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
            "require-trusted-types-for 'script'; trusted-types 'none'"
        ),
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
    }
)


class RefusedRequest(NamedTuple):
    status: int
    text: str


def origin_of(port: int) -> str:
    return f"http://{HOST}:{port}"


def refusal(
    *, method: str, host: str | None, origin: str | None, port: int, is_socket: bool = False
) -> RefusedRequest | None:
    """Why a request is not for us, whatever it asks; None where it may be.

    `is_socket`: it opens a WebSocket, which pages of other sites may do without being asked.
    """
    if host != f"{HOST}:{port}":
        return RefusedRequest(421, f"this is {HOST}:{port}, and no other name")
    is_change = is_socket or method not in {"GET", "HEAD"}
    if origin != origin_of(port) and (is_change or origin is not None):
        return RefusedRequest(403, "only the page itself may ask this")
    return None


def bearer(authorization: str | None) -> str:
    """The token of an Authorization header; "" where there is none."""
    kind, _, token = (authorization or "").partition(" ")
    return token.strip() if kind == "Bearer" else ""
