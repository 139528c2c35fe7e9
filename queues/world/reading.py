"""Objects that were read as JSON and are dicts, as structs: what the plugin has.

Promise: of an object with a field that cannot be read the others are read, as the cache reads them
(`queues.apimachinery.lenient`). One without readable metadata has none: it names nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from queues.apimachinery.conversion import Converter
from queues.world.objects import Metadata, Pod, PodGroup, WorkloadObject

T = TypeVar("T", Pod, PodGroup, WorkloadObject)

_pod = Converter[Pod](Pod)
_podgroup = Converter[PodGroup](PodGroup)
_workload = Converter[WorkloadObject](WorkloadObject)


def as_pod(item: Mapping[str, Any]) -> Pod:
    return _read(item, _pod, Pod)


def as_podgroup(item: Mapping[str, Any]) -> PodGroup:
    return _read(item, _podgroup, PodGroup)


def as_workload(item: Mapping[str, Any]) -> WorkloadObject:
    return _read(item, _workload, WorkloadObject)


def _read(item: Mapping[str, Any], converter: Converter[T], shape: type[T]) -> T:
    try:
        return converter(item)
    except msgspec.ValidationError:
        # Its decoders take long to build, and few objects need them.
        from queues.world.lenient_readers import READERS  # noqa: PLC0415

    try:
        read: T = READERS[shape](msgspec.json.encode(item))[0]
    except msgspec.DecodeError:
        return shape(metadata=Metadata())
    return read
