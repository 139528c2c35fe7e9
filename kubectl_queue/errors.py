"""Everything that ends a command, in one tree.

    QueueError                  "error: ..."; exit code 1
      UsageError                the command line makes no sense; ends with where to read on
      ConfigError               the kubeconfig does not lead to an API server
      CredentialsError          there are no credentials, or they are not accepted
      UnreachableError          the API server does not answer
        SilentError             it did not answer in time
      ClosedError               we ended the request ourselves, or no longer send any
      WaitTimeout               --timeout passed before what --wait waits for
      ServerError               the API server answered with a refusal
        NotFoundError           the queue does not exist
        KindMissingError        the API server has no queues at all
        ConflictError           the queue was changed meanwhile
        ForbiddenError          the user may not
        ExpiredError            a resourceVersion is too old to go on from
        WebhookError            the API server could not ask Sluice's server, and did nothing

Promise: `str(error)` is all that a user reads, prefix included, on as few lines as it takes,
and says what to do next where there is something to do.
"""

from __future__ import annotations


class QueueError(Exception):
    """Ends the command with exit code 1."""

    prefix = "error: "

    def __str__(self) -> str:
        return self.prefix + super().__str__() + "".join(getattr(self, "__notes__", ()))


class UsageError(QueueError):
    """`see` is the command whose --help explains it."""

    def __init__(self, message: str, *, see: str = "") -> None:
        super().__init__(message + (f"\nSee '{see} --help' for usage." if see else ""))


class ConfigError(QueueError):
    pass


class CredentialsError(QueueError):
    pass


class UnreachableError(QueueError):
    prefix = ""


class SilentError(UnreachableError):
    pass


class ClosedError(QueueError):
    pass


class WaitTimeout(QueueError):
    pass


class ServerError(QueueError):
    """`code` is the HTTP status; the message has kubectl's words already."""

    prefix = ""

    def __init__(self, message: str, *, code: int) -> None:
        super().__init__(message)
        self.code = code


class NotFoundError(ServerError):
    pass


class KindMissingError(ServerError):
    pass


class ConflictError(ServerError):
    pass


class ForbiddenError(ServerError):
    pass


class ExpiredError(ServerError):
    pass


class WebhookError(ServerError):
    """`webhook`: its name. `why`: in the API server's words. `what`: what that means; "" for no replica that
    answers.
    """

    def __init__(self, webhook: str, *, why: str, what: str, see: str, lost: str = "") -> None:
        """`see`: where to read on. `lost`: since when no replica answers or leads, where that is known."""
        self.webhook, self.why, self.what, self.see = webhook, why, what, see
        cause = lost if lost and not what else what or "no replica of Sluice answers the API server"
        super().__init__(
            f'error: nothing was changed: {cause} (webhook "{webhook}": {why}); what to do: {see}', code=500
        )

    def during(self, lost: str) -> WebhookError:
        """The same, where it is known since when no replica answers or leads."""
        return WebhookError(self.webhook, why=self.why, what=self.what, see=self.see, lost=lost)
