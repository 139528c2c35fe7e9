"""hold, drain and stop against a real API server and our server, as an operator meets them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from localcluster.cluster import LocalCluster
from tests.support.drain.drain_corner import (
    allowed,
    at_a_terminal,
    bare,
    budget,
    deployment,
    job,
    running,
    runs,
    spec,
)
from tests.support.plugin.plugin_stage import PLUGIN
from tests.support.plugin.why_corner import Corner

DRAIN = "HoldAndDrain"


@pytest.fixture
def corner(cluster: LocalCluster) -> Iterator[Corner]:
    made = Corner(cluster)
    yield made
    made.clear()


@pytest.fixture
def queue(corner: Corner) -> str:
    return corner.queue("research")


def with_bare_pods(corner: Corner, queue: str, *names: str) -> None:
    corner.make(*(bare(name, queue) for name in names))
    for name in names:
        runs(corner, f"pod/{name}")


def with_deployment(corner: Corner, queue: str, name: str, *, pods: int) -> None:
    corner.make(deployment(name, queue, replicas=pods))
    runs(corner, f"deploy/{name}", pods)


def blocked_for_good(corner: Corner, queue: str) -> str:
    """A deployment of which a budget lets none go; what names that."""
    with_deployment(corner, queue, "db", pods=2)
    corner.make(budget("db", minAvailable=2))
    allowed(corner, "db", 0)
    return f"PodDisruptionBudget {corner.namespace}/db"


@pytest.mark.parametrize(
    ("words", "policy"),
    [
        (("hold",), "Hold"),
        (("drain",), DRAIN),
        (("drain", "--keep-already-running"), "Hold"),
        (("stop",), DRAIN),
        (("stop", "--keep-already-running"), "Hold"),
    ],
)
def test_each_stop_sets_its_policy_and_resume_undoes_it(
    corner: Corner, queue: str, words: tuple[str, ...], policy: str
) -> None:
    """With a reason and a time, which go with it."""
    verb, *flags = words
    corner.done(verb, queue, *flags, "--reason=audit", "--for=1h", "--wait")
    assert {"stopPolicy": policy, "reason": "audit"}.items() <= spec(corner, queue).items()
    assert "resumeAt" in spec(corner, queue)
    corner.done("resume", queue, "--wait")
    assert spec(corner, queue)["stopPolicy"] == "None"
    assert {"reason", "resumeAt"}.isdisjoint(spec(corner, queue))


@pytest.mark.parametrize("words", [("hold",), ("drain",), ("stop",), ("stop", "--keep-already-running")])
def test_a_dry_run_changes_nothing_and_asks_nobody(
    corner: Corner, queue: str, words: tuple[str, ...]
) -> None:
    """Of what drains it says what would go."""
    with_bare_pods(corner, queue, "shell")
    before = spec(corner, queue)
    verb, *flags = words
    for dry_run in ("--dry-run=client", "--dry-run=server", "--dry-run"):
        told = corner.done(verb, queue, *flags, dry_run, "--wait")
        assert "dry run)" in told
        assert ("1 pod to go" in told) is (words in {("drain",), ("stop",)})
    assert (spec(corner, queue), running(corner)) == (before, {"shell"})


def test_a_dry_run_lists_what_goes_what_stays_and_what_blocks(corner: Corner, queue: str) -> None:
    """As the server then does it: read with the user's own rights."""
    blocker = blocked_for_good(corner, queue)
    with_bare_pods(corner, queue, "shell", "kept")
    corner.make(job("train", queue, pods=2))
    runs(corner, "job/train", 2)
    told = corner.done("drain", queue, "--keep=app=kept", "--dry-run=server")
    assert f'queue "{queue}": 5 pods to go, 1 to stay' in told
    going, _, rest = told.partition("Is blocked, for good:")
    assert f"suspend   job {corner.namespace}/train" in going
    assert f"evict     pod {corner.namespace}/shell" in going
    blocked, _, stays = rest.partition("Stays:")
    assert f"{blocker}, 2 pods: keeps 2 pods for good" in blocked
    assert f"pod {corner.namespace}/kept" in stays
    assert "by rule KeepSelector" in stays


def test_bare_pods_are_named_and_nothing_is_done_where_nobody_can_be_asked(
    corner: Corner, queue: str
) -> None:
    with_bare_pods(corner, queue, "one", "two")
    refused = corner.run("drain", queue)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "2 pods without a controller would be evicted, and nothing makes them again:" in refused.stderr
    assert f"pod {corner.namespace}/one (queue {queue})" in refused.stderr
    assert "--yes" in refused.stderr
    assert "--keep-bare-pods" in refused.stderr
    assert (spec(corner, queue)["stopPolicy"], running(corner)) == ("None", {"one", "two"})


