"""What each action and plugin of Volcano does here; admission, `policy explain` and the docs show this table.

`Effect.APPLIED`: done by this server. `KUBE_SCHEDULER`: kube-scheduler does it in any case. `NOT_YET`: read
and checked, and without effect so far. `NOT_HERE`: without effect, and not planned.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec


class Effect(enum.Enum):
    APPLIED = "applied"
    KUBE_SCHEDULER = "done by kube-scheduler"
    NOT_YET = "does nothing yet"
    NOT_HERE = "does nothing here"


class Meaning(msgspec.Struct, frozen=True):
    """What becomes of an action or plugin. `text`: a sentence without its full stop."""

    effect: Effect
    text: str


ACTIONS: Mapping[str, Meaning] = {
    "enqueue": Meaning(Effect.APPLIED, "new pods wait as plugin overcommit says; without it, for nothing"),
    "allocate": Meaning(Effect.APPLIED, "pods with resource requests may be scheduled"),
    "backfill": Meaning(Effect.APPLIED, "pods without resource requests may be scheduled"),
    "preempt": Meaning(Effect.APPLIED, "pods may evict others of their own queue"),
    "reclaim": Meaning(
        Effect.APPLIED,
        "pods may evict those of other queues: what their own queue deserves and another has borrowed",
    ),
    "shuffle": Meaning(Effect.NOT_HERE, "no plugin here names victims for it"),
}

#: What it means that a policy has not one of these actions; without the others it lacks nothing.
MISSING_ACTIONS: Mapping[str, str] = {
    "allocate": "pods with resource requests are not scheduled",
    "backfill": "pods without resource requests are not scheduled",
    "preempt": "pods may not evict others of their own queue",
    "reclaim": "pods may not evict those of other queues",
}

_OTHER_PREFERENCE = "kube-scheduler's own plugins place pods"

PLUGINS: Mapping[str, Meaning] = {
    "binpack": Meaning(Effect.APPLIED, "scores nodes: the fuller, the better"),
    "nodeorder": Meaning(Effect.APPLIED, "scores nodes by its weights"),
    "priority": Meaning(Effect.APPLIED, "victims have a lower priority than the pod that evicts them"),
    "conformance": Meaning(Effect.APPLIED, "system-critical pods are no victims"),
    "predicates": Meaning(Effect.KUBE_SCHEDULER, "its filters say which nodes fit"),
    "gang": Meaning(Effect.APPLIED, "in queues with a quota PodGroups are released whole, as without it"),
    "drf": Meaning(Effect.NOT_YET, "shares do not order queues or jobs"),
    "proportion": Meaning(
        Effect.APPLIED, "what the queues right below deserve is by weight; it orders them, and limits nothing"
    ),
    "capacity": Meaning(
        Effect.APPLIED, "`capability`, `deserved` and `guarantee` count, as they do without it"
    ),
    "overcommit": Meaning(
        Effect.APPLIED, "with action enqueue, pods wait while its factor times what nodes have is let go"
    ),
    "cdp": Meaning(Effect.NOT_HERE, "pods have no cool-down against eviction"),
    "deviceshare": Meaning(Effect.NOT_HERE, "devices are shared by their own drivers"),
    "extender": Meaning(Effect.NOT_HERE, "extenders belong into the configuration of kube-scheduler"),
    "network-topology-aware": Meaning(Effect.NOT_HERE, _OTHER_PREFERENCE),
    "nodegroup": Meaning(Effect.NOT_HERE, "`spec.affinity` of queues acts without it"),
    "numaaware": Meaning(Effect.NOT_HERE, "the kubelet's topology manager does it on the node"),
    "pdb": Meaning(Effect.KUBE_SCHEDULER, "it prefers victims whose disruption budget allows it"),
    "rescheduling": Meaning(Effect.NOT_HERE, "running pods stay where they are"),
    "resource-strategy-fit": Meaning(Effect.NOT_HERE, "use binpack or nodeorder"),
    "resourcequota": Meaning(Effect.KUBE_SCHEDULER, "kube-apiserver checks ResourceQuota at admission"),
    "sla": Meaning(Effect.NOT_HERE, "waiting pods do not gain priority"),
    "task-topology": Meaning(Effect.NOT_HERE, "use pod affinity in the pods"),
    "tdm": Meaning(Effect.NOT_HERE, "nodes have no hours"),
    "usage": Meaning(Effect.NOT_HERE, "scores count what is requested, not what is used"),
}

#: Switches of a plugin; each is on unless the policy says false, but `enableHierarchy`: on if it says true.
SWITCHES = frozenset(
    {
        *("enableJobOrder", "enableHierarchy", "enableJobReady", "enableJobPipelined", "enableTaskOrder"),
        *("enablePreemptable", "enableReclaimable", "enablePreemptive", "enableQueueOrder"),
        *("EnabledClusterOrder", "enablePredicate", "enableBestNode", "enableNodeOrder", "enableTargetJob"),
        *("enableReservedNodes", "enableJobEnqueued", "enabledVictim", "enableJobStarving"),
        *("enabledOverused", "enabledAllocatable", "enabledSubGroupOrder", "enableSubGroupOrder"),
    }
)
