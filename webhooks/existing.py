"""Whether what a request creates is there already, so that the API server refuses it: AlreadyExists.

Admission is asked before the API server looks. What a creation would do, a warning of it must not say then.

Promises
- Only what the cache has counts as there. The cache may be milliseconds late: of what was deleted just
  before, a warning may be missing.
- A queue whose deletion was admitted counts as gone before the watch says so.
"""

from __future__ import annotations

from cluster.cache.store import Store
from queues.workload_kinds import find_kind
from webhooks.review import ReviewRequest


def is_there(request: ReviewRequest, *, store: Store) -> bool:
    """Only of a CREATE; of an object whose name the API server makes up it is never so."""
    name, namespace, resource = request.name, request.namespace, request.resource
    if request.operation != "CREATE" or not name or request.sub_resource:
        return False
    match resource.resource:
        case "queues":
            return is_queue_there(name, store=store)
        case "namespaces":
            return name in store.namespaces.objects
        case "pods":
            return store.members.get(namespace, name) is not None
        case "podgroups":
            return store.podgroups.get(namespace, name) is not None
    kind = find_kind(resource.group, resource.resource)
    return kind is not None and store.workloads.of_kind[kind.key].by_name(namespace, name) is not None


def is_queue_there(name: str, *, store: Store) -> bool:
    return name in store.queues and not store.queue_edits.is_deleted(name)
