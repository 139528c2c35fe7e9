"""The server is killed: each command says so in one line, with since when and where to read on. None claims
that a stop is acknowledged now. With the rights that users have; who may not know is told nothing.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from localcluster.cluster import LocalCluster
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until
from tests.support.plugin.harness import plugin_in_process

#: Of the warning, with the time at which a replica last said that it is there.
AWAY = re.compile(
    r"no replica of Sluice answers since \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ \(\w+ ago\): .*"
    r"; what to do: docs/operating/outages\.md"
)
#: Of who may not read which namespace is the server's.
LED = re.compile(
    r'no replica of Sluice leads in namespace "sluice-system" since \S+Z \(\w+ ago\), and you may not read '
    r"whether it runs in another one: .*outages\.md"
)
LEASES = "/apis/coordination.k8s.io/v1/namespaces/sluice-system/leases"


class Away(NamedTuple):
    """A cluster whose server was killed, after the stop of `stopped` was acknowledged."""

    cluster: LocalCluster
    stopped: str
    open: str

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return plugin_in_process(*words, kubeconfig=self.cluster.client_kubeconfig)


@pytest.fixture(scope="module")
def away(served_cluster: LocalCluster) -> Iterator[Away]:
    sandbox = Sandbox(served_cluster)
    stopped, opened = sandbox.queue("lab"), sandbox.queue("free", capability={"cpu": "1"})
    sandbox.suspend(stopped)
    bind = ("create", "clusterrolebinding")
    served_cluster.kubectl(*bind, "viewer-ann", "--clusterrole=view", "--user=ann")
    served_cluster.kubectl(*bind, "admin-eve", "--clusterrole=sluice-queue-admin", "--user=eve")
    served_cluster.kubectl("create", "clusterrole", "names", "--verb=get,list", "--resource=queues")
    served_cluster.kubectl(*bind, "names-bob", "--clusterrole=names", "--user=bob")
    before = Away(served_cluster, stopped, opened)
    for words in (("list",), ("tree",), ("usage",), ("why", stopped), ("status",)):
        done = before.run(*words)
        assert (done.returncode, done.stderr) == (0, "")
    served_cluster.signal_component("server", signal.SIGKILL)
    until(lambda: "answers" in before.run("list").stderr, "the Leases to run out")
    yield before
    sandbox.close()


@pytest.mark.parametrize(
    "words",
    [
        *(("list",), ("get", "{stopped}"), ("get", "-owide"), ("tree",), ("usage",), ("why", "{stopped}")),
        *(("why", "{open}"), ("history", "{stopped}"), ("windows",), ("suspend", "{stopped}")),
    ],
    ids=" ".join,
)
def test_each_command_says_it_in_one_line_of_its_own(away: Away, words: tuple[str, ...]) -> None:
    """What it shows otherwise is as before, and so is its exit code."""
    done = away.run(*(word.format(stopped=away.stopped, open=away.open) for word in words))
    (line,) = [line for line in done.stderr.splitlines() if "no replica" in line]
    assert line.startswith("Warning: ")
    assert AWAY.fullmatch(line.removeprefix("Warning: "))
    assert done.returncode == 0


def test_a_document_for_programs_is_as_before(away: Away) -> None:
    done = away.run("get", away.stopped, "-ojson")
    assert (json.loads(done.stdout)["metadata"]["name"], done.stderr) == (away.stopped, "")


@pytest.mark.parametrize("words", [("suspend", "{open}"), ("hold", "{open}"), ("resume", "{stopped}")])
def test_an_edit_fails_in_one_sentence(away: Away, words: tuple[str, ...]) -> None:
    """With the words of the API server for who looks after its network, and without its own prefix."""
    done = away.run(*(word.format(stopped=away.stopped, open=away.open) for word in words))
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert re.match(r"error: nothing was changed: no replica of Sluice answers since \S+Z \(\w+ ago\) ", line)
    assert re.search(r'\(webhook "[a-z.-]*queues\.sluice\.dev": .*connection refused\); what to do: ', line)


def test_creating_a_queue_fails_so_too(away: Away) -> None:
    done = away.run("create", "another")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert done.stderr.startswith("error: nothing was changed: no replica of Sluice answers since ")


def test_no_acknowledgement_of_before_counts_as_one_of_now(away: Away) -> None:
    done = away.run("suspend", away.stopped, "--wait", "--timeout=1s")
    assert done.returncode == 1
    assert "acknowledged:" not in done.stdout
    assert (
        "it was acknowledged before the server was lost: no replica of Sluice answers since " in done.stderr
    )


def test_status_fails_and_says_since_when(away: Away) -> None:
    done = away.run("status")
    assert done.returncode == 1
    assert AWAY.search(done.stdout.partition("Problems:")[2])


@pytest.mark.parametrize("user", ["ann", "eve"])
def test_who_may_see_queues_sees_that_nobody_leads(away: Away, user: str) -> None:
    """ClusterRoles `view` and `sluice-queue-admin` may read the leader's Lease, and no other."""
    done = away.run("list", f"--as={user}")
    assert LED.fullmatch(done.stderr.strip().removeprefix("Warning: "))
    others = away.cluster.client_kubeconfig
    refused = plugin_in_process("status", f"--as={user}", kubeconfig=others)
    assert "cannot list resource" in refused.stderr


def test_who_may_not_know_is_told_nothing(away: Away) -> None:
    done = away.run("list", "--as=bob")
    assert (done.returncode, done.stderr) == (0, "")
    assert away.stopped in done.stdout
