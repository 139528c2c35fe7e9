"""The manifests as files: whole, listed, and of one mind. No API server needed."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from server.gunicorn_app import gunicorn_settings
from tests.support import yaml_texts
from tests.support.cases import each_case
from tests.support.paths import ROOT

MANIFESTS = ROOT / "manifests"
SERVER = "system:serviceaccount:sluice-system:sluice"
FILES = sorted(MANIFESTS.rglob("*.yaml"))
KUSTOMIZATIONS = [path for path in FILES if path.name == "kustomization.yaml"]

#: What is asked about in each namespace: the guard, which has a label of its own, Commands, and the policies.
NOT_NARROWED = {"pods/binding", "bindings", "commands", "configmaps"}

#: Every field that Volcano's own CRDs have, ours must have too.
VOLCANO = {
    "queues": [
        *("spec.weight", "spec.capability", "spec.deserved", "spec.guarantee.resource", "spec.reclaimable"),
        *("spec.parent", "spec.priority", "spec.dequeueStrategy", "spec.type"),
        "spec.affinity.nodeGroupAffinity.requiredDuringSchedulingIgnoredDuringExecution",
        "spec.affinity.nodeGroupAffinity.preferredDuringSchedulingIgnoredDuringExecution",
        "spec.affinity.nodeGroupAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution",
        "spec.affinity.nodeGroupAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution",
        *("spec.extendClusters.name", "spec.extendClusters.weight", "spec.extendClusters.capacity"),
        *("status.state", "status.allocated", "status.reservation.nodes", "status.reservation.resource"),
        *("status.pending", "status.inqueue", "status.running", "status.unknown", "status.completed"),
    ],
    "podgroups": [
        *("spec.minMember", "spec.minTaskMember", "spec.minResources", "spec.queue"),
        *("spec.priorityClassName", "spec.networkTopology.mode", "spec.networkTopology.highestTierAllowed"),
        *("spec.networkTopology.highestTierName", "spec.subGroupPolicy.name", "spec.preemptable"),
        *("spec.subGroupPolicy.subGroupSize", "spec.subGroupPolicy.minSubGroups"),
        *("spec.subGroupPolicy.labelSelector.matchLabels", "spec.subGroupPolicy.matchLabelKeys"),
        "spec.subGroupPolicy.networkTopology.mode",
        *("status.phase", "status.running", "status.succeeded", "status.failed"),
        *("status.conditions.type", "status.conditions.status", "status.conditions.transitionID"),
        *("status.conditions.lastTransitionTime", "status.conditions.reason", "status.conditions.message"),
    ],
    "commands": [
        *("action", "reason", "message", "target.apiVersion", "target.kind", "target.name", "target.uid"),
        *("target.controller", "target.blockOwnerDeletion"),
    ],
}

#: What the design adds to a Queue.
OURS = [
    *("spec.state", "spec.stopPolicy", "spec.resumeAt", "spec.reason", "spec.drain.rate"),
    *("spec.drain.inFlight", "spec.drain.barePods", "spec.drain.keep.matchLabels"),
    "spec.drain.brokenGangs",
    *("spec.drain.gracePeriodSeconds", "status.drain.since", "status.drain.blockers"),
    *(f"status.drain.{name}" for name in ("evicted", "suspended", "deleted", "left", "leaving")),
    *("status.drain.kept", "status.drain.blocked"),
    *(f"status.drain.blockers.{name}" for name in ("name", "pods", "never", "message")),
    *("spec.drain.keep.matchExpressions.operator", "spec.drain.deadline", "spec.drain.afterDeadline"),
    *("spec.parked", "spec.schedulerPolicy", "spec.SchedulerPolicy", "status.observedGeneration"),
    *("status.conditions.observedGeneration", "status.conditions.lastTransitionTime"),
    *(f"status.pods.{name}" for name in ("pending", "gated", "parked", "running", "succeeded", "failed")),
    *(f"status.changes.{name}" for name in ("by", "from", "to", "reason", "at")),
]


@cache
def documents(path: Path) -> list[dict[str, Any]]:
    """Read once for all tests: none changes them."""
    return [each for each in yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader) if each]


def everything() -> list[dict[str, Any]]:
    """All objects but the examples'."""
    return [each for path in FILES if "examples" not in path.parts for each in documents(path)]


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [each for each in everything() if each["kind"] == kind]


