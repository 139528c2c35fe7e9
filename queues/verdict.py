"""The one decision for a queue in its tree at a time.

Invariants
- A verdict depends on its arguments alone: the tree, the time, and whether a member of the queue or of a
  queue below it is live. The time ends what has a `resumeAt`; of change windows those are on that
  `spec.inWindow` names, whatever the time is. Every caller on every replica gets the same verdict.
- `accepts` and `schedules` do not depend on members, so request paths need no counts.
- A queue accepts unless a queue on its chain desires Closed, or is being deleted, or the chain is broken.
  What is being deleted is as if it desired Closed, and nothing opens it: it is named before any other.
- A queue schedules unless a queue on its chain desires Suspended or has a stop policy, or the chain is
  broken. A queue desires what its spec says, or a window of it that is on: the strictest counts, and on a tie
  the spec is named (`queues.windows.stops`). No window closes a queue, nor opens one.
- Of equal stop policies the topmost counts: with a policy of its own, and a drain that keeps more, no queue
  takes itself out of the drain of a queue above it.
- When the stop of an ancestor ends, the queue has again what it asked for itself: nothing of the ancestor is
  ever written on the queue.
- Where a queue does not schedule, `stop` says why; where it does not accept, `refusal` does. Each names one
  queue, the one to be changed.

`state` is the first that holds:

====  ======================================================================  =========
1     own desired state Open and the chain broken                             Unknown
2     a queue on the chain desires Closed, no member here or below is live    Closed
3     a queue on the chain desires Suspended                                  Suspended
4     a queue on the chain desires Closed                                     Closing
5     otherwise                                                               Open
====  ======================================================================  =========
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import msgspec

from queues.causes import Cause, CauseKind
from queues.queue import Queue
from queues.states import Desired, State, StopPolicy
from queues.tree import Chain, ChainBreak, Tree
from queues.windows.stops import WindowOn


class Verdict(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is true of a queue. `policy`: the strictest on the chain, which the queue `policy_by` has."""

    queue: str
    state: State
    accepts: bool
    schedules: bool
    drains: bool
    policy: StopPolicy
    policy_by: str = ""
    stop: Cause | None
    refusal: Cause | None
    broken: ChainBreak | None


def verdict(name: str, *, tree: Tree, live: bool, now: datetime) -> Verdict:
    """The verdict for the queue `name`; `live`: a member of it or of those below it is live.

    A queue that is not in the tree accepts, so that one file can hold a queue and its job, and
    does not schedule (`CauseKind.NOT_FOUND`).
    """
    if name not in tree:
        return _not_found(name, tree)
    chain = tree.chain(name)
    stop = with_contact(_stop(name, chain, now=now), tree)
    refusal = with_contact(_refusal(name, chain, now=now), tree)
    strictest = _strictest(chain, now=now)
    policy = strictest.stop_policy_at(now) if strictest else StopPolicy.NONE
    return Verdict(
        queue=name,
        state=_state(chain, live=live, now=now),
        accepts=refusal is None,
        schedules=stop is None,
        drains=policy is StopPolicy.HOLD_AND_DRAIN,
        policy=policy,
        policy_by=strictest.name if strictest else "",
        stop=stop,
        refusal=refusal,
        broken=chain.broken,
    )


def with_contact(cause: Cause | None, tree: Tree) -> Cause | None:
    """The cause with whom to ask about the queue that has to be changed."""
    contact = tree.contact_of(cause.by) if cause is not None else ""
    return msgspec.structs.replace(cause, contact=contact) if cause is not None and contact else cause


def _state(chain: Chain, *, live: bool, now: datetime) -> State:
    desired = [queue.desired_at(now) for queue in chain.queues]
    closes = any(queue.closes_at(now) for queue in chain.queues)
    if desired[0] is Desired.OPEN and not chain.queues[0].terminating and chain.broken:
        return State.UNKNOWN
    if closes and not live:
        return State.CLOSED
    if Desired.SUSPENDED in desired:
        return State.SUSPENDED
    if closes:
        return State.CLOSING
    return State.OPEN


