"""The tour of README and of the pages that go on from it, run whole on a new cluster, prints what they say.

Times, ages and the generated parts of pod names differ from run to run. So do the progress of --wait, which
shows how far the controller is, and the node that a packing policy fills.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from localcluster.cluster import LocalCluster
from queues.well_known import QUEUE
from tests.support.docs.pages import section_of, text_of
from tests.support.e2e.api_requests import Api
from tests.support.e2e.objects import pod_body
from tests.support.e2e.wait import until
from tests.support.paths import ROOT

#: Seconds in which the cluster comes to the state that a page shows.
PATIENCE = 60
#: What README prints is that of a new one.
KEEPS_CLUSTER = True
REPLACED = (
    (r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "MINUTE"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME"),
    (r"\b(eval|late|packed|spread)-[0-9a-z]+-[0-9a-z]+\b", r"\1-POD"),
    (r"\((in )?(\d+[smh]){1,2}( ago)?\)", "(AGE)"),
    (r"\b(\d+[smh]){1,2}\b", "AGE"),
    (r"FULL  +|[█░]+ \d+%", ""),  # bars are for terminals
    (r" +", " "),
)
#: A warning that README folds, since it is longer than its lines may be.
FOLDED = re.compile(r"^(Warning: .*;)\n  ", re.MULTILINE)
FILLED_NODE = re.compile(r"^(packed-POD) (node-\d)$")
PROGRESS = re.compile(
    r'queue "\w+": (not acknowledged yet|not begun yet|Draining|Active is not|Accepting is not)'
)


#: Those that go on from README's tour, each up to its first heading of the second level.
PAGES = ("stop-a-branch", "empty-a-queue", "close-a-queue", "use-scheduling-policies")


def tour() -> Iterator[str]:
    yield section_of((ROOT / "README.md").read_text(), "A tour")
    for page in PAGES:
        yield text_of(f"tasks/{page}.md").partition("\n## ")[0]


def steps() -> Iterator[tuple[str, str]]:
    """Each command with what it prints."""
    for block in re.findall(r"```console\n(.*?)```", "\n".join(tour()), flags=re.DOTALL):
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = step.partition("\n")
            yield command, FOLDED.sub(r"\1 ", output)


def comparable(output: str) -> list[str]:
    lines = [line.rstrip() for line in output.splitlines() if line.strip() and not PROGRESS.match(line)]
    for pattern, replacement in REPLACED:
        lines = [re.sub(pattern, replacement, line) for line in lines]
    nodes = list(dict.fromkeys(match[2] for match in map(FILLED_NODE.match, lines) if match))
    return [FILLED_NODE.sub(lambda match: f"{match[1]} node {nodes.index(match[2])}", line) for line in lines]


def wait_for_members_of(cluster: LocalCluster, namespace: str) -> None:
    """Returns once new pods of the namespace are members: its annotation is known a little late."""
    with Api(cluster) as api:
        path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"

        def is_member() -> bool:
            answer = api.create(path, pod_body("would-be"))
            return answer.status == 201 and QUEUE in answer.body["metadata"].get("annotations", {})

        until(is_member, f"pods of namespace {namespace} to be members")


def test_the_tour_prints_what_it_says(served_cluster: LocalCluster, tmp_path: Path) -> None:
    """A `get`, `tree` or `why` is repeated until the cluster is as far; every other command runs once."""
    environ = {
        "PATH": f"{served_cluster.layout.bin}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "LANG": "C.UTF-8",
        "KUBECONFIG": str(served_cluster.client_kubeconfig),
    }

    def run(command: str) -> list[str]:
        done = subprocess.run(
            ["/bin/bash", "-c", command],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=120,
        )
        return comparable(done.stdout)

    for command, output in steps():
        if command.startswith("export "):
            continue
        wanted, printed = comparable(output), run(command)
        reads = re.match(r"kubectl (get|queue (get|list|tree|usage|why|policy explain)) ", f"{command} ")
        end = time.monotonic() + PATIENCE
        while reads and printed != wanted and time.monotonic() < end:
            printed = run(command)
        assert printed == wanted, command
        if annotated := re.match(r"kubectl annotate namespace (\S+) ", command):
            wait_for_members_of(served_cluster, annotated[1])
