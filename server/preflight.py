"""What is checked before the server writes anything: the API server's version, our clock, and our rights.

A fault ends the start with its name and the way out. What cannot be checked now is no fault: while the API
server does not answer, the server starts and waits for it.

| what                                  | why it ends the start                                              |
|---------------------------------------|--------------------------------------------------------------------|
| Kubernetes older than `OLDEST`        | admission policies are not served                                  |
| our clock off by more than `MAX_SKEW` | certificates that we issue or check are not valid yet, or expired  |
| a right is missing                    | a stop would never be acknowledged, or a pod never let go          |

The definitions of our own kinds are checked as long as the server runs (`cluster.informers.crd_fields`).
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import NamedTuple

import msgspec

from cluster.api.client import Client, decode_response
from cluster.exceptions import ClusterError, Refused, Unreachable
from server.settings import Settings

OLDEST = (1, 30)
#: Half an hour is a wrong clock, a minute is none: certificates are issued a day back, but others' are not.
MAX_SKEW = timedelta(minutes=15)
#: A new role is in effect a moment after it was applied.
RIGHTS_SECONDS = 5.0
PAUSE_SECONDS = 0.25

RULES_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
REMEDY = "apply them with: kubectl apply --server-side -k manifests/rbac"
_DATES = re.compile("not yet valid|expired")

log = logging.getLogger(__name__)


class PreflightFailed(Exception):
    """The server cannot work in this cluster as it is; a line for each fault, with the way out."""


class Right(NamedTuple):
    """One right. `namespace`: "" for all namespaces; `name`: "" for all objects."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        what = f"{self.resource}.{self.group}" if self.group else self.resource
        name = f" {self.name}" if self.name else ""
        where = f"in namespace {self.namespace}" if self.namespace else "everywhere"
        return f"{self.verb} {what}{name} {where}"


#: Resources and verbs that are needed everywhere, by group: those of the ClusterRole in
#: manifests/rbac/server.yaml. Not here: persistentvolumeclaims, without which pods that wait for a volume
#: delay stops and nothing worse; and what belongs to kinds of other projects, which need not be there.
_EVERYWHERE: tuple[tuple[str, str, str], ...] = (
    ("scheduling.volcano.sh", "queues", "get list watch create patch"),
    ("scheduling.volcano.sh", "queues/status", "patch"),
    ("scheduling.volcano.sh", "podgroups", "list watch patch"),
    ("bus.volcano.sh", "commands", "get list watch create delete"),
    ("", "pods", "get list watch patch delete"),
    ("", "pods/status", "patch"),
    ("", "pods/eviction", "create"),
    ("policy", "poddisruptionbudgets", "get list"),
    ("", "nodes", "get list watch"),
    ("", "pods/binding", "create"),
    ("batch", "cronjobs", "list watch"),
    ("batch", "jobs", "get list watch patch"),
    ("apps", "deployments", "list watch"),
    ("apps", "statefulsets", "list watch"),
    ("apps", "replicasets", "list watch"),
    ("apps", "daemonsets", "list watch"),
    ("", "namespaces", "list watch patch"),
    ("", "events", "create"),
)
_DEFINITIONS = ("queues.scheduling.volcano.sh", "podgroups.scheduling.volcano.sh", "commands.bus.volcano.sh")
_WEBHOOKS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")


def needed_rights(settings: Settings) -> list[Right]:
    """The rights without which the server cannot do its work."""
    own = settings.namespace
    return [
        *(Right(verb, group, resource) for group, resource, verbs in _EVERYWHERE for verb in verbs.split()),
        *(
            Right(verb, "apiextensions.k8s.io", "customresourcedefinitions", name=name)
            for name in _DEFINITIONS
            for verb in ("list", "watch")
        ),
        *(
            Right(verb, "", "configmaps", settings.policies_namespace, settings.policies_name)
            for verb in ("list", "watch")
        ),
        *(
            Right(verb, "coordination.k8s.io", "leases", own)
            for verb in ("get", "list", "watch", "create", "patch", "delete")
        ),
        *(Right(verb, "", "pods", own) for verb in ("create", "delete")),
        *(_authority_rights(own, settings.ca_secret) if settings.ca_secret else ()),
    ]


def _authority_rights(namespace: str, secret: str) -> Iterator[Right]:
    """Those for an authority of our own that replicas share: without a Secret another one may issue."""
    for kind in ("secrets", "configmaps"):
        yield Right("create", "", kind, namespace)
        for verb in ("get", "patch"):
            yield Right(verb, "", kind, namespace, secret)
    for kind in _WEBHOOKS:
        for verb in ("get", "patch"):
            yield Right(verb, "admissionregistration.k8s.io", kind, name="sluice")


