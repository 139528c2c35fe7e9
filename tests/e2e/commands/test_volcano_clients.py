"""kubectl with queues as Volcano's users write them: every field is taken, kept, shown and can be changed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
import yaml

from tests.support.e2e.calling import Object
from tests.support.e2e.shapes import (
    is_answered,
    is_stopped,
    queue_body,
    state_of,
)
from tests.support.e2e.stage import QUEUES, Stage
from tests.support.e2e.waiting_for import until

TEAM: Object = {
    "weight": 4,
    "reclaimable": False,
    "capability": {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": 8},
    "deserved": {"cpu": "12", "memory": "48Gi"},
    "guarantee": {"resource": {"cpu": "8", "memory": "32Gi"}},
    "priority": 10,
    "type": "production",
    "dequeueStrategy": "fifo",
}
RESEARCH: Object = {
    "weight": 2,
    "reclaimable": True,
    "capability": {"cpu": "8", "memory": "32Gi"},
    "deserved": {"cpu": "6500m", "memory": "24Gi"},
    "guarantee": {"resource": {"cpu": "2", "memory": "4Gi"}},
    "affinity": {
        "nodeGroupAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": ["gpu-nodes"],
            "preferredDuringSchedulingIgnoredDuringExecution": ["fast-nodes", "near-nodes"],
        },
        "nodeGroupAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["spare-nodes"]},
    },
    "extendClusters": [{"name": "other-site", "weight": 1, "capacity": {"cpu": 32, "memory": "128Gi"}}],
}


@pytest.fixture
def manifests(stage: Stage) -> Iterator[dict[str, Object]]:
    """Two queues, one below the other, by name; both are gone afterwards."""
    team, research = stage.named("team"), stage.named("research")
    yield {
        team: queue_body(team, parent="root", **TEAM),
        research: queue_body(research, parent=team, **RESEARCH),
    }
    stage.delete_pods()
    for name in (research, team):
        if stage.api.get(f"{QUEUES}/{name}").status == 200:
            stage.remove_queue(name)


def kubectl(
    stage: Stage, *arguments: str, given: str | None = None, refused: bool = False
) -> subprocess.CompletedProcess[str]:
    done = stage.kubectl(*arguments, given=given)
    assert (done.returncode != 0) is refused, f"{arguments}: {done.stdout}{done.stderr}"
    return done


def apply(stage: Stage, manifests: dict[str, Object]) -> str:
    """All of them in one file, as `kubectl apply -f` takes them; what kubectl prints."""
    return kubectl(stage, "apply", "-f", "-", given=yaml.safe_dump_all(manifests.values())).stdout


@pytest.fixture
def queue(stage: Stage, manifests: dict[str, Object]) -> str:
    """The lower one of the two, applied and answered."""
    apply(stage, manifests)
    *_, last = manifests
    stage.answered(last)
    return last


def test_all_that_a_manifest_says_is_kept_and_applying_it_again_changes_nothing(
    stage: Stage, manifests: dict[str, Object]
) -> None:
    """Nothing of it is dropped, rewritten or taken for a change."""
    assert apply(stage, manifests).count(" created") == 2
    for name, manifest in manifests.items():
        kept = stage.in_state(name, "Open")["spec"]
        assert {key: kept.get(key) for key in manifest["spec"]} == manifest["spec"]
    assert apply(stage, manifests).count(" unchanged") == 2


def test_the_short_name_and_the_long_one_show_the_queue(stage: Stage, queue: str) -> None:
    """With its state and parent beside it."""
    for kind in ("q", "queue", "queues.scheduling.volcano.sh"):
        heads, line = [row.split() for row in kubectl(stage, "get", kind, queue).stdout.splitlines()]
        shown = dict(zip(heads, line, strict=False))
        assert (shown["NAME"], shown["STATE"], shown["PARENT"]) == (queue, "Open", stage.named("team"))


def test_a_changed_manifest_changes_the_queue(stage: Stage, manifests: dict[str, Object], queue: str) -> None:
    """Also what is left out of it: it is the default again, or gone."""
    manifests[queue]["spec"] |= {"weight": 5, "capability": {"cpu": "10"}}
    del manifests[queue]["spec"]["affinity"]
    del manifests[queue]["spec"]["reclaimable"]
    assert apply(stage, manifests).count(" configured") == 1
    kept = stage.read_queue(queue)["spec"]
    assert (kept["weight"], kept["capability"], kept["reclaimable"]) == (5, {"cpu": "10"}, True)
    assert "affinity" not in kept


def test_kubectl_edit_saves_what_the_editor_wrote(
    stage: Stage, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The object goes to the editor and back whole, status included."""
    monkeypatch.setenv("KUBE_EDITOR", "sed -i 's/^  weight: 2$/  weight: 6/'")
    assert "edited" in kubectl(stage, "edit", "queue", queue).stdout
    found = stage.read_queue(queue)
    assert found["spec"]["weight"] == 6
    assert state_of(found) == "Open"


