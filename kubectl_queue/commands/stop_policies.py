"""hold, drain and stop: the stop policies of queues.

Promises
- Bare pods are named before they go: on a terminal somebody is asked, elsewhere it takes --yes.
- A dry run says what would go, stay and be blocked, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kubectl_queue.cli.flag_values import moment
from kubectl_queue.cli.flags import (
    Flag,
    Flags,
    stretch,
    switch,
)
from kubectl_queue.cli.options import (
    ALL,
    COMMAND,
    DRY_RUN,
    OUTPUT,
    SELECTOR,
    TIMEOUT,
    DryRun,
)
from kubectl_queue.commands.actions import REASON, waiting
from kubectl_queue.commands.command import Verb
from kubectl_queue.drain.drain_flags import FLAGS, settings
from kubectl_queue.drain.inventory import Surveying
from kubectl_queue.drain.preview import (
    bare,
    begins,
    forecasts,
    lines,
)
from kubectl_queue.edit.change import (
    Changing,
    everything,
    finished,
    named,
    reason,
    resume_at,
)
from kubectl_queue.edit.merge_patch import patched
from kubectl_queue.edit.stop_policy import Stopping
from kubectl_queue.edit.wait import many
from kubectl_queue.errors import ForbiddenError, QueueError, UsageError
from kubectl_queue.session import Session
from kubectl_queue.snapshot import Snapshot, take
from queues.drain.model import RunningPod
from queues.states import StopPolicy

_KEEPS = "keep-already-running"
#: Bare pods that are named; who wants them all has --dry-run.
_NAMED = 20


def hold(session: Session, flags: Flags) -> int:
    return _stop(session, flags, verb="hold", holds=True)


def drain(verb: str, session: Session, flags: Flags) -> int:
    holds = flags.on(_KEEPS)
    useless = [f"--{flag.name}" for flag in FLAGS.values() if holds and flags.has(flag.name)]
    if useless:
        raise UsageError(f"{useless[0]} and --{_KEEPS} exclude each other", see=f"{COMMAND} {verb}")
    return _stop(session, flags, verb=verb, holds=holds)


def _stop(session: Session, flags: Flags, *, verb: str, holds: bool) -> int:
    command = f"{COMMAND} {verb}"
    chosen = named(flags, command=command)
    snapshot = take(session.api, chosen)
    deed = Stopping(
        policy=StopPolicy.HOLD if holds else StopPolicy.HOLD_AND_DRAIN,
        reason=reason(flags),
        resume_at=resume_at(flags, now=snapshot.now, command=command),
        drain={} if holds else settings(flags, now=snapshot.now, command=command),
        bar=session.console.terminal,
    )
    changing = Changing(session, deed=deed, snapshot=snapshot)
    names = chosen or everything(session, flags, snapshot)
    dry = session.dry_run is not DryRun.NONE
    if not holds and not dry and not flags.on("yes"):
        _ask(session, deed, snapshot, names=names)
    failed = changing.all(names)
    if not holds and dry:
        failed += _forecast(session, changing)
    return finished(changing, flags, failed=failed)


def _forecast(session: Session, changing: Changing) -> int:
    """Say what would happen to the pods; 1 where they may not be read."""
    if not changing.done:
        return 0
    try:
        survey = _surveying(session).all()
    except ForbiddenError as exc:
        session.console.note(f"what would go cannot be told: {exc}")
        return 1
    say = session.console.say if session.output is None else session.console.note
    for found in forecasts(survey, changing.snapshot, names=changing.done):
        say("\n".join(lines(found)))
    return 0


def _ask(session: Session, deed: Stopping, snapshot: Snapshot, *, names: Sequence[str]) -> None:
    """Raises QueueError unless no bare pod would go, or somebody says that they may."""
    after = _edited(deed, snapshot, names)
    if not begins(before=snapshot, after=after):
        return
    try:
        found = bare(_surveying(session).pods(), before=snapshot, after=after)
        told = "\n".join(_listed(found))
    except ForbiddenError as exc:
        told = f"Which pods without a controller would be evicted, and so be gone, cannot be told: {exc}"
    if not told:
        return
    session.console.note(told)
    answer = session.console.ask("Drain all the same?")
    if answer is None:
        raise QueueError(
            "nothing was changed: there is nobody to ask; to evict them all the same use --yes, to keep such "
            "pods --keep-bare-pods, to see what would go --dry-run=client"
        )
    if not answer:
        raise QueueError("nothing was changed")


def _edited(deed: Stopping, snapshot: Snapshot, names: Sequence[str]) -> Snapshot:
    """The queues as they would be; one that is not there, or refused, is told of in its turn."""
    for name in names:
        item = snapshot.items.get(name)
        try:
            edit = deed.decide(item=item, snapshot=snapshot).edit if item is not None else {}
        except QueueError:
            continue
        if item is not None and edit:
            snapshot = snapshot.with_item(patched(item, {"spec": edit}), now=snapshot.now)
    return snapshot


def _listed(found: Sequence[RunningPod]) -> list[str]:
    if not found:
        return []
    more = len(found) - _NAMED
    return [
        f"{many(len(found), 'pod')} without a controller would be evicted, and nothing makes them again:",
        *(f"  {pod} (queue {pod.queue})" for pod in found[:_NAMED]),
        *([f"  and {more} more"] if more > 0 else []),
    ]


def _surveying(session: Session) -> Surveying:
    return Surveying(session.calls, namespace=session.namespace, warn=session.console.warn)


_TIMES = (
    stretch("for", "Resume after this long, e.g. 30m, 2h or 7d."),
    Flag(
        name="until",
        default=None,
        read=moment,
        value="TIME",
        help="Resume at this time: 18:30 or 2030-01-31T18:30 (both in your zone), or ...T18:30:00Z.",
    ),
    REASON,
)
_SHARED = (ALL, SELECTOR, TIMEOUT, DRY_RUN, OUTPUT)


def _wait(help: str) -> Flag:
    return Flag(name="wait", default="false", bare="true", read=waiting, value="true|false", help=help)


_DRAINING = (
    *_TIMES,
    *FLAGS.values(),
    switch(_KEEPS, "Only hold: what runs goes on, as with Kueue's stop."),
    switch("yes", "Do not ask before pods without a controller are evicted.", short="y"),
    _wait("Wait until nothing runs but what stays by rule: the condition Drained says so."),
    *_SHARED,
)

VERBS = (
    Verb(
        name="hold",
        usage="NAME...",
        long=(
            "Set spec.stopPolicy to Hold. Nothing new is scheduled, what runs goes on, what is submitted "
            "waits. A drain of the queue ends at once. With --for or --until it undoes itself at that time."
        ),
        examples=(
            "kubectl queue hold research --reason 'audit' --wait",
            "kubectl queue hold research --for 2h",
        ),
        flags=(
            *_TIMES,
            _wait("Wait until the controller has acknowledged that nothing is scheduled."),
            *_SHARED,
        ),
        run=hold,
    ),
    Verb(
        name="drain",
        usage="NAME...",
        long=(
            "Set spec.stopPolicy to HoldAndDrain. Nothing new is scheduled, and what runs goes: pods are "
            "evicted as their PodDisruptionBudgets allow, lowest priority first; Jobs are suspended, and "
            "given back when the queue is resumed. Pods of DaemonSets, system-critical pods and those that "
            "--keep selects stay. Pods without a controller are named beforehand, and you are asked. "
            "--dry-run says what would go, in which order, what would stay and what would be blocked. "
            "Settings that are not given stay as an earlier drain left them."
        ),
        examples=(
            "kubectl queue drain research --dry-run=client",
            "kubectl queue drain research --keep app=db --rate 5 --wait --timeout 1h",
            "kubectl queue drain research --deadline 2h --delete-after-deadline --reason 'new racks'",
        ),
        flags=_DRAINING,
        run=partial(drain, "drain"),
    ),
    Verb(
        name="stop",
        usage="NAME...",
        long=(
            "What `kueuectl stop clusterqueue` is for Kueue: drain the queue, or only hold it with "
            "--keep-already-running. It takes the flags of `drain`."
        ),
        examples=(
            "kubectl queue stop research",
            "kubectl queue stop research --keep-already-running",
        ),
        flags=_DRAINING,
        run=partial(drain, "stop"),
    ),
)
