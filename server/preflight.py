"""The checks before the server writes anything: the API server's version, our clock, our rights and the
definitions of our kinds.

A fault ends the start, and the log names it with its remedy. A check that cannot be made now is no fault:
while the API server does not answer, the server starts and waits for it.

| what                                  | why it ends the start                                              |
|---------------------------------------|--------------------------------------------------------------------|
| Kubernetes older than `OLDEST`        | admission policies are not served                                  |
| our clock off by more than `MAX_SKEW` | certificates that we issue or check are not valid yet, or expired  |
| a right is missing                    | a stop would never be acknowledged, or a pod never let go          |
| our kube-scheduler lacks a right      | members would wait forever: it has the same service account        |
| (setting `scheduler_config`)          |                                                                    |
| a definition of our kinds is missing, | a write would lose stops: the API server drops what the            |
| or lacks a field that we use          | definition lacks                                                   |

A definition that changes later is noticed by its watch (`cluster.informers.crd_fields`), and a clock that
goes wrong later when our Lease is renewed (`ClockWatch`).

The log warns of two things that do not end the start: a difference of a version (`RETRIES_FOR_NODES`), and
selectors of namespaces that differ (`server.managed_selectors`).
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator
from datetime import timedelta

import msgspec

from cluster.api.client import Client, decode_response
from cluster.exceptions import ClusterError, Refused, Unreachable
from cluster.informers.crd_fields import current_faults
from queues.mode import Mode
from server.managed_selectors import selector_differences
from server.rights import rights_faults
from server.settings import Settings

OLDEST = (1, 30)
#: From this version on kube-scheduler retries a waiting member as soon as a node is added or changed. Before
#: (feature gate SchedulerQueueingHints is off) it first compares all that the pod requests with that node,
#: the marker too, which no node has (preCheckForNode in its eventhandlers.go).
RETRIES_FOR_NODES = (1, 32)
#: Half an hour is a wrong clock, a minute is none: certificates are issued a day back, but others' are not.
MAX_SKEW = timedelta(minutes=15)
#: The pause after which a clock that is still wrong is logged again.
CLOCK_LOG_SECONDS = 3600.0
_DATES = re.compile("not yet valid|expired")

log = logging.getLogger(__name__)


class PreflightFailed(Exception):
    """The server cannot work in this cluster as it is; a line for each fault, with the way out."""


def check(client: Client, settings: Settings) -> None:
    """Raises `PreflightFailed` if the server cannot work in this cluster as it is."""
    faults: list[str] = []
    try:
        faults += _version_faults(client, settings)
        faults += _clock_faults(client)
        faults += rights_faults(client, settings)
        faults += _definition_faults(client)
        for difference in selector_differences(client, settings.membership_settings.managed_namespaces):
            log.error("%s", difference)
    except Unreachable as exc:
        if _DATES.search(str(exc)):
            raise PreflightFailed(
                f"the API server's certificate is not valid by our clock: {exc}; set the clock of this node"
            ) from exc
        log.warning("the API server does not answer, so not all of the cluster is checked: %s", exc)
    except ClusterError as exc:
        log.warning("not all of the cluster can be checked: %s", exc)
    if faults:
        raise PreflightFailed("not started, and nothing was written: " + "; ".join(faults))


# Version, clock and definitions


class _Version(msgspec.Struct, frozen=True, rename="camel"):
    git_version: str = ""


_version = msgspec.json.Decoder(_Version)


def _version_faults(client: Client, settings: Settings) -> Iterator[str]:
    version = decode_response(client.get("/version"), _version).git_version
    numbers = re.match(r"v?(\d+)\.(\d+)", version)
    if not numbers:
        return
    minor = int(numbers[1]), int(numbers[2])
    if minor < OLDEST:
        yield f"the API server is of Kubernetes {version}; Sluice needs {OLDEST[0]}.{OLDEST[1]} or later"
    elif minor < RETRIES_FOR_NODES and settings.mode == Mode.EXTENDER:
        log.warning(
            "kube-scheduler of Kubernetes %s retries a member that fits no node up to five minutes after a"
            " node is added or changed; start it with --pod-max-in-unschedulable-pods-duration=30s, or use"
            " mode scheduler (docs/operating/versions.md)",
            version,
        )


def _clock_faults(client: Client) -> Iterator[str]:
    """By the answer that was just read."""
    if fault := _clock_fault(client.clock_skew):
        yield f"{fault}, or start the server on another node"


def _clock_fault(skew: float) -> str:
    """`skew`: the API server's time less ours, in seconds."""
    if abs(skew) <= MAX_SKEW.total_seconds():
        return ""
    minutes = round(abs(skew) / 60)
    direction = "behind" if skew > 0 else "ahead of"
    return f"the clock of this node is {minutes} minutes {direction} the API server's; set it, as NTP does"


class ClockWatch:
    """Logs that our clock has gone wrong since the start, or is right again. Thread: that of our Lease.

    The server goes on: all times that it decides by, or writes, are the API server's, and it counts seconds
    by the monotonic clock. A wrong clock breaks certificates: it may take those of others for expired.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._logged_at: float | None = None

    def observe(self, skew: float) -> None:
        """`skew`: the API server's time less ours, in seconds, as its last answer told it."""
        fault = _clock_fault(skew)
        if fault and (self._logged_at is None or self._clock() >= self._logged_at + CLOCK_LOG_SECONDS):
            log.error(
                "%s. Stops hold, and end by the API server's clock; certificates may be taken for expired",
                fault,
            )
            self._logged_at = self._clock()
        elif not fault and self._logged_at is not None:
            log.warning("the clock of this node is right again")
            self._logged_at = None


def _definition_faults(client: Client) -> Iterator[str]:
    """Without the right to read them, that right is among those that are named as missing."""
    try:
        yield from current_faults(client)
    except Refused as exc:
        log.warning("the definitions of our kinds cannot be checked yet: %s", exc)
