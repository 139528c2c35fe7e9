"""`kubectl queue policy list`, `show` and `explain`: which policy counts, who names it, what its parts do."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from kubectl_queue.access.client import ObjectList
from kubectl_queue.errors import ForbiddenError, NotFoundError, QueueError, UsageError
from kubectl_queue.objects.fields import Object
from queues import well_known
from queues.membership import GROUP_ANNOTATION
from queues.policies.policy_set import GLOBAL_KEY, KEYS_LIMIT
from tests.support.cases import each_case
from tests.support.plugin.harness import (
    CommandResult,
    StoredObjects,
    StoredQueues,
    item,
    run_command,
)

CONFIG_MAP = "/api/v1/namespaces/volcano-system/configmaps/volcano-scheduler-configmap"
PODS = "/api/v1/namespaces/team/pods"
PODGROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/team/podgroups"
PACKED = """\
actions: "enqueue, allocate, preempt"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: binpack
    arguments: {binpack.weight: 10, binpack.gpu: 1}
"""
GOOD = {
    GLOBAL_KEY: "actions: allocate\ntiers: [{}]",
    "packed": PACKED,
    "broken": 'actions: "prempt, x"\ntiers: 7\n',
}


def cluster(data: dict[str, str] | None = None, **objects: Object) -> StoredObjects:
    """`objects`: by the kind of the path, pods or podgroups."""
    stored: dict[str, Object] = {CONFIG_MAP: {"data": GOOD if data is None else data}}
    for kind, obj in objects.items():
        base = PODGROUPS if kind.startswith("podgroup") else PODS
        stored[f"{base}/{obj['metadata']['name']}"] = obj
    return StoredObjects(stored)


def pod(
    queue: str = "own",
    *,
    node: str = "",
    annotations: Mapping[str, str] | None = None,
    requests: Mapping[str, str] | None = None,
) -> Object:
    named = {well_known.QUEUE: queue} if queue else {}
    spec: dict[str, Any] = {"containers": [{"resources": {"requests": requests or {}}}]}
    if node:
        spec["nodeName"] = node
    metadata = {"name": "x", "namespace": "team", "annotations": {**named, **(annotations or {})}}
    return {"metadata": metadata, "spec": spec}


QUEUES = (
    item("root"),
    item("own", schedulerPolicy="packed"),
    item("below", parent="own"),
    item("plain"),
    item("broken", parent="own", schedulerPolicy="broken"),
    item("typo", schedulerPolicy="paked"),
)


def run(*words: str, api: StoredQueues | None = None, client: StoredObjects | None = None) -> CommandResult:
    return run_command(api or StoredQueues(*QUEUES), "policy", *words, client=client or cluster())


def explained(target: str, *, client: StoredObjects | None = None) -> dict[str, Any]:
    result = run("explain", target, "-n", "team", "-ojson", client=client)
    found: dict[str, Any] = json.loads(result.out)
    return found


class TestList:
    def test_each_policy_with_its_actions_what_scores_its_queues_and_whether_it_can_be_used(self) -> None:
        head, *rows = run("list").out.splitlines()
        assert head.split() == ["NAME", "ACTIONS", "SCORES", "QUEUES", "STATUS"]
        assert [" ".join(row.split()) for row in rows] == [
            f"{GLOBAL_KEY} allocate <none> all others OK",
            'broken <none> <none> 1 line 1: there is no action "prempt"; did you mean "preempt"?',
            "packed enqueue, allocate, preempt binpack 1 OK, 1 warning",
            "paked <none> <none> 1 queues name it, and it is not there; the next in the order counts",
        ]

    def test_as_a_document(self) -> None:
        found = json.loads(run("list", "-ojson").out)
        assert found["configMap"]["exists"] is True
        by_name = {row["name"]: row for row in found["policies"]}
        assert (by_name["broken"]["ok"], by_name["broken"]["line"]) == (False, 1)
        assert by_name["packed"]["warnings"][0]["line"] == 8

    def test_without_a_config_map_no_policy_counts(self) -> None:
        result = run("list", "--no-headers", api=StoredQueues(item("root")), client=StoredObjects({}))
        assert (result.code, result.out) == (0, "")
        assert "there is no ConfigMap volcano-system/volcano-scheduler-configmap" in result.err

    def test_who_may_not_list_queues_sees_the_policies(self) -> None:
        class Unlisted(StoredQueues):
            def list(self, *, selector: str = "", name: str = "") -> ObjectList:
                raise ForbiddenError("no", code=403)

        result = run("list", api=Unlisted())
        assert "<unknown>" in result.out
        assert "you may not list queues" in result.err

    def test_keys_beyond_the_limit_are_warned_of(self) -> None:
        many = {f"k{number:05}": "actions: allocate\ntiers: [{}]" for number in range(KEYS_LIMIT + 2)}
        assert "has 2 policies more than the 1,000" in run("list", client=cluster(many)).err

    def test_who_may_not_read_the_config_map_is_told_the_right_and_how_to_get_it(self) -> None:
        client = StoredObjects({}, forbidden=[CONFIG_MAP])
        with pytest.raises(QueueError, match='no right to "get" configmaps of that name') as caught:
            run("list", client=client)
        assert "kubectl apply --server-side -k manifests/queue-readers" in str(caught.value)
        place = "/api/v1/namespaces/a/configmaps/b"
        with pytest.raises(QueueError, match=r"a Role with resourceNames \[b\]"):
            run(
                *("list", "--policies-namespace=a", "--policies-name=b"),
                client=StoredObjects({}, forbidden=[place]),
            )


class TestShow:
    def test_each_part_with_its_effect(self) -> None:
        result = run("show", "packed")
        lines = [" ".join(line.split()) for line in result.out.splitlines()]
        assert result.code == 0
        assert lines[0] == 'policy "packed" of ConfigMap volcano-system/volcano-scheduler-configmap'
        assert (
            lines[1]
            == "Actions: enqueue applied: new pods wait as plugin overcommit says; without it, for nothing"
        )
        assert "reclaim missing: pods may not evict those of other queues" in lines
        assert any(line.startswith("Tier 1: priority applied: ") for line in lines)
        assert lines[-2].startswith(
            "Tier 2: binpack applied: scores nodes: the fuller, the better; weight 10"
        )
        assert lines[-1].startswith('Ignored: line 8: binpack has no argument "binpack.gpu"')

    def test_of_a_wrong_one_every_fault(self) -> None:
        result = run("show", "broken")
        assert result.code == 1
        assert "cannot be used: 2 faults" in result.out
        assert len(json.loads(run("show", "broken", "-ojson").out)["faults"]) == 2

    def test_one_that_is_not_there_is_an_error_with_a_suggestion(self) -> None:
        with pytest.raises(QueueError, match="Did you mean this") as caught:
            run("show", "paked")
        assert "packed" in str(caught.value)
        with pytest.raises(QueueError, match='has no policy "other"; see: kubectl queue policy list'):
            run("show", "other")
        with pytest.raises(QueueError, match="invalid policy name"):
            run("show", "a/b")


class TestExplain:
    @pytest.mark.parametrize(
        ("queue", "source", "policy", "summary"),
        [
            ("own", "Queue", "packed", 'has policy "packed", named by queue "own"'),
            ("below", "Ancestor", "packed", 'has policy "packed", named by ancestor "own"'),
            ("plain", "Global", GLOBAL_KEY, f"has the global policy, {GLOBAL_KEY}"),
            ("broken", "Ancestor", "packed", 'has policy "packed", named by ancestor "own"'),
            ("typo", "Global", GLOBAL_KEY, f"has the global policy, {GLOBAL_KEY}"),
        ],
    )
    def test_a_queue_has_its_own_its_ancestor_s_or_the_global_policy(
        self, queue: str, source: str, policy: str, summary: str
    ) -> None:
        found = explained(queue)
        assert (found["source"], found["policy"]) == (source, policy)
        assert found["summary"] == f'queue "{queue}" {summary}'

    def test_what_was_tried_and_could_not_be_used_is_said(self) -> None:
        broken, typo = explained("broken"), explained("typo")
        assert broken["tried"][0].startswith(
            'queue "broken": policy "broken", line 1: there is no action "pr'
        )
        assert any("an earlier good text" in note for note in broken["notes"])
        assert (typo["tried"], typo["notes"]) == (
            ['queue "typo": there is no policy "paked"; did you mean "packed"?'],
            [],
        )

    def test_without_any_it_says_why(self) -> None:
        found = explained("plain", client=cluster({}))
        assert found["summary"].endswith("(nothing names one, and there is no global one)")
        without = run("explain", "own", client=StoredObjects({}))
        assert "(there is no ConfigMap volcano-system/volcano-scheduler-configmap)" in without.out

    def test_a_pod_s_annotation_comes_before_its_podgroup_s_and_that_before_its_queue_s(self) -> None:
        client = cluster(x=pod(annotations={well_known.SCHEDULER_POLICY: GLOBAL_KEY.removesuffix(".conf")}))
        missing = explained("pod/x", client=client)
        assert missing["source"] == "Queue"
        assert missing["tried"] == [
            'annotation volcano.sh/scheduler-policy of the pod: there is no policy "volcano-scheduler"'
        ]
        other = {**GOOD, "job": "actions: backfill\ntiers: [{}]"}
        named = explained(
            "pod/x", client=cluster(other, x=pod(annotations={well_known.SCHEDULER_POLICY: "job"}))
        )
        assert (named["source"], named["policy"]) == ("Job", "job")
        assert named["namedBy"] == "annotation volcano.sh/scheduler-policy of the pod"
        group = {"metadata": {"name": "g", "annotations": {well_known.SCHEDULER_POLICY: "job"}}}
        member = pod(annotations={GROUP_ANNOTATION: "g"})
        by_group = explained("pod/x", client=cluster(other, x=member, podgroup=group))
        assert by_group["namedBy"] == "annotation volcano.sh/scheduler-policy of PodGroup g"
        assert explained("pod/x", client=cluster(other, x=member))["source"] == "Queue"

    def test_a_podgroup_that_may_not_be_read_is_a_note(self) -> None:
        stored = {CONFIG_MAP: {"data": GOOD}, f"{PODS}/x": pod(annotations={GROUP_ANNOTATION: "g"})}
        found = explained("pod/x", client=StoredObjects(stored, forbidden=[f"{PODGROUPS}/g"]))
        assert found["notes"][0].startswith("you may not read PodGroup g")

    def test_the_parts_are_said_for_this_pod(self) -> None:
        """By its requests, without those that admission adds, and by whether scores are asked for."""
        asked = pod(requests={"cpu": "1", well_known.MARKER: "1", well_known.SCORED: "1"})
        parts = {part["name"]: part for part in explained("pod/x", client=cluster(x=asked))["parts"]}
        assert (parts["allocate"]["effect"], parts["binpack"]["effect"]) == ("applied", "applied")
        assert parts["backfill"]["effect"] == "does nothing for this pod"
        idle = pod(node="n1", requests={well_known.MARKER: "1", "memory": "0Gi"})
        found = explained("pod/x", client=cluster(x=idle))
        parts = {part["name"]: part for part in found["parts"]}
        assert parts["allocate"]["text"] == "the pod requests no resources, so backfill counts"
        assert (parts["backfill"]["effect"], parts["binpack"]["effect"]) == (
            "missing",
            "does nothing for this pod",
        )
        assert found["notes"] == ["the pod is on node n1 already: actions and scores count for it no more"]

    def test_a_pod_of_no_queue_has_no_policy(self) -> None:
        result = run("explain", "pod/x", "-n", "team", client=cluster(x=pod("")))
        assert (result.code, result.out) == (0, "pod team/x is of no queue: no policy counts for it\n")

    def test_what_the_controller_says_is_a_note(self) -> None:
        condition = {"type": "PolicyResolved", "status": "False", "message": "line 3 is wrong"}
        queue = item("own", schedulerPolicy="broken", status={"conditions": [condition]})
        result = run("explain", "own", api=StoredQueues(item("root"), queue))
        assert "the controller says: line 3 is wrong" in result.out

    def test_a_queue_that_is_not_there_is_an_error(self) -> None:
        with pytest.raises(NotFoundError):
            run("explain", "gone")
        found = explained("pod/x", client=cluster(x=pod("gone")))
        assert 'queue "gone" does not exist' in found["notes"]

    @pytest.mark.parametrize("words", [(), ("a", "b"), ("job/x",), ("pod/",), ("pod/A",)])
    def test_words_that_name_no_queue_or_pod_are_refused(self, words: tuple[str, ...]) -> None:
        with pytest.raises(UsageError):
            run("explain", *words)

    def test_type_and_name_may_be_two_words(self) -> None:
        assert (
            run("explain", "queue", "own").out == run("explain", "queue/own").out == run("explain", "own").out
        )


def test_check_reads_stdin() -> None:
    result = run_command(StoredQueues(), "policy", "check", "-", stdin="actions: alocate\n")
    assert result.code == 1
    assert result.out.startswith('<stdin>:1: there is no action "alocate"; did you mean "allocate"?\n')


@each_case("words", [(), ("lst",), ("list", "x"), ("show",), ("check",)])
def test_a_wrong_command_line_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError):
        run(*words)


def test_the_plugin_never_imports_numpy_and_only_three_commands_import_the_policies() -> None:
    """Imports are most of the time that a command takes. `reclaim` asks which actions a policy has, `convert`
    reads manifests.
    """
    code = (
        "import sys\nfrom kubectl_queue.commands import verbs\n"
        "for name in verbs.TABLE:\n"
        "    if name not in {'policy', 'reclaim', 'convert'}: verbs.load(name)\n"
        "early = {'yaml', 'queues.policies.scheduler_conf'} & set(sys.modules)\n"
        "verbs.load('policy')\n"
        "verbs.load('reclaim')\n"
        "verbs.load('convert')\n"
        "print(early, 'numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set() False\n"


def test_policies_in_binary_data_are_read_and_a_misplaced_one_is_named() -> None:
    """`list`, `show` and `explain` have them as any; what is below no policy key is somebody else's."""
    encoded = base64.b64encode(PACKED.encode()).decode()
    config_map = {"data": {"ours.properties": "a=b"}, "binaryData": {"default-scheduler.conf": encoded}}
    client = StoredObjects({CONFIG_MAP: config_map})
    listed = run("list", client=client)
    assert "default-scheduler.conf" in listed.out
    assert "ours.properties" not in listed.out
    note = 'the one under "default-scheduler.conf" counts only for queues that name it'
    assert note in listed.err
    assert run("show", "default-scheduler.conf", client=client).code == 0
    assert any(note in each for each in explained("plain", client=client)["notes"])
    assert explained("own", client=client)["tried"] == ['queue "own": there is no policy "packed"']
