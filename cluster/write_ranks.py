"""In which order writes are sent that wait for the same threads: one table for all who submit writes.

A write waits in one of the write queues that `controller.context` holds; the second column says in which
(W: `writers`, S: `status_writers`, G: `guard_writers`, D: `drain_writers`, L: those that list and read). Of
ranks that never wait in one of them the order says nothing.

| rank            | in   | what                                         | goes before the next, because      |
|-----------------|------|----------------------------------------------|------------------------------------|
| `BOOK`          | S W  | the book of releases; pods whose release is  | each release waits for it; one is  |
|                 |      | in doubt                                     | under way at a time                |
| `STOP`          | W G  | edits that begin or end a stop: Commands,    | what follows is derived from it;   |
|                 | D S  | edges of windows, `resumeAt`; the guard;     | one of a queue or of a namespace   |
|                 |      | retries of all pods after a resume; who      |                                    |
|                 |      | wrote a status; what drains read and suspend |                                    |
| `STATUS`        | S    | state and conditions of a queue              | an acknowledgement waits for it;   |
|                 |      |                                              | one of a queue that was edited     |
| `EVIDENCE`      | W S  | what acknowledgements wait for, one of each  | it is of a stop; what comes next   |
|                 | G L  | pod: labels, retries, volumes; lists, Leases | may be of any queue                |
| `POLICY`        | S    | a condition that says no more than which     | an edit of a policy changes it in  |
|                 |      | scheduling policy counts                     | all queues: it comes before counts |
| `RELEASE`       | W    | what has pods start: gates, releases,        | users wait for the pods; there     |
|                 |      | resumed workloads; nominations; whether a    | are thousands, so it comes after   |
|                 |      | queue is empty                               | stops                              |
| `EVICTION`      | D    | evictions                                    | room that others wait for          |
| `RECREATION`    | D    | pods deleted to be created with the gate     | they wait in either case           |
| `UPKEEP`        | W    | phases of PodGroups, labels of namespaces,   | other controllers act upon it      |
|                 |      | Leases of replicas that are gone             |                                    |
| `COUNTS`        | S W  | counts alone, of queues and PodGroups        | one of a queue, not of a pod       |
| `LABEL`         | W L  | labels that no stop waits for                | the pod is not seen before         |
| `POD_CONDITION` | W    | why a pod waits                              | users look there first             |
| `VICTIM`        | W    | for whom a pod was evicted                   | an event says the same             |
| `EVENT`         | W    | events                                       | they repeat what was written       |
| `GUARD_OFF`     | G    | the guard of namespaces that need it no more | the last: too much guard stops     |
|                 |      |                                              | nothing                            |

Of one rank the smaller `order` goes first (`WriteQueue.submit`), then what was submitted first. No rank waits
for ever (`cluster.waiting_writes`).
"""

from __future__ import annotations

from enum import IntEnum, auto


class WriteRank(IntEnum):
    """The smaller goes first."""

    BOOK = 0
    STOP = auto()
    STATUS = auto()
    EVIDENCE = auto()
    POLICY = auto()
    RELEASE = auto()
    EVICTION = auto()
    RECREATION = auto()
    UPKEEP = auto()
    COUNTS = auto()
    LABEL = auto()
    POD_CONDITION = auto()
    VICTIM = auto()
    EVENT = auto()
    GUARD_OFF = auto()
