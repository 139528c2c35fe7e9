"""One version: each place that names it says what `pyproject.toml` says.

| place                                  | what it says                                                    |
|----------------------------------------|-----------------------------------------------------------------|
| `uv.lock`                              | the version of the package                                      |
| `CHANGELOG.md`                         | the newest section; Unreleased has no entry                     |
| `docs/operating/upgrade-by-version.md` | the newest section, `From 0.2 to 0.3` for 0.3.0                 |
| `manifests/deployment/deployment.yaml` | the tag of the image                                            |
| `manifests/crds/kustomization.yaml`    | label `app.kubernetes.io/version` of the definitions            |
| `README.md`, `docs/`                   | names of the files and images of a release, in commands         |

The chart and the plugin take theirs from `pyproject.toml`. `make release` refuses a checkout whose places
disagree.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

CHANGELOG = "CHANGELOG.md"
STEPS = "docs/operating/upgrade-by-version.md"
DEPLOYMENT = "manifests/deployment/deployment.yaml"
DEFINITIONS = "manifests/crds/kustomization.yaml"
LABEL = "app.kubernetes.io/version"
NUMBER = r"\d+\.\d+\.\d+"

_SECTION = re.compile(rf"^## ({NUMBER})", re.MULTILINE)
_STEPS = re.compile(r"^## From \d+\.\d+ to (\d+\.\d+)$", re.MULTILINE)
_IMAGE = re.compile(rf"image: sluice:({NUMBER})$", re.MULTILINE)
#: A file or an image of a release, as pages name it: `sluice-0.3.0.tgz`, `$IMAGE:0.3.0`, `?ref=v0.3.0`.
_PART = re.compile(rf"(?:\bsluice[-:]|\$IMAGE:|\bkubectl_queue-|\?ref=v)({NUMBER})")


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What one place says. `version` is empty if it says none."""

    place: str
    version: str


def stated_versions(files: Mapping[str, str]) -> list[Statement]:
    """What the places say besides `pyproject.toml`. `files`: their texts, by their paths in the checkout."""
    stated = [
        Statement(place="uv.lock", version=_locked(files["uv.lock"])),
        Statement(place=CHANGELOG, version=_first(_SECTION, files[CHANGELOG])),
        Statement(place=DEPLOYMENT, version=_first(_IMAGE, files[DEPLOYMENT])),
        Statement(place=DEFINITIONS, version=_labelled(files[DEFINITIONS])),
    ]
    pages = {path: set(_PART.findall(text)) for path, text in files.items() if path.endswith(".md")}
    pages.pop(CHANGELOG)
    return stated + [
        Statement(place=path, version=version) for path in sorted(pages) for version in sorted(pages[path])
    ]


def disagreements(version: str, files: Mapping[str, str]) -> list[str]:
    """A line for each place that does not say `version`, and for entries that no version has."""
    lines = [
        f"{each.place} says {each.version or 'no version'}"
        for each in stated_versions(files)
        if each.version != version
    ]
    if waiting := unreleased_entries(files[CHANGELOG]):
        lines.append(f"{CHANGELOG} has entries under Unreleased ({len(waiting)}); move them to {version}")
    if (steps := _first(_STEPS, files[STEPS])) != version.rpartition(".")[0]:
        lines.append(f"{STEPS} has steps to {steps or 'no version'}")
    return lines


def unreleased_entries(changelog: str) -> Sequence[str]:
    """The entries under Unreleased."""
    section = changelog.partition("\n## Unreleased\n")[2].partition("\n## ")[0]
    return re.findall(r"^- .*", section, re.MULTILINE)


def changelog_versions(changelog: str) -> Sequence[str]:
    """The versions that have a section, the newest first."""
    return _SECTION.findall(changelog)


def version_files(root: Path) -> Mapping[str, str]:
    """The texts of all places in a checkout, by their paths."""
    pages = [root / "README.md", *(root / "docs").rglob("*.md")]
    paths = [*(root / path for path in ("uv.lock", CHANGELOG, DEPLOYMENT, DEFINITIONS)), *pages]
    return {path.relative_to(root).as_posix(): path.read_text() for path in paths}


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1] if found else ""


def _locked(text: str) -> str:
    packages: list[dict[str, Any]] = tomllib.loads(text)["package"]
    return next((each["version"] for each in packages if each["name"] == "sluice"), "")


def _labelled(text: str) -> str:
    labels: list[dict[str, Any]] = yaml.safe_load(text).get("labels", [])
    return next((str(each["pairs"][LABEL]) for each in labels if LABEL in each["pairs"]), "")
