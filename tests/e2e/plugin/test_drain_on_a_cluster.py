"""hold, drain and stop against a real API server and our server, as an operator meets them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from localcluster.cluster import LocalCluster
from tests.support.drain.drain_objects import (
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
from tests.support.drain.draining import wait_for_drain
from tests.support.e2e.wait import until
from tests.support.plugin.sandbox import Object, PluginSandbox

DRAIN = "HoldAndDrain"


@pytest.fixture
def sandbox(cluster: LocalCluster) -> Iterator[PluginSandbox]:
    made = PluginSandbox(cluster)
    yield made
    made.clear()


@pytest.fixture
def queue(sandbox: PluginSandbox) -> str:
    return sandbox.queue("research")


def with_bare_pods(sandbox: PluginSandbox, queue: str, *names: str) -> None:
    sandbox.make(*(bare(name, queue) for name in names))
    for name in names:
        runs(sandbox, f"pod/{name}")


def with_deployment(sandbox: PluginSandbox, queue: str, name: str, *, pods: int) -> None:
    sandbox.make(deployment(name, queue, replicas=pods))
    runs(sandbox, f"deploy/{name}", pods)


def blocked_for_good(sandbox: PluginSandbox, queue: str) -> str:
    """A deployment of which a budget lets none go; what names that."""
    with_deployment(sandbox, queue, "db", pods=2)
    sandbox.make(budget("db", minAvailable=2))
    allowed(sandbox, "db", 0)
    return f"PodDisruptionBudget {sandbox.namespace}/db"


def owned_by_a_job_that_has_ended(sandbox: PluginSandbox, queue: str) -> Object:
    """The metadata of a pod of the queue that names such a Job as its controller."""
    sandbox.make(job("ended", queue, pods=0))
    path = sandbox.path("batch/v1", "jobs", "ended")

    def ended() -> Object:
        found: Object = sandbox.direct.api.get(path).must().body
        return found if found["status"].get("conditions") else {}

    uid = until(ended, "the Job to have ended")["metadata"]["uid"]
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "ended", "uid": uid, "controller": True}
    annotations = {"scheduling.volcano.sh/queue-name": queue}
    return {
        "metadata": {"name": "left-over", "annotations": annotations, "ownerReferences": [reference]},
    }


@pytest.mark.parametrize(("verb", "policy"), [("hold", "Hold"), ("stop", DRAIN)])
def test_each_stop_sets_its_policy_and_resume_undoes_it(
    sandbox: PluginSandbox, queue: str, verb: str, policy: str
) -> None:
    """With a reason and a time, which go with it."""
    sandbox.done(verb, queue, "--reason=audit", "--for=1h", "--wait")
    assert {"stopPolicy": policy, "reason": "audit"}.items() <= spec(sandbox, queue).items()
    assert "resumeAt" in spec(sandbox, queue)
    sandbox.done("resume", queue, "--wait")
    assert spec(sandbox, queue)["stopPolicy"] == "None"
    assert {"reason", "resumeAt"}.isdisjoint(spec(sandbox, queue))


def test_a_dry_run_changes_nothing_and_asks_nobody(sandbox: PluginSandbox, queue: str) -> None:
    """It says what would go; beside a document it does so on stderr."""
    with_bare_pods(sandbox, queue, "shell")
    before = spec(sandbox, queue)
    for dry_run in ("--dry-run=client", "--dry-run=server", "--dry-run"):
        told = sandbox.done("drain", queue, dry_run, "--wait")
        assert "dry run)" in told
        assert "1 pod to go" in told
    document = sandbox.run("drain", queue, "--dry-run=client", "-oname")
    assert (document.returncode, document.stdout) == (0, f"queue.scheduling.volcano.sh/{queue}\n")
    assert f"pod {sandbox.namespace}/shell" in document.stderr
    assert (spec(sandbox, queue), running(sandbox)) == (before, {"shell"})


def test_a_dry_run_lists_what_goes_what_stays_and_what_blocks(sandbox: PluginSandbox, queue: str) -> None:
    """As the server then does it: read with the user's own rights. A Job that has ended is not suspended."""
    blocker = blocked_for_good(sandbox, queue)
    with_bare_pods(sandbox, queue, "shell", "kept")
    sandbox.make({**bare("left-over", queue), **owned_by_a_job_that_has_ended(sandbox, queue)})
    runs(sandbox, "pod/left-over")
    sandbox.make(job("train", queue, pods=2))
    runs(sandbox, "job/train", 2)
    told = sandbox.done("drain", queue, "--keep=app=kept", "--dry-run=server")
    assert f'queue "{queue}": 6 pods to go, 1 to stay' in told
    going, _, rest = told.partition("Is blocked, for good:")
    assert f"evict     pod {sandbox.namespace}/left-over" in going
    assert f"suspend   job {sandbox.namespace}/train" in going
    assert f"evict     pod {sandbox.namespace}/shell" in going
    blocked, _, stays = rest.partition("Stays:")
    assert f"{blocker}, 2 pods: keeps 2 pods for good" in blocked
    assert f"pod {sandbox.namespace}/kept" in stays
    assert "by rule KeepSelector" in stays


