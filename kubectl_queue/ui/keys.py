"""Who holds the page: a code that works once is exchanged for a token.

Invariants
- The code is in the fragment of an address, which browsers do not send; it may stay in a history or a file,
  and is worth nothing there once it was used.
- A token is known to the window that exchanged a code for it, and dies with the command.
- Both are 256 random bits, compared in constant time.

Threads: any.
"""

from __future__ import annotations

import hmac
import secrets
import threading

_BYTES = 32


class PageKeys:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._code = secrets.token_urlsafe(_BYTES)
        self._tokens: list[str] = []

    @property
    def code(self) -> str:
        """The one that works now."""
        with self._lock:
            return self._code

    def exchange(self, code: str) -> str | None:
        """A new token; None where the code is not the present one. Then another code is the present one."""
        with self._lock:
            if not _equal(code, self._code):
                return None
            self._code = secrets.token_urlsafe(_BYTES)
            token = secrets.token_urlsafe(_BYTES)
            self._tokens.append(token)
            return token

    def is_known(self, token: str) -> bool:
        with self._lock:
            tokens = list(self._tokens)
        return any([_equal(token, each) for each in tokens])  # noqa: C419 - each, whichever it is


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(errors="replace"), other.encode())
