"""The three ways in which a scheduler asks us about members (setting `mode`), and what each new member gets.

A mode decides what admission writes on **new** pods, and nothing else. How a pod that exists is asked about
stands on the pod, since its resources and its `schedulerName` cannot be changed. So replicas of two modes may
run side by side, and no member is rewritten or lost when the mode changes.

What admission writes on a member whose scheduler is named in setting `schedulers`:

| mode        | marker | `schedulerName`  | gate, while its queue does not schedule |
|-------------|--------|------------------|-----------------------------------------|
| `extender`  | yes    | stays            | yes                                     |
| `scheduler` | no     | `scheduler_name` | yes                                     |
| `gate`      | no     | stays            | yes                                     |

A member that names any other scheduler gets the gate alone, in every mode.

How a stored pod is asked about, whichever mode it was created in (`cluster.cache.members.is_filtered`):

| the pod                | who calls filter and preempt for it                   | a stop waits for        |
|------------------------|-------------------------------------------------------|-------------------------|
| requests the marker    | the scheduler that it names, if that has our entry;   | guard, open passes      |
|                        | without the entry no scheduler binds it               |                         |
| names `scheduler_name` | our own kube-scheduler, for each of its pods, where   | guard, open passes      |
|                        | setting `scheduler_config` says that it runs          |                         |
| neither                | nobody: gate and bind guard alone                     | guard, for some seconds |

Which parts know the mode:

| part                               | what it takes of it                                                |
|------------------------------------|--------------------------------------------------------------------|
| `webhooks.pods.pod_patch`          | the first table                                                    |
| membership                         | in mode `scheduler`, `scheduler_name` is one of `owned_schedulers` |
| the start (`server.own_scheduler`) | in mode `scheduler`, our kube-scheduler's configuration is checked |
| manifests (`manifests/ways`)       | the setting; in mode `scheduler` a second container and its        |
|                                    | rights, in mode `gate` the guard's failure policy                  |
| filter, preempt, prioritize, the   | nothing: they serve each pod as the second table says              |
| guard, the controller              |                                                                    |

Invariants
- In each mode a stop that is acknowledged holds for pods of all three rows: the guard is on wherever one of
  them could be bound.
- What no mode has for the third row: preempt is not called, so a pending pod of high priority may evict
  others although its queue is stopped; and scores and the actions of scheduling policies do not apply to it.
- With every replica down, or one that is dead and still called, the guard cannot answer. In mode `gate` its
  failure policy is Fail: no pod of a guarded namespace is bound, members or not. In the other modes, where
  a pod of the third row is of a scheduler that does not call us, it is Ignore: that pod is bound.

Changing from one mode to another:

| members that exist                         | what they need, until none of them waits               |
|--------------------------------------------|--------------------------------------------------------|
| gated                                      | the row below that fits them, once the gate is removed |
| gated for want of room in a quota          | the same, once they are released                       |
| with the marker (from `extender`)          | our entry in the configuration of their scheduler      |
| that name our scheduler (from `scheduler`) | our kube-scheduler goes on running                     |
| with neither (from `gate`)                 | nothing; the guard's failure policy is Ignore from     |
|                                            | then on                                                |
| running                                    | nothing; what replaces them is of the new mode         |

So the way of the new mode is set up first, then the mode is changed, and the old way is taken away once no
pod waits that needs it (docs/concepts/modes.md).
"""

from __future__ import annotations

from enum import StrEnum


class Mode(StrEnum):
    """How schedulers ask us about new members."""

    EXTENDER = "extender"
    SCHEDULER = "scheduler"
    GATE = "gate"


#: The scheduler name of our own kube-scheduler, unless a setting says otherwise.
SCHEDULER_NAME = "sluice"
