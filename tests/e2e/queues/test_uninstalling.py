"""The page's way to remove it all, typed as it stands there: nobody waits for what is gone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from localcluster.scheduler_config import Configuration, without_extenders
from queues import labels as names
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until
from tests.support.e2e.workloads import DEPLOYMENT, work_body
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "operating.md").read_text().split("\n## Removing it\n")[1]
#: The commands of each step, in its order.
STEPS = [
    re.findall(r"^ +\$ (.+)$", step, re.MULTILINE)
    for step in re.split(r"^\d\. ", PAGE, flags=re.MULTILINE)[1:]
]
LATE = {"late": "yes"}


def test_the_steps_in_their_order_leave_nobody_waiting(own_sandbox: Sandbox) -> None:
    assert [bool(step) for step in STEPS] == [True, True, False, True, True, False]
    queue = own_sandbox.queue()
    own_sandbox.api.patch(f"/api/v1/namespaces/{own_sandbox.namespace}", annotated(queue)).must()
    until(
        lambda: names.MARKER in str(own_sandbox.pod("late", dry=True).must().body),
        "the namespace to be known",
    )
    own_sandbox.pod("late", nodeSelector=LATE).must(201)
    own_sandbox.suspend(queue)
    own_sandbox.make(DEPLOYMENT, work_body(DEPLOYMENT, "web", "", replicas=2)).must(201)
    until(
        lambda: len(typed(own_sandbox, STEPS[0][1]).splitlines()) == 2, "the Deployment's pods to be parked"
    )

    assert queue in typed(own_sandbox, STEPS[0][0])
    own_sandbox.edit(queue, state="Open")
    until(lambda: not typed(own_sandbox, STEPS[0][1]) + typed(own_sandbox, STEPS[0][2]), "all to be let go")

    for command in STEPS[1]:
        typed(own_sandbox, command)
    own_sandbox.cluster.configure_scheduler(answered_by_nobody)
    own_sandbox.cluster.stop_components("server")  # as the Deployment's pods end
    for command in (*STEPS[3], *STEPS[4]):
        typed(own_sandbox, command)
    typed(own_sandbox, f"kubectl label nodes --all {'='.join(*LATE.items())}")
    own_sandbox.all_bound(["late"])

    own_sandbox.cluster.configure_scheduler(without_extenders)
    own_sandbox.pods("plain", 2)
    own_sandbox.all_bound(own_sandbox.read_pods())
    marked = {name for name, pod in own_sandbox.read_pods().items() if names.MARKER in str(pod["spec"])}
    assert (marked & {"late", "plain-0", "plain-1"}) == {"late"}
    assert "sluice" not in typed(own_sandbox, "kubectl get namespaces --show-labels")
    assert "volcano" not in typed(own_sandbox, "kubectl get customresourcedefinitions")


def annotated(queue: str) -> dict[str, dict[str, dict[str, str]]]:
    return {"metadata": {"annotations": {"scheduling.volcano.sh/queue-name": queue}}}


def answered_by_nobody(configuration: Configuration) -> None:
    for extender in configuration["extenders"]:
        extender["ignorable"] = True


def typed(sandbox: Sandbox, command: str) -> str:
    """What the shell prints, in the project's folder."""
    layout = sandbox.cluster.layout
    path = f"{layout.bin}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "KUBECONFIG": str(layout.kubeconfig)}
    typed = ["/bin/sh", "-c", command]
    done = subprocess.run(typed, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert not done.returncode or "| grep" in command, f"{command}: {done.stderr}"
    return done.stdout
