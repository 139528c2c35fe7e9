"""Pods that kube-scheduler holds for a volume, told from pods whose bind is under way.

kube-scheduler passes filter and then holds a pod, for minutes perhaps, until each of its claims is bound to a
volume (`VolumeBinding`, PreBind); only then it sends the bind. So a pod one of whose claims is read to be
unbound has no bind under way at that moment. Where the bind guard was on by then, its bind will meet it.

Who may edit the namespace can delete a claim that was bound and make another by its name while the bind is
under way, and can write each annotation. So only what cannot be made up counts:

======================================================  ==================================
a claim of the pod                                      the pod waits for it
======================================================  ==================================
has no volume, and is not younger than the pod          yes
the same, made for the pod (ephemeral), soon after it   yes
has a volume, whatever its annotations say              no: its name once set cannot change
is being deleted, or is not there                       no: it may have been bound
is younger than the pod                                 no: it may have taken another's place
======================================================  ==================================

Invariants
- `at` is a time before the pod and its claims were read from the API server, not from a cache.
- A pod is read at most once in `AGAIN_SECONDS`, by the guard's writers, and only while a stop waits for it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial

import msgspec

from cluster.api.client import decode_response
from cluster.exceptions import NotFound
from controller.context import ControllerContext

AGAIN_SECONDS = 1.0
KEPT = 1_000
#: kube-controller-manager makes the claim of an ephemeral volume as soon as it hears of the pod.
EPHEMERAL = timedelta(seconds=2)


class ClaimSource(msgspec.Struct, frozen=True, rename="camel"):
    claim_name: str = ""


class Volume(msgspec.Struct, frozen=True, rename="camel"):
    """`ephemeral`: its claim is made for the pod, and named after both."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: dict[str, msgspec.Raw] | None = None


class PodVolumes(msgspec.Struct, frozen=True):
    volumes: list[Volume] | None = None


class Made(msgspec.Struct, frozen=True, rename="camel"):
    """When an object was made, to the second, and that it is being deleted."""

    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None


class PodWithVolumes(msgspec.Struct, frozen=True):
    metadata: Made = Made()
    spec: PodVolumes = PodVolumes()


class ClaimSpec(msgspec.Struct, frozen=True, rename="camel"):
    volume_name: str = ""


class Claim(msgspec.Struct, frozen=True):
    metadata: Made = Made()
    spec: ClaimSpec = ClaimSpec()


_pod = msgspec.json.Decoder(PodWithVolumes)
_claim = msgspec.json.Decoder(Claim)

Key = tuple[str, str]


class VolumeWaits:
    """Owner: the controller's thread; the guard's writers read."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._waits: dict[Key, float] = {}
        self._asked: dict[Key, float] = {}

    def waiting_since(self, namespace: str, name: str) -> float | None:
        """A time, in monotonic seconds, at which no bind of the pod had been sent; None if none is known.

        Has the pod read, soon, if that was not done lately.
        """
        key, now = (namespace, name), self._context.store.clock.monotonic()
        if now >= self._asked.get(key, float("-inf")) + AGAIN_SECONDS:
            if len(self._asked) >= KEPT:
                self._asked = {k: at for k, at in self._asked.items() if now < at + AGAIN_SECONDS}
                self._waits = {k: at for k, at in list(self._waits.items()) if k in self._asked}
            self._asked[key] = now
            self._context.submit(
                self._context.guard_writers,
                ("volumes", key),
                partial(self._read, key),
                partial(self._receive, key),
                rank=(5,),
            )
        return self._waits.get(key)

    def _read(self, key: Key) -> tuple[float, bool]:
        """In another thread: a time before it was read, and whether the pod waits for a volume."""
        return self._context.store.clock.monotonic(), self._waits_for_volume(*key)

    def _receive(self, key: Key, answer: tuple[float, bool] | None) -> None:
        """None if the pod or its claims could not be read: what was known before stays."""
        if answer is None:
            return
        began, waits = answer
        if waits:
            self._waits[key] = began
        else:
            self._waits.pop(key, None)

    def _waits_for_volume(self, namespace: str, name: str) -> bool:
        client, home = self._context.client, f"/api/v1/namespaces/{namespace}"
        try:
            pod = decode_response(client.get(f"{home}/pods/{name}"), _pod)
        except NotFound:
            return False
        return any(
            keeps_waiting(pod, volume, self._claim(f"{home}/persistentvolumeclaims/{claim}"))
            for volume in pod.spec.volumes or ()
            if (claim := claim_of(volume, pod=name))
        )

    def _claim(self, path: str) -> Claim | None:
        try:
            return decode_response(self._context.client.get(path), _claim)
        except NotFound:
            return None


def claim_of(volume: Volume, *, pod: str) -> str:
    """The name of the claim behind a volume of the pod; "" if there is none."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod}-{volume.name}" if volume.ephemeral is not None else ""


def keeps_waiting(pod: PodWithVolumes, volume: Volume, claim: Claim | None) -> bool:
    """Whether the claim behind this volume is known to have had no volume for as long as the pod exists."""
    if claim is None or claim.spec.volume_name or claim.metadata.deletion_timestamp is not None:
        return False
    after = EPHEMERAL if volume.ephemeral is not None else timedelta()
    pod_made, claim_made = pod.metadata.creation_timestamp, claim.metadata.creation_timestamp
    return pod_made is not None and claim_made is not None and claim_made <= pod_made + after
