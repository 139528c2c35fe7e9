"""What a stored pod requests of its node, also while it is resized (`queues.apimachinery.pod_requests`)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from queues.apimachinery.pod_requests import Requests, pod_requests
from queues.apimachinery.quantities import Amount, BadQuantity, parse_quantity
from queues.world.objects import Container, ContainerStatus, Pod, ResourceNeeds


def held_requests(pod: Pod) -> Requests:
    """Return the requests of a stored pod: of a container that is being resized in place, what its node holds
    for it, or what it has, where that is more.

    Source: `k8s.io/component-helpers/resource`, `PodRequests` with the resources of the status.
    """
    status = pod.status
    held = {
        each.name: amounts
        for statuses in (status.container_statuses, status.init_container_statuses)
        for each in statuses or ()
        if (amounts := _held(each))
    }
    spec = pod.spec
    if not held or not any(
        container.resources is not None
        and held.get(container.name) not in (None, container.resources.requests)
        for containers in (spec.containers, spec.init_containers)
        for container in containers or ()
    ):
        return pod_requests(spec)
    return pod_requests(
        msgspec.structs.replace(
            spec,
            containers=[_with_held(each, held) for each in spec.containers or ()],
            init_containers=[_with_held(each, held) for each in spec.init_containers or ()],
        )
    )


def _held(status: ContainerStatus) -> Mapping[str, str | int | float]:
    """What the node holds for the container, and what the container has: the greater of the two."""
    allocated = status.allocated_resources or {}
    has = status.resources.requests if status.resources else None
    if not has or has == allocated:
        return allocated
    more = {name: text for name, text in has.items() if _amount(text) > _amount(allocated.get(name, 0))}
    return {**allocated, **more} if more else allocated


def _with_held(container: Container, held: Mapping[str, Mapping[str, str | int | float]]) -> Container:
    """The container, as if it requested what its node holds for it, where that is more."""
    asked = (container.resources.requests if container.resources else None) or {}
    more = {
        name: text
        for name, text in held.get(container.name, {}).items()
        if _amount(text) > _amount(asked.get(name, 0))
    }
    return msgspec.structs.replace(container, resources=ResourceNeeds(requests={**asked, **more}))


def _amount(text: str | int | float) -> Amount:
    try:
        return parse_quantity(text)
    except BadQuantity:
        return 0
