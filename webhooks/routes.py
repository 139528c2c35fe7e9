"""The admission endpoints, `POST /mutate/...` and `POST /validate/...`: decode, answer, encode.

| path                 | objects                      | module                         |
|----------------------|------------------------------|--------------------------------|
| `/mutate/queues`     | queues                       | `queues.queue_admission`       |
| `/validate/queues`   | queues                       | `queues.queue_validation`      |
| `/mutate/pods`       | pods, CREATE                 | `pods.pod_admission`           |
| `/validate/pods`     | pods, CREATE, UPDATE         | `pods.pod_validation`          |
| `/validate/unlabelled` | pods, CREATE               | `pods.pod_validation`          |
| `/mutate/workloads`  | the kinds with pod templates | `workloads.workload_admission` |
| `/validate/scales`   | their `scale`                | `workloads.scaling`            |
| `/validate/rollouts` | workloads of queues, UPDATE  | `workloads.rollouts`           |
| `/validate/metadata` | workloads, pods, podgroups, namespaces | `metadata`           |
| `/mutate/podgroups`  | podgroups, CREATE, UPDATE    | `podgroups`                    |
| `/validate/podgroups` | podgroups, UPDATE           | `podgroups`                    |
| `/validate/binds`    | pods/binding, bindings       | `pods.binds`                   |
| `/mutate/namespaces` | namespaces, CREATE, UPDATE   | `namespaces`                   |
| `/validate/namespaces` | namespaces, UPDATE         | `namespaces`                   |
| `/mutate/commands`   | commands, CREATE             | `commands`                     |
| `/validate/policies` | the policies' ConfigMap      | `policies`                     |

Until the cluster has been read each answers 503, and the API server applies the failure policy of the
webhook. So does each after the API server has been lost, except the bind guard, which denies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from msgspec.structs import replace

from cluster.cache.store import Store
from cluster.exceptions import Faulty, NotReady
from webhooks import commands, metadata, namespaces, podgroups, policies
from webhooks.existing import is_there
from webhooks.pods import binds, pod_admission, pod_validation
from webhooks.queues import queue_admission, queue_validation
from webhooks.review import ReviewAnswer, ReviewRequest, decode_review, deny, encode_review
from webhooks.settings import AdmissionSettings
from webhooks.workloads import rollouts, scaling, workload_admission

#: From the bytes of a request to the bytes of its answer.
#: Raises `cluster.exceptions.Unreadable` and `NotReady`.
ReviewBodyHandler = Callable[[bytes], bytes]
ReviewHandler = Callable[[ReviewRequest], ReviewAnswer]

GUARD = "/validate/binds"


def handlers(store: Store, settings: AdmissionSettings) -> Mapping[str, ReviewBodyHandler]:
    """Each path and what answers it."""

    def with_settings(answer: Callable[..., ReviewAnswer]) -> ReviewHandler:
        return partial(answer, store=store, settings=settings)

    answers: Mapping[str, ReviewHandler] = {
        "/mutate/queues": with_settings(queue_admission.mutate),
        "/validate/queues": with_settings(queue_validation.validate),
        "/mutate/pods": with_settings(pod_admission.mutate),
        "/validate/pods": with_settings(pod_validation.validate),
        "/validate/unlabelled": with_settings(pod_validation.validate_unlabelled),
        "/mutate/workloads": with_settings(workload_admission.mutate),
        "/validate/scales": with_settings(scaling.validate),
        "/validate/rollouts": partial(rollouts.validate, store=store),
        "/validate/metadata": with_settings(metadata.validate),
        "/mutate/podgroups": with_settings(podgroups.mutate),
        "/validate/podgroups": with_settings(podgroups.validate),
        GUARD: with_settings(binds.validate),
        "/mutate/namespaces": partial(namespaces.mutate, store=store),
        "/validate/namespaces": partial(namespaces.validate, store=store),
        "/mutate/commands": partial(commands.mutate, store=store),
        "/validate/policies": partial(policies.validate, store=store),
    }
    return {path: _handler(path, answer, store) for path, answer in answers.items()}


def _handler(path: str, answer: ReviewHandler, store: Store) -> ReviewBodyHandler:
    def handle(body: bytes) -> bytes:
        request = decode_review(body)
        if not store.synced and not (path == GUARD and store.cut_off):
            raise NotReady("sluice has not read the cluster yet")
        answered = _answer(answer, request)
        if answered.warnings and is_there(request, store=store):
            answered = replace(answered, warnings=())  # nothing of what they say happens
        return encode_review(request.uid, answered)

    return handle


def _answer(answer: ReviewHandler, request: ReviewRequest) -> ReviewAnswer:
    try:
        return answer(request)
    except Faulty as exc:
        return deny(str(exc), code=422)
