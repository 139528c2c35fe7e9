"""Checks that the API server serves the fields that we read and write.

Volcano's own CustomResourceDefinitions lack most of our fields. If they are applied over ours, stops
disappear without an error: the API server leaves a field that the definition lacks out of every answer, and
the next write deletes it for good.

Invariants
- A fault is recorded exactly as long as the current definition has it. A definition that does not exist
  lacks every field.
- The required fields are the fields of our structs (`cluster.objects`), so the two cannot drift apart, and
  those of `spec.drain`, `status.drain` and of change windows, which no struct there has.
  A test compares them with the definitions in manifests/crds.
- A server does not start while a definition has a fault (`current_faults`, called before anything is
  written); the watch finds what becomes wrong later.
- A queue that a foreign definition served is never accepted, even if the watch brings the definition later
  than the queue (`read_queue`).

Threads: the reflector of each definition writes the fault of that definition. Any thread reads.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping

import msgspec
from msgspec import inspect

from cluster.api.client import Client, decode_response
from cluster.exceptions import NotFound
from cluster.objects import Command, Metadata, PodGroup, QueueObject
from queues.apimachinery.lenient import LenientReader
from queues.fields.drain import DRAIN_FIELDS
from queues.windows.drains import DEADLINE_AFTER
from queues.windows.entries import CurrentWindow
from queues.windows.reader import OVERRIDE_FIELDS, SPAN_FIELDS, WINDOW_FIELDS

PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
REMEDY = "apply ours again with: kubectl apply --server-side --force-conflicts -k manifests/crds"
CONDITIONS = ("status", "conditions")
#: How many missing fields a fault names: enough to recognise whose definition it is.
MAX_FIELDS_NAMED = 5

log = logging.getLogger(__name__)


class RequiredFields(msgspec.Struct, frozen=True):
    """What one definition must have: a version, the fields of a struct, and a status subresource if `status`.

    `more`: fields that the struct does not spell out, by the field that they are in. The parts of conditions
    are not required: one struct reads the conditions of every kind, and no kind has all of its fields.
    """

    version: str
    shape: type[msgspec.Struct]
    status: bool = False
    more: Mapping[tuple[str, ...], tuple[str, ...]] = {}


#: Those of the spec are read by `queues.drain.model`, those of the status written by `queues.drain.progress`.
_DRAIN = {
    ("spec", "drain"): tuple(row.name for row in DRAIN_FIELDS),
    ("status", "drain"): (
        *("since", "evicted", "suspended", "scaled", "deleted"),
        *("left", "leaving", "kept", "blocked", "blockers"),
    ),
    ("status", "drain", "blockers", "*"): ("name", "pods", "never", "message"),
}
#: Read by `queues.windows.reader`, and written by the server.
_WINDOWS = {
    ("spec", "windows", "*"): WINDOW_FIELDS,
    ("spec", "windows", "*", "except", "*"): SPAN_FIELDS,
    ("spec", "windows", "*", "drain"): (
        *(row.name for row in DRAIN_FIELDS if row.name != "deadline"),
        DEADLINE_AFTER,
    ),
    ("spec", "windowOverrides", "*"): OVERRIDE_FIELDS,
    ("spec", "inWindow", "*"): CurrentWindow.__struct_fields__,
}
#: By the definition's name.
REQUIRED: Mapping[str, RequiredFields] = {
    "queues.scheduling.volcano.sh": RequiredFields(
        "v1beta1", QueueObject, status=True, more={**_DRAIN, **_WINDOWS}
    ),
    "podgroups.scheduling.volcano.sh": RequiredFields("v1beta1", PodGroup),
    "commands.bus.volcano.sh": RequiredFields("v1alpha1", Command),
}


class Schema(msgspec.Struct, frozen=True):
    """The part of an OpenAPI schema that lists the fields."""

    properties: dict[str, Schema] | None = None
    items: Schema | None = None
    open: bool = msgspec.field(default=False, name="x-kubernetes-preserve-unknown-fields")

    def serves(self, path: tuple[str, ...]) -> bool:
        """Return whether the API server keeps a field; `*` in `path` means the items of a list."""
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
    """The faults of the definitions. `mended` is called when the last fault is gone."""

    def __init__(self, mended: Callable[[], object] = lambda: None, *, faults: dict[str, str]) -> None:
        """`faults`: receives the fault of each definition, with its remedy, by the definition's name."""
        self._mended = mended
        self._faults = faults

    def judge(self, name: str, definition: Definition | None) -> None:
        """Check the present state of the definition of that name; None if it does not exist."""
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
    """The event handler for the reflector of one definition."""

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
    """Return what is wrong with a definition and the remedy; an empty string if nothing is."""
    if definition is None:
        return f"the CustomResourceDefinition {name} is not there; {REMEDY}"
    need = REQUIRED[name]
    version = next((each for each in definition.spec.versions if each.name == need.version), None)
    if version is None or not version.served:
        return f"the CustomResourceDefinition {name} does not serve {need.version}; {REMEDY}"
    if need.status and version.subresources.status is None:
        return f"the CustomResourceDefinition {name} has no status subresource; {REMEDY}"
    schema = version.schema.open_api_v3_schema
    missing = [".".join(path) for path in needed_fields(need) if not schema.serves(path)]
    if not missing:
        return ""
    more = f" and {len(missing) - MAX_FIELDS_NAMED} more" if len(missing) > MAX_FIELDS_NAMED else ""
    return (
        f"the CustomResourceDefinition {name} lacks {', '.join(missing[:MAX_FIELDS_NAMED])}{more}; {REMEDY}"
    )


def needed_fields(need: RequiredFields) -> list[tuple[str, ...]]:
    """Return the paths of the fields on the wire, nested ones included; `*` means a list's items."""
    read = [
        path
        for path in _paths(inspect.type_info(need.shape), ())
        if path[0] != "metadata" and path[:-1][:2] != CONDITIONS
    ]
    return [*read, *((*path, name) for path, names in need.more.items() for name in names)]


class _Definitions(msgspec.Struct, frozen=True):
    items: list[Definition] = []


_definitions = msgspec.json.Decoder(_Definitions)


def current_faults(client: Client) -> Iterator[str]:
    """Read the definitions now, and yield what is wrong with each. Raises `ClusterError`."""
    for name in REQUIRED:
        # Listed by name: our role allows to list and watch them, and no more.
        listed = decode_response(client.get(PATH, fieldSelector=f"metadata.name={name}"), _definitions)
        if fault := definition_fault(name, listed.items[0] if listed.items else None):
            yield fault


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
#: Replaces a value that cannot be read. An unknown value stops the queue (`cluster.cache.queues`).
UNREADABLE = "Unreadable"
_DECIDING = frozenset({"spec", "spec.state", "spec.stopPolicy", "spec.parent"})


def read_queue(raw: msgspec.Raw | bytes) -> QueueObject:
    """Read a queue as the API server served it. Raises `NotFound` if a foreign definition served it.

    Our definition gives `spec.stopPolicy` a default, which the API server fills in on every read. So a queue
    without it was stripped of our other fields as well.
    """
    return _required(_read_queue(raw))


def read_queue_leniently(raw: msgspec.Raw | bytes) -> tuple[QueueObject, list[str]]:
    """Read a queue that has bad fields. A bad field that decides about a stop counts as a stop."""
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
