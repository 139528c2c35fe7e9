"""The workflows run the make targets that everybody runs, and nothing that stands only there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from release.attestations import checksums
from tests.support import yaml_texts
from tests.support.paths import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
#: What publishes a release: no target, since it needs the rights of the workflow.
PUBLISHING = {"Push the image", "Publish the files"}


def steps(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_make_targets(path: Path) -> None:
    workflow = yaml_texts.load(path.read_text())
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
    workflow = yaml_texts.load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}


def test_a_release_attests_what_it_has_built_before_it_publishes_that_and_nothing_else() -> None:
    """`make release` writes SHA256SUMS last; each file in it is attested and published; so is the image."""
    [path] = [path for path in WORKFLOWS if path.stem == "release"]
    workflow = yaml_texts.load(path.read_text())
    assert workflow[True] == {"push": {"tags": ["v*"]}}, "YAML reads `on` as true"
    *_, built, files, pushed, image, published = steps(workflow)
    assert built["run"].endswith("make release")
    assert files["with"] == {"subject-checksums": "dist/SHA256SUMS"}
    assert pushed["id"] == "image"
    assert 'repository="ghcr.io/${GITHUB_REPOSITORY,,}"' in pushed["run"]
    assert 'IMAGE_REPOSITORY="ghcr.io/${GITHUB_REPOSITORY,,}"' in built["run"], "the chart's default"
    assert {files["uses"], image["uses"]} == {"actions/attest-build-provenance@v2"}
    assert image["with"]["subject-digest"] == "${{ steps.image.outputs.digest }}"
    *_, create = published["run"].splitlines()
    assert create.endswith('dist/SHA256SUMS "${files[@]}"')


def test_the_published_files_are_those_with_a_checksum(tmp_path: Path) -> None:
    """uv leaves `.gitignore` in dist/, and the chart is there as a folder too."""
    [path] = [path for path in WORKFLOWS if path.stem == "release"]
    [read] = [
        line for line in steps(yaml_texts.load(path.read_text()))[-1]["run"].splitlines() if "mapfile" in line
    ]
    for name in (".gitignore", "a.whl", "b.tgz"):
        (tmp_path / "dist").mkdir(exist_ok=True)
        (tmp_path / "dist" / name).write_text(name)
    named = [tmp_path / "dist" / name for name in ("a.whl", "b.tgz")]
    (tmp_path / "dist" / "SHA256SUMS").write_text(checksums(named))
    script = f'{read}\nprintf "%s\\n" "${{files[@]}}"'
    done = subprocess.run(
        ["/bin/bash", "-ec", script], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == ["dist/a.whl", "dist/b.tgz"]
