"""delete: queues that are Closed; the server has the say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kubectl_queue.access.queue_api import Queues
from kubectl_queue.cli.flags import (
    Flags,
    span,
    switch,
)
from kubectl_queue.cli.options import (
    ALL,
    DRY_RUN,
    OUTPUT,
    SELECTOR,
    DryRun,
)
from kubectl_queue.commands.command import Verb, selected
from kubectl_queue.edit.wait import Clock
from kubectl_queue.errors import NotFoundError, QueueError, WaitTimeout
from kubectl_queue.output.reporter import Reporter
from kubectl_queue.session import Session
from kubectl_queue.snapshot import Snapshot
from queues.queue import BUILT_IN, DEFAULT, ROOT

#: What to do instead with the queues that always exist.
_LASTING: Mapping[str, str] = {
    ROOT: "`root` queue can not be deleted; to stop every queue: kubectl queue suspend root",
    DEFAULT: (
        "`default` queue can not be deleted; to have it take nothing: kubectl queue close default, "
        "to stop its pods: kubectl queue suspend default"
    ),
}


def delete(session: Session, flags: Flags) -> int:
    chosen = selected(flags, command="kubectl queue delete") or _lowest_first(session, flags)
    if not chosen:
        session.console.note("No resources found")
    deleting = _Deleting(session, flags)
    done = [deleting.done(name) for name in chosen]
    return 0 if all(done) else 1


class _Deleting:
    """One command."""

    def __init__(self, session: Session, flags: Flags) -> None:
        self._api = session.api
        self._note = session.console.note
        self._dry_run = session.dry_run
        self._reporter = Reporter(session, dry_run=self._dry_run)
        self._clock = Clock(flags.span("timeout")) if flags.on("wait") else None
        self._missing_is_fine = flags.on("ignore-not-found")

    def done(self, name: str) -> bool:
        """Whether the queue is deleted, or need not be; what failed has been said."""
        try:
            self._delete(name)
        except NotFoundError as exc:
            if self._missing_is_fine:
                return True
            self._note(str(exc))
            return False
        except QueueError as exc:
            self._note(str(exc))
            return False
        return True

    def _delete(self, name: str) -> None:
        if name in BUILT_IN:
            raise QueueError(_LASTING[name])
        uid = self._uid(name)
        gone = self._dry_run is DryRun.CLIENT or self._api.delete(name, dry_run=self._dry_run)
        self._reporter.deleted(name)
        if self._clock and not gone and self._dry_run is DryRun.NONE:
            _until_gone(self._api, name, uid=uid, clock=self._clock)

    def _uid(self, name: str) -> str:
        """Of the queue, where it matters which one it is; NotFoundError if there is none."""
        if self._clock is None and self._dry_run is not DryRun.CLIENT:
            return ""
        return str(self._api.get(name)["metadata"]["uid"])


def _lowest_first(session: Session, flags: Flags) -> Sequence[str]:
    """Children before their parents, since a queue with children cannot go; never the built-in ones."""
    items = session.api.list(selector=flags.text("selector")).items
    tree = Snapshot(items, now=session.api.now).tree
    names = [item["metadata"]["name"] for item in items]
    return sorted(set(names) - BUILT_IN, key=lambda name: (-tree.depth(name), name))


def _until_gone(api: Queues, name: str, *, uid: str, clock: Clock) -> None:
    """Return once this queue is gone; another one of its name does not count."""
    try:
        while api.get(name)["metadata"]["uid"] == uid:
            if not clock.pause():
                raise WaitTimeout(f'timed out waiting for queue "{name}" to be gone; a finalizer may hold it')
    except NotFoundError:
        return


VERBS = (
    Verb(
        name="delete",
        usage="NAME...",
        long=(
            "Delete queues. Only a queue that is Closed and has no children can be deleted, and root "
            "and default never: the server says so. With --all or --selector children go before their "
            "parents and the two are passed over."
        ),
        examples=("kubectl queue delete team-a", "kubectl queue delete -l team=a --ignore-not-found"),
        flags=(
            ALL,
            SELECTOR,
            switch("ignore-not-found", "A queue that is not there is as good as deleted."),
            switch("wait", "Wait until they are gone; true if not given.", default=True),
            span("timeout", "How long --wait waits; for ever if not given, or 0."),
            DRY_RUN,
            OUTPUT,
        ),
        run=delete,
    ),
)
