"""The rights that the server needs, and its kube-scheduler in mode `scheduler`; which of them are missing.

A pod has one service account: what our own kube-scheduler may do is what the server may do, unless its
configuration names a kubeconfig of its own. Then its rights are not checked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import yaml

from cluster.api.client import Client, decode_response
from cluster.exceptions import Refused
from queues.mode import Mode
from server.own_scheduler import SchedulerConfiguration, election_lease
from server.settings import Settings

#: A new role is in effect a moment after it was applied.
RIGHTS_SECONDS = 5.0
PAUSE_SECONDS = 0.25

RULES_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
REMEDY = "apply them with: kubectl apply --server-side -k manifests/rbac"
SCHEDULER_REMEDY = "apply them with: kubectl apply --server-side -f manifests/ways/scheduler/rights.yaml"


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
#: delay stops and nothing worse; resourceclaims and deviceclasses, which capabilities of devices alone
#: need; priorityclasses, without which gangs have the priority of their pods; create on podgroups, without
#: which workloads with group-min-member wait; webhook configurations and
#: admission policies, without which it is not checked what the API server asks about (roles may be upgraded
#: after the image); and what belongs to kinds of other projects, which need not be there.
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
    ("apps", "deployments", "get list watch patch"),
    ("apps", "statefulsets", "get list watch patch"),
    ("apps", "replicasets", "get list watch patch"),
    ("apps", "daemonsets", "list watch"),
    ("", "namespaces", "list watch patch"),
    ("", "events", "create"),
)
#: Those of kube-scheduler, as its bootstrap roles system:kube-scheduler and system:volume-scheduler have them
#: from 1.30 to 1.36 (k8s.io/kubernetes plugin/pkg/auth/authorizer/rbac/bootstrappolicy). Not here: events,
#: what it works without or that only some versions have.
_SCHEDULER_EVERYWHERE: tuple[tuple[str, str, str], ...] = (
    ("", "pods", "get list watch delete"),
    ("", "pods/binding", "create"),
    ("", "pods/status", "patch"),
    ("", "nodes", "get list watch"),
    ("", "namespaces", "list watch"),
    ("", "services", "list watch"),
    ("", "replicationcontrollers", "list watch"),
    ("apps", "replicasets", "list watch"),
    ("apps", "statefulsets", "list watch"),
    ("policy", "poddisruptionbudgets", "list watch"),
    ("", "persistentvolumeclaims", "list watch update"),
    ("", "persistentvolumes", "list watch update"),
    ("storage.k8s.io", "storageclasses", "list watch"),
    ("storage.k8s.io", "csinodes", "list watch"),
    ("storage.k8s.io", "csidrivers", "list watch"),
    ("storage.k8s.io", "csistoragecapacities", "list watch"),
)
_DEFINITIONS = ("queues.scheduling.volcano.sh", "podgroups.scheduling.volcano.sh", "commands.bus.volcano.sh")
_WEBHOOKS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")


#: The ConfigMap with the releases of quotas that were begun, and that with the cursor of notices.
BOOK, CURSOR = "sluice-quota", "sluice-notices"


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
        # The book of releases: without it no pod of a queue with a quota is released.
        Right("create", "", "configmaps", own),
        *(Right(verb, "", "configmaps", own, BOOK) for verb in ("get", "patch")),
        *(Right(verb, "", "configmaps", own, CURSOR) for verb in ("get", "patch") if settings.notices_dir),
        # Without the addresses of all API servers the bind guard is known to be on nowhere.
        *(() if settings.api_servers else (Right("list", "discovery.k8s.io", "endpointslices", "default"),)),
        *(_authority_rights(own, settings.ca_secret) if settings.ca_secret else ()),
    ]


def scheduler_rights(configuration: SchedulerConfiguration) -> list[Right]:
    """The rights without which our own kube-scheduler, by this configuration of it, binds no member."""
    lease = election_lease(configuration)
    return [
        *(
            Right(verb, group, resource)
            for group, resource, verbs in _SCHEDULER_EVERYWHERE
            for verb in verbs.split()
        ),
        *(
            Right(verb, "coordination.k8s.io", "leases", lease[0], lease[1])
            for verb in ("get", "update")
            if lease
        ),
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


# What the API server says of them


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


def rights_faults(client: Client, settings: Settings) -> Iterator[str]:
    own = needed_rights(settings)
    schedulers = _own_scheduler_rights(settings)
    missing = missing_rights(
        dict.fromkeys([*own, *schedulers]),
        rules=lambda namespace: _rules(client, namespace),
        may=lambda right: _may(client, right),
    )
    end = time.monotonic() + RIGHTS_SECONDS
    while missing and time.monotonic() < end:
        time.sleep(PAUSE_SECONDS)
        missing = [right for right in missing if not _may(client, right)]
    if ours := [right for right in missing if right in own]:
        yield f"our service account may not {', '.join(map(str, ours))}; {REMEDY}"
    if others := [right for right in missing if right not in own]:
        yield (
            f"our own kube-scheduler has our service account, which may not {', '.join(map(str, others))}; "
            f"{SCHEDULER_REMEDY}"
        )


def _own_scheduler_rights(settings: Settings) -> list[Right]:
    """None where none runs beside us, or where its configuration names credentials of its own."""
    if settings.mode != Mode.SCHEDULER or not settings.scheduler_config:
        return []
    content = yaml.safe_load(Path(settings.scheduler_config).read_text())
    configuration = content if isinstance(content, dict) else {}
    connection = configuration.get("clientConnection")
    kubeconfig = connection.get("kubeconfig") if isinstance(connection, dict) else ""
    return [] if kubeconfig and kubeconfig != settings.kubeconfig else scheduler_rights(configuration)


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
