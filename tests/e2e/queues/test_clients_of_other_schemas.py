"""What clients write back of a stopped queue: Volcano's Go types, kubectl, Python, Helm, GitOps.

Each has a queue with fields that Volcano's API lacks, and changes one that it has.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.client import CustomObjectsApi
from kubernetes.config import new_client_from_config

from localcluster.external_tools import volcano_client
from tests.support.cases import each_case
from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import condition, is_stopped, queue_body
from tests.support.e2e.sandbox import QUEUES, Sandbox
from tests.support.e2e.wait import until
from tests.support.helm import Helm, built_helm
from tests.support.skipping import built_or_skipped

#: What only our schema has.
OURS: Mapping[str, Any] = {
    "state": "Suspended",
    "reason": "disks",
    "windows": [
        {
            "name": "late",
            "from": "2090-01-01T00:00:00Z",
            "until": "2090-01-02T00:00:00Z",
            "stopPolicy": "Hold",
        }
    ],
    "namespaceSelector": {"matchLabels": {"team": "a"}},
    "parked": "Keep",
}
FIELDS = "spec.state, parked, reason, windows and namespaceSelector"
KEPT = "sent none of them"
GROUP, VERSION, PLURAL = "scheduling.volcano.sh", "v1beta1", "queues"


@pytest.fixture(scope="module")
def binary() -> Path:
    """Built when it is not there yet; where it can neither be found nor built nothing is tested."""
    return built_or_skipped("volcanoclient", lambda: volcano_client(say=print))


@pytest.fixture
def queue(sandbox: Sandbox) -> str:
    """A stopped one with its first status."""
    name = sandbox.queue(weight=2, **OURS)
    sandbox.queue_that(name, "be stopped", is_stopped)
    return name


def typed(binary: Path, sandbox: Sandbox, *arguments: str) -> tuple[Object, str]:
    """What Volcano's Go client reads in the answer to its request, and the warnings that it got."""
    command = [str(binary), str(sandbox.cluster.client_kubeconfig), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def ours(sandbox: Sandbox, queue: str) -> Object:
    """What the stored queue has of what only our schema has."""
    spec = sandbox.read_queue(queue)["spec"]
    return {key: spec[key] for key in OURS if key in spec}


def without_ours(found: Object, **spec: object) -> Object:
    """The object as a client without our schema sends it: its spec, and none of the status."""
    kept = {key: value for key, value in found["spec"].items() if key not in OURS}
    return {**{key: found[key] for key in ("apiVersion", "kind")}, "spec": {**kept, **spec}} | {
        "metadata": {key: found["metadata"][key] for key in ("name", "resourceVersion")}
    }


# Volcano's own types


def test_one_field_by_volcanos_go_client_leaves_the_stop_and_says_so(
    sandbox: Sandbox, binary: Path, queue: str
) -> None:
    _, warnings = typed(binary, sandbox, "update", "queue", queue, '{"spec": {"weight": 5}}')
    assert sandbox.read_queue(queue)["spec"]["weight"] == 5
    assert ours(sandbox, queue) == OURS
    assert f"keeps {FIELDS}: this client {KEPT}" in warnings
    assert f"to end its stop: kubectl queue resume {queue}" in warnings


def test_an_open_queue_is_written_by_volcanos_go_client_without_a_word(
    sandbox: Sandbox, binary: Path
) -> None:
    name = sandbox.queue(weight=2)
    _, warnings = typed(binary, sandbox, "update", "queue", name, '{"spec": {"reclaimable": false}}')
    assert warnings == ""
    spec = sandbox.read_queue(name)["spec"]
    assert (spec["state"], spec["reclaimable"]) == ("Open", False)


def test_a_status_by_volcanos_go_client_is_put_right(sandbox: Sandbox, binary: Path, queue: str) -> None:
    """As its scheduler and its controller write it: all of it, with the fields that they know."""
    before = sandbox.edit(queue, reason="more disks", stopPolicy="Hold")
    typed(binary, sandbox, "update-status", "queue", queue, '{"status": {"pending": 3}}')
    found = until(
        lambda: (
            (read := sandbox.read_queue(queue))["status"].get("pending") != 3 and is_stopped(read) and read
        ),
        "the status to be put right",
    )
    assert found["spec"] == before["spec"]
    assert found["status"]["changes"] == before["status"]["changes"]
    assert condition(found, "Active")["reason"] == condition(before, "Active")["reason"]


def test_volcanos_go_client_keeps_a_podgroup_as_it_is(sandbox: Sandbox, binary: Path) -> None:
    """All that is ours on one is in labels and annotations."""
    queue = sandbox.queue()
    sandbox.podgroup("gang", queue, minMember=2)
    path = f"{sandbox.podgroups_path}/gang"
    until(lambda: sandbox.api.get(path).body.get("status", {}).get("phase"), "its phase")
    before = sandbox.api.get(path).must().body
    typed(binary, sandbox, "update", "podgroup", f"{sandbox.namespace}/gang", '{"spec": {"minMember": 3}}')
    after = sandbox.api.get(path).must().body
    assert after["spec"] == {**before["spec"], "minMember": 3}
    for place in ("labels", "annotations"):
        assert after["metadata"].get(place) == before["metadata"].get(place)


def test_a_client_of_an_older_release_of_volcano_moves_no_queue_out_of_its_parent(sandbox: Sandbox) -> None:
    """Its types have no parent: the object is as volcano.sh/apis 1.7 writes it."""
    above = sandbox.queue("above", state="Suspended")
    name = sandbox.queue("below", parent=above, deserved={"cpu": "2"}, weight=2)
    found = sandbox.read_queue(name)
    kept = {key: found["spec"][key] for key in ("reclaimable", "weight")}
    sent = {
        **{key: found[key] for key in ("apiVersion", "kind", "metadata")},
        "spec": {**kept, "weight": 7, "guarantee": {}},
        "status": {"state": "Suspended", "reservation": {}, "allocated": None},
    }
    answer = sandbox.api.replace(f"{QUEUES}/{name}", sent).must()
    spec = sandbox.read_queue(name)["spec"]
    assert (spec["parent"], spec["weight"], spec["deserved"]) == (above, 7, {"cpu": "2"})
    assert any("keeps spec.parent and deserved" in text for text in answer.warnings)


# kubectl


def kubectl(sandbox: Sandbox, *arguments: str, given: Object) -> str:
    """What it says on standard error."""
    done = sandbox.kubectl(*arguments, "-f", "-", given=yaml.safe_dump(given))
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_kubectl_replace_is_meant_as_it_is_and_says_what_goes(sandbox: Sandbox, queue: str) -> None:
    told = kubectl(sandbox, "replace", given=queue_body(queue, weight=5, parent="root"))
    assert ours(sandbox, queue) == {"state": "Open"}
    assert "this edit removes spec.state, parked, windows and namespaceSelector" in told


def test_kubectl_edit_removes_what_its_user_deletes(
    sandbox: Sandbox, queue: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i '/^  parked:/d; /^  reason:/d' \"$1\"\n")
    editor.chmod(0o755)
    monkeypatch.setenv("KUBE_EDITOR", str(editor))
    done = sandbox.kubectl("edit", "queue", queue)
    assert done.returncode == 0, done.stderr
    assert ours(sandbox, queue).keys() == OURS.keys() - {"parked", "reason"}
    assert KEPT not in done.stderr


@each_case("manager", ["kubectl-client-side-apply", "argocd-controller"])
def test_a_three_way_apply_removes_what_it_had_applied_alone(sandbox: Sandbox, manager: str) -> None:
    """As kubectl and Argo CD do it: the file never had the stop, and loses a window."""
    name = sandbox.named(f"applied-by-{manager}")
    sandbox.queue_names.append(name)
    body = queue_body(name, weight=2, parent="root")
    windows = {**body, "spec": {**body["spec"], "windows": OURS["windows"]}}
    kubectl(sandbox, "apply", "--field-manager", manager, given=windows)
    sandbox.answered(name)
    sandbox.suspend(name, reason="disks")
    told = kubectl(sandbox, "apply", "--field-manager", manager, given=body)
    assert ours(sandbox, name) == {"state": "Suspended", "reason": "disks"}
    assert KEPT not in told


def test_a_server_side_apply_removes_what_its_manager_had_applied_alone(sandbox: Sandbox) -> None:
    name = sandbox.named("applied")
    sandbox.queue_names.append(name)
    body = queue_body(name, weight=2, parent="root")
    windows = {**body, "spec": {**body["spec"], "windows": OURS["windows"]}}
    kubectl(sandbox, "apply", "--server-side", given=windows)
    sandbox.answered(name)
    sandbox.suspend(name, reason="disks")
    told = kubectl(sandbox, "apply", "--server-side", given=body)
    assert ours(sandbox, name) == {"state": "Suspended", "reason": "disks"}
    assert KEPT not in told


def test_argo_cds_replace_keeps_a_stop_that_it_never_made(sandbox: Sandbox, queue: str) -> None:
    """Sync option Replace=true: a manifest of its own, with PUT."""
    body = queue_body(queue, weight=5, parent="root")
    told = kubectl(sandbox, "replace", "--field-manager", "argocd-controller", given=body)
    assert sandbox.read_queue(queue)["spec"]["weight"] == 5
    assert ours(sandbox, queue) == OURS
    assert KEPT in told


# Python


@pytest.fixture
def python(sandbox: Sandbox) -> Iterator[CustomObjectsApi]:
    """The official client, as the administrator."""
    with new_client_from_config(str(sandbox.cluster.client_kubeconfig)) as client:  # type: ignore[no-untyped-call]
        yield CustomObjectsApi(client)


def read(python: CustomObjectsApi, queue: str) -> Object:
    found = python.get_cluster_custom_object(GROUP, VERSION, PLURAL, queue)
    assert isinstance(found, dict)
    return found


def test_the_python_client_writes_back_what_it_read(
    sandbox: Sandbox, python: CustomObjectsApi, queue: str
) -> None:
    """It has no types: what it leaves out its user left out."""
    found = read(python, queue)
    found["spec"]["weight"] = 5
    python.replace_cluster_custom_object(GROUP, VERSION, PLURAL, queue, found)
    assert ours(sandbox, queue) == OURS
    sandbox.answered(queue)
    found = read(python, queue)
    del found["spec"]["parked"], found["spec"]["state"]
    python.replace_cluster_custom_object(GROUP, VERSION, PLURAL, queue, found)
    assert ours(sandbox, queue).keys() == OURS.keys() - {"parked", "reason"}
    assert ours(sandbox, queue)["state"] == "Open"


def test_an_object_that_a_script_makes_up_keeps_the_stop(
    sandbox: Sandbox, python: CustomObjectsApi, queue: str
) -> None:
    sent = without_ours(sandbox.read_queue(queue), weight=5)
    python.replace_cluster_custom_object(GROUP, VERSION, PLURAL, queue, sent)
    assert sandbox.read_queue(queue)["spec"]["weight"] == 5
    assert ours(sandbox, queue) == OURS


def test_a_patch_with_null_ends_a_stop_whoever_sends_it(
    sandbox: Sandbox, python: CustomObjectsApi, queue: str
) -> None:
    body = {"spec": {"state": None, "stopPolicy": None}}
    python.patch_cluster_custom_object(GROUP, VERSION, PLURAL, queue, body)
    assert ours(sandbox, queue)["state"] == "Open"


# Helm


@pytest.fixture
def helm(sandbox: Sandbox, tmp_path: Path) -> Helm:
    return Helm(built_helm(), tmp_path, sandbox.cluster.client_kubeconfig)


def chart(folder: Path, queue: str, **spec: object) -> str:
    (folder / "templates").mkdir(parents=True, exist_ok=True)
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: queues\nversion: 1.0.0\n")
    body = queue_body(queue, parent="root", **spec)
    (folder / "templates" / "queue.yaml").write_text(yaml.safe_dump(body))
    return str(folder)


@each_case("force", [(), ("--force",)], ids=["a patch", "a replace"])
def test_helm_removes_what_its_chart_had_and_keeps_what_others_set(
    sandbox: Sandbox, helm: Helm, tmp_path: Path, force: tuple[str, ...]
) -> None:
    """A window of the chart goes with it; a stop that an operator made stays."""
    short = f"charted{len(force)}"
    name, folder = sandbox.named(short), tmp_path / short
    sandbox.queue_names.append(name)
    release = (short, "--namespace", sandbox.namespace)
    done = helm.try_("install", *release, chart(folder, name, weight=2, windows=OURS["windows"]))
    assert done.returncode == 0, done.stderr
    sandbox.answered(name)
    sandbox.suspend(name, reason="disks")
    done = helm.try_("upgrade", *release, *force, chart(folder, name, weight=5))
    assert done.returncode == 0, done.stderr
    assert sandbox.read_queue(name)["spec"]["weight"] == 5
    assert ours(sandbox, name) == {"state": "Suspended", "reason": "disks"}
    assert (KEPT in done.stderr) is bool(force), done.stderr