def test_at_a_terminal_somebody_is_asked(corner: Corner, queue: str) -> None:
    """A no changes nothing; after a yes they go, and a bar shows how far it is."""
    with_bare_pods(corner, queue, "shell")
    code, seen = at_a_terminal(corner, "drain", queue, typed="\n")
    assert (code, "Drain all the same? [y/N]: " in seen) == (1, True)
    assert "error: nothing was changed" in seen
    assert spec(corner, queue)["stopPolicy"] == "None"
    code, seen = at_a_terminal(corner, "drain", queue, "--wait", typed="y\n")
    assert (code, "drained: 0 pods left, 1 evicted" in seen) == (0, True), seen
    assert "[####" in seen or "not acknowledged yet" in seen
    assert running(corner) == set()


def test_bare_pods_go_with_yes_and_stay_where_they_are_to_be_kept(corner: Corner, queue: str) -> None:
    with_bare_pods(corner, queue, "shell")
    kept = corner.done("drain", queue, "--keep-bare-pods", "--wait")
    assert "drained: 0 pods left, 1 kept" in kept
    assert (spec(corner, queue)["drain"]["barePods"], running(corner)) == ("Keep", {"shell"})
    refused = corner.run("drain", queue, "--keep-bare-pods=false")
    assert (refused.returncode, running(corner)) == (1, {"shell"})
    corner.done("drain", queue, "--keep-bare-pods=false", "--yes", "--wait")
    assert running(corner) == set()


def test_wait_shows_the_pods_go_and_resume_gives_everything_back(corner: Corner, queue: str) -> None:
    """A Deployment's are evicted and a Job is suspended; after resume both run again."""
    with_deployment(corner, queue, "web", pods=3)
    corner.make(job("train", queue, pods=2))
    runs(corner, "job/train", 2)
    done = corner.run("drain", queue, "--rate=5", "--wait")
    assert done.returncode == 0, done.stderr
    assert "drained: 0 pods left, 3 evicted, 1 Job suspended" in done.stdout
    assert "\r" not in done.stderr
    seen = done.stderr.splitlines()
    assert len(seen) == len(set(seen))
    assert running(corner) == set()
    corner.done("resume", queue, "--wait")
    runs(corner, "deploy/web", 3)
    runs(corner, "job/train", 2)


def test_a_branch_is_drained_and_waited_for_as_one(corner: Corner) -> None:
    """What the queues below count is added up, wherever a drain shows."""
    parent = corner.queue("research")
    child = corner.queue("vision", f"--parent={parent}")
    with_deployment(corner, child, "web", pods=2)
    assert "drained: 0 pods left, 2 evicted" in corner.done("drain", parent, "--wait")
    assert "Drained, begun " in corner.done("get", parent)
    assert "; drained" in corner.done("tree", parent)
    assert "Drain:       Drained, begun " in corner.why(parent)


def test_a_blocker_for_good_shows_in_wait_get_tree_and_why(corner: Corner, queue: str) -> None:
    """The wait goes on until its time is up, and ends badly."""
    blocker = blocked_for_good(corner, queue)
    done = corner.run("drain", queue, "--wait", "--timeout=15s")
    assert (done.returncode, "drained:" in done.stdout) == (1, False)
    assert (
        f'Warning: queue "{queue}" does not become empty by waiting: what is left is blocked by'
        in done.stderr
    )
    assert "timed out after 15s" in done.stderr
    assert "afterDeadline" in done.stderr
    block = corner.done("get", queue).partition("Drain:")[2]
    assert "2 pods left (2 blocked)" in block
    assert f"blocked by {blocker}, 2 pods, for good:" in block
    assert corner.done("list", "-owide").splitlines()[0].split()[-1] == "LEFT"
    assert "2 pods left" in corner.done("tree", queue)
    assert "Drain:       Blocked" in corner.why(queue)
    told = corner.told(f"queue/{queue}")["drain"]
    assert (told["left"], told["blockers"][0]["name"]) == (2, blocker)
    (pod, _) = sorted(running(corner))
    assert "Drain:       Blocked" in corner.why(f"pod/{pod}")
    assert corner.told(f"pod/{pod}")["drain"]["blocked"] == 2


def test_the_wait_ends_with_an_error_when_the_queue_is_resumed(corner: Corner, queue: str) -> None:
    """Or held: that ends the drain, and the wait with it."""
    blocked_for_good(corner, queue)
    environ = {"PATH": os.environ["PATH"], "KUBECONFIG": str(corner.cluster.client_kubeconfig)}
    words = [PLUGIN, "drain", queue, "--wait", "--timeout=60s"]
    with subprocess.Popen(words, env=environ, stderr=subprocess.PIPE, text=True) as waiting:
        assert waiting.stderr is not None
        assert any("Blocked" in line for line in waiting.stderr)
        corner.done("hold", queue, "--wait")
        rest = waiting.stderr.read()
        assert waiting.wait(60) == 1
    assert "is no longer to be drained: its stopPolicy is Hold now" in rest
    assert len(running(corner)) == 2
    assert "Drain:" not in corner.done("get", queue)