def test_at_a_terminal_somebody_is_asked(sandbox: PluginSandbox, queue: str) -> None:
    """A no changes nothing; after a yes they go, and a bar shows how far it is."""
    with_bare_pods(sandbox, queue, "shell")
    code, seen = at_a_terminal(sandbox, "drain", queue, typed="\n")
    assert (code, "Do it all the same? [y/N]: " in seen) == (1, True)
    assert "error: nothing was changed" in seen
    assert spec(sandbox, queue)["stopPolicy"] == "None"
    code, seen = at_a_terminal(sandbox, "drain", queue, "--wait", typed="y\n")
    assert (code, "drained: 0 pods left, 1 evicted" in seen) == (0, True), seen
    assert "[####" in seen or "not acknowledged yet" in seen
    assert running(sandbox) == set()


def test_bare_pods_go_with_yes_and_stay_where_they_are_to_be_kept(sandbox: PluginSandbox, queue: str) -> None:
    """Where nobody can be asked they are named, and nothing is done."""
    with_bare_pods(sandbox, queue, "shell")
    refused = sandbox.run("drain", queue)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "1 pod without a controller would be evicted, and nothing makes them again:" in refused.stderr
    assert f"pod {sandbox.namespace}/shell (queue {queue})" in refused.stderr
    assert "--yes" in refused.stderr
    assert "--keep-bare-pods" in refused.stderr
    assert (spec(sandbox, queue)["stopPolicy"], running(sandbox)) == ("None", {"shell"})
    kept = sandbox.done("drain", queue, "--keep-bare-pods", "--wait")
    assert "drained: 0 pods left, 1 kept" in kept
    assert (spec(sandbox, queue)["drain"]["barePods"], running(sandbox)) == ("Keep", {"shell"})
    refused = sandbox.run("drain", queue, "--keep-bare-pods=false")
    assert (refused.returncode, running(sandbox)) == (1, {"shell"})
    sandbox.done("drain", queue, "--keep-bare-pods=false", "--yes", "--wait")
    assert running(sandbox) == set()


def test_wait_shows_the_pods_go_and_resume_gives_everything_back(sandbox: PluginSandbox, queue: str) -> None:
    """A Deployment's are evicted and a Job is suspended; after resume both run again."""
    with_deployment(sandbox, queue, "web", pods=3)
    sandbox.make(job("train", queue, pods=2))
    runs(sandbox, "job/train", 2)
    done = sandbox.run("drain", queue, "--rate=5", "--wait")
    assert done.returncode == 0, done.stderr
    assert "drained: 0 pods left, 3 evicted, 1 Job suspended" in done.stdout
    assert "\r" not in done.stderr
    seen = done.stderr.splitlines()
    assert len(seen) == len(set(seen))
    assert running(sandbox) == set()
    sandbox.done("resume", queue, "--wait")
    runs(sandbox, "deploy/web", 3)
    runs(sandbox, "job/train", 2)


def test_a_branch_is_drained_and_waited_for_as_one(sandbox: PluginSandbox) -> None:
    """What the queues below count is added up, wherever a drain shows."""
    parent = sandbox.queue("research")
    child = sandbox.queue("vision", f"--parent={parent}")
    with_deployment(sandbox, child, "web", pods=2)
    assert "drained: 0 pods left, 2 evicted" in sandbox.done("drain", parent, "--wait")
    assert "Drained, begun " in sandbox.done("get", parent)
    assert len(sandbox.done("get", parent, "--no-headers").splitlines()) == 1
    assert "; drained" in sandbox.done("tree", parent)
    assert "Drain:       Drained, begun " in sandbox.why(parent)


