"""What can go wrong between us and the API server.

ClusterError
├── ConfigurationError    no usable kubeconfig or credentials
├── Unreachable           no answer: refused, cut, timed out
├── TooLong               an answer longer than was asked for
├── Unreadable            a body from outside that is not what it should be
│   └── Faulty            a review whose object, and nothing else, is not what it should be
├── NotReady              asked before the cluster has been read, or since it was lost
└── Refused               an answer that is not 2xx; has `status`, `reason`, `message`
    ├── NotFound          404
    ├── Conflict          409: the object changed under us, or exists
    ├── Expired           410: the resource version is too old
    └── Overloaded        429 and 5xx: worth another try; has `retry_after` in seconds
"""

from __future__ import annotations


class ClusterError(Exception):
    """The root of the tree."""


class ConfigurationError(ClusterError):
    """No usable kubeconfig or credentials."""


class Unreachable(ClusterError):
    """The API server gave no answer."""


class TooLong(ClusterError):
    """The answer is longer than was asked for; the rest of it was not read."""


class Refused(ClusterError):
    """The API server answered, and not with 2xx."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


class NotFound(Refused):
    """404."""


class Conflict(Refused):
    """409."""


class Expired(Refused):
    """410."""


class Overloaded(Refused):
    """429 or 5xx: the same request may succeed later. `causes`: the reasons of what is named in detail."""

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        *,
        retry_after: float,
        causes: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(status, reason, message)
        self.retry_after = retry_after
        self.causes = causes


class NotReady(ClusterError):
    """Asked before the cluster has been read, or since it was lost."""


class Unreadable(ClusterError):
    """A body from outside is not what it should be; the message names the place and the fault."""


class Faulty(Unreadable):
    """The object of a review cannot be read: a refusal for its author, no fault of the caller."""
