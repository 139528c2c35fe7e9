"""The namespaces: which queue each names, its labels, and what was judged before it was known.

Invariants
- A namespace that was admitted and that the watch has not brought yet counts with what was admitted
  (`cluster.inflight.queue_edits.PendingNamespaces`). So does an admitted edit, for what is submitted to the
  namespace: it may never be stored, and what is stored is not judged again then.
- An object that names no queue itself is judged by its namespace. Where that was not known, `take_early` says
  so once it is: such objects have to be judged again.

Threads: the reflector of namespaces writes `objects` (`cluster.informers.event_handlers`). Any thread reads.
The threads that judge objects note early namespaces.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from types import MappingProxyType

from cluster.inflight.queue_edits import PendingNamespaces
from cluster.objects import Namespace
from queues.membership import VOLCANO_ANNOTATION
from queues.namespace_binding import binds
from queues.well_known import BINDING

#: Namespaces that have objects and that the watch has not brought. Beyond, all members are judged again.
MAX_EARLY_NAMESPACES = 10_000

#: The labels of a namespace without labels.
NO_LABELS: Mapping[str, str] = MappingProxyType({})


class Namespaces:
    """The namespaces by name. Owner: the store."""

    def __init__(
        self,
        *,
        exempt: Container[str],
        clock: Callable[[], float],
        relist_members: Callable[[], object],
        binding: bool = False,
    ) -> None:
        """`exempt`: never hold members. `relist_members`: has all members judged again; returns at once.

        `binding`: the setting `binding_namespaces`.
        """
        self._binding = binding
        self._exempt = exempt
        self._relist_members = relist_members
        self.objects: dict[str, Namespace] = {}
        self.pending = PendingNamespaces(clock=clock)
        #: Namespaces that were unknown when an object in them was judged that names no queue itself.
        self._early: set[str] = set()
        #: By queue: how often a namespace began or ceased to be selected.
        self.selection_changes: dict[str, int] = {}

    def queue_of(self, name: str) -> str:
        """Return the queue that the namespace names; empty if none, or if that is not known."""
        namespace = self.objects.get(name)
        return namespace.metadata.annotation(VOLCANO_ANNOTATION) if namespace else self.pending.queue_of(name)

    def naming(self, queue: str) -> list[str]:
        """Return the namespaces that name the queue, as the watch has brought them. For any thread."""
        known = list(self.objects.items())
        return [name for name, each in known if each.metadata.annotation(VOLCANO_ANNOTATION) == queue]

    def queue_for_submission(self, name: str) -> str:
        """Return the queue that it names for what is submitted to it now; empty if none, or if unknown."""
        namespace = self.objects.get(name)
        if namespace is None:
            return self.pending.queue_of(name)
        edited = self.pending.queue_after(name, namespace.metadata.version)
        return namespace.metadata.annotation(VOLCANO_ANNOTATION) if edited is None else edited

    def bound_to(self, name: str) -> str | None:
        """Return the queue that binds what is submitted to it now (`queues.namespace_binding`); empty if none
        does, None if that is not known.
        """
        namespace = self.objects.get(name)
        version = namespace.metadata.version if namespace is not None else 0
        edited = self.pending.binding_after(name, version)
        if edited is not None and edited[0] and binds(edited[1], setting=self._binding):
            return edited[0]
        if namespace is None:
            return None if self._binding and edited is None and name not in self._exempt else ""
        annotation = namespace.metadata.annotation
        return annotation(VOLCANO_ANNOTATION) if binds(annotation(BINDING), setting=self._binding) else ""

    def labels_of(self, name: str) -> Mapping[str, str] | None:
        """Return the labels of a namespace; None if they are not known."""
        namespace = self.objects.get(name)
        if namespace is not None:
            labels = namespace.metadata.labels
            return NO_LABELS if labels is None else labels
        return self.pending.labels_of(name)

    def is_known(self, name: str) -> bool:
        """Return whether it is known which queue the namespace names, if any."""
        return name in self.objects or bool(self.pending.queue_of(name)) or name in self._exempt

    def note_early(self, name: str) -> None:
        """Call it before the namespace is looked up: the namespace handler reads it after storing one."""
        if name in self.objects:
            return
        if len(self._early) >= MAX_EARLY_NAMESPACES:
            self._early.clear()
            self._relist_members()
        self._early.add(name)

    def take_early(self, name: str) -> bool:
        """Return whether an object in the namespace was judged before it was known, and forget that."""
        if name not in self._early:
            return False
        self._early.discard(name)
        return True
