"""Reads the fields that can be read of an object that has bad ones.

The definition of a custom resource accepts values that our structs do not: the year 0, a number that is too
large, a field of another type if the schema is somebody else's. One bad field must not hide the others.

Guarantees
- Each field of a struct is read by itself, also in nested structs and in lists. A field that cannot be read
  gets its default, and its path is reported.
- An object without readable `metadata` raises `msgspec.DecodeError`.
- All decoders are built when the reader is built.
"""

from __future__ import annotations

from types import UnionType
from typing import Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from queues.text import printable

StructT = TypeVar("StructT", bound=msgspec.Struct)

#: How many paths a message names, and the characters of the whole message.
MAX_PLACES, TEXT_LIMIT = 3, 160

_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_list = msgspec.json.Decoder(list[msgspec.Raw])


class LenientReader(Generic[StructT]):
    """Reads one kind of object."""

    def __init__(self, shape: type[StructT]) -> None:
        self._shape = _shape_of(shape, {})

    def __call__(self, raw: msgspec.Raw | bytes) -> tuple[StructT, list[str]]:
        """Return the object and the paths that cannot be read. Raises `msgspec.DecodeError`."""
        faults: list[str] = []
        return self._shape.read(msgspec.Raw(raw), "", faults), faults


def fault_text(faults: list[str]) -> str:
    """Join the paths in one line."""
    more = f" and {len(faults) - MAX_PLACES} more" if len(faults) > MAX_PLACES else ""
    return printable(", ".join(faults[:MAX_PLACES]), limit=TEXT_LIMIT) + more


_Known = dict[type[Any], "_Shape"]


def _shape_of(shape: type[Any], known: _Known) -> _Shape:
    """Return the shape of a struct, made once: a struct may contain itself."""
    return known.get(shape) or _Shape(shape, known)


class _Shape:
    """A struct and its fields, by their names on the wire."""

    def __init__(self, shape: type[Any], known: _Known) -> None:
        known[shape] = self
        self._make = shape
        self._whole = msgspec.json.Decoder(shape).decode
        hints = get_type_hints(shape)
        self._fields = {
            field.encode_name: (field.name, _Field(hints[field.name], known), field.required)
            for field in msgspec.structs.fields(shape)
        }

    def read(self, raw: msgspec.Raw, place: str, faults: list[str]) -> Any:
        try:
            return self._whole(raw)
        except msgspec.DecodeError:
            fields = _object.decode(raw)
        values = {}
        for key, (name, reader, required) in self._fields.items():
            if key not in fields:
                continue
            inside = f"{place}.{key}" if place else key
            try:
                values[name] = reader.read(fields[key], inside, faults)
            except (msgspec.DecodeError, TypeError):
                if required:
                    raise
                faults.append(inside)
        try:
            return self._make(**values)
        except TypeError as exc:  # a required field is missing
            raise msgspec.DecodeError(str(exc)) from exc


class _Field:
    """One field: a struct, a list of structs, or a value that is read whole or not at all."""

    def __init__(self, kind: Any, known: _Known) -> None:
        self._whole = msgspec.json.Decoder(kind).decode
        choices = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
        shapes = [
            choice for choice in choices if isinstance(choice, type) and issubclass(choice, msgspec.Struct)
        ]
        lists = [get_args(choice)[0] for choice in choices if get_origin(choice) is list]
        listed = [
            choice for choice in lists if isinstance(choice, type) and issubclass(choice, msgspec.Struct)
        ]
        self._shape = _shape_of(shapes[0], known) if shapes else None
        self._items = _shape_of(listed[0], known) if listed else None

    def read(self, raw: msgspec.Raw, place: str, faults: list[str]) -> Any:
        try:
            return self._whole(raw)
        except msgspec.DecodeError:
            if self._shape is not None:
                return self._shape.read(raw, place, faults)
            if self._items is None:
                raise
        items = []
        for number, item in enumerate(_list.decode(raw)):
            inside = f"{place}[{number}]"
            try:
                items.append(self._items.read(item, inside, faults))
            except msgspec.DecodeError:
                faults.append(inside)
        return items
