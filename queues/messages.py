"""The texts of pod conditions, filter answers, events and denials: one wording for each cause.

`queues.why.explain` has the sentences of `kubectl queue why`; it takes the causes from here.

Promises
- A text is a function of its arguments: the same queue and cause give the same bytes on every replica at any
  time. kube-scheduler depends on that: a text that changed between attempts would make it retry the pod for
  ever.
- What a user wrote (a reason) is shown on one line, without control characters, cut to `text.REASON_LIMIT`.
- The end of a stop is a date and a time in UTC, without seconds where they are zero: never how long that is
  from now.
- Each text ends with the way out. For those who administer queues (`stop_text`, denials) that is a command.
  For those whose pods wait (`pod_text`, warnings) it says who can act, where they themselves may not: the
  contact that the admins of the queue have set (`queues.contacts`), or an admin of queues.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from queues.causes import TRY_AGAIN, Cause, CauseKind, MissingAction, NoRoom, StartReason
from queues.contacts import ADMIN, CONTACT_LIMIT
from queues.membership import QueueConflict, valid_name
from queues.quota.gang_turns import CLUSTER
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
#: The rules that say in words why, and what lets the pod go.
_IN_WORDS = frozenset({LackKind.GANG, LackKind.GATE})
_OTHER_GATE = "scheduling gate "
#: How the words begin with which a gang says that it never starts.
_OF_GANGS = ("with its PodGroup", "of its PodGroup")
_TOGETHER = re.compile(f"{_NO_ROOM}{_ALL_OF}".replace("{number}", "([0-9]{1,9})"), re.ASCII)
#: How kube-scheduler goes on after what filter said.
_AFTER_FILTER = ". preemption: "
_KEPT = "; nobody goes for it: "
_REQUEST_LESS = "request less, or have {admin} raise it"
_WAIT_FOR_ROOM = "it goes when others end, or {admin} raises it"
_USED = "{whose} is used"
#: What lacks by another rule than the capability, and what would let the pod go then.
_LACKS = {
    LackKind.GUARANTEES: "what is left of {whose} is kept for what other queues are guaranteed",
    LackKind.CLAIM: "what is left of {whose} is claimed by a pod that has waited longer",
    LackKind.GIVEN_BACK: "pods are being evicted to give it what its queue deserves",
    LackKind.OVERCOMMIT: "as much waits for nodes already as plugin overcommit of its policy allows",
    LackKind.TURN: "its gang got too few nodes before: of such gangs in {whose} one is tried at a time",
    LackKind.DEVICES: "{whose} names devices of a class, and what this pod claims cannot be counted",
    LackKind.CLAIM_ABSENT: "{whose} names devices of a class, and a claim of this pod is not there",
    LackKind.CLAIMS_UNREAD: "{whose} names devices of a class, and no claims are known",
    LackKind.BOOK: "nothing is released, since the server cannot write its book of releases",
}
_ENDS_OF_LACKS = {
    LackKind.CLAIM: "it goes after that one, or {admin} raises it",
    LackKind.GIVEN_BACK: "it goes once they have ended",
    LackKind.OVERCOMMIT: "it goes when others end, or nodes are added",
    LackKind.TURN: "it goes in its turn, and each lasts 10 minutes at most",
    LackKind.DEVICES: "claim a number of devices, or have {admin} limit the number of claims instead",
    LackKind.CLAIM_ABSENT: "it goes once the claim is there and has room",
    LackKind.CLAIMS_UNREAD: "condition QuotaEnforced of the queue says why",
    LackKind.BOOK: "it goes once an admin of Sluice has mended that (kubectl queue status)",
}
_CHANGE_POLICY = "add the action to the policy, or name another policy"
#: The last second of the calendar: who writes it means never.
_LAST = datetime.max.replace(microsecond=0, tzinfo=UTC)
#: Clients cut longer warnings.
WARNING_LIMIT = 119
#: Characters to which a warning cuts a reason, a name, and a contact, at the most; with less room a longer
#: reason is left out.
_SHORTEST_REASON, _SHORTEST_NAME, _SHORTEST_CONTACT = 20, 8, 24


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


def two_names_warning(names: QueueConflict) -> str:
    """The admission warning for one object with two names of queues, of which the first counts."""
    counts, not_this = (quoted(each.queue or "", limit=18) for each in (names.first, names.second))
    return truncate_warning(f"it names two queues; {names.first.source} counts: {counts}, not {not_this}")


def waiting_warning(cause: Cause, *, what: str = "this waits") -> str:
    """The admission warning for what is admitted and has to wait. `what`: what waits, with its verb.

    Where the text is long, who can act goes first, then the end of the reason, then what waits, then all of
    the reason. Who can act comes back where there is no reason. Until when the queue is stopped always stays.
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
    """The warning without who can act. The whole reason, first with what waits; else the reason cut to what
    fits. Nothing where that is too little.
    """
    line = printable(reason)
    rooms = [(WARNING_LIMIT - len(f"{stop} (){end}"), end) for end in (f": {what}", "")]
    for least in (len(line), _SHORTEST_REASON):
        for room, end in rooms:
            if line and room >= least:
                yield f"{stop} ({printable(reason, limit=room)}){end}"


