"""The admission endpoints: `POST /mutate/...` and `POST /validate/...`.

| path                 | objects                     | module   |
|----------------------|-----------------------------|----------|
| `/mutate/queues`     | queues                      | queues   |
| `/validate/queues`   | queues                      | queues   |
| `/mutate/pods`       | pods, CREATE                | pods     |
| `/validate/pods`     | pods, CREATE, UPDATE        | pods     |
| `/mutate/workloads`  | whatever has a pod template | workloads |
| `/validate/scales`   | their `scale`               | workloads |
| `/mutate/podgroups`  | podgroups, CREATE, UPDATE   | podgroups |
| `/validate/binds`    | pods/binding, bindings      | binds    |
| `/mutate/namespaces` | namespaces, CREATE, UPDATE  | namespaces |
| `/mutate/commands`   | commands, CREATE            | commands |

Before the cluster has been read each answers 503, and the API server does as the failure policy
of its webhook says; and so does each but the guard once the API server has been lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cluster.cache.store import Store
from cluster.exceptions import Faulty, NotReady
from webhooks import (
    commands,
    namespaces,
    podgroups,
)
from webhooks.pods import binds
from webhooks.pods import pod_admission as pods
from webhooks.queues import queue_admission as queues
from webhooks.queues import queue_validation
from webhooks.review import Answer, Request, decode_review, deny, encode_review
from webhooks.settings import AdmissionSettings
from webhooks.workloads import workload_admission as workloads

#: From the bytes of a request to the bytes of its answer.
#: Raises `cluster.exceptions.Unreadable` and `NotReady`.
Handler = Callable[[bytes], bytes]
ReviewHandler = Callable[[Request], Answer]

GUARD = "/validate/binds"


def handlers(store: Store, terms: AdmissionSettings) -> Mapping[str, Handler]:
    """Each path and what answers it."""
    judges: Mapping[str, ReviewHandler] = {
        "/mutate/queues": lambda asked: queues.mutate(asked, store=store, terms=terms),
        "/validate/queues": lambda asked: queue_validation.validate(asked, store=store, terms=terms),
        "/mutate/pods": lambda asked: pods.mutate(asked, store=store, terms=terms),
        "/validate/pods": lambda asked: (
            pods.validate_create(asked, store=store)
            if asked.operation == "CREATE"
            else pods.validate_update(asked, store=store, terms=terms)
        ),
        "/mutate/workloads": lambda asked: workloads.mutate(asked, store=store, terms=terms),
        "/validate/scales": lambda asked: workloads.validate_scale(asked, store=store),
        "/mutate/podgroups": lambda asked: podgroups.mutate(asked, store=store, terms=terms),
        GUARD: lambda asked: binds.validate(asked, store=store, terms=terms),
        "/mutate/namespaces": lambda asked: namespaces.mutate(asked, store=store),
        "/mutate/commands": lambda asked: commands.mutate(asked, store=store),
    }
    return {path: _handler(path, judge, store) for path, judge in judges.items()}


def _handler(path: str, judge: ReviewHandler, store: Store) -> Handler:
    def handle(body: bytes) -> bytes:
        asked = decode_review(body)
        if not store.synced and not (path == GUARD and store.cut_off()):
            raise NotReady("sluice has not read the cluster yet")
        return encode_review(asked.uid, _answer(judge, asked))

    return handle


def _answer(judge: ReviewHandler, asked: Request) -> Answer:
    try:
        return judge(asked)
    except Faulty as exc:
        return deny(str(exc), code=422)