def test_no_headers_prints_rows_only(corner: Corner, queue: str) -> None:
    """For those who read it with a program."""
    corner.done("drain", queue, "--wait")
    assert "Drain:" in corner.done("get", queue)
    assert len(corner.done("get", queue, "--no-headers").splitlines()) == 1


def test_settings_are_stored_whole_and_those_not_given_stay(corner: Corner, queue: str) -> None:
    """What stays from before is said."""
    first = ("--keep=app=db,!x", "--rate=0.5", "--in-flight=3", "--deadline=2h", "--grace-period=5")
    corner.done("drain", queue, *first, "--delete-after-deadline")
    stored = spec(corner, queue)["drain"]
    assert stored.pop("deadline").endswith("Z")
    assert stored == {
        "keep": {
            "matchLabels": {"app": "db"},
            "matchExpressions": [{"key": "x", "operator": "DoesNotExist"}],
        },
        "rate": 0.5,
        "inFlight": 3,
        "gracePeriodSeconds": 5,
        "afterDeadline": "Delete",
        "barePods": "Evict",
    }
    corner.done("resume", queue)
    again = corner.run("drain", queue, "--keep=tier in (gold)", "--deadline=none")
    assert "keeps from before, in spec.drain: " in again.stderr
    assert "rate 0.5" in again.stderr
    drain = spec(corner, queue)["drain"]
    assert drain["keep"] == {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["gold"]}]}
    assert (drain.get("deadline"), drain["afterDeadline"]) == (None, "Keep")
    assert "unchanged" in corner.done("drain", queue, "--deadline=none")


def test_the_same_drain_again_changes_nothing(corner: Corner, queue: str) -> None:
    corner.done("drain", queue, "--rate=5")
    assert "unchanged (it is to be drained already)" in corner.done("drain", queue, "--rate=5")
    corner.done("hold", queue)
    assert "unchanged (it is held already)" in corner.done("hold", queue)


def test_a_user_who_may_not_read_pods_is_told_so(corner: Corner, queue: str) -> None:
    """A dry run fails, and no drain begins without --yes; the pods of one namespace do for a preview."""
    with_bare_pods(corner, queue, "shell")
    kubectl, named = corner.cluster.kubectl, f"{corner.namespace}-ann"
    rule = ("--verb=get,patch,update", "--resource=queues.scheduling.volcano.sh")
    kubectl("create", "clusterrole", named, *rule, f"--resource-name={queue}")
    kubectl("create", "clusterrolebinding", named, f"--clusterrole={named}", f"--user={named}")
    try:
        blind = corner.run("drain", queue, "--dry-run=client", f"--as={named}")
        assert (blind.returncode, "the pods that would go cannot be listed: " in blind.stderr) == (1, True)
        refused = corner.run("drain", queue, f"--as={named}")
        assert (refused.returncode, spec(corner, queue)["stopPolicy"]) == (1, "None")
        assert "which nothing makes again, cannot be listed: " in refused.stderr
        place = ("-n", corner.namespace)
        kubectl("create", "role", "reader", "--verb=list", "--resource=pods", *place)
        kubectl("create", "rolebinding", "reader", "--role=reader", f"--user={named}", *place)
        told = corner.run("drain", queue, "--dry-run=client", f"--as={named}", *place)
        assert (told.returncode, f"pod {corner.namespace}/shell" in told.stdout) == (0, True), told.stderr
        assert f'Warning: only the pods of namespace "{corner.namespace}" are read' in told.stderr
        assert "poddisruptionbudgets.policy are left out: " in told.stderr
        assert corner.run("drain", queue, "--yes", f"--as={named}").returncode == 0
    finally:
        kubectl("delete", f"clusterrolebinding/{named}", f"clusterrole/{named}")


def test_a_document_stays_a_document(corner: Corner, queue: str) -> None:
    """The preview of a dry run goes to stderr then."""
    with_bare_pods(corner, queue, "shell")
    done = corner.run("drain", queue, "--dry-run=client", "-oname")
    assert (done.returncode, done.stdout) == (0, f"queue.scheduling.volcano.sh/{queue}\n")
    assert f"pod {corner.namespace}/shell" in done.stderr


def test_a_misspelt_queue_name_is_answered_with_the_near_one(corner: Corner, queue: str) -> None:
    for verb in ("hold", "drain", "stop"):
        done = corner.run(verb, f"{queue}x")
        assert done.returncode == 1
        assert f"Did you mean this?\n\t{queue}" in done.stderr
