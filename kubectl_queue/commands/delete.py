"""delete: queues that are Closed and have no children; the server decides."""

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
from kubectl_queue.edit.wait import PollTimer
from kubectl_queue.errors import NotFoundError, QueueError, WaitTimeout
from kubectl_queue.output.reporter import Reporter
from kubectl_queue.queue_objects import QueueObjects
from kubectl_queue.session import Session
from queues.queue import BUILT_IN, DEFAULT, ROOT

#: What to do instead with the queues that always exist.
_BUILT_IN_REFUSALS: Mapping[str, str] = {
    ROOT: "`root` queue can not be deleted; to stop every queue: kubectl queue suspend root",
    DEFAULT: (
        "`default` queue can not be deleted; to have it take nothing: kubectl queue close default, "
        "to stop its pods: kubectl queue suspend default"
    ),
}


def run_delete(session: Session, flags: Flags) -> int:
    names = selected(flags, command="kubectl queue delete") or _children_first(session, flags)
    if not names:
        session.console.note("No resources found")
    deletion = _Deletion(session, flags)
    deleted = [deletion.delete(name) for name in names]
    return 0 if all(deleted) else 1


class _Deletion:
    """The options of one command."""

    def __init__(self, session: Session, flags: Flags) -> None:
        self._api = session.api
        self._note = session.console.note
        self._dry_run = session.dry_run
        self._reporter = Reporter(session, dry_run=self._dry_run)
        self._timer = PollTimer(flags.span("timeout")) if flags.on("wait") else None
        self._ignore_not_found = flags.on("ignore-not-found")

    def delete(self, name: str) -> bool:
        """False where it failed, which is printed."""
        try:
            self._delete(name)
        except NotFoundError as exc:
            if self._ignore_not_found:
                return True
            self._note(str(exc))
            return False
        except QueueError as exc:
            self._note(str(exc))
            return False
        return True

    def _delete(self, name: str) -> None:
        if name in BUILT_IN:
            raise QueueError(_BUILT_IN_REFUSALS[name])
        uid = self._uid(name)
        is_gone = self._dry_run is DryRun.CLIENT or self._api.delete(name, dry_run=self._dry_run)
        self._reporter.deleted(name)
        if self._timer and not is_gone and self._dry_run is DryRun.NONE:
            _wait_until_gone(self._api, name, uid=uid, timer=self._timer)

    def _uid(self, name: str) -> str:
        """The UID of the queue, where it is needed. Raises NotFoundError."""
        if self._timer is None and self._dry_run is not DryRun.CLIENT:
            return ""
        return str(self._api.get(name)["metadata"]["uid"])


def _children_first(session: Session, flags: Flags) -> Sequence[str]:
    """What --all or --selector chooses, without the built-in queues; one with children cannot be deleted."""
    items = session.api.list(selector=flags.text("selector")).items
    tree = QueueObjects(items, now=session.api.now).tree
    names = [item["metadata"]["name"] for item in items]
    return sorted(set(names) - BUILT_IN, key=lambda name: (-tree.depth(name), name))


def _wait_until_gone(api: Queues, name: str, *, uid: str, timer: PollTimer) -> None:
    """Return once this queue is gone; a new one of its name does not count."""
    try:
        while api.get(name)["metadata"]["uid"] == uid:
            if not timer.pause():
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
        run=run_delete,
    ),
)