def check(client: Client, settings: Settings) -> None:
    """Raises `PreflightFailed` if the server cannot work in this cluster as it is."""
    try:
        faults = [*_version_faults(client), *_clock_faults(client), *_rights_faults(client, settings)]
    except Unreachable as exc:
        if _DATES.search(str(exc)):
            raise PreflightFailed(
                f"the API server's certificate is not valid by our clock: {exc}; set the clock of this node"
            ) from exc
        log.warning(
            "the API server does not answer yet, so rights, versions and clock are not checked: %s", exc
        )
        return
    except ClusterError as exc:
        log.warning("rights, versions and clock cannot be checked: %s", exc)
        return
    if faults:
        raise PreflightFailed("not started, and nothing was written: " + "; ".join(faults))


# Version and clock


class _Version(msgspec.Struct, frozen=True, rename="camel"):
    git_version: str = ""


_version = msgspec.json.Decoder(_Version)


def _version_faults(client: Client) -> Iterator[str]:
    version = decode_response(client.get("/version"), _version).git_version
    numbers = re.match(r"v?(\d+)\.(\d+)", version)
    if numbers and (int(numbers[1]), int(numbers[2])) < OLDEST:
        yield f"the API server is of Kubernetes {version}; Sluice needs {OLDEST[0]}.{OLDEST[1]} or later"


def _clock_faults(client: Client) -> Iterator[str]:
    """By the answer that was just read."""
    skew = timedelta(seconds=client.clock_skew)
    if abs(skew) > MAX_SKEW:
        minutes = round(abs(skew).total_seconds() / 60)
        direction = "behind" if skew > timedelta(0) else "ahead of"
        yield (
            f"the clock of this node is {minutes} minutes {direction} the API server's; "
            "set it, as NTP does, or start the server on another node"
        )


# Rights


class _Rule(msgspec.Struct, frozen=True, rename="camel"):
    verbs: list[str] | None = None
    api_groups: list[str] | None = None
    resources: list[str] | None = None
    resource_names: list[str] | None = None

    def allows(self, right: Right) -> bool:
        return (
            _has(self.verbs, right.verb)
            and _has(self.api_groups, right.group)
            and _has(self.resources, right.resource)
            and (not self.resource_names or right.name in self.resource_names)
        )


class _RulesStatus(msgspec.Struct, frozen=True, rename="camel"):
    resource_rules: list[_Rule] = []


class _RulesReview(msgspec.Struct, frozen=True):
    status: _RulesStatus = msgspec.field(default_factory=_RulesStatus)


class _AccessStatus(msgspec.Struct, frozen=True):
    allowed: bool = False


class _AccessReview(msgspec.Struct, frozen=True):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


_rules_review = msgspec.json.Decoder(_RulesReview)
_access_review = msgspec.json.Decoder(_AccessReview)


def _rights_faults(client: Client, settings: Settings) -> Iterator[str]:
    missing = missing_rights(
        needed_rights(settings),
        rules=lambda namespace: _rules(client, namespace),
        may=lambda right: _may(client, right),
    )
    end = time.monotonic() + RIGHTS_SECONDS
    while missing and time.monotonic() < end:
        time.sleep(PAUSE_SECONDS)
        missing = [right for right in missing if not _may(client, right)]
    if missing:
        yield f"our service account may not {', '.join(map(str, missing))}; {REMEDY}"


def missing_rights(
    needed: Iterable[Right], *, rules: Callable[[str], list[_Rule]], may: Callable[[Right], bool]
) -> list[Right]:
    """The rights that we do not have.

    `rules`: what we may do in a namespace, as far as the API server can list it. `may`: the answer about
    one right; it is asked for those alone that no rule allows, since a cluster may grant rights by other
    means than rules.
    """
    listed: dict[str, list[_Rule]] = {}
    missing = []
    for right in needed:
        # Our own namespace grants more than others do.
        namespace = right.namespace or "default"
        if namespace not in listed:
            listed[namespace] = rules(namespace)
        if not any(rule.allows(right) for rule in listed[namespace]) and not may(right):
            missing.append(right)
    return missing


def _rules(client: Client, namespace: str) -> list[_Rule]:
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    try:
        review = decode_response(client.create(RULES_REVIEWS, body), _rules_review)
    except Refused:
        return []
    return review.status.resource_rules


def _may(client: Client, right: Right) -> bool:
    resource, _, subresource = right.resource.partition("/")
    attributes = {
        "verb": right.verb,
        "group": right.group,
        "resource": resource,
        "subresource": subresource,
        "namespace": right.namespace,
        "name": right.name,
    }
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    return decode_response(client.create(ACCESS_REVIEWS, body), _access_review).status.allowed


def _has(words: list[str] | None, word: str) -> bool:
    return words is not None and ("*" in words or word in words)
