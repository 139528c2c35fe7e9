"""The verbs that stop queues and let them go: read, decide, patch; again where someone else was faster.

Promises
- A patch carries the resourceVersion that was decided on; after a conflict the queue is read and
  the decision made anew, so that nobody's edit is lost.
- Queues are done one by one, and one that fails keeps no other from being done.
- With --wait all are patched first and waited for after, within one time-out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

from kubectl_queue.access.responses import Object
from kubectl_queue.cli.flag_values import LONGEST
from kubectl_queue.cli.flags import Flags
from kubectl_queue.cli.options import COMMAND, DryRun
from kubectl_queue.cli.suggestions import suggested
from kubectl_queue.commands.command import selected
from kubectl_queue.edit.decide import Decision, Wish
from kubectl_queue.edit.merge_patch import patched
from kubectl_queue.edit.operations import Acting, Deed
from kubectl_queue.edit.wait import Clock, wait
from kubectl_queue.errors import ConflictError, QueueError, UsageError
from kubectl_queue.output.reporter import Reporter
from kubectl_queue.session import Session
from kubectl_queue.snapshot import Snapshot, take
from kubectl_queue.why import queue_chain as chains
from queues.queue import ROOT
from queues.states import Action, State

_ATTEMPTS = 5
#: The value of --wait that waits for the end of a close.
CLOSED = "closed"


def change(action: Action, session: Session, flags: Flags) -> int:
    """Do the action to every queue chosen; 1 if one of them failed."""
    command = f"{COMMAND} {action.name.lower()}"
    chosen = named(flags, command=command)
    snapshot = take(session.api, chosen)
    wish = Wish(
        action=action, reason=reason(flags), resume_at=resume_at(flags, now=snapshot.now, command=command)
    )
    changing = Changing(session, deed=Acting(wish=wish, state=_state(flags)), snapshot=snapshot)
    failed = changing.all(chosen or everything(session, flags, snapshot))
    return finished(changing, flags, failed=failed)


def named(flags: Flags, *, command: str) -> tuple[str, ...]:
    """The names given, none where --all or --selector chooses. Raises UsageError."""
    chosen = selected(flags, command=command)
    if flags.has("for") and flags.has("until"):
        raise UsageError("--for and --until exclude each other", see=command)
    return chosen


def finished(changing: Changing, flags: Flags, *, failed: int) -> int:
    """Wait where that was asked for, print what is printed at the end; the exit code."""
    if flags.text("wait") != "false":
        failed += changing.wait(Clock(flags.span("timeout")))
    changing.reporter.finish()
    return 1 if failed else 0


def reason(flags: Flags) -> str | None:
    """None where not a word was said of it."""
    return flags.text("reason") if flags.has("reason") else None


def everything(session: Session, flags: Flags, snapshot: Snapshot) -> Sequence[str]:
    """What --all or --selector chooses."""
    selector = flags.text("selector")
    items = session.api.list(selector=selector).items if selector else snapshot.items.values()
    found = [item["metadata"]["name"] for item in items if item["metadata"]["name"] != ROOT or selector]
    if not found:
        session.console.note("No resources found")
    return found


def _state(flags: Flags) -> State | None:
    return State.CLOSED if flags.text("wait") == CLOSED else None


def resume_at(flags: Flags, *, now: datetime, command: str) -> datetime | None:
    """By the API server's clock, which decides when it is over."""
    at = _asked(flags, now=now)
    if at is not None and at <= now:
        raise UsageError(f"the time to resume, {at.isoformat()}, is not in the future", see=command)
    if at is not None and at - now > LONGEST:
        raise UsageError(f"the time to resume, {at.isoformat()}, is more than a century away", see=command)
    return at


def _asked(flags: Flags, *, now: datetime) -> datetime | None:
    span = flags.span("for")
    if span is not None:
        return now + span
    read: Callable[[datetime], datetime] | None = flags.value("until")
    return read(now) if read else None


