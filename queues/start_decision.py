"""Whether a pod may start now; if not: for which reason, who stops it, and what lets it go.

Filter, the webhooks of pods and the controller ask this one function, through `cluster.cache.decisions`,
which gathers the values. `kubectl queue why` asks it of what its user may read: policies it does not read, so
that a policy lacks an action is told by kube-scheduler's own words. What is made of the answer is in the last
two columns.

Invariants
- It is a function of values: each replica gives the same answer to the same values, at any time.
- The answer has the first reason of the table that holds. While that holds, to end a later one lets no pod
  go.
- The text is constant for a queue and a cause, and ends with the way out. kube-scheduler would retry a pod
  for ever whose text changes between two attempts.
- A pod of no queue is not asked about.

================  ===================================  ========================  =============  ============
reason            holds while                          who stops it (`cause`)    filter         the gate
================  ===================================  ========================  =============  ============
`NO_PODGROUP`     its PodGroup does not exist, so its  the PodGroup              refuses        stays
                  queue is not known
`NOT_SELECTED`    a selector of the chain does not     the queue with the        refuses        stays
                  select its namespace, or that is     selector
                  not known yet
`QUEUE`           its queue does not schedule, or      the queue of the chain    refuses        stays
                  does not exist                       that `Verdict.stop` has
`NO_ACTION`       its scheduling policy has no action  the queue that names the  refuses        goes
                  for it                               policy, or the job
`NO_ROOM`         the quota of its queue has no room   the queue of the chain    refuses        that of
                  for it, or was not asked             whose capability is full                 quotas stays
================  ===================================  ========================  =============  ============

Room is the leader's to give (`controller.quota`). It takes the gate of quotas off, and writes on the pod that
it was released; a pod without that, which pends without our gate since before there was a quota, is refused.
`keeps_gate` is about the gate of stops.

"The gate stays": a new pod gets our gate, the gate is not taken off, and the guard denies a bind where it is
on, as it does for `NO_ROOM`. A policy alone does neither: it says who is scheduled next, and stops nobody.

To add a reason: its row above, `StartReason`, its cause and its text (`queues.messages`, the parser beside it
too), an argument of `start_decision`, and what gathers its value (`Decisions.by_queue`). Where it keeps the
gate: the namespaces in which the guard is on for it (`controller.stops.bind_guard`), and who has its pods
looked at when it ends (`controller.pods.ungating`, `cluster.cache.refused_members`). For `why`:
`queues.why.case`.
"""

from __future__ import annotations

import msgspec

from queues.causes import Cause, MissingAction, NoRoom, StartReason, no_podgroup
from queues.messages import missing_action_text, no_room_text, pod_text
from queues.messages import way_out as way_out_of
from queues.snapshot import QueueDecision


class StartDecision(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The answer. Without a `reason` the pod may start. `text`: the whole sentence, with the way out."""

    reason: StartReason | None = None
    cause: Cause | MissingAction | NoRoom | None = None
    text: str = ""

    @property
    def may_start(self) -> bool:
        return self.reason is None

    @property
    def keeps_gate(self) -> bool:
        """Whether the last column says that the gate stays."""
        return self.reason not in {None, StartReason.NO_ACTION, StartReason.NO_ROOM}

    @property
    def denies_bind(self) -> bool:
        """Whether the guard denies a bind."""
        return self.reason not in {None, StartReason.NO_ACTION}

    @property
    def way_out(self) -> str:
        """What lets the pod go, unless another reason holds by then; "" where it may start."""
        return way_out_of(self.cause) if self.cause is not None else ""


MAY_START = StartDecision()


def start_decision(
    queue: QueueDecision | None,
    *,
    podgroup: str = "",
    made_by_leader: bool = False,
    missing: MissingAction | None = None,
    lack: NoRoom | None = None,
    text: str = "",
) -> StartDecision:
    """Whether a member may start.

    `queue`: what its queue decides for its namespace; None while its PodGroup, `podgroup`, does not exist.
    `made_by_leader`: the leader creates that (`queues.workload_gangs.is_made_by_leader`).
    `missing`: what its scheduling policy lacks. `lack`: why its quota has no room for it. `text`: the queue's
    own text, where its status has one that other replicas give too.
    """
    if queue is None:
        cause = no_podgroup(podgroup, by_leader=made_by_leader)
        return StartDecision(reason=StartReason.NO_PODGROUP, cause=cause, text=pod_text(cause))
    if not queue.schedules:
        reason = StartReason.QUEUE if queue.selected else StartReason.NOT_SELECTED
        return StartDecision(reason=reason, cause=queue.stop, text=text or queue.text)
    if missing is not None:
        return StartDecision(reason=StartReason.NO_ACTION, cause=missing, text=missing_action_text(missing))
    if lack is not None:
        return StartDecision(reason=StartReason.NO_ROOM, cause=lack, text=no_room_text(lack))
    return MAY_START
