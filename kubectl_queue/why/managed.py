"""Whether the namespace of an object is managed (`queues.managed_namespaces`), as far as a user can see it.

Promises
- The setting of the server is not known here. What counts is the selector of the webhook that would have made
  the object a member.
- Where that or the namespace may not be read, nothing is said: the namespace counts as managed.
- A pod or PodGroup with our label is a member wherever it is: it is not asked about.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubectl_queue.access.object_reader import ObjectReader
from kubectl_queue.objects.fields import Object, labels_of, value_at
from kubectl_queue.objects.types import MUTATING_WEBHOOKS, NAMESPACE, Type
from queues.managed_namespaces import MANAGED_LABEL, unmanaged_text
from queues.namespace_selectors import NamespaceSelector, compile_selector
from queues.well_known import MEMBER_NAMESPACE

CONFIGURATION, ENTRY = "sluice", "members.pods.sluice.dev"


def unmanaged_reason(kind: Type, item: Object, objects: ObjectReader) -> str:
    """Why nothing in the namespace is in a queue; "" where it is managed, or where that cannot be seen."""
    selector = _selector(objects.find(MUTATING_WEBHOOKS, CONFIGURATION, namespace=""))
    if selector is None or selector.unreadable:
        return ""
    name = str(value_at(item, "metadata.name" if kind is NAMESPACE else "metadata.namespace") or "")
    namespace = item if kind is NAMESPACE else objects.find(NAMESPACE, name, namespace="")
    if namespace is None or selector.selects(labels_of(namespace)):
        return ""
    return unmanaged_text(name, selector, labels_of(namespace))


def _selector(configuration: Object | None) -> NamespaceSelector | None:
    """What the entry asks of a namespace, but for the label that divides the entries between them."""
    entries = (configuration or {}).get("webhooks") or ()
    entry: Mapping[str, Any] = next((each for each in entries if each.get("name") == ENTRY), {})
    selector = dict(entry.get("namespaceSelector") or {})
    expressions = selector.get("matchExpressions") or ()
    selector["matchExpressions"] = [each for each in expressions if each.get("key") != MEMBER_NAMESPACE]
    return compile_selector(selector, allowed=[MANAGED_LABEL])
