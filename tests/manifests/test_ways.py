"""The manifests of each mode: what they add to the base, and that their parts are of one mind."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from queues.mode import SCHEDULER_NAME, Mode
from server.own_scheduler import problems
from server.settings import read
from tests.support import yaml_texts
from tests.support.paths import ROOT

MANIFESTS = ROOT / "manifests"
WAYS = MANIFESTS / "ways"
WITH_CERTIFICATES = "scheduler-client-certificates"
OTHER_MODES = [mode for mode in Mode if mode is not Mode.EXTENDER]


def document(path: str) -> Any:
    return yaml.load((MANIFESTS / path).read_text(), Loader=yaml.CSafeLoader)


def patches(mode: Mode) -> dict[str, dict[str, Any]]:
    """By the kind that each changes; all our objects that have one are named sluice."""
    listed = document(f"ways/{mode}/kustomization.yaml")["patches"]
    assert {patch["target"]["name"] for patch in listed} == {"sluice"}
    return {patch["target"]["kind"]: patch for patch in listed}


def steps(mode: Mode) -> list[dict[str, Any]]:
    """The JSON patch of the Deployment."""
    patch = patches(mode)["Deployment"]
    steps: list[dict[str, Any]]
    steps = yaml_texts.load(patch["patch"]) if "patch" in patch else document(f"ways/{mode}/{patch['path']}")
    return steps


def arguments(mode: Mode) -> list[str]:
    """Those that the mode adds to the server's."""
    place = "/spec/template/spec/containers/0/args/-"
    return [str(step["value"]) for step in steps(mode) if step["path"] == place]


def scheduler_container() -> dict[str, Any]:
    [container] = [step["value"] for step in steps(Mode.SCHEDULER) if step["path"].endswith("/containers/-")]
    assert isinstance(container, dict)
    return container


def test_each_mode_but_the_default_has_a_folder() -> None:
    assert {path.name for path in WAYS.iterdir()} == {*OTHER_MODES, WITH_CERTIFICATES}


def test_with_client_certificates_our_own_scheduler_differs_by_those_it_shows_alone() -> None:
    """Those of the volume that its container is given, in each entry. The server takes the configuration."""
    without = document("ways/scheduler/scheduler-config.yaml")
    shown = {"certFile": "/certificate/tls.crt", "keyFile": "/certificate/tls.key"}
    for extender in without["extenders"]:
        extender["tlsConfig"].update(shown)
    configuration = document(f"ways/{WITH_CERTIFICATES}/scheduler-config.yaml")
    assert configuration == without
    settings = read([each for each in arguments(Mode.SCHEDULER) if "config" not in each], env={})
    assert not [*problems(configuration, name=settings.scheduler_name, others=(), certificates=True)]
    way = document(f"ways/{WITH_CERTIFICATES}/kustomization.yaml")
    [mount, volume] = yaml_texts.load(way["patches"][0]["patch"])
    assert mount["path"] == "/spec/template/spec/containers/1/volumeMounts/-"
    assert mount["value"]["mountPath"] == "/certificate"
    assert volume["value"]["name"] == mount["value"]["name"]


@pytest.mark.parametrize("mode", OTHER_MODES)
def test_each_mode_installs_all_that_the_base_does(mode: Mode) -> None:
    base, way = document("kustomization.yaml"), document(f"ways/{mode}/kustomization.yaml")
    assert [name.removeprefix("../../") for name in way["resources"] if name.startswith("../../")] == base[
        "resources"
    ]
    assert way["labels"] == base["labels"]


@pytest.mark.parametrize("folder", [".", "ways/scheduler", "ways/gate", "cert-manager"])
def test_the_image_is_set_in_one_place(folder: str) -> None:
    """The entry names the image of the Deployment, so that a user changes its newName alone."""
    name = document("deployment/deployment.yaml")["spec"]["template"]["spec"]["containers"][0]["image"]
    assert document(f"{folder}/kustomization.yaml")["images"][0] == {
        "name": name.partition(":")[0],
        "newName": name.partition(":")[0],
    }


@pytest.mark.parametrize("mode", OTHER_MODES)
def test_each_mode_is_said_to_the_server(mode: Mode) -> None:
    given = [each for each in arguments(mode) if not each.startswith("--scheduler-config=")]
    assert read(given, env={}).mode == mode


def test_only_in_mode_gate_a_guard_that_does_not_answer_refuses_binds() -> None:
    """There nothing else refuses them. Elsewhere filter does, and a dead server blocks no other pod."""
    hooks = document("webhooks/validating.yaml")["webhooks"]
    assert [hook["failurePolicy"] for hook in hooks if hook["name"] == "binds.sluice.dev"] == ["Ignore"]
    patch = yaml_texts.load(patches(Mode.GATE)["ValidatingWebhookConfiguration"]["patch"])
    assert patch["webhooks"] == [{"name": "binds.sluice.dev", "failurePolicy": "Fail"}]
    assert "ValidatingWebhookConfiguration" not in patches(Mode.SCHEDULER)


def test_the_configuration_of_our_own_scheduler_is_one_that_the_server_takes() -> None:
    settings = read([each for each in arguments(Mode.SCHEDULER) if "config" not in each], env={})
    configuration = document("ways/scheduler/scheduler-config.yaml")
    assert settings.scheduler_name == SCHEDULER_NAME
    assert list(problems(configuration, name=settings.scheduler_name, others=settings.schedulers)) == []


def test_our_own_scheduler_and_the_server_read_the_same_file() -> None:
    container = scheduler_container()
    [checked] = [each for each in arguments(Mode.SCHEDULER) if each.startswith("--scheduler-config=")]
    assert checked.replace("--scheduler-config=", "--config=") in container["command"]
    mounts = [step["value"] for step in steps(Mode.SCHEDULER) if step["path"].endswith("/volumeMounts/-")]
    assert set(map(str, mounts)) <= set(map(str, container["volumeMounts"]))


def test_our_own_scheduler_asks_the_server_of_its_own_pod() -> None:
    [server] = document("deployment/deployment.yaml")["spec"]["template"]["spec"]["containers"]
    port = next(each for each in server["ports"] if each["name"] == "https")
    for extender in document("ways/scheduler/scheduler-config.yaml")["extenders"]:
        assert extender["urlPrefix"] == f"https://127.0.0.1:{port['containerPort']}/extender"


def test_both_schedulers_ask_the_same_of_the_server() -> None:
    """But for whom they ask: ours for each of its pods, the other for those with a marker."""
    clusters = document("scheduler/scheduler-config.yaml")["extenders"]
    ours = document("ways/scheduler/scheduler-config.yaml")["extenders"]
    apart = {"urlPrefix", "tlsConfig", "managedResources"}
    assert [{key: value for key, value in each.items() if key not in apart} for each in ours] == [
        {key: value for key, value in each.items() if key not in apart} for each in clusters
    ]


def test_our_own_scheduler_may_do_what_the_pods_of_the_namespace_may() -> None:
    """The namespace enforces the restricted profile."""
    security = scheduler_container()["securityContext"]
    assert security == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_its_lease_is_one_that_it_may_write() -> None:
    election = document("ways/scheduler/scheduler-config.yaml")["leaderElection"]
    rights = [each for each in yaml_texts.load_all((WAYS / "scheduler/rights.yaml").read_text()) if each]
    [role] = [each for each in rights if each["kind"] == "Role"]
    assert role["metadata"]["namespace"] == election["resourceNamespace"]
    assert role["rules"][0]["resourceNames"] == [election["resourceName"]]
