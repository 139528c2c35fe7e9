"""The page's way to remove it all, typed as it stands there: nobody waits for what is gone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from localcluster.scheduler_config import Configuration, without_extenders
from queues import labels as names
from tests.support.e2e.stage import Stage
from tests.support.e2e.waiting_for import until
from tests.support.e2e.work import DEPLOYMENT, work_body
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "operating.md").read_text().split("\n## Removing it\n")[1]
#: The commands of each step, in its order.
STEPS = [
    re.findall(r"^ +\$ (.+)$", step, re.MULTILINE)
    for step in re.split(r"^\d\. ", PAGE, flags=re.MULTILINE)[1:]
]
LATE = {"late": "yes"}


def test_the_steps_in_their_order_leave_nobody_waiting(corner: Stage) -> None:
    assert [bool(step) for step in STEPS] == [True, True, False, True, True, False]
    queue = corner.queue()
    corner.api.patch(f"/api/v1/namespaces/{corner.namespace}", annotated(queue)).must()
    until(lambda: names.MARKER in str(corner.pod("late", dry=True).must().body), "the namespace to be known")
    corner.pod("late", nodeSelector=LATE).must(201)
    corner.suspend(queue)
    corner.make(DEPLOYMENT, work_body(DEPLOYMENT, "web", "", replicas=2)).must(201)
    until(lambda: len(typed(corner, STEPS[0][1]).splitlines()) == 2, "the Deployment's pods to be parked")

    assert queue in typed(corner, STEPS[0][0])
    corner.edit(queue, state="Open")
    until(lambda: not typed(corner, STEPS[0][1]) + typed(corner, STEPS[0][2]), "all to be let go")

    for command in STEPS[1]:
        typed(corner, command)
    corner.cluster.configure_scheduler(answered_by_nobody)
    corner.cluster.stop_components("server")  # as the Deployment's pods end
    for command in (*STEPS[3], *STEPS[4]):
        typed(corner, command)
    typed(corner, f"kubectl label nodes --all {'='.join(*LATE.items())}")
    corner.all_bound(["late"])

    corner.cluster.configure_scheduler(without_extenders)
    corner.pods("plain", 2)
    corner.all_bound(corner.read_pods())
    marked = {name for name, pod in corner.read_pods().items() if names.MARKER in str(pod["spec"])}
    assert (marked & {"late", "plain-0", "plain-1"}) == {"late"}
    assert "sluice" not in typed(corner, "kubectl get namespaces --show-labels")
    assert "volcano" not in typed(corner, "kubectl get customresourcedefinitions")


def annotated(queue: str) -> dict[str, dict[str, dict[str, str]]]:
    return {"metadata": {"annotations": {"scheduling.volcano.sh/queue-name": queue}}}


def answered_by_nobody(configuration: Configuration) -> None:
    for extender in configuration["extenders"]:
        extender["ignorable"] = True


def typed(stage: Stage, command: str) -> str:
    """What the shell prints, in the project's folder."""
    layout = stage.cluster.layout
    path = f"{layout.bin}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "KUBECONFIG": str(layout.kubeconfig)}
    typed = ["/bin/sh", "-c", command]
    done = subprocess.run(typed, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert not done.returncode or "| grep" in command, f"{command}: {done.stderr}"
    return done.stdout
