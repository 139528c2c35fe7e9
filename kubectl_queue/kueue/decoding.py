"""Kueue's objects as the API server has them, any of its versions, decoded.

| an object                                  | what becomes of it                                          |
|--------------------------------------------|-------------------------------------------------------------|
| ClusterQueue, Cohort, LocalQueue           | a value of `model`                                          |
| one that cannot be read, in any part of it | nothing: a fault, so that no limit is guessed               |
| the second of one name                     | nothing: a fault                                            |
| one that is being deleted                  | as any other, since it still holds; said                    |
| a field without a counterpart              | said, unless its value means the same as its absence        |
| a LocalQueue of a ClusterQueue not here    | nothing: said                                               |
| ResourceFlavor, other kinds of Kueue       | what they lose is said                                      |
| any other kind                             | passed over, with one line                                  |

Invariant: never raises, whatever the objects hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from kubectl_queue.kueue.fields import (
    CLUSTER_QUEUE,
    COHORT,
    FLAVOR,
    GROUP,
    LOCAL_QUEUE,
    OTHER_KINDS,
    VERSIONS,
    row,
)
from kubectl_queue.kueue.model import (
    ClusterQueue,
    Cohort,
    FlavorQuota,
    FlavorResource,
    Kueue,
    LocalQueue,
    Preemption,
    Quotas,
)
from kubectl_queue.kueue.report import Report
from queues.apimachinery.label_selectors import QUALIFIED_NAME
from queues.apimachinery.quantities import Amount, BadQuantity, parse_quantity, sum_amounts
from queues.membership import name_fault, valid_name
from queues.namespace_selectors import NAME_LABEL, compile_selector
from queues.states import StopPolicy
from queues.text import any_of, quoted

_RECLAIM = ("Never", "LowerPriority", "Any")
_WITHIN = ("Never", "LowerPriority", "LowerOrNewerEqualPriority")
_STRATEGIES = ("BestEffortFIFO", "StrictFIFO")
_STOPS = tuple(policy.value for policy in StopPolicy)
#: A selector that no namespace meets: the API server gives each of them this label.
NO_NAMESPACE: Mapping[str, Any] = {"matchExpressions": [{"key": NAME_LABEL, "operator": "DoesNotExist"}]}
#: What the API server fills in, and what therefore says nothing.
_DEFAULT_FUNGIBILITY = {
    "whenCanBorrow": ("MayStopSearch", "Borrow"),
    "whenCanPreempt": ("TryNextFlavor",),
    "preference": ("BorrowingOverPreemption",),
}


class _Unreadable(ValueError):
    """`field`: below `spec`, or of the metadata."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(reason)
        self.field = field


def decode(objects: Iterable[Any], *, report: Report, namespace: str = "default") -> Kueue:
    """`namespace`: that of LocalQueues that name none."""
    queues: dict[str, ClusterQueue] = {}
    cohorts: dict[str, Cohort] = {}
    locals_: dict[tuple[str, str], LocalQueue] = {}
    flavors: set[str] = set()
    for item in objects:
        kind, name = _kind(item), _shown_name(item)
        if not _is_kueue(item, kind):
            report.lost(kind or "an object", name, "is not of Kueue, and passed over")
            continue
        if kind in OTHER_KINDS:
            report.lost(kind, name, OTHER_KINDS[kind])
            continue
        try:
            value = _decoded(kind, item, report=report, namespace=namespace)
        except _Unreadable as exc:
            report.fault(kind, name, f"{exc}; it is not converted", field=exc.field)
            continue
        match value:
            case ClusterQueue():
                _keep(queues, value.name, value, kind, name, report)
            case Cohort():
                _keep(cohorts, value.name, value, kind, name, report)
            case LocalQueue():
                _keep(locals_, (value.namespace, value.name), value, kind, name, report)
            case str():
                flavors.add(value)
    _say_unread_flavors(queues, flavors, report)
    here = [each for _, each in sorted(locals_.items()) if _has_queue(each, queues, report)]
    return Kueue(cluster_queues=queues, cohorts=cohorts, local_queues=tuple(here))


def _keep(kept: dict[Any, Any], key: Any, value: Any, kind: str, name: str, report: Report) -> None:
    if key in kept:
        report.fault(kind, name, "is there twice; the first one counts")
    else:
        kept[key] = value


