"""`kubectl queue convert`: what it reads, what it prints where, and its exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from kubectl_queue.errors import ForbiddenError, QueueError, UsageError
from kubectl_queue.objects.fields import Object
from tests.support.plugin.harness import CommandResult, StoredObjects, StoredQueues, plugin, run_command
from tests.support.plugin.kueue_objects import (
    FLAVOR,
    V1BETA1,
    cluster_queue,
    cohort,
    kueue_object,
    local_queue,
)

BASE = "/apis/kueue.x-k8s.io"
FILE = (
    FLAVOR,
    cluster_queue("a-cq", "lab", preemption={"reclaimWithinCohort": "Any"}),
    local_queue("team", "a", "a-cq"),
)


def convert(*words: str, stdin: str = "", client: StoredObjects | None = None) -> CommandResult:
    return run_command(StoredQueues(), "convert", *words, stdin=stdin, client=client)


def documents(objects: tuple[Object, ...]) -> str:
    return yaml.safe_dump_all(objects)


def test_queues_are_printed_as_yaml_each_with_what_it_was() -> None:
    done = convert("-f", "-", stdin=documents(FILE))
    assert done.code == 0
    policies, lab, queue = yaml.safe_load_all(done.out)
    assert list(policies["data"]) == ["kueue-reclaim"]
    assert policies["metadata"] == {"name": "volcano-scheduler-configmap", "namespace": "volcano-system"}
    assert [lab["metadata"]["name"], queue["metadata"]["name"]] == ["lab", "a"]
    assert queue["spec"]["schedulerPolicy"] == "kueue-reclaim"
    assert [line for line in done.out.splitlines() if line.startswith("#")] == [
        "# scheduling policies that queues name",
        "# Cohort lab",
        "# ClusterQueue a-cq, LocalQueue team/a",
    ]
    assert done.err.splitlines() == [
        'Warning: ClusterQueue: is queue "a", as its LocalQueues are called (a-cq)',
        "2 queues, in place of 1 ClusterQueue; their policies are keys of ConfigMap "
        "volcano-system/volcano-scheduler-configmap, whose namespace has to exist. A resource that no "
        "ClusterQueue names has no limit here; Kueue admits no such work.",
    ]


def test_as_json_they_are_one_list() -> None:
    done = convert("-f", "-", "-o", "json", "--policies-namespace", "other", stdin=documents(FILE))
    printed = json.loads(done.out)
    assert [item["kind"] for item in printed["items"]] == ["ConfigMap", "Queue", "Queue"]
    assert printed["items"][0]["metadata"]["namespace"] == "other"


def test_several_files_are_converted_together(tmp_path: Path) -> None:
    for number, item in enumerate(FILE):
        (tmp_path / f"{number}.yaml").write_text(documents((item,)))
    done = convert(*(f"--filename={path}" for path in sorted(tmp_path.iterdir())))
    assert done.out == convert("-f", "-", stdin=documents(FILE)).out


def test_what_cannot_be_converted_is_said_and_the_rest_is_printed() -> None:
    done = convert("-f", "-", stdin=documents((*FILE, cluster_queue("b", stopPolicy="Holdd"))))
    assert done.code == 1
    assert len(list(yaml.safe_load_all(done.out))) == 3
    [error] = [line for line in done.err.splitlines() if line.startswith("error: ")]
    assert error.startswith(
        'error: ClusterQueue spec.stopPolicy: "Holdd" is none of None, Hold or HoldAndDrain'
    )


def test_where_nothing_can_be_converted_nothing_is_printed() -> None:
    with pytest.raises(QueueError, match="there is no ClusterQueue and no Cohort that can be converted"):
        convert("-f", "-", stdin="kind: Pod\napiVersion: v1")


def stored(**lists: list[Object]) -> StoredObjects:
    """By the version and resource."""
    return StoredObjects(
        {f"{BASE}/{path.replace('_', '/')}": {"items": items} for path, items in lists.items()}
    )


class OnlyServed(StoredObjects):
    """What is not stored is not served."""

    def list(self, path, **more):  # type: ignore[no-untyped-def]
        self.send(type("Asked", (), {"path": path})())
        return super().list(path, **more)


def without_type(item: Object) -> Object:
    return {key: part for key, part in item.items() if key not in ("apiVersion", "kind")}


def test_without_a_file_the_cluster_is_read_in_the_version_that_it_serves() -> None:
    spec = {"cohort": "lab", "namespaceSelector": {}}
    lists = {
        f"{BASE}/v1beta1/clusterqueues": [kueue_object("ClusterQueue", "a", spec, version=V1BETA1)],
        f"{BASE}/v1beta1/localqueues": [local_queue("team", "a", "a")],
        f"{BASE}/v1alpha1/cohorts": [cohort("lab")],
    }
    client = OnlyServed({path: {"items": list(map(without_type, items))} for path, items in lists.items()})
    done = convert(client=client)
    assert [item["metadata"]["name"] for item in yaml.safe_load_all(done.out)] == ["lab", "a"]
    assert done.err == (
        "2 queues, in place of 1 ClusterQueue. A resource that no ClusterQueue names has no limit here; "
        "Kueue admits no such work.\n"
    )


def test_a_cluster_without_kueue_says_so() -> None:
    with pytest.raises(QueueError, match="the cluster serves no clusterqueues"):
        convert(client=OnlyServed({}))


def test_who_may_not_list_cohorts_is_refused_since_limits_come_from_them() -> None:
    client = StoredObjects({}, forbidden=[f"{BASE}/v1beta2/cohorts"])
    with pytest.raises(ForbiddenError):
        convert(client=client)


def test_who_may_not_list_flavors_is_told_what_is_not_known() -> None:
    served = {f"{BASE}/v1beta2/clusterqueues": {"items": [without_type(cluster_queue("a"))]}}
    done = convert(client=StoredObjects(served, forbidden=[f"{BASE}/v1beta2/resourceflavors"]))
    assert done.code == 0
    assert "Warning: what resourceflavors.kueue.x-k8s.io would lose is not known: " in done.err


def test_names_are_refused() -> None:
    with pytest.raises(UsageError, match="convert takes no names"):
        convert("a")


def test_of_a_file_that_cannot_be_read_one_line_says_why(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"kind: \xe9")
    (tmp_path / "bad").write_text("a: }")
    for name, reason in (("latin", "not UTF-8"), ("bad", "line 1: not YAML"), ("gone", "No such file")):
        done = plugin("convert", "-f", str(tmp_path / name))
        assert done.returncode == 1
        assert done.stdout == ""
        [line] = done.stderr.splitlines()
        assert line.startswith(f"error: {tmp_path / name}: {reason}")
