"""drain and stop: what runs is evicted. With --keep-already-running they only hold, as `actions` does.

Promises
- Pods without a controller are named before they are evicted: the user is asked at a terminal; elsewhere
  --yes is needed.
- A dry run says which pods would go, stay and be blocked, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from kubectl_queue.cli.flags import Flags, bool_flag
from kubectl_queue.cli.options import COMMAND, DryRun
from kubectl_queue.commands.actions import (
    EDIT_FLAGS,
    chosen_names,
    confirm_stop_of_all,
    finish,
    new_editor,
    read_request,
    run_hold,
    wait_flag,
)
from kubectl_queue.commands.verbs import Verb
from kubectl_queue.drain.inventory import InventoryReader
from kubectl_queue.drain.spec_flags import FLAGS, drain_fields
from kubectl_queue.edit.editor import QueueEditor
from kubectl_queue.edit.operation import Operation
from kubectl_queue.edit.preview import edited
from kubectl_queue.edit.stop_flags import STOP_FLAGS
from kubectl_queue.edit.stop_policy_operation import StopPolicyOperation
from kubectl_queue.errors import ForbiddenError, QueueError, UsageError
from kubectl_queue.objects.queues import QueueObjects
from kubectl_queue.output.tables import TableLayout
from kubectl_queue.session import Session
from kubectl_queue.views.drain_preview import (
    DrainPreview,
    PreviewSection,
    may_evict_more_bare_pods,
    newly_evicted_bare_pods,
    previews,
)
from kubectl_queue.views.text import plural
from queues.drain.model import RunningPod
from queues.states import StopPolicy

_HOLD_ONLY = "keep-already-running"
#: Bare pods that are named; --dry-run names all.
_NAMED = 20


def run_drain(verb: str, session: Session, flags: Flags) -> int:
    """drain, and stop, which is the same by another name."""
    command = f"{COMMAND} {verb}"
    if flags.on(_HOLD_ONLY):
        _check_no_drain_flags(flags, command=command)
        return run_hold(verb, session, flags)
    request = read_request(session, flags, command=command)
    operation = StopPolicyOperation(
        policy=StopPolicy.HOLD_AND_DRAIN,
        stop=request.stop,
        drain=drain_fields(flags, now=request.queues.now, command=command),
    )
    editor = new_editor(session, request, operation)
    names = chosen_names(session, flags, request, must_stop=True)
    is_dry_run = session.dry_run is not DryRun.NONE
    if not is_dry_run and not flags.on("yes"):
        confirm_stop_of_all(session, operation, request.queues, names=names)
        confirm_bare_pods(session, operation, request.queues, names=names)
    failed = editor.edit_all(names)
    if is_dry_run:
        failed += _print_preview(session, editor)
    return finish(editor, flags, failed=failed)


def _check_no_drain_flags(flags: Flags, *, command: str) -> None:
    given = [f"--{flag.name}" for _, flag in FLAGS if flags.has(flag.name)]
    if given:
        raise UsageError(f"{given[0]} and --{_HOLD_ONLY} exclude each other", see=command)


def confirm_bare_pods(
    session: Session, operation: Operation, queues: QueueObjects, *, names: Sequence[str]
) -> None:
    """Raises QueueError unless no bare pod would be evicted, or the user agrees."""
    after = edited(operation, names, queues)
    if not may_evict_more_bare_pods(before=queues, after=after):
        return
    try:
        inventory = _inventory(session).read_pods(after, names=names)
        pods = newly_evicted_bare_pods(inventory, before=queues, after=after)
        text = "\n".join(_bare_pod_lines(pods))
    except ForbiddenError as exc:
        text = f"The pods without a controller, which nothing makes again, cannot be listed: {exc}"
    if not text:
        return
    session.console.note(text)
    answer = session.console.ask("Do it all the same?")
    if answer is None:
        raise QueueError(
            "nothing was changed, since this is no terminal to ask at; evict them with --yes, keep such pods "
            "with `drain --keep-bare-pods`, or see what would go with --dry-run=client"
        )
    if not answer:
        raise QueueError("nothing was changed")


def _bare_pod_lines(pods: Sequence[RunningPod]) -> list[str]:
    if not pods:
        return []
    more = len(pods) - _NAMED
    return [
        f"{plural(len(pods), 'pod')} without a controller would be evicted, and nothing makes them again:",
        *(f"  {pod} (queue {pod.queue})" for pod in pods[:_NAMED]),
        *([f"  and {more} more"] if more > 0 else []),
    ]


def _print_preview(session: Session, editor: QueueEditor) -> int:
    """Say what would happen to the pods; 1 where they may not be read."""
    if not editor.edited:
        return 0
    try:
        inventory = _inventory(session).read(editor.queues, names=editor.edited)
    except ForbiddenError as exc:
        session.console.note(f"the pods that would go cannot be listed: {exc}")
        return 1
    say = session.console.say if session.output is None else session.console.note
    for preview in previews(inventory, editor.queues, names=editor.edited):
        say("\n".join(preview_lines(preview)))
    return 0


_INDENT = "  "


def preview_lines(preview: DrainPreview) -> list[str]:
    return [preview.summary, *(line for section in preview.sections for line in _section_lines(section))]


def _section_lines(section: PreviewSection) -> Iterator[str]:
    yield f"{_INDENT}{section.heading}:"
    lines = TableLayout().lines([row.cells for row in section.rows])
    for line, row in zip(lines, section.rows, strict=True):
        yield f"{_INDENT * 2}{line}".rstrip()
        yield from (f"{_INDENT * 3}{text}".rstrip() for text in row.blocks)


def _inventory(session: Session) -> InventoryReader:
    return InventoryReader(session.client, namespace=lambda: session.namespace, warn=session.console.warn)


_DRAIN_FLAGS = (
    *STOP_FLAGS,
    *(flag for _, flag in FLAGS),
    bool_flag(_HOLD_ONLY, "Only hold: what runs goes on, as with Kueue's stop."),
    bool_flag("yes", "Do not ask before pods without a controller are evicted.", short="y"),
    wait_flag("Wait until nothing runs but what stays by rule: the condition Drained says so."),
    *EDIT_FLAGS,
)

VERBS = (
    Verb(
        name="drain",
        usage="NAME...",
        long=(
            "Set spec.stopPolicy to HoldAndDrain. Nothing new is scheduled, and what runs goes: pods are "
            "evicted as their PodDisruptionBudgets allow, lowest priority first; Jobs are suspended, and "
            "resumed with the queue. Pods of DaemonSets, system-critical pods and those that "
            "--keep selects stay. Pods without a controller are named first, and you are asked. "
            "--dry-run says what would go, in which order, what would stay and what would be blocked. "
            "Settings that are not given stay as an earlier drain left them; the value none takes one away."
        ),
        examples=(
            "kubectl queue drain research --dry-run=client",
            "kubectl queue drain research --keep app=db --rate 5 --wait --timeout 1h",
            "kubectl queue drain research --deadline 2h --scale-after-deadline --reason 'new racks'",
        ),
        flags=_DRAIN_FLAGS,
        run=partial(run_drain, "drain"),
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
        flags=_DRAIN_FLAGS,
        run=partial(run_drain, "stop"),
    ),
)