def _has_queue(local: LocalQueue, queues: Mapping[str, ClusterQueue], report: Report) -> bool:
    if local.cluster_queue in queues:
        return True
    text = f"its ClusterQueue {quoted(local.cluster_queue)} is not among what was read; left out"
    report.lost(LOCAL_QUEUE, local.path, text)
    return False


def _say_unread_flavors(queues: Mapping[str, ClusterQueue], flavors: set[str], report: Report) -> None:
    used = {flavor for queue in queues.values() for _, flavor in queue.quotas}
    for flavor in sorted(used - flavors):
        text = "was not read: if it names nodes, pods are not sent there any more"
        report.lost(FLAVOR, flavor, text)


def _decoded(
    kind: str, item: Mapping[str, Any], *, report: Report, namespace: str
) -> ClusterQueue | Cohort | LocalQueue | str:
    metadata = _mapping(item.get("metadata"), "metadata")
    name = _name(metadata.get("name"), "metadata.name")
    spec = _mapping(item.get("spec"), "spec")
    if metadata.get("deletionTimestamp"):
        report.lost(kind, name, "is being deleted; it is converted all the same")
    version = str(item.get("apiVersion", "")).partition("/")[2]
    if version not in VERSIONS:
        report.lost(kind, name, f"is of a version that is not known; it is read as {VERSIONS[0]}")
    for field, value in spec.items():
        _say_lost(kind, name, str(field), value, report)
    match kind:
        case "ClusterQueue":
            return _cluster_queue(name, spec, report)
        case "Cohort":
            return _cohort(name, spec)
        case "LocalQueue":
            place = _name(metadata.get("namespace") or namespace, "metadata.namespace")
            return _local_queue(name, spec, namespace=place)
    return name


def _say_lost(kind: str, name: str, field: str, value: Any, report: Report) -> None:
    known = row(kind, field)
    if known is None:
        report.lost(kind, name, "is not known; left out", field=f"spec.{field}")
    elif not known.becomes and value and field != "clusterQueue" and not _says_nothing(field, value):
        report.lost(kind, name, f"has no counterpart: {known.text}", field=f"spec.{field}")


def _says_nothing(field: str, value: Any) -> bool:
    if field == "flavorFungibility" and isinstance(value, Mapping):
        return all(word in _DEFAULT_FUNGIBILITY.get(key, ()) for key, word in value.items())
    if field == "admissionScope" and isinstance(value, Mapping):
        return value.get("admissionMode") == "NoAdmissionFairSharing"
    return field == "admissionChecksStrategy" and value == {"admissionChecks": []}


def _cluster_queue(name: str, spec: Mapping[str, Any], report: Report) -> ClusterQueue:
    return ClusterQueue(
        name=name,
        cohort=_optional_name(spec, "cohortName", "cohort"),
        quotas=_quotas(spec),
        strict=_word(spec, "queueingStrategy", _STRATEGIES) == "StrictFIFO",
        selector=_selector(spec),
        stop=StopPolicy(_word(spec, "stopPolicy", _STOPS)),
        weight=_weight(spec),
        preemption=_preemption(name, spec, report),
    )


def _cohort(name: str, spec: Mapping[str, Any]) -> Cohort:
    parent = _optional_name(spec, "parentName", "parent")
    return Cohort(name=name, parent=parent, quotas=_quotas(spec), weight=_weight(spec))


def _local_queue(name: str, spec: Mapping[str, Any], *, namespace: str) -> LocalQueue:
    return LocalQueue(
        namespace=namespace,
        name=name,
        cluster_queue=_name(spec.get("clusterQueue"), "spec.clusterQueue"),
        stop=StopPolicy(_word(spec, "stopPolicy", _STOPS)),
        weight=_weight(spec),
    )


def _preemption(name: str, spec: Mapping[str, Any], report: Report) -> Preemption:
    policies = _mapping(spec.get("preemption"), "spec.preemption")
    found = Preemption(
        reclaim=_word(policies, "reclaimWithinCohort", _RECLAIM, place="spec.preemption."),
        within=_word(policies, "withinClusterQueue", _WITHIN, place="spec.preemption."),
    )
    borrow = _mapping(policies.get("borrowWithinCohort"), "spec.preemption.borrowWithinCohort")
    if borrow.get("policy", "Never") != "Never":
        text = "has no counterpart: a pod for which its queue would borrow evicts no pod of another queue"
        report.lost(CLUSTER_QUEUE, name, text, field="spec.preemption.borrowWithinCohort")
    if found.within == "LowerOrNewerEqualPriority":
        text = "pods of lower priority are evicted, and none of equal priority"
        report.lost(CLUSTER_QUEUE, name, text, field="spec.preemption.withinClusterQueue")
    return found


