"""Follows a page of the documentation on a cluster, as its reader: each command prints what the page says.

Times, ages and the generated parts of pod names differ from run to run. So do the progress of --wait, which
shows how far the controller is, and the node that a packing policy fills.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import yaml

from localcluster.cluster import LocalCluster
from queues.well_known import QUEUE
from tests.support.docs.console import Step, steps
from tests.support.e2e.api_requests import Api
from tests.support.e2e.objects import pod_body
from tests.support.e2e.wait import until

#: Seconds in which the cluster comes to the state that a page shows.
PATIENCE = 60
REPLACED = (
    (r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)? UTC", "MINUTE"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME"),
    # Before ages: what Kubernetes draws for a name, from an alphabet without vowels, may look like one.
    (r"-[0-9a-z]{5,10}-[0-9a-z]{5}\b", "-POD"),
    (r"-[bcdfghjklmnpqrstvwxz2456789]{5}\b", "-POD"),  # of a Job
    (r"\((in )?(\d+[smhd]){1,2}( ago)?\)", "(AGE)"),
    (r"\b(\d+[smhd]){1,2}\b", "AGE"),
    (r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun) \d+ [A-Z][a-z]{2} (\d{4} )?\d\d:\d\d CES?T\b", "DAY"),
    # The day is said where it is another one: that depends on the hour of the run.
    (r"\b\d\d:\d\d CES?T\b", "DAY"),
    (r"\d+ live pods?( left)? \(\d+ running, \d+ pending\)", "PODS"),  # counts come a little later
    (r"FULL  +|[█░]+ \d+%", ""),  # bars are for terminals
    (r" +", " "),
)
#: What --wait says meanwhile depends on how fast the cluster is. A window that begins now is warned of by a
#: server whose clock is not behind.
PROGRESS = re.compile(
    r'queue "[\w-]+": (not |Draining|Active is|Accepting is|Closing|Blocked)'
    r"|Waiting for deployment "
    r'|Warning: window \S+ of queue "[\w-]+" is on from now'
)
#: What only reads: it is repeated until the cluster is as far.
READS = re.compile(
    r"kubectl (get |events |auth can-i |queue (get|list|tree|usage|why|history|windows (?!skip|start|extend)"
    r"|drain .*--dry-run|reclaim .*--dry-run|policy explain|status))"
)
FILLED_NODE = re.compile(r"^(.*-POD) (node-\d)$")
NAMES_ITS_QUEUE = re.compile(r"kubectl annotate (?:namespace|ns)[ /](\S+) scheduling.volcano.sh/queue-name=")


def reader_shell(
    cluster: LocalCluster, *, kubeconfig: Path, home: Path, folder: Path
) -> Callable[[str], str]:
    """The shell of a reader, who has the programs of the cluster on PATH: what a command prints.

    `home`: the reader's home. `folder`: where commands run.
    """
    environ = {
        "PATH": f"{cluster.layout.bin}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "KUBECONFIG": str(kubeconfig),
    }

    def run(command: str) -> str:
        return subprocess.run(
            ["/bin/bash", "-c", command],
            cwd=folder,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=120,
        ).stdout

    return run


def follow(
    page: str,
    cluster: LocalCluster,
    folder: Path,
    *,
    home: Path | None = None,
    done: Callable[[str], None] = lambda command: None,
) -> int:
    """How many commands there were. `done`: called after each.

    They run in `folder`, where the files that they write are. `home`: of the reader; by default the same.
    """
    reader = _Reader(cluster, folder, home or folder)
    number = 0
    for step in steps(page):
        if step.command.startswith("export "):
            continue
        reader.take(step)
        if named := NAMES_ITS_QUEUE.match(step.command):
            wait_for_members_of(cluster, named[1])
        done(step.command)
        number += 1
    return number


class _Reader:
    def __init__(self, cluster: LocalCluster, folder: Path, home: Path) -> None:
        self._cluster, self._folder, self._home = cluster, folder, home

    def take(self, step: Step) -> None:
        wanted, printed = comparable(step.output), self._run(step)
        end = time.monotonic() + PATIENCE
        while READS.match(step.command) and printed != wanted and time.monotonic() < end:
            printed = self._run(step)
        assert printed == wanted, f"{step.command}\nprinted: {printed}\nwanted: {wanted}"

    def _run(self, step: Step) -> list[str]:
        kubeconfig = self._kubeconfig(step.editor_of)
        shell = reader_shell(self._cluster, kubeconfig=kubeconfig, home=self._home, folder=self._folder)
        return comparable(shell(step.command))

    def _kubeconfig(self, editor_of: str) -> Path:
        """The administrator's, or that of a user who has `edit` in this namespace."""
        given: Path = self._cluster.layout.kubeconfig
        if not editor_of:
            return given
        path = self._home / f".kubeconfig-{editor_of}"
        if not path.exists():
            user = f"editor-of-{editor_of}"
            self._cluster.kubectl(
                "create",
                "rolebinding",
                user,
                "--clusterrole=edit",
                f"--user={user}",
                f"--namespace={editor_of}",
            )
            content = yaml.safe_load(given.read_text())
            for each in content["users"]:
                each["user"]["as"] = user
            path.write_text(yaml.safe_dump(content))
        return path


def comparable(output: str) -> list[str]:
    lines = [line for line in output.splitlines() if line.strip() and not PROGRESS.match(line)]
    for pattern, replacement in REPLACED:
        lines = [re.sub(pattern, replacement, line) for line in lines]
    lines = [line.rstrip() for line in lines]
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
