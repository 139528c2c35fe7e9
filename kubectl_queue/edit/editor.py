"""`QueueEditor`: reads queues, decides, patches and reports, for the commands that stop and resume queues.

Promises
- A patch carries the resourceVersion that was decided on. After a conflict the queue is read and the decision
  made again, so that no edit of another user is lost.
- Queues are edited one after the other; a failure at one leaves the others to be edited.
- With --wait all queues are patched first and waited for afterwards, within one time-out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import replace

from kubectl_queue.access.outages import is_absent, read_outage
from kubectl_queue.access.queue_reader import read_generations, read_queues
from kubectl_queue.cli.options import DryRun
from kubectl_queue.cli.suggestions import with_suggestions
from kubectl_queue.edit.consequences import all_texts
from kubectl_queue.edit.operation import Decision, Operation, apply_patch
from kubectl_queue.edit.wait import PollTimer, wait
from kubectl_queue.errors import ConflictError, QueueError
from kubectl_queue.objects.fields import Object
from kubectl_queue.objects.queues import QueueObjects
from kubectl_queue.output.formats import Reporter
from kubectl_queue.output.progress_bar import ProgressBar
from kubectl_queue.session import Session
from kubectl_queue.views.acknowledgement import AcknowledgementWait
from kubectl_queue.views.outage import PAGE, lost_text

_ATTEMPTS = 5


class QueueEditor:
    """One operation on some queues. `queues`: all of them as the latest answers show them.

    `named`: the user named the queues, so a refused one is an error.
    """

    def __init__(self, session: Session, *, operation: Operation, queues: QueueObjects, named: bool) -> None:
        self._session = session
        self._api = session.api
        self._operation = operation
        self.queues = queues
        self._named = named
        self._dry_run = session.dry_run
        self.reporter = Reporter(session, dry_run=self._dry_run)
        #: Those that were changed or needed no change.
        self.edited: list[str] = []
        #: The queues that each decision was made on.
        self._before: dict[str, QueueObjects] = {}

    def edit_all(self, names: Sequence[str]) -> int:
        """Edit each queue; the number of failures, each of which is printed."""
        return sum(not self._succeeds(partial(self._edit, name)) for name in names)

    def wait_for_all(self, timer: PollTimer) -> int:
        """Wait for each queue that was changed or needed no change; the number of failures."""
        if self._dry_run is not DryRun.NONE:
            return 0
        return sum(not self._succeeds(partial(self._wait_for, name, timer)) for name in self.edited)

    def warn_if_absent(self) -> None:
        """Warn where queues were edited, and nothing acts on that."""
        if self.edited and self._dry_run is DryRun.NONE and is_absent(self._session.client):
            self._session.console.warn(
                "no webhook of Sluice is registered, and no replica leads: nothing acts on it; see: kubectl "
                "queue status"
            )

    def _succeeds(self, step: Callable[[], None]) -> bool:
        try:
            step()
        except QueueError as exc:
            self._session.console.note(str(exc))
            return False
        return True

    def _edit(self, name: str) -> None:
        refusal = self._operation.refusal(name)
        if refusal:
            raise QueueError(refusal)
        decision = self._decide_and_patch(name)
        if decision.refusal and self._named:
            raise QueueError(decision.refusal)
        self.reporter.say(name, decision.outcome)
        self.reporter.keep(self.queues.items[name])
        self.edited.append(name)
        before = self._before.get(name, self.queues)
        told = all_texts(name, before=before, after=self.queues) if self._dry_run is DryRun.CLIENT else ()
        for text in (*told, *self._operation.warnings(name, before=before, after=self.queues)):
            self._session.console.warn(text)

    def _decide_and_patch(self, name: str) -> Decision:
        """Read, decide and patch until no other edit comes between."""
        for attempt in range(_ATTEMPTS):
            decision = self._decide(name)
            if not decision.patch:
                break
            self._before[name] = self.queues
            try:
                self._patch(name, decision)
                self._patch_again(name)
                break
            except ConflictError:
                if attempt == _ATTEMPTS - 1:
                    raise
                self._read(name)
        return decision

    def _patch_again(self, name: str) -> None:
        """Set a reason or time once more that equals that of the stop before: admission removes it then."""
        decision = self._decide(name)
        if decision.patch and self._dry_run is DryRun.NONE:
            self._patch(name, decision)

    def _decide(self, name: str) -> Decision:
        item = self.queues.items.get(name) or self._read_with_suggestions(name)
        return self._operation.decide(item=item, queues=self.queues)

    def _read_with_suggestions(self, name: str) -> Object:
        with with_suggestions(self._api, name):
            return self._read(name)

    def _patch(self, name: str, decision: Decision) -> None:
        item = self.queues.items[name]
        patch = {"spec": decision.patch}
        if self._dry_run is DryRun.CLIENT:
            self._store(apply_patch(item, patch))
            return
        guard = {"resourceVersion": item["metadata"]["resourceVersion"]}
        self._store(self._api.patch(name, {"metadata": guard, **patch}, dry_run=self._dry_run))

    def _read(self, name: str) -> Object:
        return self._store(self._api.get(name))

    def _store(self, item: Object) -> Object:
        self.queues = self.queues.with_item(item, now=self._api.now)
        return item

    def _wait_for(self, name: str, timer: PollTimer) -> None:
        condition = self._operation.wait_condition(self.queues.decisions.verdict(name, live=True))
        is_changed = name in self._before
        if not is_changed and isinstance(condition, AcknowledgementWait):
            condition = replace(condition, is_old=True)
        items = wait(
            condition,
            items=self._branch(name),
            read=partial(self._read_branch, name),
            say=self._session.console.progress,
            timer=timer,
            warn=self._session.console.warn,
            chain=partial(read_generations, self._api),
            bar=ProgressBar() if self._session.console.terminal else None,
            lost=(lambda: "") if is_changed else self._lost,
        )
        self.reporter.keep(items[0])
        self.reporter.say(name, condition.done(items))

    def _lost(self) -> str:
        outage = read_outage(self._session.client)
        if outage is None:
            return ""
        return f"{lost_text(outage)}; what to do: {PAGE}"  # the same each time: progress is printed once

    def _read_branch(self, name: str) -> Sequence[Object]:
        """The queue and those below it: their members are its own, and keep it from being Closed."""
        if not self.queues.complete or not self.queues.tree.children(name):
            return [self._read(name)]
        self.queues = read_queues(self._api, (name,))
        return self._branch(name)

    def _branch(self, name: str) -> Sequence[Object]:
        items = self.queues.items
        below = sorted(self.queues.tree.subtree(name) - {name})
        return [items.get(name) or self._read(name), *(items[other] for other in below if other in items)]