def _quotas(spec: Mapping[str, Any]) -> Quotas:
    found: dict[FlavorResource, FlavorQuota] = {}
    for place, group in _items(spec, "resourceGroups", "spec."):
        for flavor_place, flavor in _items(group, "flavors", f"{place}."):
            name = _text(flavor.get("name"), f"{flavor_place}.name")
            for at, resource in _items(flavor, "resources", f"{flavor_place}."):
                pair = _resource(resource.get("name"), f"{at}.name"), name
                if pair in found:
                    raise _Unreadable(f"{at}.name", f"{quoted(pair[0])} is there twice for one flavor")
                found[pair] = FlavorQuota(
                    _amount(resource.get("nominalQuota"), f"{at}.nominalQuota"),
                    _limit(resource.get("borrowingLimit"), f"{at}.borrowingLimit"),
                    _limit(resource.get("lendingLimit"), f"{at}.lendingLimit"),
                )
    return found


def _items(part: Mapping[str, Any], field: str, place: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    items = part.get(field)
    if items is None:
        return
    if not isinstance(items, list):
        raise _Unreadable(f"{place}{field}", "is not a list")
    for index, item in enumerate(items):
        at = f"{place}{field}[{index}]"
        yield at, _mapping(item, at)


def _resource(value: Any, place: str) -> str:
    name = _text(value, place)
    if not QUALIFIED_NAME.fullmatch(name):
        raise _Unreadable(place, f"{quoted(name)} is no name of a resource")
    return name


def _amount(value: Any, place: str) -> Amount:
    try:
        amount = parse_quantity(value)
    except BadQuantity as exc:
        raise _Unreadable(place, str(exc)) from exc
    if amount < 0:
        raise _Unreadable(place, "is negative")
    return amount


def _limit(value: Any, place: str) -> Amount | None:
    return None if value is None else _amount(value, place)


def _weight(spec: Mapping[str, Any]) -> Fraction:
    place = "spec.fairSharing"
    value = _mapping(spec.get("fairSharing"), place).get("weight")
    return Fraction(1 if value is None else sum_amounts([_amount(value, f"{place}.weight")]))


def _selector(spec: Mapping[str, Any]) -> Mapping[str, Any] | None:
    value = spec.get("namespaceSelector")
    if value is None:
        return None
    compiled = compile_selector(value)
    if compiled is not None and compiled.unreadable:
        raise _Unreadable("spec.namespaceSelector", compiled.unreadable)
    return {key: part for key, part in value.items() if part}


def _word(part: Mapping[str, Any], field: str, words: tuple[str, ...], *, place: str = "spec.") -> str:
    """The field's value; the first of the words where it is absent."""
    value = part.get(field)
    if value is None:
        return words[0]
    if value not in words:
        raise _Unreadable(f"{place}{field}", f"{quoted(str(value))} is none of {any_of(words)}")
    return str(value)


def _optional_name(spec: Mapping[str, Any], *fields: str) -> str:
    """The first of these fields that is there; "" where none is."""
    for field in fields:
        if spec.get(field):
            return _name(spec[field], f"spec.{field}")
    return ""


def _name(value: Any, place: str) -> str:
    name = _text(value, place)
    if not valid_name(name):
        raise _Unreadable(place, f"is no name: {name_fault(name)}")
    return name


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str) or not value:
        raise _Unreadable(place, "is missing" if value is None else "is no text")
    return value


def _mapping(value: Any, place: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _Unreadable(place, "is no mapping")
    return value


def _is_kueue(item: Any, kind: str) -> bool:
    group = str(item.get("apiVersion", "")).partition("/")[0] if isinstance(item, Mapping) else ""
    return group == GROUP and (kind in OTHER_KINDS or kind in (CLUSTER_QUEUE, COHORT, LOCAL_QUEUE, FLAVOR))


def _kind(item: Any) -> str:
    kind = item.get("kind") if isinstance(item, Mapping) else None
    return kind if isinstance(kind, str) else ""


def _shown_name(item: Any) -> str:
    metadata = item.get("metadata") if isinstance(item, Mapping) else None
    if not isinstance(metadata, Mapping):
        return "without a name"
    parts = [metadata.get("namespace"), metadata.get("name")]
    return "/".join(str(part) for part in parts if part) or "without a name"
