"""Each field of Kueue's objects, and what becomes of it: the table of docs/operating/move-from-kueue.md.

Source: the definitions of Kueue 0.17.0, `kueue.x-k8s.io`, versions v1beta1 and v1beta2. Where both have a
field under two names, the older name stands second.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

CLUSTER_QUEUE, COHORT, LOCAL_QUEUE, FLAVOR = "ClusterQueue", "Cohort", "LocalQueue", "ResourceFlavor"


class FieldRow(NamedTuple):
    """`names`: the field's, below `spec`. `becomes`: "" where it has no counterpart. `text`: more of it."""

    names: tuple[str, ...]
    becomes: str
    text: str


FIELDS: Mapping[str, tuple[FieldRow, ...]] = {
    CLUSTER_QUEUE: (
        FieldRow(("resourceGroups",), "capability, deserved, guarantee", "see the table of quotas"),
        FieldRow(("cohortName", "cohort"), "parent", "the queue of the Cohort"),
        FieldRow(("queueingStrategy",), "dequeueStrategy", "StrictFIFO is fifo, BestEffortFIFO is traverse"),
        FieldRow(
            ("namespaceSelector",),
            "namespaceSelector",
            "with the namespaces of its LocalQueues. An absent one selects no namespace in Kueue, and is "
            "written so",
        ),
        FieldRow(("stopPolicy",), "stopPolicy", "None, Hold and HoldAndDrain mean the same"),
        FieldRow(("preemption",), "schedulerPolicy", "see the table of preemption policies"),
        FieldRow(("fairSharing",), "weight", "as whole numbers, in proportion to its siblings"),
        FieldRow(("flavorFungibility",), "", "a queue has one limit for a resource, whatever nodes it is on"),
        FieldRow(
            ("admissionChecksStrategy", "admissionChecks"),
            "",
            "work starts without these checks; for nodes that are made on demand see node autoscalers",
        ),
        FieldRow(("admissionScope",), "", "usage of the past does not count, here or between LocalQueues"),
    ),
    COHORT: (
        FieldRow(("parentName", "parent"), "parent", "the queue of that Cohort"),
        FieldRow(
            ("resourceGroups",),
            "capability, deserved, guarantee",
            "added to what those below it have; see the table of quotas",
        ),
        FieldRow(("fairSharing",), "weight", "as of ClusterQueues"),
    ),
    LOCAL_QUEUE: (
        FieldRow(("clusterQueue",), "", "it is that queue, or one below it: see the table of names"),
        FieldRow(("stopPolicy",), "stopPolicy", "of the queue that it becomes"),
        FieldRow(("fairSharing",), "weight", "of the queue that it becomes"),
    ),
    FLAVOR: (
        FieldRow(
            ("nodeLabels",),
            "",
            "pods are not sent to these nodes: use node groups, or a nodeSelector in the pods",
        ),
        FieldRow(("nodeTaints",), "", "whether pods tolerate them decides kube-scheduler alone"),
        FieldRow(("tolerations",), "", "pods get none: write them into the pods"),
        FieldRow(("topologyName",), "", "kube-scheduler places each pod: use pod affinity"),
    ),
}

#: Other kinds of Kueue, and why nothing is made of them.
OTHER_KINDS: Mapping[str, str] = {
    "WorkloadPriorityClass": (
        "label kueue.x-k8s.io/priority-class is not read: make a PriorityClass, and name it in the pods or "
        "in their PodGroup"
    ),
    "Workload": "pods, Jobs and PodGroups are in queues themselves",
    "AdmissionCheck": "work starts without checks",
    "ProvisioningRequestConfig": "nodes that are made on demand are a node autoscaler's",
    "Topology": "kube-scheduler places each pod: use pod affinity",
    "MultiKueueConfig": "work stays in its cluster",
    "MultiKueueCluster": "work stays in its cluster",
}
#: Versions whose fields are those above; another one is read the same, and that is said.
VERSIONS = ("v1beta2", "v1beta1", "v1alpha1")
GROUP = "kueue.x-k8s.io"


def row(kind: str, field: str) -> FieldRow | None:
    """The row of a field below `spec`; None for one that is not known."""
    return next((each for each in FIELDS[kind] if field in each.names), None)