def _with_short_names(cause: Cause) -> str:
    """The warning with its names cut."""
    kind, name, what = "queue", cause.queue, f": {cause.kind}"
    if cause.kind is CauseKind.STOPPED:
        what = f" is stopped ({cause.policy})"
    if cause.kind is CauseKind.NO_PODGROUP:
        kind, name, what = "PodGroup", cause.by, " does not exist"
    what += _until(cause)
    short = _SHORTEST_CONTACT
    room = WARNING_LIMIT - len(f'{kind} ""{what}: {_who_can_act(cause, limit=0, contact=short)}')
    names = 1 if cause.by in {name, ""} else 2
    limit = max(_SHORTEST_NAME, room // names)
    who = _who_can_act(cause, limit=limit, contact=short)
    return f"{kind} {quoted(name, limit=limit)}{what}: {who}"


def refusal_text(cause: Cause, *, state: State, kind: str = "pods") -> str:
    """Why a queue accepts nothing new, and the way out. `state`: what it shows."""
    return f"{refusal_summary(cause, state=state, kind=kind)}; {way_out_text(cause)}"


def refusal_summary(cause: Cause, *, state: State, kind: str) -> str:
    """Why a queue accepts nothing new. `state`: what it shows: Closing, Closed, Suspended or Unknown."""
    if cause.kind is CauseKind.NOT_SELECTED:
        return stop_summary(cause)
    if cause.kind is CauseKind.BROKEN:
        return f"{_stop(cause)} and takes no new {kind}"
    if cause.kind is CauseKind.TERMINATING:
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


def other_gate_text(gate: str) -> str:
    """Why a pod with a scheduling gate of somebody else is not asked for."""
    return f"{_OTHER_GATE}{quoted(gate)} keeps it from nodes; it is asked for once that gate is gone"


def is_other_gate_text(text: str) -> bool:
    return text.startswith(_OTHER_GATE)


def no_room_text(lack: NoRoom) -> str:
    """Why a pod waits for room, and what would let it go."""
    whose = "its capability" if lack.by == lack.queue else f"the capability of its ancestor {quoted(lack.by)}"
    whose = whose if lack.by else "a capability, its own or of an ancestor,"
    if lack.kind is LackKind.TURN:
        whose = _turn_scope(lack)
    if lack.kind in _IN_WORDS:
        return f"{_queue(lack.queue)}{_NEVER_ROOM if lack.never else _NOT_YET}{lack.why}"
    if lack.never and lack.kind is LackKind.DEVICES:
        return f"{_queue(lack.queue)}{_NEVER_ROOM}{_LACKS[lack.kind].format(whose=whose)}; {way_out(lack)}"
    if lack.never:
        return f"{_queue(lack.queue)}{_NEVER_ROOM}it requests more than {whose}; {_request_less(lack)}"
    why = _LACKS.get(lack.kind, _USED).format(whose=whose)
    if lack.together > 1:
        why = _ALL_OF.format(number=lack.together) + (
            f"{whose} has no room for all of them" if lack.kind is LackKind.CAPABILITY else why
        )
    kept = f"{_KEPT}{lack.kept}" if lack.kept else ""
    return f"{_queue(lack.queue)}{_NO_ROOM}{why}{kept}; {way_out(lack)}"


def _request_less(lack: NoRoom) -> str:
    return _REQUEST_LESS.format(admin=lack.contact or ADMIN)


def _turn_scope(lack: NoRoom) -> str:
    """Among which gangs one is tried at a time."""
    if lack.by == CLUSTER:
        return "the cluster with pods on nodes"
    return "its queue" if lack.by == lack.queue else f"its ancestor {quoted(lack.by)}"


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
        return LackKind.GATE if rest.startswith(_NOT_YET + _OTHER_GATE) else LackKind.GANG
    if not rest.startswith(_NO_ROOM):
        return None
    ends = {kind: text.rpartition("{whose}")[2] for kind, text in _LACKS.items()}
    return next((kind for kind, text in ends.items() if f"{text};" in rest), None)


def quoted_kept(condition: str, *, queue: str) -> str:
    """Read who could go for a pod that has no room, and which rules keep them, as the message of its
    condition quotes it; "" where it does not.
    """
    _, _, rest = condition.partition(_queue(queue))
    return rest.partition(_KEPT)[2].partition(";")[0] if rest.startswith(_NO_ROOM) else ""


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


class QuotedNoRoom(NamedTuple):
    """Why a pod has no room, and what would let it go. `never`: the first does not change by itself."""

    why: str = ""
    way_out: str = ""
    never: bool = False


def quoted_no_room(condition: str, *, queue: str) -> QuotedNoRoom:
    """Read why a pod of the queue has no room, as the message of its condition quotes it; nothing where it
    says something else.
    """
    _, _, rest = condition.partition(_queue(queue))
    for start in (_NO_ROOM, _NEVER_ROOM):
        if rest.startswith(start):
            said = rest.removeprefix(start).partition(_AFTER_FILTER)[0]
            end = said.rpartition("; ")[2] if "; " in said else ""
            return QuotedNoRoom(said.partition(";")[0], end, start is _NEVER_ROOM)
    return QuotedNoRoom()


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
        case CauseKind.CLOSED | CauseKind.TERMINATING:
            how, by = _ENDS[cause.kind]
            return f"{queue}{how}" + (f" {by} {ancestor}" if ancestor else "")
        case CauseKind.NOT_SELECTED:
            selector = f"the namespaceSelector of {ancestor or 'the queue'}"
            return f"{queue}{_NOT_FOR_NAMESPACE}{quoted(cause.namespace)}: {selector} {cause.unmet}"


def _until(cause: Cause) -> str:
    """When the stop is over, to the second as everywhere; "" where it does not end by itself."""
    if cause.until is None:
        return ""
    try:
        at = cause.until.astimezone(UTC)
    except OverflowError:  # after the year 9999
        return ""
    if at.replace(microsecond=0) == _LAST:
        return ""
    return f" until {at:%Y-%m-%d %H:%M:%S} UTC" if at.second else f" until {at:%Y-%m-%d %H:%M} UTC"


def _who_can_act(cause: Cause, *, limit: int = NAME_LIMIT, contact: int = CONTACT_LIMIT) -> str:
    """The way out for those whose pods wait: what they can do, or who can where only an admin of queues may.

    `limit`: of the characters of a name. `contact`: of those of a contact.
    """
    if cause.kind is CauseKind.NO_PODGROUP or not remedy_command(cause) or cause.way_out == TRY_AGAIN:
        return way_out_text(cause)
    which = "it" if cause.by == cause.queue else quoted(cause.by, limit=limit)
    whom = printable(cause.contact, limit=contact) if cause.contact else ADMIN
    match cause.kind:
        case CauseKind.NOT_FOUND:
            return f"name another queue, or have {whom} create it"
        case CauseKind.TERMINATING:
            return "use another queue"
        case CauseKind.BROKEN | CauseKind.CLOSED | CauseKind.SUSPENDED | CauseKind.STOPPED:
            return f"{whom} can {_REMEDIES[cause.kind]} {which}"
        case CauseKind.NOT_SELECTED:
            return f"use another queue, or have {whom} change that"


def _in_brackets(reason: str) -> str:
    line = printable(reason)
    return f" ({line})" if line else ""


def way_out_text(cause: Cause) -> str:
    """The way out as a text ends with it."""
    way_out = remedy_command(cause)
    if not way_out:
        return NAME_RULE
    match cause.kind:
        case CauseKind.NOT_FOUND | CauseKind.NO_PODGROUP:
            return way_out if cause.way_out else f"create it with: {way_out}"
        case CauseKind.TERMINATING:
            return f"use another queue, or once it is gone create it with: {way_out}"
        case CauseKind.BROKEN | CauseKind.CLOSED | CauseKind.SUSPENDED | CauseKind.STOPPED:
            return f"{_REMEDIES[cause.kind]} it with: {way_out}"
        case CauseKind.NOT_SELECTED:
            return way_out if way_out == TRY_AGAIN else f"use another queue, or change that with: {way_out}"


def remedy_command(cause: Cause) -> str:
    """The command that ends the cause; "" where the name in it cannot be an object's name."""
    if cause.kind is CauseKind.NO_PODGROUP:
        return cause.way_out or "kubectl create -f PODGROUP"
    if cause.kind is CauseKind.NOT_SELECTED:
        return cause.way_out
    name = cause.queue if cause.kind is CauseKind.NOT_FOUND else cause.by
    return f"{_COMMANDS[cause.kind]} {name}" if valid_name(name) else ""


def way_out(cause: Cause | MissingAction | NoRoom) -> str:
    """What ends the cause: a command, or in words."""
    if isinstance(cause, NoRoom):
        if cause.kind in _IN_WORDS:
            return cause.why.rpartition("; ")[2]
        usual = _REQUEST_LESS if cause.never else _WAIT_FOR_ROOM
        return _ENDS_OF_LACKS.get(cause.kind, usual).format(admin=cause.contact or ADMIN)
    if isinstance(cause, MissingAction):
        return _CHANGE_POLICY
    return remedy_command(cause) or NAME_RULE


#: What ends the cause.
_REMEDIES = {
    CauseKind.SUSPENDED: "resume",
    CauseKind.STOPPED: "resume",
    CauseKind.CLOSED: "reopen",
    CauseKind.BROKEN: "mend",
}
#: What a queue that takes nothing more is, and how an ancestor stands to that.
_ENDS = {CauseKind.CLOSED: ("is Closed", "by"), CauseKind.TERMINATING: ("is being deleted", "with")}
_COMMANDS = {
    CauseKind.SUSPENDED: "kubectl queue resume",
    CauseKind.STOPPED: "kubectl queue resume",
    CauseKind.CLOSED: "kubectl queue open",
    CauseKind.TERMINATING: "kubectl queue create",
    CauseKind.NOT_FOUND: "kubectl queue create",
    CauseKind.BROKEN: "kubectl edit queue",
}
