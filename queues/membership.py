"""The queue of a pod or a workload. The first rule that matches counts:

====  =============================================================================  ==============
1     label `sluice.dev/queue`, which the webhook or the controller wrote            `WRITTEN`
2     annotation `scheduling.k8s.io/group-name`: the queue of that PodGroup          `PODGROUP`
3     annotation `scheduling.volcano.sh/queue-name`                                  `ANNOTATION`
4     label, then annotation, `volcano.sh/queue-name`                                `VOLCANO`
5     label `kueue.x-k8s.io/queue-name`, where that is switched on                   `KUEUE`
6     annotation `scheduling.volcano.sh/queue-name` of the namespace                 `NAMESPACE`
7     a `schedulerName` that we own: queue `default`                                 `SCHEDULER`
8     otherwise it is not a member of any queue                                      None
====  =============================================================================  ==============

A workload is in the queue that its pod templates name (rules 2 to 5). If they name none, it is in the queue
that it names itself (rules 2 to 5 for its own labels and annotations, `spec.queue` for a `batch.volcano.sh`
Job). If it names none, rules 6 and 7 apply. Where two of its names differ it is in no queue, and denied
(`QueueConflict`). While one of them is a PodGroup that does not exist, it is not known whether they differ.

`spec.queue: default` is no name: Volcano's definition writes it where none is given, and nothing tells that
from a user's wish. The API server fills it in before any webhook is called, and lists it in
`metadata.managedFields` as the client's, but for a server-side apply. So such a Job is in the queue that
something else names, its namespace included, and in `default` if nothing does. A PodGroup in `default` is
taken in the same way.

Rule 1 holds for a stored pod (`stored_pod_membership`), never for a pod that a user submits
(`submitted_pod_membership`). An empty value counts as absent.

The label is the truth. A label has room for 63 characters; annotation `sluice.dev/queue` has the whole name:

| label   | annotation      | the queue of a stored pod                                                    |
|---------|-----------------|------------------------------------------------------------------------------|
| a value | fits the label  | the annotation's (`label_value` of it is the label)                          |
| a value | does not fit    | the one whose `label_value` is the label; the annotation is not believed     |
| ""      | any             | by rules 2 to 8: it waited for its PodGroup when it was created              |
| absent  | a value         | the annotation's: the label was removed, or an older version wrote no label  |
| absent  | absent          | by rules 2 to 8: it was created without the webhook                          |

In a namespace that is not managed (`queues.managed_namespaces`) a pod without the label is in no queue.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum

import msgspec

from queues import well_known
from queues.mode import SCHEDULER_NAME
from queues.namespace_selectors import NamespaceSelector
from queues.queue import DEFAULT
from queues.text import NAME_LIMIT, show_character

GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
VOLCANO_ANNOTATION = "scheduling.volcano.sh/queue-name"
VOLCANO_LABEL = "volcano.sh/queue-name"
KUEUE_LABEL = "kueue.x-k8s.io/queue-name"
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
#: The value of `sluice.dev/queue-from` where the webhook wrote `scheduling.k8s.io/group-name` in a template:
#: the workload itself names the PodGroup.
FROM_PODGROUP = "podgroup"
#: The annotation and the label that name the task of a pod in its PodGroup.
TASK = "volcano.sh/task-spec"

#: The keys by which users name a queue or a PodGroup.
NAMING_ANNOTATIONS = (GROUP_ANNOTATION, VOLCANO_ANNOTATION, VOLCANO_LABEL)
NAMING_LABELS = (VOLCANO_LABEL, KUEUE_LABEL)


class Source(StrEnum):
    """The rule that gave the queue; `kubectl queue why` shows it."""

    WRITTEN = "annotation sluice.dev/queue"
    PODGROUP = "PodGroup"
    ANNOTATION = "annotation scheduling.volcano.sh/queue-name"
    VOLCANO = "volcano.sh/queue-name"
    KUEUE = "label kueue.x-k8s.io/queue-name"
    NAMESPACE = "namespace"
    SCHEDULER = "schedulerName"
    SPEC = "spec.queue"


class Membership(msgspec.Struct, frozen=True, gc=False):
    """A member's queue. `queue` is None while its PodGroup, `podgroup`, does not exist."""

    queue: str | None
    source: Source
    podgroup: str = ""


class MembershipSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that membership depends on.

    `calling_schedulers`: schedulers that call the extender for each of their pods (`queues.mode`).
    `managed_namespaces`: the namespaces that are ours at all; None: every one.
    `binding_namespaces`: whether a namespace without a word of its own is bound to the queue that it names
    (`queues.namespace_binding`).
    """

    owned_schedulers: frozenset[str] = frozenset({"volcano"})
    calling_schedulers: frozenset[str] = frozenset({SCHEDULER_NAME})
    kueue: bool = False
    exempt_namespaces: frozenset[str] = frozenset({"kube-system", "sluice-system"})
    managed_namespaces: NamespaceSelector | None = None
    binding_namespaces: bool = False


class PodFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What decides the membership of a pod. `namespace_queue`: the annotation of rule 6, or empty.

    `managed`: whether its namespace is; that of a stored pod counts alone.
    """

    namespace: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    scheduler: str
    namespace_queue: str = ""
    managed: bool = True


class NamingMetadata(msgspec.Struct, frozen=True):
    """The labels and annotations of one object or template; they may name a queue."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]


class WorkloadFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What decides the membership of a workload.

    `templates`: the names in each of its pod templates. `own_metadata`: those on the workload itself.
    `schedulers`: the `schedulerName` of each template. `spec_queue`: `spec.queue`, for the kind that has it.
    `owned`: another workload made it. `job_templates`: the metadata of each Job template, which becomes the
    Jobs' own.
    """

    namespace: str
    templates: tuple[NamingMetadata, ...]
    own_metadata: NamingMetadata
    schedulers: tuple[str, ...]
    spec_queue: str = ""
    namespace_queue: str = ""
    owned: bool = False
    job_templates: tuple[NamingMetadata, ...] = ()


class QueueConflict(msgspec.Struct, frozen=True):
    """Two names of one workload that are not the same queue."""

    first: Membership
    second: Membership


#: The queue of a PodGroup by namespace and name; None where the PodGroup does not exist.
PodGroupQueueLookup = Callable[[str, str], str | None]
#: The queue whose `label_value` is this label; the label itself where no such queue exists.
LabelLookup = Callable[[str], str]


def stored_pod_membership(
    pod: PodFacts,
    *,
    rules: MembershipSettings,
    podgroup: PodGroupQueueLookup,
    queue_of_label: LabelLookup = str,
) -> Membership | None:
    """The membership of a pod that is stored: the queue that was written on it counts."""
    if pod.namespace in rules.exempt_namespaces or MIRROR_ANNOTATION in pod.annotations:
        return None
    label, annotation = pod.labels.get(well_known.QUEUE), pod.annotations.get(well_known.QUEUE, "")
    if label:
        queue = annotation if fits_label(annotation, label) else queue_of_label(label)
        return Membership(queue, Source.WRITTEN)
    if label is None and not pod.managed:
        return None
    if label is None and annotation:
        return Membership(annotation, Source.WRITTEN)
    return submitted_pod_membership(pod, rules=rules, podgroup=podgroup)


def submitted_pod_membership(
    pod: PodFacts, *, rules: MembershipSettings, podgroup: PodGroupQueueLookup
) -> Membership | None:
    """The membership of a pod as its user submits it; None for a pod of no queue."""
    if pod.namespace in rules.exempt_namespaces or MIRROR_ANNOTATION in pod.annotations:
        return None
    named = _named_queue(
        NamingMetadata(pod.labels, pod.annotations), pod.namespace, rules=rules, podgroup=podgroup
    )
    return named or _implied_queue(pod.namespace_queue, (pod.scheduler,), rules=rules)


def workload_membership(
    work: WorkloadFacts, *, rules: MembershipSettings, podgroup: PodGroupQueueLookup
) -> Membership | QueueConflict | None:
    """The membership of a workload; None for a workload of no queue.

    The webhook writes names that stand elsewhere into a template (`well_known.QUEUE_FROM`). Such a name does
    not count as the template's own, except in what another workload made from that template.
    """
    if work.namespace in rules.exempt_namespaces:
        return None
    templates = work.templates if work.owned else tuple(map(without_webhook_names, work.templates))
    metadata = (*templates, work.own_metadata, *work.job_templates)
    named = [_named_queue(part, work.namespace, rules=rules, podgroup=podgroup) for part in metadata]
    if work.spec_queue and work.spec_queue != DEFAULT:
        named.append(Membership(work.spec_queue, Source.SPEC))
    memberships = [membership for membership in named if membership is not None]
    if memberships:
        return memberships[0] if work.owned else _one_queue(memberships)
    if work.spec_queue and not work.namespace_queue:
        return Membership(work.spec_queue, Source.SPEC)
    return _implied_queue(work.namespace_queue, work.schedulers, rules=rules)


def _one_queue(memberships: list[Membership]) -> Membership | QueueConflict:
    """The queue that all of them name; the PodGroup that does not exist, where one names that."""
    decided = [membership for membership in memberships if membership.queue is not None]
    other = next((membership for membership in decided if membership.queue != decided[0].queue), None)
    if other is not None:
        return QueueConflict(decided[0], other)
    return next((membership for membership in memberships if membership.queue is None), memberships[0])