def crd(name: str) -> dict[str, Any]:
    return documents(MANIFESTS / "crds" / f"{name}.yaml")[0]


def webhooks(kind: str) -> list[dict[str, Any]]:
    return [hook for each in of_kind(f"{kind}WebhookConfiguration") for hook in each["webhooks"]]


def field(name: str, dotted: str) -> dict[str, Any]:
    """The schema of a field, through lists."""
    schema: dict[str, Any] = crd(name)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for part in dotted.split("."):
        schema = schema.get("items", schema)["properties"][part]
    return schema


@each_case("path", FILES, ids=lambda path: str(path.relative_to(MANIFESTS)))
def test_each_file_holds_objects_that_say_what_they_are(path: Path) -> None:
    assert all({"apiVersion", "kind"} <= set(each) for each in documents(path))


@each_case("path", KUSTOMIZATIONS, ids=lambda path: path.parent.name)
def test_a_kustomization_lists_every_file_beside_it_and_no_other(path: Path) -> None:
    [listing] = documents(path)
    generated = [file for each in listing.get("configMapGenerator", []) for file in each["files"]]
    listed = {name for name in [*listing.get("resources", []), *generated] if name.endswith(".yaml")}
    assert listed == {each.name for each in path.parent.glob("*.yaml")} - {path.name}


def test_the_root_installs_every_folder_but_scheduler_examples_and_what_is_optional() -> None:
    [listing] = documents(MANIFESTS / "kustomization.yaml")
    folders = {path.parent.name for path in KUSTOMIZATIONS if "ways" not in path.parts} - {"manifests"}
    optional = {"queue-readers", "monitoring", "client-certificates", "network-policy", "cert-manager"}
    optional |= {"managed-namespaces", "notices"}
    assert set(listing["resources"]) == folders - {"scheduler", "examples", *optional}


@each_case(("name", "dotted"), [(name, dotted) for name, fields in VOLCANO.items() for dotted in fields])
def test_no_field_of_volcano_is_missing(name: str, dotted: str) -> None:
    assert field(name, dotted)


@each_case("dotted", OURS)
def test_no_field_of_the_design_is_missing(dotted: str) -> None:
    assert field("queues", dotted)


@pytest.mark.parametrize(
    ("name", "scope", "version", "short"),
    [
        ("queues", "Cluster", "v1beta1", ["q", "queue-v1beta1"]),
        ("podgroups", "Namespaced", "v1beta1", ["pg", "podgroup-v1beta1"]),
        ("commands", "Namespaced", "v1alpha1", []),
    ],
)
def test_kinds_are_named_as_volcano_names_them(name: str, scope: str, version: str, short: list[str]) -> None:
    spec = crd(name)["spec"]
    names = spec["names"].get("shortNames", [])
    assert (spec["scope"], spec["versions"][0]["name"], names) == (scope, version, short)


def test_only_queues_have_a_status_subresource() -> None:
    having = [n for n in VOLCANO if "status" in crd(n)["spec"]["versions"][0].get("subresources", {})]
    assert having == ["queues"]


def test_the_state_of_a_queue_has_no_default_so_that_a_wish_in_status_can_be_told_from_one_in_spec() -> None:
    assert "default" not in field("queues", "spec.state")


def test_the_status_of_a_queue_takes_any_word_for_its_state_and_requires_nothing() -> None:
    status = field("queues", "status")
    assert "required" not in status
    assert "enum" not in status["properties"]["state"]


