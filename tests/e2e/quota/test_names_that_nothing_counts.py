"""Names of resources in a quota, on a control plane: what is refused, what is warned of, what holds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from tests.support.e2e.objects import condition, queue_body
from tests.support.e2e.sandbox import QUEUES, Sandbox
from tests.support.e2e.wait import until
from tests.support.plugin.harness import plugin_in_process

GPU = "example.com/gpu"


def says(sandbox: Sandbox, queue: str, reason: str) -> str:
    """The message of its condition QuotaEnforced, once it has that reason."""
    found = sandbox.queue_that(
        queue, f"say {reason}", lambda read: condition(read, "QuotaEnforced").get("reason") == reason
    )
    return str(condition(found, "QuotaEnforced")["message"])


def test_a_mistake_is_refused_in_a_manifest_and_by_flags(sandbox: Sandbox) -> None:
    name = sandbox.named("mistaken")
    for spec in ({"capability": {"requests.cpu": 1}}, {"guarantee": {"resource": {"requests.cpu": "1"}}}):
        manifest = yaml.safe_dump(queue_body(name, **spec))
        done = sandbox.kubectl("apply", "-f", "-", given=manifest)
        assert done.returncode == 1
        assert 'nothing counts that, since no pod can request it; did you mean "cpu"?' in done.stderr
    flags = ("--deserved", "Memory=1Gi")
    done = plugin_in_process("create", name, *flags, kubeconfig=sandbox.cluster.client_kubeconfig)
    assert done.returncode == 1
    assert 'did you mean "memory"?' in done.stderr


def test_what_nothing_counts_is_warned_of_and_the_condition_names_it_until_it_is_mended(
    sandbox: Sandbox,
) -> None:
    name = sandbox.named("lab")
    flags = ("--capability", "cpu=2,memeory=1Gi,gpu=4")
    done = plugin_in_process("create", name, *flags, kubeconfig=sandbox.cluster.client_kubeconfig)
    sandbox.queue_names.append(name)
    assert done.returncode == 0, done.stderr
    assert "memeory (did you mean memory?)" in done.stderr
    assert "gpu (did you mean nvidia.com/gpu?)" in done.stderr
    assert says(sandbox, name, "NotCounted").endswith("gpu, memeory; for all else it does")
    sandbox.patch_queue(name, capability={"memeory": None, "gpu": None}).must()
    says(sandbox, name, "Enforced")


def test_of_255_mistyped_names_there_is_one_warning(sandbox: Sandbox) -> None:
    name = sandbox.named("wide")
    amounts = {"cpu": "1", **{f"memeory{number:03}": "1" for number in range(255)}}
    answer = sandbox.api.create(QUEUES + "?dryRun=All", queue_body(name, capability=amounts)).must(201)
    [text] = answer.warnings
    assert text.endswith(" and 252 more")


@pytest.fixture
def gpus(sandbox: Sandbox) -> Iterator[str]:
    """The name of a resource that one node has."""

    def give(number: str | None) -> None:
        [node, *_] = sandbox.api.get("/api/v1/nodes").must().body["items"]
        status = {"capacity": {GPU: number}, "allocatable": {GPU: number}}
        sandbox.api.patch(f"/api/v1/nodes/{node['metadata']['name']}/status", {"status": status}).must()

    give("4")
    yield GPU
    give(None)


def test_what_no_node_has_is_warned_of_where_a_queue_has_a_quota(sandbox: Sandbox, gpus: str) -> None:
    """Nodes are read then. It counts all the same: they may come later."""
    sandbox.queue("with-a-quota", capability={"cpu": "2"})
    name = sandbox.named("lab")

    def warnings(resource: str) -> tuple[str, ...]:
        body = queue_body(name, capability={resource: 4})
        return sandbox.api.create(QUEUES + "?dryRun=All", body).must(201).warnings

    text = f"{gpus}s (did you mean {gpus}?)"
    until(lambda: any(text in each for each in warnings(f"{gpus}s")), "the nodes to be known")
    assert warnings(gpus) == ()
    sandbox.queue("typed", capability={f"{gpus}s": 4})
    says(sandbox, sandbox.named("typed"), "Enforced")
