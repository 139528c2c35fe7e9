"""The workflows run the make targets that everybody runs, and nothing that stands only there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.paths import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
#: What publishes a release: no target, since it needs the rights of the workflow.
PUBLISHING = {"Push the image", "Publish the files"}


def steps(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_make_targets(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text())
    commands = [
        step["run"] for step in steps(workflow) if "run" in step and step.get("name") not in PUBLISHING
    ]
    assert commands
    for command in commands:
        target = re.search(r"\bmake ([a-z-]+)$", command)
        assert target, command
        assert target[1] in TARGETS, command


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_has_no_more_rights_than_it_names(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
