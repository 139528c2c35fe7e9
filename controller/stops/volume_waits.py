"""Which pods kube-scheduler holds until a volume is bound, so that no bind of them is under way.

kube-scheduler passes filter and then holds a pod, for minutes perhaps, until each of its claims is bound to a
volume (`VolumeBinding`, PreBind). Only then it sends the bind. So a pod with a claim that is read to be
unbound has no bind under way at that moment. If the bind guard was on by then, the later bind meets it.

Users who may edit the namespace can delete a claim that was bound and create another one of its name while
the bind is under way, and can write each annotation. So only what cannot be made up counts:

======================================================  ==========================================
a claim of the pod                                      the pod waits for it
======================================================  ==========================================
has no volume, and is not younger than the pod          yes
has no volume, and was created for the pod (ephemeral)  yes, if created soon after it
has a volume, whatever its annotations say              no: its volume name never changes again
is being deleted, or does not exist                     no: it may have been bound
is younger than the pod                                 no: it may replace one that was bound
======================================================  ==========================================

Invariants
- `waiting_since` is a time before the pod and its claims were read, and they are read from the API server,
  not from a cache.
- A pod is read at most once in `AGAIN_SECONDS`, by the guard's writers, and only while a stop waits for it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial

import msgspec

from cluster.api.client import decode_response
from cluster.exceptions import NotFound
from cluster.write_ranks import WriteRank
from controller.context import ControllerContext

AGAIN_SECONDS = 1.0
#: The number of pods whose last read is remembered.
MAX_REMEMBERED = 1_000
#: kube-controller-manager creates the claim of an ephemeral volume as soon as its watch has the pod.
EPHEMERAL = timedelta(seconds=2)


class ClaimSource(msgspec.Struct, frozen=True, rename="camel"):
    claim_name: str = ""


class Volume(msgspec.Struct, frozen=True, rename="camel"):
    """`ephemeral`: its claim is created for the pod, and named after both."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: dict[str, msgspec.Raw] | None = None


class PodVolumes(msgspec.Struct, frozen=True):
    volumes: list[Volume] | None = None


class Lifetime(msgspec.Struct, frozen=True, rename="camel"):
    """When an object was created, to the second; the second field is set while it is being deleted."""

    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None


class PodWithVolumes(msgspec.Struct, frozen=True):
    metadata: Lifetime = Lifetime()
    spec: PodVolumes = PodVolumes()


class VolumeClaimSpec(msgspec.Struct, frozen=True, rename="camel"):
    volume_name: str = ""


class Claim(msgspec.Struct, frozen=True):
    metadata: Lifetime = Lifetime()
    spec: VolumeClaimSpec = VolumeClaimSpec()


_pod = msgspec.json.Decoder(PodWithVolumes)
_claim = msgspec.json.Decoder(Claim)

VolumeClaimKey = tuple[str, str]


class VolumeWaits:
    """Owner: the controller's thread; the guard's writers read."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._waiting_since: dict[VolumeClaimKey, float] = {}
        #: When each pod was read last, in monotonic seconds.
        self._read_at: dict[VolumeClaimKey, float] = {}

    def waiting_since(self, namespace: str, name: str) -> float | None:
        """A time, in monotonic seconds, at which no bind of the pod had been sent; None if none is known."""
        return self._waiting_since.get((namespace, name))

    def read(self, namespace: str, name: str) -> None:
        """Have the pod read, unless it was lately."""
        key, now = (namespace, name), self._context.store.clock.monotonic()
        if now >= self._read_at.get(key, float("-inf")) + AGAIN_SECONDS:
            if len(self._read_at) >= MAX_REMEMBERED:
                self._forget_old(now)
            self._read_at[key] = now
            self._context.submit(
                self._context.guard_writers,
                ("volumes", key),
                partial(self._read, key),
                partial(self._receive, key),
                rank=WriteRank.EVIDENCE,
            )

    def _forget_old(self, now: float) -> None:
        self._read_at = {key: at for key, at in self._read_at.items() if now < at + AGAIN_SECONDS}
        self._waiting_since = {key: at for key, at in self._waiting_since.items() if key in self._read_at}

    def _read(self, key: VolumeClaimKey) -> tuple[float, bool]:
        """In another thread: a time before the read, and whether the pod waits for a volume."""
        return self._context.store.clock.monotonic(), self._waits_for_volume(*key)

    def _receive(self, key: VolumeClaimKey, answer: tuple[float, bool] | None) -> None:
        """`answer`: None if the pod or its claims could not be read; then what was known before stays."""
        if answer is None:
            return
        began, waits = answer
        if waits:
            self._waiting_since[key] = began
        else:
            self._waiting_since.pop(key, None)

    def _waits_for_volume(self, namespace: str, name: str) -> bool:
        client, path = self._context.client, f"/api/v1/namespaces/{namespace}"
        try:
            pod = decode_response(client.get(f"{path}/pods/{name}"), _pod)
        except NotFound:
            return False
        return any(
            keeps_waiting(pod, volume, self._claim(f"{path}/persistentvolumeclaims/{claim}"))
            for volume in pod.spec.volumes or ()
            if (claim := claim_of(volume, pod=name))
        )

    def _claim(self, path: str) -> Claim | None:
        try:
            return decode_response(self._context.client.get(path), _claim)
        except NotFound:
            return None


def claim_of(volume: Volume, *, pod: str) -> str:
    """The name of the claim of a volume of the pod; "" if it has none."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod}-{volume.name}" if volume.ephemeral is not None else ""


def keeps_waiting(pod: PodWithVolumes, volume: Volume, claim: Claim | None) -> bool:
    """Whether this claim is known to have had no volume for as long as the pod exists (see the table)."""
    if claim is None or claim.spec.volume_name or claim.metadata.deletion_timestamp is not None:
        return False
    delay = EPHEMERAL if volume.ephemeral is not None else timedelta()
    pod_created, claim_created = pod.metadata.creation_timestamp, claim.metadata.creation_timestamp
    return pod_created is not None and claim_created is not None and claim_created <= pod_created + delay