def webhook_name(annotations: Mapping[str, str]) -> str:
    """The annotation of a template in which the webhook wrote a name that stands elsewhere; "" for none."""
    source = annotations.get(well_known.QUEUE_FROM)
    if source is None:
        return ""
    return GROUP_ANNOTATION if source == FROM_PODGROUP else VOLCANO_ANNOTATION


def without_webhook_names(template: NamingMetadata) -> NamingMetadata:
    """A template's names without the one that the webhook wrote for a name that stands elsewhere."""
    written = webhook_name(template.annotations)
    if not written:
        return template
    annotations = {key: value for key, value in template.annotations.items() if key != written}
    return NamingMetadata(template.labels, annotations)


def names_a_queue(template: NamingMetadata) -> bool:
    """Whether it names a queue or a PodGroup, by any key except Kueue's label."""
    return any(template.annotations.get(key) for key in NAMING_ANNOTATIONS) or bool(
        template.labels.get(VOLCANO_LABEL)
    )


def _implied_queue(
    namespace_queue: str, schedulers: tuple[str, ...], *, rules: MembershipSettings
) -> Membership | None:
    if namespace_queue:
        return Membership(namespace_queue, Source.NAMESPACE)
    if any(scheduler in rules.owned_schedulers for scheduler in schedulers):
        return Membership(DEFAULT, Source.SCHEDULER)
    return None


def _named_queue(
    metadata: NamingMetadata, namespace: str, *, rules: MembershipSettings, podgroup: PodGroupQueueLookup
) -> Membership | None:
    """The queue by rules 2 to 5 of the table above."""
    return next(_each_name(metadata, namespace, rules=rules, podgroup=podgroup), None)


def overruled_name(
    metadata: NamingMetadata, namespace: str, *, rules: MembershipSettings, podgroup: PodGroupQueueLookup
) -> QueueConflict | None:
    """The name of one object that counts, and the first other one that differs; None where none does.

    The names of one object are no reason to refuse it: rules 2 to 5 say which one counts.
    """
    if namespace in rules.exempt_namespaces:
        return None
    first, *others = (*_each_name(metadata, namespace, rules=rules, podgroup=podgroup), None)
    if first is None or first.queue is None:
        return None
    other = next((each for each in others if each is not None and each.queue != first.queue), None)
    return QueueConflict(first, other) if other is not None else None


def _each_name(
    metadata: NamingMetadata, namespace: str, *, rules: MembershipSettings, podgroup: PodGroupQueueLookup
) -> Iterator[Membership]:
    """Each name by rules 2 to 5, in the order in which they count."""
    labels, annotations = metadata.labels, metadata.annotations
    if name := annotations.get(GROUP_ANNOTATION):
        yield Membership(podgroup(namespace, name), Source.PODGROUP, name)
    if queue := annotations.get(VOLCANO_ANNOTATION):
        yield Membership(queue, Source.ANNOTATION)
    for words in (labels, annotations):
        if queue := words.get(VOLCANO_LABEL):
            yield Membership(queue, Source.VOLCANO)
    if rules.kueue and (queue := labels.get(KUEUE_LABEL)):
        yield Membership(queue, Source.KUEUE)


_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-.")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def valid_name(name: str) -> bool:
    """Whether an object of the API server can have this name (a DNS-1123 subdomain)."""
    return len(name) <= NAME_LIMIT and _SUBDOMAIN.fullmatch(name) is not None


def name_fault(name: str) -> str:
    """What keeps this from being a name: the first wrong character, the length or a part; "" for a name."""
    if valid_name(name):
        return ""
    for position, character in enumerate(name, start=1):
        if character not in _NAME_CHARACTERS:
            return f"{show_character(character)} at position {position}"
    if len(name) > NAME_LIMIT:
        return f"{len(name)} characters, and {NAME_LIMIT} are allowed"
    return "each part between dots begins and ends with a letter or digit" if name else "it is empty"


def label_value(queue: str) -> str:
    """The queue's name where it fits a label's 63 characters; else its beginning with a digest.

    The latter has an underscore, which no queue's name has.
    """
    if len(queue) <= 63:
        return queue
    return f"{queue[:50].rstrip('.-')}_{hashlib.blake2s(queue.encode(), digest_size=6).hexdigest()}"


def fits_label(queue: str, label: str) -> bool:
    """Whether the label is that of this queue."""
    if len(queue) <= 63:
        return queue == label and "_" not in queue  # only a digest's label has one, and it is no name
    return label_value(queue) == label
