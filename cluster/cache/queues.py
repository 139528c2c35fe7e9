"""The queues, and the published snapshot of what each of them decides.

Invariants
- A snapshot is never changed: it is replaced by one assignment. Readers take no lock.
- `version` is set after the snapshot with all changes up to it is published. An object is in `objects` only
  after its snapshot is published: a reader that sees a generation there gets a snapshot that has it.
- An object older than the stored one is dropped.
- An unknown word in a spec stops the queue (`queues.fields.reading`).
- A queue that Volcano had closed is Closed, though its spec does not say so (`queues.volcano_close`).
- What a queue lends to others (`lending`) is parsed once, when the queue is stored.

Threads: the reflector of queues writes. Any thread reads, and may publish a snapshot of another moment.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from operator import attrgetter

import msgspec

from cluster.objects import QueueObject, QueueSpec
from queues import volcano_close, well_known
from queues.admission.resource_validation import quota_of
from queues.apimachinery.quantities import ResourceAmounts
from queues.fields.reading import READ, read_queue
from queues.policies.policy_set import NO_POLICIES, PolicySet
from queues.queue import Queue, with_placement
from queues.snapshot import QueueDecision, QueueSnapshot, decision_for_namespace
from queues.states import Desired
from queues.tree import Tree

#: Decisions that are remembered. Beyond, all are computed again.
MAX_DECISIONS = 50_000

#: Queues that went while they had work, of which it is remembered where they were: the latest ones.
MAX_FORMER = 1000

Labels = Mapping[str, str]


class Lending(msgspec.Struct, frozen=True, kw_only=True):
    """What a queue keeps when pods of other queues need room, and whether it lends at all."""

    deserved: ResourceAmounts = {}
    guarantee: ResourceAmounts = {}
    reclaimable: bool = True
    priority: int = 0


def decoded_fields(read: Iterable[str], *, spec: type[msgspec.Struct]) -> tuple[str, ...]:
    """Where the decoded spec has the fields of these names on the wire. Raises TypeError, naming those that
    it lacks.
    """
    names = {field.encode_name: field.name for field in msgspec.structs.fields(spec)}
    missing = [name for name in read if name not in names]
    if missing:
        raise TypeError(
            f"queues.fields.table reads {', '.join(missing)}, which {spec.__module__}.{spec.__name__} lacks: "
            "add it there, in snake_case"
        )
    return tuple(names[name] for name in read)


#: The values of the fields that the rules read.
_values = attrgetter(*decoded_fields(READ, spec=QueueSpec))
#: Of a queue that does not exist, or says nothing.
NO_LENDING = Lending()


class QueueCache:
    """The queues by name, and the snapshot of them. Owner: the store."""

    def __init__(self, *, now: Callable[[], datetime]) -> None:
        self._now = now
        self.objects: dict[str, QueueObject] = {}
        #: By queue; queues that say nothing are left out.
        self.lending: dict[str, Lending] = {}
        #: How often what a stored queue lends has changed.
        self.lending_changes = 0
        self.snapshot = QueueSnapshot(Tree({}), now=now())
        #: Up to which resource version the snapshot has the changes of queues.
        self.version = 0
        #: The version of the snapshot that is published next.
        self._next_version = 0
        self._values: dict[str, Queue] = {}
        #: Whether the snapshot lacks changes of `_values`, because publishing failed.
        self._unpublished = False
        self._lock = threading.Lock()
        self._policies = NO_POLICIES
        self._names_devices = self._has_quotas = False
        self._devices_listeners: list[Callable[[bool], object]] = []
        self._quotas_listeners: list[Callable[[bool], object]] = []
        #: Below which queue each was that went while it had work, as far as this process saw it go.
        self._former: dict[str, str] = {}
        self._is_in_use: Callable[[str], bool] = lambda _: False

    def add_devices_listener(self, listener: Callable[[bool], object]) -> None:
        """`listener` is called when a capability comes to name a class of devices, or none does any more."""
        self._devices_listeners.append(listener)

    def add_quotas_listener(self, listener: Callable[[bool], object]) -> None:
        """`listener` is called when a queue comes to have a quota, or none does any more."""
        self._quotas_listeners.append(listener)

    def ask_for_use(self, is_in_use: Callable[[str], bool]) -> None:
        """`is_in_use`: whether anything of a queue, or of one below it, is live or counts in a quota."""
        self._is_in_use = is_in_use

    def former_parent(self, name: str) -> str | None:
        """Below which queue one was that went while it had work, and of which there is work yet."""
        above = self._former.get(name)
        return above if above is not None and self._is_in_use(name) else None

    def _forget_or_remember(self, changes: Mapping[str, Queue | None]) -> None:
        """Remember where those were that go while they have work; forget it of those that come. Before the
        snapshot changes.
        """
        former = {name: above for name, above in self._former.items() if changes.get(name) is None}
        for name, queue in changes.items():
            was = self._values.get(name)
            if queue is None and was is not None and was.parent and self._is_in_use(name):
                former[name] = was.parent
        if former != self._former:
            self._former = dict(list(former.items())[-MAX_FORMER:])

    def follow_policies(self, policies: PolicySet) -> None:
        """Publish a snapshot by these policies, if any of them, or of those before, gives queues a quota."""
        before, self._policies = self._policies, policies
        if before.needs_totals or policies.needs_totals:
            self._publish_changes(None)

    def publish(self, changed: Collection[str] | None = None) -> None:
        """Publish a snapshot of the stored queues and of this moment; any thread may call.

        `changed`: the queues that may differ from the present snapshot; None for all.
        """
        with self._lock:
            now = self._now()
            if changed is None:
                self.snapshot = QueueSnapshot(
                    Tree(dict(self._values), former=self._former),
                    now=now,
                    resource_version=self._next_version,
                    policies=self._policies,
                )
            else:
                changes = {name: self._values.get(name) for name in changed}
                tree = self.snapshot.tree.with_changes(changes, former=self._former)
                self.snapshot = QueueSnapshot.updated(
                    self.snapshot, tree, changed=changed, now=now, resource_version=self._next_version
                )

    def _publish_changes(self, changed: Collection[str] | None) -> None:
        """Publish; after a failure the next change publishes all queues."""
        whole, self._unpublished = self._unpublished, True
        self.publish(None if whole else changed)
        self._unpublished = False
        if self.snapshot.names_devices is not self._names_devices:
            self._names_devices = self.snapshot.names_devices
            for listener in self._devices_listeners:
                listener(self._names_devices)
        if self.snapshot.has_quotas is not self._has_quotas:
            self._has_quotas = self.snapshot.has_quotas
            for listener in self._quotas_listeners:
                listener(self._has_quotas)

    def set(self, obj: QueueObject) -> bool:
        """Store a queue; False if it is older than the stored one."""
        return self.set_all([obj]) > 0

    def set_all(self, objects: Iterable[QueueObject]) -> int:
        """Store several queues with at most one snapshot; how many were not older than the stored ones."""
        newer = [obj for obj in objects if not self._is_older(obj)]
        values = {obj.metadata.name: self._value(obj) for obj in newer}
        self._next_version = max([self._next_version, *(obj.metadata.version for obj in newer)])
        for obj in newer:
            self._set_lending(obj)
        changed = [name for name, value in values.items() if self._values.get(name) != value]
        if changed or self._unpublished:
            self._forget_or_remember(values)
            self._values.update(values)
            self._publish_changes(changed)
        self.objects.update({obj.metadata.name: obj for obj in newer})
        self.version = self._next_version
        return len(newer)

    def replace(self, objects: Iterable[QueueObject]) -> list[str]:
        """Replace all queues and publish one snapshot; return the names of the queues that are gone."""
        listed = {obj.metadata.name: obj for obj in objects}
        present = {name: self.objects[name] if self._is_older(obj) else obj for name, obj in listed.items()}
        gone = [name for name in self.objects if name not in present]
        for name in gone:
            del self.objects[name]
            self.lending.pop(name, None)
        for obj in present.values():
            self._set_lending(obj)
        values = {name: self._value(obj) for name, obj in present.items()}
        self._next_version = max([self._next_version, *(obj.metadata.version for obj in present.values())])
        if values != self._values or self._unpublished:
            self._forget_or_remember({**dict.fromkeys(self._values), **values})
            self._values = values
            self._publish_changes(None)
        self.objects.update(present)
        self.version = self._next_version
        return gone

    def remove(self, name: str, *, version: int = 0) -> None:
        """Remove a queue. `version`: the resource version of the deletion, if known."""
        self._next_version = max(self._next_version, version)
        self.objects.pop(name, None)
        self.lending.pop(name, None)
        self._forget_or_remember({name: None})
        if self._values.pop(name, None) is not None or self._unpublished:
            self._publish_changes([name])
        self.version = self._next_version

    def refusal_text(self, decision: QueueDecision) -> str:
        """Return the text for a pod that the decision stops: the one in the queue's status, if that is for
        the same specs and names the same contact.

        Replicas of different versions may word it differently; the status has one text for all of them.
        """
        stored = self.objects.get(decision.queue)
        stop = stored.status.stop if stored is not None else None
        contact = decision.stop.contact if decision.stop is not None else ""
        is_told = stop is not None and (stop.revision, stop.contact) == (decision.revision, contact)
        return stop.refusal if stop is not None and is_told and stop.refusal else decision.text

    def _value(self, obj: QueueObject) -> Queue:
        """The queue, with the generation since which it is where it is, by what is stored of it."""
        name = obj.metadata.name
        stored, known = self.objects.get(name), self._values.get(name)
        if stored is not None and known is not None and _is_same_spec(stored, obj):
            return known
        return with_placement(queue_from_object(obj), before=known)

    def _set_lending(self, obj: QueueObject) -> None:
        name, lending = obj.metadata.name, lending_from_object(obj)
        if lending == self.lending.get(name, NO_LENDING):
            return
        if lending == NO_LENDING:
            self.lending.pop(name, None)
        else:
            self.lending[name] = lending
        self.lending_changes += name in self.objects

    def _is_older(self, obj: QueueObject) -> bool:
        stored = self.objects.get(obj.metadata.name)
        return stored is not None and obj.metadata.older_than(stored.metadata)


def _is_same_spec(stored: QueueObject, obj: QueueObject) -> bool:
    """Whether both are the same for the rules: only statuses and the like differ. These tell what Volcano has
    closed, so a queue without a state never is the same."""
    was, now = stored.metadata, obj.metadata
    same = (was.uid, was.generation) == (now.uid, now.generation) and stored.spec == obj.spec
    same = same and (was.deletion_timestamp is None) is (now.deletion_timestamp is None)
    same = same and was.annotation(well_known.CONTACT) == now.annotation(well_known.CONTACT)
    return same and obj.spec.state is not None


def queue_from_object(obj: QueueObject) -> Queue:
    """Convert a stored Queue into the value that the rules read."""
    meta, spec = obj.metadata, obj.spec
    if is_closed_by_volcano(obj):
        spec = msgspec.structs.replace(spec, state=Desired.CLOSED.value)
    return read_queue(
        meta.name,
        uid=meta.uid,
        generation=meta.generation,
        values=_values(spec),
        terminating=meta.deletion_timestamp is not None,
        contact=meta.annotation(well_known.CONTACT),
    )


def is_closed_by_volcano(obj: QueueObject) -> bool:
    """Whether Volcano had closed the queue, and its spec does not say so yet (`queues.volcano_close`)."""
    return obj.spec.state is None and volcano_close.is_closed_by_volcano(
        obj.metadata.name,
        spec_state=obj.spec.state,
        status_state=obj.status.state,
        is_ours=bool(obj.status.conditions or obj.status.observed_generation),
        annotations=obj.metadata.annotations,
    )


def lending_from_object(obj: QueueObject) -> Lending:
    """What the spec says of lending. What is not of its type counts as absent: it can be anything."""
    spec = obj.spec
    if (
        spec.deserved is None
        and spec.guarantee is None
        and spec.reclaimable is None
        and spec.priority is None
    ):
        return NO_LENDING
    quota = quota_of(guarantee=spec.guarantee, deserved=spec.deserved, capability=None)
    has_priority = isinstance(spec.priority, int) and not isinstance(spec.priority, bool)
    return Lending(
        deserved=quota.deserved,
        guarantee=quota.guarantee,
        reclaimable=spec.reclaimable is not False,
        priority=spec.priority if has_priority else 0,
    )


class NamespaceDecisions:
    """The decisions, for each namespace, of queues with a namespace selector on their chain.

    A decision is remembered for one decision of the queue and one mapping of labels, both by identity. A
    queue or a namespace that changed has another one, so a remembered decision is never out of date. Looking
    one up takes the same time however large the selectors are. At most `MAX_DECISIONS` are kept.

    Threads: any; each operation is one on a dict.
    """

    def __init__(self) -> None:
        self._remembered: dict[tuple[str, str], tuple[QueueDecision, Labels | None, QueueDecision]] = {}

    def decision(self, queue: QueueDecision, *, namespace: str, labels: Labels | None) -> QueueDecision:
        """`queue`: its decision for all namespaces. `labels`: of the namespace; None if not known."""
        key = (queue.queue, namespace)
        known = self._remembered.get(key)
        if known is not None and known[0] is queue and known[1] is labels:
            return known[2]
        decision = decision_for_namespace(queue, namespace=namespace, labels=labels)
        if len(self._remembered) >= MAX_DECISIONS:
            self._remembered.clear()
        self._remembered[key] = (queue, labels, decision)
        return decision
