"""Kueue's objects, as the API server holds them to Kueue's own definitions, become queues that the server
takes and that hold their members to Kueue's limits.

Kueue itself does not run here. The version of its definitions is pinned in localcluster/kueue/go.mod.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from localcluster import external_tools
from localcluster.cluster import LocalCluster
from tests.support.e2e.api_requests import Api, Object
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import settled, until
from tests.support.plugin.harness import plugin_in_process
from tests.support.plugin.kueue_objects import (
    FLAVOR,
    V1BETA1,
    cluster_queue,
    cohort,
    groups,
    kueue_object,
    local_queue,
)
from tests.support.skipping import built_or_skipped

#: Definitions of another project, which stay.
KEEPS_CLUSTER = True
BASE = "/apis/kueue.x-k8s.io/v1beta2"
RESOURCES = ("clusterqueues", "cohorts", "resourceflavors")


def definitions() -> list[Path]:
    return built_or_skipped("definitions of Kueue", lambda: external_tools.kueue_definitions(say=print))


@pytest.fixture(scope="module")
def kueue(served_cluster: LocalCluster) -> LocalCluster:
    served_cluster.kubectl("apply", "--server-side", *(f"--filename={path}" for path in definitions()))
    sandbox = Sandbox(served_cluster)
    with sandbox.api:
        for resource in RESOURCES:
            until(partial(_is_served, sandbox, resource), f"{resource} to be served")
    return served_cluster


def _is_served(sandbox: Sandbox, resource: str) -> bool:
    return sandbox.api.get(f"{BASE}/{resource}").status == 200


@pytest.fixture
def own_sandbox(kueue: LocalCluster) -> Iterator[Sandbox]:
    sandbox = Sandbox(kueue)
    yield sandbox
    for resource in RESOURCES:
        sandbox.api.delete(f"{BASE}/{resource}").must()
    sandbox.api.delete(f"{BASE}/namespaces/{sandbox.namespace}/localqueues").must()
    sandbox.clear()
    sandbox.close()


def apply(cluster: LocalCluster, *objects: Object) -> None:
    cluster.kubectl("apply", "--server-side", "--filename=-", stdin=yaml.safe_dump_all(objects))


def convert(sandbox: Sandbox) -> tuple[dict[str, Object], str]:
    """The queues as the API server has stored them, by name, and what was said."""
    done = plugin_in_process("convert", kubeconfig=sandbox.cluster.layout.kubeconfig)
    assert done.returncode == 0, done.stderr
    made = [each for each in yaml.safe_load_all(done.stdout) if each["kind"] == "Queue"]
    sandbox.queue_names += [each["metadata"]["name"] for each in reversed(made)]
    sandbox.cluster.kubectl("apply", "--server-side", "--filename=-", stdin=done.stdout)
    return {
        each["metadata"]["name"]: sandbox.read_queue(each["metadata"]["name"]) for each in made
    }, done.stderr


def objects(sandbox: Sandbox) -> list[Object]:
    """Two ClusterQueues of a Cohort below another one; one lends 1 of its 3 CPUs, one borrows 1 at most."""
    mine, team = sandbox.namespace, sandbox.named("team")
    return [
        FLAVOR,
        cohort(sandbox.named("top")),
        cohort(sandbox.named("lab"), sandbox.named("top")),
        cluster_queue(
            sandbox.named("cq"), sandbox.named("lab"), quotas=groups(any={"cpu": ("1", "1", None)})
        ),
        cluster_queue(
            sandbox.named("lends"), sandbox.named("lab"), quotas=groups(any={"cpu": ("3", None, "1")})
        ),
        local_queue(mine, team, sandbox.named("cq")),
    ]


def test_the_older_version_means_the_same(served_cluster: LocalCluster) -> None:
    """As its own definition fills it in. It is alone here, since Kueue's conversion does not run."""
    [path] = [each for each in definitions() if each.name.endswith("_clusterqueues.yaml")]
    definition = yaml.safe_load(path.read_text())
    versions = definition["spec"]["versions"]
    definition["spec"]["versions"] = [
        {**each, "storage": True} for each in versions if V1BETA1.endswith(each["name"])
    ]
    apply(served_cluster, definition)
    with Api(served_cluster) as api:
        until(lambda: api.get(f"/apis/{V1BETA1}/clusterqueues").status == 200, "ClusterQueues to be served")
    spec = {
        "cohort": "lab",
        "namespaceSelector": {},
        "queueingStrategy": "StrictFIFO",
        "admissionChecks": ["check"],
        "resourceGroups": groups(any={"cpu": "1500m"}),
    }
    apply(served_cluster, kueue_object("ClusterQueue", "older", spec, version=V1BETA1))
    try:
        done = plugin_in_process("convert", kubeconfig=served_cluster.layout.kubeconfig)
    finally:
        served_cluster.kubectl("delete", "clusterqueues", "--all")
    _, older = yaml.safe_load_all(done.stdout)
    assert (older["spec"]["parent"], older["spec"]["dequeueStrategy"]) == ("lab", "fifo")
    assert older["spec"]["deserved"] == {"cpu": "1500m"}
    assert "ClusterQueue spec.admissionChecks: has no counterpart" in done.stderr
    assert "flavorFungibility" not in done.stderr


