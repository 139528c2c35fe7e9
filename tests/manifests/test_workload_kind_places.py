"""Each kind of workload of `queues.workload_kinds` is in every manifest and document that has to name it.

If a test here fails, its message is the list of what is still to be added for a kind, and where.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import yaml

from cluster.objects import WorkloadObject
from queues import workload_kinds
from queues.workload_kinds import KINDS, Life, Suspension, WorkloadKind
from queues.world.workloads import is_live, is_paused
from tests.support.paths import ROOT

#: A kind that nothing but its row knows yet.
RAY_JOB = WorkloadKind(
    key="rayjobs",
    group="ray.io",
    version="v1",
    resource="rayjobs",
    kind="RayJob",
    optional=True,
    end_conditions=frozenset({"Complete", "Failed"}),
    suspension=Suspension.SPEC,
    pod_label="ray.io/originated-from-cr-name",
)
ROLLOUT = WorkloadKind(
    key="rollouts",
    group="argoproj.io",
    version="v1alpha1",
    resource="rollouts",
    kind="Rollout",
    optional=True,
    life=Life.WHILE_SCALED,
)
#: What the mutating webhook has to see of a workload.
OPERATIONS = {"CREATE", "UPDATE"}
#: The label of namespaces that name a queue for all their pods.
MEMBER_NAMESPACE = "sluice.dev/member-namespace"


def read(path: str) -> str:
    return (ROOT / path).read_text()


def documents(path: str) -> list[Any]:
    return list(yaml.load_all(read(path), Loader=yaml.CSafeLoader))


def missing_places(kind: WorkloadKind) -> Iterator[str]:
    """Each place that lacks the kind: the file, and what is to be added there."""
    name = f"{kind.resource}.{kind.group}"
    row = rf"^{kind.kind} +{re.escape(kind.group)} +spec\."
    if not re.search(row, workload_kinds.__doc__ or "", re.MULTILINE):
        yield "queues/workload_kinds.py: a row of the docstring's table"
    verbs = sorted(needed_verbs(kind) - granted_verbs(kind))
    if verbs:
        yield f"manifests/rbac/server.yaml: {', '.join(verbs)} on {name}"
    for labelled, words in ((False, "that name no queue"), (True, "that name a queue")):
        if not admitted_operations(kind, labelled=labelled) >= OPERATIONS:
            yield (
                "manifests/webhooks/mutating.yaml: a rule for CREATE and UPDATE of "
                f"{name} (path /mutate/workloads) in namespaces {words}"
            )
    if kind.life is Life.WHILE_SCALED and not scale_is_validated(kind):
        yield f"manifests/webhooks/validating.yaml: {kind.resource}/scale in scales.sluice.dev"
    yield from missing_documents(kind)


def missing_documents(kind: WorkloadKind) -> Iterator[str]:
    if f"| {kind.kind} | {kind.group} |" not in read("docs/concepts/members.md"):
        yield "docs/concepts/members.md: a row under Kinds of workloads"
    if not re.search(rf"\b{kind.kind}\b", read("README.md")):
        yield "README.md: the kind in the list of workloads that name a queue"
    if kind.suspension is None:
        return
    if not re.search(rf"\b{kind.kind}\b", read("docs/concepts/draining.md")):
        yield "docs/concepts/draining.md: the kind among the workloads that are suspended"


def needed_verbs(kind: WorkloadKind) -> set[str]:
    can_be_ended = kind.suspension is not None or kind.life is Life.WHILE_SCALED
    return {"list", "watch", *(("get", "patch") if can_be_ended else ())}


def granted_verbs(kind: WorkloadKind) -> set[str]:
    """Those of the server's ClusterRole."""
    return {
        verb
        for document in documents("manifests/rbac/server.yaml")
        if document["kind"] == "ClusterRole"
        for rule in document["rules"]
        if kind.group in rule["apiGroups"] and kind.resource in rule["resources"]
        for verb in rule["verbs"]
    }


def webhooks(path: str) -> Iterator[dict[str, Any]]:
    for document in documents(path):
        yield from document.get("webhooks", ())


