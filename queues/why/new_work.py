"""What would be new work of an object: the second half of the answer of `kubectl queue why`.

The first half says whether what is there may start. A queue that takes nothing new refuses more of an object
than that (`queues.admission.accepted_work`, `webhooks.workloads.scaling`):

==========================================  ==================================================
object                                      what of it is new work
==========================================  ==================================================
a namespace that names the queue            what is created in it
a CronJob                                   the Jobs that it makes from now on
a workload with a number of replicas        replicas beyond those that it has; all, if it has none. What
                                            a drain keeps at zero has those that it gets back
a pod, a PodGroup, another workload         nothing: its pods are of accepted work
==========================================  ==================================================
"""

from __future__ import annotations

from queues.why.explanation import NAMESPACE, ObservedObject
from queues.workload_kinds import KINDS, Life

_SCALED = frozenset(kind.kind for kind in KINDS.values() if kind.life is Life.WHILE_SCALED)
#: They answer for no child: each is new work when it is made.
_MAKERS = frozenset(kind.kind for kind in KINDS.values() if not kind.answers_for_children)


def new_work(subject: ObservedObject) -> str:
    """What of the object would be new work, as the subject of a sentence in the plural; "" for none."""
    kind = subject.ref.kind
    if kind == NAMESPACE:
        return "new pods and workloads in it"
    if kind in _MAKERS:
        return "new Jobs of it"
    if kind not in _SCALED:
        return ""
    has_none = subject.idle_reason and not subject.kept_at_zero
    return "its first replicas" if has_none else "more replicas of it"