def test_what_kueue_s_definitions_take_becomes_queues_that_the_server_takes(own_sandbox: Sandbox) -> None:
    """With all that the API server fills in."""
    apply(own_sandbox.cluster, *objects(own_sandbox))
    queues, said = convert(own_sandbox)
    top, lab, team, lends = (own_sandbox.named(short) for short in ("top", "lab", "team", "lends"))
    parents = {name: queue["spec"].get("parent") for name, queue in queues.items()}
    assert parents == {top: "root", lab: top, team: lab, lends: lab}
    assert queues[top]["spec"]["capability"] == {"cpu": "4"}
    assert queues[team]["spec"]["capability"] == {"cpu": "2"}
    assert queues[lends]["spec"]["guarantee"] == {"resource": {"cpu": "2"}}
    assert "flavorFungibility" not in said


def test_members_are_held_to_the_limits_of_their_cluster_queue(own_sandbox: Sandbox) -> None:
    """Its quota of 1 CPU and the one that it borrows; 3 more wait, though the Cohort has 4."""
    apply(own_sandbox.cluster, *objects(own_sandbox))
    convert(own_sandbox)
    team = own_sandbox.named("team")
    own_sandbox.answered(team)
    names = own_sandbox.pods("work", 5, team, cpu="1")
    until(lambda: len(own_sandbox.bound(names)) == 2, "two of them to run")
    assert settled(lambda: len(own_sandbox.bound(names)), "those that run", seconds=1.0) == 2


def test_a_stop_moves_with_its_queue(own_sandbox: Sandbox) -> None:
    stopped = own_sandbox.named("team")
    apply(
        own_sandbox.cluster,
        FLAVOR,
        cluster_queue(own_sandbox.named("cq"), quotas=groups(any={"cpu": "4"})),
        local_queue(own_sandbox.namespace, stopped, own_sandbox.named("cq"), stopPolicy="Hold"),
    )
    convert(own_sandbox)
    own_sandbox.answered(stopped)
    names = own_sandbox.pods("work", 2, stopped, cpu="1")
    assert settled(lambda: len(own_sandbox.bound(names)), "those that run", seconds=1.0) == 0
    own_sandbox.edit(stopped, stopPolicy="None")
    own_sandbox.all_bound(names)


def test_namespaces_without_a_local_queue_may_not_use_it(own_sandbox: Sandbox) -> None:
    apply(own_sandbox.cluster, *objects(own_sandbox))
    convert(own_sandbox)
    own_sandbox.pod("work", own_sandbox.named("lends")).must_refuse("namespace")
