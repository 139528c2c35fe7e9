"""The table: every field of a Queue's `spec`, in the order in which it is checked, shown and recorded."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from queues.apimachinery.timestamps import rfc3339
from queues.fields import checks, readers, windows
from queues.fields.drain import DRAIN_FIELDS, drain
from queues.fields.history_lines import amounts_line, node_groups_line
from queues.fields.row import FieldEffect, FieldWarning, Origin, QueueField, Reading
from queues.node_groups import read_node_groups
from queues.queue import DequeueStrategy, StoppedGuarantee
from queues.states import Desired, ParkedPods, StopPolicy
from queues.windows.entries import read_entries
from queues.windows.stops import entry_lines, joined_lines, read_override_lines, read_stops

#: Characters of a reason, and of other texts.
REASON_LENGTH = windows.REASON_LENGTH
TEXT_LENGTH = 253

_RECLAIM = "where a scheduling policy has action reclaim"
_IDLE = "Nothing acts on it yet."

FIELDS = (
    # What stops the queue, and how.
    QueueField(
        name="state",
        origin=Origin.SLUICE,
        effect=FieldEffect.ALWAYS,
        help="The desired state; absent means Open.",
        details=(
            "Suspended takes submissions and schedules nothing. Closed takes no new submission and lets what "
            "it has accepted run out."
        ),
        check=checks.one_of(*Desired),
        reading=Reading("desired", readers.word(Desired, absent=Desired.OPEN, unknown=Desired.SUSPENDED)),
        history=lambda queue: queue.desired.value,
    ),
    QueueField(
        name="stopPolicy",
        origin=Origin.KUEUE,
        effect=FieldEffect.ALWAYS,
        help="Hold schedules nothing new; HoldAndDrain evicts what runs too, as drain says.",
        details=(
            "Reservations are let go of, and submissions stay welcome. The strictest policy on the way up to "
            "root wins."
        ),
        check=checks.one_of(*StopPolicy),
        reading=Reading(
            "stop_policy", readers.word(StopPolicy, absent=StopPolicy.NONE, unknown=StopPolicy.HOLD)
        ),
        history=lambda queue: queue.stop_policy.value,
    ),
    QueueField(
        name="parked",
        origin=Origin.SLUICE,
        effect=FieldEffect.ALWAYS,
        help="What becomes of pods that were pending without a gate when the queue was stopped.",
        details=(
            "Keep leaves them to the extender, which refuses them; kube-scheduler tries them again and "
            "again. Recreate deletes those of a ReplicaSet or StatefulSet, which creates them again, with "
            "the gate, and suspends Jobs of which no pod runs until the queue schedules. Absent means that "
            "of the nearest ancestor that has one, else Keep."
        ),
        check=checks.one_of(*ParkedPods),
        # Nothing is deleted for a word that nobody knows.
        reading=Reading("parked", readers.word(ParkedPods, absent=None, unknown=None)),
        history=lambda queue: queue.parked.value if queue.parked else "",
    ),
    QueueField(
        name="resumeAt",
        origin=Origin.SLUICE,
        effect=FieldEffect.ALWAYS,
        help="When Suspended and stopPolicy undo themselves.",
        details="Belongs to the stop it was set with; refused with Closed.",
        check=checks.time,
        reading=Reading("resume_at", readers.time),
        history=lambda queue: rfc3339(queue.resume_time) if queue.resume_time else "",
        of_stop=True,
    ),
    QueueField(
        name="reason",
        origin=Origin.SLUICE,
        effect=FieldEffect.ALWAYS,
        help="Why the queue is stopped, for people.",
        details="Belongs to the stop.",
        check=checks.text(REASON_LENGTH),
        reading=Reading("reason", readers.text),
        of_stop=True,
    ),
    QueueField(
        name="drain",
        origin=Origin.SLUICE,
        effect=FieldEffect.ALWAYS,
        help="How HoldAndDrain empties the queue and those below it.",
        details=(
            "That of the queue whose policy drains counts, the topmost on the way up to root where several "
            "do."
        ),
        check=drain,
        fields=DRAIN_FIELDS,
    ),
    # When it is stopped by the calendar.
    QueueField(
        name="windows",
        origin=Origin.SLUICE,
        effect=FieldEffect.ALWAYS,
        help="Change windows: when the queue is stopped by the calendar.",
        details=(
            "Each has a schedule, duration and timeZone, or from and until alone, and what it sets: "
            "stopPolicy, or state Suspended. The strictest of the spec and of the windows that are on counts."
        ),
        check=windows.windows,
        reading=Reading("windows", read_stops),
        history=lambda queue: joined_lines([window.line for window in queue.windows]),
    ),
    QueueField(
        name="windowOverrides",
        origin=Origin.SLUICE,
        effect=FieldEffect.ALWAYS,
        help="For one occurrence of a window: skip it, begin it early, or end it otherwise.",
        details="start says which: when it begins by its schedule.",
        check=windows.overrides,
        reading=Reading("window_overrides", read_override_lines),
        history=lambda queue: joined_lines(queue.window_overrides),
    ),
    QueueField(
        name="inWindow",
        origin=Origin.SLUICE,
        effect=FieldEffect.ALWAYS,
        help="The windows that are on, each with its end.",
        details="The server writes it, as each begins and ends; what others write is overwritten.",
        check=windows.entries,
        reading=Reading("in_window", read_entries),
        history=lambda queue: joined_lines(entry_lines(queue.windows_on)),
    ),
    # Where the queue is, and who may use it.
    QueueField(
        name="parent",
        origin=Origin.VOLCANO,
        effect=FieldEffect.ALWAYS,
        help="Name of the queue above this one. Empty means root.",
        check=checks.queue_name,
        reading=Reading("parent", readers.parent),
        history=lambda queue: queue.parent or "",
    ),
    QueueField(
        name="namespaceSelector",
        origin=Origin.KUEUE,
        effect=FieldEffect.ALWAYS,
        help="Which namespaces may use this queue and those below it, by their labels.",
        details=(
            "Absent or empty means all. A namespace has to match the selector of every queue on the way up "
            "to root. Labels of sluice.dev are refused, since the server writes them."
        ),
        check=checks.namespace_selector,
        reading=Reading("namespace_selector", readers.selector),
        history=lambda queue: queue.namespace_selector.text if queue.namespace_selector else "",
    ),
    # How its pods are scheduled. The other spelling comes first: admission has copied it.
    QueueField(
        name="SchedulerPolicy",
        origin=Origin.SLUICE,
        effect=FieldEffect.ALWAYS,
        help="Another spelling of schedulerPolicy.",
        check=checks.policy_key,
    ),
    QueueField(
        name="schedulerPolicy",
        origin=Origin.SLUICE,
        effect=FieldEffect.ALWAYS,
        help="The scheduling policy of its jobs: a key of the ConfigMap with the policies.",
        details=(
            "Absent means that of the nearest ancestor that names one, else the global one. A job may name "
            "another."
        ),
        check=checks.policy_key,
        reading=Reading("scheduler_policy", readers.text),
        history=lambda queue: queue.scheduler_policy,
    ),
    # Which of its pods others may evict.
    QueueField(
        name="priority",
        origin=Origin.VOLCANO,
        effect=FieldEffect.ALSO_RECLAIM,
        help=f"Pods of queues with a lower one may not evict its pods, {_RECLAIM}.",
        details="Pods of the queue with the higher one go first where several wait for room. Absent means 0.",
        check=checks.whole(0, checks.INT32),
        reading=Reading("priority", readers.whole(0, checks.INT32, absent=0)),
        history=lambda queue: str(queue.priority),
    ),
    QueueField(
        name="reclaimable",
        origin=Origin.VOLCANO,
        effect=FieldEffect.RECLAIM,
        help=f"Whether pods of other queues may evict its pods, {_RECLAIM}.",
        details="Only of what it uses above its deserved share and its guarantee.",
        check=checks.boolean,
    ),
    QueueField(
        name="deserved",
        origin=Origin.VOLCANO,
        effect=FieldEffect.ALSO_RECLAIM,
        help=f"What it may count on: pods of other queues may evict what is above it, {_RECLAIM}.",
        details=(
            "While it uses less, its waiting pods go before those of queues that borrow. For evictions it "
            "deserves, of cpu and memory nothing unless it says so, of other resources all that it uses. "
            "Checked against capability, guarantee and the parent."
        ),
        check=checks.amounts,
        reading=Reading("deserved", readers.amounts),
        history=lambda queue: amounts_line(queue.deserved),
    ),
    QueueField(
        name="guarantee",
        origin=Origin.VOLCANO,
        effect=FieldEffect.ALSO_RECLAIM,
        help=(
            "Kept free for this queue: pods of other queues neither start in it nor (with action reclaim) "
            "keep it."
        ),
        details=(
            "It is set aside in the capabilities above it, whether it is used or not; without one, nothing "
            "is. Guarantees that are more than there is are scaled down together. "
            "Checked against deserved, capability and the parent."
        ),
        check=checks.object_of({"resource": checks.amounts}),
        reading=Reading("guarantee", readers.guarantee),
        history=lambda queue: amounts_line(queue.guarantee),
    ),
    QueueField(
        name="guaranteeWhileStopped",
        origin=Origin.SLUICE,
        effect=FieldEffect.ALWAYS,
        help="What becomes of its guarantee while it does not schedule.",
        details=(
            "With Keep, the default, it stays set aside. With Lend other queues may use it until this one "
            "schedules again; then it comes back as their pods end."
        ),
        check=checks.one_of(*StoppedGuarantee),
        reading=Reading(
            "stopped_guarantee",
            readers.word(StoppedGuarantee, absent=StoppedGuarantee.KEEP, unknown=StoppedGuarantee.KEEP),
        ),
        history=lambda queue: queue.stopped_guarantee.value,
    ),
    QueueField(
        name="capability",
        origin=Origin.VOLCANO,
        effect=FieldEffect.ALWAYS,
        help="Upper bound on what the queue and those below it use.",
        details=(
            "Pods without room wait, with a gate, until others end. What runs already counts, and is never "
            "evicted for it. Zero is zero; a resource that is not named has no bound. pods counts pods. "
            "Checked against deserved, guarantee and the parent."
        ),
        check=checks.amounts,
        reading=Reading("capability", readers.amounts),
        history=lambda queue: amounts_line(queue.capability),
    ),
    # Kept for Volcano's clients.
    QueueField(
        name="weight",
        origin=Origin.VOLCANO,
        effect=FieldEffect.ALWAYS,
        help="Of queues that use more than they deserve, how much one uses beside another before that goes.",
        details=(
            "It orders pods that wait for room in a capability. With plugin proportion of the scheduling "
            "policy queues deserve by it. Absent means 1."
        ),
        # Volcano's definition of Queues writes 1.
        notice=FieldWarning(
            "orders pods that wait; with plugin proportion it is what the queue deserves; it limits nothing",
            unless=(1,),
        ),
        check=checks.whole(1, 65535),
        reading=Reading("weight", readers.whole(1, 65535, absent=1)),
        history=lambda queue: str(queue.weight),
    ),
    QueueField(
        name="dequeueStrategy",
        origin=Origin.VOLCANO,
        effect=FieldEffect.ALWAYS,
        help="What happens behind a pod that has no room in a capability.",
        details="With traverse, the default, those behind it may go; with fifo they wait for it.",
        check=checks.one_of(*DequeueStrategy),
        reading=Reading(
            "dequeue",
            readers.word(DequeueStrategy, absent=DequeueStrategy.TRAVERSE, unknown=DequeueStrategy.TRAVERSE),
        ),
        history=lambda queue: queue.dequeue.value,
    ),
    QueueField(
        name="type",
        origin=Origin.VOLCANO,
        effect=FieldEffect.NONE,
        help="Free text to sort queues by. Nothing acts on it.",
        check=checks.text(TEXT_LENGTH),
    ),
    QueueField(
        name="affinity",
        origin=Origin.VOLCANO,
        effect=FieldEffect.ALWAYS,
        help="Node groups that its new pods should, must, or must not run in.",
        details=(
            "A node names its group in label volcano.sh/nodegroup-name. Becomes node affinity of the pods "
            "when they are created. Absent means that of the nearest ancestor that has one; empty means all "
            "nodes."
        ),
        check=checks.object_of(
            {"nodeGroupAffinity": checks.node_groups, "nodeGroupAntiAffinity": checks.node_groups}
        ),
        reading=Reading("node_groups", read_node_groups),
        history=lambda queue: node_groups_line(queue.node_groups),
    ),
    QueueField(
        name="extendClusters",
        origin=Origin.VOLCANO,
        effect=FieldEffect.NONE,
        help=f"Other clusters that work of this queue may be sent to. {_IDLE}",
        notice=FieldWarning("has no effect yet"),
        check=checks.each_of(
            checks.object_of(
                {
                    "name": checks.text(TEXT_LENGTH),
                    "weight": checks.whole(0, checks.INT32),
                    "capacity": checks.amounts,
                }
            )
        ),
    ),
)

#: By name; those of `spec.drain` too, as `drain.rate`.
BY_NAME: Mapping[str, QueueField] = MappingProxyType(
    {
        **{row.name: row for row in FIELDS},
        **{f"{row.name}.{part.name}": part for row in FIELDS for part in row.fields},
    }
)
