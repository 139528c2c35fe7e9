"""A webhook in Go in the place of our server: it looks up nothing, and answers what ours would."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.filtering.go_extender import started
from benchmarks.objects import QUEUE, Object, pod, pods_path
from localcluster.components import until

#: Our webhook for pods that name a queue, and its configuration.
MEMBERS = "members.pods.sluice.dev"
CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/sluice"


@contextmanager
def answering(bench: Bench, *, gate: str = "") -> Iterator[None]:
    """It answers for members of `QUEUE`, which is open; our server is halted until it is installed again.

    `gate`: a scheduling gate that it adds.
    """
    ours = _patched(bench)
    bench.halt()
    with started("webhook", *(("-gate", gate) if gate else ()), say=bench.say) as ((url, ca, _), _):
        _call(bench, url.removesuffix("/extender") + "/mutate/pods", ca)
        until(lambda: _patched(bench) == ours, what="the webhook in Go to answer as ours")
        yield


def _call(bench: Bench, url: str, ca: Path) -> None:
    """Has the API server call this address for pods that name a queue, until ours is installed again."""
    webhooks = bench.must("GET", CONFIGURATION)["webhooks"]
    client = {"url": url, "caBundle": base64.b64encode(ca.read_bytes()).decode()}
    changed = [{**each, "clientConfig": client} if each["name"] == MEMBERS else each for each in webhooks]
    bench.must("PATCH", CONFIGURATION, {"webhooks": changed})


def _patched(bench: Bench) -> Object | None:
    """What a member gets, but for the value of `sluice.dev/admission`; None if the webhook is not reached."""
    reply = bench.api.request("POST", f"{pods_path()}?dryRun=All", pod("probe", queue=QUEUE))
    if reply.status != 201:
        return None
    made: Object = reply.json()
    meta = made["metadata"]
    return {
        "labels": meta["labels"],
        "annotations": {**meta["annotations"], "sluice.dev/admission": ""},
        "resources": made["spec"]["containers"][0]["resources"],
    }