def test_kubectl_delete_needs_a_closed_queue_and_says_so(stage: Stage, queue: str) -> None:
    """kubectl prints the refusal; once the queue is closed it goes."""
    said = kubectl(stage, "delete", "queue", queue, refused=True).stderr
    assert f'queue "{queue}" is Open' in said
    kubectl(stage, "patch", "queue", queue, "--type=merge", "-p", '{"spec":{"state":"Closed"}}')
    stage.in_state(queue, "Closed")
    kubectl(stage, "delete", "queue", queue)
    assert stage.api.get(f"{QUEUES}/{queue}").status == 404


def patch_state(stage: Stage, queue: str, state: str) -> None:
    """What was never the way to do it, and is done all the same."""
    body = f'{{"status":{{"state":"{state}"}}}}'
    kubectl(stage, "patch", "queue", queue, "--subresource=status", "--type=merge", "-p", body)


def test_closed_written_into_the_status_closes_nothing(stage: Stage, queue: str) -> None:
    """The queue takes pods and they run; its state says so again, and an event who had written."""
    patch_state(stage, queue, "Closed")
    stage.pod("welcome", queue).must(201)
    stage.all_bound(["welcome"])
    stage.in_state(queue, "Open")
    stage.event(queue, "StatusOverwritten", "kubectl-patch", namespace="default")
    assert stage.read_queue(queue)["spec"].get("state", "Open") == "Open"


def test_open_written_into_the_status_lets_no_pod_go(stage: Stage, queue: str) -> None:
    """A suspended queue stays so, for its pods, in its conditions and in what is shown."""
    stage.suspend(queue)
    stage.pod("parked", queue).must(201)
    patch_state(stage, queue, "Open")
    found = stage.in_state(queue, "Suspended")
    assert is_stopped(found)
    assert is_answered(found)
    assert stage.waiting() == {"parked"}


def test_closed_written_into_the_status_of_a_closing_queue_ends_nothing(stage: Stage, queue: str) -> None:
    """What it had accepted still runs, so it is Closing again and cannot be deleted."""
    stage.pod("accepted", queue).must(201)
    stage.all_bound(["accepted"])
    stage.patch_queue(queue, state="Closed").must()
    stage.in_state(queue, "Closing")
    patch_state(stage, queue, "Closed")
    kubectl(stage, "delete", "queue", queue, refused=True)
    stage.in_state(queue, "Closing")
    assert stage.bound(["accepted"])


def test_nonsense_written_into_the_status_is_put_right(stage: Stage, queue: str) -> None:
    """A state that nobody knows, and no conditions at all."""
    body = '{"status":{"state":"Bogus","conditions":null,"changes":null}}'
    kubectl(stage, "patch", "queue", queue, "--subresource=status", "--type=merge", "-p", body)
    until(lambda: is_answered(stage.read_queue(queue)), "the status to be derived anew")
    assert state_of(stage.in_state(queue, "Open")) == "Open"