def test_every_property_of_a_queue_is_described() -> None:
    def undescribed(schema: dict[str, Any], path: str) -> list[str]:
        own = [] if "description" in schema or path in ("", ".metadata") else [path]
        inner = schema.get("items", schema).get("properties", {})
        return own + [gap for name, each in inner.items() for gap in undescribed(each, f"{path}.{name}")]

    schema = crd("queues")["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert undescribed(schema, "") == []


#: The entries of /validate/metadata.
WARNING = ("metadata.workloads", "metadata.namespaces", "labels.pods", "kueue.pods")


def test_a_dead_server_blocks_all_it_is_asked_about_but_what_nothing_rests_on() -> None:
    ignored = [
        hook["name"]
        for hook in [*webhooks("Mutating"), *webhooks("Validating")]
        if hook["failurePolicy"] != "Fail"
    ]
    names = ("scales", "rollouts", "edits.podgroups", *WARNING, "policies", "binds")
    assert ignored == [f"{name}.sluice.dev" for name in names]


def test_no_pod_of_kube_system_or_of_our_own_namespace_ever_depends_on_us() -> None:
    spared = {
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": ["kube-system", "sluice-system"],
    }
    about_pods = [
        hook
        for hook in [*webhooks("Mutating"), *webhooks("Validating")]
        if any(resource.startswith(("pods", "bindings")) for resource in hook["rules"][0]["resources"])
    ]
    assert len(about_pods) == 8
    assert all(spared in hook["namespaceSelector"]["matchExpressions"] for hook in about_pods)


def test_a_bind_waits_two_seconds_for_us_at_most() -> None:
    [binds] = [hook for hook in webhooks("Validating") if hook["name"] == "binds.sluice.dev"]
    assert binds["timeoutSeconds"] == 2


def test_every_webhook_may_be_dry_run_and_reaches_the_service() -> None:
    hooks = [*webhooks("Mutating"), *webhooks("Validating")]
    [service] = of_kind("Service")
    assert {hook["sideEffects"] for hook in hooks} == {"None"}
    assert {
        (hook["clientConfig"]["service"]["name"], hook["clientConfig"]["service"]["namespace"])
        for hook in hooks
    } == {(service["metadata"]["name"], service["metadata"]["namespace"])}


def test_the_server_has_one_name_everywhere() -> None:
    [account] = of_kind("ServiceAccount")
    metadata = account["metadata"]
    [deployment] = of_kind("Deployment")
    assert f"system:serviceaccount:{metadata['namespace']}:{metadata['name']}" == SERVER
    assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == metadata["name"]
    exempting = [path.name for path in FILES if SERVER in path.read_text()]
    assert sorted(exempting) == [
        "kustomization.yaml",
        "mutating.yaml",
        "namespaces.yaml",
        "pod-statuses.yaml",
        "policy.yaml",
        "queues.yaml",
        "service-account.yaml",
        "validating.yaml",
    ]


def test_no_right_is_a_wildcard() -> None:
    rules = [rule for kind in ("ClusterRole", "Role") for role in of_kind(kind) for rule in role["rules"]]
    assert not [rule for rule in rules if "*" in rule["verbs"] + rule["resources"] + rule["apiGroups"]]


def test_every_right_of_the_server_has_its_reason_beside_it() -> None:
    text = (MANIFESTS / "rbac" / "server.yaml").read_text()
    [rules] = [
        each["rules"]
        for each in documents(MANIFESTS / "rbac" / "server.yaml")
        if each["kind"] == "ClusterRole"
    ]
    assert text.count("\n  # ") * 3 >= len(rules)


def test_the_server_runs_with_nothing_it_does_not_need() -> None:
    [deployment] = of_kind("Deployment")
    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_probes_and_the_service_meet_the_port_the_server_binds() -> None:
    [deployment] = of_kind("Deployment")
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    [service] = of_kind("Service")
    for name, flag in (("https", "--bind"), ("health", "--health-bind")):
        assert container["args"][container["args"].index(flag) + 1].endswith(f":{ports[name]}")
    probes = [container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")]
    assert {(probe["port"], probe.get("scheme", "HTTP")) for probe in probes} == {("health", "HTTP")}
    assert [port["targetPort"] for port in service["spec"]["ports"]] == ["https"]
    [monitor] = of_kind("PodMonitor")
    assert [each["port"] for each in monitor["spec"]["podMetricsEndpoints"]] == ["health"]


def test_a_pod_that_ends_serves_on_until_another_one_is_ready() -> None:
    """kube-proxy sends callers to a pod that ends while no other is ready; then it finishes its requests."""
    [deployment] = of_kind("Deployment")
    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    serves_on = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert serves_on >= 15
    finishing = gunicorn_settings(bind="0.0.0.0:8443")["graceful_timeout"]
    assert pod["terminationGracePeriodSeconds"] >= serves_on + finishing + 5
    probes = [container[name] for name in ("startupProbe", "readinessProbe")]
    assert [probe["periodSeconds"] for probe in probes] == [1, 1]


def test_the_extender_sees_members_alone_and_gives_up_early() -> None:
    [configuration] = documents(MANIFESTS / "scheduler" / "scheduler-config.yaml")
    extender, scores = configuration["extenders"]
    assert extender["managedResources"] == [{"name": "sluice.dev/member", "ignoredByScheduler": True}]
    assert extender["preemptVerb"]
    assert not extender["ignorable"]
    assert scores["managedResources"] == [{"name": "sluice.dev/scored", "ignoredByScheduler": True}]
    assert scores.keys() & {"filterVerb", "preemptVerb", "bindVerb"} == set()
    assert scores["prioritizeVerb"]
    assert scores["ignorable"]
    for each in (extender, scores):
        assert (each["httpTimeout"], each["nodeCacheCapable"]) == ("500ms", True)


@pytest.mark.parametrize(
    ("folder", "argument"),
    [("client-certificates", "--client-ca={}/ca.crt"), ("notices", "--notices-dir={}")],
)
def test_the_setting_of_a_component_reads_what_it_mounts(folder: str, argument: str) -> None:
    [component] = documents(MANIFESTS / folder / "kustomization.yaml")
    [patch] = component["patches"]
    given, mount, volume = (step["value"] for step in yaml_texts.load(patch["patch"]))
    assert given == argument.format(mount["mountPath"])
    assert mount["name"] == volume["name"]


def test_managed_namespaces_narrow_what_asks_about_pods_and_workloads_and_nothing_else() -> None:
    """All entries are listed there, in their order: who adds one decides whether it is narrowed."""
    folder = MANIFESTS / "managed-namespaces"
    [component] = documents(folder / "kustomization.yaml")
    argument, *configurations = (yaml_texts.load(each["patch"]) for each in component["patches"])
    selector = json.loads(argument[1]["value"])
    for configuration, kind in zip(configurations, ("Mutating", "Validating"), strict=True):
        patched = {each["name"]: each.get("namespaceSelector") for each in configuration["webhooks"]}
        extra = [] if kind == "Mutating" else ["labels.namespaces.sluice.dev"]
        assert list(patched) == [*(hook["name"] for hook in webhooks(kind)), *extra]
        for hook in webhooks(kind):
            resources = {name for rule in hook["rules"] for name in rule["resources"]}
            is_ours_there = hook["rules"][0]["scope"] == "Namespaced" and not resources & NOT_NARROWED
            assert patched[hook["name"]] == (selector if is_ours_there else None), hook["name"]
    [binding] = [
        each
        for each in documents(folder / "policy.yaml")
        if each["kind"] == "ValidatingAdmissionPolicyBinding"
    ]
    [(key, value)] = selector["matchLabels"].items()
    opposite = {"key": key, "operator": "NotIn", "values": [value]}
    assert opposite in binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]


def test_the_api_servers_certificate_is_shown_to_the_service_of_the_webhooks() -> None:
    [kubeconfig] = of_kind("Config")
    [service] = of_kind("Service")
    name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
    assert [user["name"] for user in kubeconfig["users"]] == [f"{name}.{namespace}.svc"]


def test_a_network_policy_keeps_the_port_of_the_callers_and_leaves_that_of_the_probes_to_all() -> None:
    [policy] = of_kind("NetworkPolicy")
    [deployment] = of_kind("Deployment")
    assert policy["spec"]["podSelector"] == deployment["spec"]["selector"]
    callers, probes = policy["spec"]["ingress"]
    assert ([port["port"] for port in callers["ports"]], bool(callers["from"])) == (["https"], True)
    assert ([port["port"] for port in probes["ports"]], "from" in probes) == (["health"], False)


def test_the_files_speak_of_no_machine() -> None:
    assert not [path for path in FILES if "/work/" in path.read_text() or "/root/" in path.read_text()]


def test_replicas_are_spread_without_counting_the_pods_of_the_old_version() -> None:
    """A roll-out makes new pods beside the old ones: counted together, the new ones may share a node."""
    [deployment] = of_kind("Deployment")
    [constraint] = deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert constraint["matchLabelKeys"] == ["pod-template-hash"]
