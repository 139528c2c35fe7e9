"""One run of the command: its flags, its console, and the API server once it is needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING

from kubectl_queue.access import kubectl
from kubectl_queue.cli.flags import Flags
from kubectl_queue.cli.options import ACCESS, UNCHANGED, DryRun, Output, Template
from kubectl_queue.output.console import Console

if TYPE_CHECKING:
    from kubectl_queue.access.client import ApiClient, Queues
    from kubectl_queue.access.transport import Transport


class Session:
    """Use it in a `with`. `client` and `api` start kubectl when they are first asked for.

    One thread; `client` and `api`, once made, are for any.
    """

    def __init__(self, flags: Flags, *, console: Console, environ: Mapping[str, str]) -> None:
        self.flags = flags
        self.console = console
        self.environ = environ
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

        return Queues(client)

    @cached_property
    def client(self) -> ApiClient:
        transport = self.transport
        from kubectl_queue.access.client import ApiClient  # noqa: PLC0415 - imported while kubectl starts

        return ApiClient(transport, warn=self.console.warn)

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
        if isinstance(value, Template):
            return Output.TEMPLATE
        return value if isinstance(value, Output) else None

    @property
    def template(self) -> str:
        """The template of -o, which kubectl prints; empty where there is none."""
        value = self.flags.value("output")
        return value.text if isinstance(value, Template) else ""

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
