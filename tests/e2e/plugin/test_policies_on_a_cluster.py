"""`kubectl queue policy` against a real API server and our server, with the example of the manifests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from localcluster.cluster import LocalCluster
from queues import well_known
from tests.support.e2e.wait import until
from tests.support.paths import ROOT
from tests.support.plugin.sandbox import PluginSandbox, pod

EXAMPLE = str(ROOT / "manifests" / "examples" / "policies")
BROKEN = 'actions: "allocate"\ntiers:\n- plugins:\n  - nme: binpack\n'


@pytest.fixture(scope="module")
def example(served_cluster: LocalCluster) -> LocalCluster:
    """A cluster with the example applied."""
    served_cluster.kubectl("apply", "-f", EXAMPLE)
    return served_cluster


@pytest.fixture
def sandbox(example: LocalCluster) -> Iterator[PluginSandbox]:
    made = PluginSandbox(example)
    yield made
    made.clear()


def explained(sandbox: PluginSandbox, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        sandbox.done("policy", "explain", *words, "-n", sandbox.namespace, "-ojson")
    )
    return found


def scored_pod(sandbox: PluginSandbox, name: str, queue: str, **annotations: str) -> None:
    """Makes a pod once the server has read the policies: then admission marks it to be scored."""
    body = pod(name, queue, **annotations)
    body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    api, path = sandbox.direct.api, sandbox.direct.pods_path

    def is_scored() -> bool:
        answer = api.create(f"{path}?dryRun=All", body).must(201).body
        return well_known.SCORED in answer["spec"]["containers"][0]["resources"]["requests"]

    until(is_scored, "the policies to be read")
    api.create(path, body).must(201)


def test_the_example_is_listed_shown_and_checked(sandbox: PluginSandbox) -> None:
    """Each policy is right, and is named by one queue."""
    head, *rows = sandbox.done("policy", "list").splitlines()
    assert head.split() == ["NAME", "ACTIONS", "SCORES", "QUEUES", "STATUS"]
    assert [(row.split()[0], row.split()[-2:]) for row in rows] == [
        ("volcano-scheduler.conf", ["others", "OK"]),
        ("packed", ["1", "OK"]),
        ("spread", ["1", "OK"]),
    ]
    shown = sandbox.done("policy", "show", "packed")
    assert "weight 10, of cpu 5, memory 1, nvidia.com/gpu 10" in shown
    assert "0 faults, 0 warnings" in sandbox.done("policy", "check", f"{EXAMPLE}/policies.yaml")


def test_queues_and_pods_have_the_policy_that_is_nearest(sandbox: PluginSandbox) -> None:
    """A pod's own, its queue's, that of the queue above, the global one; and the parts for a pod."""
    below = sandbox.queue("below", "--parent=packed")
    own = sandbox.queue("own", "--scheduler-policy=spread")
    plain = sandbox.queue("plain", "--scheduler-policy=no-such")
    found = [explained(sandbox, queue) for queue in (below, own, plain)]
    assert [(each["source"], each["policy"]) for each in found] == [
        ("Ancestor", "packed"),
        ("Queue", "spread"),
        ("Global", "volcano-scheduler.conf"),
    ]
    assert found[2]["tried"] == [f'queue "{plain}": there is no policy "no-such"']
    scored_pod(sandbox, "train", below)
    scored_pod(sandbox, "serve", below, **{well_known.SCHEDULER_POLICY: "spread"})
    train, serve = explained(sandbox, "pod/train"), explained(sandbox, "pod", "serve")
    assert (train["source"], train["policy"], train["queue"]) == ("Ancestor", "packed", below)
    assert (serve["source"], serve["policy"]) == ("Job", "spread")
    effects = {part["name"]: part["effect"] for part in train["parts"]}
    assert (effects["allocate"], effects["backfill"], effects["reclaim"], effects["binpack"]) == (
        *("applied", "does nothing for this pod"),
        *("missing", "applied"),
    )
    text = sandbox.done("policy", "explain", below)
    assert text.startswith(
        f'queue "{below}" has policy "packed", named by ancestor "packed"\nActions:  enqueue'
    )


def test_a_config_map_elsewhere_is_read_and_what_is_wrong_in_it_named(sandbox: PluginSandbox) -> None:
    """As it is stored, and as kubectl prints it into a file for `check`."""
    place = ("--policies-namespace", sandbox.namespace, "--policies-name", "mine")
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}}
    sandbox.make({**config_map, "data": {"bad": BROKEN}})
    wrong = 'line 4: a plugin has no name; write "- name: binpack"'
    assert wrong in sandbox.done("policy", "list", *place)
    shown = sandbox.run("policy", "show", "bad", *place)
    assert (shown.returncode, "cannot be used: 1 fault" in shown.stdout) == (1, True)
    queue = sandbox.queue("bad", "--scheduler-policy=bad")
    found = explained(sandbox, queue, *place)
    assert found["source"] == "None"
    assert found["tried"][0].startswith(f'queue "{queue}": policy "bad", {wrong}')
    missing = sandbox.run("policy", "list", "--policies-name", "nowhere")
    assert missing.returncode == 0
    assert "there is no ConfigMap volcano-system/nowhere: no policy counts" in missing.stderr


def test_a_user_is_told_the_missing_right_and_has_it_by_the_optional_role(sandbox: PluginSandbox) -> None:
    carol = ("--as=carol", "--as-group=system:authenticated")
    refused = sandbox.run("policy", "list", *carol)
    assert refused.returncode == 1
    assert 'no right to "get" configmaps of that name in namespace "volcano-system"' in refused.stderr
    assert "kubectl apply --server-side -k manifests/queue-readers" in refused.stderr
    readers = str(ROOT / "manifests" / "queue-readers")
    sandbox.cluster.kubectl("apply", "-k", readers)
    try:
        sandbox.direct.may("carol", "get", "queues", "scheduling.volcano.sh")
        assert "packed" in until(
            lambda: sandbox.run("policy", "list", *carol).stdout, "the right to be in effect"
        )
        assert explained(sandbox, "packed", *carol)["source"] == "Queue"
    finally:
        sandbox.cluster.kubectl("delete", "-k", readers)


def test_why_names_the_extender_entry_that_the_scheduler_lacks(sandbox: PluginSandbox) -> None:
    """Without the second one a pod whose policy scores nodes waits; with it, it is bound."""
    cluster = sandbox.direct.cluster
    cluster.configure_scheduler(without_scores)
    try:
        scored_pod(sandbox, "waits", "packed")
        sandbox.direct.reason_on("waits", f"Insufficient {well_known.SCORED}")
        text = sandbox.why("pod/waits")
        assert (
            f"its scheduler has no extender entry that ignores {well_known.SCORED}: add the one with" in text
        )
        assert well_known.MARKER not in text
    finally:
        cluster.configure_scheduler()
    sandbox.direct.all_bound(["waits"])


def without_scores(configuration: dict[str, Any]) -> None:
    configuration["extenders"] = [each for each in configuration["extenders"] if "filterVerb" in each]