def _stop(name: str, chain: Chain, *, now: datetime) -> Cause | None:
    """The cause to name: a broken chain, else the nearest suspension, else the strictest policy."""
    if chain.broken:
        return _broken(name, chain.broken)
    suspended = _nearest(chain, Desired.SUSPENDED, now=now)
    if suspended:
        on = suspended.window_on(suspended.stop_at(now).state_by)
        return suspension(name, suspended, on=on)
    strictest = _strictest(chain, now=now)
    if strictest is None:
        return None
    return held(name, strictest, on=strictest.policy_window(now))


def suspension(queue: str, by: Queue, *, on: WindowOn | None = None) -> Cause:
    """The cause of what `by`, which desires Suspended, stops; `on`: by this window."""
    return _with_end(Cause(kind=CauseKind.SUSPENDED, queue=queue, by=by.name), by, on=on)


def held(queue: str, by: Queue, *, on: WindowOn | None = None) -> Cause:
    """The cause of what `by`, which has a stop policy, stops; `on`: by this window."""
    policy = by.stop_policy if on is None else on.window.stop_policy
    return _with_end(Cause(kind=CauseKind.STOPPED, queue=queue, by=by.name, policy=policy), by, on=on)


def _with_end(cause: Cause, by: Queue, *, on: WindowOn | None) -> Cause:
    if on is None:
        return msgspec.structs.replace(cause, reason=by.reason, until=by.resume_time)
    window = on.window
    return msgspec.structs.replace(cause, window=window.name, reason=window.reason, until=on.until)


def is_by_window(name: str, *, tree: Tree, now: datetime) -> bool:
    """Whether nothing but change windows stops the queue: who does not know these does not stop it."""
    if name not in tree:
        return False
    chain = tree.chain(name)
    return not chain.broken and not any(
        queue.own_desired_at(now) is Desired.SUSPENDED or queue.own_stop_policy_at(now) is not StopPolicy.NONE
        for queue in chain.queues
    )


def own_stops(queue: str, by: Queue, *, now: datetime) -> Iterator[Cause]:
    """Each cause that `by` has by itself: its spec, then its windows."""
    if by.own_desired_at(now) is Desired.SUSPENDED:
        yield suspension(queue, by)
    elif by.own_stop_policy_at(now) is not StopPolicy.NONE:
        yield held(queue, by)
    for on in by.windows_on:
        if on.window.state is Desired.SUSPENDED:
            yield suspension(queue, by, on=on)
        elif on.window.stop_policy is not StopPolicy.NONE:
            yield held(queue, by, on=on)


def _refusal(name: str, chain: Chain, *, now: datetime) -> Cause | None:
    leaving = next((queue for queue in chain.queues if queue.terminating), None)
    if leaving:
        return Cause(kind=CauseKind.TERMINATING, queue=name, by=leaving.name)
    closed = _nearest(chain, Desired.CLOSED, now=now)
    if closed:
        return Cause(kind=CauseKind.CLOSED, queue=name, by=closed.name, reason=closed.reason)
    return _broken(name, chain.broken) if chain.broken else None


def _nearest(chain: Chain, desired: Desired, *, now: datetime) -> Queue | None:
    return next((queue for queue in chain.queues if queue.desired_at(now) is desired), None)


def _strictest(chain: Chain, *, now: datetime) -> Queue | None:
    """The queue whose stop policy is strictest, the topmost of equals; None if none has one."""
    strictest = max(reversed(chain.queues), key=lambda queue: queue.stop_policy_at(now).strictness)
    return strictest if strictest.stop_policy_at(now) is not StopPolicy.NONE else None


def _broken(name: str, broken: ChainBreak) -> Cause:
    return Cause(kind=CauseKind.BROKEN, queue=name, by=broken.child, broken=broken)


def _not_found(name: str, tree: Tree) -> Verdict:
    cause = with_contact(Cause(kind=CauseKind.NOT_FOUND, queue=name, by=name), tree)
    return Verdict(
        queue=name,
        state=State.UNKNOWN,
        accepts=True,
        schedules=False,
        drains=False,
        policy=StopPolicy.NONE,
        stop=cause,
        refusal=None,
        broken=None,
    )
