"""One run of the command: its console, and the API server once it is needed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from functools import cached_property

from kubectl_queue.access import kubeconfig
from kubectl_queue.access.queue_api import Queues
from kubectl_queue.access.requests import Calls
from kubectl_queue.access.settings import Overrides, resolve
from kubectl_queue.access.transport import Transport
from kubectl_queue.cli.flags import Flags
from kubectl_queue.cli.options import (
    UNCHANGED,
    DryRun,
    Output,
)
from kubectl_queue.output.console import Console


class Session:
    """`api` reads the kubeconfig when it is first asked for."""

    def __init__(self, flags: Flags, *, console: Console, environ: Mapping[str, str]) -> None:
        self.flags = flags
        self.console = console
        self._environ = environ

    @cached_property
    def api(self) -> Queues:
        return Queues(self.calls)

    @cached_property
    def calls(self) -> Calls:
        timeout = self.flags.span("request-timeout")
        access = resolve(self._context, _overrides(self.flags), environ=self._environ)
        transport = Transport(access, timeout=_seconds(timeout), environ=self._environ)
        return Calls(transport, warn=self.console.warn)

    @property
    def namespace(self) -> str:
        """That of --namespace, else of the context."""
        return self.flags.text("namespace") or self._context.namespace or "default"

    @cached_property
    def _context(self) -> kubeconfig.Context:
        files = kubeconfig.files(self.flags.text("kubeconfig"), environ=self._environ)
        text = self.flags.text
        return kubeconfig.choose(
            kubeconfig.load(files), context=text("context"), cluster=text("cluster"), user=text("user")
        )

    @property
    def output(self) -> Output | None:
        """The value of -o; None where it was not given."""
        found = self.flags.value("output")
        return found if isinstance(found, Output) else None

    @property
    def dry_run(self) -> DryRun:
        given = self.flags.text("dry-run")
        if given == UNCHANGED:
            self.console.warn("--dry-run is deprecated and can be replaced with --dry-run=client.")
            return DryRun.CLIENT
        return DryRun(given)


def _seconds(timeout: timedelta | None) -> float | None:
    """None for 0 too, which is kubectl's way to say that there is none."""
    return timeout.total_seconds() if timeout else None


def _overrides(flags: Flags) -> Overrides:
    insecure = "insecure-skip-tls-verify"
    return Overrides(
        server=flags.text("server"),
        token=flags.text("token"),
        certificate_authority=flags.text("certificate-authority"),
        insecure=flags.on(insecure) if flags.has(insecure) else None,
        tls_server_name=flags.text("tls-server-name"),
        as_user=flags.text("as"),
        as_uid=flags.text("as-uid"),
        as_groups=flags.many("as-group"),
    )
