"""`kubectl queue why` and `history` against a real API server and our server."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from localcluster.cluster import LocalCluster
from tests.support import yaml_texts
from tests.support.e2e.wait import until
from tests.support.paths import ROOT
from tests.support.plugin.sandbox import (
    NAMED_BY,
    PluginSandbox,
    pod,
    pod_of,
    workload,
)


@pytest.fixture
def sandbox(cluster: LocalCluster) -> Iterator[PluginSandbox]:
    made = PluginSandbox(cluster)
    yield made
    made.clear()


def test_the_chain_leads_from_a_deployment_s_pod_to_who_suspended_the_parent(sandbox: PluginSandbox) -> None:
    """Owners, rule, queues, who, why, until when, and the command that lets it go."""
    parent = sandbox.queue("research")
    child = sandbox.queue("vision", f"--parent={parent}")
    sandbox.done("suspend", parent, "--reason=quota change", "--for=30m", "--wait")
    labels = {"selector": {"matchLabels": {"app": "web"}}}
    sandbox.make(workload("Deployment", "apps/v1", "web", child, **labels))
    name = pod_of(sandbox, "web")
    told = sandbox.told(name)
    assert told["fate"] == "Stopped"
    assert [owner["kind"] for owner in told["owners"]] == ["ReplicaSet", "Deployment"]
    assert (told["belonging"]["queue"], told["belonging"]["rule"]) == (child, "annotation sluice.dev/queue")
    assert [each["queue"] for each in told["chain"]] == [child, parent, "root"]
    (stop,) = told["stops"]
    assert (stop["queue"], stop["wayOut"]) == (parent, f"kubectl queue resume {parent}")
    change = {key: stop["change"][key] for key in ("by", "from", "to", "reason")}
    assert change == {"by": "admin", "from": "Open", "to": "Suspended", "reason": "quota change"}
    assert stop["resumeAt"]
    text = sandbox.why(name)
    assert f'queue "{child}" is Suspended by its ancestor "{parent}" until 2' in text
    assert " UTC (quota change)\n" in text
    assert "Let go by:   kubectl queue resume" in text
    assert sandbox.told("deploy/web")["stops"] == told["stops"] == sandbox.told(child)["stops"]


def test_a_job_is_asked_about_in_each_spelling(sandbox: PluginSandbox) -> None:
    """TYPE/NAME, TYPE NAME, with version and group; yaml is the same structure."""
    queue = sandbox.queue("held", "--stop-policy=Hold", "--reason=audit")
    template = workload("Job", "batch/v1", "train", queue)
    template["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    sandbox.make(template)
    told = sandbox.told("job/train")
    assert told["summary"].endswith(f'queue "{queue}" is stopped by stopPolicy Hold (audit)')
    for words in (("jobs", "train"), ("job.batch/train",), ("jobs.v1.batch", "train")):
        assert sandbox.told(*words) == told
    assert yaml_texts.load(sandbox.why("job/train", "-oyaml")) == told


def test_the_history_tells_who_did_what_newest_last(sandbox: PluginSandbox) -> None:
    """As a table and as a structure; of a queue that nobody changed it says so."""
    queue = sandbox.queue("research")
    unchanged = sandbox.run("history", queue)
    assert (unchanged.returncode, unchanged.stdout) == (0, "")
    assert "nothing of it was changed" in unchanged.stderr
    sandbox.done("suspend", queue, "--reason=quota", "--wait")
    sandbox.patch(queue, state="Open", stopPolicy="Hold")
    head, *rows = sandbox.done("history", queue).splitlines()
    assert head.split() == ["WHEN", "WHO", "WHAT", "FROM", "TO", "UNTIL", "REASON"]
    assert [row.split()[1:] for row in rows] == [
        ["admin", "state", "Open", "Suspended", "<none>", "quota"],
        ["admin", "state", "Suspended", "Open", "<none>"],
        ["admin", "stopPolicy", "None", "Hold", "<none>"],
    ]
    found = json.loads(sandbox.done("history", queue, "-ojson"))
    assert [change["to"] for change in found["changes"]] == ["Suspended", "Open", "Hold"]
    assert yaml_texts.load(sandbox.done("history", queue, "-oyaml")) == found
    assert "ago)" in sandbox.done("history", queue, "-owide", "--no-headers").splitlines()[0]


def test_a_closing_queue_says_what_keeps_it_from_closed(sandbox: PluginSandbox) -> None:
    """The pod that is left is named, and that pod waits for something else."""
    queue = sandbox.queue("closing")
    sandbox.make(pod("left", queue))
    sandbox.cluster.kubectl(
        "wait", "pod/left", "-n", sandbox.namespace, "--for=condition=PodScheduled=false", "--timeout=60s"
    )
    labels = {"selector": {"matchLabels": {"app": "idle"}}}
    sandbox.make(workload("Deployment", "apps/v1", "idle", queue, replicas=0, **labels))
    sandbox.done("close", queue, "--wait=acknowledged", "--reason=moved")
    told = sandbox.told(f"queue/{queue}")
    assert (told["fate"], told["refusal"]["change"]["reason"]) == ("TakesNothingNew", "moved")
    assert f"kept from Closed by pod {sandbox.namespace}/left" in told["closing"]
    waiting = sandbox.told("pod/left")
    assert waiting["fate"] == "WaitsForOther"
    assert any("kube-scheduler says: 0/" in note for note in waiting["notes"])
    idle = sandbox.told("deploy/idle")
    assert idle["fate"] == "TakesNothingNew"
    assert "its first replicas are refused" in idle["summary"]


def test_a_pod_of_no_queue_is_said_to_be_of_none(sandbox: PluginSandbox) -> None:
    """That is an answer, not an error."""
    sandbox.make(pod("free"))
    assert "is of no queue" in sandbox.why("pod", "free")


def test_a_pod_whose_podgroup_is_not_there_waits_for_that(sandbox: PluginSandbox) -> None:
    """And once it is there, for the queue that it names."""
    queue = sandbox.queue("gangs", "--state=suspended")
    sandbox.make(pod("member", **{"scheduling.k8s.io/group-name": "gang"}))
    assert 'PodGroup "gang" does not exist' in sandbox.why("pod/member")
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "gang"},
        "spec": {"queue": queue, "minMember": 1},
    }
    sandbox.make(group)
    assert sandbox.told("pg/gang")["stops"][0]["queue"] == queue
    told = sandbox.told("pod/member")
    assert (told["group"]["name"], told["stops"][0]["queue"]) == ("gang", queue)


def test_a_queue_that_is_not_there_is_what_its_pod_waits_for(sandbox: PluginSandbox) -> None:
    """The way out is to make it."""
    sandbox.make(pod("early", f"{sandbox.namespace}-later"))
    (stop,) = sandbox.told("pod/early")["stops"]
    assert stop["wayOut"] == f"kubectl queue create {sandbox.namespace}-later"


def queue_of_a_new_pod(sandbox: PluginSandbox) -> str:
    """That admission would write on a pod which names none itself."""
    answer = sandbox.direct.pod("would-be", dry=True)
    if answer.status != 201:  # its namespace was heard of between the two webhooks
        return ""
    meta = answer.body["metadata"]
    return str(meta.get("annotations", {}).get("sluice.dev/queue", ""))


def name_for_the_namespace(sandbox: PluginSandbox, queue: str) -> None:
    """Have the namespace name the queue; returns once the API server asks us about what is created there."""
    named = f"{NAMED_BY}={queue}"
    sandbox.cluster.kubectl("annotate", "--overwrite", "namespace", sandbox.namespace, named)
    until(lambda: queue_of_a_new_pod(sandbox) == queue, "the annotation to be known")


def test_a_namespace_that_names_the_queue_is_said_to(sandbox: PluginSandbox) -> None:
    """The pod itself names none."""
    queue = sandbox.queue("lab", "--state=suspended")
    name_for_the_namespace(sandbox, queue)
    sandbox.make(pod("theirs"))
    belonging = sandbox.told("pod/theirs")["belonging"]
    assert (belonging["queue"], belonging["origin"]) == (queue, "namespace")


def test_after_a_typo_of_its_namespace_was_corrected_the_command_of_the_note_moves_a_workload(
    sandbox: PluginSandbox,
) -> None:
    """The correction alone moves nothing: the pod waits for a queue that does not exist."""
    queue = sandbox.queue("lab")
    name_for_the_namespace(sandbox, f"{queue}-typo")
    deployment = workload("Deployment", "apps/v1", "web", "", selector={"matchLabels": {"app": "web"}})
    sandbox.make(deployment)
    waiting = pod_of(sandbox, "web")
    name_for_the_namespace(sandbox, queue)
    told = sandbox.told(waiting)
    assert told["stops"][0]["wayOut"] == f"kubectl queue create {queue}-typo"
    assert f'its namespace names queue "{queue}" now' in told["notes"][0]
    kubectl, *command = told["notes"][1].removeprefix("to move it: ").split()
    assert kubectl == "kubectl"
    sandbox.cluster.kubectl(*command)
    path = f"{sandbox.direct.pods_path}?labelSelector=sluice.dev/queue={queue}"
    (moved, *_) = until(lambda: sandbox.direct.api.get(path).must().body["items"], f"a pod in {queue}")
    assert sandbox.told(f"pod/{moved['metadata']['name']}")["stops"] == []
    assert sandbox.told("deployment/web")["belonging"]["queue"] == queue


def test_a_pod_of_a_workload_older_than_the_typo_is_told_the_same(sandbox: PluginSandbox) -> None:
    """Its workload bears no word of the namespace. Nor does what was created before the API server had heard
    of the annotation.
    """
    queue = sandbox.queue("lab")
    sandbox.make(workload("Deployment", "apps/v1", "web", "", selector={"matchLabels": {"app": "web"}}))
    first = pod_of(sandbox, "web")
    name_for_the_namespace(sandbox, f"{queue}-typo")
    sandbox.cluster.kubectl("delete", first, "-n", sandbox.namespace, "--wait")
    told = sandbox.told(pod_of(sandbox, "web"))
    assert (told["belonging"]["queue"], told["belonging"]["origin"]) == (f"{queue}-typo", "namespace")
    name_for_the_namespace(sandbox, queue)
    told = sandbox.told(pod_of(sandbox, "web"))
    assert told["belonging"]["origin"] == ""
    assert f'its namespace names queue "{queue}" now' in told["notes"][0]
    assert told["notes"][1].endswith(f"deployment web -n {sandbox.namespace} {NAMED_BY}={queue}")


def test_a_workload_that_names_the_queue_itself_is_said_to(sandbox: PluginSandbox) -> None:
    """Its template names none, and so its pod does not say where the name stands."""
    queue = sandbox.queue("lab", "--state=suspended")
    deployment = workload("Deployment", "apps/v1", "web", "", selector={"matchLabels": {"app": "web"}})
    deployment["metadata"]["labels"] = {"volcano.sh/queue-name": queue}
    sandbox.make(deployment)
    belonging = sandbox.told(pod_of(sandbox, "web"))["belonging"]
    assert belonging["queue"] == queue
    assert belonging["origin"] == f"volcano.sh/queue-name of Deployment {sandbox.namespace}/web"
    assert sandbox.told("deploy/web")["belonging"]["origin"] == "volcano.sh/queue-name"


def test_a_user_who_may_only_read_pods_sees_the_pod_s_condition(sandbox: PluginSandbox) -> None:
    """The queue may not be read; the pod's own condition says what whoever may read it is told. It tells a
    queue that is not there from one that may not be read.
    """
    queue = sandbox.queue("secret", "--state=suspended")
    sandbox.make(pod("theirs", queue), pod("mistyped", "no-such-queue"))
    role = ("-n", sandbox.namespace)
    sandbox.cluster.kubectl("create", "role", "reader", "--verb=get", "--resource=pods", *role)
    sandbox.cluster.kubectl("create", "rolebinding", "reader", "--role=reader", "--user=ann", *role)
    sandbox.direct.may("ann", "get", "pods")
    said = (
        "wait",
        "pod/theirs",
        *role,
        f'--for=jsonpath={{.status.conditions[0].message}}=queue "{queue}" is Suspended; '
        "an admin of queues can resume it",
        "--timeout=60s",
    )
    sandbox.cluster.kubectl(*said)
    told = sandbox.told("pod/theirs", "--as=ann")
    text = f'queue "{queue}" is Suspended; an admin of queues can resume it'
    assert (told["fate"], told["summary"]) == ("Stopped", f"Pod {sandbox.namespace}/theirs waits: {text}")
    assert told["notes"] == [f'you may not read queue "{queue}": this is what it says itself']
    missing = 'queue "no-such-queue" does not exist; name another queue, or have an admin of queues create it'
    until(
        lambda: sandbox.told("pod/mistyped", "--as=ann")["summary"].endswith(f" waits: {missing}"),
        "the pod to say that its queue does not exist",
    )
    refused = sandbox.run("why", queue, "--as=ann")
    assert (refused.returncode, "Error from server (Forbidden)" in refused.stderr) == (1, True)


def test_who_may_read_a_queue_and_not_its_parent_goes_by_its_status(sandbox: PluginSandbox) -> None:
    """Nothing is said of the parent, and the stop of the parent all the same."""
    parent = sandbox.queue("lab")
    child = sandbox.queue("team", f"--parent={parent}")
    cluster, named = sandbox.cluster, f"lead-of-{child}"
    rights = ("--verb=get", "--resource=queues.scheduling.volcano.sh", f"--resource-name={child}")
    cluster.kubectl("create", "clusterrole", named, *rights)
    cluster.kubectl("create", "clusterrolebinding", named, f"--clusterrole={named}", f"--user={named}")
    try:
        sandbox.direct.may(named, "get", "queues", "scheduling.volcano.sh", name=child)
        free = sandbox.told(child, f"--as={named}")
        assert (free["fate"], free["chain"][1]["unread"]) == ("Free", True)
        assert free["summary"] == f'by its status queue "{child}" schedules its pods and takes new work'
        sandbox.done("hold", parent, "--wait")
        held = sandbox.told(child, f"--as={named}")
        assert (held["fate"], held["chain"][1]["state"], held["acknowledged"]) == ("Stopped", None, True)
        assert f'queue "{child}" is stopped by stopPolicy Hold of its ancestor "{parent}"' in held["summary"]
    finally:
        cluster.kubectl("delete", f"clusterrolebinding/{named}", f"clusterrole/{named}")


def test_a_user_of_one_namespace_is_told_of_a_workload_what_its_pods_say(sandbox: PluginSandbox) -> None:
    """`view` in a namespace shows no queues; the optional binding does."""
    queue = sandbox.queue("theirs", "--state=suspended", "--reason=audit")
    sandbox.make(workload("Deployment", "apps/v1", "web", queue, selector={"matchLabels": {"app": "web"}}))
    role = ("-n", sandbox.namespace)
    sandbox.cluster.kubectl("create", "rolebinding", "bob", "--clusterrole=view", "--user=bob", *role)
    sandbox.direct.may("bob", "get", "deployments", "apps")
    text = f'queue "{queue}" is Suspended (audit); an admin of queues can resume it'
    until(
        lambda: sandbox.told("deploy/web", "--as=bob")["summary"].endswith(f" waits: {text}"),
        "a pod of the Deployment to say why it waits",
    )
    readers = str(ROOT / "manifests" / "queue-readers")
    sandbox.cluster.kubectl("apply", "-k", readers)
    try:
        sandbox.direct.may("bob", "get", "queues", "scheduling.volcano.sh")
        answer = sandbox.told("deploy/web", "--as=bob", "--as-group=system:authenticated")
        assert (answer["fate"], answer["stops"][0]["queue"]) == ("Stopped", queue)
    finally:
        sandbox.cluster.kubectl("delete", "-k", readers)


def test_a_namespace_is_asked_about(sandbox: PluginSandbox) -> None:
    """What its annotation names counts for all of its work that names no other queue."""
    queue = sandbox.queue("ours", "--state=suspended")
    assert sandbox.told(f"ns/{sandbox.namespace}")["fate"] == "NotMember"
    sandbox.cluster.kubectl("annotate", "namespace", sandbox.namespace, f"{NAMED_BY}={queue}")
    answer = sandbox.told(f"namespace/{sandbox.namespace}")
    assert (answer["fate"], answer["stops"][0]["queue"]) == ("Stopped", queue)


def test_a_kind_that_is_not_known_is_asked_about_by_its_pods(sandbox: PluginSandbox) -> None:
    """As a RayCluster's; the owner here is a kind that is there without an operator."""
    queue = sandbox.queue("rays", "--state=suspended")
    sandbox.make({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ray"}})
    owner = sandbox.direct.api.get(f"{sandbox.direct.home}/configmaps/ray").must().body["metadata"]["uid"]
    for name in ("head", "worker"):
        made = pod(name, queue)
        made["metadata"]["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "ray", "uid": owner, "controller": True}
        ]
        sandbox.make(made)
    told = sandbox.told("configmap/ray")
    assert (told["fate"], told["object"]["name"]) == ("Stopped", "ray")
    assert "has 2 pods, 2 of them wait" in told["summary"]
    assert "head, worker" in told["notes"][0]
    refused = sandbox.run("why", "configmap/sun", "-n", sandbox.namespace)
    assert (refused.returncode, "is owned by configmap/sun" in refused.stderr) == (1, True)


def test_a_podgroup_of_a_queue_without_a_capability_is_not_said_to_start_whole(
    sandbox: PluginSandbox,
) -> None:
    """One of three runs, and so no three start together."""
    queue = sandbox.queue("free")
    sandbox.direct.podgroup("gang", queue, minMember=3)
    sandbox.make(pod("first", "", **{"scheduling.k8s.io/group-name": "gang"}))
    sandbox.make(pod("runs", "", **{"scheduling.k8s.io/group-name": "gang"}))
    summary = sandbox.told("podgroup/gang")["summary"]
    assert "its pods start one by one, since no queue of its chain has a capability" in summary


def test_a_namespace_that_names_its_queue_in_a_wrong_way_is_told_so(sandbox: PluginSandbox) -> None:
    held = {"metadata": {"labels": {NAMED_BY: "lab"}}}
    sandbox.direct.api.patch(sandbox.direct.home, held).must()
    told = sandbox.told(f"ns/{sandbox.namespace}")
    assert told["notes"] == [f"label {NAMED_BY} names no queue: write annotation {NAMED_BY}"]


def test_an_object_that_does_not_exist_is_an_error_with_near_names(sandbox: PluginSandbox) -> None:
    """Those that are there are explained all the same."""
    queue = sandbox.queue("research")
    done = sandbox.run("why", f"{queue[:-1]}x", queue)
    assert done.returncode == 1
    assert f"Did you mean this?\n\t{queue}" in done.stderr
    assert "takes new work" in done.stdout
    assert 'pods "nope" not found' in sandbox.run("why", "pod/nope").stderr
    missing = sandbox.run("why", "vcjob/x")
    assert (
        missing.returncode,
        "not found" in missing.stderr or "have a resource type" in missing.stderr,
    ) == (
        1,
        True,
    )


def test_why_answers_a_misspelt_queue_name_with_the_near_one(sandbox: PluginSandbox) -> None:
    """By every verb that reads the queue first."""
    queue = sandbox.queue("research")
    for verb in ("get", "tree", "history", "open", "close", "suspend", "resume"):
        done = sandbox.run(verb, f"{queue}x")
        assert done.returncode == 1
        assert f'"{queue}x" not found\n\nDid you mean this?\n\t{queue}\n' in done.stderr


def test_closing_a_suspended_queue_says_what_runs_and_dry_runs_say_it_too(sandbox: PluginSandbox) -> None:
    """Before and when it happens."""
    queue = sandbox.queue("parked", "--state=suspended")
    for words in (("--dry-run=client",), ("--dry-run=server",), ()):
        done = sandbox.run("close", queue, *words)
        assert done.returncode == 0
        assert f'Warning: queue "{queue}" was Suspended, and Closed schedules' in done.stderr


def test_the_pods_of_the_branch_are_counted(sandbox: PluginSandbox) -> None:
    """By `tree` and by `suspend --wait`, for a parent that has none itself."""
    parent = sandbox.queue("research")
    child = sandbox.queue("vision", f"--parent={parent}")
    sandbox.make(pod("one", child), pod("two", child))
    sandbox.cluster.kubectl(
        "wait", f"queue/{child}", "--for=jsonpath={.status.pods.pending}=2", "--timeout=60s"
    )
    assert "2 live pods (0 running, 2 pending)" in sandbox.done("suspend", parent, "--wait", "--for=1h")
    row = sandbox.done("tree", parent, "--no-headers").splitlines()[0].split()
    assert row[:5] == [parent, "Suspended", "None", "2", "0"]
    assert "(in " in sandbox.done("get", parent, "--no-headers")


def test_a_namespace_that_its_queue_does_not_select_is_told_what_it_lacks(sandbox: PluginSandbox) -> None:
    """The label, who set the selector and the command; and with that label nothing of it is left."""
    mark = f"tests-{sandbox.namespace}"
    parent = sandbox.queue("team", f"--namespace-selector={mark} in (yes,also)")
    queue = sandbox.queue("below", f"--parent={parent}")
    sandbox.cluster.kubectl("label", "namespace", sandbox.namespace, f"{mark}=yes")
    until(lambda: sandbox.direct.pod("would-be", queue, dry=True).status == 201, "the label to be known")
    sandbox.make(workload("Deployment", "apps/v1", "web", queue, selector={"matchLabels": {"app": "web"}}))
    name = pod_of(sandbox, "web")
    sandbox.cluster.kubectl("label", "namespace", sandbox.namespace, f"{mark}-")
    for asked in (name, "deploy/web"):
        told = sandbox.told(asked)
        assert told["fate"] == "Stopped"
        assert f'queue "{queue}" is not for namespace "{sandbox.namespace}"' in told["summary"]
        (stop,) = told["stops"]
        assert (stop["queue"], stop["why"]) == (parent, "NamespaceNotSelected")
        assert stop["wayOut"] == f"kubectl label namespace {sandbox.namespace} --overwrite {mark}=yes"
    text = sandbox.why(name)
    assert f"stops it, for namespaces with {mark} in (yes,also)" in text
    assert f"for namespaces with {mark} in (yes,also)" in sandbox.done("tree", parent)
    assert f"{mark} in (yes,also)" in sandbox.done("get", parent, "-owide")
    sandbox.cluster.kubectl(*stop["wayOut"].split()[1:])
    assert sandbox.told(name)["stops"] == []
    sandbox.patch(parent, namespaceSelector=None)
    assert "namespaceSelector" in sandbox.done("history", parent)


def test_a_pod_of_a_scheduler_that_nobody_runs_says_no_more_that_it_is_gated(sandbox: PluginSandbox) -> None:
    """Once it is let go, what we wrote is gone; what a scheduler writes is named with who wrote it."""
    queue = sandbox.queue("research", "--stop-policy=Hold")
    foreign = pod("foreign", queue)
    foreign["spec"]["schedulerName"] = "nobodys"
    sandbox.make(foreign)
    kubectl, place = sandbox.cluster.kubectl, ("-n", sandbox.namespace)
    said = "jsonpath={.status.conditions[?(@.type=='PodScheduled')].message}"
    until(lambda: queue in kubectl("get", "pod/foreign", *place, "-o", said), "its condition to say why")
    sandbox.done("resume", queue)
    until(lambda: not kubectl("get", "pod/foreign", *place, "-o", said), "its condition to be taken back")
    shown = kubectl("get", "pod/foreign", *place, "--no-headers")
    assert "Pending" in shown
    assert "SchedulingGated" not in shown
    assert 'its scheduler, "nobodys", has said nothing of it' in sandbox.why("pod/foreign")
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no slot"}
    kubectl(
        *("patch", "pod/foreign", *place, "--subresource=status", "--field-manager=their-scheduler"),
        *("--patch", json.dumps({"status": {"conditions": [condition]}})),
    )
    assert "their-scheduler says: no slot" in sandbox.why("pod/foreign")


def test_the_status_of_the_server_is_read_whole(sandbox: PluginSandbox) -> None:
    """Its replica leads and has seen the queues, the certificates have ends, and each webhook a bundle."""
    status = json.loads(sandbox.done("status", "-ojson"))
    assert (status["problems"], status["unread"]) == ([], [])
    (replica,) = status["replicas"]
    assert (replica["answers"], replica["leads"], replica["queues"]) == (True, True, "Current")
    assert replica["version"] == status["pluginVersion"]
    assert replica["certificateUntil"]
    policies = {entry["name"]: entry["failurePolicy"] for entry in status["webhooks"]}
    assert (policies["binds.sluice.dev"], policies["members.pods.sluice.dev"]) == ("Ignore", "Fail")
    assert all(entry["certificatesUntil"] for entry in status["webhooks"])
    assert sandbox.done("status").endswith("Problems:    none\n")
