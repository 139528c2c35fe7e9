"""Readers of objects of which some field cannot be read. It takes long to import: few need it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from queues.apimachinery.lenient import LenientReader
from queues.world.objects import Pod, PodGroup, WorkloadObject

READERS: Mapping[type[Any], LenientReader[Any]] = MappingProxyType(
    {
        Pod: LenientReader(Pod),
        PodGroup: LenientReader(PodGroup),
        WorkloadObject: LenientReader(WorkloadObject),
    }
)
