"""One run of the command: its flags, its console, and the API server once it is needed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING

from kubectl_queue.access import kubectl
from kubectl_queue.cli.flags import Flags
from kubectl_queue.cli.options import ACCESS, UNCHANGED, DryRun, Output, OutputTemplate
from kubectl_queue.output.console import Console
from kubectl_queue.views.outage import outage_text

if TYPE_CHECKING:
    from kubectl_queue.access.client import ApiClient, Queues
    from kubectl_queue.access.outages import OutageReader
    from kubectl_queue.access.transport import Transport
    from kubectl_queue.views.outage import Outage

#: A watch asks no more often whether a replica of the server leads.
_FOLLOWED_SECONDS = 10.0
_FOR_PEOPLE = (None, Output.TABLE, Output.WIDE)


class Session:
    """Use it in a `with`. `client` and `api` start kubectl when they are first asked for.

    One thread; `client` and `api`, once made, are for any.
    """

    def __init__(self, flags: Flags, *, console: Console, environ: Mapping[str, str]) -> None:
        self.flags = flags
        self.console = console
        self.environ = environ
        #: Whether it is said at the end that no replica of the server answers.
        self.tells_outage = False
        self._outage_reader: OutageReader | None = None
        #: What was said last, and when it was read again, in monotonic seconds.
        self._told_outage: Outage | None = None
        self._followed_at = float("-inf")
        self._ends = ExitStack()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.close()

    @cached_property
    def api(self) -> Queues:
        client = self.client
        from kubectl_queue.access.client import Queues  # noqa: PLC0415 - imported while kubectl starts

        if self.tells_outage:
            self._read_outage()
        return Queues(client)

    @cached_property
    def client(self) -> ApiClient:
        transport = self.transport
        from kubectl_queue.access.client import ApiClient  # noqa: PLC0415 - imported while kubectl starts
        from kubectl_queue.access.outages import read_outage  # noqa: PLC0415 - as above

        return ApiClient(transport, warn=self.console.warn, read_outage=read_outage)

    @property
    def outage(self) -> Outage | None:
        """Whether no replica of the server answers or leads, as far as the user may know. Read once."""
        return self._read_outage().outage

    def _read_outage(self) -> OutageReader:
        from kubectl_queue.access.outages import OutageReader  # noqa: PLC0415 - imported while kubectl starts

        if self._outage_reader is None:
            self._outage_reader = OutageReader(self.client)
        return self._outage_reader

    def tell_outage(self) -> None:
        """Say it once, where this is wanted and people read what is printed."""
        if self._may_tell_outage():
            self._tell(self.outage)

    def follow_outage(self) -> None:
        """Read it again, at most once in `_FOLLOWED_SECONDS`, and say where it has begun or ended."""
        if not self._may_tell_outage() or time.monotonic() - self._followed_at < _FOLLOWED_SECONDS:
            return
        from kubectl_queue.access.outages import read_outage  # noqa: PLC0415 - imported while kubectl starts

        self._followed_at = time.monotonic()
        self._tell(read_outage(self.client))

    def _may_tell_outage(self) -> bool:
        return self.tells_outage and self.output in _FOR_PEOPLE and "client" in self.__dict__

    def _tell(self, outage: Outage | None) -> None:
        if outage is not None and outage != self._told_outage:
            self.console.warn(outage_text(outage, now=self.client.now))
        elif outage is None and self._told_outage is not None:
            self.console.note("a replica of Sluice leads again")
        self._told_outage = outage

    @cached_property
    def transport(self) -> Transport:
        proxy = kubectl.KubectlProxy(self.access_flags, environ=self.environ)
        self._ends.callback(proxy.close)
        from kubectl_queue.access.transport import Transport  # noqa: PLC0415 - imported while kubectl starts

        timeout = self.flags.duration("request-timeout")
        # 0 is kubectl's way to say that there is none.
        seconds = timeout.total_seconds() if timeout else None
        transport = Transport(proxy, timeout=seconds)
        self._ends.callback(transport.close)
        return transport

    @property
    def access_flags(self) -> tuple[str, ...]:
        """The flags for kubectl: which API server, and as whom."""
        return tuple(_for_kubectl(self.flags))

    @cached_property
    def namespace(self) -> str:
        """That of --namespace, else of the context."""
        return (
            self.flags.text("namespace")
            or kubectl.context_namespace(access=self.access_flags, environ=self.environ)
            or "default"
        )

    @property
    def output(self) -> Output | None:
        """The value of -o; None where it was not given."""
        value = self.flags.value("output")
        if isinstance(value, OutputTemplate):
            return Output.TEMPLATE
        return value if isinstance(value, Output) else None

    @property
    def template(self) -> str:
        """The template of -o, which kubectl prints; empty where there is none."""
        value = self.flags.value("output")
        return value.text if isinstance(value, OutputTemplate) else ""

    @property
    def dry_run(self) -> DryRun:
        given = self.flags.text("dry-run")
        if given == UNCHANGED:
            self.console.warn("--dry-run is deprecated and can be replaced with --dry-run=client.")
            return DryRun.CLIENT
        return DryRun(given)


def _for_kubectl(flags: Flags) -> Iterator[str]:
    for flag in ACCESS:
        if not flags.has(flag.name):
            continue
        values = flags.many(flag.name) if flag.repeated else [flags.value(flag.name)]
        for value in values:
            yield f"--{flag.name}={str(value).lower() if isinstance(value, bool) else value}"
