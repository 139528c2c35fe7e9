"""delete: queues that are Closed and have no children; the server decides."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from kubectl_queue.access.client import Queues
from kubectl_queue.access.queue_reader import read_queues
from kubectl_queue.cli.flags import (
    Flags,
    bool_flag,
    duration_flag,
    selected,
)
from kubectl_queue.cli.options import (
    ALL,
    DRY_RUN,
    OUTPUT,
    SELECTOR,
    DryRun,
)
from kubectl_queue.commands.verbs import Verb
from kubectl_queue.edit.wait import PollTimer
from kubectl_queue.errors import NotFoundError, QueueError, WaitTimeout
from kubectl_queue.objects.fields import name_of
from kubectl_queue.objects.queues import QueueObjects, may_be_live
from kubectl_queue.output.formats import Reporter
from kubectl_queue.session import Session
from queues.admission.queue_edits import deletion_refusal
from queues.queue import BUILT_IN


def run_delete(session: Session, flags: Flags) -> int:
    names = selected(flags, command="kubectl queue delete")
    deletion = _Deletion(session, flags, names=names)
    deleted = [deletion.delete(name) for name in names or deletion.select(flags.text("selector"))]
    return 0 if all(deleted) else 1


class _Deletion:
    """One run of `delete`. `_left`: with --dry-run=client, the queues that would be left."""

    def __init__(self, session: Session, flags: Flags, *, names: Sequence[str]) -> None:
        self._session = session
        self._note = session.console.note
        self._dry_run = session.dry_run
        self._names = names
        self._is_client_dry_run = self._dry_run is DryRun.CLIENT
        self._left: QueueObjects | None = None
        self._reporter = Reporter(session, dry_run=self._dry_run)
        self._timer = PollTimer(flags.duration("timeout")) if flags.on("wait") else None
        self._ignore_not_found = flags.on("ignore-not-found")

    def select(self, selector: str) -> Sequence[str]:
        """What --all or --selector chooses, children before their parents, without the built-in queues.

        A dry run says why those are left out.
        """
        items = self._session.api.list(selector=selector).items
        tree = QueueObjects(items, now=self._session.api.now).tree
        names = {name_of(item) for item in items}
        if self._is_client_dry_run:
            for name in sorted(names & BUILT_IN):
                self._note(refusal(name, None))
        if not names - BUILT_IN:
            self._note("No resources found")
        return sorted(names - BUILT_IN, key=lambda name: (-tree.depth(name), name))

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
            raise QueueError(refusal(name, None))
        if self._is_client_dry_run:
            self._dry_run_delete(name)
            return
        uid = str(self._session.api.get(name)["metadata"]["uid"]) if self._timer is not None else ""
        is_gone = self._session.api.delete(name, dry_run=self._dry_run)
        self._reporter.deleted(name)
        if self._timer and not is_gone and self._dry_run is DryRun.NONE:
            _wait_until_gone(self._session.api, name, uid=uid, timer=self._timer)

    def _dry_run_delete(self, name: str) -> None:
        """Raises QueueError where the server would refuse, as far as the statuses tell."""
        queues = self._left if self._left is not None else read_queues(self._session.api, self._names)
        if name not in queues.items:
            self._session.api.get(name)
        text = refusal(name, queues)
        if text:
            raise QueueError(text)
        self._reporter.deleted(name)
        left = (item for item in queues.items.values() if name_of(item) != name)
        self._left = QueueObjects(left, now=queues.now, complete=queues.complete)


def refusal(name: str, queues: QueueObjects | None) -> str:
    """Why the queue may not be deleted, by the rule that admission has; empty where it may."""
    known = queues if queues is not None else QueueObjects((), now=datetime.now(UTC))
    item = known.items.get(name)
    verdict = known.decisions.verdict(name, live=item is not None and may_be_live(item))
    return deletion_refusal(verdict, children=tuple(sorted(known.tree.children(name)))) or ""


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
            "parents and the two are passed over. --dry-run=client says which of them could not be "
            "deleted as they are now, and why."
        ),
        examples=("kubectl queue delete team-a", "kubectl queue delete -l team=a --ignore-not-found"),
        flags=(
            ALL,
            SELECTOR,
            bool_flag("ignore-not-found", "Do not fail for a queue that does not exist."),
            bool_flag("wait", "Wait until they are gone; true if not given.", default=True),
            duration_flag("timeout", "How long --wait waits; for ever if not given, or 0."),
            DRY_RUN,
            OUTPUT,
        ),
        run=run_delete,
    ),
)
