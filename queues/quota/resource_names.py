"""Which names of resources in a quota count, and what was meant by one that nothing counts.

A quota counts what pods request, and devices that they claim. A pod can request `cpu`, `memory`,
`ephemeral-storage`, `hugepages-SIZE`, and extended resources, which have a domain (`nvidia.com/gpu`); `pods`
counts pods, and `deviceclass/NAME` devices of a class. So of a name that a Queue gives an amount for:

| the name                                           | its fault | such as                               |
|----------------------------------------------------|-----------|---------------------------------------|
| is one of a ResourceQuota, by its prefix           | `MISTAKE` | requests.cpu, limits.memory,          |
|                                                    |           | requests.nvidia.com/gpu               |
| is one that pods can request, in other letters     | `MISTAKE` | CPU, Memory                           |
| has no domain otherwise: no pod can request it     | `NEVER`   | memeory, gpu                          |
| says devices as others do                          | `NEVER`   | cores.deviceclass/x,                  |
|                                                    |           | x.deviceclass.resource.k8s.io/devices |
| is a class of devices that does not exist          | `UNSEEN`  | deviceclass/x                         |
| has a domain, no node has it and no member uses    | `UNSEEN`  | nvidia.com/gpus; where nodes come     |
| it, nor is it another name of a class              |           | later, it may be right                |

A `MISTAKE` is refused where an edit brings it, `NEVER` and `UNSEEN` are warned of. None is judged `UNSEEN` by
what has not been read. `MISTAKE` and `NEVER` limit nothing, whatever comes (`is_counted`).

Invariants
- Functions of values. What an extended resource can be called is never refused.
- One warning for each kind of fault in an edit, whatever the number of names: `NAMED` are shown, each with
  the one that was meant, if one is near.

Source: `pkg/apis/core/v1/helper` and `pkg/apis/core/validation` of `k8s.io/kubernetes`: what is an extended
resource, and what a container may request.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import Enum, auto
from typing import Any

import msgspec

from queues.quota.devices import DEVICES_PREFIX, IMPLICIT_PREFIX
from queues.similar_names import similar_names
from queues.text import printable, truncated

#: What pods can request without a domain, and pods themselves.
NATIVE = ("cpu", "memory", "ephemeral-storage", "pods")
HUGE_PAGES = "hugepages-"
#: Names that a warning shows, and characters of each.
NAMED, NAME_LENGTH = 3, 48
#: Characters of a warning.
LENGTH = 250
#: What is meant by the last part of a name, where no node is known that has it.
_WELL_KNOWN = ("nvidia.com/gpu", "amd.com/gpu")
_QUOTA_PREFIXES = ("requests.", "limits.")
#: As a ResourceQuota names devices of a class, and as Volcano names what they have.
_DEVICES_SUFFIX, _VOLCANOS_DEVICES = ".deviceclass.resource.k8s.io/devices", ".deviceclass/"


class NameFault(Enum):
    """The kinds of the table."""

    MISTAKE = auto()
    NEVER = auto()
    UNSEEN = auto()


class KnownResources(msgspec.Struct, frozen=True, kw_only=True):
    """What exists here. `nodes`: the resources that nodes have; None: not known. `classes`: of devices; None:
    not known. `others`: gives the other names of classes, and what members use; it may be called often.
    """

    nodes: Collection[str] | None = None
    classes: Collection[str] | None = None
    others: Callable[[], Collection[str]] = frozenset


NOTHING_KNOWN = KnownResources()


def name_fault(name: str, known: KnownResources = NOTHING_KNOWN) -> NameFault | None:
    """By the table of the module; None where the name counts."""
    fixed = _fault(name)
    if fixed is not None or _is_native(name):
        return fixed
    if name.startswith(DEVICES_PREFIX):
        of_class = name.removeprefix(DEVICES_PREFIX)
        return NameFault.UNSEEN if known.classes is not None and of_class not in known.classes else None
    if known.nodes is None or name in known.nodes or name.startswith(IMPLICIT_PREFIX):
        return None
    return None if name in known.others() else NameFault.UNSEEN


def is_counted(name: str) -> bool:
    """Whether anything can ever count for the name."""
    return _fault(name) is None


def uncounted(names: Iterable[str]) -> list[str]:
    return [name for name in names if not is_counted(name)]


def mistake_text(name: str) -> str:
    """What is wrong with a name that is a mistake and what was meant; "" where it is none."""
    if _fault(name) is not NameFault.MISTAKE:
        return ""
    meant = _meant(name, NOTHING_KNOWN)
    return "nothing counts that, since no pod can request it; " + (
        f'did you mean "{printable(meant, limit=NAME_LENGTH)}"?'
        if meant
        else "name what pods request, such as cpu, memory or nvidia.com/gpu"
    )


def amounts_of(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The amounts of a quota in a spec as JSON has it, with their places."""
    for field in ("capability", "deserved"):
        value = spec.get(field)
        yield f"spec.{field}", value if isinstance(value, Mapping) else {}
    guarantee = spec.get("guarantee")
    value = guarantee.get("resource") if isinstance(guarantee, Mapping) else None
    yield "spec.guarantee", value if isinstance(value, Mapping) else {}


