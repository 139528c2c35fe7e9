"""What our registrations lack: of the manifests nothing, of what somebody has narrowed just that."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest

from queues.apimachinery.label_selectors import Operator
from queues.registration.coverage import (
    BINDING,
    POLICY,
    Expected,
    Found,
    RegistrationFault,
    registration_faults,
)
from queues.registration.expressions import CONDITIONS, EDITIONS, normal_form
from queues.registration.needs import ENTRIES, MUTATING, POLICIES, UNMANAGED, VALIDATING
from queues.registration.objects import AdmissionPolicySpec, PolicyBindingSpec, Webhook
from queues.registration.selectors import Term
from tests.support import yaml_texts
from tests.support.cases import each_case
from tests.support.paths import ROOT

Objects = dict[tuple[str, str], dict[str, Any]]
Change = Callable[[Objects], object]
OWN_USER = "system:serviceaccount:sluice-system:sluice"
EXPECTED = Expected(
    service="sluice",
    namespace="sluice-system",
    hosts=frozenset({"localhost"}),
    own_user=OWN_USER,
    exempt=frozenset({"kube-system", "sluice-system"}),
    schedulers=frozenset({"volcano"}),
)
MANAGED = frozenset({Term("sluice.dev/managed", Operator.IN, frozenset({"true"}))})
FOLDERS = ("webhooks", "policies")


def manifests(*folders: str, edited: Callable[[str], str] = str) -> Objects:
    """Those of these folders, by kind and name."""
    texts = [
        edited(path.read_text())
        for folder in folders or FOLDERS
        for path in sorted((ROOT / "manifests" / folder).glob("*.yaml"))
    ]
    objects = [each for text in texts for each in yaml_texts.load_all(text) if each]
    return {(each["kind"], each["metadata"]["name"]): each for each in objects if "metadata" in each}


def found(objects: Objects, *, seen: frozenset[str] = frozenset()) -> Found:
    entries = {
        kind: msgspec.convert(objects[kind, "sluice"]["webhooks"], tuple[Webhook, ...])
        if (kind, "sluice") in objects
        else None
        for kind in (MUTATING, VALIDATING)
    }
    return Found(
        entries=entries,
        policies={
            name: msgspec.convert(each["spec"], AdmissionPolicySpec)
            for (kind, name), each in objects.items()
            if kind == POLICY
        },
        bindings=[
            msgspec.convert(each["spec"], PolicyBindingSpec)
            for (kind, _), each in objects.items()
            if kind == BINDING
        ],
        seen=seen,
    )


def faults(
    change: Change = lambda _: None, *, expected: Expected = EXPECTED, seen: frozenset[str] = frozenset()
) -> list[RegistrationFault]:
    objects = copy.deepcopy(manifests())
    change(objects)
    return list(registration_faults(found(objects, seen=seen), expected))


def entry(objects: Objects, name: str, *, kind: str = MUTATING) -> dict[str, Any]:
    """The very object, to be changed."""
    webhooks: list[dict[str, Any]] = objects[kind, "sluice"]["webhooks"]
    [named] = [each for each in webhooks if each["name"] == f"{name}.sluice.dev"]
    return named


def of_entry(name: str, *, kind: str = MUTATING, **fields: Any) -> Change:
    return lambda objects: entry(objects, name, kind=kind).update(fields)


def of_policy(name: str, **fields: Any) -> Change:
    return lambda objects: objects[POLICY, name]["spec"].update(fields)


def of_binding(name: str, **fields: Any) -> Change:
    return lambda objects: objects[BINDING, name]["spec"].update(fields)


def without(name: str, *, kind: str = MUTATING) -> Change:
    def take(objects: Objects) -> None:
        objects[kind, "sluice"]["webhooks"].remove(entry(objects, name, kind=kind))

    return take


def gone(kind: str, name: str) -> Change:
    return lambda objects: objects.pop((kind, name))


def edited(name: str, old: str, new: str, *, kind: str = MUTATING) -> Change:
    def edit(objects: Objects) -> None:
        for condition in entry(objects, name, kind=kind)["matchConditions"]:
            condition["expression"] = condition["expression"].replace(old, new)

    return edit


def selecting(*expressions: Mapping[str, Any]) -> dict[str, Any]:
    return {"matchExpressions": list(expressions)}


def exempt(*names: str) -> dict[str, Any]:
    return {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(names)}


NAMES_NONE = {"key": "sluice.dev/member-namespace", "operator": "DoesNotExist"}
NEVER = [{"name": "never", "expression": "false"}]
POD_RULE = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "scope": "Namespaced"}
SERVICE = {"name": "sluice", "namespace": "sluice-system", "path": "/mutate/pods"}
PODS = "members.pods"

NARROWED: dict[str, tuple[Change, str]] = {
    "a configuration gone": (gone(MUTATING, "sluice"), f"{MUTATING} sluice is not there"),
    "the other": (gone(VALIDATING, "sluice"), f"{VALIDATING} sluice is not there"),
    "no entries": (
        lambda objects: objects[MUTATING, "sluice"].update(webhooks=[]),
        f"{PODS}.sluice.dev is not there",
    ),
    "an entry gone": (without(PODS), f"{PODS}.sluice.dev is not there"),
    "a check gone": (without("unasked.pods", kind=VALIDATING), "unasked.pods.sluice.dev is not there"),
    "an operation less": (
        of_entry(PODS, rules=[{**POD_RULE, "operations": ["UPDATE"]}]),
        "is not asked about CREATE of pods",
    ),
    "a resource less": (
        of_entry(PODS, rules=[{**POD_RULE, "operations": ["CREATE"], "resources": ["pods/status"]}]),
        "is not asked about CREATE of pods",
    ),
    "another scope": (
        of_entry(PODS, rules=[{**POD_RULE, "operations": ["*"], "scope": "Cluster"}]),
        "is not asked about CREATE of pods",
    ),
    "no rules": (of_entry(PODS, rules=[]), "is not asked about CREATE of pods"),
    "some namespaces": (
        of_entry(
            PODS,
            namespaceSelector=selecting(
                exempt("kube-system"), NAMES_NONE, {"key": "team", "operator": "Exists"}
            ),
        ),
        "is only about namespaces with team",
    ),
    "an exempt namespace": (
        of_entry(PODS, namespaceSelector=selecting(exempt("kube-system", "lab"), NAMES_NONE)),
        "is only about namespaces with kubernetes.io/metadata.name notin (kube-system,lab)",
    ),
    "no namespace at all": (
        of_entry(PODS, namespaceSelector={"matchLabels": {"a": "b"}}),
        "is only about namespaces with a in (b)",
    ),
    "what is no selector": (
        of_entry(PODS, namespaceSelector=[]),
        "selects namespaces by what cannot be read",
    ),
    "some objects": (
        of_entry(PODS, objectSelector={"matchLabels": {"a": "b"}}),
        "is only about objects with a in (b)",
    ),
    "another condition": (of_entry(PODS, matchConditions=NEVER), 'has condition "never", which is not ours'),
    "a condition that was edited": (
        edited(PODS, "|| (has(object.metadata.labels)", "|| (false && has(object.metadata.labels)"),
        'has condition "names-a-queue", which is not ours',
    ),
    "a word less in a condition": (
        edited(PODS, "'scheduling.k8s.io/group-name', ", ""),
        'has condition "names-a-queue", which is not ours',
    ),
    "a scheduler less in a condition": (
        edited(PODS, "in ['volcano', 'sluice']", "in ['sluice']"),
        'leaves out by condition "names-a-queue" what names scheduler volcano',
    ),
    "a condition of another entry": (
        lambda objects: of_entry(PODS, matchConditions=entry(objects, "podgroups")["matchConditions"])(
            objects
        ),
        'has condition "submitted-or-moved", which is not ours',
    ),
    "failurePolicy": (of_entry(PODS, failurePolicy="Ignore"), "its failurePolicy is not Fail"),
    "another Service": (
        of_entry(PODS, clientConfig={"service": {**SERVICE, "name": "other"}}),
        "calls another server",
    ),
    "another path": (
        of_entry(PODS, clientConfig={"service": {**SERVICE, "path": "/mutate/queues"}}),
        "calls another server",
    ),
    "another host": (
        of_entry(PODS, clientConfig={"url": "https://example.org/mutate/pods"}),
        "calls another server",
    ),
    "the guard gone": (without("binds", kind=VALIDATING), "binds.sluice.dev is not there"),
    "a guard that has less time": (
        of_entry("binds", kind=VALIDATING, timeoutSeconds=1),
        "lets pass what we do not answer within 1 s",
    ),
    "a policy gone": (gone(POLICY, "sluice-queues"), f"{POLICY} sluice-queues is not there"),
    "its binding gone": (gone(BINDING, "sluice-queues"), "has ValidatingAdmissionPolicy sluice-queues deny"),
    "a binding that audits": (
        of_binding("sluice-queues", validationActions=["Audit", "Warn"]),
        "sluice-queues deny everywhere",
    ),
    "a binding for some namespaces": (
        of_binding("sluice-namespaces", matchResources={"namespaceSelector": {"matchLabels": {"a": "b"}}}),
        "sluice-namespaces deny everywhere",
    ),
    "a binding of another policy": (
        of_binding("sluice-commands", policyName="another"),
        "sluice-commands deny everywhere",
    ),
    "a policy that fails open": (
        of_policy("sluice-bindings", failurePolicy="Ignore"),
        "its failurePolicy is not Fail",
    ),
    "a policy with another condition": (
        of_policy("sluice-bindings", matchConditions=NEVER),
        'has condition "never"',
    ),
    "a policy without its validations": (
        of_policy("sluice-queues", validations=[{"expression": "true"}]),
        "does not validate what it has to",
    ),
    "a policy with another variable": (
        of_policy("sluice-namespaces", variables=[{"name": "changed", "expression": "[]"}]),
        "does not validate what it has to",
    ),
    "a policy that excludes": (
        lambda objects: objects[POLICY, "sluice-commands"]["spec"]["matchConstraints"].update(
            excludeResourceRules=[{"resources": ["commands"]}]
        ),
        "excludes resources",
    ),
    "a policy with parameters": (
        of_policy("sluice-commands", paramKind={"kind": "ConfigMap"}),
        "takes parameters",
    ),
}


@each_case("name", NARROWED)
def test_what_is_narrowed_is_named(name: str) -> None:
    change, text = NARROWED[name]
    assert [fault.text for fault in faults(change) if text in fault.text] != []


#: What an admin may do, and the settings that go with it.
ALLOWED: dict[str, tuple[Change, Expected]] = {
    "nothing": (lambda _: None, EXPECTED),
    "a condition less": (of_entry(PODS, matchConditions=[]), EXPECTED),
    "null for what is absent": (of_entry(PODS, matchConditions=None, objectSelector=None), EXPECTED),
    "empty selectors": (of_entry(PODS, objectSelector={}, namespaceSelector={}), EXPECTED),
    "any resource": (
        of_entry(
            PODS,
            rules=[{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"]}],
        ),
        EXPECTED,
    ),
    "an entry of somebody else": (
        lambda objects: objects[MUTATING, "sluice"]["webhooks"].append(
            {"name": "other", "clientConfig": {"url": "https://example.org"}}
        ),
        EXPECTED,
    ),
    "Kueue's label": (
        edited(PODS, "['volcano.sh/queue-name'", "['volcano.sh/queue-name', 'kueue.x-k8s.io/queue-name'"),
        EXPECTED,
    ),
    "another scheduler": (edited(PODS, "['volcano', 'sluice']", "['volcano',  'mine', 'sluice']"), EXPECTED),
    "no scheduler of Volcano's": (
        edited(PODS, "['volcano', 'sluice']", "['sluice']"),
        msgspec.structs.replace(EXPECTED, schedulers=frozenset()),
    ),
    "white space": (edited(PODS, " && ", "\n   && "), EXPECTED),
    "a URL of ours": (
        of_entry(PODS, clientConfig={"url": "https://localhost:8443/mutate/pods"}),
        EXPECTED,
    ),
    "a caBundle": (of_entry(PODS, clientConfig={"service": SERVICE, "caBundle": "x"}), EXPECTED),
    "less time": (of_entry(PODS, timeoutSeconds=1), EXPECTED),
    "entries that only warn": (without("scales", kind=VALIDATING), EXPECTED),
    "a kubelet by another name": (
        lambda objects: objects[POLICY, "sluice-pod-statuses"]["spec"]["matchConditions"][0].update(
            expression=objects[POLICY, "sluice-pod-statuses"]["spec"]["matchConditions"][0][
                "expression"
            ].replace("'system:kube-controller-manager'", "'system:kube-controller-manager', 'virtual'")
        ),
        EXPECTED,
    ),
    "a binding more": (of_binding("sluice-queues", validationActions=["Deny", "Audit"]), EXPECTED),
    "a guard that fails closed": (
        of_entry("binds", kind=VALIDATING, failurePolicy="Fail"),
        msgspec.structs.replace(EXPECTED, guard_fails_closed=True),
    ),
    "before it had another entry": (without("unlabelled.pods", kind=VALIDATING), EXPECTED),
    "before it had another policy": (
        lambda objects: (
            objects.pop((POLICY, "sluice-pod-statuses")),
            objects.pop((BINDING, "sluice-pod-statuses")),
        ),
        EXPECTED,
    ),
}


@each_case("name", ALLOWED)
def test_what_an_admin_may_do_lacks_nothing(name: str) -> None:
    change, expected = ALLOWED[name]
    assert faults(change, expected=expected) == []


def test_the_chart_changes_names_alone() -> None:
    """As `release.chart.values` replaces them."""
    objects = manifests(edited=lambda text: text.replace("sluice-system", "mine"))
    expected = msgspec.structs.replace(
        EXPECTED,
        namespace="mine",
        own_user="system:serviceaccount:mine:sluice",
        exempt=frozenset({"kube-system", "mine"}),
    )
    assert list(registration_faults(found(objects), expected)) == []
    assert list(registration_faults(found(objects), EXPECTED)) != []


@pytest.mark.parametrize("setting", ["kueue", "guard_fails_closed"])
def test_a_setting_asks_for_more(setting: str) -> None:
    assert faults(expected=msgspec.structs.replace(EXPECTED, **{setting: True})) != []


def test_what_was_there_once_is_lacking_though_an_earlier_version_did_not_have_it() -> None:
    seen = frozenset({"unlabelled.pods.sluice.dev", "sluice-pod-statuses"})
    assert faults(without("unlabelled.pods", kind=VALIDATING), seen=seen) != []
    assert faults(gone(POLICY, "sluice-pod-statuses"), seen=seen) != []


def test_namespaces_that_are_not_managed_may_be_left_out_with_the_setting() -> None:
    def narrow(objects: Objects) -> None:
        managed = {"key": "sluice.dev/managed", "operator": "In", "values": ["true"]}
        for need in ENTRIES:
            if need.managed and not need.any_namespace:
                hook = entry(objects, need.name.removesuffix(".sluice.dev"), kind=need.kind)
                hook["namespaceSelector"]["matchExpressions"].append(managed)
        objects.update(manifests("managed-namespaces"))

    expected = msgspec.structs.replace(EXPECTED, managed=MANAGED)
    assert faults(narrow, expected=expected) == []
    assert faults(narrow) != []
    assert faults(expected=expected) == []  # an earlier version had no policy for them


def test_a_policy_for_what_is_not_managed_is_bound_where_it_holds() -> None:
    expected = msgspec.structs.replace(EXPECTED, managed=MANAGED)

    def bound_elsewhere(objects: Objects) -> None:
        objects.update(manifests("managed-namespaces"))
        objects[BINDING, UNMANAGED]["spec"]["matchResources"] = {
            "namespaceSelector": {"matchLabels": {"a": "b"}}
        }

    assert [UNMANAGED in fault.text for fault in faults(bound_elsewhere, expected=expected)] == [True]


@each_case("name", ["members.workloads", "namespaces.jobsets", "jobs.workloads"])
def test_without_a_webhook_on_workloads_pods_are_still_asked_about(name: str) -> None:
    assert {fault.of_pods for fault in faults(without(name))} == {False}


def test_whether_binds_meet_the_guard_is_left_to_probes() -> None:
    assert {fault.of_pods for fault in faults(without("binds", kind=VALIDATING))} == {False}


def test_what_cannot_be_read_lacks_nothing() -> None:
    assert list(registration_faults(Found(entries={}), EXPECTED)) == []


def test_each_entry_that_refuses_is_needed() -> None:
    """And each policy: one that is new has to be added to `queues.registration.needs`."""
    objects = manifests()
    refusing = {
        (kind, each["name"])
        for kind in (MUTATING, VALIDATING)
        for each in objects[kind, "sluice"]["webhooks"]
        if each["failurePolicy"] == "Fail"
    }
    needed = {(need.kind, need.name) for need in ENTRIES}
    assert refusing == {each for each in needed if each[1] != "binds.sluice.dev"}
    assert {name for kind, name in objects if kind == POLICY} == {need.name for need in POLICIES}


def digest(text: str) -> str:
    return normal_form(text, own_user=OWN_USER).digest


def test_each_text_of_the_manifests_is_known() -> None:
    """What this names is to be added to `queues.registration.expressions`; the former one stays."""
    objects = manifests(*FOLDERS, "managed-namespaces")
    needed = {need.name for need in ENTRIES}
    missing = [
        (each["name"], condition["name"], digest(condition["expression"]))
        for kind in (MUTATING, VALIDATING)
        for each in objects[kind, "sluice"]["webhooks"]
        for condition in each.get("matchConditions", ())
        if each["name"] in needed and digest(condition["expression"]) not in CONDITIONS[each["name"]]
    ]
    for (kind, name), each in objects.items():
        if kind != POLICY:
            continue
        spec = each["spec"]
        edition = (
            frozenset(digest(one["expression"]) for one in spec["validations"]),
            frozenset(digest(f"{one['name']} = {one['expression']}") for one in spec.get("variables", ())),
        )
        missing += [] if edition in EDITIONS[name] else [(name, "edition", str(edition))]
        missing += [
            (name, one["name"], digest(one["expression"]))
            for one in spec.get("matchConditions", ())
            if digest(one["expression"]) not in CONDITIONS[name]
        ]
    assert missing == []
