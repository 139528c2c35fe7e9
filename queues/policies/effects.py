"""What each action and plugin of Volcano does here; admission, `policy explain` and the docs show this table.

`PolicyPartEffect.APPLIED`: this server does it if a policy has it. `ALWAYS`: this server does it, whether a
policy has it or not. `KUBE_SCHEDULER`: kube-scheduler does it in any case. `NOT_YET`: read and checked, and
without effect so far. `NOT_HERE`: without effect, and not planned.

Invariant: the names are those that Volcano registers, in its versions 1.10 to 1.15. They are not always those
of the folders of its source: plugin `numa-aware` is in the folder numaaware.

Source: Volcano's `pkg/scheduler/plugins/factory.go`, `actions/factory.go`, `conf/scheduler_conf.go`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec


class PolicyPartEffect(enum.Enum):
    APPLIED = "applied"
    ALWAYS = "applied in any case"
    KUBE_SCHEDULER = "done by kube-scheduler"
    NOT_YET = "does nothing yet"
    NOT_HERE = "does nothing here"


class Meaning(msgspec.Struct, frozen=True):
    """What becomes of an action or plugin. `text`: a sentence without its full stop."""

    effect: PolicyPartEffect
    text: str


#: What has no effect, and is said where it is written.
WITHOUT_EFFECT = frozenset({PolicyPartEffect.NOT_YET, PolicyPartEffect.NOT_HERE})


ACTIONS: Mapping[str, Meaning] = {
    "enqueue": Meaning(
        PolicyPartEffect.APPLIED, "new pods wait as plugin overcommit says; without it, for nothing"
    ),
    "allocate": Meaning(PolicyPartEffect.APPLIED, "pods with resource requests may be scheduled"),
    "backfill": Meaning(PolicyPartEffect.APPLIED, "pods without resource requests may be scheduled"),
    "preempt": Meaning(PolicyPartEffect.APPLIED, "pods may evict others of their own queue"),
    "reclaim": Meaning(
        PolicyPartEffect.APPLIED,
        "pods may evict those of other queues: what their own queue deserves and another has borrowed",
    ),
    "shuffle": Meaning(PolicyPartEffect.NOT_HERE, "no plugin here names victims for it"),
    "gangpreempt": Meaning(PolicyPartEffect.NOT_HERE, "use preempt"),
    "gangreclaim": Meaning(PolicyPartEffect.NOT_HERE, "use reclaim"),
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
    "binpack": Meaning(PolicyPartEffect.APPLIED, "scores nodes: the fuller, the better"),
    "nodeorder": Meaning(PolicyPartEffect.APPLIED, "scores nodes by its weights"),
    "priority": Meaning(
        PolicyPartEffect.APPLIED,
        "victims of preempt have a lower priority than the pod; those of reclaim only with "
        "enableReclaimable: true",
    ),
    "conformance": Meaning(PolicyPartEffect.APPLIED, "system-critical pods are no victims"),
    "predicates": Meaning(PolicyPartEffect.KUBE_SCHEDULER, "its filters say which nodes fit"),
    "gang": Meaning(
        PolicyPartEffect.ALWAYS,
        "PodGroups are released whole in queues with a quota, and no eviction takes them below their "
        "minimum, as without it",
    ),
    "drf": Meaning(PolicyPartEffect.NOT_YET, "shares do not order queues or jobs"),
    "proportion": Meaning(
        PolicyPartEffect.APPLIED,
        "what the queues right below deserve is by weight: it orders them, and reclaim gives it back; it "
        "limits nothing",
    ),
    "capacity": Meaning(
        PolicyPartEffect.ALWAYS, "`capability`, `deserved` and `guarantee` count, as they do without it"
    ),
    "overcommit": Meaning(
        PolicyPartEffect.APPLIED,
        "with action enqueue, pods wait while its factor times what nodes have is let go",
    ),
    "cdp": Meaning(PolicyPartEffect.NOT_HERE, "pods have no cool-down against eviction"),
    "deviceshare": Meaning(PolicyPartEffect.NOT_HERE, "devices are shared by their own drivers"),
    "extender": Meaning(
        PolicyPartEffect.NOT_HERE, "extenders belong into the configuration of kube-scheduler"
    ),
    "network-topology-aware": Meaning(PolicyPartEffect.NOT_HERE, _OTHER_PREFERENCE),
    "nodegroup": Meaning(PolicyPartEffect.NOT_HERE, "`spec.affinity` of queues acts without it"),
    "numa-aware": Meaning(PolicyPartEffect.NOT_HERE, "the kubelet's topology manager does it on the node"),
    "pdb": Meaning(PolicyPartEffect.KUBE_SCHEDULER, "it prefers victims whose disruption budget allows it"),
    "rescheduling": Meaning(PolicyPartEffect.NOT_HERE, "running pods stay where they are"),
    "resource-strategy-fit": Meaning(PolicyPartEffect.NOT_HERE, "use binpack or nodeorder"),
    "resourcequota": Meaning(
        PolicyPartEffect.KUBE_SCHEDULER, "kube-apiserver checks ResourceQuota at admission"
    ),
    "sla": Meaning(PolicyPartEffect.NOT_HERE, "waiting pods do not gain priority"),
    "task-topology": Meaning(PolicyPartEffect.NOT_HERE, "use pod affinity in the pods"),
    "tdm": Meaning(PolicyPartEffect.NOT_HERE, "nodes have no hours"),
    "usage": Meaning(PolicyPartEffect.NOT_HERE, "scores count what is requested, not what is used"),
}

#: Switches of a plugin; each is on unless the policy says false, but `enableHierarchy`: on if it says true.
SWITCHES = frozenset(
    {
        *("enableJobOrder", "enableHierarchy", "enableJobReady", "enableJobPipelined", "enableTaskOrder"),
        *("enablePreemptable", "enableReclaimable", "enablePreemptive", "enableQueueOrder"),
        *("EnabledClusterOrder", "enablePredicate", "enableBestNode", "enableNodeOrder", "enableTargetJob"),
        *("enableReservedNodes", "enableJobEnqueued", "enabledVictim", "enableJobStarving"),
        *("enabledOverused", "enabledAllocatable", "enabledSubGroupOrder", "enableSubGroupOrder"),
        *("enabledHyperNodeOrder", "enabledHyperNodeGradient"),
        *("enabledSubJobReady", "enabledSubJobPipelined", "enabledSubJobOrder"),
    }
)

#: The switches that have an effect here, by plugin. `enableHierarchy` of `drf` is checked alone.
APPLIED_SWITCHES: Mapping[str, frozenset[str]] = {
    "binpack": frozenset({"enableNodeOrder"}),
    "nodeorder": frozenset({"enableNodeOrder"}),
    "priority": frozenset({"enablePreemptable", "enableReclaimable"}),
    "conformance": frozenset({"enablePreemptable", "enableReclaimable"}),
    "overcommit": frozenset({"enableJobEnqueued"}),
}
#: The plugins whose arguments are read.
WITH_ARGUMENTS = frozenset({"binpack", "nodeorder", "overcommit"})
#: Fields of a policy that Volcano reads and that have no effect here.
FIELDS_WITHOUT_EFFECT: Mapping[str, str] = {
    "configurations": "actions have no arguments here",
    "metrics": "plugin usage, which reads them, does nothing here",
}
