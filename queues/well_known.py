"""The keys that we write on objects, each once. All begin with `sluice.dev/`.

Members are pods, the workloads that make them (`queues.workload_kinds`), and PodGroups (they name their queue
in their spec, and get the label alone). Templates are those workloads' pod templates.

| key                         | on         | written by | what it says                                   |
|-----------------------------|------------|------------|------------------------------------------------|
| `sluice.dev/queue`          | members    | webhook    | annotation and label: its queue                |
| `sluice.dev/queue`          | pods       | webhook    | label "": it waits for its PodGroup            |
| `sluice.dev/queue`          | templates  | webhook    | annotation: the queue of the pods made from it |
| `sluice.dev/queue-from`     | templates  | webhook    | annotation: what named it, if the template did not |
| `sluice.dev/gang`           | templates  | webhook    | annotation: the minimum of the gang of its pods |
| `sluice.dev/gang`           | pods       | webhook    | annotation: the same, with the queue of the gang |
| `sluice.dev/admission`      | members    | webhook    | annotation: the UID of the request that brought it |
| `sluice.dev/queue`          | pods       | webhook    | scheduling gate: its queue does not schedule   |
| `sluice.dev/quota`          | pods       | webhook    | scheduling gate: it waits for room in a quota  |
| `sluice.dev/quota-term`     | pods       | controller | annotation: written when the book was lost     |
| `sluice.dev/released`       | pods       | controller | label: its own UID: a quota has room for it |
| `sluice.dev/untaken`        | pods       | controller | annotation: the scheduler that does not take it |
| `sluice.dev/member`         | pods       | webhook    | requested resource: kube-scheduler calls us    |
| `sluice.dev/woken`          | pods       | controller | annotation: retried since this revision        |
| `sluice.dev/suspended`      | workloads  | controller | annotation: we suspended it, or scaled it to 0 |
| `sluice.dev/place-within`   | PodGroups  | users      | annotation: its time to be on nodes            |
| `sluice.dev/guard`          | namespaces | controller | label: binds here meet the guard               |
| `sluice.dev/member-namespace` | namespaces | webhook  | label: the namespace names a queue             |
| `sluice.dev/binding`        | namespaces | users      | annotation: whether its queue binds it         |
| `sluice.dev/author`         | commands   | webhook    | annotation: who created it                     |
| `sluice.dev/changes`        | queues     | webhook    | annotation: the last changes, as JSON          |
| `sluice.dev/on-behalf-of`   | queues     | controller | annotation, never stored: for whom it writes   |
| `sluice.dev/resumed`        | queues     | controller | annotation: the `resumeAt` that was carried out |
| `sluice.dev/contact`        | queues     | users      | annotation: whom to ask about it and those below |
| `sluice.dev/force-deleted-ended` | queues | users  | annotation: what was deleted by force has ended |
| `sluice.dev/commands`       | queues     | controller | annotation: UIDs of the Commands carried out   |
"""

from __future__ import annotations

QUEUE = "sluice.dev/queue"
QUEUE_FROM = "sluice.dev/queue-from"
ADMISSION = "sluice.dev/admission"
#: Of a workload that asks for a gang by an annotation of Volcano (`queues.workload_gangs`).
GANG = "sluice.dev/gang"
GATE = "sluice.dev/queue"
#: Versions that know no quotas leave this gate alone, so that they release nothing.
QUOTA_GATE = "sluice.dev/quota"
OWN_GATES = frozenset({GATE, QUOTA_GATE})
QUOTA_TERM = "sluice.dev/quota-term"
#: Its value is the UID of the pod, which nobody knows before it exists: no template can bring it. It is a
#: label, so that what guards such pods costs others nothing: selectors read labels.
RELEASED = "sluice.dev/released"
#: Of a pod whose room was given back, since nobody takes it (`queues.untaken`).
UNTAKEN = "sluice.dev/untaken"
MARKER = "sluice.dev/member"
#: The resource that pods of a scoring policy request, so that kube-scheduler calls prioritize for them.
SCORED = "sluice.dev/scored"
#: The annotation by which a pod, a PodGroup or a workload names its own scheduling policy.
SCHEDULER_POLICY = "volcano.sh/scheduler-policy"
RETRIED_FOR = "sluice.dev/woken"
SUSPENDED = "sluice.dev/suspended"
PLACE_WITHIN = "sluice.dev/place-within"
GUARD = "sluice.dev/guard"
MEMBER_NAMESPACE = "sluice.dev/member-namespace"
BINDING = "sluice.dev/binding"
#: On the server's own namespace: changed to cause an event on the watch of namespaces.
WATCH_MARKER = "sluice.dev/watch-marker"
AUTHOR = "sluice.dev/author"
CHANGES = "sluice.dev/changes"
ON_BEHALF_OF = "sluice.dev/on-behalf-of"
#: The field manager of the leader's writes of the edges of change windows, about which our webhooks are not
#: asked.
EDGES = "sluice-windows"
RESUMED = "sluice.dev/resumed"
COMMANDS = "sluice.dev/commands"
#: Whom to ask about a queue (`queues.contacts`).
CONTACT = "sluice.dev/contact"
#: Until this time: what was deleted by force in the queue or below it (`queues.quota.force_deletion`).
FORCE_DELETED_ENDED = "sluice.dev/force-deleted-ended"

#: The controller sends a dry-run bind of a pod of this name, which does not exist, to learn whether the guard
#: is on; then the guard gives this answer.
PROBE_PREFIX = "sluice-guard-probe-"
PROBE_SEEN = "sluice guards the binds of this namespace"
