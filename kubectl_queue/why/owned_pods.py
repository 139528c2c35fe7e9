"""The pods of an object of a kind that Sluice does not know (RayCluster, Workflow, SparkApplication), by the
owner references of the pods.

| the kind that is asked about | whose pods these are                                              |
|------------------------------|-------------------------------------------------------------------|
| owns pods                    | they                                                              |
| owns a workload of a kind    | the pods of that: an owner that is known is read, and its owner   |
| that is known                | is looked at in the same way                                      |
| owns one that is not known   | none are found: the object in between is to be asked about        |

Any owner reference counts, as for the garbage collector, also one that is no controller's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from kubectl_queue.access.client import ApiClient
from kubectl_queue.objects.fields import Object, value_at
from kubectl_queue.objects.types import type_of_owner

#: Owners above each other that are followed: a cycle of references ends.
_MAX_OWNERS = 8
#: The owner with this UID that a reference names, of a known kind; None where it is not there.
OwnerLookup = Callable[[Mapping[str, Any], str], Object | None]


def read_owned_pods(
    client: ApiClient, owner_of: OwnerLookup, word: str, name: str, *, namespace: str
) -> Sequence[Object]:
    """The pods of NAME, of the kind that the user calls `word`. Raises ForbiddenError."""
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"
    pods = client.list(path, query={}, kind="pods").items
    return [pod for pod in pods if any(_is_meant(each, word, name) for each in _owners(pod, owner_of))]


def _owners(pod: Object, owner_of: OwnerLookup) -> Iterator[Mapping[str, Any]]:
    """All references of the pod, and of the known owners above it."""
    items, namespace = [pod], str(value_at(pod, "metadata.namespace") or "")
    for _ in range(_MAX_OWNERS):
        references = [each for item in items for each in value_at(item, "metadata.ownerReferences") or ()]
        if not references:
            return
        yield from references
        known = [each for each in references if type_of_owner(_kind(each), _version(each)) is not None]
        items = [item for each in known if (item := owner_of(each, namespace)) is not None]


def _is_meant(reference: Mapping[str, Any], word: str, name: str) -> bool:
    """Whether the reference is to this object. The word is the kind or its plural, in any case, alone or with
    its group behind a dot, as for kubectl.
    """
    called, _, group = word.lower().partition(".")
    kind, of_group = _kind(reference).lower(), _version(reference).rpartition("/")[0]
    plurals = {kind, f"{kind}s", f"{kind}es", f"{kind[:-1]}ies"}
    is_kind = called in plurals and (not group or of_group == group or of_group == group.partition(".")[2])
    return is_kind and reference.get("name") == name


def _kind(reference: Mapping[str, Any]) -> str:
    return str(reference.get("kind") or "")


def _version(reference: Mapping[str, Any]) -> str:
    return str(reference.get("apiVersion") or "")
