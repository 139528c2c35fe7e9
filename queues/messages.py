"""What users read: one wording for each cause, wherever it shows.

Promises
- A text is a function of its arguments: the same queue and cause give the same bytes on every
  replica at any time. kube-scheduler counts on that: a text that changed between attempts
  would make it try the pod for ever.
- Whatever a user wrote (a reason) is shown on one line, without control characters, cut to
  `showing.REASON_LIMIT`.
- Each text ends with the way out.
"""

from __future__ import annotations

from queues.membership import valid_name
from queues.states import State
from queues.text import printable, quoted
from queues.verdict import TRY_AGAIN, Cause, CauseKind

#: The way out where a name is none.
NAME_RULE = "names are made of lower case letters, digits, '-' and '.'"
_RECALLED = " (asked again)"
#: Clients cut longer warnings.
WARNING_LIMIT = 119


def stop_text(cause: Cause) -> str:
    """Why a queue schedules nothing, and what would let its pods go."""
    return f"{_is_stopped(cause)}{_because(cause.reason)}; {_way_out(cause)}"


def waiting_warning(cause: Cause) -> str:
    """The admission warning for work that is taken but has to wait; where it is long the way out stays."""
    way_out = remedy_command(cause) or NAME_RULE
    for whole in (
        f"{_is_stopped(cause)}: this waits until: {way_out}",
        f"{_is_stopped(cause)}: {way_out}",
    ):
        if len(whole) <= WARNING_LIMIT:
            return whole
    return truncate_warning(_shortened(cause, way_out))


def _shortened(cause: Cause, way_out: str) -> str:
    """The warning with a name cut."""
    kind, name, what = "queue", cause.queue, f": {cause.kind}"
    if cause.kind is CauseKind.STOPPED:
        what = f" is stopped ({cause.policy})"
    if cause.kind is CauseKind.NO_PODGROUP:
        kind, name, what = "PodGroup", cause.by, " does not exist"
    room = WARNING_LIMIT - len(f'{kind} ""{what}: {way_out}')
    return f'{kind} "{printable(name, limit=max(8, room))}"{what}: {way_out}'


def refusal_text(cause: Cause, *, state: State, kind: str = "pods") -> str:
    """Why a queue takes nothing new. `state` is what it shows: Closing, Closed, Suspended, Unknown."""
    if cause.kind is CauseKind.NOT_SELECTED:
        return stop_text(cause)
    if cause.kind is CauseKind.BROKEN:
        return f"{_is_stopped(cause)} and takes no new {kind}; {_way_out(cause)}"
    why = _because(cause.reason)
    if cause.by != cause.queue:
        told = f"{state}, its ancestor {quoted(cause.by)} is to be Closed{why},"
    elif state in {State.CLOSING, State.CLOSED}:
        told = f"{state}{why}"
    else:
        told = f"{state}, is to be Closed{why},"
    return f"queue {quoted(cause.queue)} is {told} and takes no new {kind}; {_way_out(cause)}"


def with_retry_mark(text: str) -> str:
    """The same text on a pod whose scheduler is asked to try once more; the scheduler writes over it."""
    return text + _RECALLED


def has_retry_mark(text: str) -> bool:
    return text.endswith(_RECALLED)


def truncate_warning(warning: str) -> str:
    """A warning cut to what clients show."""
    return warning if len(warning) <= WARNING_LIMIT else warning[: WARNING_LIMIT - 1] + "…"


def _is_stopped(cause: Cause) -> str:
    queue = f"queue {quoted(cause.queue)}"
    by = f"its ancestor {quoted(cause.by)}" if cause.by != cause.queue else ""
    match cause.kind:
        case CauseKind.SUSPENDED:
            return f"{queue} is Suspended" + (f" by {by}" if by else "")
        case CauseKind.STOPPED:
            return f"{queue} is stopped by stopPolicy {cause.policy}" + (f" of {by}" if by else "")
        case CauseKind.BROKEN:
            return f"{queue} is Unknown: {cause.broken}"
        case CauseKind.NOT_FOUND | CauseKind.NO_PODGROUP:
            missing = queue if cause.kind is CauseKind.NOT_FOUND else f"PodGroup {quoted(cause.by)}"
            return f"{missing} does not exist"
        case CauseKind.CLOSED:
            return f"{queue} is Closed" + (f" by {by}" if by else "")
        case CauseKind.NOT_SELECTED:
            selector = f"the namespaceSelector of {by or 'the queue'}"
            return f"{queue} is not for namespace {quoted(cause.namespace)}: {selector} {cause.unmet}"


def _because(reason: str) -> str:
    line = printable(reason)
    return f" ({line})" if line else ""


def _way_out(cause: Cause) -> str:
    way = remedy_command(cause)
    if not way:
        return NAME_RULE
    match cause.kind:
        case CauseKind.BROKEN:
            return f"mend it with: {way}"
        case CauseKind.NOT_FOUND | CauseKind.NO_PODGROUP:
            return f"create it with: {way}"
        case CauseKind.CLOSED:
            return f"reopen it with: {way}"
        case CauseKind.SUSPENDED | CauseKind.STOPPED:
            return f"resume it with: {way}"
        case CauseKind.NOT_SELECTED:
            return way if way == TRY_AGAIN else f"use another queue, or change that with: {way}"


def remedy_command(cause: Cause) -> str:
    """What to type; empty where a name is none that an object could have."""
    if cause.kind is CauseKind.NO_PODGROUP:
        return "kubectl create -f PODGROUP"
    if cause.kind is CauseKind.NOT_SELECTED:
        return cause.way_out
    name = cause.queue if cause.kind is CauseKind.NOT_FOUND else cause.by
    return f"{_VERBS[cause.kind]} {name}" if valid_name(name) else ""


_VERBS = {
    CauseKind.SUSPENDED: "kubectl queue resume",
    CauseKind.STOPPED: "kubectl queue resume",
    CauseKind.CLOSED: "kubectl queue open",
    CauseKind.NOT_FOUND: "kubectl queue create",
    CauseKind.BROKEN: "kubectl edit queue",
}