def name_warnings(
    before: Mapping[str, Any], after: Mapping[str, Any], known: KnownResources
) -> tuple[str, ...]:
    """The warnings for the names that an edit brings into a quota. `before`: the spec as it was; {} for a new
    queue.
    """
    was = dict(amounts_of(before))
    faults: dict[NameFault, dict[str, list[str]]] = {NameFault.NEVER: {}, NameFault.UNSEEN: {}}
    for place, amounts in amounts_of(after):
        for name in amounts:
            fault = name_fault(name, known) if name not in was[place] else None
            if fault in faults:
                faults[fault].setdefault(name, []).append(place)
    return tuple(_warning(fault, names, known) for fault, names in faults.items() if names)


def _warning(fault: NameFault, names: Mapping[str, list[str]], known: KnownResources) -> str:
    places = sorted({place for each in names.values() for place in each})
    what = (
        "what nothing counts, since no pod can request it"
        if fault is NameFault.NEVER
        else "what no node has and no pod of a queue uses yet"
    )
    verb = "names" if len(places) == 1 else "name"
    shown = [_shown(name, known) for name in list(names)[:NAMED]]
    more = len(names) - len(shown)
    listed = ", ".join(shown) + (f" and {more} more" if more else "")
    return truncated(f"{' and '.join(places)} {verb} {what}: {listed}", limit=LENGTH)


def _shown(name: str, known: KnownResources) -> str:
    meant = _meant(name, known)
    text = printable(name, limit=NAME_LENGTH)
    return f"{text} (did you mean {printable(meant, limit=NAME_LENGTH)}?)" if meant else text


def _fault(name: str) -> NameFault | None:
    """Of a name by itself."""
    if "/" not in name:
        if _is_native(name):
            return None
        is_mistake = name.startswith(_QUOTA_PREFIXES) or _is_native(name.lower())
        return NameFault.MISTAKE if is_mistake else NameFault.NEVER
    if name.startswith("requests."):
        return NameFault.MISTAKE
    if name.endswith(_DEVICES_SUFFIX) or _VOLCANOS_DEVICES in name:
        return NameFault.NEVER
    return None


def _is_native(name: str) -> bool:
    return name in NATIVE or name.startswith(HUGE_PAGES)


def _meant(name: str, known: KnownResources) -> str:
    """The name that was meant, as far as one is near; "" without one."""
    for prefix in _QUOTA_PREFIXES:
        if name.startswith(prefix):
            rest = name.removeprefix(prefix)
            return rest if "/" in rest else _near(rest, known)
    if name.endswith(_DEVICES_SUFFIX):
        return DEVICES_PREFIX + name.removesuffix(_DEVICES_SUFFIX)
    if _VOLCANOS_DEVICES in name:
        return DEVICES_PREFIX + name.partition(_VOLCANOS_DEVICES)[2]
    return _near(name, known)


def _near(name: str, known: KnownResources) -> str:
    lower = name.lower()
    if _is_native(lower) and lower in NATIVE:
        return lower
    if name.startswith(DEVICES_PREFIX):
        classes = similar_names(name.removeprefix(DEVICES_PREFIX), sorted(known.classes or ()))
        return DEVICES_PREFIX + classes[0] if classes else ""
    extended = sorted(each for each in {*(known.nodes or ()), *known.others()} if "/" in each)
    for among in (extended, _WELL_KNOWN):  # gpu, or gpus, of one that exists
        for each in among:
            if each.rpartition("/")[2].lower() in (lower, lower.removesuffix("s")):
                return each
    near = similar_names(lower, [*NATIVE, *extended])
    return near[0] if near else ""