def rules(webhook: dict[str, Any], kind: WorkloadKind, resource: str) -> Iterator[dict[str, Any]]:
    for rule in webhook["rules"]:
        resources = rule["apiGroups"], rule["apiVersions"], rule["resources"]
        if all(
            value in values
            for value, values in zip((kind.group, kind.version, resource), resources, strict=True)
        ):
            yield rule


def admitted_operations(kind: WorkloadKind, *, labelled: bool) -> set[str]:
    """The operations that call us, in namespaces with or without the label `MEMBER_NAMESPACE`."""
    excluded = "DoesNotExist" if labelled else "Exists"
    return {
        operation
        for webhook in webhooks("manifests/webhooks/mutating.yaml")
        if webhook["clientConfig"]["service"]["path"] == "/mutate/workloads"
        and not any(
            (term["key"], term["operator"]) == (MEMBER_NAMESPACE, excluded)
            for term in webhook["namespaceSelector"]["matchExpressions"]
        )
        for rule in rules(webhook, kind, kind.resource)
        for operation in rule["operations"]
    }


def scale_is_validated(kind: WorkloadKind) -> bool:
    return any(
        True
        for webhook in webhooks("manifests/webhooks/validating.yaml")
        if webhook["clientConfig"]["service"]["path"] == "/validate/scales"
        for _ in rules(webhook, kind, f"{kind.resource}/scale")
    )


def recipe(kinds: Iterable[WorkloadKind]) -> str:
    """What is still to be added, a line each; empty if nothing is."""
    return "\n".join(
        f"{kind.kind} of {kind.group}: {place}" for kind in kinds for place in missing_places(kind)
    )


def test_each_kind_is_in_every_place_that_has_to_name_it() -> None:
    missing = recipe(KINDS.values())
    assert not missing, f"these places lack a kind of queues/workload_kinds.py; add it there:\n{missing}"


def test_a_new_row_is_missed_in_each_manifest_and_document() -> None:
    """One more kind that can be suspended: the recipe names all that a new row takes."""
    assert recipe([*KINDS.values(), RAY_JOB]).splitlines() == [
        f"RayJob of ray.io: {place}"
        for place in (
            "queues/workload_kinds.py: a row of the docstring's table",
            "manifests/rbac/server.yaml: get, list, patch, watch on rayjobs.ray.io",
            "manifests/webhooks/mutating.yaml: a rule for CREATE and UPDATE of rayjobs.ray.io "
            "(path /mutate/workloads) in namespaces that name no queue",
            "manifests/webhooks/mutating.yaml: a rule for CREATE and UPDATE of rayjobs.ray.io "
            "(path /mutate/workloads) in namespaces that name a queue",
            "docs/concepts/members.md: a row under Kinds of workloads",
            "README.md: the kind in the list of workloads that name a queue",
            "docs/concepts/draining.md: the kind among the workloads that are suspended",
        )
    ]


def test_a_new_kind_that_scales_is_missed_in_the_webhook_of_scales() -> None:
    """A kind that is scaled is brought to zero by drains, and takes no line on suspension."""
    missing = list(missing_places(ROLLOUT))
    assert "manifests/rbac/server.yaml: get, list, patch, watch on rollouts.argoproj.io" in missing
    assert "manifests/webhooks/validating.yaml: rollouts/scale in scales.sluice.dev" in missing
    assert not [place for place in missing if "draining" in place]


def test_the_row_alone_tells_the_code_when_such_a_workload_is_live_and_suspended() -> None:
    def workload(**parts: Any) -> WorkloadObject:
        return msgspec.convert({"metadata": {"name": "train"}, **parts}, WorkloadObject)

    finished = workload(status={"conditions": [{"type": "Complete", "status": "True"}]})
    assert is_live(RAY_JOB, workload())
    assert not is_live(RAY_JOB, finished)
    assert is_paused(RAY_JOB, workload(spec={"suspend": True}))
    assert not is_live(ROLLOUT, workload(spec={"replicas": 0}))
    assert is_live(ROLLOUT, finished)