def test_a_blocker_for_good_shows_in_wait_get_tree_and_why(sandbox: PluginSandbox, queue: str) -> None:
    """The wait goes on until its time is up, and ends badly."""
    blocker = blocked_for_good(sandbox, queue)
    sandbox.done("drain", queue)
    wait_for_drain(sandbox.direct, queue, "Blocked", left=2, blocked=2)
    done = sandbox.run("drain", queue, "--wait", "--timeout=5s")
    assert (done.returncode, "drained:" in done.stdout) == (1, False)
    assert (
        f'Warning: queue "{queue}" does not become empty by waiting: what is left is blocked by'
        in done.stderr
    )
    assert "timed out after 5s" in done.stderr
    assert "afterDeadline" in done.stderr
    block = sandbox.done("get", queue).partition("Drain:")[2]
    assert "2 pods left (2 blocked)" in block
    assert f"blocked by {blocker}, 2 pods, for good:" in block
    assert sandbox.done("list", "-owide").splitlines()[0].split()[-1] == "LEFT"
    assert "2 pods left" in sandbox.done("tree", queue)
    assert "Drain:       Blocked" in sandbox.why(queue)
    told = sandbox.told(f"queue/{queue}")["drain"]
    assert (told["left"], told["blockers"][0]["name"]) == (2, blocker)
    (pod, _) = sorted(running(sandbox))
    assert "Drain:       Blocked" in sandbox.why(f"pod/{pod}")
    assert sandbox.told(f"pod/{pod}")["drain"]["blocked"] == 2


def test_settings_are_stored_whole_and_those_not_given_stay(sandbox: PluginSandbox, queue: str) -> None:
    """What stays from before is said."""
    first = ("--keep=app=db,!x", "--rate=0.5", "--in-flight=3", "--deadline=2h", "--grace-period=5")
    sandbox.done("drain", queue, *first, "--delete-after-deadline")
    stored = spec(sandbox, queue)["drain"]
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
        "brokenGangs": "Keep",
    }
    sandbox.done("resume", queue)
    again = sandbox.run("drain", queue, "--keep=tier in (gold)", "--deadline=none")
    assert "keeps from before, in spec.drain: " in again.stderr
    assert "rate 0.5" in again.stderr
    drain = spec(sandbox, queue)["drain"]
    assert drain["keep"] == {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["gold"]}]}
    assert (drain.get("deadline"), drain["afterDeadline"]) == (None, "Keep")
    assert "unchanged (it is to be drained already)" in sandbox.done("drain", queue, "--deadline=none")


def test_a_user_who_may_not_read_pods_is_told_so(sandbox: PluginSandbox, queue: str) -> None:
    """A dry run fails, and no drain begins without --yes; the pods of one namespace do for a preview."""
    with_bare_pods(sandbox, queue, "shell")
    kubectl, named = sandbox.cluster.kubectl, f"{sandbox.namespace}-ann"
    rule = ("--verb=get,patch,update", "--resource=queues.scheduling.volcano.sh")
    kubectl("create", "clusterrole", named, *rule, f"--resource-name={queue}")
    kubectl("create", "clusterrolebinding", named, f"--clusterrole={named}", f"--user={named}")
    try:
        sandbox.direct.may(named, "patch", "queues", "scheduling.volcano.sh", name=queue)
        blind = sandbox.run("drain", queue, "--dry-run=client", f"--as={named}")
        assert (blind.returncode, "the pods that would go cannot be listed: " in blind.stderr) == (1, True)
        refused = sandbox.run("drain", queue, f"--as={named}")
        assert (refused.returncode, spec(sandbox, queue)["stopPolicy"]) == (1, "None")
        assert "which nothing makes again, cannot be listed: " in refused.stderr
        place = ("-n", sandbox.namespace)
        kubectl("create", "role", "reader", "--verb=list", "--resource=pods", *place)
        kubectl("create", "rolebinding", "reader", "--role=reader", f"--user={named}", *place)
        sandbox.direct.may(named, "list", "pods")
        told = sandbox.run("drain", queue, "--dry-run=client", f"--as={named}", *place)
        assert (told.returncode, f"pod {sandbox.namespace}/shell" in told.stdout) == (0, True), told.stderr
        assert f'Warning: only the pods of namespace "{sandbox.namespace}" are read' in told.stderr
        assert "poddisruptionbudgets.policy are left out: " in told.stderr
        assert sandbox.run("drain", queue, "--yes", f"--as={named}").returncode == 0
    finally:
        kubectl("delete", f"clusterrolebinding/{named}", f"clusterrole/{named}")
