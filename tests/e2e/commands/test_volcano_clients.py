"""kubectl with queues as Volcano's users write them: every field is taken, kept, shown and can be changed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
import yaml

from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import (
    is_answered,
    is_stopped,
    queue_body,
    state_of,
)
from tests.support.e2e.sandbox import QUEUES, Sandbox
from tests.support.e2e.wait import until

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
        # None is required: no node is of a group here, and pods are to run.
        "nodeGroupAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": ["fast-nodes", "near-nodes"],
        },
        "nodeGroupAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["spare-nodes"]},
    },
    "extendClusters": [{"name": "other-site", "weight": 1, "capacity": {"cpu": 32, "memory": "128Gi"}}],
}


@pytest.fixture
def manifests(sandbox: Sandbox) -> Iterator[dict[str, Object]]:
    """Two queues, one below the other, by name; both are gone afterwards."""
    team, research = sandbox.named("team"), sandbox.named("research")
    yield {
        team: queue_body(team, parent="root", **TEAM),
        research: queue_body(research, parent=team, **RESEARCH),
    }
    sandbox.delete_pods()
    for name in (research, team):
        if sandbox.api.get(f"{QUEUES}/{name}").status == 200:
            sandbox.remove_queue(name)


def kubectl(
    sandbox: Sandbox, *arguments: str, given: str | None = None, refused: bool = False
) -> subprocess.CompletedProcess[str]:
    done = sandbox.kubectl(*arguments, given=given)
    assert (done.returncode != 0) is refused, f"{arguments}: {done.stdout}{done.stderr}"
    return done


def apply(sandbox: Sandbox, manifests: dict[str, Object]) -> str:
    """All of them in one file, as `kubectl apply -f` takes them; what kubectl prints."""
    return kubectl(sandbox, "apply", "-f", "-", given=yaml.safe_dump_all(manifests.values())).stdout


@pytest.fixture
def queue(sandbox: Sandbox, manifests: dict[str, Object]) -> str:
    """The lower one of the two, applied and answered."""
    apply(sandbox, manifests)
    *_, last = manifests
    sandbox.answered(last)
    return last


def test_all_that_a_manifest_says_is_kept_and_applying_it_again_changes_nothing(
    sandbox: Sandbox, manifests: dict[str, Object]
) -> None:
    """Nothing of it is dropped, rewritten or taken for a change."""
    assert apply(sandbox, manifests).count(" created") == 2
    for name, manifest in manifests.items():
        kept = sandbox.in_state(name, "Open")["spec"]
        assert {key: kept.get(key) for key in manifest["spec"]} == manifest["spec"]
    assert apply(sandbox, manifests).count(" unchanged") == 2


def test_the_short_name_and_the_long_one_show_the_queue(sandbox: Sandbox, queue: str) -> None:
    """With its state and parent beside it."""
    for kind in ("q", "queue", "queues.scheduling.volcano.sh"):
        heads, line = [row.split() for row in kubectl(sandbox, "get", kind, queue).stdout.splitlines()]
        shown = dict(zip(heads, line, strict=False))
        assert (shown["NAME"], shown["STATE"], shown["PARENT"]) == (queue, "Open", sandbox.named("team"))


def test_a_changed_manifest_changes_the_queue(
    sandbox: Sandbox, manifests: dict[str, Object], queue: str
) -> None:
    """Also what is left out of it: it is the default again, or gone."""
    manifests[queue]["spec"] |= {"weight": 5, "capability": {"cpu": "10"}}
    del manifests[queue]["spec"]["affinity"]
    del manifests[queue]["spec"]["reclaimable"]
    assert apply(sandbox, manifests).count(" configured") == 1
    kept = sandbox.read_queue(queue)["spec"]
    assert (kept["weight"], kept["capability"], kept["reclaimable"]) == (5, {"cpu": "10"}, True)
    assert "affinity" not in kept


def test_kubectl_edit_saves_what_the_editor_wrote(
    sandbox: Sandbox, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The object goes to the editor and back whole, status included."""
    monkeypatch.setenv("KUBE_EDITOR", "sed -i 's/^  weight: 2$/  weight: 6/'")
    assert "edited" in kubectl(sandbox, "edit", "queue", queue).stdout
    found = sandbox.read_queue(queue)
    assert found["spec"]["weight"] == 6
    assert state_of(found) == "Open"


def test_kubectl_delete_needs_a_closed_queue_and_says_so(sandbox: Sandbox, queue: str) -> None:
    """kubectl prints the refusal; once the queue is closed it goes."""
    said = kubectl(sandbox, "delete", "queue", queue, refused=True).stderr
    assert f'queue "{queue}" is Open' in said
    kubectl(sandbox, "patch", "queue", queue, "--type=merge", "-p", '{"spec":{"state":"Closed"}}')
    sandbox.in_state(queue, "Closed")
    kubectl(sandbox, "delete", "queue", queue)
    assert sandbox.api.get(f"{QUEUES}/{queue}").status == 404


def patch_state(sandbox: Sandbox, queue: str, state: str) -> None:
    """What was never the way to do it, and is done all the same."""
    body = f'{{"status":{{"state":"{state}"}}}}'
    kubectl(sandbox, "patch", "queue", queue, "--subresource=status", "--type=merge", "-p", body)


def test_closed_written_into_the_status_closes_nothing(sandbox: Sandbox, queue: str) -> None:
    """The queue takes pods and they run; its state says so again, and an event who had written."""
    patch_state(sandbox, queue, "Closed")
    sandbox.pod("welcome", queue).must(201)
    sandbox.all_bound(["welcome"])
    sandbox.in_state(queue, "Open")
    sandbox.event(queue, "StatusOverwritten", "kubectl-patch", namespace="default")
    assert sandbox.read_queue(queue)["spec"].get("state", "Open") == "Open"


def test_open_written_into_the_status_lets_no_pod_go(sandbox: Sandbox, queue: str) -> None:
    """A suspended queue stays so, for its pods, in its conditions and in what is shown."""
    sandbox.suspend(queue)
    sandbox.pod("parked", queue).must(201)
    patch_state(sandbox, queue, "Open")
    found = sandbox.in_state(queue, "Suspended")
    assert is_stopped(found)
    assert is_answered(found)
    assert sandbox.waiting() == {"parked"}


def test_closed_written_into_the_status_of_a_closing_queue_ends_nothing(sandbox: Sandbox, queue: str) -> None:
    """What it had accepted still runs, so it is Closing again and cannot be deleted."""
    sandbox.pod("accepted", queue).must(201)
    sandbox.all_bound(["accepted"])
    sandbox.patch_queue(queue, state="Closed").must()
    sandbox.in_state(queue, "Closing")
    patch_state(sandbox, queue, "Closed")
    kubectl(sandbox, "delete", "queue", queue, refused=True)
    sandbox.in_state(queue, "Closing")
    assert sandbox.bound(["accepted"])


def test_nonsense_written_into_the_status_is_put_right(sandbox: Sandbox, queue: str) -> None:
    """A state that does not exist, and no conditions at all."""
    body = '{"status":{"state":"Bogus","conditions":null,"changes":null}}'
    kubectl(sandbox, "patch", "queue", queue, "--subresource=status", "--type=merge", "-p", body)
    until(lambda: is_answered(sandbox.read_queue(queue)), "the status to be derived anew")
    assert state_of(sandbox.in_state(queue, "Open")) == "Open"
