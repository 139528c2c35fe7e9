"""Whether the API server serves the fields that we read and write.

Volcano's own definitions lack most of them. Applied over ours they make stops vanish in silence: a field
that a definition does not have is left out of every answer, and gone for good at the next write.

Invariants
- A fault is known for as long as the definition held has it, and only then; one that is not
  there lacks everything.
- What must be served is what our structs read (`cluster.objects`), so the two cannot drift apart.
- A queue that was served by a foreign definition is never believed, also when that definition is heard
  of later than the queue (`read_queue`).

Threads: each definition's reflector writes its own fault; whoever likes reads.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping

import msgspec
from msgspec import inspect

from cluster.exceptions import NotFound
from cluster.informers.lenient_decoding import LenientReader
from cluster.objects import Command, Metadata, PodGroup, QueueObject

PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
REMEDY = "apply ours again with: kubectl apply --server-side --force-conflicts -k manifests/crds"
CONDITIONS = ("status", "conditions")
#: Enough to recognise whose definition it is.
MAX_FIELDS_NAMED = 5

log = logging.getLogger(__name__)


class RequiredFields(msgspec.Struct, frozen=True):
    """What is asked of one definition: a version, a struct's fields, a status that is written apart.

    Conditions may go without their parts: one struct reads those of every kind, and no kind has them all.
    """

    version: str
    shape: type[msgspec.Struct]
    status: bool = False


#: By the definition's name.
REQUIRED: Mapping[str, RequiredFields] = {
    "queues.scheduling.volcano.sh": RequiredFields("v1beta1", QueueObject, status=True),
    "podgroups.scheduling.volcano.sh": RequiredFields("v1beta1", PodGroup),
    "commands.bus.volcano.sh": RequiredFields("v1alpha1", Command),
}


class Schema(msgspec.Struct, frozen=True):
    """The part of a schema that says which fields there are."""

    properties: dict[str, Schema] | None = None
    items: Schema | None = None
    open: bool = msgspec.field(default=False, name="x-kubernetes-preserve-unknown-fields")

    def serves(self, path: tuple[str, ...]) -> bool:
        """Whether a field is kept; `*` stands for the items of a list."""
        if not path or self.open:
            return True
        below = self.items if path[0] == "*" else (self.properties or {}).get(path[0])
        return below is not None and below.serves(path[1:])


class Validation(msgspec.Struct, frozen=True, rename="camel"):
    open_api_v3_schema: Schema = msgspec.field(default_factory=Schema, name="openAPIV3Schema")


class Subresources(msgspec.Struct, frozen=True):
    status: dict[str, object] | None = None


class Version(msgspec.Struct, frozen=True):
    name: str = ""
    served: bool = False
    schema: Validation = msgspec.field(default_factory=Validation)
    subresources: Subresources = msgspec.field(default_factory=Subresources)


class DefinitionSpec(msgspec.Struct, frozen=True):
    versions: list[Version] = []


class Definition(msgspec.Struct, frozen=True):
    """A CustomResourceDefinition."""

    metadata: Metadata
    spec: DefinitionSpec = msgspec.field(default_factory=DefinitionSpec)


class Definitions:
    """What is wrong with the definitions held. `mended` is called when nothing is wrong any more."""

    def __init__(self, mended: Callable[[], object] = lambda: None, *, faults: dict[str, str]) -> None:
        """`faults`: where the fault of each definition is kept, by its name, with the way out."""
        self._mended = mended
        self._faults = faults

    def judge(self, name: str, definition: Definition | None) -> None:
        """Take the definition of that name as it is now; None if it is not there."""
        fault = definition_fault(name, definition)
        if fault == self._faults.get(name, ""):
            return
        if fault:
            self._faults[name] = fault
            log.error("nothing is answered or written: %s", fault)
            return
        del self._faults[name]
        log.warning("%s serves all that we need again", name)
        if not self._faults:
            self._mended()


class DefinitionEventHandler:
    """What the reflector of one definition finds."""

    def __init__(self, name: str, definitions: Definitions) -> None:
        self._name = name
        self._definitions = definitions
        self._stored: Definition | None = None

    def replace(self, objects: list[Definition]) -> None:
        self._set(next((each for each in objects if each.metadata.name == self._name), None))

    def upsert(self, obj: Definition) -> None:
        if self._stored is None or not obj.metadata.older_than(self._stored.metadata):
            self._set(obj)

    def remove(self, obj: Definition) -> None:
        if self._stored is None or not obj.metadata.older_than(self._stored.metadata):
            self._set(None)

    def _set(self, definition: Definition | None) -> None:
        self._stored = definition
        self._definitions.judge(self._name, definition)


def definition_fault(name: str, definition: Definition | None) -> str:
    """What is wrong with a definition, and the way out; nothing if it does."""
    if definition is None:
        return f"the CustomResourceDefinition {name} is not there; {REMEDY}"
    need = REQUIRED[name]
    version = next((each for each in definition.spec.versions if each.name == need.version), None)
    if version is None or not version.served:
        return f"the CustomResourceDefinition {name} does not serve {need.version}; {REMEDY}"
    if need.status and version.subresources.status is None:
        return f"the CustomResourceDefinition {name} has no status subresource; {REMEDY}"
    schema = version.schema.open_api_v3_schema
    missing = [".".join(path) for path in needed_fields(need.shape) if not schema.serves(path)]
    if not missing:
        return ""
    more = f" and {len(missing) - MAX_FIELDS_NAMED} more" if len(missing) > MAX_FIELDS_NAMED else ""
    return (
        f"the CustomResourceDefinition {name} lacks {', '.join(missing[:MAX_FIELDS_NAMED])}{more}; {REMEDY}"
    )


def needed_fields(shape: type[msgspec.Struct]) -> list[tuple[str, ...]]:
    """The fields of a struct on the wire, those inside others included; `*` stands for a list's items."""
    return [
        path
        for path in _paths(inspect.type_info(shape), ())
        if path[0] != "metadata" and path[:-1][:2] != CONDITIONS
    ]


