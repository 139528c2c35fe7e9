"""The chart gives the objects of the manifests, and values change what they name and nothing else."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from queues.namespace_selectors import NAME_LABEL, compile_selector
from release.chart.chart import KEEP, ROOT, write_chart
from release.chart.kustomize import Manifest, build, build_with, identity
from release.chart.values import OPTIONS, VALUES
from server.managed_selectors import differences
from server.settings import Settings
from tests.support.helm import Helm, by_identity, flags

pytestmark = [pytest.mark.cluster, pytest.mark.long]  # kubectl and Helm are built with the control plane

Objects = dict[tuple[str, str, str], Manifest]
#: The values under which each folder of `OPTIONS` is added, and some others that go together.
COMBINATIONS: dict[tuple[str, ...], dict[str, Any]] = {
    ("queue-readers",): {"queueReaders": True},
    ("monitoring",): {"monitoring.podMonitor": True},
    ("client-certificates",): {"clientCertificates": True},
    ("cert-manager",): {"certificates.issuer": "cert-manager"},
    ("cert-manager", "client-certificates"): {
        "certificates.issuer": "cert-manager",
        "clientCertificates": True,
    },
    ("managed-namespaces",): {"managedNamespaces": {"matchLabels": {"sluice.dev/managed": "true"}}},
    ("client-certificates", "managed-namespaces"): {
        "clientCertificates": True,
        "managedNamespaces": {"matchLabels": {"sluice.dev/managed": "true"}},
    },
    ("notices",): {"notices": True},
    ("network-policy",): {
        "networkPolicy.enabled": True,
        "networkPolicy.controlPlane": ["192.0.2.0/25", "192.0.2.128/25"],
    },
    ("ways/gate", "client-certificates"): {"mode": "gate", "clientCertificates": True},
    ("ways/scheduler",): {"mode": "scheduler"},
    ("ways/scheduler-client-certificates",): {"mode": "scheduler", "clientCertificates": True},
    ("ways/gate",): {"mode": "gate"},
    ("ways/gate", "queue-readers", "monitoring"): {
        "mode": "gate",
        "queueReaders": True,
        "monitoring.podMonitor": True,
    },
    ("queue-readers", "monitoring"): {"queueReaders": True, "monitoring.podMonitor": True},
}


def without_keep(objects: Objects) -> Objects:
    """Without the annotation that Helm alone reads."""
    for manifest in objects.values():
        annotations = manifest["metadata"].get("annotations") or {}
        if manifest["kind"] == "CustomResourceDefinition":
            assert annotations.items() >= KEEP.items()
            manifest["metadata"].pop("annotations")
            rest = {key: value for key, value in annotations.items() if key not in KEEP}
            manifest["metadata"].update({"annotations": rest} if rest else {})
    return objects


def deployment(objects: Objects) -> Any:
    [found] = [each for each in objects.values() if each["kind"] == "Deployment"]
    return found["spec"]


def container(objects: Objects) -> Any:
    containers = deployment(objects)["template"]["spec"]["containers"]
    return next(each for each in containers if each["name"] == "sluice")


def test_default_values_give_the_objects_of_kubectl_kustomize(helm: Helm, chart: Path, kubectl: Path) -> None:
    command = [str(kubectl), "kustomize", str(ROOT / "manifests")]
    built = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert without_keep(helm.rendered(chart)) == by_identity(built)


@pytest.mark.parametrize("folders", COMBINATIONS, ids=" and ".join)
def test_values_that_add_a_folder_give_the_objects_of_kubectl_kustomize_with_it(
    helm: Helm, chart: Path, kubectl: Path, folders: tuple[str, ...]
) -> None:
    """With several at once too: each is merged for itself."""
    built = {identity(each): each for each in build_with(kubectl, ROOT / "manifests", folders)}
    if "network-policy" in folders:  # the range in the file is an example, which the chart refuses
        peers = [{"ipBlock": {"cidr": cidr}} for cidr in COMBINATIONS[folders]["networkPolicy.controlPlane"]]
        built["NetworkPolicy", "sluice-system", "sluice"]["spec"]["ingress"][0]["from"] = peers
    assert without_keep(helm.rendered(chart, *flags(COMBINATIONS[folders]))) == built


def test_each_folder_is_tried() -> None:
    assert {folder for folders in COMBINATIONS for folder in folders} == {each.folder for each in OPTIONS}


def test_helm_finds_no_fault_in_the_chart(helm: Helm, chart: Path) -> None:
    assert "1 chart(s) linted, 0 chart(s) failed" in helm("lint", "--strict", str(chart))


def test_another_namespace_is_named_wherever_the_default_one_was(helm: Helm, chart: Path) -> None:
    """In Roles, webhooks, conditions and arguments; and the release may be in the namespace itself."""
    arguments = ("--namespace", "queues", *flags({"namespace": "queues"}))
    text = helm("template", "sluice", str(chart), *arguments)
    assert "sluice-system" not in text
    assert "system:serviceaccount:queues:sluice" in text
    assert ("Namespace", "", "queues") not in by_identity(text)


@pytest.mark.parametrize("mode", ["extender", "scheduler"])
def test_without_helm_another_namespace_is_a_substitution_in_what_kustomize_prints(
    kubectl: Path, helm: Helm, chart: Path, mode: str
) -> None:
    """As docs/operating/kustomize.md has it. The chart, whose values know each place, gives the same."""
    folder = ROOT / "manifests" / ("." if mode == "extender" else "ways/scheduler")
    printed = subprocess.run(
        [kubectl, "kustomize", folder], check=True, capture_output=True, text=True
    ).stdout
    substituted = by_identity(printed.replace("sluice-system", "queues"))
    values = flags({"namespace": "queues", "mode": mode})
    expected = without_keep(by_identity(helm("template", "sluice", str(chart), "-n", "queues", *values)))
    assert substituted.keys() - expected.keys() == {("Namespace", "", "queues")}, "Helm makes that one"
    assert all(substituted[key] == expected[key] for key in expected)


def test_a_namespace_that_yaml_takes_for_a_number_is_a_name(helm: Helm, chart: Path) -> None:
    objects = helm.rendered(chart, *flags({"namespace": "1e3"}))
    assert ("Deployment", "1e3", "sluice") in objects
    assert "1e3" in container(objects)["args"]


def test_values_stand_where_they_belong(helm: Helm, chart: Path) -> None:
    resources = {"requests": {"cpu": "1", "memory": "512Mi"}}
    objects = helm.rendered(
        chart,
        *flags(
            {
                "replicas": 3,
                "image.repository": "registry.example.com:5000/sluice",
                "image.tag": "1.2.3",
                "image.pullPolicy": "Always",
                "image.pullSecrets": [{"name": "registry"}],
                "clusterIP": "10.96.0.42",
                "resources": {**resources, "limits": None},
                "priorityClassName": "high",
                "nodeSelector": {"pool": "control"},
                "tolerations": [{"operator": "Exists"}],
                "affinity": {"nodeAffinity": {}},
                "podAnnotations": {"team": "platform"},
                "schedulers": ["default-scheduler", "batch"],
            }
        ),
    )
    pod = deployment(objects)["template"]
    server = container(objects)
    assert deployment(objects)["replicas"] == 3
    assert server["image"] == "registry.example.com:5000/sluice:1.2.3"
    assert server["imagePullPolicy"] == "Always"
    assert server["resources"] == resources
    assert server["args"][server["args"].index("--schedulers") + 1] == "default-scheduler,batch"
    assert pod["metadata"]["annotations"] == {"team": "platform"}
    assert pod["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    assert pod["spec"]["priorityClassName"] == "high"
    assert pod["spec"]["nodeSelector"] == {"pool": "control"}
    assert pod["spec"]["tolerations"] == [{"operator": "Exists"}]
    assert pod["spec"]["affinity"] == {"nodeAffinity": {}}
    assert objects["Service", "sluice-system", "sluice"]["spec"]["clusterIP"] == "10.96.0.42"


def test_our_own_scheduler_has_the_image_that_its_values_name(helm: Helm, chart: Path) -> None:
    values = {"mode": "scheduler", "schedulerImage.repository": "r/ks", "schedulerImage.tag": "v1.33.1"}
    containers = deployment(helm.rendered(chart, *flags(values)))["template"]["spec"]["containers"]
    assert "r/ks:v1.33.1" in [each["image"] for each in containers]


def test_cert_manager_goes_together_with_every_mode(helm: Helm, chart: Path) -> None:
    """Two folders that each build upon the manifests: kustomize takes one of them, and the chart both."""
    values = {"mode": "scheduler", "certificates.issuer": "cert-manager", "clusterIP": "10.96.0.42"}
    issuer = {"kind": "ClusterIssuer", "name": "ours"}
    objects = helm.rendered(chart, *flags({**values, "certificates.issuerRef": issuer}))
    assert "--mode=scheduler" in container(objects)["args"]
    assert "--tls-dir=/tls" in container(objects)["args"]
    serving = objects["Certificate", "sluice-system", "sluice-serving"]["spec"]
    assert serving["ipAddresses"] == ["10.96.0.42"]
    assert serving["issuerRef"] == issuer


def test_a_digest_counts_instead_of_the_tag(helm: Helm, chart: Path) -> None:
    digest = f"sha256:{'0' * 64}"
    assert container(helm.rendered(chart, *flags({"image.digest": digest})))["image"] == f"sluice@{digest}"


def test_settings_reach_the_server_and_the_conditions_that_speak_of_them(helm: Helm, chart: Path) -> None:
    """A name that only one of the two had would make pods members that nobody is asked about."""
    values = {
        "kueueLabel": True,
        "bindingNamespaces": True,
        "ownedSchedulers": ["volcano", "batch"],
        "policies.name": "our-policies",
        "policies.namespace": "ours",
        "settings.drain_rate": 50,
        "settings.controller_users": ["a", "b"],
    }
    objects = helm.rendered(chart, *flags(values))
    environment = {each["name"]: each.get("value") for each in container(objects)["env"]}
    assert environment == {
        "POD_NAME": None,
        "SLUICE_BINDING_NAMESPACES": "true",
        "SLUICE_KUEUE_LABEL": "true",
        "SLUICE_OWNED_SCHEDULERS": "volcano,batch",
        "SLUICE_POLICIES_NAME": "our-policies",
        "SLUICE_POLICIES_NAMESPACE": "ours",
        "SLUICE_DRAIN_RATE": "50",
        "SLUICE_CONTROLLER_USERS": "a,b",
    }
    webhooks = [str(each) for each in objects.values() if each["kind"].endswith("WebhookConfiguration")]
    default = [str(each) for each in helm.rendered(chart).values() if "Webhook" in each["kind"]]
    assert "in ['volcano', 'batch', 'sluice']" in "".join(webhooks)
    assert "in ['volcano', 'sluice']" not in "".join(webhooks)
    # Of an entry's selector: it warns of pods that name their queue by it in vain.
    assert [each.count("kueue.x-k8s.io/queue-name") for each in default] == [0, 1]
    assert [each.count("['volcano.sh/queue-name', 'kueue.x-k8s.io/queue-name'") for each in webhooks] == [
        each.count("['volcano.sh/queue-name'") for each in default
    ]
    rights = objects["ClusterRole", "", "sluice"]["rules"]
    assert ["our-policies"] in [rule.get("resourceNames") for rule in rights]
    assert "volcano-system" not in "".join(webhooks)


def test_another_selector_of_managed_namespaces_is_the_servers_the_webhooks_and_turned_round_the_policys(
    helm: Helm, chart: Path
) -> None:
    """What is not managed misses one requirement: a binding for each."""
    tier = {"key": "tier", "operator": "NotIn", "values": ["system"]}
    gone = {"key": "opted-out", "operator": "DoesNotExist"}
    selector = {"matchLabels": {"team": "a"}, "matchExpressions": [tier, gone]}
    objects = helm.rendered(chart, *flags({"managedNamespaces": selector}))
    arguments = container(objects)["args"]
    told = arguments[arguments.index("--managed-namespaces") + 1]
    assert Settings(managed_namespaces=told).membership_settings.managed_namespaces == compile_selector(
        selector
    )
    hooks = {
        hook["name"]: hook.get("namespaceSelector", {})
        for each in objects.values()
        if each["kind"].endswith("WebhookConfiguration")
        for hook in each["webhooks"]
    }
    assert hooks["pods.sluice.dev"]["matchLabels"] == {"team": "a"}
    assert hooks["pods.sluice.dev"]["matchExpressions"][1:] == [tier, gone]
    assert "matchLabels" not in hooks["binds.sluice.dev"]
    bound = [
        each["spec"]["matchResources"]["namespaceSelector"]
        for (kind, _, name), each in objects.items()
        if kind == "ValidatingAdmissionPolicyBinding" and name.startswith("sluice-unmanaged")
    ]
    assert list(differences(compile_selector(selector), entries=hooks, bindings=bound)) == []
    spared = {"key": NAME_LABEL, "operator": "NotIn", "values": ["kube-system", "sluice-system"]}
    assert [each["matchExpressions"] for each in bound] == [
        [{"key": "team", "operator": "NotIn", "values": ["a"]}, spared],
        [{"key": "tier", "operator": "In", "values": ["system"]}, spared],
        [{"key": "opted-out", "operator": "Exists"}, spared],
    ]


def test_the_alerts_may_be_left_out(helm: Helm, chart: Path) -> None:
    values = {"monitoring.podMonitor": True, "monitoring.alerts": False}
    kinds = {kind for kind, _, _ in helm.rendered(chart, *flags(values))}
    assert "PodMonitor" in kinds
    assert "PrometheusRule" not in kinds


def test_the_definitions_may_be_left_to_somebody_else(helm: Helm, chart: Path) -> None:
    kinds = {kind for kind, _, _ in helm.rendered(chart, *flags({"crds.install": False}))}
    assert "Deployment" in kinds
    assert "CustomResourceDefinition" not in kinds


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"replica": 2}, ["additional properties", "replica"]),
        ({"replicas": 0}, ["replicas", "minimum"]),
        ({"settings.drainrate": 1}, ["settings", "drainrate"]),
        ({"settings.namespace": "x"}, ["settings", "namespace"]),
        ({"clusterIP": "10.96.0"}, ["clusterIP"]),
        ({"image.digest": "latest"}, ["digest"]),
        ({"schedulers": []}, ["schedulers"]),
        (
            {"certificates.issuerRef": {"name": "ours"}},
            ["certificates.issuerRef: it is for cert-manager, and certificates.issuer is own"],
        ),
        ({"networkPolicy.enabled": True}, ["networkPolicy.controlPlane: 192.0.2.0/24 is an example"]),
        ({"mode": "extenders"}, ["mode", "'extender', 'scheduler', 'gate'"]),
        ({"settings.mode": "gate"}, ["settings", "mode"]),
        ({"settings.tls_dir": "/x"}, ["settings", "tls_dir"]),
        (
            {"mode": "scheduler", "schedulers": ["default-scheduler", "sluice"]},
            ["schedulers: they are the cluster's own", "Take sluice out of the list"],
        ),
        ({"namespace": "kube-system"}, ["namespace", "--set namespace=sluice-system"]),
        (
            {"resources.requests.memory": "2000Mi"},
            ["resources: the request of memory, 2000Mi, is more than its limit, 1Gi"],
        ),
        ({"image.repository": ""}, ["image.repository: it is not set", "--set image.repository=NAME"]),
        (
            {"mode": "scheduler", "schedulerImage.tag": "1.33.1"},
            ["schedulerImage.tag: tags of registry.k8s.io/kube-scheduler begin with v", "tag=v1.33.1"],
        ),
        (
            {"resources": {"requests": None, "limits": {"memory": 512}}},
            ["resources.limits.memory: 512 is less than the 64Mi that the server needs"],
        ),
        (
            {"networkPolicy.enabled": True, "networkPolicy.controlPlane": ["10.0.0.300/24"]},
            ["networkPolicy.controlPlane: 10.0.0.300/24 is no range of addresses"],
        ),
        (
            {"networkPolicy.enabled": True, "networkPolicy.controlPlane": ["10.0.0.0/24", "a::1::2/64"]},
            ["networkPolicy.controlPlane: a::1::2/64 is no range of addresses"],
        ),
        (
            {"networkPolicy.controlPlane": ["10.0.0.0/24"]},
            ["networkPolicy.controlPlane: it is set, and networkPolicy.enabled is false"],
        ),
        (
            {"settings.scheduler_callers": ["a"]},
            ["settings.scheduler_callers: it is set, and clientCertificates is false"],
        ),
        (
            {"settings.ca_wait_days": 0, "certificates.issuer": "cert-manager"},
            ["settings.ca_wait_days: it is for an authority of the server's own"],
        ),
    ],
    ids=str,
)
def test_a_value_that_cannot_be_is_refused_by_name(
    helm: Helm, chart: Path, values: dict[str, Any], words: list[str]
) -> None:
    error = helm.refused("template", "sluice", str(chart), *flags(values))
    assert [word for word in words if word not in error] == [], error


#: Values that are refused by their form, each with what is said of it: Helm names all of them at once.
REFUSED_BY_FORM: dict[str, tuple[Any, str]] = {
    "settings.drain_rate": (-5, "'/settings/drain_rate': minimum: got -5, want 1"),
    "settings.writers": (65, "'/settings/writers': maximum: got 65, want 64"),
    "settings.log_level": (
        "trace",
        "'/settings/log_level': value must be one of 'debug', 'info', 'warning', 'error'",
    ),
    "settings.hosts": (["a", "a_b"], "'/settings/hosts/1': 'a_b'"),
    "image.repository": ("YOUR/sluice", "'/image/repository': 'YOUR/sluice'"),
    "image.tag": ("a b", "'/image/tag': 'a b'"),
    "image.pullSecrets": ([{"secret": "a"}], "'/image/pullSecrets/0': missing property 'name'"),
    "schedulerImage.repository": (
        "registry:5000/kube-scheduler:v1",
        "'/schedulerImage/repository': 'registry:5000/kube-scheduler:v1'",
    ),
    "resources.requests.memory": ("256m", "'/resources/requests/memory': '256m'"),
    "resources.limits.memory": ("512MB", "'/resources/limits/memory': '512MB'"),
    "resources.limits.cpu": ("half", "'/resources/limits/cpu': 'half'"),
    "clusterIP": ("10.96.0.300", "'/clusterIP': '10.96.0.300' is not valid ipv4"),
    "networkPolicy.controlPlane": (["10.0.0.1"], "'/networkPolicy/controlPlane/0': '10.0.0.1'"),
    "nodeSelector": ({"spot": True}, "'/nodeSelector/spot': got boolean, want string"),
    "tolerations": ([{"effect": "Never"}], "'/tolerations/0/effect': value must be one of 'NoSchedule'"),
    "priorityClassName": ("High", "'/priorityClassName': 'High'"),
    "policies.name": ("Our_Policies", "'/policies/name': 'Our_Policies'"),
    "certificates.issuerRef": ({"nam": "a"}, "'/certificates/issuerRef': additional properties 'nam'"),
}


@pytest.mark.parametrize("command", [("template", "sluice"), ("lint",)], ids=" ".join)
def test_values_of_a_wrong_form_are_all_named_at_once(
    helm: Helm, chart: Path, command: tuple[str, ...]
) -> None:
    values = {name: value for name, (value, _) in REFUSED_BY_FORM.items()}
    done = helm.try_(*command, str(chart), *flags(values))
    assert done.returncode != 0
    output = done.stdout + done.stderr
    assert [words for _, words in REFUSED_BY_FORM.values() if words not in output] == [], output


def test_a_range_of_addresses_may_be_of_either_family(helm: Helm, chart: Path) -> None:
    ranges = ["10.0.0.0/24", "0.0.0.0/0", "fd00::/64", "::/0", "1:2:3:4:5:6:7:8/128"]
    values = {"networkPolicy.enabled": True, "networkPolicy.controlPlane": ranges}
    policy = helm.rendered(chart, *flags(values))["NetworkPolicy", "sluice-system", "sluice"]
    assert policy["spec"]["ingress"][0]["from"] == [{"ipBlock": {"cidr": cidr}} for cidr in ranges]


def test_two_namespaces_that_contradict_each_other_are_refused_with_the_way_out(
    helm: Helm, chart: Path
) -> None:
    error = helm.refused("template", "sluice", str(chart), "--namespace", "queues")
    assert 'the release is in namespace "queues" and value namespace says "sluice-system"' in error
    assert "--namespace sluice-system, or --set namespace=queues" in error


def test_each_value_is_described_in_values_yaml(helm: Helm, chart: Path) -> None:
    shown = helm("show", "values", str(chart))
    assert [value.name for value in VALUES if f"{value.name.rpartition('.')[2]}:" not in shown] == []


def test_the_kustomization_of_the_page_gives_what_the_chart_gives(
    helm: Helm, chart: Path, kubectl: Path, tmp_path: Path
) -> None:
    page = (ROOT / "docs" / "operating" / "kustomize.md").read_text()
    text = page.split("```yaml\n")[1].split("```")[0]
    (tmp_path / "sluice").mkdir()
    shutil.copytree(ROOT / "manifests", tmp_path / "sluice" / "manifests")
    image = {"image.repository": "registry.example.com/sluice", "replicas": 2}
    (tmp_path / "kustomization.yaml").write_text(text)
    built = {identity(each): each for each in build(kubectl, tmp_path)}
    assert without_keep(helm.rendered(chart, *flags(image))) == built
    (tmp_path / "kustomization.yaml").write_text(re.sub(r"(?m)^( *)# ", r"\1", text))  # with all options
    built = {identity(each): each for each in build(kubectl, tmp_path)}
    values = {
        **image,
        "clusterIP": "10.96.0.42",
        "queueReaders": True,
        "monitoring.podMonitor": True,
    }
    assert without_keep(helm.rendered(chart, *flags(values))) == built


@pytest.mark.parametrize(
    "folder", [".", "ways/gate", "ways/scheduler", "ways/scheduler-client-certificates", "cert-manager"]
)
def test_one_entry_of_images_in_a_kustomization_sets_the_image(
    kubectl: Path, tmp_path: Path, folder: str
) -> None:
    """As docs/operating/kustomize.md has it, whichever folder it builds upon."""
    (tmp_path / "sluice").mkdir()
    shutil.copytree(ROOT / "manifests", tmp_path / "sluice" / "manifests")
    image = {"name": "sluice", "newName": "registry.example.com/sluice", "newTag": "9"}
    content = {
        "kind": "Kustomization",
        "resources": [str(Path("sluice/manifests") / folder)],
        "images": [image],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(content))
    built = {identity(each): each for each in build(kubectl, tmp_path)}
    assert container(built)["image"] == "registry.example.com/sluice:9"
    assert "sluice:0" not in str(built), "it is named nowhere else"


def test_the_chart_of_a_release_names_the_image_of_that_release(
    kubectl: Path, helm: Helm, tmp_path: Path
) -> None:
    chart = write_chart(ROOT, kubectl, tmp_path, repository="registry.example.com/sluice")
    version = helm("show", "chart", str(chart)).partition("appVersion: ")[2].split()[0].strip("'\"")
    rendered = by_identity(helm("template", "sluice", str(chart), "--namespace", "sluice-system"))
    assert container(rendered)["image"] == f"registry.example.com/sluice:{version}"
