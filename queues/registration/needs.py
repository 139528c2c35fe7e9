"""What is needed of each object: entries of webhook configurations, and admission policies.

| entry or policy                             | without it                                                   |
|---------------------------------------------|--------------------------------------------------------------|
| `members.pods`, `namespaces.pods`           | pods come without queue, gate and marker                     |
| `unasked.pods`, `unlabelled.pods`           | what another webhook took off a pod is not noticed           |
| `pods`                                      | a user takes our gate off a pod                              |
| `binds`                                     | binds do not meet the guard; stops wait where probes show it |
| `namespaces`                                | a namespace names a queue, and its pods are not asked about  |
| `podgroups`, `queues`, `commands`, policies | somebody takes work or a queue out of a stop without a right |
| `*.workloads`, `*.jobsets`                  | a workload's own word does not reach its pods (not `pods`)   |

All other entries only warn: a dead server lets pass what they are asked about, so nothing rests on them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from queues import well_known
from queues.apimachinery.label_selectors import Operator
from queues.registration.selectors import Term, Terms

MUTATING, VALIDATING = "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"
#: The name of both configurations.
NAME = "sluice"
SUFFIX = ".sluice.dev"
#: The policy of namespaces that are not managed; needed where setting `managed_namespaces` is set.
UNMANAGED = "sluice-unmanaged"

_CORE, _VOLCANO, _BUS = ("", "v1"), ("scheduling.volcano.sh", "v1beta1"), ("bus.volcano.sh", "v1alpha1")
_SUBMIT = ("CREATE", "UPDATE")
_WORKLOADS = (
    ("apps", "v1", "deployments"),
    ("apps", "v1", "statefulsets"),
    ("apps", "v1", "replicasets"),
    ("apps", "v1", "daemonsets"),
    ("batch", "v1", "jobs"),
    ("batch", "v1", "cronjobs"),
)
_VOLCANO_JOBS = (("batch.volcano.sh", "v1alpha1", "jobs"),)
_JOBSETS = (("jobset.x-k8s.io", "v1alpha2", "jobsets"),)
_NAMES_A_QUEUE = frozenset({Term(well_known.MEMBER_NAMESPACE, Operator.EXISTS)})
_NAMES_NONE = frozenset({Term(well_known.MEMBER_NAMESPACE, Operator.DOES_NOT_EXIST)})
_GUARDED = frozenset({Term(well_known.GUARD, Operator.EXISTS)})
_WITH_QUEUE = frozenset({Term(well_known.QUEUE, Operator.EXISTS)})
_WITHOUT_QUEUE = frozenset({Term(well_known.QUEUE, Operator.DOES_NOT_EXIST)})
_RELEASED = frozenset({Term(well_known.RELEASED, Operator.EXISTS)})


class ReviewedResource(msgspec.Struct, frozen=True):
    """One resource, and one operation on it."""

    group: str
    version: str
    resource: str
    operation: str

    def __str__(self) -> str:
        return f"{self.operation} of {self.resource}"


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """`namespaces`, `objects`: the requirements of its selectors that leave out nothing that we need.

    `of_pods`: without it no stop and no quota holds. `is_new`: an earlier version did not have it.
    """

    name: str
    asked: tuple[ReviewedResource, ...]
    namespaces: Terms = frozenset()
    objects: Terms = frozenset()
    of_pods: bool = True
    is_new: bool = False


class EntryNeed(Need, frozen=True, kw_only=True):
    """An entry. `path`: at which it calls us. `managed`: setting `managed_namespaces` narrows it.

    `any_namespace`: its namespaceSelector says nothing, since it is about what is in no namespace.
    `fails_closed`: a call that fails must refuse the request.
    """

    kind: str
    path: str
    managed: bool = True
    any_namespace: bool = False
    fails_closed: bool = True


def _asked(
    operations: tuple[str, ...], *resources: str, group: tuple[str, str] = _CORE
) -> tuple[ReviewedResource, ...]:
    return tuple(
        ReviewedResource(*group, resource, operation) for resource in resources for operation in operations
    )


def _of_workloads(*kinds: tuple[str, str, str]) -> tuple[ReviewedResource, ...]:
    return tuple(ReviewedResource(*kind, operation) for kind in kinds for operation in _SUBMIT)


def _entry(kind: str, root: str) -> Callable[..., EntryNeed]:
    """`path`: the last word of the path, where that is not the last of the name."""

    def make(name: str, *, path: str = "", **more: Any) -> EntryNeed:
        last = path or name.rpartition(".")[2]
        return EntryNeed(name=name + SUFFIX, kind=kind, path=f"/{root}/{last}", **more)

    return make


_mutating, _validating = _entry(MUTATING, "mutate"), _entry(VALIDATING, "validate")
_OF_POD = _asked(("CREATE",), "pods")
ENTRIES: tuple[EntryNeed, ...] = (
    _mutating("queues", asked=_asked(_SUBMIT, "queues", group=_VOLCANO), any_namespace=True),
    _mutating("members.pods", asked=_OF_POD, namespaces=_NAMES_NONE),
    _mutating("namespaces.pods", asked=_OF_POD, namespaces=_NAMES_A_QUEUE),
    _mutating("members.workloads", asked=_of_workloads(*_WORKLOADS), namespaces=_NAMES_NONE, of_pods=False),
    _mutating(
        "namespaces.workloads", asked=_of_workloads(*_WORKLOADS), namespaces=_NAMES_A_QUEUE, of_pods=False
    ),
    _mutating("jobs.workloads", asked=_of_workloads(*_VOLCANO_JOBS), of_pods=False),
    _mutating(
        "members.jobsets",
        path="workloads",
        asked=_of_workloads(*_JOBSETS),
        namespaces=_NAMES_NONE,
        of_pods=False,
    ),
    _mutating(
        "namespaces.jobsets",
        path="workloads",
        asked=_of_workloads(*_JOBSETS),
        namespaces=_NAMES_A_QUEUE,
        of_pods=False,
    ),
    _mutating("podgroups", asked=_asked(_SUBMIT, "podgroups", group=_VOLCANO)),
    _mutating("namespaces", asked=_asked(_SUBMIT, "namespaces"), managed=False),
    _mutating("commands", asked=_asked(("CREATE",), "commands", group=_BUS), managed=False),
    _validating("queues", asked=_asked((*_SUBMIT, "DELETE"), "queues", group=_VOLCANO), any_namespace=True),
    _validating("pods", asked=_asked(("UPDATE",), "pods")),
    _validating("unasked.pods", asked=_OF_POD),
    _validating(
        "unlabelled.pods",
        path="unlabelled",
        asked=_OF_POD,
        namespaces=_NAMES_A_QUEUE,
        objects=_WITHOUT_QUEUE,
        is_new=True,
    ),
    _validating(
        "binds",
        asked=_asked(("CREATE",), "pods/binding", "bindings"),
        namespaces=_GUARDED,
        managed=False,
        fails_closed=False,
        of_pods=False,
    ),
)
#: The entry of the bind guard. Whether it is called is found out by probes (`controller.stops.bind_guard`).
GUARD_ENTRY = "binds" + SUFFIX
#: The guard has this time to answer where a call of it that fails lets the bind pass.
GUARD_SECONDS = 2

POLICIES: tuple[Need, ...] = (
    Need(
        name="sluice-bindings",
        asked=_asked(("CREATE",), "pods/binding", "bindings"),
        objects=_WITH_QUEUE,
    ),
    Need(name="sluice-commands", asked=_asked(_SUBMIT, "commands", group=_BUS)),
    Need(name="sluice-namespaces", asked=_asked(_SUBMIT, "namespaces", "namespaces/status")),
    Need(
        name="sluice-pod-statuses",
        asked=_asked(("UPDATE",), "pods/status"),
        objects=_RELEASED,
        is_new=True,
    ),
    Need(name="sluice-queues", asked=_asked(("UPDATE",), "queues", group=_VOLCANO)),
)
UNMANAGED_POLICY = Need(name=UNMANAGED, asked=_asked(_SUBMIT, "pods"), objects=_WITH_QUEUE, is_new=True)
