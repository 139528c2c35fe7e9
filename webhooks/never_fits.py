"""The warnings for pods, templates of pods and PodGroups that request more than their queue ever allows.

| who submits                          | is told                                                         |
|--------------------------------------|-----------------------------------------------------------------|
| a pod                                | queue, resource, what it requests and the capability            |
| a workload                           | the same of the first of its templates that never fits          |
| an edit of a template, or a move     | the same, unless the templates never fitted before for the same |
|                                      | reason                                                          |
| a workload that asks for a gang      | that its pods never start together, if one alone fits           |
| a PodGroup, or an edit of its spec   | why its pods never start together, as far as it says itself     |
| a controller                         | nothing: it reads no warnings                                   |

Without a quota nothing is decoded or counted. Of claims of devices count those that are named and exist: what
is made from a template is not there yet.
"""

from __future__ import annotations

from functools import partial, reduce
from typing import Any

import msgspec

from cluster.cache.store import Store
from cluster.objects import Container, Pod, PodGroup, PodSpec, WorkloadObject
from queues.admission.never_fits import gang_never_fits, never_fits_warning
from queues.apimachinery.conversion import Converter
from queues.apimachinery.pod_requests import Requests, pod_requests
from queues.messages import truncate_warning
from queues.quota.devices import SharedCounts, claim_refs, shared_counts, with_devices
from queues.quota.gangs import NotAsked, ask
from queues.quota.usage import limits_of, never_lack
from queues.world.podgroups import gang_of_podgroup
from queues.world.workloads import WorkloadKeys, pod_templates
from webhooks.review import ReviewRequest, decode_object
from webhooks.settings import AdmissionSettings

_objects = msgspec.json.Decoder(dict[str, Any])
_spec = Converter[PodSpec](PodSpec)


def pod_warnings(
    pod: Pod, queue: str, request: ReviewRequest, *, store: Store, settings: AdmissionSettings
) -> tuple[str, ...]:
    """For a pod of a queue with a quota."""
    if settings.is_controller(request.user_info.username):
        return ()
    warning = _warning(pod.spec, queue, namespace=request.namespace, store=store)
    return (warning,) if warning else ()


def workload_warnings(
    obj: WorkloadObject,
    queue: str,
    request: ReviewRequest,
    *,
    store: Store,
    settings: AdmissionSettings,
    before: tuple[WorkloadObject, str] | None = None,
) -> tuple[str, ...]:
    """For a workload that is submitted to the queue. `before`: of an edit, what was stored, and its queue."""
    decision = store.snapshot.decision(queue)
    if not decision.has_quota or settings.is_controller(request.user_info.username):
        return ()
    warning = _first_warning(obj, request, queue, store=store)
    if warning and before is not None:
        was, old_queue = before
        if warning == _first_warning(was, request, old_queue, store=store, where="oldObject"):
            return ()
    return (warning,) if warning else ()


def gang_fault(obj: WorkloadObject, queue: str, request: ReviewRequest, *, least: int, store: Store) -> str:
    """Why so many pods of the first template never start together, where one does; "" where they may."""
    body = decode_object(request.object, _objects)
    specs = (_template_spec(body, keys) for keys, _ in pod_templates(obj))
    spec = next(specs, None)
    if spec is None:
        return ""
    requests, claims = _requests(spec, queue, namespace=request.namespace, store=store)
    return gang_never_fits(queue, requests, least=least, tree=store.snapshot.tree, claims=claims)


def podgroup_warnings(podgroup: PodGroup, queue: str, *, store: Store) -> tuple[str, ...]:
    """For a PodGroup that a user submits to the queue, which has a quota, or whose spec they edit."""
    tree = store.snapshot.tree
    limits = limits_of(tree.chain(queue)) if queue in tree else ()
    gang = msgspec.structs.replace(gang_of_podgroup(podgroup), queue=queue)
    found = ask(gang, (), never=partial(never_lack, limits))
    if not isinstance(found, NotAsked) or not found.kind.never:
        return ()
    return (truncate_warning(f"the pods of this PodGroup never start: {found}"),)


def _first_warning(
    obj: WorkloadObject, request: ReviewRequest, queue: str, *, store: Store, where: str = "object"
) -> str:
    """The templates are decoded anew: what is kept of a workload has no containers."""
    raw = request.object if where == "object" else request.old_object
    body = decode_object(raw, _objects, where=where)
    warnings = (
        _warning(spec, queue, namespace=request.namespace, store=store, template=True)
        for keys, _ in pod_templates(obj)
        if (spec := _template_spec(body, keys)) is not None
    )
    return next(filter(None, warnings), "")


def _warning(spec: PodSpec, queue: str, *, namespace: str, store: Store, template: bool = False) -> str:
    requests, claims = _requests(spec, queue, namespace=namespace, store=store)
    return never_fits_warning(queue, requests, tree=store.snapshot.tree, claims=claims, template=template)


def _requests(spec: PodSpec, queue: str, *, namespace: str, store: Store) -> tuple[Requests, SharedCounts]:
    """What a pod requests of the queue, without itself, and what its devices count there."""
    requests, devices = pod_requests(spec), store.device_claims
    if store.snapshot.decision(queue).limits_devices:
        named = [claim for claim in spec.resource_claims or () if claim.resource_claim_name]
        claims = claim_refs(named, namespace=namespace, uid="", made=None)
        requests = with_devices(requests, claims, devices)
    return requests, shared_counts(devices)


def _template_spec(body: Any, keys: WorkloadKeys) -> PodSpec | None:
    """The spec of the template's pods; None if it cannot be read: the API server refuses it by its place."""
    try:
        spec = _spec(reduce(lambda value, key: value[key], (*keys, "spec"), body))
    except (msgspec.ValidationError, KeyError, TypeError, UnicodeEncodeError):
        return None
    return msgspec.structs.replace(
        spec,
        containers=[_with_limits(each) for each in spec.containers or ()],
        init_containers=[_with_limits(each) for each in spec.init_containers or ()],
    )


def _with_limits(container: Container) -> Container:
    """As a pod has it, of which the API server takes a limit for a request that is not there."""
    needs = container.resources
    if needs is None or not needs.limits:
        return container
    requests = {**needs.limits, **(needs.requests or {})}
    return msgspec.structs.replace(container, resources=msgspec.structs.replace(needs, requests=requests))
