"""The labels and annotations of Volcano and Kueue, each in one row: where it acts, and what to use instead.

| effect    | the key                                                                  | who sets it is |
|-----------|--------------------------------------------------------------------------|----------------|
| ACTS      | acts in the places of its row, in the form of its row; nowhere else      | not warned     |
| IGNORED   | is not read                                                              | warned         |
| WRITTEN   | is written by a controller of Volcano or Kueue, or by Sluice             | not warned     |
| FOR_AGENT | is read on each node by Volcano's agent, which runs beside Sluice or not | not warned     |

Sources: `pkg/apis/scheduling/v1beta1/labels.go`, `pkg/apis/batch/v1alpha1/labels.go` and
`pkg/apis/topology/v1alpha1` of volcano.sh/apis, the plugins and `pkg/scheduler/api/well_known_labels.go` of
volcano.sh/volcano v1.15.0, and Kueue's page *Labels and Annotations*. A test reads the constants of the
modules in the versions that `localcluster.go_modules` pins.
`docs/reference/keys-of-others.md` shows the table; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

import msgspec

from queues import well_known
from queues.membership import GROUP_ANNOTATION, KUEUE_LABEL, TASK, VOLCANO_ANNOTATION, VOLCANO_LABEL


class Place(StrEnum):
    """Where a key stands. `TEMPLATE`: the metadata of a pod template; the pods of it are not warned again."""

    POD = "pod"
    TEMPLATE = "pod template"
    WORKLOAD = "workload"
    MAKER = "CronJob, JobSet or Volcano's Job"
    PODGROUP = "PodGroup"
    QUEUE = "queue"
    NAMESPACE = "namespace"
    NODE = "node"


class Form(StrEnum):
    LABEL = "label"
    ANNOTATION = "annotation"


class KeyEffect(StrEnum):
    """What the key does (the table of the module)."""

    ACTS = "acts"
    IGNORED = "ignored"
    WRITTEN = "written"
    FOR_AGENT = "for agent"


class MetadataKey(msgspec.Struct, frozen=True, kw_only=True):
    """One row. `places`: where it acts, by form; empty unless `effect` is ACTS. `does`: what it does here, or
    in Volcano or Kueue. `instead`: what to use, at most 60 characters; "" where there is nothing.
    `names_queue`: it says to which queue or gang something belongs, so that in a wrong place stops miss that.
    """

    name: str
    effect: KeyEffect
    does: str
    instead: str = ""
    places: Mapping[Form, frozenset[Place]] = {}
    names_queue: bool = False


_WORK = frozenset({Place.POD, Place.TEMPLATE, Place.WORKLOAD, Place.MAKER})
_PODS = frozenset({Place.POD, Place.TEMPLATE})
_A, _L = Form.ANNOTATION, Form.LABEL
#: Makes a gang of the pods of a workload.
GROUP_MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
#: Whether pods may be evicted for others; annotation, or label.
PREEMPTABLE = "volcano.sh/preemptable"
_AFFINITY = "write affinity into the pod template"
_PODGROUP = "write a PodGroup; annotation scheduling.k8s.io/group-name"


def _acts(
    name: str, does: str, *, instead: str = "", names_queue: bool = False, **places: frozenset[Place]
) -> MetadataKey:
    return MetadataKey(
        name=name,
        effect=KeyEffect.ACTS,
        does=does,
        instead=instead,
        names_queue=names_queue,
        places={Form(form): where for form, where in places.items()},
    )


def _ignored(name: str, does: str, instead: str = "", *, names_queue: bool = False) -> MetadataKey:
    return MetadataKey(
        name=name, effect=KeyEffect.IGNORED, does=does, instead=instead, names_queue=names_queue
    )


def _written(name: str, does: str) -> MetadataKey:
    return MetadataKey(name=name, effect=KeyEffect.WRITTEN, does=does)


def _for_agent(name: str, does: str) -> MetadataKey:
    return MetadataKey(name=name, effect=KeyEffect.FOR_AGENT, does=does)


_ROWS = (
    # Which queue, which gang
    _acts(
        VOLCANO_ANNOTATION,
        "names the queue",
        annotation=_WORK | {Place.NAMESPACE},
        names_queue=True,
    ),
    _acts(VOLCANO_LABEL, "names the queue", annotation=_WORK, label=_WORK, names_queue=True),
    _acts(
        KUEUE_LABEL,
        "names the queue, with setting `kueue_label`; without it nothing",
        label=_WORK,
        names_queue=True,
    ),
    _acts(
        GROUP_ANNOTATION,
        "names the PodGroup, and so the queue",
        annotation=_WORK,
        names_queue=True,
    ),
    _ignored(
        "scheduling.volcano.sh/group-name",
        "names the PodGroup for devices that pods share",
        "write annotation scheduling.k8s.io/group-name",
        names_queue=True,
    ),
    _acts(
        GROUP_MIN_MEMBER,
        "makes a PodGroup of the pods of a Deployment, ReplicaSet, StatefulSet, DaemonSet or Job, with this "
        "`minMember`",
        annotation=frozenset({Place.WORKLOAD}),
    ),
    _ignored(
        "scheduling.volcano.sh/group-min-resources",
        "what the PodGroup of a workload requests at least",
        "write spec.minResources into a PodGroup",
    ),
    _ignored(
        "scheduling.volcano.sh/queue-allocation-gate",
        "has Volcano gate the pod until its queue has room",
        "none is needed: queues with a capability gate their pods",
    ),
    _acts(TASK, "names the task of the pod, for `minTaskMember`", annotation=_PODS, label=_PODS),
    # Who may be evicted
    _acts(
        PREEMPTABLE,
        "`false`: no pod of it is evicted for others",
        annotation=_WORK | {Place.PODGROUP},
        label=_WORK | {Place.PODGROUP},
    ),
    _ignored("volcano.sh/cooldown-time", "keeps a pod from eviction for this time after its start"),
    _ignored(
        "volcano.sh/revocable-zone", "gives nodes to preemptable pods for some hours", "taint these nodes"
    ),
    _ignored("volcano.sh/jdb-min-available", "the pods of a job that stay", "write a PodDisruptionBudget"),
    _ignored(
        "volcano.sh/jdb-max-unavailable", "the pods of a job that may go", "write a PodDisruptionBudget"
    ),
    # Order
    _ignored("volcano.sh/sla-waiting-time", "has the job go first after this time", "use a PriorityClass"),
    _ignored("sla-waiting-time", "the same, as older versions have it", "use a PriorityClass"),
    _ignored("volcano.sh/task-priority", "the order of the pods of one job", "use priorityClassName"),
    _ignored("volcano.sh/scheduling-priority", "the order of its agent scheduler", "use priorityClassName"),
    _written("volcano.sh/scheduling-priority-reason", "why Volcano gave that order"),
    _written("volcano.sh/scheduling-priority-timestamp", "when Volcano gave that order"),
    # Which nodes
    _acts(
        well_known.SCHEDULER_POLICY,
        "names the scheduling policy of the pods",
        annotation=_WORK,
    ),
    _acts("volcano.sh/nodegroup-name", "the node group of a node", label=frozenset({Place.NODE})),
    _ignored(
        "volcano.sh/numa-topology-policy", "the NUMA policy of a pod", "set the kubelet's Topology Manager"
    ),
    _written("volcano.sh/topology-decision", "the NUMA nodes that Volcano chose"),
    _ignored("volcano.sh/task-topology", "which tasks of a job go together", _AFFINITY),
    _ignored("volcano.sh/task-topology-affinity", "which tasks of a job go together", _AFFINITY),
    _ignored("volcano.sh/task-topology-anti-affinity", "which tasks go apart", _AFFINITY),
    _ignored("volcano.sh/task-topology-task-order", "which task is placed first", "use priorityClassName"),
    _ignored("volcano.sh/network-topology-mode", "keeps a job in one HyperNode", _AFFINITY),
    _ignored("volcano.sh/network-topology-highest-tier", "how far its HyperNodes may be apart", _AFFINITY),
    _ignored(
        "volcano.sh/resource-strategy-scoring-type", "how nodes are scored", "write a scheduling policy"
    ),
    _ignored("volcano.sh/resource-strategy-weight", "how nodes are scored", "write a scheduling policy"),
    _ignored(
        "volcano.sh/resource-group", "the resource group, which names nodes and queue", "name the queue"
    ),
    _ignored("volcano.sh/vgpu-mode", "how a GPU is shared", "use the vendor's device plugin"),
    _ignored(
        "volcano.sh/vgpu-podgroup-policy", "how pods of a job share GPUs", "use the vendor's device plugin"
    ),
    # Other clusters
    _ignored("volcano.sh/job-forwarding", "has the job go to another cluster"),
    _ignored("volcano.sh/forward-cluster", "the cluster that the job goes to"),
    _ignored("volcano.sh/burst-name", "the name in the other cluster"),
    _ignored("volcano.sh/silo-resource", "keeps a resource in this cluster"),
    # Queues
    _ignored("volcano.sh/hierarchy", "the path of the queue", "name the parent of the queue in spec.parent"),
    _ignored(
        "volcano.sh/hierarchy-weights",
        "the weights on that path",
        "name the parent of the queue in spec.parent",
    ),
    _ignored(
        "volcano.sh/nodegroup-resource-limits",
        "how much of each node group the queue may use",
        "write spec.capability",
    ),
    _written("volcano.sh/closed-by-parent", "Volcano closed the queue with its parent"),
    # What Volcano writes on pods
    *(
        _written(f"volcano.sh/{name}", does)
        for name, does in (
            ("job-name", "the job of the pod"),
            ("job-namespace", "the namespace of the job"),
            ("job-version", "the version of the job"),
            ("job-type", "the kind of the job"),
            ("job-retry-count", "how often the job was tried"),
            ("task-index", "the number of the pod in its task"),
            ("partition-id", "the part of its task that the pod is in"),
            ("controller-out-of-sync", "the pod is to be started again"),
            ("template-uid", "pods that are alike"),
            ("reservation-name", "the reservation of the job"),
            ("cronjob-scheduled-timestamp", "when its CronJob was due"),
            ("createdByJobTemplate", "the template of the job"),
            ("createdByJobFlow", "the flow of the job"),
            ("job-allocated-hypernode", "the HyperNode of the job"),
            ("predicate-time", "when a GPU was chosen for the pod"),
            ("gpu-index", "the GPUs of the pod"),
            ("gpu-unhealthy-ids", "the GPUs of a node that do not work"),
        )
    ),
    # The agent
    _for_agent("volcano.sh/qos-level", "how much the pod may be disturbed by others on its node"),
    _for_agent("volcano.sh/enable-quota-burst", "whether the pod may burst"),
    _for_agent("volcano.sh/quota-burst-time", "how long the pod may burst"),
    _for_agent("volcano.sh/network-bandwidth-rate", "the network of the pods of a node"),
    _for_agent("volcano.sh/oversubscription", "whether the node takes more than it has"),
    _for_agent("volcano.sh/oversubscription-cpu", "how much CPU the node takes more"),
    _for_agent("volcano.sh/oversubscription-memory", "how much memory the node takes more"),
    _for_agent("volcano.sh/offline-job-evicting", "whether the node evicts its preemptable pods"),
    # Kueue
    _ignored("kueue.x-k8s.io/priority-class", "the WorkloadPriorityClass", "use priorityClassName"),
    _ignored("kueue.x-k8s.io/pod-group-name", "the pods that start together", _PODGROUP),
    _ignored("kueue.x-k8s.io/pod-group-total-count", "how many pods start together", _PODGROUP),
    _ignored("kueue.x-k8s.io/pod-group-fast-admission", "starts a group before it is whole", _PODGROUP),
    _ignored("kueue.x-k8s.io/pod-group-serving", "a group that serves", _PODGROUP),
    _ignored("kueue.x-k8s.io/pod-group-pod-index", "the number of the pod in its group"),
    _ignored("kueue.x-k8s.io/pod-group-pod-index-label", "the label with that number"),
    _ignored("kueue.x-k8s.io/retriable-in-group", "whether the group goes on after a failed pod"),
    _ignored("kueue.x-k8s.io/job-min-parallelism", "starts a part of a Job", "set spec.parallelism"),
    _ignored("kueue.x-k8s.io/job-completions-equal-parallelism", "keeps the two the same"),
    _ignored(
        "kueue.x-k8s.io/max-exec-time-seconds", "ends the job after this time", "set activeDeadlineSeconds"
    ),
    _ignored("kueue.x-k8s.io/elastic-job", "lets a job grow", "none is needed: pods wait one by one"),
    _ignored("kueue.x-k8s.io/prebuilt-workload-name", "the Workload of the job"),
    *(
        _ignored(f"kueue.x-k8s.io/podset-{name}", "keeps pods in one part of the cluster", _AFFINITY)
        for name in (
            "required-topology",
            "preferred-topology",
            "unconstrained-topology",
            "slice-required-topology",
            "slice-size",
            "group-name",
        )
    ),
    *(
        _written(f"kueue.x-k8s.io/{name}", does)
        for name, does in (
            ("is-group-workload", "the Workload is of a group of pods"),
            ("job-uid", "the job of the Workload"),
            ("managed", "Kueue manages it"),
            ("multikueue-origin", "another cluster made it"),
            ("pod-suspending-parent", "the integration of the pod's owner"),
            ("role-hash", "pods that are alike"),
            ("parent-workload", "the Workload of the owner"),
            ("original-node-selectors", "what Kueue changed in the template"),
            ("original-pod-sets-info", "what Kueue changed in the template"),
        )
    ),
)

#: By name.
KEYS: Mapping[str, MetadataKey] = MappingProxyType({row.name: row for row in _ROWS})
