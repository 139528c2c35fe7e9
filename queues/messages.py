"""The texts of pod conditions, filter answers, events and denials: one wording for each cause.

`queues.why.explain` has the sentences of `kubectl queue why`; it takes the causes from here.

Promises
- A text is a function of its arguments: the same queue and cause give the same bytes on every replica at any
  time. kube-scheduler depends on that: a text that changed between attempts would make it retry the pod for
  ever.
- What a user wrote (a reason) is shown on one line, without control characters, cut to `text.REASON_LIMIT`.
- The end of a stop is a date and a minute, in UTC: never how long that is from now.
- Each text ends with the way out. For those who administer queues (`stop_text`, denials) that is a command.
  For those whose pods wait (`pod_text`, warnings) it says who can act, where they themselves may not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, timedelta

from queues.causes import TRY_AGAIN, Cause, CauseKind, MissingAction, NoRoom, StartReason
from queues.membership import valid_name
from queues.quota.lack import LackKind
from queues.states import State, StopPolicy
from queues.text import NAME_LIMIT, printable, quoted

#: The way out where a name cannot be a name.
NAME_RULE = "names are made of lower case letters, digits, '-' and '.'"
#: The commands that set a stop policy.
_VERBS = {StopPolicy.HOLD: "hold", StopPolicy.HOLD_AND_DRAIN: "drain"}
_RETRY_MARK = " (asked again)"
#: What follows the queue's name in the texts of three reasons, and in no other text.
_NOT_FOR_NAMESPACE, _NO_PODS = "is not for namespace ", "schedules no pods "
_NO_ROOM, _NEVER_ROOM = "has no room for this pod now: ", "never has room for this pod: "
_NOT_YET, _ALL_OF = "does not release this pod yet: ", "{number} pods of its PodGroup start together, and "
#: How the words begin with which a gang says that it never starts.
_OF_GANGS = ("with its PodGroup", "of its PodGroup")
_TOGETHER = re.compile(f"{_NO_ROOM}{_ALL_OF}".replace("{number}", "([0-9]{1,9})"), re.ASCII)
_REQUEST_LESS = "request less, or have an admin of queues raise it"
_WAIT_FOR_ROOM = "it goes when others end, or an admin of queues raises it"
_USED = "{whose} is used"
#: What lacks by another rule than the capability, and what would let the pod go then.
_LACKS = {
    LackKind.GUARANTEES: "what is left of {whose} is kept for what other queues are guaranteed",
    LackKind.CLAIM: "what is left of {whose} is claimed by a pod that has waited longer",
    LackKind.GIVEN_BACK: "pods are being evicted to give it what its queue deserves",
    LackKind.OVERCOMMIT: "as much waits for nodes already as plugin overcommit of its policy allows",
    LackKind.TURN: "it was let go before, and no nodes took all of its gang; such gangs go one at a time",
    LackKind.DEVICES: "{whose} names devices of a class, and what this pod claims cannot be counted",
    LackKind.CLAIM_ABSENT: "{whose} names devices of a class, and a claim of this pod is not there",
    LackKind.CLAIMS_UNREAD: "{whose} names devices of a class, and no claims are known",
}
_ENDS_OF_LACKS = {
    LackKind.CLAIM: "it goes after that one, or an admin of queues raises it",
    LackKind.GIVEN_BACK: "it goes once they have ended",
    LackKind.OVERCOMMIT: "it goes when others end, or nodes are added",
    LackKind.TURN: "it goes after the one that nodes are sought for",
    LackKind.DEVICES: "claim a number of devices, or have an admin limit the number of claims instead",
    LackKind.CLAIM_ABSENT: "it goes once the claim is there and has room",
    LackKind.CLAIMS_UNREAD: "condition QuotaEnforced of the queue says why",
}
_CHANGE_POLICY = "add the action to the policy, or name another policy"
_MINUTE = timedelta(minutes=1)
#: Clients cut longer warnings.
WARNING_LIMIT = 119
#: Characters to which a warning cuts a reason, and a name, at the most; with less room it has no reason.
_SHORTEST_REASON, _SHORTEST_NAME = 20, 8


def stop_text(cause: Cause) -> str:
    """Why a queue schedules nothing, and what would let its pods go: for those who administer it."""
    return f"{stop_summary(cause)}; {way_out_text(cause)}"


def pod_text(cause: Cause) -> str:
    """Why a pod waits, and who can let it go: for those whose pods wait."""
    return f"{stop_summary(cause)}; {_who_can_act(cause)}"


def stop_summary(cause: Cause) -> str:
    """Why a queue schedules nothing, and until when, without the way out."""
    return f"{_stop(cause)}{_until(cause)}{_in_brackets(cause.reason)}"


def recreation_command(cause: Cause) -> str:
    """The command that has pods without the gate created again with it, set where the stop is; "" where the
    cause is not such a stop, or its queue has no valid name, and where a window stops it.
    """
    if cause.window:
        return ""
    verb = "suspend" if cause.kind is CauseKind.SUSPENDED else _VERBS.get(cause.policy, "")
    return f"kubectl queue {verb} {cause.by} --parked=Recreate" if verb and valid_name(cause.by) else ""


def default_queue_warning(queue: str) -> str:
    """The admission warning for a Job whose `spec.queue` is `default`, and that is in another queue."""
    return truncate_warning(
        f'spec.queue "default" counts as none: this is in queue {quoted(queue, limit=63)}'
    )


def waiting_warning(cause: Cause, *, what: str = "this waits") -> str:
    """The admission warning for what is admitted and has to wait. `what`: what waits, with its verb.

    Where the text is long, who can act goes first, then the end of the reason, then all of it. Who can act
    comes back where there is no reason. Until when the queue is stopped always stays.
    """
    stop, who = f"{_stop(cause)}{_until(cause)}", _who_can_act(cause)
    for text in (
        f"{stop}{_in_brackets(cause.reason)}: {what}; {who}",
        *_with_reason(stop, cause.reason, what=what),
        f"{stop}: {what}; {who}",
        f"{stop}: {who}",
    ):
        if len(text) <= WARNING_LIMIT:
            return text
    return truncate_warning(_with_short_names(cause))


def _with_reason(stop: str, reason: str, *, what: str) -> Iterator[str]:
    """The warning without who can act, the reason cut to what fits; nothing where that is too little."""
    room = WARNING_LIMIT - len(f"{stop} (): {what}")
    if printable(reason) and room >= _SHORTEST_REASON:
        yield f"{stop} ({printable(reason, limit=room)}): {what}"


def _with_short_names(cause: Cause) -> str:
    """The warning with its names cut."""
    kind, name, what = "queue", cause.queue, f": {cause.kind}"
    if cause.kind is CauseKind.STOPPED:
        what = f" is stopped ({cause.policy})"
    if cause.kind is CauseKind.NO_PODGROUP:
        kind, name, what = "PodGroup", cause.by, " does not exist"
    what += _until(cause)
    room = WARNING_LIMIT - len(f'{kind} ""{what}: {_who_can_act(cause, limit=0)}')
    names = 1 if cause.by in {name, ""} else 2
    limit = max(_SHORTEST_NAME, room // names)
    return f"{kind} {quoted(name, limit=limit)}{what}: {_who_can_act(cause, limit=limit)}"


def refusal_text(cause: Cause, *, state: State, kind: str = "pods") -> str:
    """Why a queue accepts nothing new, and the way out. `state`: what it shows."""
    return f"{refusal_summary(cause, state=state, kind=kind)}; {way_out_text(cause)}"


def refusal_summary(cause: Cause, *, state: State, kind: str) -> str:
    """Why a queue accepts nothing new. `state`: what it shows: Closing, Closed, Suspended or Unknown."""
    if cause.kind is CauseKind.NOT_SELECTED:
        return stop_summary(cause)
    if cause.kind is CauseKind.BROKEN:
        return f"{_stop(cause)} and takes no new {kind}"
    reason = _in_brackets(cause.reason)
    if cause.by != cause.queue:
        shown = f"{state}, its ancestor {quoted(cause.by)} is to be Closed{reason},"
    elif state in {State.CLOSING, State.CLOSED}:
        shown = f"{state}{reason}"
    else:
        shown = f"{state}, is to be Closed{reason},"
    return f"queue {quoted(cause.queue)} is {shown} and takes no new {kind}"


def missing_action_text(missing: MissingAction) -> str:
    """Why a pod is not scheduled by its policy, and what would let it go."""
    pods = "with" if missing.has_requests else "without"
    if missing.by_job:
        whose = f"policy {quoted(missing.policy)} of the job"
    elif not missing.by:
        whose = f"the global policy {quoted(missing.policy)}"
    elif missing.by == missing.queue:
        whose = f"its policy {quoted(missing.policy)}"
    else:
        whose = f"policy {quoted(missing.policy)} of its ancestor {quoted(missing.by)}"
    return (
        f"{_queue(missing.queue)}{_NO_PODS}{pods} resource requests: "
        f"{whose} has no action {missing.action}; {_CHANGE_POLICY}"
    )


def no_room_text(lack: NoRoom) -> str:
    """Why a pod waits for room, and what would let it go."""
    whose = "its capability" if lack.by == lack.queue else f"the capability of its ancestor {quoted(lack.by)}"
    whose = whose if lack.by else "a capability, its own or of an ancestor,"
    if lack.kind is LackKind.GANG:
        return f"{_queue(lack.queue)}{_NEVER_ROOM if lack.never else _NOT_YET}{lack.why}"
    if lack.never and lack.kind is LackKind.DEVICES:
        return f"{_queue(lack.queue)}{_NEVER_ROOM}{_LACKS[lack.kind].format(whose=whose)}; {way_out(lack)}"
    if lack.never:
        return f"{_queue(lack.queue)}{_NEVER_ROOM}it requests more than {whose}; {_REQUEST_LESS}"
    why = _LACKS.get(lack.kind, _USED).format(whose=whose)
    if lack.together > 1:
        why = _ALL_OF.format(number=lack.together) + (
            f"{whose} has no room for all of them" if lack.kind is LackKind.CAPABILITY else why
        )
    return f"{_queue(lack.queue)}{_NO_ROOM}{why}; {way_out(lack)}"


def quoted_reason(condition: str, *, queue: str, podgroup: str) -> StartReason | None:
    """Read which of our texts the message of a pod's condition quotes; None: none for this queue or PodGroup.

    kube-scheduler writes what filter answered into its own sentence: `0/3 nodes are available: 3 TEXT. ...`.
    A text of another version of ours, in words that are not known here, counts as `QUEUE`.
    """
    _, is_quoted, rest = condition.partition(_queue(queue))
    if not is_quoted:
        return StartReason.NO_PODGROUP if _podgroup(podgroup) in condition else None
    if rest.startswith(_NO_PODS):
        return StartReason.NO_ACTION
    if rest.startswith((_NO_ROOM, _NEVER_ROOM, _NOT_YET)):
        return StartReason.NO_ROOM
    return StartReason.NOT_SELECTED if rest.startswith(_NOT_FOR_NAMESPACE) else StartReason.QUEUE


def quoted_lack(condition: str, *, queue: str) -> LackKind | None:
    """Read by which rule a pod of the queue has no room now, as the message of its condition quotes it; None:
    by none, or in words of another version.
    """
    _, _, rest = condition.partition(_queue(queue))
    if rest.startswith(_NOT_YET):
        return LackKind.GANG
    if not rest.startswith(_NO_ROOM):
        return None
    ends = {kind: text.rpartition("{whose}")[2] for kind, text in _LACKS.items()}
    return next((kind for kind, text in ends.items() if f"{text};" in rest), None)


def quoted_gang(condition: str, *, queue: str) -> str:
    """Read why the gang of a pod of the queue does not start, as the message of its condition quotes it; ""
    where it says something else.
    """
    _, _, rest = condition.partition(_queue(queue))
    for start in (_NOT_YET, _NEVER_ROOM):
        why = rest.removeprefix(start).partition(";")[0]
        if rest.startswith(start) and (start is _NOT_YET or why.startswith(_OF_GANGS)):
            return why
    return ""


def quoted_together(condition: str, *, queue: str) -> int:
    """Read how many pods start together with a pod that has no room, as its condition quotes it; itself
    included.
    """
    _, _, rest = condition.partition(_queue(queue))
    found = _TOGETHER.match(rest)
    return int(found[1]) if found else 1


def _queue(name: str) -> str:
    """How each text about a queue begins."""
    return f"queue {quoted(name)} "


def _podgroup(name: str) -> str:
    return f"PodGroup {quoted(name)} "


def with_retry_mark(text: str) -> str:
    """The text for a pod that kube-scheduler is asked to try once more; kube-scheduler writes over it."""
    return text + _RETRY_MARK


def has_retry_mark(text: str) -> bool:
    return text.endswith(_RETRY_MARK)


def truncate_warning(warning: str) -> str:
    """The warning, cut to what clients show."""
    return warning if len(warning) <= WARNING_LIMIT else warning[: WARNING_LIMIT - 1] + "…"


def _stop(cause: Cause) -> str:
    queue = _queue(cause.queue)
    ancestor = f"its ancestor {quoted(cause.by)}" if cause.by != cause.queue else ""
    of_window = f"window {printable(cause.window)}{' of ' if ancestor else ''}" if cause.window else ""
    match cause.kind:
        case CauseKind.SUSPENDED:
            return f"{queue}is Suspended" + (f" by {of_window}{ancestor}" if of_window or ancestor else "")
        case CauseKind.STOPPED:
            of = f" of {of_window}{ancestor}" if of_window or ancestor else ""
            return f"{queue}is stopped by stopPolicy {cause.policy}{of}"
        case CauseKind.BROKEN:
            return f"{queue}is Unknown: {cause.broken}"
        case CauseKind.NOT_FOUND | CauseKind.NO_PODGROUP:
            missing = queue if cause.kind is CauseKind.NOT_FOUND else _podgroup(cause.by)
            return f"{missing}does not exist"
        case CauseKind.CLOSED:
            return f"{queue}is Closed" + (f" by {ancestor}" if ancestor else "")
        case CauseKind.NOT_SELECTED:
            selector = f"the namespaceSelector of {ancestor or 'the queue'}"
            return f"{queue}{_NOT_FOR_NAMESPACE}{quoted(cause.namespace)}: {selector} {cause.unmet}"


def _until(cause: Cause) -> str:
    """The first whole minute at which the stop is over; "" where it does not end by itself."""
    if cause.until is None:
        return ""
    try:
        at = cause.until.astimezone(UTC) + _MINUTE - timedelta.resolution
    except OverflowError:  # after the year 9999
        return ""
    return f" until {at:%Y-%m-%d %H:%M} UTC"


def _who_can_act(cause: Cause, *, limit: int = NAME_LIMIT) -> str:
    """The way out for those whose pods wait: what they can do, or who can where only an admin of queues may.

    `limit`: of the characters of a name.
    """
    if cause.kind is CauseKind.NO_PODGROUP or not remedy_command(cause) or cause.way_out == TRY_AGAIN:
        return way_out_text(cause)
    which = "it" if cause.by == cause.queue else quoted(cause.by, limit=limit)
    match cause.kind:
        case CauseKind.BROKEN:
            return f"an admin of queues can mend {which}"
        case CauseKind.NOT_FOUND:
            return "name another queue, or have an admin of queues create it"
        case CauseKind.CLOSED:
            return f"an admin of queues can reopen {which}"
        case CauseKind.SUSPENDED | CauseKind.STOPPED:
            return f"an admin of queues can resume {which}"
        case CauseKind.NOT_SELECTED:
            return "use another queue, or have an admin of queues change that"


def _in_brackets(reason: str) -> str:
    line = printable(reason)
    return f" ({line})" if line else ""


def way_out_text(cause: Cause) -> str:
    """The way out as a text ends with it."""
    way_out = remedy_command(cause)
    if not way_out:
        return NAME_RULE
    match cause.kind:
        case CauseKind.BROKEN:
            return f"mend it with: {way_out}"
        case CauseKind.NOT_FOUND | CauseKind.NO_PODGROUP:
            return f"create it with: {way_out}"
        case CauseKind.CLOSED:
            return f"reopen it with: {way_out}"
        case CauseKind.SUSPENDED | CauseKind.STOPPED:
            return f"resume it with: {way_out}"
        case CauseKind.NOT_SELECTED:
            return way_out if way_out == TRY_AGAIN else f"use another queue, or change that with: {way_out}"


def remedy_command(cause: Cause) -> str:
    """The command that ends the cause; "" where the name in it cannot be an object's name."""
    if cause.kind is CauseKind.NO_PODGROUP:
        return "kubectl create -f PODGROUP"
    if cause.kind is CauseKind.NOT_SELECTED:
        return cause.way_out
    name = cause.queue if cause.kind is CauseKind.NOT_FOUND else cause.by
    return f"{_COMMANDS[cause.kind]} {name}" if valid_name(name) else ""


def way_out(cause: Cause | MissingAction | NoRoom) -> str:
    """What ends the cause: a command, or in words."""
    if isinstance(cause, NoRoom):
        if cause.kind is LackKind.GANG:
            return cause.why.rpartition("; ")[2]
        usual = _REQUEST_LESS if cause.never else _WAIT_FOR_ROOM
        return _ENDS_OF_LACKS.get(cause.kind, usual)
    if isinstance(cause, MissingAction):
        return _CHANGE_POLICY
    return remedy_command(cause) or NAME_RULE


_COMMANDS = {
    CauseKind.SUSPENDED: "kubectl queue resume",
    CauseKind.STOPPED: "kubectl queue resume",
    CauseKind.CLOSED: "kubectl queue open",
    CauseKind.NOT_FOUND: "kubectl queue create",
    CauseKind.BROKEN: "kubectl edit queue",
}
