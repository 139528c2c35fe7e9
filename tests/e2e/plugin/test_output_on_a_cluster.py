"""What the plugin prints is what kubectl prints, by every format of -o that both have."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcluster.cluster import LocalCluster
from tests.support.plugin.harness import plugin, plugin_in_process


@pytest.fixture(scope="module")
def queues(cluster: LocalCluster) -> Iterator[list[str]]:
    """Two queues with labels and weights; gone when the module has ended."""
    names = [f"t-{uuid.uuid4().hex[:8]}-{letter}" for letter in "ab"]
    for weight, name in enumerate(names, start=1):
        cluster.kubectl("create", "-f", "-", stdin=json.dumps(queue(name, weight=weight)))
        cluster.kubectl("wait", f"queue/{name}", "--for=jsonpath={.status.state}=Open", "--timeout=60s")
    yield names
    plugin_in_process("close", *names, "--wait=closed", kubeconfig=cluster.client_kubeconfig)
    plugin_in_process("delete", *names, kubeconfig=cluster.client_kubeconfig)


def queue(name: str, *, weight: int) -> dict[str, object]:
    metadata = {"name": name, "labels": {"team": f"t{weight}", "example.com/tier": "gold", "run": name[:10]}}
    spec = {"weight": weight}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": metadata,
        "spec": spec,
    }


TEMPLATES = [
    "jsonpath={.items[*].metadata.name}",
    "jsonpath-as-json={.items[*].spec.weight}",
    'go-template={{range .items}}{{.metadata.name}} {{.spec.weight}}{{"\\n"}}{{end}}',
    "custom-columns=NAME:.metadata.name,WEIGHT:.spec.weight",
]


@pytest.mark.parametrize("template", TEMPLATES)
def test_get_and_list_print_by_a_template_what_kubectl_prints(
    cluster: LocalCluster, queues: list[str], template: str
) -> None:
    """A list that is sorted, queues by name, and without headers."""
    selector = f"run={queues[0][:10]}"
    words = ["-l", selector, "-o", template, "--sort-by=.spec.weight"]
    ours = plugin("list", *words, kubeconfig=cluster.client_kubeconfig)
    assert (ours.returncode, ours.stdout) == (0, cluster.kubectl("get", "queues", *words))
    for more in ((), ("--no-headers",)):
        words = [*queues, "-o", template, *more]
        ours = plugin("get", *words, kubeconfig=cluster.client_kubeconfig)
        assert ours.stdout == cluster.kubectl("get", "queues", *words)


def test_templates_may_be_in_files(cluster: LocalCluster, queues: list[str], tmp_path: Path) -> None:
    path = tmp_path / "template"
    path.write_text("{.metadata.name}")
    done = plugin("get", queues[0], "-o", f"jsonpath-file={path}", kubeconfig=cluster.client_kubeconfig)
    assert done.stdout == queues[0]
    path.write_text("W\n.spec.weight\n")
    done = plugin("get", queues[0], "-o", f"custom-columns-file={path}", kubeconfig=cluster.client_kubeconfig)
    assert done.stdout.split() == ["W", "1"]


def test_a_verb_that_changes_queues_prints_them_by_a_template(
    cluster: LocalCluster, queues: list[str]
) -> None:
    """One after the other, as `kubectl patch` does; a dry run too."""
    template = 'jsonpath={.metadata.name} {.spec.state}{"\\n"}'
    done = plugin("suspend", *queues, "-o", template, kubeconfig=cluster.client_kubeconfig)
    assert done.stdout == "".join(f"{name} Suspended\n" for name in queues)
    words = ("resume", queues[0], "--dry-run=client", "-o", "go-template={{.spec.state}}")
    assert plugin(*words, kubeconfig=cluster.client_kubeconfig).stdout == "Open"
    assert plugin("resume", *queues, kubeconfig=cluster.client_kubeconfig).returncode == 0


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("jsonpath={", "error: error parsing jsonpath {, unclosed action"),
        ("go-template={{", "error: error parsing template {{"),
        ("jsonpath-file=/no/such", "error: error reading --template /no/such"),
    ],
)
def test_a_template_that_cannot_be_read_is_refused_before_anything_is_changed(
    cluster: LocalCluster, queues: list[str], template: str, text: str
) -> None:
    done = plugin("suspend", queues[0], "-o", template, kubeconfig=cluster.client_kubeconfig)
    assert (done.returncode, done.stdout) == (1, "")
    assert text in done.stderr
    stored = cluster.kubectl("get", "queue", queues[0], "-o", "jsonpath={.spec.state}")
    assert stored != "Suspended"


def test_label_columns_are_kubectl_s(cluster: LocalCluster, queues: list[str]) -> None:
    words = ("-l", f"run={queues[0][:10]}", "-L", "team,example.com/tier", "-L", "none")
    ours = plugin_in_process("list", *words, kubeconfig=cluster.client_kubeconfig).stdout
    theirs = cluster.kubectl("get", "queues", *words)
    # The column before them is the age, which may have changed in between.
    assert [line.split()[-2:] for line in ours.splitlines()] == [
        line.split()[-2:] for line in theirs.splitlines()
    ]


@pytest.mark.parametrize("output", ["", "-owide", "-ojson"])
def test_sorting_by_what_no_queue_has_is_an_error(
    cluster: LocalCluster, queues: list[str], output: str
) -> None:
    words = ("get", *queues, "--sort-by=.spec.nope", *filter(None, [output]))
    done = plugin_in_process(*words, kubeconfig=cluster.client_kubeconfig)
    assert (done.returncode, done.stdout) == (1, "")
    assert 'couldn\'t find any field with path ".spec.nope" in the list of queues' in done.stderr


def test_queues_are_sorted_by_what_they_have(cluster: LocalCluster, queues: list[str]) -> None:
    words = ("get", *reversed(queues), "--sort-by={.spec.weight}", "-oname")
    done = plugin_in_process(*words, kubeconfig=cluster.client_kubeconfig)
    assert [line.rpartition("/")[2] for line in done.stdout.split()] == queues


def test_the_tree_is_a_structure_too(cluster: LocalCluster, queues: list[str]) -> None:
    tree = json.loads(
        plugin_in_process("tree", queues[0], "-ojson", kubeconfig=cluster.client_kubeconfig).stdout
    )
    (top,) = tree["queues"]
    assert (top["name"], top["state"], top["children"]) == (queues[0], "Open", [])


def test_describe_shows_the_history_once(cluster: LocalCluster, queues: list[str]) -> None:
    """In full below Status; the annotation that admission writes is cut to one line."""
    name, kubeconfig = queues[0], cluster.client_kubeconfig
    reasons = [f"the change window of day {day}" for day in range(1, 5)]
    for reason in reasons:
        plugin_in_process("suspend", name, "--reason", reason, "--wait", kubeconfig=kubeconfig)
        plugin_in_process("resume", name, "--wait", kubeconfig=kubeconfig)
    described = cluster.kubectl("describe", "queue", name)
    metadata, _, status = described.partition("\nStatus:")
    assert [reason for reason in reasons if reason in status] == reasons
    assert [reason for reason in reasons[1:] if reason in metadata] == []


def test_version_says_all_three_as_far_as_they_may_be_known(cluster: LocalCluster) -> None:
    """The server of this cluster runs without a Deployment, and says its version on its Lease."""
    done = plugin("version", kubeconfig=cluster.client_kubeconfig)
    assert done.returncode == 0, done.stderr
    client, server, kubernetes = done.stdout.splitlines()
    assert client.startswith("Client Version: ")
    assert server.partition(": ") == ("Server Version", ": ", client.partition(": ")[2])
    assert kubernetes.startswith("Kubernetes Version: v1.")
    unread = plugin("version", kubeconfig=cluster.user("reads-no-leases")).stdout
    assert "Server Version" not in unread
    alone = plugin("version", "--client", "-ojson", environ={"PATH": "/no-such-file"})
    assert list(json.loads(alone.stdout)) == ["clientVersion"]