def _paths(kind: inspect.Type, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if isinstance(kind, inspect.UnionType):
        for each in kind.types:
            yield from _paths(each, path)
    elif isinstance(kind, inspect.ListType):
        yield from _paths(kind.item_type, (*path, "*"))
    elif isinstance(kind, inspect.StructType):
        for field in kind.fields:
            yield (*path, field.encode_name)
            yield from _paths(field.type, (*path, field.encode_name))


_read_queue = msgspec.json.Decoder(QueueObject).decode
_read_leniently = LenientReader(QueueObject)
#: In the place of a word that cannot be read; an unknown word stops (`store.queue_value`).
UNREADABLE = "Unreadable"
_DECIDING = frozenset({"spec", "spec.state", "spec.stopPolicy", "spec.parent"})


def read_queue(raw: msgspec.Raw | bytes) -> QueueObject:
    """A queue as the API server served it. Raises `NotFound` if a foreign definition did.

    Ours gives `spec.stopPolicy` a default, which is filled in on every read; so a queue without it
    has been stripped of whatever else is ours.
    """
    return _required(_read_queue(raw))


def read_queue_leniently(raw: msgspec.Raw | bytes) -> tuple[QueueObject, list[str]]:
    """The same of one that cannot be read in full. What decides whether it is stopped counts as a stop."""
    queue, faults = _read_leniently(raw)
    if not _DECIDING.isdisjoint(faults):
        spec = msgspec.structs.replace(queue.spec, state=UNREADABLE, stop_policy=UNREADABLE)
        queue = msgspec.structs.replace(queue, spec=spec)
    return _required(queue), faults


def _required(queue: QueueObject) -> QueueObject:
    if queue.spec.stop_policy is None:
        raise NotFound(
            404, "NotServed", f"queue {queue.metadata.name} came without spec.stopPolicy; {REMEDY}"
        )
    return queue