class Changing:
    """One deed on some queues. `snapshot`: the queues as they are known by now."""

    def __init__(self, session: Session, *, deed: Deed, snapshot: Snapshot) -> None:
        self._session = session
        self._api = session.api
        self._deed = deed
        self.snapshot = snapshot
        self._dry_run = session.dry_run
        self.reporter = Reporter(session, dry_run=self._dry_run)
        #: Those that were changed or needed no change.
        self.done: list[str] = []
        #: What was decided on, by queue.
        self._before: dict[str, Snapshot] = {}

    def all(self, names: Sequence[str]) -> int:
        """Change each; how many failed, which has been said."""
        return sum(not self._tried(partial(self._one, name)) for name in names)

    def wait(self, clock: Clock) -> int:
        """Wait for each that was changed or needed no change; how many failed."""
        if self._dry_run is not DryRun.NONE:
            return 0
        return sum(not self._tried(partial(self._wait, name, clock)) for name in self.done)

    def _tried(self, act: Callable[[], None]) -> bool:
        try:
            act()
        except QueueError as exc:
            self._session.console.note(str(exc))
            return False
        return True

    def _one(self, name: str) -> None:
        refused = self._deed.refusal(name)
        if refused:
            raise QueueError(refused)
        said = self._edited(name)
        self.reporter.say(name, said)
        self.reporter.keep(self.snapshot.items[name])
        self.done.append(name)
        before = self._before.get(name, self.snapshot)
        for text in self._deed.afterthoughts(name, before=before, after=self.snapshot):
            self._session.console.warn(text)

    def _edited(self, name: str) -> str:
        """Read, decide and patch until nobody comes between; what was done, in a word."""
        for attempt in range(_ATTEMPTS):
            decision = self._decision(name)
            if not decision.edit:
                break
            self._before[name] = self.snapshot
            try:
                self._patch(name, decision)
                self._say_again(name)
                break
            except ConflictError:
                if attempt == _ATTEMPTS - 1:
                    raise
                self._read(name)
        return decision.said

    def _say_again(self, name: str) -> None:
        """Set a reason or time once more that reads like that of the stop before: admission clears that."""
        decision = self._decision(name)
        if decision.edit and self._dry_run is DryRun.NONE:
            self._patch(name, decision)

    def _decision(self, name: str) -> Decision:
        item = self.snapshot.items.get(name) or self._first(name)
        return self._deed.decide(item=item, snapshot=self.snapshot)

    def _first(self, name: str) -> Object:
        with suggested(self._api, name):
            return self._read(name)

    def _patch(self, name: str, decision: Decision) -> None:
        item = self.snapshot.items[name]
        patch = {"spec": decision.edit}
        if self._dry_run is DryRun.CLIENT:
            self._keep(patched(item, patch))
            return
        guard = {"resourceVersion": item["metadata"]["resourceVersion"]}
        self._keep(self._api.patch(name, {"metadata": guard, **patch}, dry_run=self._dry_run))

    def _read(self, name: str) -> Object:
        return self._keep(self._api.get(name))

    def _keep(self, item: Object) -> Object:
        self.snapshot = self.snapshot.with_item(item, now=self._api.now)
        return item

    def _wait(self, name: str, clock: Clock) -> None:
        goal = self._deed.goal(self.snapshot.board.verdict(name, live=True))
        found = wait(
            goal,
            items=self._with_those_below(name),
            read=partial(self._reread, name),
            say=self._session.console.progress,
            clock=clock,
            warn=self._session.console.warn,
            chain=partial(chains.of, self._api),
        )
        self.reporter.keep(found[0])
        self.reporter.say(name, goal.reached(found))

    def _reread(self, name: str) -> Sequence[Object]:
        """The queue and those below it: their members are its own, and keep it from being Closed."""
        if not self.snapshot.complete or not self.snapshot.tree.children(name):
            return [self._read(name)]
        self.snapshot = take(self._api, (name,))
        return self._with_those_below(name)

    def _with_those_below(self, name: str) -> Sequence[Object]:
        items = self.snapshot.items
        below = sorted(self.snapshot.tree.below(name) - {name})
        return [items.get(name) or self._read(name), *(items[other] for other in below if other in items)]
