"""The errors between the server and the API server.

ClusterError
├── ConfigurationError    no usable kubeconfig or credentials
├── Unreachable           no answer: refused, cut, timed out
├── TooLarge              an answer exceeds the limit of bytes
├── Unreadable            a body from outside does not have the expected form
│   └── Faulty            a review of which only the object does not have the expected form
├── NotReady              called before the cluster was read, or since it was lost
└── Refused               an answer other than 2xx; has `status`, `reason`, `message`
    ├── NotFound          404
    ├── Conflict          409: the object has changed since it was read, or exists
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


class TooLarge(ClusterError):
    """The answer has more bytes than the caller accepts; the rest was not read."""


class Refused(ClusterError):
    """The API server answered with a status other than 2xx."""

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
    """429 or 5xx: the same request may succeed later. `causes`: the reasons of the causes in its details."""

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
    """Called before the cluster was read, or since it was lost."""


class Unreadable(ClusterError):
    """A body from outside does not have the expected form; the message names the place and the fault."""


class Faulty(Unreadable):
    """The object of a review cannot be read. Its author gets a denial; the API server made no mistake."""
